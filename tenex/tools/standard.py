"""The tools that ship with the daemon, in the order in which a model sees them."""

from pathlib import Path
from typing import Final

from .ask_complete import ASK, COMPLETE
from .check import CheckPolicy, check_tool
from .files_move import delete_file_tool, move_file_tool
from .files_read import list_files_tool, read_file_tool
from .files_search import search_files_tool
from .files_write import edit_file_tool, write_file_tool
from .git_tools import git_diff_tool, git_status_tool
from .learn import Lessons, learn_tool
from .python import python_tool
from .serialized_calls import Transactions
from .shell import ShellPolicy, ShellRules, shell_tool
from .tool import Tool
from .workspace import Workspace

TOOL_NAMES: Final = frozenset(
    (
        "read_file",
        "list_files",
        "search_files",
        "git_status",
        "git_diff",
        "write_file",
        "edit_file",
        "move_file",
        "delete_file",
        "check",
        "shell",
        "python",
        "learn",
        ASK.name,
        COMPLETE.name,
    )
)
"""Every tool an agent's definition may name, those that are switched off too."""


def standard_tools(
    workspace: Workspace,
    lessons: Lessons,
    *,
    check: CheckPolicy = CheckPolicy.OFF,
    shell: ShellRules | None = None,
    has_sandbox: bool = False,
    transactions: Transactions | None = None,
    scratch: Path | None = None,
) -> tuple[Tool, ...]:
    """Every tool of ours over one workspace; those that run programs only where that is permitted.

    Args:
        workspace: the folder they work in.
        lessons: where `learn` keeps them.
        check: how `check` may run programs.
        shell: how `shell` may; not at all unless given.
        has_sandbox: bubblewrap works here, so git may be run on the workspace's own repository.
        transactions: those of the registry the tools are for; without, `shell` may not write in every phase.
        scratch: where programs get empty folders; the system's place unless given.
    """
    turns = transactions or Transactions(workspace)
    git = (git_status_tool(workspace), git_diff_tool(workspace)) if has_sandbox else ()
    checks = () if check is CheckPolicy.OFF else (check_tool(workspace, check, scratch=scratch),)
    shells = (
        ()
        if shell is None or shell.policy is ShellPolicy.OFF
        else tuple(
            make(workspace, shell, may_write=turns.may_write, scratch=scratch) for make in (shell_tool, python_tool)
        )
    )
    return (
        read_file_tool(workspace),
        list_files_tool(workspace),
        search_files_tool(workspace),
        *git,
        write_file_tool(workspace),
        edit_file_tool(workspace),
        move_file_tool(workspace),
        delete_file_tool(workspace),
        *checks,
        *shells,
        learn_tool(lessons),
    )
