"""A person's client in its barest form: one socket, and JSON as NIP-01 writes it."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from websockets.asyncio.client import connect

from tenex.core.ids import EventId
from tenex.nostr.events import sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey

PAGE = 500
"""Events a relay answers with at most; nostr-sdk's does, and says nothing of the others."""

Wire = dict[str, Any]

_made: set[EventId] = set()
"""Of the events without a given time."""


def note(key: SecretKey, text: str, *tags: Sequence[str], kind: int = 1, at: int | None = None) -> Wire:
    """A signed event as a relay takes it; without `at` the same words make another event each time."""
    stamp = int(time.time()) if at is None else at
    draft = unsigned_event(key.public, stamp, kind, tags, text)
    if at is None:
        while draft.id in _made:  # the same words within one second
            stamp += 1
            draft = unsigned_event(key.public, stamp, kind, tags, text)
        _made.add(draft.id)
    return to_wire(sign(draft, key))


async def publish(url: str, *events: Wire) -> None:
    """Hand events to a relay, which has to accept each."""
    async with asyncio.timeout(60), connect(url, max_size=None, proxy=None) as socket:
        for event in events:
            await socket.send(json.dumps(["EVENT", event]))
            while (answer := json.loads(await socket.recv()))[0] != "OK":
                pass
            assert answer[2] is True, answer


async def stored(url: str, **wanted: Any) -> list[Wire]:
    """Everything a relay keeps that matches, oldest first; a `_` in a name means the `#` of a tag's filter."""
    filters = {name.replace("_", "#"): value for name, value in wanted.items()}
    found: list[Wire] = []
    async with asyncio.timeout(60), connect(url, max_size=None, proxy=None) as socket:
        is_whole = False
        while not is_whole:
            page: list[Wire] = []
            await socket.send(json.dumps(["REQ", "all", filters]))
            while (frame := json.loads(await socket.recv()))[0] != "EOSE":
                if frame[0] == "EVENT":
                    page.append(frame[2])
            earlier = {event["id"] for event in found}
            more = [event for event in page if event["id"] not in earlier]
            found += more
            is_whole = len(page) < PAGE or not more
            filters["until"] = min((event["created_at"] for event in page), default=0)
    return sorted(found, key=lambda event: (event["created_at"], event["id"]))


async def until(holds: Callable[[], Any], within: float = 60.0) -> Any:
    """Return what `holds` gives, once it gives something; it polls, as files of another process notify no one."""
    async with asyncio.timeout(within):
        while not (found := holds()):
            await asyncio.sleep(0.02)
    return found
