"""A conversation: nothing but a fold over its records.

`apply` is the only way it changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from tenex.core.reducers.conversation import REDUCERS
from tenex.core.reducers.history import noted
from tenex.core.reducers.phase_metrics import count_work
from tenex.core.state.conversation import State
from tenex.core.state.run import Run
from tenex.core.state.snapshot import StateSnapshot

from . import records as r
from .ids import ConversationId

__all__ = ["Conversation", "Run", "fold"]


@dataclass(slots=True)
class Conversation(State):
    """The state of a conversation, and how records change it. Build one with `fold`."""

    def fork(self) -> "Conversation":
        """A copy to draft on."""
        return Conversation(*_VALUES(self))

    def apply(self, record: r.Record) -> None:
        """Take a fact in. The only way state changes.

        Raises:
            ValueError: the record is not the next one; nothing has changed.
        """
        if isinstance(record, StateSnapshot):
            self._restore(record)
            return
        if record.seq != self.next_seq:
            raise ValueError(f"{type(record).__name__} has seq {record.seq}, but {self.next_seq} is next")
        count_work(self, record)
        noted(self, record)
        reducer = REDUCERS.get(type(record))
        if reducer is not None:
            reducer(self, record)
        self.next_seq = record.seq + 1
        self.updated_at = record.at

    def _restore(self, snapshot: StateSnapshot) -> None:
        """Begin with a snapshot's state; one that is passed on the way changes nothing."""
        state = snapshot.state
        if state.id != self.id or state.next_seq != snapshot.seq + 1:
            raise ValueError(f"the snapshot of seq {snapshot.seq} is of another conversation or another moment")
        if self.next_seq == 1:
            for spec in fields(State):
                setattr(self, spec.name, getattr(state, spec.name))
        elif self.next_seq != state.next_seq:
            raise ValueError(f"the snapshot of seq {snapshot.seq} comes where {self.next_seq} is next")


_VALUES: Final = attrgetter(*(spec.name for spec in fields(State)))
"""All that a state holds, in order: `copy` would take four times as long."""


def fold(conversation: ConversationId, records: Iterable[r.Record]) -> Conversation:
    """The state after these records, the first of which has seq 1 or is a snapshot."""
    state = Conversation(id=conversation)
    for record in records:
        state.apply(record)
    return state
