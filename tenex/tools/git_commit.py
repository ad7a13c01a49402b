"""`git_commit`: commits the files of this cycle in the workspace's own repository, where the operator permits it.

A person's settings of that repository may name commands, and the files of these commands may lie in the workspace,
where agents write. So git runs in the sandbox, without hooks and signatures, and a file with a filter is refused: for
this one program the repository is writable, and nothing of an agent's may run beside it.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolDependencies, ToolTable
from .git_config import why_no_repository
from .git_tools import run_git
from .process import named
from .tool import Refusal, Tool, object_schema, string
from .workspace import Workspace

LONGEST_MESSAGE: Final = 4_000
"""Characters."""

_SETTINGS: Final = {
    "commit.gpgSign": "false",
    "commit.status": "false",
    "commit.template": "",
    "core.commentChar": ";",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_COMMITTER: Final = {"GIT_COMMITTER_NAME": "tenex", "GIT_COMMITTER_EMAIL": "tenex@localhost"}
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


def git_commit_tool(workspace: Workspace, *, asks: bool = False) -> Tool:
    """The tool `git_commit`; only where the sandbox works. With `asks` a person allows each commit."""

    async def git(*arguments: str, writes: bool = False) -> str:
        return await run_git(workspace, *arguments, settings=_SETTINGS, more=_COMMITTER, can_write=writes)

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        message = arguments["message"].strip()
        if not message or "\0" in message:
            raise Refusal("`message` is empty or holds a NUL character; say what was changed, and why.")
        if not await asyncio.to_thread((workspace.root / ".git").is_dir):
            raise Refusal("The repository of the workspace lies elsewhere, so a person has to commit.")
        paths = await _to_commit(git, sorted(context.touched))
        author = _NO_NAME.sub("-", context.agent)
        await git("add", "--all", "--", *paths, writes=True)
        options = ("--only", "--no-verify", "--quiet", "--cleanup=whitespace", f"--author={author} <{author}@tenex>")
        await git("commit", *options, f"--message={message}", "--", *paths, writes=True)
        made = (await git("rev-parse", "--short", "HEAD")).strip()
        return ToolResult(ok=True, content=f"Committed as {made}: {named(paths)}.")

    return Tool(
        name="git_commit",
        description=(
            "Commits the files that this cycle changed, as they are now, with you as the author. Call it once the work "
            f"is verified.{' A person is asked.' if asks else ''}"
        ),
        parameters=object_schema(
            {"message": string("A subject line; why, after an empty line.", max_length=LONGEST_MESSAGE)}
        ),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=body,
        leaves_changes=False,
        asks=asks,
        why="each commit is asked about (`workspace.commit`)",
    )


async def _to_commit(git: Any, touched: Sequence[str]) -> list[str]:
    """The files of this cycle that git may commit: changed, not ignored, without a filter.

    Raises:
        Refusal: there are none, or one has a filter.
    """
    if not touched:
        raise Refusal(
            "This cycle has changed no files, so there is nothing to commit by this tool. For older changes use "
            "`shell` with `write_git: true`."
        )
    listed = await git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *touched)
    known = sorted({path for path in listed.split("\0") if path} & set(touched))
    if not known:
        raise Refusal("git ignores all files that this cycle has changed, so there is nothing to commit.")
    attributes = (await git("check-attr", "-z", "filter", "--", *known)).split("\0")
    filtered = [path for path, value in zip(attributes[::3], attributes[2::3], strict=False) if _is_filter(value)]
    if filtered:
        raise Refusal(f"A filter of the repository applies to {named(filtered)}; a person has to commit these.")
    status = await git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *known)
    entries = (entry.rpartition("\n")[2] for entry in status.split("\0"))  # git may warn before one
    changed = sorted({entry[3:] for entry in entries} & set(known))
    if not changed:
        raise Refusal("The files of this cycle are committed already.")
    return changed


def _is_filter(value: str) -> bool:
    return value not in ("unspecified", "unset", "")


def _git_commit(parts: ToolDependencies) -> Tool | None:
    is_permitted = parts.has_sandbox and parts.commits
    is_there = is_permitted and not why_no_repository(parts.workspace.root)
    return git_commit_tool(parts.workspace, asks=parts.commit_asks) if is_there else None


TOOLS: Final[ToolTable] = {"git_commit": _git_commit}
