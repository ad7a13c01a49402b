"""A conversation: nothing but a fold over its records.

`apply` is the only way it changes. A record that concerns the whole (a rollback, a fork, an import, a rebuild) gives a
whole new state; any other is given to the reducers of each part, which all read the state before it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core import records as r
from tenex.core.agent_phases.reducers import AGENT_PHASES
from tenex.core.approvals.reducers import APPROVALS
from tenex.core.cycle.reducers import CYCLE
from tenex.core.delivery.reducers import DELIVERY
from tenex.core.functions.reducers import FUNCTIONS
from tenex.core.history.reducers import HISTORY
from tenex.core.identity.reducers import IDENTITY
from tenex.core.identity.state import Identity
from tenex.core.ids import ConversationId
from tenex.core.memory.reducers import MEMORY
from tenex.core.phases import Phase
from tenex.core.rebuild.reducers import imported, rebuilt
from tenex.core.reducers import Reducers
from tenex.core.rollback.whole import ConversationForked, RolledBack, forked, gone_back
from tenex.core.router.reducers import ROUTER
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import PARTS, KindState, State, parts_of
from tenex.core.totals.reducers import TOTALS, with_work
from tenex.core.undo.reducers import UNDO
from tenex.core.values import replace
from tenex.core.work.reducers import WORK
from tenex.core.work.run import Run

__all__ = ["Conversation", "Run", "fold", "new_conversation"]

_REDUCERS: Final[tuple[Reducers[Any], ...]] = (
    IDENTITY,
    CYCLE,
    WORK,
    FUNCTIONS,
    UNDO,
    DELIVERY,
    MEMORY,
    AGENT_PHASES,
    TOTALS,
    HISTORY,
    ROUTER,
    APPROVALS,
)
"""Several may change one part, but not by the same record."""

_OF_THE_WHOLE: Final[dict[type[r.Record], Callable[[State, Any], State]]] = {
    r.JournalRebuilt: rebuilt,
    r.ConversationImported: imported,
    RolledBack: gone_back,
    ConversationForked: forked,
}

_KIND_REDUCERS: Final[dict[str, Reducers[Any]]] = {}
"""Those of the parts of kinds, by the kind's name."""

Plan = tuple[tuple[str, Callable[[Any, Any, State], Any]], ...]
"""The parts that a record changes, each with its reducer."""

_plans: Final[dict[type[r.Record], tuple[Plan, Plan]]] = {}
"""By class of record the parts of the kernel it changes, and those of kinds; filled when a class is first met."""


def register_reducers(reducers: Reducers[Any]) -> None:
    """Have the part of a kind change by these reducers, whose name is the kind's."""
    _KIND_REDUCERS[reducers.part] = reducers
    _plans.clear()


@dataclass(slots=True)
class Conversation(State):
    """The state of a conversation, and how records change it. Build one with `fold`."""

    def fork(self) -> "Conversation":
        """A copy to draft on."""
        return Conversation(*parts_of(self))

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

        self.totals = with_work(self, record)
        of_the_whole = _OF_THE_WHOLE.get(type(record))
        if of_the_whole is not None:
            note = HISTORY.get(type(record))
            if note is not None:
                self.history = note(self.history, record, self)
            self.become(of_the_whole(self, record))

        plan, plan_of_kinds = _plan(type(record))
        changes = [(part, reduce(getattr(self, part), record, self)) for part, reduce in plan]
        if plan_of_kinds:
            self.kinds = self._kinds_after(record, plan_of_kinds)
        for part, value in changes:
            setattr(self, part, value)

        is_without_phase = plan_of_kinds and not self.has_phases
        if is_without_phase and self.cycle.phase is not Phase.EXECUTE:
            self.cycle = replace(self.cycle, phase=Phase.EXECUTE)  # where code forbids nothing
        self.identity = replace(self.identity, next_seq=record.seq + 1, updated_at=record.at)

    def _kinds_after(self, record: r.Record, plan: Plan) -> Mapping[str, KindState]:
        kinds = dict(self.kinds)
        for kind, reduce in plan:
            value = reduce(kinds.get(kind), record, self)
            if value is not None:
                kinds[kind] = value
            elif kind in kinds:
                del kinds[kind]
        return kinds

    def become(self, state: State) -> None:
        """Take over the parts of a state."""
        for part in PARTS:
            setattr(self, part, getattr(state, part))

    def _restore(self, snapshot: StateSnapshot) -> None:
        """Begin with a snapshot's state; one that is passed on the way changes nothing."""
        state = snapshot.state
        if state.id != self.id or state.next_seq != snapshot.seq + 1:
            raise ValueError(f"the snapshot of seq {snapshot.seq} is of another conversation or another moment")
        if self.next_seq == 1:
            self.become(state)
        elif self.next_seq != state.next_seq:
            raise ValueError(f"the snapshot of seq {snapshot.seq} comes where {self.next_seq} is next")


def _plan(record: type[r.Record]) -> tuple[Plan, Plan]:
    plans = _plans.get(record)
    if plans is None:
        kernel = () if record in _OF_THE_WHOLE else _with_reducer(record, _REDUCERS)
        plans = (kernel, _with_reducer(record, _KIND_REDUCERS.values()))
        _plans[record] = plans
    return plans


def _with_reducer(record: type[r.Record], tables: Iterable[Reducers[Any]]) -> Plan:
    reducers = ((table.part, table.get(record)) for table in tables)
    return tuple((part, reduce) for part, reduce in reducers if reduce is not None)


def new_conversation(conversation: ConversationId, **parts: Any) -> Conversation:
    """A conversation without records; `parts` are those that begin with another value than their default."""
    return Conversation(identity=Identity(id=conversation), **parts)


def fold(conversation: ConversationId, records: Iterable[r.Record]) -> Conversation:
    """The state after these records, the first of which has seq 1 or is a snapshot."""
    state = new_conversation(conversation)
    for record in records:
        state.apply(record)
    return state
