"""A login by a signature (NIP-98): a key in the browser signs one event for one request to this page.

It says which address is asked, how, and when. So it is of use nowhere else, not for longer than a minute, and only
once here. Only owners are let in: who is logged in can read every conversation.
"""

import base64
import binascii
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from tenex.core.errors import InvalidEvent
from tenex.core.ids import PublicKey
from tenex.nostr.events import Event, is_genuine, parse_event

KIND: Final = 27_235
WINDOW: Final = 60
"""Seconds by which its date may differ from our clock, as NIP-98 says."""
LONGEST: Final = 8_000
"""Characters of the header."""
REMEMBERED: Final = 1_000
"""Logins that are remembered, so that none is good twice; older ones are out of the window."""


class KeyLogins:
    """Judges the signatures that browsers log in with."""

    def __init__(self, is_owner: Callable[[PublicKey], bool], *, now: Callable[[], float] = time.time) -> None:
        """Take who may log in, and the wall clock."""
        self._is_owner = is_owner
        self._now = now
        self._used: OrderedDict[str, None] = OrderedDict()

    def why_not(self, header: str, url: str) -> str:
        """Why a request to `url` with this `Authorization` does not log in, as a sentence; "" where it does, once."""
        return self.judge(_event_of(header), url)

    def judge(self, event: Event | None, url: str) -> str:
        """The same for an event that was signed for that address."""
        if event is None:
            return "The browser has signed nothing that can be read."
        if event.kind != KIND or _values(event, "u") != [url] or _values(event, "method") != ["POST"]:
            return "What was signed is not for this page."
        if abs(self._now() - event.created_at) > WINDOW:
            return "What was signed has another time than this machine. Set the clocks, and try again."
        if not self._is_owner(event.pubkey):
            return "This key is not an owner's."
        if event.id in self._used or not is_genuine(event):
            return "The signature is wrong, or was used before."
        self._used[event.id] = None
        if len(self._used) > REMEMBERED:
            self._used.popitem(last=False)
        return ""


def _event_of(header: str) -> Event | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "nostr" or len(value) > LONGEST:
        return None
    try:
        return parse_event(json.loads(base64.b64decode(value, validate=True)))
    except (ValueError, RecursionError, InvalidEvent, binascii.Error):
        return None


def _values(event: Event, name: str) -> list[str]:
    return [tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == name]
