"""Every package that is declared as a dependency is imported somewhere."""

import ast
import re
import tomllib
from importlib.metadata import packages_distributions

from .tree import ROOT, files


def test_every_declared_package_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {_canonical(re.split(r"[\[=<>!~ ;]", line)[0]) for line in project["dependencies"]}
    modules = packages_distributions()
    imported = {_canonical(name) for module in _imported() for name in modules.get(module, ())}
    assert declared - imported == set()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported() -> set[str]:
    found: set[str] = set()
    for path in files():
        if path.suffix != ".py" or not path.is_relative_to(ROOT / "tenex"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found
