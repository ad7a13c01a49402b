"""Gives what we say the shape of the form its conversation subscriptions in.

The same draft always becomes the same events, so a journal may hold them before anything has been published.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tenex.core.errors import ConfigurationError
from tenex.core.ports import OutgoingMessage, Sealer, UnsignedEvent
from tenex.nostr.threading.base import Tag
from tenex.nostr.threading.new_thread import begin

from .threading import scheme_named
from .urls import normalise_url

_BY_A_MACHINE: Final[tuple[Tag, ...]] = (("L", "agent"), ("l", "ai", "agent"))
"""NIP-32: what we publish says of itself that no person wrote it."""


class NostrSealer(Sealer):
    """Seals drafts in the form their address names."""

    def __init__(self, relays: Sequence[str], *, project: str | None = None) -> None:
        """Take the configured relays and the address of our project's event, where there is one.

        Raises:
            ConfigurationError: some of the relays are no relay urls; names each.
        """
        self._relays = _normalised(relays)
        self._marks: tuple[Tag, ...] = ((("a", project),) if project else ()) + _BY_A_MACHINE

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """Make the events of a draft, in order, a second apart; more than one where the text is too long for one.

        Raises:
            Bug: the address names no form of ours, or the tags alone are too large.
        """
        return scheme_named(draft.address.get("form")).seal(draft, self._marks)

    def begin(self, draft: OutgoingMessage, title: str, people: Sequence[str]) -> tuple[UnsignedEvent, dict[str, Any]]:
        """Make the first event of a conversation of its own, and its address; `draft` names the one it comes from.

        Raises:
            Bug: the address names no form of ours.
        """
        return begin(replace(draft, tags=(*draft.tags, *self._marks)), title, tuple(people))

    def relays(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """Name where the conversation was opened, where the asker wrote, then the configured relays; each once.

        What belongs to a group (NIP-29) goes to the group's relay only.
        """
        opened_on = tuple(draft.address.get("relays", ()))
        if draft.address.get("group"):
            return opened_on or tuple(draft.reply_to.get("relays", ()))
        asked_on = tuple(draft.reply_to.get("relays", ()))
        return tuple(dict.fromkeys((*opened_on, *asked_on, *self._relays)))

    def others(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """Name the relays that the message itself hints at, without those of `relays`; none within a group."""
        if draft.address.get("group"):
            return ()
        known = self.relays(draft)
        return tuple(relay for relay in draft.reply_to.get("hints", ()) if relay not in known)


def _normalised(relays: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    faults: list[str] = []
    for relay in relays:
        try:
            found[normalise_url(relay)] = None
        except ValueError as fault:
            faults.append(f"relays: {fault}")
    if faults:
        raise ConfigurationError(faults)
    return tuple(found)
