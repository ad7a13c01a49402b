"""`tenex agents lessons`: list what agents have learned and from whom, edit it, and remove it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals
from tenex.cli.shared.register import group, register
from tenex.cli.shared.times import local_time

if TYPE_CHECKING:
    from tenex.store.daemon_journal import DaemonJournal, LessonLearned

PATIENCE: Final = 20.0
"""Seconds for the daemon's answer, which needs one flush to disk."""

lessons = group("List, edit and remove the lessons of agents.")

AgentOption = Annotated[str, typer.Option("--agent", metavar="SLUG", help="Only the lessons of this agent.")]
TitleOption = Annotated[str | None, typer.Option("--title", help="The new title.")]
TextOption = Annotated[str | None, typer.Option("--text", help="The new text.")]
NumberArgument = Annotated[int, typer.Argument(metavar="NUMBER", help="As `tenex agents lessons list` numbers them.")]


@register(lessons, "list")
def list_(given: Globals, agent: AgentOption = "") -> None:
    """List the lessons that agents are shown: who learned each, when, in which conversation and for which user."""
    from .changes import as_dict

    found = [as_dict(lesson) for lesson in _stored(given) if agent in ("", lesson.agent)]
    lines = []
    for one in found:
        user = f"{one['role']} {one['author'][:12]}" if one["author"] else "an unknown user"
        lines.append(f"{one['number']}  {one['agent']}  {output.one_line(one['title'])}")
        shown = "shown to every agent" if one["about"] == "workspace" else "shown to this agent"
        lines.append(f"   {local_time(one['at'])}, in {one['conversation'][:12]}, for {user}, {shown}")
        lines += [f"   {line}" for line in one["lesson"].splitlines()]
    given.show(found, "\n".join(lines), "" if found else f"There are no lessons{f' of {agent}' if agent else ''}.")


@register(lessons)
def edit(given: Globals, number: NumberArgument, title: TitleOption = None, text: TextOption = None) -> None:
    """Change a lesson's title and text: those given, else in your editor. Works with and without a running daemon."""
    from .changes import edit_lesson, unknown

    old = next((lesson for lesson in _stored(given) if lesson.number == number), None)
    if old is None:
        raise unknown(number)
    if title is None and text is None:
        title, text = _in_editor(old.title, old.lesson)

    async def change(journal: "DaemonJournal") -> dict[str, Any]:
        return await edit_lesson(journal, number, title, text)

    words = {"number": number, "title": title, "text": text}
    edited, by_daemon = _carried_out(given, "edit_lesson", words, change)
    shown = f"edited: {edited['number']}  {edited['agent']}  {output.one_line(edited['title'])}"
    note = "The running daemon shows it to agents from now on; work in progress has seen the old one."
    given.show({"edited": edited, "by": "daemon" if by_daemon else "command"}, shown, note if by_daemon else "")


@register(lessons)
def remove(given: Globals, number: NumberArgument) -> None:
    """Remove a lesson, so that no agent is shown it any more. Works with and without a running daemon."""
    from tenex.settings import resolve_paths

    from .changes import remove_lesson, unknown

    if not resolve_paths(given.settings()).conversations.is_dir():  # locking it would make the folder
        raise unknown(number)

    async def take_away(journal: "DaemonJournal") -> dict[str, Any]:
        return await remove_lesson(journal, number)

    removed, by_daemon = _carried_out(given, "remove_lesson", {"number": number}, take_away)
    text = f"removed: {removed['number']}  {removed['agent']}  {output.one_line(removed['title'])}"
    note = "The running daemon no longer shows it to agents; work in progress has already seen it."
    given.show({"removed": removed, "by": "daemon" if by_daemon else "command"}, text, note if by_daemon else "")


def _stored(given: Globals) -> "Sequence[LessonLearned]":
    """The lessons, the oldest first."""
    from tenex.operations.lessons import read_lessons
    from tenex.settings import resolve_paths

    settings = given.settings()
    return asyncio.run(read_lessons(settings.store, resolve_paths(settings).conversations)).all_lessons()


def _carried_out(
    given: Globals, word: str, words: Mapping[str, Any], change: Callable[["DaemonJournal"], Awaitable[dict[str, Any]]]
) -> tuple[dict[str, Any], bool]:
    """The changed lesson, and whether the running daemon changed it."""
    from tenex.cli.shared.daemon import ask_or_run
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.daemon_journal import DaemonJournal
    from tenex.store.disk import Disk
    from tenex.store.opening import open_conversations

    settings = given.settings()
    where = resolve_paths(settings)

    async def run() -> dict[str, Any]:
        disk = Disk()
        clock = SystemClock()
        try:
            async with open_conversations(settings.store, where.conversations, disk, clock) as conversations:
                journal = await DaemonJournal.open(conversations.daemon_records(), clock)
                try:
                    return await change(journal)
                finally:
                    await journal.close()
        finally:
            disk.close()

    return asyncio.run(ask_or_run(where, word, words, run, patience=PATIENCE, check="tenex agents lessons list"))


def _in_editor(title: str, text: str) -> tuple[str, str]:
    """What the user made of a lesson in the editor of `$EDITOR`: the first line is its title."""
    import click

    from tenex.core.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError("An editor needs a terminal: pass `--title` or `--text`.")
    try:
        written = click.edit(f"{title}\n\n{text}\n", extension=".md")
    except click.ClickException as error:
        raise UsageError(f"{error.message}. Set `EDITOR`, or pass `--title` and `--text`.") from error
    if written is None:
        raise UsageError("Nothing was changed: the file was not saved.")
    first, _, rest = written.strip().partition("\n")
    return first, rest
