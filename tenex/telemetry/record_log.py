"""A log line for each step that decides where a conversation goes: transitions, decisions, turns and ends.

Texts of users and models are left out: a reader finds these in the conversation's file, by the id and the seq.
"""

from collections.abc import Sequence
from typing import Any

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.people.decider import Decider
from tenex.core.record import Record
from tenex.log import get_logger

_log = get_logger(__name__)


class RecordLog:
    """Logs what became durable (`core.ports.Observer`)."""

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Log those of the records that decide something."""
        for record in records:
            event, fields = _line(record)
            if event:
                _log.info(event, conversation=conversation.id, seq=record.seq, **fields)


def _line(record: Record) -> tuple[str, dict[str, Any]]:
    """The event's name and its fields; "" for a record that is not logged."""
    match record:
        case r.PhaseTransition():
            return "phase.entered", {"phase": record.to, "left": record.from_, "by": _kind(record.decided_by)}
        case r.Routed():
            by = _kind(record.decided_by)
            return "decision.accepted", {"agents": list(record.agents), "phase": record.phase, "by": by}
        case r.RouteRejected():
            return "decision.refused", {"by": _kind(record.decided_by), "is_counted": record.counted}
        case r.TurnOpened():
            return "turn.opened", {"turn": record.turn_id, "phase": record.phase, "agents": list(record.agents)}
        case r.TurnClosed():
            return "turn.closed", {"turn": record.turn_id, "gate": record.gate}
        case r.CycleStarted():
            return "cycle.started", {"cycle": record.cycle, "by": _kind(record.decided_by)}
        case r.Ended():
            return "cycle.ended", {"by": _kind(record.decided_by)}
        case _:
            return "", {}


def _kind(decider: Decider | None) -> str:
    return decider.kind if decider is not None else ""
