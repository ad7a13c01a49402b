"""Opens the store of conversations that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tenex.core.errors import ConfigurationError
from tenex.core.installation import pip_install
from tenex.core.ports import Clock

from .conversations import Conversations
from .disk import Disk
from .repository import ConversationFolder

if TYPE_CHECKING:
    from .postgres.conversations import PostgresConversations


@asynccontextmanager
async def open_shared(
    url: str, root: Path, disk: Disk, clock: Clock, *, daemon: str = ""
) -> AsyncIterator["PostgresConversations"]:
    """The store in the database of that address; its tables are made, or brought up to date.

    Args:
        url: the address.
        root: the folder of readable files and the index.
        disk: has the threads that encode and decode.
        clock: the wall clock.
        daemon: the version of the daemon of that folder, where this is it; empty for a command beside it.

    Raises:
        ConfigurationError: psycopg is not installed, or a newer program made the tables.
        StoreError: the database cannot be reached.
    """
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        install = pip_install(extra="postgres")
        raise ConfigurationError([f"store: psycopg is not installed; run `{install}`"])
    from .postgres.conversations import PostgresConversations

    async with PostgresConversations.connected(url, root, disk, clock, daemon=daemon) as store:
        yield store


@asynccontextmanager
async def open_conversations(url: str, root: Path, disk: Disk, clock: Clock) -> AsyncIterator[Conversations]:
    """The store of the setting `store`: the database of that address, or the folder where it is empty."""
    if not url:
        yield ConversationFolder(root, disk, clock)
        return
    async with open_shared(url, root, disk, clock) as store:
        yield store
