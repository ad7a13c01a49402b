"""A conversation as one file that can be carried elsewhere: its records, and the means to know them whole.

    {"format":"tenex.conversation","version":1,"id":"...","records":12,"exportedAt":"...","sha256":"..."}
    {"v":1,"seq":1,"remaining":0,"at":...,"type":"ConversationStarted","data":{...},"crc":"..."}
    ...

The first line describes what follows, with its sha256; every line after it is one of a journal. It holds no keys,
because a journal holds none.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.errors import StoreDamaged, StoreOtherVersion
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot

from .format import CONVERSATION, as_written
from .reading import UPGRADE
from .verify import contradictions
from .view_json import iso

FORMAT: Final = "tenex.conversation"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What a file brings, checked: it can be read and folded to its end."""

    id: ConversationId
    records: Sequence[Record]


def packed(conversation: ConversationId, records: Sequence[Record], now: Millis) -> bytes:
    """The file of a conversation."""
    body = CONVERSATION.encode_decisions([[record] for record in plain(records)])
    head = {
        "format": FORMAT,
        "version": VERSION,
        "id": conversation,
        "records": body.count(b"\n"),
        "exportedAt": iso(now),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + body


def unpacked(data: bytes) -> Carried:
    """Read such a file and check all of it.

    Raises:
        StoreDamaged: it is no such file, not all of it, or not what was written.
    """
    first, _, body = as_written(data).partition(b"\n")
    head = _head(first)
    if head.get("version") != VERSION:
        raise StoreOtherVersion(f"it was exported by a newer tenex. {UPGRADE}")
    if hashlib.sha256(body).hexdigest() != head.get("sha256"):
        raise StoreDamaged("its checksum does not hold: it was cut short or changed on the way. Export it again.")
    conversation = head.get("id")
    records, _, fault = CONVERSATION.decode_lines(body)
    if fault is not None and fault.kind == "foreign":
        raise StoreOtherVersion(
            f"line {fault.line + 1} was written by another version of tenex: {fault.what}. {UPGRADE}"
        )
    if fault is not None:
        raise StoreDamaged(f"line {fault.line + 1} cannot be right: {fault.what}.")
    if not isinstance(conversation, str) or head.get("records") != len(records) or not records:
        raise StoreDamaged("its first line does not fit what follows.")
    name = ConversationId(conversation)
    for contradiction in contradictions(name, records):
        raise StoreDamaged(contradiction)
    return Carried(id=name, records=records)


def is_packed(data: bytes) -> bool:
    """Whether this is meant to be such a file, also one of a newer form."""
    try:
        _head(as_written(data).partition(b"\n")[0])
    except StoreDamaged:
        return False
    return True


def plain(records: Sequence[Record]) -> list[Record]:
    """The facts alone: what sums up earlier ones is left out where those are there."""
    return [record for n, record in enumerate(records) if n == 0 or not isinstance(record, StateSnapshot)]


def _head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise StoreDamaged("its first line is not that of an exported conversation.") from fault
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise StoreDamaged("its first line is not that of an exported conversation.")
    return head
