"""How long things took: what began with one record and ended with another.

    routed   a person's message -> the decision it led to      reply   a person's message -> the first words for them
    route    a question to the router -> its answer            turn    opened -> closed, a person's time included
    run      an agent's part in a turn                         model   a run's model is wanted -> it has answered
    tool     a permitted call -> its result                    ask     a question to a person -> their answer

Times are those of the records, so a restart changes nothing: what was under way is taken from the conversation, and
what has to be done again starts with `ProcessRestarted`. One object follows all conversations that are at work; what it
knows of one is let go of when nothing is open there.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis, RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.state.rollback import RolledBack

from .open_spans import Mark, OpenCall, OpenRun, OpenTurn, Underway, begun_before

Stage = Literal["routed", "reply", "route", "turn", "run", "model", "tool", "ask"]

FOLLOWED: Final = 10_000
"""Conversations followed at a time; beyond it the one that began to work first is forgotten, some 100 MB later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Something that has ended."""

    stage: Stage
    conversation: ConversationId
    cycle: int
    phase: Phase
    key: str
    """What it is, unique in its conversation and the same after a restart."""
    parent: str = ""
    """The key of what it is a part of: a turn for a run, a run for its calls, a call for the run of a colleague."""
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
        """How long it took; never negative, though clocks may be set back."""
        return max(0, self.ended - self.began) / 1000


Found = Iterator[Interval]


class Intervals:
    """Pairs records of all conversations."""

    def __init__(self) -> None:
        self._open: OrderedDict[ConversationId, Underway] = OrderedDict()

    def __len__(self) -> int:
        """The conversations something is open in."""
        return len(self._open)

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> list[Interval]:
        """What ended with these records, in order; `conversation` is as they have left it."""
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


# ---- what each record begins and ends ----


def _reopened(c: Underway, record: r.ProcessRestarted) -> Found:
    """What was under way is done again from here on; a person's time goes on."""
    if c.question is not None:
        c.question = c.question._replace(at=record.at)
    for run in c.runs.values():
        if run.wanted is not None:
            run.wanted = run.wanted._replace(at=record.at)
        run.calls = {id_: call if call.is_ask else call._replace(at=record.at) for id_, call in run.calls.items()}
    yield from ()


def _clock_set(c: Underway, record: r.ClockAdjusted) -> Found:
    """Measure by one clock only: what began before it was set is taken to have begun now."""
    mark = Mark(record.seq, record.at)
    c.unrouted, c.unanswered = c.unrouted and mark, c.unanswered and mark
    yield from _reopened(c, r.ProcessRestarted(seq=record.seq, at=record.at))


def _cycle(c: Underway, record: r.CycleStarted) -> Found:
    c.cycle, c.phase = record.cycle, Phase.CHAT
    yield from ()


def _rolled_back(c: Underway, record: RolledBack) -> Found:
    """What was open has been stopped by the records before it."""
    c.cycle, c.phase = record.state.cycle, record.state.phase
    yield from _rest(c, record)


def _transition(c: Underway, record: r.PhaseTransition) -> Found:
    c.phase = record.to
    yield from ()


def _wrote(c: Underway, record: r.MessageRecorded) -> Found:
    mark = Mark(record.seq, record.at)
    c.unrouted, c.unanswered = c.unrouted or mark, c.unanswered or mark
    yield from ()


def _rest(c: Underway, _record: r.Record) -> Found:
    """Nothing is owed any more: a wait for a person, an end."""
    c.question = c.unrouted = c.unanswered = None
    yield from ()


def _route_asked(c: Underway, record: r.RouteRequested) -> Found:
    c.question = Mark(record.seq, record.at)
    yield from ()


def _routed(c: Underway, record: r.Routed) -> Found:
    # a person who names an agent decides without the router, which may be asked at that moment
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
    # wanted and given up in one decision: no model was asked
    if mark is not None and (outcome == "answered" or usage.calls or record.at != mark.at):
        yield _of_run(c, run, record, "model", f"{record.run} {mark.seq}", mark.at, outcome, usage=usage)


def _stepped(c: Underway, record: r.ModelResponded) -> Found:
    yield from _model_over(c, record, "answered", record.step.usage)
    if (run := c.runs.get(record.run)) is not None:
        run.asked = {call.id for call in record.step.calls}


def _nudged(c: Underway, record: r.ModelReprompted) -> Found:
    yield from _model_over(c, record, "refused", record.usage)
    _want(c, record.run, record)


def _retrying(c: Underway, record: r.RetryScheduled) -> Found:
    if record.limit:  # no model was asked
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


def _permitted(c: Underway, record: r.ToolCallStarted) -> Found:
    if (run := c.runs.get(record.run)) is not None:
        run.calls[record.call] = OpenCall(record.at, record.tool)
    yield from ()


def _ask_opened(c: Underway, record: r.QuestionAsked) -> Found:
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
    given_up = "refused" if record.outcome == "failed" else record.outcome
    yield from _model_over(c, record, given_up, record.usage)
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


def _said(c: Underway, record: r.MessageSent) -> Found:
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
    r.ProcessRestarted: _reopened,
    r.ClockAdjusted: _clock_set,
    r.CycleStarted: _cycle,
    r.MessageRecorded: _wrote,
    r.Waiting: _rest,
    r.Ended: _rest,
    r.Stopped: _stopped,
    r.RouteRequested: _route_asked,
    r.RouteRejected: _rejected,
    r.Routed: _routed,
    r.PhaseTransition: _transition,
    r.TurnOpened: _turn_opened,
    r.RunStarted: _run_started,
    r.ModelResponded: _stepped,
    r.ModelReprompted: _nudged,
    r.ToolCallStarted: _permitted,
    r.ToolCallRejected: _call_over(lambda _: "failed"),
    r.ToolCallCompleted: _call_over(lambda record: "ok" if record.ok else "failed"),
    r.QuestionAsked: _ask_opened,
    r.QuestionAnswered: _call_over(lambda _: "answered"),
    r.RetryScheduled: _retrying,
    r.RetryDue: _retry_due,
    r.RunEnded: _run_ended,
    r.TurnClosed: _turn_closed,
    r.MessageSent: _said,
    RolledBack: _rolled_back,
}
