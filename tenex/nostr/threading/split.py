"""Splits one message into as many events as it needs, each cleaned and with its id."""

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from tenex.core.errors import InternalError
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.text import well_formed
from tenex.nostr.events import unsigned_event

from .base import Tag

MAX_EVENT_BYTES: Final = 62 * 1024
"""Relays accept 64 KiB and differ in what they count (the frame, their own spacing): 2 KiB are left for that."""

MAX_TAG_BYTES: Final = 1024
"""Of UTF-8, for one element of a tag: many relays refuse more, to keep their indexes small."""

_LEAST_ROOM: Final = 1024
"""Bytes; tags that leave less than this for the text are an error."""

_LARGEST_CHARACTER: Final = 6
"""Bytes a control character takes in JSON, as a backslash, a u and four digits."""

_ELLIPSIS: Final = "…"
_SPACE: Final = " \t\r\n"
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n")

_FIRST_PART_ONLY: Final = frozenset({"phase-from", "new-phase"})
"""A transition happens once."""

_LAST_PART_ONLY: Final = frozenset({"status", "tool", "close-reason"})
"""A message is complete when its last part is there; so are its costs (`llm-`), which clients add up."""

_encode: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def in_parts(draft: OutgoingMessage, kind: int, tags: Sequence[Tag]) -> tuple[UnsignedEvent, ...]:
    """Make the events of a draft: all of one kind, a second apart, none larger than `MAX_EVENT_BYTES` of signed JSON.

    Tags of a transition go with the first part; those of a completion and of costs with the last.

    Raises:
        InternalError: the tags alone fill an event.
    """
    clean = tuple(tuple(clip(one) for one in tag) for tag in tags if tag)
    around = {
        "id": "0" * 64,
        "pubkey": draft.speaker,
        "created_at": draft.created_at,
        "kind": kind,
        "tags": clean,
        "content": "",
        "sig": "0" * 128,
    }
    room = MAX_EVENT_BYTES - len(_encode(around).encode()) - 8  # created_at may grow by a digit
    if room < _LEAST_ROOM:
        raise InternalError(
            f"the tags of a kind {kind} leave {room} bytes for its text; shorten or drop some of {len(clean)}"
        )
    texts = split_text(clean_text(draft.text), room)
    last = len(texts) - 1
    return tuple(
        unsigned_event(
            draft.speaker,
            draft.created_at + index,
            kind,
            [tag for tag in clean if _belongs(tag[0], is_first=index == 0, is_last=index == last)],
            text,
        )
        for index, text in enumerate(texts)
    )


def split_text(text: str, room: int) -> tuple[str, ...]:
    """Cut a text into pieces of at most `room` bytes, counted as JSON; at least one piece.

    Cuts at the last paragraph that fits, else at the last line, else at the last word, else between characters.
    The white space around a cut is dropped, except the indentation of the line that follows.

    Raises:
        ValueError: `room` is less than one character may take.
    """
    if room < _LARGEST_CHARACTER:
        raise ValueError(f"no text fits into {room} bytes; give at least {_LARGEST_CHARACTER}")
    pieces: list[str] = []
    rest = text
    while (fitting := _fitting(rest, room)) < len(rest):
        cut = _cut(rest, fitting)
        pieces.append(rest[:cut].rstrip(_SPACE))
        rest = _without_blank_lines(rest[cut:])
    pieces.append(rest.rstrip(_SPACE) if pieces else rest)
    return tuple(piece for piece in pieces if piece) or ("",)


def clean_text(text: str) -> str:
    """Replace characters that cannot be published: lone surrogates, which have no UTF-8, and NUL.

    Surrogates that form a pair become their character. NUL is legal, but relays on PostgreSQL refuse it.
    """
    return well_formed(text).replace("\0", "\ufffd")


def clip(value: str, limit: int = MAX_TAG_BYTES) -> str:
    """Clean an element of a tag and shorten it to `limit` bytes of UTF-8, ending in an ellipsis."""
    value = clean_text(value)
    raw = value.encode()
    if len(raw) <= limit:
        return value
    return raw[: limit - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS


def _belongs(name: str, *, is_first: bool, is_last: bool) -> bool:
    if name in _FIRST_PART_ONLY:
        return is_first
    if name in _LAST_PART_ONLY or name.startswith("llm-"):
        return is_last
    return True


def _json_bytes(text: str) -> int:
    return len(_encode(text).encode()) - 2  # without the quotation marks


def _fitting(text: str, room: int) -> int:
    """Count the characters from the start that fit into `room` bytes."""
    window = text[:room]  # a character is a byte at least
    if _json_bytes(window) <= room:
        return len(window)
    low, high = 0, len(window)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _json_bytes(window[:middle]) <= room else (low, middle)
    return low


def _cut(text: str, fitting: int) -> int:
    """Choose where to cut a text of which `fitting` characters fit; never at 0."""
    head = text[: fitting + 1]  # white space that no longer fits may still be cut at
    start = len(head) - len(head.lstrip(_SPACE))
    paragraphs = [match.start() for match in _PARAGRAPH.finditer(head, start) if match.start() <= fitting]
    for cut in (paragraphs[-1] if paragraphs else -1, head.rfind("\n"), head.rfind(" ")):
        if cut > start:
            return cut
    return fitting


def _without_blank_lines(text: str) -> str:
    """Drop blank lines and, where the cut was within a line, the space it began with."""
    body = text.lstrip(_SPACE)
    space = text[: len(text) - len(body)]
    return text[space.rfind("\n") + 1 :] if "\n" in space else body
