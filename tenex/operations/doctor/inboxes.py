"""Where owners look for private messages: their inbox relays (kind 10050), as the relays of the settings know them."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from tenex.configuration.agents import OWNER, PROJECT
from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey
from tenex.nostr.events import Event
from tenex.nostr.keys import Key, KeyRing, npub, parse_public_key
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import INBOX_RELAYS, inbox_relays

from .findings import Case, Finding, count_text, ok, warning

TIMEOUT: Final = 4.0
"""Seconds for all relays."""
LOOK: Final = 0.05
"""Seconds between two looks whether they are connected."""


def inboxes(case: Case) -> Iterator[Finding]:
    """Name the owners who have none; nothing where no relay answers, which the check `relays` reports.

    The owner whose key is in the folder writes with `tenex chat`, which has no direct messages.
    """
    ring = KeyRing(*case.paths.key_folders)
    local = _key(ring, OWNER)
    try:
        everybody = case.settings.peer_group(parse_public_key).owners
    except ConfigurationError:  # the check `configuration` reports it
        return
    owners = sorted(owner for owner in everybody if local is None or owner != local.public)
    if not owners or not case.settings.relays.urls:
        return
    try:
        lists = asyncio.run(_lists(case.settings.relays.urls, owners, _key(ring, PROJECT)))
    except ValueError:  # not a relay URL
        return
    if lists is None:
        return
    named = {event.pubkey for event in lists if inbox_relays(event)}
    for owner in owners:
        if owner not in named:
            yield warning(
                "this owner has no inbox relays (kind 10050), so answers to direct messages may not be seen",
                npub(owner),
                "choose relays for direct messages in the owner's client, and send that list to the project's relays",
            )
    if named:
        yield ok(f"{count_text(len(named), 'owner')} with inbox relays for direct messages")


def _key(ring: KeyRing, name: str) -> Key | None:
    try:
        return ring.read(name)
    except ConfigurationError:
        return None


async def _lists(urls: Sequence[str], owners: Sequence[PublicKey], identity: Key | None) -> list[Event] | None:
    """The lists that the relays have; None if none of them has answered."""
    pool = RelayPool(urls, on_event=lambda _event, _relay: None, identity=identity)
    unread: list[str] = []
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pool.run(), name="relays")
        try:
            if not await _any_connected(pool):
                return None
            lists = await pool.fetch([{"kinds": [INBOX_RELAYS], "authors": list(owners)}], TIMEOUT, unread)
        finally:
            running.cancel()
    return None if not lists and len(unread) == len(pool.status()) else lists


async def _any_connected(pool: RelayPool) -> bool:
    """Whether a relay is connected, once each is or could not be."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT):
            while not all(relay.connected or relay.fault for relay in pool.status()):  # noqa: ASYNC110 it tells no one
                await asyncio.sleep(LOOK)
    return any(relay.connected for relay in pool.status())
