"""Writes for the user as any client does: an event in the form of its conversation, signed by their key, to its relays.

The daemon reads it there and checks it like every other. A page signs only where the settings permit it and the key
of an owner is in the folder; else it drafts what a browser may sign.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tenex.configuration.agents import OWNER, PROJECT
from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import PublicKey
from tenex.nostr.client_requests import AGENT_CHANGE
from tenex.nostr.events import Event, is_genuine, sign, unsigned_event
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.operations.asks import Replied
from tenex.operations.replies import Draft, checked, drafted_note, drafted_reply, publish
from tenex.settings import ProjectPaths, Settings


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes as the owner whose key is in the folder, or drafts for who signs in a browser."""

    settings: Settings
    places: ProjectPaths
    is_loopback: bool
    """Whether the pages are on a port of this machine alone; else `web.answers` has to permit it."""

    def why_not(self) -> str:
        """Why a page cannot sign, as a sentence with what to do; empty where it can."""
        wanted = self.settings.web.answers
        if wanted == "off" or (wanted == "auto" and not self.is_loopback):
            return 'Answers are off here: `web.answers` is "off", or "auto" and the pages are not on a port alone.'
        try:
            self._owner()
            self._project()
        except ConfigurationError as fault:
            return f"Answers need the key of an owner: {fault}. Or answer with your own client."
        return ""

    @property
    def is_off(self) -> bool:
        """Whether nothing is written from pages, with any key."""
        return self.settings.web.answers == "off"

    async def write(self, replied: Replied | None, text: str) -> tuple[str, ...]:
        """Sign and publish an answer; returns the ids of its events once a relay has taken them.

        Without a message that it replies to it begins a conversation.

        Raises:
            UsageError: there is no text, or too much, or this page may not sign.
            TransientError: no relay took it in time.
        """
        words = checked(text)
        if why := self.why_not():
            raise UsageError(why)
        owner = self._owner()
        draft = self._draft(replied, words, owner.public)
        await publish([sign(event, owner) for event in draft.events], draft.relays, owner)
        return tuple(event.id for event in draft.events)

    async def choose_model(self, agent: str, model: str) -> None:
        """Publish the owner's choice of a model for an agent, by its slug, as clients do (kind 24020).

        Raises:
            UsageError: this page may not sign, or there is no such agent.
            TransientError: no relay took it in time.
        """
        if why := self.why_not():
            raise UsageError(why)
        owner = self._owner()
        try:
            key = KeyRing(*self.places.key_folders).read(agent).public
        except ConfigurationError as error:
            raise UsageError(f"There is no agent {agent[:40]!r} here. Nothing was sent.") from error
        tags = [("p", key), ("model", model)]
        event = unsigned_event(owner.public, int(time.time()), AGENT_CHANGE, tags, "")
        await publish([sign(event, owner)], self.settings.relays.urls, owner)

    def draft_by(self, replied: Replied | None, text: str, author: str) -> Draft:
        """An answer for a key in the browser to sign.

        Raises:
            UsageError: there is no text, or too much, or that key may not talk here.
        """
        words = checked(text)
        if self.is_off:
            raise UsageError(self.why_not())
        try:
            key = parse_public_key(author)
            role = self.settings.peer_group(parse_public_key).role(key)
        except (ValueError, ConfigurationError) as error:
            raise UsageError("The browser has given no public key that can be read. Nothing was sent.") from error
        if role is None:
            raise UsageError("The key in the browser is of no owner and no member here. Nothing was sent.")
        return self._draft(replied, words, key)

    async def publish(self, draft: Draft, events: Sequence[Event]) -> tuple[str, ...]:
        """Publish a draft that a browser has signed; returns the ids of its events once a relay has taken them.

        Raises:
            UsageError: it is not what was drafted, or not signed by its author.
            TransientError: no relay took it in time.
        """
        wanted = [event.id for event in draft.events]
        # an id is the hash of all but the signature, which `parse_event` has checked
        if [event.id for event in events] != wanted or not all(map(is_genuine, events)):
            raise UsageError("The browser has signed something else, or not with its key. Nothing was sent.")
        await publish(events, draft.relays, None)
        return tuple(wanted)

    def _owner(self) -> SecretKey:
        """The owner's key.

        Raises:
            ConfigurationError: there is none, or it is no owner's.
        """
        ring = KeyRing(*self.places.key_folders)
        owner = ring.get(OWNER)
        if owner.public not in self.settings.peer_group(parse_public_key).owners:
            raise ConfigurationError([f"{ring.file(OWNER)} is not the key of an owner in the settings"])
        return owner

    def _project(self) -> PublicKey:
        """The project's address.

        Raises:
            ConfigurationError: there is none.
        """
        return KeyRing(*self.places.key_folders).read(PROJECT).public

    def _draft(self, replied: Replied | None, text: str, author: PublicKey) -> Draft:
        if replied is None:
            return drafted_note(text, author, self._project(), self.settings.relays.urls)
        return drafted_reply(replied, text, author, self._project(), self.settings.relays.urls)
