"""NIP-01 filters: compiled once, matched against raw events, distributed over REQs.

A relay may send anything under a subscription; events that match none of its filters are dropped.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Filter = Mapping[str, Any]
"""As NIP-01 writes it: ids, authors, kinds, since, until, limit, and `#x` for tags."""

MAX_FILTERS: Final = 10
"""nostream takes no more in one REQ."""

DIRECT_KINDS: Final = frozenset({4, 14, 15, 1059, 21059})
"""Direct messages (NIP-04, NIP-17, NIP-59): some relays withhold them silently from a REQ that asks for more."""


_OF_ONE_EVENT: Final = frozenset({5, 7})
"""Deletions and reactions: what they name is in a room, so they need not name it."""
_ROOM: Final = "h"
"""The tag that names the room of an event (NIP-29)."""


class Matcher:
    """One compiled filter.

    A reaction or a deletion that names no room is wanted for any: Buzz's name an event, and the relay knows its room.
    """

    __slots__ = ("_authors", "_ids", "_kinds", "_since", "_tags", "_until")

    def __init__(self, wanted: Filter) -> None:
        self._ids = _set(wanted.get("ids"))
        self._authors = _set(wanted.get("authors"))
        self._kinds = _set(wanted.get("kinds"))
        self._since = wanted.get("since")
        self._until = wanted.get("until")
        self._tags = tuple((key[1:], frozenset(values)) for key, values in wanted.items() if key.startswith("#"))

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether a raw event matches this filter.

        Raises:
            TypeError: the event has values that cannot be compared; the caller counts it as no match.
        """
        if self._kinds is not None and event.get("kind") not in self._kinds:
            return False
        if self._authors is not None and event.get("pubkey") not in self._authors:
            return False
        if self._ids is not None and event.get("id") not in self._ids:
            return False
        if self._since is not None and event["created_at"] < self._since:
            return False
        if self._until is not None and event["created_at"] > self._until:
            return False
        for name, values in self._tags:  # loops, not generators: this runs for every event that comes
            for tag in event["tags"]:
                if len(tag) > 1 and tag[0] == name and tag[1] in values:
                    break
            else:
                if name != _ROOM or event.get("kind") not in _OF_ONE_EVENT or names_a_room(event):
                    return False
        return True


class AnyFilter:
    """The filters of one REQ: an event is wanted if one of them wants it."""

    __slots__ = ("_matchers",)

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._matchers = tuple(Matcher(wanted) for wanted in filters)

    def matches(self, event: object) -> bool:
        """Whether one of the filters matches this object; False for anything that is not an event."""
        if not isinstance(event, dict) or type(event.get("created_at")) is not int:  # NaN is within every range
            return False
        try:
            for matcher in self._matchers:
                if matcher.matches(event):
                    return True
        except (TypeError, KeyError):  # shapes no event has
            return False
        return False


def lay_out(filters: Sequence[Filter], most: int = MAX_FILTERS) -> tuple[tuple[dict[str, Any], ...], ...]:
    """Distribute filters over REQs: direct messages in REQs of their own, at most `most` filters to each.

    A filter for direct messages and other kinds becomes two. The result shares nothing with the argument.

    Raises:
        ValueError: a filter cannot be written as JSON.
    """
    direct: list[dict[str, Any]] = []
    other: list[dict[str, Any]] = []
    try:
        copies: list[dict[str, Any]] = json.loads(json.dumps([dict(wanted) for wanted in filters]))
    except TypeError as fault:
        raise ValueError(f"a filter holds what JSON cannot write: {fault}") from None
    for wanted in copies:
        kinds = wanted.get("kinds")
        if kinds is None:
            other.append(wanted)
            continue
        private = [kind for kind in kinds if kind in DIRECT_KINDS]
        public = [kind for kind in kinds if kind not in DIRECT_KINDS]
        if private:
            direct.append({**wanted, "kinds": private})
        if public or not kinds:
            other.append({**wanted, "kinds": public})
    return tuple(
        tuple(group[start : start + most]) for group in (other, direct) for start in range(0, len(group), most)
    )


def names_a_room(event: Mapping[str, Any]) -> bool:
    """Whether a raw event says which room (NIP-29) it is in."""
    return any(tag[:1] == [_ROOM] for tag in event["tags"])


def _set(values: Iterable[Any] | None) -> frozenset[Any] | None:
    return None if values is None else frozenset(values)
