"""Splits one message into as many events as it needs, each cleaned and with its id."""

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import regex

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
_FENCE_LINE: Final = re.compile(
    r"^(?P<around>[ \t>]{0,40}(?:[-*+] )?[ ]{0,8})(?P<mark>`{3,40}|~{3,40})(?P<info>[^\n]{0,200})$", re.MULTILINE
)
"""The first or last line of a block of code."""
_DELIMITERS: Final = re.compile(r" *\|?(?: *:?-+:? *\|)+ *(?::?-+:?)? *\r?")
"""The second line of a table."""
_GRAPHEME: Final = regex.compile(r"\X")
_LONGEST_GRAPHEME: Final = 64
"""Characters: a family of emoji has eleven."""
_LEAST_SHARE: Final = 4
"""A piece is at least a fourth as long as it could be: else a long block would stand alone behind a short sentence."""

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

    Cuts between blocks of Markdown where it can: at the last paragraph that fits, else at the last line, else at the
    last word, else between characters as people see them. A block of code that is cut is closed and opened again, with
    its language; a table that goes on repeats its head. The white space around a cut is dropped, except the indentation
    of the line that follows.

    Raises:
        ValueError: `room` is less than one character may take.
    """
    if room < _LARGEST_CHARACTER:
        raise ValueError(f"no text fits into {room} bytes; give at least {_LARGEST_CHARACTER}")
    pieces: list[str] = []
    rest = text
    while (fitting := _fitting(rest, room)) < len(rest):
        piece, rest = _first_piece(rest, fitting, room)
        pieces.append(piece)
    pieces.append(rest.rstrip(_SPACE) if pieces else rest)
    return tuple(piece for piece in pieces if piece) or ("",)


def _first_piece(text: str, fitting: int, room: int) -> tuple[str, str]:
    """The first piece of a text of which `fitting` characters fit, and what is left of it."""
    cut = _cut(text, fitting, _fences(text[: fitting + 1]))
    inside = _open_fence(text[:cut])
    if inside is not None:
        closing = "\n" + inside.closing
        shorter = _fitting(text, room - _json_bytes(closing)) if room > 2 * _json_bytes(inside.opening) else 0
        cut = _cut(text, shorter, ()) if shorter else cut
        still_inside = _open_fence(text[:cut]) if shorter else None
        if still_inside is not None and cut > inside.begins + len(inside.opening):
            rest = _without_blank_lines(text[cut:])
            return text[:cut].rstrip(_SPACE) + closing, f"{inside.opening}\n{rest}"
    rest = _without_blank_lines(text[cut:])
    head = _table_head(text[:cut], rest)
    if head and _json_bytes(head) < room // 2 and len(head) < cut:
        rest = head + rest
    return text[:cut].rstrip(_SPACE), rest


@dataclass(frozen=True, slots=True)
class _Fence:
    """A block of code: where it begins and ends, and its first line."""

    begins: int
    ends: int | None
    """None where it is not closed."""
    opening: str
    closing: str


def _fences(text: str) -> tuple[_Fence, ...]:
    """The blocks of code in a text, in order; in lists and quotations too."""
    found: list[_Fence] = []
    at: _Fence | None = None
    for match in _FENCE_LINE.finditer(text):
        around, mark, info = match["around"], match["mark"], match["info"]
        if at is None:
            if mark[0] == "~" or "`" not in info:
                at = _Fence(match.start(), None, match[0], around + mark)
        elif (
            mark[0] == at.closing.lstrip("> \t")[0] and len(mark) >= len(at.closing.lstrip("> \t")) and not info.strip()
        ):
            found.append(replace(at, ends=match.end()))
            at = None
    return (*found, at) if at is not None else tuple(found)


def _open_fence(text: str) -> _Fence | None:
    """The block of code that a text ends in; None where it ends outside of any."""
    fences = _fences(text)
    return fences[-1] if fences and fences[-1].ends is None else None


def _table_head(before: str, after: str) -> str:
    """The head of a table that is cut between two of its rows; "" where none is."""
    if not after.lstrip(" ").startswith("|"):
        return ""
    rows: list[str] = []
    for line in reversed(before.rstrip("\n").split("\n")):
        if not line.lstrip(" ").startswith("|"):
            break
        rows.append(line)
    rows.reverse()
    has_head = len(rows) > 2 and _DELIMITERS.fullmatch(rows[1]) is not None
    return f"{rows[0]}\n{rows[1]}\n" if has_head else ""


def _whole_graphemes(text: str, cut: int) -> int:
    """The last place up to `cut` that is between two characters as people see them; `cut` where there is none near."""
    start = max(0, cut - _LONGEST_GRAPHEME)
    ends = (match.end() for match in _GRAPHEME.finditer(text, start, min(len(text), cut + _LONGEST_GRAPHEME)))
    return max((end for end in ends if end <= cut), default=cut)


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
    kept = raw[: limit - len(_ELLIPSIS.encode())].decode(errors="ignore")
    return value[: _whole_graphemes(value, len(kept))] + _ELLIPSIS


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


def _cut(text: str, fitting: int, fences: Sequence[_Fence]) -> int:
    """Choose where to cut a text of which `fitting` characters fit: never at 0, and outside of `fences` if possible."""
    head = text[: fitting + 1]  # white space that no longer fits may still be cut at
    start = len(head) - len(head.lstrip(_SPACE))
    paragraphs = [match.start() for match in _PARAGRAPH.finditer(head, start) if match.start() <= fitting]
    begins = [fence.begins for fence in fences]
    ends = [len(head) + 1 if fence.ends is None else fence.ends for fence in fences]

    def is_inside(cut: int) -> bool:
        before = bisect_left(begins, cut)
        return before > 0 and cut < ends[before - 1]

    between = next((cut for cut in reversed(paragraphs) if not is_inside(cut)), -1)
    before = max((place for place in begins if start < place <= fitting), default=-1)
    outside = max(between, before)
    paragraph = outside if outside > fitting // _LEAST_SHARE else paragraphs[-1] if paragraphs else -1
    for cut in (paragraph, head.rfind("\n"), head.rfind(" ")):
        if cut > start:
            return cut
    return _whole_graphemes(text, fitting)


def _without_blank_lines(text: str) -> str:
    """Drop blank lines and, where the cut was within a line, the space it began with."""
    body = text.lstrip(_SPACE)
    space = text[: len(text) - len(body)]
    return text[space.rfind("\n") + 1 :] if "\n" in space else body
