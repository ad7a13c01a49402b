"""Durations: pairs the record that started something with the record that ended it.

    routed   a user's message -> the routing decision          reply   a user's message -> the first answer
    route    a request to the router -> its answer             turn    opened -> closed, time of users included
    run      an agent's part in a turn                         model   a model step is wanted -> it is answered
    tool     a started call -> its result                      ask     a question to a user -> their answer

Times are those of the records. After a restart open work is taken from the conversation's state, and repeated work
starts at `ProcessRestarted`. One object follows all active conversations.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.costs import run_agent
from tenex.core.ids import CallId, ConversationId, Millis, RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.state.rollback import RolledBack
from tenex.core.state.run import Call, CallState, OrchestratorTurn

Stage = Literal["routed", "reply", "route", "turn", "run", "model", "tool", "ask"]

FOLLOWED: Final = 10_000
"""Conversations followed at a time, about 100 MB; the oldest is evicted."""


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


class Mark(NamedTuple):
    """The record that started something, and its time."""

    seq: int
    at: Millis


class OpenCall(NamedTuple):
    """A running tool call, or a question that waits for a user."""

    at: Millis
    tool: str
    """Empty for a sub-agent: the record that ends the call names it."""
    is_ask: bool = False


@dataclass(slots=True)
class OpenRun:
    """A run that has not ended."""

    agent: Slug
    part_of: str
    """The turn, or the call of the parent run."""
    began: Millis
    wanted: Mark | None
    asked: set[CallId] = field(default_factory=set)
    """Calls of the current step without a result: after the last one the model is wanted."""
    calls: dict[CallId, OpenCall] = field(default_factory=dict)
    usage: Usage = NO_USAGE


@dataclass(slots=True)
class OpenTurn:
    """A turn, with the outcomes of its ended runs."""

    id: str
    began: Millis
    phase: Phase
    outcomes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Underway:
    """What is open in one conversation."""

    id: ConversationId
    cycle: int
    phase: Phase
    turn: OpenTurn | None = None
    runs: dict[RunId, OpenRun] = field(default_factory=dict)
    question: Mark | None = None
    unrouted: Mark | None = None
    unanswered: Mark | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open."""
        return self.turn is None and self.question is None and self.unrouted is None and self.unanswered is None


Found = Iterator[Interval]


class Intervals:
    """Pairs the records of all conversations."""

    def __init__(self) -> None:
        self._open: OrderedDict[ConversationId, Underway] = OrderedDict()

    def __len__(self) -> int:
        """The number of conversations with open work."""
        return len(self._open)

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> list[Interval]:
        """Return what ended with these records, in order; `conversation` is the state after them."""
        known = self._open.get(conversation.id)
        if known is None:
            known = self._open[conversation.id] = begun_before(conversation, records)
            if len(self._open) > FOLLOWED:
                self._open.popitem(last=False)
        found: list[Interval] = []
        for record in records:
            follow = _FOLLOW.get(type(record))
            if follow is not None:
                found.extend(follow(known, record))
        if known.is_idle:
            self._open.pop(conversation.id, None)
        return found


def begun_before(c: Conversation, records: Sequence[r.Record]) -> Underway:
    """Rebuild what was open before these records from the state after them: after a restart or an eviction.

    A call or question that the records themselves end is not in that state and is not found.
    """
    first = records[0].seq if records else c.next_seq
    came_from = next((record.from_ for record in records if isinstance(record, r.PhaseTransition)), c.phase)
    new_cycle = next((record.cycle for record in records if isinstance(record, r.CycleStarted)), c.cycle + 1)
    known = Underway(id=c.id, cycle=new_cycle - 1, phase=came_from)
    closed = {record.turn_id for record in records if isinstance(record, r.TurnClosed)}
    ending = c.last_turn if c.last_turn is not None and c.last_turn.turn_id in closed else None
    turn = ending or c.turn
    if turn is not None and turn.seq < first:
        runs = list(_runs_of(c, turn, records))
        past = [done.outcome for done in turn.completions if f"{turn.turn_id}.{done.agent}" not in runs]
        known.turn = OpenTurn(turn.turn_id, turn.timestamp, turn.phase, [*past])
        known.runs = {run: _run_begun_before(c, run, turn) for run in runs}
    if c.question is not None and c.question.retry is None and c.question.seq < first:
        known.question = Mark(c.question.seq, c.updated_at)
    return known


def _runs_of(c: Conversation, turn: OrchestratorTurn, records: Sequence[r.Record]) -> Iterator[RunId]:
    ending = {record.run for record in records if isinstance(record, r.RunEnded)}
    for slug in turn.agents:
        run = RunId(f"{turn.turn_id}.{slug}")
        if run in ending or not turn.has_finished(slug):
            yield run
    yield from (run for run in (*c.runs, *sorted(ending)) if run.startswith(f"{turn.turn_id}/"))


def _run_begun_before(c: Conversation, name: RunId, turn: OrchestratorTurn) -> OpenRun:
    run = c.runs.get(name)
    if run is None:
        part_of = "" if "/" in name else turn.turn_id  # its caller is not in the state any more
        return OpenRun(run_agent(name), part_of, turn.timestamp, None)
    wanted = Mark(run.wants, c.updated_at) if run.wants is not None else None
    calls = {
        call.request.id: _call_begun_before(call, since=c.updated_at, parked_at=run.parked_at)
        for call in run.open_calls
        if call.has_begun
    }
    asked = {call.request.id for call in run.open_calls}
    part_of = turn.turn_id if run.parent is None else f"{run.parent} {run.call}"
    return OpenRun(run.agent, part_of, turn.timestamp, wanted, asked, calls, run.usage)


def _call_begun_before(call: Call, *, since: Millis, parked_at: Millis | None) -> OpenCall:
    if call.state is CallState.PARKED:
        return OpenCall(since if parked_at is None else parked_at, call.request.tool, is_ask=True)
    return OpenCall(since, call.request.tool)


# ---- what each record starts and ends ----


def _process_restarted(c: Underway, record: r.ProcessRestarted) -> Found:
    """Open work is repeated from here; questions to users keep their start."""
    if c.question is not None:
        c.question = c.question._replace(at=record.at)
    for run in c.runs.values():
        if run.wanted is not None:
            run.wanted = run.wanted._replace(at=record.at)
        run.calls = {id_: call if call.is_ask else call._replace(at=record.at) for id_, call in run.calls.items()}
    yield from ()


def _clock_set(c: Underway, record: r.ClockAdjusted) -> Found:
    """Open work counts from now, so that no duration mixes two clocks."""
    mark = Mark(record.seq, record.at)
    c.unrouted, c.unanswered = c.unrouted and mark, c.unanswered and mark
    yield from _process_restarted(c, r.ProcessRestarted(seq=record.seq, at=record.at))


def _cycle(c: Underway, record: r.CycleStarted) -> Found:
    c.cycle, c.phase = record.cycle, record.phase
    yield from ()


def _rolled_back(c: Underway, record: RolledBack) -> Found:
    c.cycle, c.phase = record.state.cycle, record.state.phase
    yield from _became_idle(c, record)


def _transition(c: Underway, record: r.PhaseTransition) -> Found:
    c.phase = record.to
    yield from ()


def _message_recorded(c: Underway, record: r.MessageRecorded) -> Found:
    mark = Mark(record.seq, record.at)
    c.unrouted, c.unanswered = c.unrouted or mark, c.unanswered or mark
    yield from ()


def _became_idle(c: Underway, _record: r.Record) -> Found:
    c.question = c.unrouted = c.unanswered = None
    yield from ()


def _route_asked(c: Underway, record: r.RouteRequested) -> Found:
    c.question = Mark(record.seq, record.at)
    yield from ()


def _routed(c: Underway, record: r.Routed) -> Found:
    # a user who mentions an agent decides without the router, which may be in a call at that moment
    yield from _route_over(c, record, "accepted" if record.usage.calls or record.model else "superseded", record.usage)
    if c.unrouted is not None:
        mark, c.unrouted = c.unrouted, None
        yield _interval(c, "routed", f"routed {mark.seq}", mark.at, record)


def _rejected(c: Underway, record: r.RouteRejected) -> Found:
    yield from _route_over(c, record, "rejected", record.usage)


def _stopped(c: Underway, record: r.Stopped) -> Found:
    yield from _route_over(c, record, "stopped", NO_USAGE)


def _route_over(c: Underway, record: r.Record, outcome: str, usage: Usage) -> Found:
    if c.question is not None:
        mark, c.question = c.question, None
        yield _interval(c, "route", f"route {mark.seq}", mark.at, record, outcome=outcome, usage=usage)


def _turn_opened(c: Underway, record: r.TurnOpened) -> Found:
    c.turn, c.question = OpenTurn(record.turn_id, record.at, record.phase), None
    yield from ()


def _run_started(c: Underway, record: r.RunStarted) -> Found:
    part_of = c.turn.id if c.turn is not None else ""
    if record.parent is not None and record.call is not None:
        part_of = f"{record.parent} {record.call}"
        if (caller := c.runs.get(record.parent)) is not None:
            caller.calls[record.call] = OpenCall(record.at, "")
    c.runs[record.run] = OpenRun(record.agent, part_of, record.at, Mark(record.seq, record.at))
    yield from ()


def _model_over(c: Underway, record: Any, outcome: str, usage: Usage) -> Found:
    run = c.runs.get(record.run)
    if run is None:
        return
    mark, run.wanted = run.wanted, None
    run.usage = run.usage + usage if usage.calls else run.usage
    # wanted and cancelled in one decision: no model was called
    if mark is not None and (outcome == "answered" or usage.calls or record.at != mark.at):
        yield _of_run(c, run, record, "model", f"{record.run} {mark.seq}", mark.at, outcome, usage=usage)


def _model_responded(c: Underway, record: r.ModelResponded) -> Found:
    yield from _model_over(c, record, "answered", record.step.usage)
    if (run := c.runs.get(record.run)) is not None:
        run.asked = {call.id for call in record.step.calls}


def _model_reprompted(c: Underway, record: r.ModelReprompted) -> Found:
    yield from _model_over(c, record, "refused", record.usage)
    _want(c, record.run, record)


def _retrying(c: Underway, record: r.RetryScheduled) -> Found:
    if record.limit:  # no model was called
        c.question = None if record.run is None else c.question
        if record.run is not None and (run := c.runs.get(record.run)) is not None:
            run.wanted = None
    elif record.run is None:
        yield from _route_over(c, record, "unavailable", record.usage)
    else:
        yield from _model_over(c, record, "unavailable", record.usage)


def _retry_due(c: Underway, record: r.RetryDue) -> Found:
    if record.run is None:
        c.question = Mark(record.seq, record.at)
    else:
        _want(c, record.run, record)
    yield from ()


def _want(c: Underway, name: RunId, record: r.Record) -> None:
    run = c.runs.get(name)
    if run is not None:
        run.asked.clear()
        run.wanted = Mark(record.seq, record.at)


def _tool_started(c: Underway, record: r.ToolCallStarted) -> Found:
    if (run := c.runs.get(record.run)) is not None:
        run.calls[record.call] = OpenCall(record.at, record.tool)
    yield from ()


def _question_asked(c: Underway, record: r.QuestionAsked) -> Found:
    if (run := c.runs.get(record.run)) is not None:
        run.calls[record.call] = OpenCall(record.at, "ask", is_ask=True)
    yield from ()


def _call_over(outcome_of: Callable[[Any], str]) -> Callable[[Underway, Any], Found]:
    def follow(c: Underway, record: Any) -> Found:
        run = c.runs.get(record.run)
        if run is None:
            return
        call = run.calls.pop(record.call, None)
        run.asked.discard(record.call)
        if not run.asked:
            _want(c, record.run, record)
        if call is not None:
            stage: Stage = "ask" if call.is_ask else "tool"
            outcome = "closed" if call.is_ask and isinstance(record, r.ToolCallCompleted) else outcome_of(record)
            key = f"{record.run} {record.call}"
            yield _of_run(c, run, record, stage, key, call.at, outcome, tool=call.tool or record.tool)

    return follow


def _run_ended(c: Underway, record: r.RunEnded) -> Found:
    outcome = "refused" if record.outcome == "failed" else record.outcome
    yield from _model_over(c, record, outcome, record.usage)
    run = c.runs.pop(record.run, None)
    if c.turn is not None and (run is None or run.part_of == c.turn.id):
        c.turn.outcomes.append(record.outcome)
    if run is not None:
        found = _of_run(c, run, record, "run", record.run, run.began, record.outcome, usage=run.usage)
        yield replace(found, parent=run.part_of)


def _turn_closed(c: Underway, record: r.TurnClosed) -> Found:
    turn, c.turn = c.turn, None
    c.runs.clear()
    if turn is not None and turn.id == record.turn_id:
        worst = [outcome for outcome in ("stopped", "over_limit", "timed_out", "failed") if outcome in turn.outcomes]
        outcome = worst[0] if worst else "finished"
        yield replace(_interval(c, "turn", turn.id, turn.began, record, outcome=outcome), phase=turn.phase)


def _message_sent(c: Underway, record: r.MessageSent) -> Found:
    if c.unanswered is not None and record.purpose in ("completion", "question", "error"):
        mark, c.unanswered = c.unanswered, None
        yield _interval(c, "reply", f"reply {mark.seq}", mark.at, record)


def _interval(
    c: Underway, stage: Stage, key: str, began: Millis, record: r.Record, *, outcome: str = "", usage: Usage = NO_USAGE
) -> Interval:
    return Interval(
        stage=stage,
        conversation=c.id,
        cycle=c.cycle,
        phase=c.phase,
        key=key,
        began=began,
        ended=max(began, record.at),
        outcome=outcome,
        usage=usage,
        ending=record,
    )


def _of_run(
    c: Underway,
    run: OpenRun,
    record: Any,
    stage: Stage,
    key: str,
    began: Millis,
    outcome: str,
    *,
    tool: str = "",
    usage: Usage = NO_USAGE,
) -> Interval:
    phase = c.turn.phase if c.turn is not None else c.phase
    return Interval(
        stage=stage,
        conversation=c.id,
        cycle=c.cycle,
        phase=phase,
        key=key,
        parent=record.run,
        began=began,
        ended=max(began, record.at),
        outcome=outcome,
        agent=run.agent,
        tool=tool,
        usage=usage,
        ending=record,
    )


_FOLLOW: Final[dict[type[r.Record], Callable[[Underway, Any], Found]]] = {
    r.ProcessRestarted: _process_restarted,
    r.ClockAdjusted: _clock_set,
    r.CycleStarted: _cycle,
    r.MessageRecorded: _message_recorded,
    r.Waiting: _became_idle,
    r.Ended: _became_idle,
    r.Stopped: _stopped,
    r.RouteRequested: _route_asked,
    r.RouteRejected: _rejected,
    r.Routed: _routed,
    r.PhaseTransition: _transition,
    r.TurnOpened: _turn_opened,
    r.RunStarted: _run_started,
    r.ModelResponded: _model_responded,
    r.ModelReprompted: _model_reprompted,
    r.ToolCallStarted: _tool_started,
    r.ToolCallRejected: _call_over(lambda _: "failed"),
    r.ToolCallCompleted: _call_over(lambda record: "ok" if record.ok else "failed"),
    r.QuestionAsked: _question_asked,
    r.QuestionAnswered: _call_over(lambda _: "answered"),
    r.RetryScheduled: _retrying,
    r.RetryDue: _retry_due,
    r.RunEnded: _run_ended,
    r.TurnClosed: _turn_closed,
    r.MessageSent: _message_sent,
    RolledBack: _rolled_back,
}
