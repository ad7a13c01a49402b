"""Whether a conversation's files can be believed: every line, the fold over them, and the view beside them.

Reads only, and so works beside a running daemon: what was appended since is no fault, and a view that is some records
behind is compared with the journal's state at that record.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenex.core.conversation import Conversation, new_conversation
from tenex.core.cycle.records import PhaseTransition
from tenex.core.errors import StoreDamaged, StoreOtherVersion
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.phases import PHASE_TRANSITIONS
from tenex.core.records import Record
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot

from .conversations import Conversations
from .journal_reader import NEWEST, VIEW, views_ahead
from .repository import REBUILD
from .view_json import LISTS, SEGMENT, everything, file_name, render
from .view_reader import read_view

LOST_END = (
    "Records that were durable are gone: the disk lost them, or an older copy took their place. The daemon "
    "continues from what is there. Restore the newest file of the journal from a copy; or stop the daemon and "
    "`tenex conversations rebuild ID --from conversation.json --force`."
)
REWRITE_VIEW = "The journal has it all: stop the daemon and move the file away, and the next start writes it again."

REWRITE_PART = (
    f"The journal has it all: stop the daemon and move it away if it is there, and {VIEW} with it; the next start "
    "writes both again."
)

_NUMBER: Final = re.compile(r"[A-Za-z]+-(\d{6,})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What was found out about one conversation."""

    id: ConversationId
    records: int = 0
    """Those that were decoded."""
    seq: int = 0
    """Of the last record."""
    faults: tuple[str, ...] = ()
    """Each with what can be done about it."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing and no damage."""
    is_foreign: bool = False
    """Another version of the program wrote it: the fault is no damage."""


async def verify(folder: Conversations, conversation: ConversationId, *, is_quick: bool = False) -> VerifyResult:
    """Read all of a conversation; what is wrong with it is in the verdict, and is never raised.

    Where `is_quick`, what is before the newest snapshot is read by checksums and numbers alone, unless they are wrong:
    a long past costs little. Records that contradict each other, and readable files of older entries that were
    changed, are found there only without it.

    Raises:
        UsageError: there is no such conversation.
    """
    path = folder.path(conversation)
    view, parts = _view_of(path), _parts_of(path)  # before the journal, which then holds at least as much
    try:
        since = NEWEST if is_quick and await folder.is_past_sound(conversation) else 0
        records, gone = await folder.read_left(conversation, since)
    except StoreDamaged as fault:
        is_foreign = isinstance(fault, StoreOtherVersion)
        return VerifyResult(id=conversation, faults=(str(fault),), is_foreign=is_foreign)
    state = new_conversation(conversation)
    contrary = tuple(f"{path}: {fault} {REBUILD}" for fault in contradictions(conversation, records, state))
    faults = ((gone,) if gone else ()) + contrary
    remarks = tuple(
        f"{copy} holds records that the journal had lost when the daemon continued it. To rebuild from it, stop "
        "the daemon and copy it to conversation.json; else remove it when you have looked."
        for copy in views_ahead(path)
    )
    if view is None:
        remarks = (*remarks, f"{path / VIEW} is not there yet.")
    elif isinstance(view, str):
        faults = (*faults, view)
    elif not contrary:
        faults += tuple(f"{path / VIEW} {fault}" for fault in _disagreements(view, state, records))
    if parts and not contrary and not isinstance(view, str):
        faults += tuple(_changed_parts(parts, conversation, records))
    return VerifyResult(
        id=conversation, records=len(records), seq=records[-1].seq if records else 0, faults=faults, remarks=remarks
    )


def contradictions(
    conversation: ConversationId, records: Sequence[Record], state: Conversation | None = None
) -> Iterator[str]:
    """The contradictions between records that can all be read; the first fault of the fold comes last.

    A new `state` of the conversation that is given has all records at the end, where there is no such fault.
    """
    state = new_conversation(conversation) if state is None else state
    for record in records:
        where = f"record {record.seq} ({type(record).__name__})"
        about = record.state.id if isinstance(record, StateSnapshot) else conversation
        if isinstance(record, ConversationStarted | ConversationForked):
            about = record.id
        if about != conversation:
            yield f"{where} is about another conversation."
        if isinstance(record, PhaseTransition):
            if record.from_ is not state.cycle.phase:
                yield f"{where} leaves {record.from_}, but the conversation was in {state.cycle.phase}."
            elif not PHASE_TRANSITIONS.permits(record.from_, record.to):
                yield f"{where} goes from {record.from_} to {record.to}, which is not permitted."
        if isinstance(record, RolledBack) and not 1 <= record.to < record.seq - 1:
            yield f"{where} goes back to record {record.to}, which is not before it."
        try:
            state.apply(record)
        except Exception as fault:  # noqa: BLE001 - unforeseen records are the finding
            yield f"{where} cannot follow the records before it ({type(fault).__name__})."
            return


def _view_of(path: Path) -> dict[str, Any] | str | None:
    """The view; what is wrong with it; or None where there is none."""
    try:
        if not (path / VIEW).exists():
            return None
        unread = read_view(path / VIEW)["unread"]
        view: dict[str, Any] = json.loads((path / VIEW).read_bytes())
    except PermissionError as fault:
        return f"{path / VIEW} cannot be read: {fault.strerror}. Check its owner and type."
    except (StoreDamaged, OSError, ValueError):
        return f"{path / VIEW} cannot be read as JSON. {REWRITE_VIEW}"
    if unread:
        return f"{path}: {', '.join(unread)} cannot be read. {REWRITE_PART}"
    return view


def _disagreements(view: dict[str, Any], newest: Conversation, records: Sequence[Record]) -> Iterator[str]:
    """How the readable file differs from the state at its record; `newest` is the state after all records."""
    seq = view.get("seq")
    last = records[-1].seq if records else 0
    if type(seq) is int and seq > last:
        yield f"covers record {seq}, but the journal ends with {last}. {LOST_END}"
        return
    if type(seq) is not int or seq < 1:
        yield f"covers record {seq}, which there cannot be. {REWRITE_VIEW}"
        return
    if isinstance(records[0], StateSnapshot) and seq < records[0].seq:
        return  # its state then is in the files that are missing
    state = newest
    if seq < last:
        state = new_conversation(newest.id)
        for record in records:
            if record.seq > seq:
                break
            state.apply(record)
    expected = json.loads(render(state))
    names = [name for name in expected if name in view and _differ(view[name], expected[name])]
    if names:
        yield f"differs from the journal in {', '.join(names)}: it was changed by another process. {REWRITE_VIEW}"


def _parts_of(path: Path) -> list[tuple[Path, str, int]]:
    """The files of older turns and transitions, each with its list and its number from 0; others are ignored."""
    found = [(part, name) for name in LISTS for part in sorted(path.glob(f"{name}-*.json"))]
    numbered = [(part, name, int(match[1]) - 1) for part, name in found if (match := _NUMBER.fullmatch(part.name))]
    return [(part, name, number) for part, name, number in numbered if part.name == file_name(name, number)]


def _changed_parts(
    parts: Sequence[tuple[Path, str, int]], conversation: ConversationId, records: Sequence[Record]
) -> Iterator[str]:
    """What is wrong with those that differ from the journal."""
    if isinstance(next(iter(records), None), StateSnapshot):
        return  # their content is in the files that are missing
    whole = everything(conversation, records)
    for part, name, number in parts:
        expected = [json.loads(text) for text in whole[name][number * SEGMENT : (number + 1) * SEGMENT]]
        try:
            found = json.loads(part.read_bytes())
        except (OSError, ValueError, RecursionError):
            yield f"{part} cannot be read. {REWRITE_PART}"
            continue
        if len(expected) < SEGMENT:
            yield f"{part} holds more than the journal does. {LOST_END}"
        elif _differ(found, expected):
            yield f"{part} differs from the journal: it was changed by another process. {REWRITE_PART}"


def _differ(shown: Any, expected: Any) -> bool:
    """Whether two values contradict each other; a field only one of them has is a matter of versions."""
    if isinstance(shown, dict) and isinstance(expected, dict):
        return any(_differ(shown[name], expected[name]) for name in shown.keys() & expected.keys())
    if isinstance(shown, list) and isinstance(expected, list):
        if len(shown) != len(expected):
            return True
        return any(_differ(one, other) for one, other in zip(shown, expected, strict=True))
    return bool(shown != expected)
