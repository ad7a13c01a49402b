"""`tenex agents lessons`: list what agents have learned and from whom, and remove it."""

import asyncio
from typing import Annotated, Any, Final

import typer

from . import output
from .options import Globals, group, register
from .times import local_time

PATIENCE: Final = 20.0
"""Seconds for the daemon's answer, which needs one flush to disk."""

lessons = group("List the lessons that agents have learned, and remove one.")

AgentOption = Annotated[str, typer.Option("--agent", metavar="SLUG", help="Only the lessons of this agent.")]
NumberArgument = Annotated[int, typer.Argument(metavar="NUMBER", help="As `tenex agents lessons list` numbers them.")]


@register(lessons, "list")
def list_(given: Globals, agent: AgentOption = "") -> None:
    """List the lessons that agents are shown: who learned each, when, in which conversation and for which user."""
    from tenex.operations.lessons import StoredLessons, as_dict
    from tenex.settings import resolve_paths

    where = resolve_paths(given.settings())
    found = [as_dict(one) for one in StoredLessons(where.conversations).all_lessons() if agent in ("", one.agent)]
    lines = []
    for one in found:
        user = f"{one['role']} {one['author'][:12]}" if one["author"] else "an unknown user"
        lines.append(f"{one['number']}  {one['agent']}  {output.one_line(one['title'])}")
        lines.append(f"   {local_time(one['at'])}, in {one['conversation'][:12]}, for {user}")
        lines += [f"   {line}" for line in one["lesson"].splitlines()]
    given.show(found, "\n".join(lines), "" if found else f"There are no lessons{f' of {agent}' if agent else ''}.")


@register(lessons)
def remove(given: Globals, number: NumberArgument) -> None:
    """Remove a lesson, so that no agent is shown it any more. Works with and without a running daemon."""
    from tenex.operations.lessons import remove_lesson, unknown
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.daemon_journal import DaemonJournal
    from tenex.store.disk import Disk

    from .daemon import ask_or_run

    where = resolve_paths(given.settings())
    if not where.conversations.is_dir():  # locking it would make the folder
        raise unknown(number)

    async def run() -> dict[str, Any]:
        disk = Disk()
        journal = await DaemonJournal.open(where.conversations, disk, SystemClock())
        try:
            return await remove_lesson(journal, number)
        finally:
            await journal.close()
            disk.close()

    check = "tenex agents lessons list"
    asking = ask_or_run(where, "remove_lesson", {"number": number}, run, patience=PATIENCE, check=check)
    removed, by_daemon = asyncio.run(asking)
    text = f"removed: {removed['number']}  {removed['agent']}  {output.one_line(removed['title'])}"
    note = "The running daemon no longer shows it to agents; work in progress has already seen it."
    given.show({"removed": removed, "by": "daemon" if by_daemon else "command"}, text, note if by_daemon else "")
