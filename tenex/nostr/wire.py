"""The protocol of one connection without I/O: text frames in, typed frames out.

`Wire` knows which subscriptions are open, and counts the frames it drops: malformed ones and events that were not
requested. A new connection is a new `Wire`.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from .events import event_fields
from .filters import MAX_FILTERS, AnyFilter, Filter

MAX_SUBSCRIPTIONS: Final = 10
"""The most nostream takes on one connection; of a relay that does not say how many it takes, no more are expected."""

MAX_TEXT: Final = 1024
"""Characters kept of the text of an OK, CLOSED or NOTICE."""

MAX_CHALLENGE: Final = 1024
"""Characters of an AUTH challenge; a longer one is not signed."""

_ID: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class EventFrame:
    """An event that matches an open subscription: its fields (`event_fields`), not yet verified."""

    sub_id: str
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Eose:
    """The relay has sent all stored events."""

    sub_id: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The relay has ended a subscription."""

    sub_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Ok:
    """The relay's answer about one event."""

    event_id: str
    accepted: bool
    text: str


@dataclass(frozen=True, slots=True)
class RelayNotice:
    """Text for users, without relation to a request."""

    text: str


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """The challenge that an AUTH must repeat (NIP-42)."""

    challenge: str


Frame = EventFrame | Eose | Closed | Ok | RelayNotice | AuthChallenge


class Wire:
    """The state of one connection."""

    def __init__(self, prefix: str = "") -> None:
        """Start with nothing open; `prefix` keeps the subscription ids of two connections apart."""
        self.dropped: Counter[str] = Counter()
        """How many frames were dropped: `malformed`, `unknown_subscription`, `unmatched`, `over_limit`, `forged`."""
        self.most = MAX_SUBSCRIPTIONS
        """How many subscriptions may be open; more where the relay says that it takes more (NIP-11)."""
        self._prefix = prefix
        self._count = 0
        self._open: dict[str, AnyFilter] = {}

    def allow(self, most: int) -> None:
        """Allow so many subscriptions, never fewer than before: as many may be open when a lower number is read."""
        self.most = max(self.most, most)

    def request(self, filters: Sequence[Filter]) -> tuple[str, str]:
        """Open a subscription: its id, never used before on this connection, and the frame to send.

        Raises:
            ValueError: no filter or more than ten, or as many subscriptions are open as the relay takes.
        """
        if not 1 <= len(filters) <= MAX_FILTERS:
            raise ValueError(f"a REQ takes 1 to {MAX_FILTERS} filters, not {len(filters)}")
        if len(self._open) >= self.most:
            raise ValueError(f"{self.most} subscriptions are open; close one first")
        self._count += 1
        sub_id = f"{self._prefix}{self._count}"
        self._open[sub_id] = AnyFilter(filters)
        return sub_id, encode_frame(["REQ", sub_id, *(dict(wanted) for wanted in filters)])

    def close(self, sub_id: str) -> str | None:
        """Forget a subscription; returns the frame that ends it, None if it is not open."""
        return encode_frame(["CLOSE", sub_id]) if self._open.pop(sub_id, None) else None

    def receive(self, text: str | bytes) -> Frame | None:
        """Read one frame; None for one that was dropped."""
        try:
            frame = _read(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            frame = None
        if type(frame) is list and len(frame) == 3 and frame[0] == "EVENT":  # nearly all frames: the fast path
            _, sub_id, raw = frame
            if type(sub_id) is str and type(raw) is dict:
                return self._event(sub_id, raw)
        match frame:
            case ["OK", str(event_id), bool(accepted), *rest] if _ID.fullmatch(event_id):
                return Ok(event_id, accepted, _text(rest))
            case ["EOSE", str(sub_id), *_]:
                return Eose(sub_id) if self._known(sub_id) else None
            case ["CLOSED", str(sub_id), *rest]:
                if not self._known(sub_id):
                    return None
                del self._open[sub_id]
                return Closed(sub_id, _text(rest))
            case ["NOTICE", *rest]:
                return RelayNotice(_text(rest))
            case ["AUTH", str(challenge)] if len(challenge) <= MAX_CHALLENGE:
                return AuthChallenge(challenge)
        self.dropped["malformed"] += 1
        return None

    def _event(self, sub_id: str, raw: dict[str, Any]) -> EventFrame | None:
        wanted = self._open.get(sub_id)
        if wanted is None:
            self.dropped["unknown_subscription"] += 1
            return None
        if not wanted.matches(raw):
            self.dropped["unmatched"] += 1
            return None
        fields = event_fields(raw)
        if fields is None:
            self.dropped["malformed"] += 1
            return None
        return EventFrame(sub_id, fields)

    def _known(self, sub_id: str) -> bool:
        if sub_id in self._open:
            return True
        self.dropped["unknown_subscription"] += 1
        return False


def event_frame(event: Mapping[str, Any]) -> str:
    """The frame that publishes an event; the same bytes for the same event."""
    return encode_frame(["EVENT", event])


def auth_frame(event: Mapping[str, Any]) -> str:
    """The frame that authenticates (NIP-42)."""
    return encode_frame(["AUTH", event])


encode_frame: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
"""Writes a frame as JSON without spaces."""


_decode: Final = json.JSONDecoder().raw_decode


def _read(text: str) -> Any:
    """`json.loads` without its search for spaces around a text that has none."""
    try:
        value, end = _decode(text)
    except ValueError:
        end = -1
    return value if end == len(text) else json.loads(text)


def _text(rest: Sequence[Any]) -> str:
    return rest[0][:MAX_TEXT] if rest and isinstance(rest[0], str) else ""
