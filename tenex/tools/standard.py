"""The built-in tools. To add one: write its factory, and add a line to `_TOOLS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .ask_complete import ASK, COMPLETE
from .checkpoints import Checkpoints
from .files_read import list_files_tool, read_file_tool, search_files_tool
from .files_write import delete_file_tool, edit_file_tool, move_file_tool, write_file_tool
from .git_commit import git_commit_tool
from .git_tools import git_diff_tool, git_status_tool
from .learn import Lessons, learn_tool
from .project_runs import ProjectRuns
from .sandbox import RunPolicy
from .search_conversation import PastMessages, search_conversation_tool
from .serialized_calls import Transactions
from .shell import Programs, ShellRules, check_tool, python_tool, shell_tool
from .tool import Tool
from .workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDependencies:
    """What the built-in tools are made of.

    Args:
        workspace: the folder they work in.
        lessons: the store of `learn`.
        past_messages: what `search_conversation` searches; None where no conversations are stored, as in a preview.
        check: how `check` may run programs.
        shell: how `shell` may; not at all unless given.
        has_sandbox: bubblewrap works here, so git may be run on the workspace's own repository.
        transactions: those of the registry; without, programs may not write to the workspace in every phase.
        scratch: where programs get empty folders; the system's unless given.
        commits: agents may commit in the workspace's repository.
        runs: where runs of the project's tests are recorded; nowhere unless given.
    """

    workspace: Workspace
    lessons: Lessons
    past_messages: PastMessages | None = None
    check: RunPolicy = RunPolicy.OFF
    shell: ShellRules = ShellRules()
    has_sandbox: bool = False
    transactions: Transactions | None = None
    scratch: Path | None = None
    runs: ProjectRuns | None = None
    commits: bool = False

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Those of the workspace; None where there are none."""
        return self.transactions.checkpoints if self.transactions is not None else None

    @property
    def programs(self) -> Programs | None:
        """How `shell` and `python` run programs; None where they are switched off."""
        if self.shell.policy is RunPolicy.OFF:
            return None
        may_write = (self.transactions or Transactions(self.workspace)).may_write
        return Programs(self.workspace, self.shell, may_write, self.scratch, self.runs)


_TOOLS: Final[Mapping[str, Callable[[ToolDependencies], Tool | None]]] = {
    "read_file": lambda d: read_file_tool(d.workspace),
    "list_files": lambda d: list_files_tool(d.workspace),
    "search_files": lambda d: search_files_tool(d.workspace),
    "git_status": lambda d: git_status_tool(d.workspace) if d.has_sandbox else None,
    "git_diff": lambda d: git_diff_tool(d.workspace, d.checkpoints) if d.has_sandbox else None,
    "git_commit": lambda d: git_commit_tool(d.workspace) if d.has_sandbox and d.commits else None,
    "write_file": lambda d: write_file_tool(d.workspace),
    "edit_file": lambda d: edit_file_tool(d.workspace),
    "move_file": lambda d: move_file_tool(d.workspace),
    "delete_file": lambda d: delete_file_tool(d.workspace),
    "check": lambda d: (
        None if d.check is RunPolicy.OFF else check_tool(d.workspace, d.check, scratch=d.scratch, path=d.shell.path)
    ),
    "shell": lambda d: shell_tool(d.programs) if d.programs else None,
    "python": lambda d: python_tool(d.programs) if d.programs else None,
    "search_conversation": lambda d: search_conversation_tool(d.past_messages),
    "learn": lambda d: learn_tool(d.lessons),
}
"""The tools by name, in the order in which models see them; None where one is switched off."""

TOOL_NAMES: Final = frozenset({*_TOOLS, ASK.name, COMPLETE.name})
"""Every tool an agent's definition may name, with those that are switched off."""


def standard_tools(dependencies: ToolDependencies) -> tuple[Tool, ...]:
    """The built-in tools that are switched on."""
    made = (make(dependencies) for make in _TOOLS.values())
    return tuple(tool for tool in made if tool is not None)
