"""`tenex worker`: takes one of the daemons of a shared database out of work, and back."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import TenexError, UsageError
from tenex.core.text.amounts import count, duration
from tenex.operations.status import worker_json
from tenex.runtime.clock import SystemClock
from tenex.settings import Settings, resolve_paths
from tenex.store.conversations import Worker
from tenex.store.disk import Disk
from tenex.store.opening import open_shared

from .shared import output
from .shared.options import Globals
from .shared.register import group, register

if TYPE_CHECKING:
    from tenex.store.postgres.conversations import PostgresConversations

LOOK: Final = 0.5
"""Seconds between two looks whether a daemon has handed everything over."""

worker = group("Take a daemon of a shared database out of work, and back.")

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A part of its name that no other has, as `tenex status` shows it; default: that of the data folder.",
        show_default=False,
    ),
]


@register(worker)
def drain(
    given: Globals,
    name: NameArgument = "",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Seconds to wait at most.")] = 60.0,
) -> None:
    """Have a daemon take nothing more, and wait until others have its conversations.

    Steps that run are finished, and their conversation is handed over when it rests; messages are taken by the others.
    Then stop it: nothing is cut off. A daemon that is started again takes conversations again.
    """
    asyncio.run(_on_store(given.settings(), lambda store: _drain(given, store, name, patience=timeout)))


@register(worker)
def resume(given: Globals, name: NameArgument = "") -> None:
    """Have a daemon that was drained take conversations again."""

    async def work(store: "PostgresConversations") -> None:
        wanted = _named(await store.workers(), name)
        await store.leases.drain(wanted.name, is_wanted=False)
        again = _named(await store.workers(), wanted.name)
        given.show(worker_json(again), f"{wanted.name} takes conversations again, within some seconds.")

    asyncio.run(_on_store(given.settings(), work))


async def _drain(given: Globals, store: "PostgresConversations", name: str, *, patience: float) -> None:
    wanted = _named(await store.workers(), name)
    if wanted.is_silent:
        raise TenexError(
            f"{wanted.name} has not reported itself for {duration(wanted.unseen)}: it has died or is cut off. Others "
            "take its conversations."
        )
    await store.leases.drain(wanted.name)
    others = [other for other in await store.workers() if other.name != wanted.name]
    if not any(not other.is_silent and not other.drains for other in others):
        output.message("tenex: no other daemon takes conversations now: messages wait until one does")
    until = time.monotonic() + patience
    while True:
        now = next((other for other in await store.workers() if other.name == wanted.name), None)
        if now is None or now.is_drained:
            break
        if time.monotonic() >= until:
            raise TenexError(
                f"{wanted.name} still writes {count(now.conversations, 'conversation')} after {patience:g} s; it takes "
                "nothing more. Run this again to wait on."
            )
        await asyncio.sleep(LOOK)
    shown: dict[str, Any] = worker_json(now) if now is not None else {"name": wanted.name, "state": "stopped"}
    given.show(shown, f"{wanted.name} writes no conversation, and takes none.")


async def _on_store(settings: Settings, work: Callable[["PostgresConversations"], Awaitable[None]]) -> None:
    """Do something with the database of the settings.

    Raises:
        UsageError: they name none.
    """
    if not settings.store:
        raise UsageError(
            "The setting `store` names no database, so there is one daemon. `tenex stop` lets it finish its steps."
        )
    disk = Disk()
    try:
        root = resolve_paths(settings).conversations
        async with open_shared(settings.store, root, disk, SystemClock()) as store:
            await work(store)
    finally:
        disk.close()


def _named(workers: Sequence[Worker], name: str) -> Worker:
    """The daemon of that name, or that of the data folder.

    Raises:
        UsageError: there is none, or there are several.
    """
    matches = [other for other in workers if other.name == name]
    matches = matches or [other for other in workers if (name in other.name if name else other.is_own)]
    if len(matches) == 1:
        return matches[0]
    which = f"with {name!r} in its name" if name else "of this data folder"
    number = "No daemon" if not matches else f"More than one daemon, {len(matches)},"
    raise UsageError(f"{number} {which} is known to the database. `tenex status` lists them.")
