"""The built-in tools as the core knows them, all switched on, so that tests keep no list of tools of their own."""

import tempfile
from pathlib import Path
from typing import Any, Final

from tenex.core.config import ToolRule
from tenex.core.phases import Access
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import ShellRules
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace


def _rules() -> dict[str, ToolRule]:
    lessons: Any = None
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / ".git"
        for part in ("objects", "refs"):
            (repository / part).mkdir(parents=True)
        (repository / "HEAD").write_text("ref: refs/heads/main\n")
        dependencies = ToolDependencies(
            workspace=Workspace(Path(folder)),
            lessons=lessons,
            check=RunPolicy.SANDBOXED,
            shell=ShellRules(policy=RunPolicy.SANDBOXED),
            has_sandbox=True,
            commits=True,
        )
        return dict(ToolRegistry(standard_tools(dependencies), lambda _: None).rules())


RULES: Final = _rules()


def tools_with(*access: Access) -> frozenset[str]:
    """The names of the tools with one of these accesses."""
    return frozenset(name for name, rule in RULES.items() if rule.access in access)
