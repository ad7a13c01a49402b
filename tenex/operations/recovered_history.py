"""Reads what a readable file shows of a conversation's past: transitions, and where its messages were written.

Both come back as values that only readers are shown, marked with the file they are from: no gate is met, waived or
approved by them. An entry that cannot be understood is named among what is lost; texts are cut. (ADR 51.)
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from tenex.core.cycle.records import PhaseTransition
from tenex.core.decider import Decider, DeciderKind
from tenex.core.history.state import BLOCK, History, HistoryRecovered, MessagePlace
from tenex.core.ids import EventId, Millis, PublicKey, TurnId
from tenex.core.messages import cut
from tenex.core.phases import Phase
from tenex.core.records import Record
from tenex.core.state import State
from tenex.nostr.threading.base import is_hex64
from tenex.store.view_reader import entries

TEXT_CHARACTERS: Final = 8_000
NAME_CHARACTERS: Final = 200
MOST: Final = 2**53
"""Of a count."""

_TIME: Final = TypeAdapter(datetime)


def _millis(value: Any) -> Any:
    """Milliseconds since 1970 of ISO 8601, or of a number of seconds or ms."""
    return round(_TIME.validate_python(value).timestamp() * 1000)


def _phase(value: Any) -> Any:
    return (Phase.parse(value) if isinstance(value, str) else None) or value


Time = Annotated[int, BeforeValidator(_millis)]
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Text = Annotated[Words, AfterValidator(lambda value: cut(value, TEXT_CHARACTERS))]
Name = Annotated[Words, AfterValidator(lambda value: value[:NAME_CHARACTERS])]
Key = Annotated[Words, AfterValidator(lambda value: value if is_hex64(value) else "")]
Count = Annotated[int, Field(ge=0, le=MOST)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class _Decider(_Entry):
    kind: DeciderKind
    name: Name = ""
    pubkey: Key = ""
    model: Name = ""


def _by(decider: _Decider | None) -> Decider | None:
    if decider is None:
        return None
    return Decider(kind=decider.kind, name=decider.name, pubkey=PublicKey(decider.pubkey), model=decider.model)


class _Transition(_Entry):
    from_: Annotated[Phase, BeforeValidator(_phase)] = Field(alias="from")
    to: Annotated[Phase, BeforeValidator(_phase)]
    time: Time | None = None
    timestamp: Time
    """ms; small numbers could be seconds, so that `time` counts where it is there."""
    message: Text = ""
    cycle: Count = 0
    decided_by: _Decider | None = None
    agent_pubkey: Key = ""
    agent_name: Name = ""
    reason: Text = ""
    summary: Text = ""
    request: Name = ""

    def value(self, source: str) -> PhaseTransition:
        at = Millis(self.time if self.time is not None else self.timestamp)
        return PhaseTransition(
            seq=0,
            at=at,
            from_=self.from_,
            to=self.to,
            message=self.message,
            agent_pubkey=PublicKey(self.agent_pubkey),
            agent_name=self.agent_name,
            reason=self.reason,
            summary=self.summary,
            decided_by=_by(self.decided_by),
            cycle=self.cycle,
            request=EventId(self.request),
            source=source,
        )


def transitions_of_view(view: dict[str, Any], source: str, lost: list[str]) -> list[PhaseTransition]:
    """The transitions that a file shows, oldest first; what cannot be understood is added to `lost`."""
    shown = entries(view, "phaseTransitions")
    transitions = []
    for number, entry in enumerate(shown, start=1):
        try:
            transitions.append(_Transition.model_validate(entry).value(source))
        except (ValueError, OverflowError):
            lost.append(f"transition {number} of {len(shown)}, which could not be understood")
    return transitions


class _Place(_Entry):
    time: Time
    text: str
    cycle: Count
    phase: Annotated[Phase | None, BeforeValidator(_phase)] = None
    turn: Name = ""
    event_id: Key = ""
    role: Name = ""

    def value(self) -> MessagePlace:
        event = EventId(self.event_id) if self.event_id and self.role == "agent" else None
        turn = TurnId(self.turn) if self.turn else None
        return MessagePlace(message=0, cycle=self.cycle, phase=self.phase, turn=turn, event=event)


def places_of_view(view: dict[str, Any]) -> dict[tuple[Millis, str], MessagePlace]:
    """Cycle, turn and event of the messages that a file names them for, by time and text."""
    found: dict[tuple[Millis, str], MessagePlace] = {}
    for entry in entries(view, "messages"):
        with suppress(ValueError, OverflowError):
            place = _Place.model_validate(entry)
            found[Millis(place.time), place.text] = place.value()
    return found


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
