"""A conversation: nothing but a fold over its records.

`apply` is the only way it changes. (DESIGN section 2.)

Never: a rule (that is `decide`), a clock, or a look at the configuration.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass

from . import records as r
from .folds import FOLDS
from .ids import ConversationId
from .runs import Run
from .state import State

__all__ = ["Conversation", "Run", "fold"]


@dataclass(slots=True)
class Conversation(State):
    """Where a conversation stands, and how it gets there. Build one with `fold`."""

    def fork(self) -> "Conversation":
        """A copy to draft on: O(1), without the history."""
        twin = copy(self)
        twin.history = None
        return twin

    def apply(self, record: r.Record) -> None:
        """Take a fact in. The only way state changes.

        Raises:
            ValueError: the record is not the next one; nothing has changed.
        """
        if record.seq != self.next_seq:
            raise ValueError(f"{type(record).__name__} has seq {record.seq}, but {self.next_seq} is next")
        fold = FOLDS.get(type(record))
        if fold is not None:
            fold(self, record)
        self.next_seq = record.seq + 1
        self.updated_at = record.at


def fold(conversation: ConversationId, records: Iterable[r.Record]) -> Conversation:
    """The state after these records, the first of which has seq 1."""
    state = Conversation(id=conversation)
    for record in records:
        state.apply(record)
    return state
