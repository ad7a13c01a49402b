"""Definitions of agents as TENEX's clients publish them (kind 4199): found by their address, and read.

What they say is their author's; nothing here believes it.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.errors import OperatorError
from tenex.core.ids import EventId, PublicKey
from tenex.nostr.addresses import is_private
from tenex.nostr.events import Event
from tenex.nostr.filters import Filter
from tenex.nostr.keys import EventAddress
from tenex.nostr.pool import RelayPool
from tenex.nostr.threading.base import MAX_HINTS, first_value, hint, tags_named

AGENT_DEFINITION: Final = 4199
MAX_BYTES: Final = 64 * 1024
"""Of all texts of a definition: relays accept events of 64 KiB, and a model reads it with every message."""
MAX_NAMES: Final = 100
"""Tools, servers or phases of one definition."""
TIMEOUT: Final = 8.0
"""Seconds for a relay, which is connected to first."""
PATIENCE: Final = 1.5
"""Seconds for the others once one has given a version: there may be a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAgent:
    """What a definition says, as it is written."""

    event: EventId
    author: PublicKey
    created_at: int
    """Seconds, by the author's clock."""
    identifier: str
    """The name under which its author publishes newer versions; "" where there is none."""
    title: str
    description: str
    role: str
    use_when: str
    instructions: str
    tools: tuple[str, ...]
    servers: tuple[str, ...]
    """Ids of the definitions of MCP servers (kind 4200)."""
    phases: tuple[tuple[str, str], ...]
    """Names of phases, each with the instructions for it."""
    model: str


def read_definition(event: Event) -> PublishedAgent:
    """Read a definition.

    Raises:
        OperatorError: it is of another kind, says nothing, or is too large.
    """
    if event.kind != AGENT_DEFINITION:
        raise OperatorError(f"The event {event.id[:12]} is of kind {event.kind}, and agents are {AGENT_DEFINITION}.")
    size = len(event.content.encode()) + sum(len(part.encode()) for tag in event.tags for part in tag)
    if size > MAX_BYTES:
        raise OperatorError(f"The definition has {size:,} bytes, and {MAX_BYTES:,} is the most: it is left alone.")
    title = first_value(event, "title", "name", "d")
    description = first_value(event, "description")
    instructions = event.content.strip() or first_value(event, "instructions").strip() or description
    if not title.strip() or not instructions.strip():
        raise OperatorError(f"The definition {event.id[:12]} says nothing: it has no title, or no instructions.")
    return PublishedAgent(
        event=event.id,
        author=event.pubkey,
        created_at=event.created_at,
        identifier=first_value(event, "d"),
        title=title,
        description=description,
        role=first_value(event, "role"),
        use_when="; ".join(_values(event, "use-criteria")),
        instructions=instructions,
        tools=_values(event, "tool"),
        servers=_values(event, "mcp"),
        phases=tuple((tag[1], tag[2]) for tag in tags_named(event, "phase") if len(tag) > 2)[:MAX_NAMES],
        model=first_value(event, "model"),
    )


async def fetch_definition(address: EventAddress, relays: Sequence[str]) -> Event:
    """Fetch the event of an address: by its id, or the newest of its author and name.

    Args:
        address: what is wanted; the relays it names are asked too, the first few at public addresses.
        relays: where the operator looks, which may be anywhere.

    Raises:
        OperatorError: there is none, it is forged, or it is not what the address says.
    """
    if address.id is None and address.kind != AGENT_DEFINITION:
        raise OperatorError(f"This is the address of a kind {address.kind}, and agents are {AGENT_DEFINITION}.")
    wanted: Filter = {"ids": [address.id], "limit": 1}
    if address.id is None:
        wanted = {"authors": [address.author], "kinds": [address.kind], "#d": [address.identifier], "limit": 10}
    hints = [relay for relay in map(hint, address.relays) if relay and not is_private(relay)][:MAX_HINTS]
    asked = [*(_ask(wanted, [url], ()) for url in relays), *(_ask(wanted, (), [url]) for url in hints)]
    answers = await _gathered(asked, PATIENCE if address.id is None else 0)
    events = [event for answer in answers for event in answer.events]
    invalid = [sentence for answer in answers for sentence in answer.invalid]
    if not events and invalid:
        raise OperatorError(f"What a relay gave is not that definition: {invalid[0]}. Ask another with --relay URL.")
    if not events:
        silent = [url for answer in answers for url in answer.unread]
        away = f" No answer from {', '.join(silent)}." if silent else ""
        raise OperatorError(f"The definition is on none of the relays.{away} Name one that has it with --relay URL.")
    newest = min(events, key=lambda event: (-event.created_at, event.id))
    if address.author is not None and newest.pubkey != address.author:
        raise OperatorError("The address names another author than the event has: it is not what was recommended.")
    return newest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one relay gave."""

    events: Sequence[Event]
    unread: Sequence[str]
    invalid: Sequence[str]


async def _ask(wanted: Filter, urls: Sequence[str], hints: Sequence[str]) -> _Answer:
    unread: list[str] = []
    invalid: list[str] = []
    pool = RelayPool(urls, on_event=lambda *_: None, others_must_be_public=True)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pool.run(), name="relay")
        try:
            events = await pool.fetch([wanted], TIMEOUT, unread, hints, invalid)
        finally:
            running.cancel()
    return _Answer(events=events, unread=unread, invalid=invalid)


async def _gathered(asked: Sequence[Coroutine[Any, Any, _Answer]], patience: float) -> list[_Answer]:
    """The answers of all relays, or of those that are in `patience` seconds after the first that has something."""
    waiting = {asyncio.ensure_future(each) for each in asked}
    answers: list[_Answer] = []
    left: float | None = None
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            answers += [task.result() for task in done]
            if not done:
                break
            if any(answer.events for answer in answers):
                left = patience
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return answers


def _values(event: Event, name: str) -> tuple[str, ...]:
    values = (tag[1].strip() for tag in tags_named(event, name))
    return tuple(dict.fromkeys(filter(None, values)))[:MAX_NAMES]
