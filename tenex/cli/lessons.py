"""`tenex agents lessons`: what agents have learned, from whom, and taking it back."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import TenexError

from . import output
from .options import DataOption, JsonOption, group, open_settings

if TYPE_CHECKING:
    from tenex.settings import ProjectPaths

PATIENCE: Final = 20.0
"""Seconds for the daemon's answer, which takes one flush of the disk."""

lessons = group("List the lessons that agents have learned, and remove one.")

AgentOption = Annotated[str, typer.Option("--agent", metavar="SLUG", help="Only the lessons of this agent.")]
NumberArgument = Annotated[int, typer.Argument(metavar="NUMBER", help="As `tenex agents lessons list` numbers them.")]


@lessons.command(name="list")
def list_(ctx: typer.Context, agent: AgentOption = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the lessons that agents are shown: who learned each, when, in which conversation and on whose behalf."""
    from tenex.operations.lessons import StoredLessons, as_dict
    from tenex.settings import resolve_paths

    where = resolve_paths(open_settings(ctx, data))
    found = [as_dict(one) for one in StoredLessons(where.conversations).all_lessons() if agent in ("", one.agent)]
    if as_json:
        output.result_json(found)
        return
    for one in found:
        on_behalf = f"{one['role']} {one['author'][:12]}" if one["author"] else "an unknown person"
        learned = datetime.fromtimestamp(one["at"] / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
        output.result(f"{one['number']}  {one['agent']}  {output.one_line(one['title'])}")
        output.result(f"   {learned}, in {one['conversation'][:12]}, on behalf of {on_behalf}")
        output.result("".join(f"   {line}\n" for line in one["lesson"].splitlines()).rstrip("\n"))
    if not found:
        output.say(f"there are no lessons{f' of {agent}' if agent else ''}")


@lessons.command()
def remove(ctx: typer.Context, number: NumberArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Remove a lesson, so that no agent is shown it any more. A daemon may run or not."""
    from tenex.settings import resolve_paths

    removed, by_daemon = asyncio.run(_remove(resolve_paths(open_settings(ctx, data)), number))
    if as_json:
        output.result_json({"removed": removed, "by": "daemon" if by_daemon else "command"})
        return
    output.result(f"removed: {removed['number']}  {removed['agent']}  {output.one_line(removed['title'])}")
    if by_daemon:
        output.say("The running daemon shows it to no agent from now on; work that has begun was shown it.")
    else:
        output.say("No daemon runs; the next one will not show it.")


async def _remove(where: "ProjectPaths", number: int) -> tuple[dict[str, Any], bool]:
    """Have the daemon remove it, or remove it here where none runs.

    Raises:
        UsageError: there is no such lesson.
        StoreLocked: a daemon runs, and does not listen.
        TenexError: it does not answer.
    """
    from tenex.operations.lessons import remove_lesson, unknown
    from tenex.runtime.clock import SystemClock
    from tenex.service.client import ask
    from tenex.store.daemon_journal import DaemonJournal
    from tenex.store.disk import Disk
    from tenex.store.lock import FolderLock

    try:
        return await ask(where.socket, "remove_lesson", patience=PATIENCE, number=number), True
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        pass
    except OSError as fault:
        why = str(fault) or f"no answer within {PATIENCE:g} s"
        raise TenexError(
            f"The daemon at {where.socket} was asked, and whether it does it is not known: {why}. Look with "
            "`tenex agents lessons list`."
        ) from fault
    if not where.conversations.is_dir():  # opening it would make the folder
        raise unknown(number)
    disk = Disk()
    try:
        with FolderLock(where.conversations):
            book = await DaemonJournal.open(where.conversations, disk, SystemClock())
            try:
                return await remove_lesson(book, number), False
            finally:
                await book.close()
    finally:
        disk.close()
