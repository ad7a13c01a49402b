"""What each record does to what is under way: the turn, its runs, their calls and questions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tenex.core import records as r
from tenex.core.agent_phases.reducers import has_new_values
from tenex.core.history.state import PATHS
from tenex.core.ids import CallId, RunId
from tenex.core.memory.reducers import shown, system_of
from tenex.core.memory.window import MESSAGE_CHARACTERS
from tenex.core.messages import CallResult, UserText, cut, with_context
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.tool_questions import answered

from .evidence import called
from .loop_detection import is_new
from .run import ASK, CallState, Run, paid_by_model
from .state import Work
from .turn import Completion, OrchestratorTurn

WORK: Final = Reducers[Work]("work")


def _changing_run(change: Callable[[Run, Any], Run]) -> Callable[[Work, Any, State], Work]:
    """The reducer that changes the run of a record, if it is open."""

    def reduce_run(work: Work, record: Any, _: State) -> Work:
        run = work.runs.get(record.run) if record.run is not None else None
        return work if run is None else replace(work, runs=work.with_run(change(run, record)))

    return reduce_run


# ---- messages of users -----------------------------------------------------------------------------------------------


@WORK.on(r.MessageRecorded)
def _wrote(work: Work, record: r.MessageRecorded, before: State) -> Work:
    if before.reads_messages:
        return work
    shown_text = with_context(cut(record.text, MESSAGE_CHARACTERS), record.context)
    text = UserText(author=record.name, text=shown_text, role=str(record.role), key=record.author)
    return replace(
        work,
        addressed=(*work.addressed, *((slug, record.name) for slug in record.addressed)),
        runs={name: run.receives(text, record.seq) for name, run in work.runs.items()},
    )


@WORK.on(r.MessageWithdrawn)
def _withdrawn(work: Work, record: r.MessageWithdrawn, before: State) -> Work:
    gone = next((message for message in before.cycle.messages if message.seq == record.message), None)
    if record.was_read or gone is None:
        return work
    text = with_context(cut(gone.text, MESSAGE_CHARACTERS), gone.context)
    work = replace(work, runs={name: run.without_unseen(text, gone.author) for name, run in work.runs.items()})
    others = (message for message in before.unanswered if message.seq != record.message)
    if any(message.author == gone.author for message in others):
        return work
    return replace(work, addressed=tuple(item for item in work.addressed if item[1] != gone.name))


# ---- status ----------------------------------------------------------------------------------------------------------


@WORK.on(r.Ended)
def _ended(work: Work, _record: r.Ended, _: State) -> Work:
    return replace(work, addressed=())


@WORK.on(r.Stopped)
def _stopped(work: Work, record: r.Stopped, _: State) -> Work:
    return replace(work, addressed=(), stopped=record.seq)


@WORK.on(r.ProcessRestarted)
def _restarted(work: Work, record: r.ProcessRestarted, _: State) -> Work:
    """Give the runs back the time in which no process was there; what they had in the background ended with it."""
    runs = {name: replace(run.spared(record.away), background={}) for name, run in work.runs.items()}
    return replace(work, runs=runs)


@WORK.on(r.ClockAdjusted)
def _clock_set(work: Work, record: r.ClockAdjusted, _: State) -> Work:
    return replace(work, runs={name: run.clock_set(record.by) for name, run in work.runs.items()})


# ---- turns -----------------------------------------------------------------------------------------------------------


@WORK.on(r.TurnOpened)
def _turn_opened(work: Work, record: r.TurnOpened, before: State) -> Work:
    history = before.history
    turn = OrchestratorTurn(
        turn_id=record.turn_id,
        seq=record.seq,
        timestamp=record.at,
        phase=record.phase,
        agents=record.agents,
        reason=record.reason,
        handoff=record.handoff,
        cycle=before.cycle.number,
        decided_by=record.decided_by or (history.routed if history is not None else None),
        models=history.routing if history is not None else {},
        worked_before=before.totals.working,
    )
    return replace(
        work,
        turn=turn,
        undo=work.undo if work.undo is not None and work.undo.is_open else None,
        addressed=tuple(item for item in work.addressed if item[0] not in record.agents),
    )


@WORK.on(r.TurnClosed)
def _turn_closed(work: Work, _record: r.TurnClosed, _: State) -> Work:
    return replace(work, turn=None)


# ---- runs ------------------------------------------------------------------------------------------------------------


@WORK.on(r.RunStarted)
def _run_started(work: Work, record: r.RunStarted, before: State) -> Work:
    newest = max((message.seq for message in before.cycle.messages), default=0)
    entries, _ = shown(before, record)
    run = Run(
        id=record.run,
        agent=record.agent,
        name=record.agent_name,
        pubkey=record.pubkey,
        phase=before.cycle.phase,
        system=system_of(before, record) or "",
        entries=entries,
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
    runs = work.with_run(run)
    caller = runs.get(record.parent) if record.parent is not None else None
    if caller is not None and record.call is not None:  # which waits for it from now on
        waiting = caller.suspended(record.call, CallState.LINKED, record.seq, record.at, before.totals.working)
        runs = {**runs, caller.id: waiting}
    return replace(work, runs=runs)


WORK.add(r.RunWarned, _changing_run(lambda run, _: replace(run, warned=True)))
WORK.add(r.ModelResponded, _changing_run(lambda run, record: run.stepped(record.step, record.seq, record.files)))
WORK.add(r.ModelReprompted, _changing_run(Run.nudged))
WORK.add(r.ModelCallCancelled, _changing_run(lambda run, record: run.paid(record.usage, record.model)))
WORK.add(r.RetryScheduled, _changing_run(Run.retrying))


def _due(run: Run, record: r.RetryDue) -> Run:
    away = record.at - run.retry.since if run.retry is not None else 0
    run = run.moved(max(0, away)).wanting(record.seq)
    return replace(run, urgent=record.seq, outage_reported=False) if record.by else run


WORK.add(r.RetryDue, _changing_run(_due))


def _condition_failed(run: Run, record: r.ConditionFailed) -> Run:
    return replace(run, failed_edges=run.failed_edges | {(record.source, record.target)})


WORK.add(r.ConditionFailed, _changing_run(_condition_failed))


@WORK.on(r.RunEnded)
def _run_ended(work: Work, record: r.RunEnded, _: State) -> Work:
    run = work.runs.get(record.run)
    if run is None or work.turn is None:
        return work
    return replace(
        work,
        turn=_with_completion(work.turn, run, record),
        runs={name: other for name, other in work.runs.items() if name != record.run},
        asks=_without_asks(work, record.run),
        answered_asks={event: asked for event, asked in work.answered_asks.items() if asked[0] != record.run},
    )


def _with_completion(turn: OrchestratorTurn, run: Run, record: r.RunEnded) -> OrchestratorTurn:
    """The turn with what a run of it cost, and with what became of it unless a sub-agent did it."""
    models = turn.models
    for model, usage in paid_by_model(run.models, record.model, record.usage).items():
        models = paid_by_model(models, model, usage)
    turn = replace(turn, models=models)
    if run.parent is not None:
        return turn
    turn = replace(turn, shown=max(turn.shown, run.shown))
    completion = Completion(
        agent=run.agent,
        outcome=record.outcome,
        text=record.text,
        summary=record.summary,
        verdict=record.verdict,
        error=record.error,
        at=record.at,
        hand_over=record.hand_over,
        untried=record.untried,
        findings=record.findings,
        calls=() if record.outcome == "finished" else run.called(),
        completed=record.completed or bool(record.summary),  # older records have the summary alone
    )
    return replace(turn, completions=(*turn.completions, completion))


def _with_prompt(run: Run, record: r.AgentPhaseChanged | r.PromptRerendered, state: State) -> Run:
    system = system_of(state, record)
    return run if system is None else replace(run, system=system, is_stale=False)


@WORK.on(r.AgentPhaseChanged)
def _agent_moved(work: Work, record: r.AgentPhaseChanged, before: State) -> Work:
    run = work.runs.get(record.run)
    return work if run is None else replace(work, runs=work.with_run(_with_prompt(run.progressed(), record, before)))


@WORK.on(r.PromptRerendered)
def _rerendered(work: Work, record: r.PromptRerendered, before: State) -> Work:
    run = work.runs.get(record.run)
    return work if run is None else replace(work, runs=work.with_run(_with_prompt(run, record, before)))


# ---- calls -----------------------------------------------------------------------------------------------------------


@WORK.on(r.ToolCallStarted)
def _permitted(work: Work, record: r.ToolCallStarted, before: State) -> Work:
    run = work.runs.get(record.run)
    if run is None:
        return work
    permitted = run.permitted(
        record.call, record.seq, record.replay, record.at, before.totals.working, record.unchanged
    )
    return replace(work, runs=work.with_run(permitted))


WORK.add(r.CallOutdated, _changing_run(lambda run, record: run.outdated(record.call, record.files, record.changed)))


def _given(run: Run, record: r.Record, result: CallResult) -> Run:
    """The run with the result of a call; one who waited for a sub-agent is given the time back."""
    call = run.find(result.id)
    returned = run.returned(result, record.seq)
    return returned.resumed(record.at, record.seq) if call and call.waits_for_subagent else returned


def _refused(run: Run, record: r.ToolCallRejected) -> Run:
    return _given(run, record, CallResult(id=record.call, tool=record.tool, ok=False, content=record.sentence))


def _queued(run: Run, record: r.ToolCallQueued) -> Run:
    return run.suspended(record.call, CallState.QUEUED, record.seq, record.at)


WORK.add(r.ToolCallRejected, _changing_run(_refused))
WORK.add(r.ToolCallQueued, _changing_run(_queued))


@WORK.on(r.ToolCallCompleted)
def _call_returned(work: Work, record: r.ToolCallCompleted, before: State) -> Work:
    changed = before.cycle.changed_by(record.touched, record.unchanged)
    if changed and work.turn is not None:
        paths = (*work.turn.changed, *(path for path in changed if path not in work.turn.changed))
        work = replace(work, turn=replace(work.turn, changed=paths[:PATHS]))
    run = work.runs.get(record.run)
    if run is None:
        return work
    return replace(
        work,
        runs=work.with_run(_returned(run, record, before)),
        turn=_with_evidence(work.turn, run, record, before),
    )


def _returned(run: Run, record: r.ToolCallCompleted, before: State) -> Run:
    """The run after one of its calls has returned."""
    result = CallResult(id=record.call, tool=record.tool, ok=record.ok, content=record.content)
    if record.touched and is_new(run, result):
        run = run.progressed()
    if record.background is not None:
        run = replace(run, background=record.background)
    run = replace(_given(run, record, result), read={**run.read, **record.read} if record.read else run.read)
    return replace(run.progressed(), is_stale=True) if has_new_values(before, run, record) else run


def _with_evidence(
    turn: OrchestratorTurn | None, run: Run, record: r.ToolCallCompleted, before: State
) -> OrchestratorTurn | None:
    """The turn with what a call shows of the work."""
    if turn is None or not before.has_phases:
        return turn
    turn = called(turn, before.cycle.touched | frozenset(record.touched), run, record)
    if not before.cycle.changed_by(record.touched, record.unchanged) and not record.has_outside_effect:
        return turn
    asked_by = run
    while asked_by.parent is not None and asked_by.parent in before.work.runs:
        asked_by = before.work.runs[asked_by.parent]
    return replace(turn, has_effect=True, shown_at_change=max(turn.shown_at_change, asked_by.shown))


# ---- questions to users ----------------------------------------------------------------------------------------------


def _parked(run: Run, record: r.QuestionAsked) -> Run:
    return run.parked(record.call, record.seq, record.at, record.of, record.question, record.form)


WORK.add(r.QuestionAsked, _changing_run(_parked))


@WORK.on(r.MessageSent)
def _sent(work: Work, record: r.MessageSent, _: State) -> Work:
    if record.run is None or record.call is None:
        return work
    question = (record.run, record.call)
    return replace(work, asks={**work.asks, **{event.id: question for event in record.events}})


def _without_asks(work: Work, run: RunId, call: CallId | None = None) -> Mapping[str, tuple[RunId, CallId]]:
    """The events of open questions without those of a run, or of one call of it."""
    return {
        event: asked for event, asked in work.asks.items() if asked[0] != run or (call is not None and asked[1] != call)
    }


def _ask_answered(run: Run, record: r.QuestionAnswered) -> Run:
    # the answer is the call's result; it is not shown a second time as a message
    unseen = run.unseen[:-1] if run.received == record.message else run.unseen
    run = replace(run.answered(record.seq, record.warn_at, record.close_at), unseen=unseen)
    answer = cut(record.text, MESSAGE_CHARACTERS)
    tool = run.tool_of(record.call)
    if tool != ASK:
        answer = answered(tool, answer)
    asking = run.find(record.call)
    question = asking.question if asking is not None else ""
    result = CallResult(id=record.call, tool=tool, ok=True, content=answer, question=question)
    run = run.returned(result, record.seq)
    waits = run.has_parked or run.has_linked  # for another answer, or for a sub-agent
    return replace(run, parked_at=record.at) if waits else run


def runs_after_answer(work: Work, record: r.QuestionAnswered) -> Mapping[RunId, Run]:
    """The open runs once a question of one of them is answered."""
    run = work.runs.get(record.run)
    return work.runs if run is None else work.with_run(_ask_answered(run, record))


def _corrected(run: Run, record: r.AnswerCorrected) -> Run:
    asked = run.answered_call(record.call)
    if asked is None:
        return run
    unseen = run.unseen[:-1] if run.received == record.message else run.unseen
    answer = answered(asked.tool, cut(record.text, MESSAGE_CHARACTERS))
    return replace(run.corrected(record.call, answer), unseen=unseen)


WORK.add(r.AnswerCorrected, _changing_run(_corrected))


@WORK.on(r.QuestionAnswered)
def _answered(work: Work, record: r.QuestionAnswered, _: State) -> Work:
    asker = work.runs.get(record.run)
    addressed = work.addressed
    is_correctable = asker is not None and asker.tool_of(record.call) != ASK  # until the tool has used the answer
    if asker is not None:  # a mention in the answer is no wish for another turn
        addressed = tuple(item for item in addressed if item != (asker.agent, record.name))
    events = {event: asked for event, asked in work.asks.items() if asked == (record.run, record.call)}
    return replace(
        work,
        addressed=addressed,
        runs=runs_after_answer(work, record),
        asks=_without_asks(work, record.run, record.call),
        answered_asks={**work.answered_asks, **events} if is_correctable else work.answered_asks,
    )


# ---- calls that a person has to allow --------------------------------------------------------------------------------


def _asked_about(run: Run, record: r.ApprovalRequested) -> Run:
    return run.asking({asked.call: asked.replay for asked in record.calls}, record.seq, record.at)


WORK.add(r.ApprovalRequested, _changing_run(_asked_about))


def runs_after_approval(work: Work, record: r.ApprovalAnswered, before: State) -> Mapping[RunId, Run]:
    """The open runs once a person has answered about calls of one of them, or no one has."""
    run = work.runs.get(record.run)
    request = before.approvals.open.get(record.request)
    if run is None or request is None:
        return work.runs
    digests = {asked.call: asked.digest for asked in request.of(record.calls)}
    run = run.answered(record.seq, record.warn_at, record.close_at).allowed(digests)
    if record.outcome != "yes":
        has_yes = any(answer.outcome == "yes" for answer in request.answers)
        is_whole = request.is_settled_by(record.calls) and not has_yes
        run = run.allowed(dict.fromkeys(digests, "")).not_allowed(tuple(digests.values()), is_whole=is_whole)
    waits = run.has_parked or run.has_linked
    return work.with_run(replace(run, parked_at=record.at) if waits else run)


@WORK.on(r.ApprovalAnswered)
def _approval_answered(work: Work, record: r.ApprovalAnswered, before: State) -> Work:
    asks = work.asks
    request = before.approvals.open.get(record.request)
    if request is None or request.is_settled_by(record.calls):  # until then a reply to its message is about it
        for call in record.calls if request is None else [asked.call for asked in request.calls]:
            asks = _without_asks(replace(work, asks=asks), record.run, call)
    return replace(work, runs=runs_after_approval(work, record, before), asks=asks)


def _approval_withdrawn(run: Run, record: r.ApprovalWithdrawn) -> Run:
    return run.allowed(dict.fromkeys(record.calls, ""))


WORK.add(r.ApprovalWithdrawn, _changing_run(_approval_withdrawn))


# ---- functions of operators ------------------------------------------------------------------------------------------


# ---- undo ------------------------------------------------------------------------------------------------------------
