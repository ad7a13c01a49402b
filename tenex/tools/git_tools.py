"""`git_status` and `git_diff`: what has changed in the workspace's own repository.

git runs in the sandbox, with the workspace read-only and without a network, and its hooks, monitors and drivers are
switched off: the repository's settings may have been written by an agent.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox
from .checkpoints import Checkpoints
from .daemon_programs import find_program
from .dependencies import ToolDependencies, ToolTable
from .git_config import GIT_ALONE, folders_elsewhere, why_no_repository
from .process import plain_text
from .shadow_git import CheckpointFailed
from .tool import Refusal, Tool, boolean, object_schema, string
from .workspace import Workspace

DEADLINE: Final = 20.0
"""Seconds: a large repository takes one."""

MOST_OUTPUT: Final = 64 * 1024
"""Bytes shown: a change of 1,500 lines, the most anybody reviews in one look."""

_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^@{}-]{0,199}")
"""What names one commit: it cannot begin like an option, and holds no range and no search."""

_SETTINGS: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.quotePath": "false",
    "color.ui": "false",
    "diff.external": "",
    "safe.directory": "*",
    "status.relativePaths": "false",
    "submodule.recurse": "false",
}


def git_status_tool(workspace: Workspace) -> Tool:
    """The tool `git_status`; only where the sandbox works."""

    async def body(_: Mapping[str, Any], __: ExecutionContext) -> ToolResult:
        shown = await _git(
            workspace, "status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=all"
        )
        is_clean = all(line.startswith("## ") for line in shown.splitlines())
        return ToolResult(ok=True, content=f"{shown}\nNothing has changed." if is_clean else shown)

    return Tool(
        name="git_status",
        description="Shows the branch and which files have changed, as `git status --short` does.",
        parameters=object_schema({}),
        access=Access.READ,
        replay=Replay.READ,
        body=body,
    )


def git_diff_tool(workspace: Workspace, checkpoints: Checkpoints | None = None) -> Tool:
    """The tool `git_diff`; only where the sandbox works."""

    def of_cycle(path: str, context: ExecutionContext) -> str:
        if checkpoints is None:
            raise Refusal("What this cycle changed is not known: there are no checkpoints. Leave out `cycle`.")
        within = "." if not path else workspace.relative(workspace.resolve(path))
        touched = [name for name in context.touched if within in (".", name) or name.startswith(f"{within}/")]
        try:
            return checkpoints.diff_of(context.conversation_id, {"cycle": str(context.cycle)}, touched)
        except CheckpointFailed as error:
            raise Refusal(f"What this cycle changed cannot be shown: {error}.") from error

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        if arguments.get("cycle"):
            patch = await asyncio.to_thread(of_cycle, arguments.get("path") or "", context)
            return ToolResult(ok=True, content=_shortened(patch) or "This cycle has changed nothing there.")
        against = arguments.get("against") or "HEAD"
        if not _REVISION.fullmatch(against) or ".." in against or ":" in against:
            raise Refusal("`against` must name one commit, branch or tag, such as `HEAD~1` or `main`.")
        paths = []
        if arguments.get("path"):
            paths.append(workspace.relative(await asyncio.to_thread(workspace.resolve, arguments["path"])))
        shown = await _git(
            workspace,
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            "--stat",
            "--patch",
            "--end-of-options",
            against,
            "--",
            *paths,
        )
        return ToolResult(ok=True, content=shown or "Nothing differs. (Files git does not know are never shown here.)")

    return Tool(
        name="git_diff",
        description=(
            "Shows how the workspace differs from a commit, staged or not, without files that git does not know; or "
            "with `cycle` what this cycle's calls changed, new files too."
        ),
        parameters=object_schema(
            {},
            {
                "path": string(),
                "against": string("A commit, branch or tag; `HEAD` unless given.", max_length=200),
                "cycle": boolean(),
            },
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=body,
    )


def _shortened(patch: str) -> str:
    """A patch without its middle, where it is longer than what is shown of one."""
    if len(patch) <= MOST_OUTPUT:
        return patch
    left = len(patch) - MOST_OUTPUT
    return f"{patch[: MOST_OUTPUT // 2]}\n[{left} characters left out; name a `path`]\n{patch[-MOST_OUTPUT // 2 :]}"


async def _git(workspace: Workspace, *arguments: str) -> str:
    return plain_text(await run_git(workspace, *arguments))


async def run_git(
    workspace: Workspace,
    *arguments: str,
    settings: Mapping[str, str] = {},
    more: Mapping[str, str] = {},
    can_write: bool = False,
) -> str:
    """What git prints.

    Args:
        workspace: its repository is used.
        arguments: the command's own.
        settings: further settings of git.
        more: further variables.
        can_write: whether the workspace with its repository may be written to.

    Raises:
        Refusal: there is no repository, no git, or git fails.
    """
    given = [word for name, value in {**_SETTINGS, **settings}.items() for word in ("-c", f"{name}={value}")]
    command = [await asyncio.to_thread(_program, workspace), *given, *arguments]
    elsewhere = await asyncio.to_thread(folders_elsewhere, workspace.root)
    variables = {**_environment(), **more}
    line = sandbox.wrapped(workspace.root, command, variables, folders=elsewhere, can_write=can_write)
    outcome = await process.run(
        line,
        cwd=workspace.root,
        environment={},
        deadline=DEADLINE,
        most_output=MOST_OUTPUT,
        umask=workspace.umask,
    )
    if outcome.status is None:
        raise Refusal(f"git took longer than {DEADLINE:g} s; name a `path` to make it less.")
    if outcome.status != 0:
        printed = plain_text(outcome.output)
        if "ambiguous argument 'HEAD'" in printed or "bad revision 'HEAD'" in printed:
            raise Refusal("The repository has no commit yet; `git_status` shows what there is.")
        raise Refusal(f"git failed: {printed.splitlines()[0][:300] if printed else 'it gave no reason'}.")
    return outcome.output


def _program(workspace: Workspace) -> str:
    program = find_program("git", workspace.root)
    if program is None:
        raise Refusal("git is not installed on this machine; `read_file` and `list_files` show what there is.")
    if why := why_no_repository(workspace.root):
        raise Refusal(f"{why} `read_file` and `list_files` show what there is.")
    return program


def _environment() -> dict[str, str]:
    return {
        **GIT_ALONE,
        **sandbox.clean_environment(sandbox.HOME),
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
    }


def _has_repository(parts: ToolDependencies) -> bool:
    """Whether git can be run here, and finds a repository."""
    return parts.has_sandbox and not why_no_repository(parts.workspace.root)


TOOLS: Final[ToolTable] = {
    "git_status": lambda parts: git_status_tool(parts.workspace) if _has_repository(parts) else None,
    "git_diff": lambda parts: git_diff_tool(parts.workspace, parts.checkpoints) if _has_repository(parts) else None,
}
