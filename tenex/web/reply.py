"""Writes for the user as any client does: an event in the form of its conversation, signed by their key, to its relays.

The daemon reads it there and checks it like every other. A page may write only where the settings permit it and the key
of an owner is in the folder.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenex.configuration.agents import OWNER, PROJECT
from tenex.core.errors import ConfigurationError, TransientError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, PublishOutcome, UnsignedEvent
from tenex.core.text import well_formed
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import Event, sign
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.nostr.pool import RelayPool
from tenex.nostr.threading import read_event, scheme_of
from tenex.settings import ProjectPaths, Settings

from .asks import Replied

PATIENCE: Final = 10.0
"""Seconds for the relays: who has sent a form waits for the next page."""
LONGEST: Final = 20_000
"""Characters of an answer; the daemon takes no more of a message."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes as the owner whose key is in the folder."""

    settings: Settings
    places: ProjectPaths
    is_loopback: bool
    """Whether the pages are on a port of this machine alone; else `web.answers` has to permit it."""

    def why_not(self) -> str:
        """Why a page cannot write, as a sentence with what to do; empty where it can."""
        wanted = self.settings.web.answers
        if wanted == "off" or (wanted == "auto" and not self.is_loopback):
            return 'Answers are off here: `web.answers` is "off", or "auto" and the pages are not on a port alone.'
        try:
            self._keys()
        except ConfigurationError as fault:
            return f"Answers need the key of an owner: {fault}. Or answer with your own client."
        return ""

    async def write(self, replied: Replied, text: str) -> str:
        """Publish an answer to a message; returns the id of its event once a relay has taken it.

        Raises:
            UsageError: there is no text, or too much, or this page may not write.
            TransientError: no relay took it in time.
        """
        words = well_formed(text.replace("\r\n", "\n")).strip()
        if not words:
            raise UsageError("The answer is empty. Nothing was sent.")
        if len(words) > LONGEST:
            raise UsageError(f"The answer has {len(words):,} characters; {LONGEST:,} is the most. Nothing was sent.")
        if why := self.why_not():
            raise UsageError(why)
        owner, project = self._keys()
        draft = self._draft(replied, words, owner, project)
        events = scheme_of(draft).seal(draft, ())
        relays = NostrSealer(self.settings.relays.urls).relays(draft)
        outcomes = await _publish(events, relays, owner)
        if not any(outcome.accepted for outcome in outcomes):
            reasons = "; ".join(dict.fromkeys(outcome.detail for outcome in outcomes if outcome.detail))
            raise TransientError(f"No relay took the answer within {PATIENCE:g} s: {reasons or 'none answered'}.")
        return events[0].id

    def _keys(self) -> tuple[SecretKey, PublicKey]:
        """The owner's key and the project's address.

        Raises:
            ConfigurationError: there is none, or it is no owner's.
        """
        ring = KeyRing(self.places.keys)
        owner = ring.get(OWNER)
        if owner.public not in self.settings.peer_group(parse_public_key).owners:
            raise ConfigurationError([f"{self.places.keys / OWNER}.nsec is not the key of an owner in the settings"])
        return owner, ring.get(PROJECT).public

    def _draft(self, replied: Replied, text: str, owner: SecretKey, project: PublicKey) -> OutgoingMessage:
        """The answer, with the message it replies to as the threading scheme reads it."""
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
        return OutgoingMessage(
            speaker=owner.public,
            text=text,
            tags=(*to_project, ("uid", secrets.token_hex(8))),  # equal answers within a second are two
            created_at=max(int(time.time()), asked.created_at + 1),
            address=replied.address,
            reply_to=message.origin if message is not None else {},
        )


async def _publish(events: Sequence[UnsignedEvent], relays: Sequence[str], owner: SecretKey) -> list[PublishOutcome]:
    """Publish events to each of some relays, in order; the last outcome of each."""
    pool = RelayPool(relays, on_event=lambda _event, _relay: None, identity=owner)

    async def to(relay: str) -> PublishOutcome:
        outcome = PublishOutcome(accepted=False, detail=f"{relay}: no answer")
        try:
            async with asyncio.timeout(PATIENCE):
                for event in events:
                    outcome = await pool.publish(sign(event, owner), relay)
        except TimeoutError:
            pass
        return outcome

    async with asyncio.TaskGroup() as group:
        running = group.create_task(pool.run(), name="answer")
        try:
            return list(await asyncio.gather(*map(to, relays)))
        finally:
            running.cancel()
