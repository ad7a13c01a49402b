"""What each fact does to the state: one small function per kind of record, in the order of `records`.

Each costs the same however long the history is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenex.core import records as r
from tenex.core.context.window import MESSAGE_CHARACTERS, remembered
from tenex.core.costs import DAY
from tenex.core.decide.loop_detection import is_new
from tenex.core.ids import Millis, PublicKey, RunId, TurnId
from tenex.core.messages import NO_USAGE, CallResult, Usage, UserText, cut, with_context
from tenex.core.phases import Phase
from tenex.core.state.conversation import (
    EARLIER_PLANS,
    LINES_KEPT,
    READ_FILES,
    ROUTER_LESSONS,
    SEEN,
    SPENDING_DAYS,
    OutboxRow,
    PhaseMetrics,
    RelayRefusal,
    State,
    UndoState,
    of_cycle,
    title_of,
    worked_on,
)
from tenex.core.state.questions import DecisionQuestion
from tenex.core.state.rollback import ConversationForked, RolledBack, forked, rolled_back
from tenex.core.state.run import CallState, Completion, Message, OrchestratorTurn, Question, Retry, Run
from tenex.core.state.undecided import EvaluationRequested, FunctionsEvaluated, Undecided

from . import memory
from .agent import AGENT_REDUCERS, changed, recalled
from .clock import clock_set, reopened
from .evidence import called
from .phase_metrics import leave_phase
from .rebuild import imported, rebuilt
from .workflow import WORKFLOW_REDUCERS, let_through

ANSWER_WORDS = 3
"""`yes`, `ja bitte`, `oui merci beaucoup`: a longer message is more than a yes."""
REFUSALS = 20
"""Refused events that are remembered: enough to see which relay refuses what."""


def _started(c: State, record: r.ConversationStarted) -> None:
    c.title, c.starter, c.address, c.agent = record.title, record.starter, record.address, record.agent
    c.started_at = c.phase_started_at = record.at


def _cycle(c: State, record: r.CycleStarted) -> None:
    if c.phase is not record.phase and c.cycle:
        leave_phase(c, record.at)
        c.phase_from, c.last_transition = c.phase, None
    carried = tuple(replace(message, cycle=record.cycle) for message in _carried(c, record))
    if carried:
        seqs = {message.seq for message in carried}
        c.recent = tuple(replace(m, cycle=record.cycle) if m.seq in seqs else m for m in c.recent)
    c.past = remembered(c.past, c.cycle, c.messages, c.turns)
    if c.unannounced is not None and c.unannounced.to is not record.phase:
        c.unannounced = None
    c.cycle, c.status, c.waiting_for, c.refused = record.cycle, "active", "", ""
    c.phase, c.wrote_since_entry = record.phase, bool(carried)
    c.messages, c.turns, c.participants, c.reflected = carried, (), (), frozenset()
    c.executed, c.gates_met, c.waivers = False, frozenset(), ()
    c.waiver_asked, c.waiver_asked_of, c.waiver_declined = (), PublicKey(""), frozenset()
    c.waiver_question, c.waiver_untried, c.untried_asked = None, "", False
    c.plan_question, c.earlier_plans, c.approved_turn = None, (), TurnId("")
    c.touched, c.lines, c.read_files = frozenset(), {}, {}
    c.changed_outside = False
    c.cycle_usage = c.talk_usage = NO_USAGE
    c.route_streak, c.streak_of = 0, ()  # turns go on counting: a router must not run in cycles without a user


def _carried(c: State, record: r.CycleStarted) -> tuple[Message, ...]:
    if not c.cycle:
        return ()
    if record.carried is None:
        return c.newer_than_last_turn()
    return tuple(message for message in c.messages if message.seq in record.carried)


def _see(c: State, event_id: str) -> None:
    seen = c.seen.copy()  # `{**c.seen}` takes nine times as long where ids have gone
    seen[event_id] = None
    if len(seen) > SEEN:
        seen.pop(next(iter(seen)))
    c.seen = seen


def _wrote(c: State, record: r.MessageRecorded) -> None:
    _see(c, record.event_id)
    c.title = c.title or title_of(record.text)
    _remember(c, record, record.event_id, record.author, record.name, record.text, record.role, record.context)
    c.origin, c.origin_at, c.command_origin = record.origin, record.created_at, {}
    c.first_origin = c.first_origin or record.origin
    c.turns_since_user, c.route_streak, c.streak_of = 0, 0, ()
    if c.status == "waiting" and c.waiting_for != "waiver" and c.phase is Phase.EXECUTE:
        c.asked_at_rest = record.seq
    if c.agent and c.turn is None:
        c.talk_usage = c.cycle_usage  # its cycle has no end, so each message begins the count
    c.wrote_since_entry, c.waiver_declined, c.delay_reported = True, frozenset(), False
    c.status, c.waiting_for = "active", ""
    if c.workflow is not None:  # it is no order here, and a speaker learns of it when their round has closed
        c.workflow = c.workflow.message_received(record.seq, record.at)
        return
    c.addressed = (*c.addressed, *((slug, record.name) for slug in record.addressed))
    shown = with_context(cut(record.text, MESSAGE_CHARACTERS), record.context)
    text = UserText(author=record.name, text=shown, role=str(record.role), key=record.author)
    c.runs = {key: run.receives(text, record.seq) for key, run in c.runs.items()}


def _remember(
    c: State,
    record: r.Record,
    event_id: str,
    author: PublicKey,
    name: str,
    text: str,
    role: Any,
    context: str = "",
    sent_as: str = "",
) -> None:
    last = c.turn or c.last_turn
    message = Message(
        seq=record.seq,
        at=record.at,
        event_id=event_id,
        author=author,
        name=name,
        text=text,
        phase=c.phase,
        role=role,
        context=context,
        sent_as=sent_as,
        after_turn=last.turn_id if last and (c.turn or c.turns) else None,
        cycle=c.cycle,
        turn=c.turn.turn_id if c.turn else None,
    )
    memory.kept(c, message)
    if role is not None:
        c.messages = of_cycle(c.messages, message, first=1)  # what began the cycle stays, however many follow


def _withdrawn(c: State, record: r.MessageWithdrawn) -> None:
    if record.was_title:
        c.title = ""  # the next message names it
    deleted = next((one.event_id for one in (*c.recent, *c.messages) if one.seq == record.message), "")
    if deleted and c.origin.get("id") == deleted:  # clients show no answers to what is gone
        c.origin = c.first_origin or c.origin
    if record.was_read:
        memory.blanked(c, record.message)
        return
    gone = next((message for message in c.messages if message.seq == record.message), None)
    if gone is None:
        return
    c.messages = tuple(message for message in c.messages if message.seq != record.message)
    memory.withdrawn(c, record.message)
    if not any(message.author == gone.author for message in c.unanswered):
        c.addressed = tuple(item for item in c.addressed if item[1] != gone.name)
    text = with_context(cut(gone.text, MESSAGE_CHARACTERS), gone.context)
    c.runs = {key: run.without_unseen(text, gone.author) for key, run in c.runs.items()}


def _command(c: State, record: r.CommandGiven) -> None:
    _see(c, record.event_id)
    c.origin, c.origin_at = c.origin or record.origin, record.created_at
    c.command_origin = record.origin
    c.first_origin = c.first_origin or record.origin


def _waiting(c: State, record: r.Waiting) -> None:
    c.status, c.waiting_for, c.question = "waiting", record.reason, None


def _ended(c: State, record: r.Ended) -> None:
    c.status, c.waiting_for, c.question, c.addressed = "ended", "", None, ()


def _stopped(c: State, record: r.Stopped) -> None:
    c.question, c.addressed, c.stopped = None, (), record.seq
    _waiver_closed(c, record)


def _continued(c: State, record: r.Continued) -> None:
    c.turns_since_user, c.route_streak, c.streak_of = 0, 0, ()
    c.cycle_usage = c.talk_usage = NO_USAGE
    c.granted = c.usage
    c.status, c.waiting_for = "active", ""


def _limit_hit(c: State, record: r.LimitReached) -> None:
    if record.until:
        c.limit_reported = (record.limit, record.until)


def _route_asked(c: State, record: r.RouteRequested) -> None:
    rejections = c.question.rejections if c.question and record.attempt > 1 else ()
    c.question = Question(seq=record.seq, attempt=record.attempt, rejections=rejections, warn_at=record.warn_at)
    c.router_asked = record.seq
    c.status, c.waiting_for = "active", ""
    _waiver_closed(c, record)  # work goes on: a later yes is an answer to something else


def _route_delayed(c: State, _: r.RouteDelayed) -> None:
    if c.question is not None:
        c.question = replace(c.question, warn_at=Millis(0))
    c.delay_reported = True


def _rejected(c: State, record: r.RouteRejected) -> None:
    _spend(c, record.usage, record.at)
    if c.question is not None and record.counted:
        c.question = replace(c.question, rejections=(*c.question.rejections, record.sentence))


def _routed(c: State, record: r.Routed) -> None:
    _spend(c, record.usage, record.at)
    for message in c.requests if record.settles else ():
        if message.seq <= record.settles:
            _settle(c, message.seq)
    is_by_router = c.question is not None and record.decided_by is not None and record.decided_by.kind == "router"
    if is_by_router and c.phase is Phase.VERIFICATION and _granted_a_waiver(c):
        # it could choose any work: the wish to waive, which began this, holds none that it left for the next cycle
        c.worked_on = max(c.answered if c.worked_on is None else c.worked_on, c.router_asked)
    c.question = None


def _corrected(c: State, record: r.RouterCorrected) -> None:
    c.router_lessons = (*c.router_lessons, record.lesson)[-ROUTER_LESSONS:]


def _transition(c: State, record: r.PhaseTransition) -> None:
    leave_phase(c, record.at)
    memory.moved(c, record)
    c.phase, c.phase_from, c.wrote_since_entry = record.to, record.from_, False
    c.last_transition = c.unannounced = record
    if c.history is not None:
        by = record.decided_by or c.history.routed
        c.history = c.history.moved(replace(record, decided_by=by, cycle=record.cycle or c.cycle))


def _handed_off(c: State, record: r.HandedOff) -> None:
    c.last_transition = record


def _granted_a_waiver(c: State) -> bool:
    """Whether a user has said yes to the router's question, and nothing else with it."""
    yes = {message.event_id for message in c.messages if message.is_answer}
    return any(not waiver.untried and waiver.message_id in yes for waiver in c.waivers)


def _waiver_asked(c: State, record: r.WaiverRequested) -> None:
    if not record.untried:
        c.router_asked = 0  # its answer was this question, and no decision yet on what users want
    c.waiver_asked, c.waiver_asked_of, c.waiver_untried = record.phases, record.of, record.untried
    c.untried_asked = c.untried_asked or bool(record.untried)


def _waiver_closed(c: State, _: r.Record) -> None:
    """The question about gates is over without a yes: it is not put again before a user has written."""
    c.waiver_declined, c.waiver_asked = c.waiver_declined | frozenset(c.waiver_asked), ()
    c.waiver_asked_of, c.waiver_question, c.waiver_untried = PublicKey(""), None, ""


def _waiver_declined(c: State, record: r.WaiverDeclined) -> None:
    _waiver_closed(c, record)
    if record.message:
        _settle(c, record.message)


def _waived(c: State, record: r.Waived) -> None:
    memory.waived(c, record)
    answer = c.messages[-1] if c.waiver_asked and c.messages else None
    if answer and answer.event_id == record.message_id and len(answer.text.split()) <= ANSWER_WORDS:
        _settle(c, answer.seq)  # it holds no request that could be lost
    c.waivers, c.waiver_asked, c.waiver_asked_of = (*c.waivers, record), (), PublicKey("")
    c.waiver_question, c.waiver_untried = None, ""


def _plan_approved(c: State, record: r.PlanApproved) -> None:
    memory.approved(c, record)
    c.approved_turn = record.turn_id
    if record.message:
        _settle(c, record.message)


def _settle(c: State, seq: int) -> None:
    c.messages = tuple(replace(m, is_answer=True) if m.seq == seq else m for m in c.messages)


def _turn_opened(c: State, record: r.TurnOpened) -> None:
    c.command_origin = {}
    c.turn = OrchestratorTurn(
        turn_id=record.turn_id,
        seq=record.seq,
        timestamp=record.at,
        phase=record.phase,
        agents=record.agents,
        reason=record.reason,
        handoff=record.handoff,
        cycle=c.cycle,
        decided_by=record.decided_by or (c.history.routed if c.history is not None else None),
        models=c.history.routing if c.history is not None else {},
        worked_before=c.working,
    )
    if c.history is not None:
        c.history = replace(c.history, routed=None, routing={})
    c.turn_count += 1
    c.undo = c.undo if c.undo is not None and c.undo.is_open else None
    if c.plan_question is not None:
        c.earlier_plans = (*c.earlier_plans, *c.plan_question.events)[-EARLIER_PLANS:]
    c.plan_question = None
    c.status, c.waiting_for, c.question = "active", "", None
    _waiver_closed(c, record)
    c.turns_since_user += 1
    route = (record.phase, *record.agents)
    c.route_streak = c.route_streak + 1 if route == c.streak_of else 1
    c.streak_of = route
    c.addressed = tuple(item for item in c.addressed if item[0] not in record.agents)
    if c.workflow is not None:
        c.workflow = c.workflow.turn_opened(record.seq, record.at)
    elif record.phase is Phase.EXECUTE and not record.gates_by_effect:
        _open_gates(c)
    if record.phase is not Phase.REFLECTION:
        c.participants = (*c.participants, *(a for a in record.agents if a not in c.participants))


def _open_gates(c: State) -> None:
    c.executed, c.gates_met, c.reflected, c.untried_asked = True, frozenset(), frozenset(), False


def _run_started(c: State, record: r.RunStarted) -> None:
    system = recalled(c, record)
    newest = max((m.seq for m in c.messages), default=0)
    run = Run(
        id=record.run,
        agent=record.agent,
        name=record.agent_name,
        pubkey=record.pubkey,
        phase=c.phase,
        system=system or "",
        entries=memory.shown(c, record),
        wants=record.seq,
        warn_at=record.warn_at,
        close_at=record.close_at,
        armed=record.seq,
        received=newest,
        shown=newest,
        parent=record.parent,
        call=record.call,
        is_shared=record.is_shared,
        started=record.at,
        budget=record.close_at - record.at,
    )
    c.runs = {**c.runs, record.run: run}
    caller = c.runs.get(record.parent) if record.parent is not None else None
    if caller is not None and record.call is not None:  # which waits for it from now on
        c.runs = {
            **c.runs,
            caller.id: caller.suspended(record.call, CallState.LINKED, record.seq, record.at, c.working),
        }
        let_through(c, caller.id, record.call)


def _change_run(change: Callable[[Run, Any], Run]) -> Callable[[State, Any], None]:
    def reduce_run(c: State, record: Any) -> None:
        run = c.runs.get(record.run)
        if run is not None:
            c.runs = {**c.runs, record.run: change(run, record)}

    return reduce_run


def _permitted(c: State, record: r.ToolCallStarted) -> None:
    _change_run(lambda run, rec: run.permitted(rec.call, rec.seq, rec.replay, rec.at, c.working))(c, record)
    let_through(c, record.run, record.call)


def _question_asked(c: State, record: r.QuestionAsked) -> None:
    _change_run(lambda run, rec: run.parked(rec.call, rec.seq, rec.at, rec.of))(c, record)
    let_through(c, record.run, record.call)
    if c.workflow is not None:
        c.workflow = c.workflow.asked(record.seq, record.at)


def _model_stepped(c: State, record: r.ModelResponded) -> None:
    _spend(c, record.step.usage, record.at)
    _change_run(lambda run, rec: run.stepped(rec.step, rec.seq))(c, record)


def _given(run: Run, record: r.Record, result: CallResult) -> Run:
    """The run with the result of a call; one who waited for a sub-agent is given the time back."""
    call = run.find(result.id)
    returned = run.returned(result, record.seq)
    return returned.resumed(record.at, record.seq) if call and call.waits_for_subagent else returned


def _refused(run: Run, record: r.ToolCallRejected) -> Run:
    return _given(run, record, CallResult(id=record.call, tool=record.tool, ok=False, content=record.sentence))


def _call_returned(c: State, record: r.ToolCallCompleted) -> None:
    if c.workflow is not None and record.route is not None:
        c.workflow = c.workflow.routed(record.call, record.route)
    run = c.runs.get(record.run)
    if run is None:
        return
    read = {**run.read, **record.read} if record.read else run.read
    result = CallResult(id=record.call, tool=record.tool, ok=record.ok, content=record.content)
    if record.touched and is_new(run, result):
        run = run.progressed()
    c.runs = {**c.runs, record.run: replace(_given(run, record, result), read=read)}
    changed(c, run, record.values)
    if record.read:
        known = {path: seen for path, seen in c.read_files.items() if path not in record.read}
        c.read_files = dict([*known.items(), *record.read.items()][-READ_FILES:])
    if record.touched:
        c.touched = c.touched | frozenset(record.touched)
        known_lines = {path: lines for path, lines in c.lines.items() if path not in record.touched}
        c.lines = dict([*known_lines.items(), *record.lines.items()][-LINES_KEPT:])
        c.route_streak, c.streak_of = 0, ()
    if c.turn is not None and c.has_phases:
        c.turn = called(c.turn, c.touched, run, record)
        if record.touched or record.has_outside_effect:
            c.turn = replace(c.turn, has_effect=True)
            if c.turn.phase is Phase.EXECUTE:
                c.changed_outside = c.changed_outside or record.has_outside_effect
                _open_gates(c)


def _ask_answered(run: Run, record: r.QuestionAnswered) -> Run:
    # the answer is the call's result; it is not shown a second time as a message
    unseen = run.unseen[:-1] if run.received == record.message else run.unseen
    run = replace(run.answered(record.seq, record.warn_at, record.close_at), unseen=unseen)
    answer = cut(record.text, MESSAGE_CHARACTERS)
    run = run.returned(CallResult(id=record.call, tool="ask", ok=True, content=answer), record.seq)
    waits = run.has_parked or run.has_linked  # for another answer, or for a sub-agent
    return replace(run, parked_at=record.at) if waits else run


def _asks_closed(c: State, run: RunId, call: str | None = None) -> None:
    c.asks = {e: (r_, k) for e, (r_, k) in c.asks.items() if r_ != run or (call is not None and k != call)}


def _answered(c: State, record: r.QuestionAnswered) -> None:
    memory.answered(c, record)
    _settle(c, record.message)
    if (asker := c.runs.get(record.run)) is not None:  # a mention in the answer is no wish for another turn
        c.addressed = tuple(item for item in c.addressed if item != (asker.agent, record.name))
    _change_run(_ask_answered)(c, record)
    _asks_closed(c, record.run, record.call)
    if c.workflow is not None:
        is_parked = any(run.has_parked for run in c.runs.values())
        c.workflow = c.workflow.answered(record.seq, record.at, is_parked=is_parked)


def _retrying(c: State, record: r.RetryScheduled) -> None:
    _spend(c, record.usage, record.at)
    if record.run is not None:
        _change_run(Run.retrying)(c, record)
    elif c.question is not None:
        reported = c.question.outage_reported or (record.on_hold and not record.limit)
        c.question = replace(c.question, retry=Retry.of(record), tries=record.attempt, outage_reported=reported)


def _due(run: Run, record: r.RetryDue) -> Run:
    away = record.at - run.retry.since if run.retry is not None else 0
    run = run.moved(max(0, away)).wanting(record.seq)
    return replace(run, urgent=record.seq, outage_reported=False) if record.by else run


def _retry_due(c: State, record: r.RetryDue) -> None:
    if record.run is not None:
        _change_run(_due)(c, record)
    elif c.question is not None:
        retry = c.question.retry
        c.question = replace(c.question, seq=record.seq, retry=None)
        if retry is not None and retry.on_hold:
            c.question = c.question.moved(record.at - retry.since)
        if record.by:  # they learn of it if it fails again
            c.question = replace(c.question, urgent=record.seq, outage_reported=False, warn_at=record.warn_at)


def _nudged(c: State, record: r.ModelReprompted) -> None:
    _spend(c, record.usage, record.at)
    _change_run(Run.nudged)(c, record)


def _run_ended(c: State, record: r.RunEnded) -> None:
    _spend(c, record.usage, record.at)
    run = c.runs.get(record.run)
    if run is None or c.turn is None:
        return
    if run.parent is None:  # else it is no part of the turn
        done = Completion(
            agent=run.agent,
            outcome=record.outcome,
            text=record.text,
            summary=record.summary,
            verdict=record.verdict,
            error=record.error,
            at=record.at,
            hand_over=record.hand_over,
            untried=record.untried,
            calls=() if record.outcome == "finished" else run.called(),
        )
        c.turn = replace(c.turn, completions=(*c.turn.completions, done))
        c.worked_on = worked_on(c, run.shown)
        c.answered = max(c.answered, run.shown)
        if c.turn.phase is Phase.REFLECTION:
            c.reflected = c.reflected | {run.agent}
    if run.state_key == run.id:  # its next call finds it at its beginning
        c.agent_states = {name: state for name, state in c.agent_states.items() if name != run.id}
    c.runs = {key: other for key, other in c.runs.items() if key != record.run}
    _asks_closed(c, record.run)


def _turn_closed(c: State, record: r.TurnClosed) -> None:
    if c.turn is None:
        return
    working = c.working - c.turn.worked_before
    closed = replace(c.turn, is_completed=True, summary=record.summary, working=working)
    c.turn, c.last_turn = None, closed
    c.turns = of_cycle(c.turns, closed)
    if c.workflow is not None:
        c.workflow = c.workflow.turn_closed()
    if record.gate is not None:
        c.gates_met = c.gates_met | {record.gate}
    if c.history is not None:
        is_stopped = any(done.outcome == "stopped" for done in closed.completions)
        reason = c.history.reason if is_stopped else f"{closed.turn_id} is over"
        c.history = replace(c.history.closed(closed), reason=reason)


def _message_sent(c: State, record: r.MessageSent) -> None:
    pairs = tuple((part, relay) for part in range(len(record.events)) for relay in record.relays)
    if pairs:
        c.outbox = {**c.outbox, record.seq: OutboxRow(events=record.events, open=pairs, others=record.others)}
        c.last_created_at = max(event.created_at for event in record.events)
    if record.is_published:
        c.command_origin = {}
        if record.phase is c.phase:
            c.unannounced = None
    if record.purpose in ("completion", "question"):
        event = record.events[0].id if record.events else ""
        _remember(c, record, "", record.speaker, record.name, record.text, None, sent_as=event)
    if record.asks:
        _decision_asked(c, record)
    if record.run is not None and record.call is not None:
        c.asks = {**c.asks, **{event.id: (record.run, record.call) for event in record.events}}


def _decision_asked(c: State, record: r.MessageSent) -> None:
    events = tuple(event.id for event in record.events)
    if record.asks == "waiver":
        c.waiver_question = DecisionQuestion(events=events, at=record.at)
    else:  # each agent of a turn presents a part of the plan
        parts = c.plan_question.events if c.plan_question is not None else ()
        c.plan_question = DecisionQuestion(events=(*parts, *events), at=record.at)


def _delivered(c: State, record: r.Delivered) -> None:
    """A relay has answered for good; a row that is answered by all is gone.

    Once a relay has refused an event, all of the row also goes to the relays that were kept for that.
    """
    row = c.outbox.get(record.message)
    if row is None:
        return
    left = tuple(pair for pair in row.open if pair != (record.part, record.relay))
    expires = row.expires_at or record.expires_at
    changed = replace(row, open=left, expires_at=expires)
    if record.accepted:
        c.refusals = tuple(
            replace(one, is_delivered=one.is_delivered or one.message == record.message) for one in c.refusals
        )
    elif record.refused is not None:
        more = tuple((part, relay) for part in range(len(row.events)) for relay in row.others)
        changed = replace(changed, open=(*left, *more), others=())
        before = [one.is_delivered for one in c.refusals if one.message == record.message]
        refusal = RelayRefusal(
            message=record.message,
            event=record.refused,
            relay=record.relay,
            reason=record.detail,
            at=record.at,
            is_delivered=before[-1] if before else bool(row.expires_at),
        )
        c.refusals = (*c.refusals, refusal)[-REFUSALS:]
    rows = {seq: changed if seq == record.message else other for seq, other in c.outbox.items()}
    c.outbox = {seq: other for seq, other in rows.items() if other.open}


def _expired(c: State, record: r.OutboxExpired) -> None:
    c.outbox = {seq: row for seq, row in c.outbox.items() if seq != record.message}


def _paid(c: State, record: r.MissionUsageRecorded | r.ModelCallCancelled) -> None:
    _spend(c, record.usage, record.at)


def _spend(c: State, usage: Usage, at: Millis) -> None:
    if usage.calls:
        c.usage, c.cycle_usage = c.usage + usage, c.cycle_usage + usage
        if c.is_talk:
            c.talk_usage = c.talk_usage + usage
        past = c.metrics.get(c.phase, PhaseMetrics())
        c.metrics = {**c.metrics, c.phase: replace(past, usage=past.usage + usage)}
    if usage.tokens or usage.cost_usd:
        day, person = at // DAY, c.on_behalf_of
        people = c.spending.get(day, {})
        people = {**people, person: people.get(person, NO_USAGE) + usage}
        others = [item for item in c.spending.items() if item[0] != day]
        c.spending = dict([*others, (day, people)][-SPENDING_DAYS:])


def _deferred(c: State, record: EvaluationRequested) -> None:
    c.undecided = (*c.undecided, Undecided(seq=record.seq, signal=record.signal))


def _evaluated(c: State, record: FunctionsEvaluated) -> None:
    c.undecided = tuple(
        replace(one, seq=record.seq) if one.seq == record.request else one
        for one in c.undecided
        if one.seq != record.request or not record.is_decided
    )
    answered = {(verdict.owner, verdict.function) for verdict in record.verdicts}
    open_runs = {run.state_key for run in c.runs.values()}
    kept = {
        key: verdict
        for key, verdict in c.verdicts.items()
        if verdict.owner in open_runs and (verdict.owner, verdict.function) not in answered
    }
    c.verdicts = kept | {verdict.key: verdict for verdict in record.verdicts}


def _undo_asked(c: State, record: r.UndoRequested) -> None:
    c.undo = UndoState(seq=record.seq, scope=record.scope, to=record.to)


def _put_back(c: State, record: r.FilesUndone) -> None:
    """The files count as changed no more, and without changes no gate is open.

    Where an earlier turn of the cycle changed something, they may be its files too, so nothing changes.
    """
    if any(turn.seq <= record.to and turn.has_effect for turn in c.turns):
        return
    c.touched -= frozenset(record.files)
    if not c.touched and not c.changed_outside and c.status != "ended":
        c.executed, c.gates_met = False, frozenset()


def _undone(c: State, record: r.FilesUndone) -> None:
    is_list = bool(record.files) and not record.restored_tree and not record.fault
    if record.restored_tree:
        _put_back(c, record)
        c.lines = {path: lines for path, lines in c.lines.items() if path not in record.files}
    c.undo = replace(c.undo, to=record.to, is_open=False) if is_list and c.undo is not None else None


REDUCERS: dict[type[r.Record], Callable[[State, Any], None]] = {
    r.ConversationStarted: _started,
    r.ProcessRestarted: reopened,
    r.ClockAdjusted: clock_set,
    r.CycleStarted: _cycle,
    r.MessageRecorded: _wrote,
    r.MessageWithdrawn: _withdrawn,
    r.CommandGiven: _command,
    r.Waiting: _waiting,
    r.Ended: _ended,
    r.Stopped: _stopped,
    r.Continued: _continued,
    r.MissionUsageRecorded: _paid,
    r.ModelCallCancelled: _paid,
    r.LimitReached: _limit_hit,
    r.RouteRequested: _route_asked,
    r.RouteDelayed: _route_delayed,
    r.RouteRejected: _rejected,
    r.Routed: _routed,
    r.RouterCorrected: _corrected,
    r.PhaseTransition: _transition,
    r.HandedOff: _handed_off,
    r.WaiverRequested: _waiver_asked,
    r.WaiverDeclined: _waiver_declined,
    r.Waived: _waived,
    r.PlanApproved: _plan_approved,
    r.TurnOpened: _turn_opened,
    r.RunStarted: _run_started,
    r.RunWarned: _change_run(lambda run, _: replace(run, warned=True)),
    r.ModelResponded: _model_stepped,
    r.ModelReprompted: _nudged,
    r.ToolCallStarted: _permitted,
    r.ToolCallRejected: _change_run(_refused),
    r.ToolCallCompleted: _call_returned,
    r.ToolCallQueued: _change_run(lambda run, rec: run.suspended(rec.call, CallState.QUEUED, rec.seq, rec.at)),
    r.QuestionAsked: _question_asked,
    r.QuestionAnswered: _answered,
    r.RetryScheduled: _retrying,
    r.RetryDue: _retry_due,
    r.RunEnded: _run_ended,
    r.TurnClosed: _turn_closed,
    r.MessageSent: _message_sent,
    r.Delivered: _delivered,
    r.OutboxExpired: _expired,
    r.UndoRequested: _undo_asked,
    r.FilesUndone: _undone,
    r.JournalRebuilt: rebuilt,
    r.ConversationImported: imported,
    EvaluationRequested: _deferred,
    FunctionsEvaluated: _evaluated,
    RolledBack: rolled_back,
    ConversationForked: forked,
    **AGENT_REDUCERS,
    **WORKFLOW_REDUCERS,
}
