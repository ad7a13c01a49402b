"""The structure of the repository: layers, dependencies, where tests lie, and how long documents may be."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.chat import HISTORY, MARKS

from .imports import import_graph, modules_within, reached_from_package, rings
from .tree import ROOT, docstring_of, name_of, named, text_of

LINTER = Path(sys.executable).with_name("lint-imports")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SPECIAL = (
    "benchmarks bugs fakes histories interop kits mutation packaging properties repository service simulation site"
)
"""Folders of tests that belong to no package alone."""


def test_the_contracts_are_kept() -> None:
    """import-linter finds every contract kept in the package as it is, and every module in a layer."""
    words = [str(LINTER), "--no-cache", "--no-logo"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(PROJECT['tool']['importlinter']['contracts'])} kept, 0 broken." in done.stdout


KINDS = sorted(f"tenex.workflows.{path.parent.name}" for path in ROOT.glob("tenex/workflows/*/kind.py"))
"""The folders that hold a kind of conversation, as packages."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_conversation_knows_another(kind: str) -> None:
    """Also not through agents or what kinds share."""
    others = [other for other in KINDS if other != kind]
    assert len(others) >= 3
    assert modules_within(others, reached_from_package(kind, import_graph())) == []


def test_what_kinds_of_conversation_share_knows_none_of_them() -> None:
    users = [*KINDS, "tenex.workflows.agents", "tenex.workflows.definitions"]
    assert modules_within(users, reached_from_package("tenex.workflows.kit", import_graph())) == []


def test_a_kind_that_knows_another_is_found_also_through_what_they_share() -> None:
    graph = {**import_graph()}
    speakers = "tenex.workflows.speakers.state"
    graph["tenex.core.kind"] |= {speakers}
    assert speakers in modules_within(KINDS, reached_from_package("tenex.workflows.single", graph))


def test_every_module_of_the_core_is_in_one_of_its_layers() -> None:
    """The contract of the core's layers holds only what it names."""
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["tenex.core"]]
    listed = [module.strip() for layer in layers for module in layer.split(":")]
    core = ROOT / "tenex" / "core"
    paths = [
        path.relative_to(core).with_suffix("") for path in named(".py", "tenex", "core") if path.stem != "__init__"
    ]
    whole = {module for module in listed if (core / module).is_dir()}
    modules = {".".join(path.parts) for path in paths if path.parts[0] not in whole} | whole
    assert sorted(listed) == sorted(modules), "add a new module to its layer in pyproject.toml"


def test_no_modules_import_each_other_in_a_ring() -> None:
    """A ring is read as one file, whatever its files are called; an import for types alone is part of it too."""
    assert rings(import_graph()) == []


def test_rings_are_found_also_behind_functions_type_checks_and_packages() -> None:
    graph = import_graph()
    assert "tenex.cli.shared.lookup" in graph["tenex.cli.shared.register"]  # within a function
    assert "tenex.settings" in graph["tenex.cli.shared.options"]  # for type checkers
    assert "tenex.cli.shared.output" in graph["tenex.cli.trust"]  # `from .shared import output`
    sample = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert rings({name: frozenset(names) for name, names in sample.items()}) == [("a", "b", "c"), ("d", "e")]


def test_what_commands_share_imports_no_command() -> None:
    shared = {module: names for module, names in import_graph().items() if module.startswith("tenex.cli.shared")}
    assert len(shared) > 10
    outside = {name for names in shared.values() for name in names if not name.startswith("tenex.cli.shared")}
    assert not {name for name in outside if name.startswith("tenex.cli")}


def test_every_declared_package_is_imported() -> None:
    declared = {_canonical(re.split(r"[\[=<>!~ ;]", line)[0]) for line in PROJECT["project"]["dependencies"]}
    modules = packages_distributions()
    imported = {_canonical(name) for module in _imported() for name in modules.get(module, ())}
    assert declared - imported == set()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported() -> set[str]:
    found: set[str] = set()
    for path in named(".py", "tenex"):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_every_test_module_states_what_it_is_about() -> None:
    """Tests are read to learn what the program does; ruff checks the modules of the package."""
    assert not [name_of(path) for path in named(".py", "tests") if text_of(path).strip() and not docstring_of(path)]


def test_tests_lie_where_the_package_has_a_folder_or_are_of_a_special_kind() -> None:
    """`tests/<package>/` mirrors `tenex/<package>/`; what does not is one of the special kinds."""
    paths = (path.relative_to(ROOT / "tests") for path in named(".py", "tests"))
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    packages = {path.parent.name for path in named(".py", "tenex") if path.name == "__init__.py"}
    assert folders <= packages.union(SPECIAL.split())


def test_no_file_imports_from_a_module_of_tests() -> None:
    """What several modules need is in `tests/kits`, or in a kit of their folder."""
    pattern = re.compile(r"^\s*(?:from|import)\s.*\btest_\w+", re.MULTILINE)
    paths = [path for path in named(".py", "tests") if "\nfrom " in text_of(path)]
    assert len(paths) > 400
    assert not [f"{name_of(path)}: {line}" for path in paths for line in pattern.findall(text_of(path))]


def test_decisions_are_short_enough_to_be_read_in_one_go() -> None:
    """One that needs more than 40 lines has not been understood yet."""
    records = [path for path in named(".md", "docs", "adr") if path.name != "README.md"]
    assert len(records) >= 9
    assert not [path.name for path in records if len(text_of(path).splitlines()) > 40]


def test_what_a_demo_writes_to_the_repository_is_ignored_by_git() -> None:
    written = [HISTORY, MARKS, "tenex.log", "tenex.sock", "keys/owner.nsec", "workspace/hello.py", "checkpoints/x"]
    ignored = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ignored.stdout.split() == written
