"""Opens the folder of conversations for a command, and finds the conversation that a user names."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

import tenex.workflows  # noqa: F401 - registers the kinds of conversation: what is looked up is folded and shown
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.operations.short_ids import conversation_of
from tenex.runtime.clock import SystemClock
from tenex.settings import resolve_paths
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.opening import open_conversations
from tenex.store.search import Filter

from . import output
from .list_search import rows
from .options import Globals

T = TypeVar("T")

NewestIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; default: the newest.", show_default=False)
]
AllIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; default: all.", show_default=False)
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.", show_default=False)]


def on_folder(given: Globals, work: Callable[[Conversations, Disk], Awaitable[T]]) -> T:
    """Run a coroutine on the conversations of the settings' store.

    Raises:
        StoreError: this user may not read it, or it cannot be reached.
    """
    settings = given.readable_settings()
    where = resolve_paths(settings)
    disk = Disk()
    if not where.data.is_dir():
        output.message(f"tenex: {where.data}: no such folder. `tenex init` makes it; --data names another.")

    async def main() -> T:
        async with open_conversations(settings.store, where.conversations, disk, SystemClock()) as folder:
            return await work(folder, disk)

    try:
        return asyncio.run(main())
    except PermissionError as error:
        place = error.filename or where.conversations
        raise StoreError(f"{place}: {error.strerror}. Run this as the daemon's user, or as root.") from error
    finally:
        disk.close()


async def find(folder: Conversations, start: str) -> ConversationId:
    """The conversation whose id begins with `start`; the newest where that is empty.

    Raises:
        UsageError: there is none, or several.
    """
    if start:
        return await find_named(folder, start)
    newest = await rows(folder, Filter(), 1)
    if not newest:
        raise UsageError(f"There are no conversations in {folder.place}.")
    return ConversationId(str(newest[0]["id"]))


async def find_named(folder: Conversations, start: str) -> ConversationId:
    """The same for commands that change something: an empty variable of a script must not mean the newest.

    Raises:
        UsageError: there is none, or several, or no id is given.
    """
    if not start:
        raise UsageError("No conversation is named: the id is empty. `tenex conversations list` shows them.")
    return ConversationId(conversation_of(start, await folder.lengths()))


async def read_records(folder: Conversations, name: ConversationId) -> list[Record]:
    """The readable records of a conversation, with a warning on stderr where some are missing."""
    records, missing = await folder.read_left(name)
    if missing:
        output.message(f"tenex: incomplete: {missing}")
    return records
