"""Reads entries of a readable file as records: messages, where they were written, and transitions.

Transitions and places come back as values that only readers are shown, marked with the file they are from: no gate is
met, waived or approved by them. An entry that cannot be understood is named among what is lost; texts are cut. (ADR 51
and 90.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from tenex.core.config import Role
from tenex.core.cycle.records import PhaseTransition
from tenex.core.delivery.records import MessageSent
from tenex.core.history.state import BLOCK, History, HistoryRecovered, MessagePlace
from tenex.core.ids import EventId, Millis, PublicKey, TurnId
from tenex.core.inbox.records import MessageRecorded
from tenex.core.messages import cut
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.records import Record
from tenex.core.state import State
from tenex.nostr.threading.base import is_hex64
from tenex.store.view_model import DeciderJson, MessageJson, TransitionJson
from tenex.store.view_reader import entries, read_entry

T = TypeVar("T")

TEXT_CHARACTERS: Final = 8_000
NAME_CHARACTERS: Final = 200

_TIME: Final = TypeAdapter(datetime)
_UNKNOWN: Final = {
    "message": "",
    "time": "",
    "cycle": 0,
    "decidedBy": None,
    "agentPubkey": "",
    "agentName": "",
    "reason": "",
    "summary": "",
}
"""What an older program's file may not say of a transition."""


@cache
def _message_model() -> TypeAdapter[MessageJson]:
    return TypeAdapter(MessageJson)


@cache
def _transition_model() -> TypeAdapter[TransitionJson]:
    return TypeAdapter(TransitionJson)


def phase_of(name: object) -> Phase | None:
    """The phase of that name, as any program writes it; None where there is none."""
    return Phase.parse(name) if isinstance(name, str) else None


def read_messages(shown: Sequence[Any], lost: list[str]) -> list[MessageRecorded | MessageSent]:
    """The messages of entries, oldest first as they are; what cannot be understood is added to `lost`."""
    return _read(shown, "message", _message, lost)


def read_transitions(view: dict[str, Any], source: str, lost: list[str]) -> list[PhaseTransition]:
    """The transitions that a file shows, oldest first; what cannot be understood is added to `lost`."""
    return _read(entries(view, "phaseTransitions"), "transition", lambda entry: _transition(entry, source), lost)


def places_of_view(view: dict[str, Any]) -> dict[tuple[Millis, str], MessagePlace]:
    """Cycle, turn and event of the messages that a file names them for, by time and text."""
    places: dict[tuple[Millis, str], MessagePlace] = {}
    for entry in entries(view, "messages"):
        with suppress(ValueError, OverflowError, KeyError):
            shown = read_entry(_message_model(), entry)
            places[_millis(shown["time"]), shown["text"]] = _place(shown)
    return places


def newer_transitions(
    transitions: Sequence[PhaseTransition], records: Sequence[Record], state: State
) -> list[PhaseTransition]:
    """The transitions that the good records of a journal do not have: all of them where there are none."""
    since = state.identity.updated_at if records else 0
    history = state.history or History()
    known = {(move.at, move.from_, move.to) for move in history.transitions}
    return [move for move in transitions if move.at >= since and (move.at, move.from_, move.to) not in known]


def history_records(transitions: Sequence[PhaseTransition], source: str, at: Millis) -> Iterator[HistoryRecovered]:
    """The records that bring transitions back for readers; their seq has no meaning."""
    for start in range(0, len(transitions), BLOCK):
        part = tuple(transitions[start : start + BLOCK])
        yield HistoryRecovered(seq=0, at=at, source=source, transitions=part)


def _read(shown: Sequence[Any], what: str, read: Callable[[Any], T], lost: list[str]) -> list[T]:
    found = []
    for number, entry in enumerate(shown, start=1):
        try:
            found.append(read(entry))
        except (ValueError, OverflowError, KeyError):
            lost.append(f"{what} {number} of {len(shown)}, which could not be understood")
    return found


def _message(entry: Any) -> MessageRecorded | MessageSent:
    shown = read_entry(_message_model(), entry)
    at = _millis(shown["time"])
    role = next((role for role in Role if role == shown.get("role")), None)
    if role is not None:
        return MessageRecorded(
            seq=0,
            at=at,
            event_id=EventId(shown.get("eventId", "")),
            author=PublicKey(""),  # a file can name anyone, and who has written may read the conversation
            name=shown["from"],
            role=role,
            text=shown["text"],
            created_at=at // 1000,
        )
    return MessageSent(
        seq=0,
        at=at,
        speaker=PublicKey(shown.get("author", "")),
        name=shown["from"],
        text=shown["text"],
        purpose="completion",
        phase=phase_of(shown.get("phase")) or Phase.CHAT,
    )


def _place(shown: MessageJson) -> MessagePlace:
    event = _key(shown.get("eventId", ""))
    turn = shown.get("turn", "")[:NAME_CHARACTERS]
    return MessagePlace(
        message=0,
        cycle=shown["cycle"],
        phase=phase_of(shown.get("phase")),
        turn=TurnId(turn) if turn else None,
        event=EventId(event) if event and shown.get("role") == "agent" else None,
    )


def _transition(entry: Any, source: str) -> PhaseTransition:
    shown = read_entry(_transition_model(), entry, _UNKNOWN)
    return PhaseTransition(
        seq=0,
        at=_millis(shown["time"] or shown["timestamp"]),
        from_=_known_phase(shown["from"]),
        to=_known_phase(shown["to"]),
        message=cut(shown["message"], TEXT_CHARACTERS),
        agent_pubkey=PublicKey(_key(shown["agentPubkey"])),
        agent_name=shown["agentName"][:NAME_CHARACTERS],
        reason=cut(shown["reason"], TEXT_CHARACTERS),
        summary=cut(shown["summary"], TEXT_CHARACTERS),
        decided_by=_decider(shown["decidedBy"]),
        cycle=shown["cycle"],
        request=EventId(shown.get("request", "")[:NAME_CHARACTERS]),
        source=source,
    )


def _known_phase(name: str) -> Phase:
    phase = phase_of(name)
    if phase is None:
        raise ValueError(f"there is no phase {name[:NAME_CHARACTERS]}")
    return phase


def _decider(shown: DeciderJson | None) -> Decider | None:
    if shown is None:
        return None
    return Decider(
        kind=shown["kind"],
        name=shown.get("name", "")[:NAME_CHARACTERS],
        pubkey=PublicKey(_key(shown.get("pubkey", ""))),
        model=shown.get("model", "")[:NAME_CHARACTERS],
    )


def _millis(time: str | int) -> Millis:
    """Milliseconds since 1970 of ISO 8601, or of a number of seconds or ms."""
    return Millis(round(_TIME.validate_python(time).timestamp() * 1000))


def _key(key: str) -> str:
    return key if is_hex64(key) else ""
