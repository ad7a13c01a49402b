"""Messages that a person writes from here: drafted in the form of their conversation, then signed and published.

They go to relays as from any client, and the daemon checks them like every other.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.errors import TransientError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, PublishOutcome, UnsignedEvent
from tenex.core.text.foreign import well_formed
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import Event, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.threading import read_event, scheme_of
from tenex.nostr.threading.notes import NOTE

from .asks import Replied

PATIENCE: Final = 10.0
"""Seconds for the relays: who has sent a message waits for what follows."""
LONGEST: Final = 20_000
"""Characters of a message; the daemon takes no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message that is not signed, and where it goes."""

    events: tuple[UnsignedEvent, ...]
    relays: tuple[str, ...]


def checked(text: str) -> str:
    """The words of a message.

    Raises:
        UsageError: there are none, or too many.
    """
    words = well_formed(text.replace("\r\n", "\n")).strip()
    if not words:
        raise UsageError("The message is empty. Nothing was sent.")
    if len(words) > LONGEST:
        raise UsageError(f"The message has {len(words):,} characters; {LONGEST:,} is the most. Nothing was sent.")
    return words


def drafted_note(text: str, author: PublicKey, project: PublicKey, relays: Sequence[str]) -> Draft:
    """The note with which a person begins a conversation with the project; its id is the conversation's."""
    tags = [("p", project), ("uid", secrets.token_hex(8))]
    return Draft(events=(unsigned_event(author, int(time.time()), NOTE, tags, text),), relays=tuple(relays))


def drafted_reply(replied: Replied, text: str, author: PublicKey, project: PublicKey, relays: Sequence[str]) -> Draft:
    """A reply to a message, placed as the threading scheme of its conversation reads it.

    Args:
        replied: the message.
        text: the words.
        author: who writes them.
        project: the project's key, which is addressed too.
        relays: those of the settings.
    """
    asked = replied.event
    as_read = Event(
        id=asked.id,
        pubkey=asked.pubkey,
        created_at=asked.created_at,
        kind=asked.kind,
        tags=asked.tags,
        content=asked.content,
        sig="0" * 128,
    )
    message = read_event(as_read, (), {}, replied.relays[0], None)
    to_project = () if project == asked.pubkey else (("p", project),)
    outgoing = OutgoingMessage(
        speaker=author,
        text=text,
        tags=(*to_project, ("uid", secrets.token_hex(8))),  # equal answers within a second are two
        created_at=max(int(time.time()), asked.created_at + 1),
        address=replied.address,
        reply_to=message.origin if message is not None else {},
    )
    return Draft(
        events=tuple(scheme_of(outgoing).seal(outgoing, ())), relays=tuple(NostrSealer(relays).relays(outgoing))
    )


async def publish(events: Sequence[Event], relays: Sequence[str], identity: SecretKey | None) -> None:
    """Publish events to each of some relays, in order.

    Raises:
        TransientError: no relay took the last of them in time.
    """
    pool = RelayPool(relays, on_event=lambda _event, _relay: None, identity=identity)

    async def to(relay: str) -> PublishOutcome:
        outcome = PublishOutcome(accepted=False, detail=f"{relay}: no answer")
        try:
            async with asyncio.timeout(PATIENCE):
                for event in events:
                    outcome = await pool.publish(event, relay)
        except TimeoutError:
            pass
        return outcome

    async with asyncio.TaskGroup() as group:
        running = group.create_task(pool.run(), name="answer")
        try:
            outcomes = await asyncio.gather(*map(to, relays))
        finally:
            running.cancel()
    if not any(outcome.accepted for outcome in outcomes):
        reasons = "; ".join(dict.fromkeys(outcome.detail for outcome in outcomes if outcome.detail))
        raise TransientError(f"No relay took the message within {PATIENCE:g} s: {reasons or 'none answered'}.")
