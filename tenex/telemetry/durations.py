"""Durations: pairs the record that started something with the record that ended it.

    routed   a user's message -> the routing decision          reply   a user's message -> the first answer
    route    a request to the router -> its answer             turn    opened -> closed, time of users included
    run      an agent's part in a turn                         model   a model step is wanted -> it is answered
    tool     a started call -> its result                      ask     a question to a user -> their answer

Times are those of the records. What is open is read from the conversation's state after each append, so a restart needs
nothing else; repeated work starts at `ProcessRestarted`. One object follows all active conversations.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis, RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.state.rollback import RolledBack
from tenex.core.state.run import CallState, Run

Stage = Literal["routed", "reply", "route", "turn", "run", "model", "tool", "ask"]

FOLLOWED: Final = 10_000
"""Conversations followed at a time, about 100 MB; the oldest is evicted."""

WORST: Final = ("stopped", "over_limit", "timed_out", "failed")
"""Outcomes of runs, the one that names the outcome of their turn first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Something that has ended."""

    stage: Stage
    conversation: ConversationId
    cycle: int
    phase: Phase
    key: str
    """Unique in its conversation, and the same after a restart."""
    parent: str = ""
    """The key of its parent: a turn for a run, a run for its calls, a call for a sub-agent's run."""
    began: Millis
    ended: Millis
    outcome: str
    """route: accepted, rejected, unavailable, superseded, stopped. model: answered, refused, unavailable, timed_out,
    stopped. tool: ok, failed. ask: answered, closed. run and turn: finished, failed, timed_out, over_limit,
    stopped. Else empty."""
    agent: Slug = Slug("")
    tool: str = ""
    usage: Usage = NO_USAGE
    ending: r.Record
    """The record that ended it."""

    @property
    def seconds(self) -> float:
        """The duration; 0 if the clock was set back."""
        return max(0, self.ended - self.began) / 1000


class Started(NamedTuple):
    """Something that has not ended."""

    stage: Stage
    key: str
    at: Millis
    parent: str = ""
    agent: Slug = Slug("")
    tool: str = ""
    usage: Usage = NO_USAGE


class Intervals:
    """Pairs the records of all conversations."""

    def __init__(self) -> None:
        self._open: OrderedDict[ConversationId, _OpenWork] = OrderedDict()

    def __len__(self) -> int:
        """The number of conversations with open work."""
        return len(self._open)

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> list[Interval]:
        """Return what ended with these records, in order; `conversation` is the state after them.

        In a conversation that was not followed, because of a restart or an eviction, only turns can end with the first.
        """
        known = self._open.get(conversation.id)
        if known is None:
            known = self._open[conversation.id] = _OpenWork(conversation, records)
            if len(self._open) > FOLLOWED:
                self._open.popitem(last=False)
        found = [interval for record in records for interval in known.follow(record, conversation)]
        known.update(conversation, records)
        if not known.started:
            self._open.pop(conversation.id, None)
        return found


class _OpenWork:
    """What is open in one conversation."""

    def __init__(self, c: Conversation, records: Sequence[r.Record]) -> None:
        self.cycle = c.cycle
        self.phase = next((record.from_ for record in records if isinstance(record, r.PhaseTransition)), c.phase)
        self.started: dict[str, Started] = {}
        """By "routed", "reply" and "route"; a run's id; "model" and the run's id; the ids of a call's run and the call.
        """

    def follow(self, record: r.Record, c: Conversation) -> Iterator[Interval]:  # noqa: C901 one case a record: flat
        """What a record ends; `c` is the state after the whole decision."""
        match record:
            case r.ProcessRestarted():
                self._restart(record.at, ("route", "model", "tool"))
            case r.ClockAdjusted():  # no duration mixes two clocks
                self._restart(record.at, ("route", "model", "tool", "routed", "reply"))
            case r.CycleStarted():
                self.cycle, self.phase = record.cycle, record.phase
            case r.PhaseTransition():
                self.phase = record.to
            case RolledBack():
                self.cycle, self.phase = record.state.cycle, record.state.phase
                self._discard("route", "routed", "reply")
            case r.Waiting() | r.Ended():
                self._discard("route", "routed", "reply")
            case r.MessageRecorded():
                for stage in ("routed", "reply"):
                    self.started.setdefault(stage, Started(stage, f"{stage} {record.seq}", record.at))
            case r.MessageSent(purpose="completion" | "question" | "error"):
                yield from self._end("reply", record, c)
            case r.Routed():
                # a user who mentions an agent decides without the router, which may be in a call at that moment
                is_answer = record.usage.calls or record.model
                yield from self._end("route", record, c, "accepted" if is_answer else "superseded", record.usage)
                yield from self._end("routed", record, c)
            case r.RouteRejected():
                yield from self._end("route", record, c, "rejected", record.usage)
            case r.Stopped():
                yield from self._end("route", record, c, "stopped")
            case r.TurnOpened():
                self._discard("route")
            case r.RunStarted():
                self._begin(record.run, _started_run(record, record.run, record.at, NO_USAGE))
            case r.RetryScheduled(run=None, limit=""):
                yield from self._end("route", record, c, "unavailable", record.usage)
            case r.RetryScheduled(run=run, limit="") if run is not None:
                yield from self._end_model(run, record, c, "unavailable", record.usage)
            case r.RetryScheduled():  # no model was called
                self._discard("route" if record.run is None else f"model {record.run}")
            case r.ModelResponded():
                yield from self._end_model(record.run, record, c, "answered", record.step.usage)
            case r.ModelReprompted():
                yield from self._end_model(record.run, record, c, "refused", record.usage)
            case r.ToolCallRejected() | r.ToolCallCompleted() | r.QuestionAnswered():
                name = f"{record.run} {record.call}"
                outcome = "ok" if isinstance(record, r.ToolCallCompleted) and record.ok else "failed"
                if (call := self.started.get(name)) is not None and call.stage == "ask":
                    outcome = "closed" if isinstance(record, r.ToolCallCompleted) else "answered"
                yield from self._end(name, record, c, outcome)
            case r.RunEnded():
                outcome = "refused" if record.outcome == "failed" else record.outcome
                yield from self._end_model(record.run, record, c, outcome, record.usage)
                yield from self._end(record.run, record, c, record.outcome)
            case r.TurnClosed():
                turn = next((turn for turn in reversed(c.turns) if turn.turn_id == record.turn_id), None)
                if turn is not None:
                    outcomes = {done.outcome for done in turn.completions}
                    outcome = next((outcome for outcome in WORST if outcome in outcomes), "finished")
                    self.started["turn"] = Started("turn", turn.turn_id, turn.timestamp)
                    yield from self._end("turn", record, c, outcome)

    def update(self, c: Conversation, records: Sequence[r.Record]) -> None:
        """Add what the state shows as open and is not known yet, and drop what belongs to runs that are over."""
        times = {record.seq: record.at for record in records}
        for run in c.runs.values():
            if run.id not in self.started:
                began = c.turn.timestamp if c.turn is not None else c.updated_at
                self._begin(run.id, _started_run(run, run.id, began, run.usage))
            if run.wants is not None:
                began = times.get(run.wants, c.updated_at)
                self._begin(f"model {run.id}", _part(run, "model", f"{run.id} {run.wants}", began))
            for call in run.open_calls:
                if call.has_begun:
                    is_ask = call.state is CallState.PARKED
                    before = run.parked_at if is_ask and run.parked_at is not None else c.updated_at
                    began, name = times.get(call.seq, before), f"{run.id} {call.request.id}"
                    part = _part(run, "ask" if is_ask else "tool", name, began)
                    self._begin(name, part._replace(tool=call.request.tool))
        if c.question is not None and c.question.retry is None:
            seq = c.question.seq
            self._begin("route", Started("route", f"route {seq}", times.get(seq, c.updated_at)))
        for name, one in list(self.started.items()):
            owner = one.key if one.stage == "run" else one.parent
            if owner and owner not in c.runs:
                del self.started[name]

    def _begin(self, name: str, started: Started) -> None:
        known = self.started.get(name)
        if known is None or known.key != started.key:
            self.started[name] = started

    def _discard(self, *names: str) -> None:
        for name in names:
            self.started.pop(name, None)

    def _restart(self, at: Millis, stages: Collection[Stage]) -> None:
        for name, one in self.started.items():
            if one.stage in stages:
                self.started[name] = one._replace(at=at)

    def _end_model(
        self, run: RunId, record: r.Record, c: Conversation, outcome: str, usage: Usage
    ) -> Iterator[Interval]:
        if usage.calls and (known := self.started.get(run)) is not None:
            self.started[run] = known._replace(usage=known.usage + usage)
        yield from self._end(f"model {run}", record, c, outcome, usage)

    def _end(
        self, name: str, record: r.Record, c: Conversation, outcome: str = "", usage: Usage = NO_USAGE
    ) -> Iterator[Interval]:
        one = self.started.pop(name, None)
        if one is not None:
            yield Interval(
                stage=one.stage,
                conversation=c.id,
                cycle=self.cycle,
                phase=self.phase,
                key=one.key,
                parent=one.parent,
                began=one.at,
                ended=max(one.at, record.at),
                outcome=outcome,
                agent=one.agent,
                tool=one.tool,
                usage=one.usage + usage,
                ending=record,
            )


def _started_run(run: Run | r.RunStarted, name: RunId, at: Millis, usage: Usage) -> Started:
    parent = name.partition(".")[0] if run.parent is None else f"{run.parent} {run.call}"
    return Started("run", name, at, parent, run.agent, usage=usage)


def _part(run: Run, stage: Stage, key: str, at: Millis) -> Started:
    return Started(stage, key, at, run.id, run.agent)
