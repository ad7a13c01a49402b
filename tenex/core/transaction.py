"""A decision while it is made: records added one by one, each seen by the rules that follow.

The transaction applies every record to a fork of the conversation, so a rule reads the state as it will be. The
conversation itself is not touched; once everything is decided, the fork takes its place.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.cycle.records import CycleStarted
from tenex.core.ids import Millis
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.records import Record, ToolCallCompleted, ToolCallRejected
from tenex.core.values import replace
from tenex.core.work.run import Call, Run

R = TypeVar("R", bound=Record)

Seal = Callable[[Conversation, Record], Record]
"""Adds to a record what the core leaves open, given the conversation before it: events, the prompt of a run."""


def unsealed(_: Conversation, record: Record) -> Record:
    """Leave a record as it was decided."""
    return record


class Transaction:
    """What has been decided so far, and the state it leads to."""

    __slots__ = ("_hides_verdicts", "_seal", "before", "now", "policy", "records", "state")

    def __init__(self, conversation: Conversation, policy: Policy, now: Millis, seal: Seal = unsealed) -> None:
        self.state = conversation.fork()
        """What the rules read: as `after`, but only with verdicts of functions that were asked for this decision."""
        self.policy = policy
        self.now = now
        self.records: list[Record] = []
        self.before = conversation
        """The conversation as it was."""
        self._seal = seal
        self._hides_verdicts = False

    def add(self, kind: type[R], /, **data: Any) -> R:
        """Record a fact; returns it as it was decided."""
        record = kind(seq=self.state.next_seq, at=self.now, **data)
        sealed = self._seal(self.state, record)
        self.state.apply(sealed)
        self.records.append(sealed)
        return record

    def hide_verdicts(self) -> None:
        """Ask functions again for this decision; what they answered for others stays on record."""
        if self.state.work.verdicts:
            self.state.work = replace(self.state.work, verdicts={})
            self._hides_verdicts = True

    @property
    def after(self) -> Conversation:
        """The conversation after these records."""
        if not self._hides_verdicts:
            return self.state
        state = self.before.fork()
        for record in self.records:
            state.apply(record)
        return state

    def begin_cycle(self, reason: str, phase: Phase = Phase.CHAT, *, decided_by: Decider) -> None:
        """Record that a cycle begins, with the requests that no turn of the last one could carry out."""
        carried = tuple(message.seq for message in self.state.requests)
        cycle = self.state.cycle.number + 1
        self.add(CycleStarted, cycle=cycle, reason=reason, phase=phase, carried=carried, decided_by=decided_by)

    def add_result(self, run: Run, call: Call, *, ok: bool, content: str, **more: Any) -> None:
        """Record the result of a call."""
        self.add(
            ToolCallCompleted, run=run.id, call=call.request.id, tool=call.request.tool, ok=ok, content=content, **more
        )

    def refuse(self, run: Run, call: Call, sentence: str) -> None:
        """Record that a call is refused, with the reason for its model."""
        self.add(ToolCallRejected, run=run.id, call=call.request.id, tool=call.request.tool, sentence=sentence)
