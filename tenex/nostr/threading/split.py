"""Splits one message into as many events as it needs, each cleaned and with its id."""

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tenex.core.errors import InternalError
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.text.foreign import well_formed
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
    r"^(?P<around>(?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)]) ){0,40})(?P<mark>`{3,40}|~{3,40})(?P<info>[^\n]{0,200})$",
    re.MULTILINE,
)
"""The first or last line of a block of code."""
_MARKERS: Final = re.compile(r"[^ \t>]")
"""Of items in what is before a block."""
_QUOTATION: Final = re.compile(r"[ \t]{0,3}(?:>[ \t]?){1,20}")
_DELIMITERS: Final = re.compile(r"[ \t>]{0,40}\|?(?: *:?-+:? *\|)+ *(?::?-+:?)? *\r?|[ \t>]{0,40}\|? *:?-+:? *\|")
"""The second line of a table."""
_LONGEST_GRAPHEME: Final = 64
"""Characters: a family of emoji has eleven."""
_LEAST_SHARE: Final = 4
"""A piece is at least a fourth as long as it could be: else a long block would stand alone behind a short sentence."""

_FIRST_PART_ONLY: Final = frozenset({"phase-transition", "phase-from", "new-phase"})
"""A transition happens once."""

_LAST_PART_ONLY: Final = frozenset({"status", "tool", "close-reason", "imeta"})
"""A message is complete when its last part is there; so are its costs (`llm-`), which clients add up.

The addresses of files are at the end of its text, and `imeta` describes them (NIP-92).
"""

_encode: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def in_parts(
    draft: OutgoingMessage, kind: int, tags: Sequence[Tag], most: int = MAX_EVENT_BYTES
) -> tuple[UnsignedEvent, ...]:
    """Make the events of a draft: all of one kind, a second apart, none larger than `most` bytes of signed JSON.

    The draft may ask for smaller ones.

    Tags of a transition go with the first part; those of a completion and of costs with the last.
    Tags that would notify whom the draft is not to notify are left out.

    Raises:
        InternalError: the tags alone fill an event.
    """
    clean = tuple(tuple(clip(one) for one in tag) for tag in tags if tag and _may_notify(draft, tag))
    around = {
        "id": "0" * 64,
        "pubkey": draft.speaker,
        "created_at": draft.created_at,
        "kind": kind,
        "tags": clean,
        "content": "",
        "sig": "0" * 128,
    }
    room = min(most, draft.most_bytes or most) - len(_encode(around).encode()) - 8  # created_at may grow by a digit
    if room < _LEAST_ROOM:
        raise InternalError(
            f"the tags of a kind {kind} leave {room} bytes for its text; shorten or drop some of {len(clean)}"
        )
    room = min(room, draft.most_characters or room)  # each is a byte at least
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


def _may_notify(draft: OutgoingMessage, tag: Tag) -> bool:
    """Whether a tag notifies no one, or somebody whom the message may notify."""
    if tag[0] != "p" or len(tag) == 1:
        return True
    is_meant = draft.notifies is None or tag[1] in draft.notifies
    return is_meant and tag[1] not in draft.silent


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
    blocks = _blocks(text[: fitting + 1])
    cut = _cut(text, fitting, blocks)
    block = _block_at(blocks, cut)
    if block is not None:
        if (pieces := _cut_block(text, block, room)) is not None:
            return pieces
        start = len(text) - len(text.lstrip(_SPACE))
        cut = block.begins if block.begins > start else cut
    cut = _before_head(text, cut)
    rest = _without_blank_lines(text[cut:])
    head = _table_head(text[:cut], rest) if block is None else ""
    if head and _json_bytes(head) < room // 2 and len(head) < cut:
        rest = head + rest
    return text[:cut].rstrip(_SPACE), rest


def _cut_block(text: str, block: "_Block", room: int) -> tuple[str, str] | None:
    """Cut within a block of code, which is closed and opened again; None where there is no room for a part of it."""
    closing = f"\n{block.closing}"
    body = block.begins + len(block.opening) + 1
    fitting = _fitting(text, room - _json_bytes(closing))
    if _json_bytes(block.opening) > room // 4 or fitting <= body + _LONGEST_GRAPHEME // _LEAST_SHARE:
        return None
    newline = text.rfind("\n", body, fitting + 1)
    space = text.rfind(" ", body, fitting + 1)
    line = text.rfind("\n", 0, fitting) + 1
    around = _QUOTATION.match(text, line) if ">" in block.around else None
    words = around.end() if around is not None else line
    if newline > body + (fitting - body) // _LEAST_SHARE:
        cut = newline
        before = ""
    else:
        cut = space if space > words else _whole_graphemes(text, fitting)
        before = text[line:words] if cut > words else ""
    return text[:cut].rstrip(_SPACE) + closing, f"{block.opening}\n{before}{_without_blank_lines(text[cut:])}"


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of code: where it begins and ends, and its first line."""

    begins: int
    ends: int | None
    """None where it is not closed."""
    opening: str
    mark: str

    @property
    def around(self) -> str:
        """The marks of quotations and lists before it."""
        return self.opening[: self.opening.index(self.mark)]

    @property
    def closing(self) -> str:
        """The line that closes it: in a list with spaces where its first line has the mark of the item."""
        return _MARKERS.sub(" ", self.around) + self.mark


def _blocks(text: str) -> tuple[_Block, ...]:
    """The blocks of code in a text, in order; in lists and quotations too."""
    found: list[_Block] = []
    block: _Block | None = None
    for match in _FENCE_LINE.finditer(text):
        mark = match["mark"]
        info = match["info"]
        if block is None:
            if mark[0] == "~" or "`" not in info:
                block = _Block(match.start(), None, match[0], mark)
            continue
        is_closing = mark[0] == block.mark[0] and len(mark) >= len(block.mark) and not info.strip()
        if is_closing and _MARKERS.search(match["around"]) is None:
            found.append(replace(block, ends=match.end()))
            block = None
    return (*found, block) if block is not None else tuple(found)


def _block_at(blocks: Sequence[_Block], cut: int) -> _Block | None:
    """The block of code that a cut is in; None where it is outside of any."""
    place = bisect_left(blocks, cut, key=lambda block: block.begins) - 1
    block = blocks[place] if place >= 0 else None
    return block if block is not None and (block.ends is None or cut < block.ends) else None


def _table_head(before: str, after: str) -> str:
    """The head of a table that is cut between two of its rows; "" where none is."""
    if not _is_row(after.partition("\n")[0]):
        return ""
    rows: list[str] = []
    for line in reversed(before.rstrip("\n").split("\n")):
        if not _is_row(line):
            break
        rows.append(line)
    rows.reverse()
    has_head = len(rows) > 1 and _DELIMITERS.fullmatch(rows[1]) is not None
    return f"{rows[0]}\n{rows[1]}\n" if has_head else ""


def _is_row(line: str) -> bool:
    return "|" in line


def _before_head(text: str, cut: int) -> int:
    """A cut between the two lines of a table's head is made before them."""
    if text[cut : cut + 1] != "\n" or not _DELIMITERS.fullmatch(text[cut + 1 :].partition("\n")[0]):
        return cut
    line = text.rfind("\n", 0, cut)
    return line if line > 0 and text[:line].strip(_SPACE) and _is_row(text[line:cut]) else cut


def _whole_graphemes(text: str, cut: int) -> int:
    """The last place up to `cut` that is between two characters as people see them; `cut` where there is none near."""
    import regex  # 1 MB: few texts are cut

    start = max(0, cut - _LONGEST_GRAPHEME)
    ends = (match.end() for match in regex.finditer(r"\X", text, pos=start, endpos=cut + _LONGEST_GRAPHEME))
    return max((end for end in ends if end <= cut), default=cut)


def clean_text(text: str) -> str:
    """Replace characters that cannot be published: lone surrogates, which have no UTF-8, and NUL.

    Surrogates that form a pair become their character. NUL is legal, but relays on PostgreSQL refuse it.
    """
    return well_formed(text).replace("\0", "\ufffd")


def clip(value: str, limit: int = MAX_TAG_BYTES) -> str:
    """Clean an element of a tag and shorten it to `limit` bytes of UTF-8, ending in an ellipsis."""
    if len(value) <= limit and value.isascii() and "\0" not in value:
        return value
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
    low = 0
    high = len(window)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _json_bytes(window[:middle]) <= room else (low, middle)
    return low


def _cut(text: str, fitting: int, blocks: Sequence[_Block]) -> int:
    """Choose where to cut a text of which `fitting` characters fit: never at 0, and outside of `blocks` if possible."""
    head = text[: fitting + 1]  # white space that no longer fits may still be cut at
    start = len(head) - len(head.lstrip(_SPACE))
    paragraphs = [match.start() for match in _PARAGRAPH.finditer(head, start) if match.start() <= fitting]
    between = [cut for cut in paragraphs if _block_at(blocks, cut) is None]
    before = [block.begins for block in blocks if start < block.begins <= fitting]
    outside = max([*between[-1:], *before[-1:]], default=-1)
    places = [outside, *paragraphs[-1:], head.rfind("\n"), head.rfind(" ")]
    possible = [cut for cut in places if cut > start]
    long = (cut for cut in possible if cut > fitting // _LEAST_SHARE)
    return next(long, possible[0] if possible else _whole_graphemes(text, fitting))


def _without_blank_lines(text: str) -> str:
    """Drop blank lines and, where the cut was within a line, the space it began with."""
    body = text.lstrip(_SPACE)
    space = text[: len(text) - len(body)]
    return text[space.rfind("\n") + 1 :] if "\n" in space else body
