"""A whole state as one record: what a journal's later files begin with, so that no start reads the earlier ones.

It is no fact of its own. It bears the seq and the time of the last record it sums up, and a reader of all files passes
over it.
"""

from dataclasses import dataclass

from tenex.core.record import Record
from tenex.core.state import State, parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord(Record):
    """What a later file of any journal begins with; bears the seq of the last record it sums up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot(SnapshotRecord):
    """Where the conversation was after the record `seq`.

    A change to what `State` or any value in it means is a change to this record: a higher version, and a migration.
    """

    state: State

    @classmethod
    def of(cls, state: State) -> "StateSnapshot":
        """The snapshot of a state; what is applied to that later does not show in it."""
        return cls(seq=state.next_seq - 1, at=state.identity.updated_at, state=State(*parts_of(state)))
