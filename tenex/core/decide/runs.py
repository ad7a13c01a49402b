"""A run's steps: what its model answered, what its calls gave back, what failed.

The gate gives its verdict when a call is about to start, not when it was asked for. Reads that stand together start
together, the others one by one, so a call sees the phase and the files as the one before it left them. What the agent's
own phase withholds is refused only when all that is before it has returned, which may yet make room for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, cast

from tenex.core import programs
from tenex.core import records as r
from tenex.core.config import Agent, Replay
from tenex.core.context.window import in_a_line
from tenex.core.ids import CallId, Millis
from tenex.core.messages import NO_USAGE, CallRequest, CallResult, ModelStep
from tenex.core.mode import mode_of
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.signals import ModelFailed
from tenex.core.state.run import Call, CallState, Run
from tenex.core.state.subagents import link_of

from . import agent_phases, loop_detection, permissions, subagents
from .outgoing import as_sentence, notify, send_as_agent
from .transaction import Transaction
from .turns import LIFETIME, STOPPED, advance, close_calls, finish_run, run_spent, spent, stop_at_run_limit

NUDGES = 2
"""Reminders per run: a model that needs a third does not listen."""

CALLS = 64
"""Calls of one answer that are carried out: a model that writes hundreds is going round in circles, and their results
would not fit into its next request."""

SILENCE = 60_000
"""ms a server may ask us to wait before the user is informed: longer than a minute no one waits without a word."""

REASON_CHARACTERS = 300
"""Of the reason why a model cannot be asked, which may name a file."""

RESULT_CHARACTERS = 300
"""Of a result that users are shown: enough to see what went wrong."""

VERDICTS: Final = ("verified", "issues", "untried")

UNPROVED: Final = "The verdict does not count yet: "
"""How the refusal of a verdict begins that no call of the turn supports."""

PROOFS: Final = 2
"""Verdicts of a run that are refused for that reason; the next one becomes `untried`."""

EMPTY = "its model gave empty answers: look at the log of its server, or choose another model"
"""Why a run fails that has nothing to say after all."""

UNKNOWN = "unknown: the process stopped while this ran; check before repeating"


def stepped(draft: Transaction, run: Run, step: ModelStep) -> None:
    """A run's model answered: judge its calls, or take its text as its completion."""
    draft.add(r.ModelResponded, run=run.id, step=_with_unique_ids(step, run))
    agent_phases.evaluate(draft, run.id)
    run = _now(draft, run)
    if not step.calls:
        _finish(draft, run, {"response": step.text}, completed=False)
    elif run.steps >= draft.rules.limits.steps_per_run and not any(call.tool == "complete" for call in step.calls):
        close_calls(draft, run, "not run: the limit of steps is reached")
        fail(draft, _now(draft, run), f"it took {run.steps} steps, which is the limit")
    elif draft.now >= run.close_at and any(call.tool != "complete" for call in step.calls):
        time_out(draft, run, "not run: the time is up")
    elif (limit := spent(draft) or run_spent(draft, run)) and not any(call.tool == "complete" for call in step.calls):
        _stop_at_limit(draft, run, *limit)
    else:
        schedule_calls(draft, run)


def _stop_at_limit(draft: Transaction, run: Run, name: str, sentence: str) -> None:
    """End a run at a limit of tokens or cost; the user is asked once, when the turn has closed."""
    close_calls(draft, run, f"not run: {sentence}")
    is_its_own = spent(draft) is None
    if is_its_own:  # the limits of the cycle and the conversation are recorded where the user is asked
        draft.add(r.LimitReached, limit=name, sentence=sentence)
    announce = not mode_of(draft.state).asks_at_limits
    finish_run(draft, _now(draft, run), "over_limit" if is_its_own else "failed", error=sentence, announce=announce)
    after_end(draft, run)


def _with_unique_ids(step: ModelStep, run: Run) -> ModelStep:
    """Vendors and weak models repeat call ids, within an answer and across answers; ours are unique in a run."""
    if not step.calls:
        return step
    used = {call.id for entry in run.entries if isinstance(entry, ModelStep) for call in entry.calls}
    calls: list[CallRequest] = []
    for index, call in enumerate(step.calls):
        name = call.id or CallId("call")
        while name in used:
            name = CallId(f"{call.id or 'call'}-{run.steps}-{index}" if name == call.id else f"{name}x")
        used.add(name)
        calls.append(call if name == call.id else replace(call, id=name))
    return replace(step, calls=tuple(calls))


def _now(draft: Transaction, run: Run) -> Run:
    return draft.state.runs[run.id]


def schedule_calls(draft: Transaction, run: Run) -> None:  # noqa: C901 one case a kind of call: flat, and complete
    """Decide the run's calls in their order, as far as that is possible now; end it if only `complete` is left.

    Reads that stand together start together. A call that changes something runs alone: after the reads before it have
    returned (`reading`), which would else see what it changes, and before those after it (`busy`), which would else
    miss it. Sub-agents work at the same time as each other, but what comes after them, except reads, waits for them too
    (`waits`).
    """
    agent = _agent(draft, run)
    busy = any(call.state is CallState.PERMITTED and call.replay is not Replay.READ for call in run.calls)
    waits = busy
    reading = False
    beyond = {call.request.id for call in run.calls[CALLS:]}
    for call in run.open_calls:
        before = len(draft.records)
        waits = waits or call.state is CallState.LINKED
        if call.has_begun or call.request.tool == "complete":
            reading = reading or call.state is CallState.PERMITTED
            continue
        if call.request.id in beyond:
            sentence = f"Not run: of one answer the first {CALLS} calls are carried out. Ask again if you need it."
            draft.refuse(run, call, sentence)
        elif mode_of(draft.state).own_call(draft, run, call):
            if run.id not in draft.state.runs:  # the call was its last
                return
            if any(isinstance(record, r.ToolCallCompleted) for record in draft.records[before:]):
                agent_phases.evaluate(draft, run.id)  # not where the call was refused, or waits for those before it
        elif _may_be_let_in(draft, run, agent, call):
            busy = waits = True  # what is after it makes no room for it
        elif link_of(agent, call.request.tool) is not None:
            if not busy:  # else it is judged when what is before it has returned, which may change the phase
                subagents.decide(draft, run, agent, call)
            waits = waits or _now(draft, run).find(call.request.id) is not None
        elif agent_phases.is_own(agent, call):
            if waits:  # calls before it need the phase as it is, calls after it the phase it leads to
                break
            agent_phases.decide(draft, run, agent, call)
        elif _begins(draft, run, agent, call, busy=busy, waits=waits or reading):
            busy = waits = True
        else:
            begun = _now(draft, run).find(call.request.id)
            reading = reading or (begun is not None and begun.state is CallState.PERMITTED)
    _complete_if_last(draft, _now(draft, run), agent)


def _begins(draft: Transaction, run: Run, agent: Agent, call: Call, *, busy: bool, waits: bool) -> bool:
    """Refuse a tool call, park it, or let it begin if it may; whether the calls after it have to wait for it.

    With `busy` it has to wait itself, with `waits` it has to if it is no read.
    """
    refusal = agent_phases.refusal(draft, run, agent, call.request.tool) or call.request.fault
    if refusal:
        draft.refuse(run, call, refusal)
        return False
    if call.request.tool == "ask":
        _park(draft, run, call)
        return False
    rule = draft.rules.tools_of(agent)[call.request.tool]
    is_read = rule.replay is Replay.READ
    if not busy and (is_read or not waits):
        draft.add(
            r.ToolCallStarted,
            run=run.id,
            call=call.request.id,
            tool=rule.name,
            replay=rule.replay,
            phase=draft.state.phase,
        )
    return not is_read


def _may_be_let_in(draft: Transaction, run: Run, agent: Agent, call: Call) -> bool:
    """Whether a call is withheld by the agent's own phase, and one that is before it may yet change that."""
    if agent_phases.withheld(draft, run, agent, call.request.tool) is None:
        return False
    before = takewhile(lambda known: known.request.id != call.request.id, _now(draft, run).calls)
    return any(known.state is not CallState.DONE and known.request.tool != "complete" for known in before)


def _agent(draft: Transaction, run: Run) -> Agent:
    known = draft.rules.roster.get(run.agent)
    return known or Agent(slug=run.agent, name=run.name, pubkey=run.pubkey)


def _park(draft: Transaction, run: Run, call: Call) -> None:
    question = call.request.arguments.get("question")
    if not isinstance(question, str) or not question.strip():
        sentence = "`ask` needs `question`, a text that is not empty."
        draft.refuse(run, call, sentence)
        return
    options = call.request.arguments.get("options")
    choices = [str(option) for option in options] if isinstance(options, list) else []
    text = question.strip() + "".join(f"\n- {choice}" for choice in choices)
    draft.add(
        r.QuestionAsked,
        run=run.id,
        call=call.request.id,
        question=text,
        of=permissions.asked_by_agents(draft.state),
    )
    send_as_agent(draft, _now(draft, run), text, "question", call=call.request.id)


def _complete_if_last(draft: Transaction, run: Run, agent: Agent) -> None:
    left = run.open_calls
    if not left or any(call.request.tool != "complete" or call.state is not CallState.ASKED for call in left):
        return
    first = left[0]
    refusal = agent_phases.refusal(draft, run, agent, "complete")
    fault = refusal or first.request.fault or _wrong_completion(first.request.arguments, run)
    fault = fault or _unseen_failure(draft, run) or _unproved(draft, run, agent, first.request.arguments)
    for call in left if fault else left[1:]:
        sentence = fault or "The first `complete` of an answer counts."
        draft.refuse(run, call, sentence)
    if fault is not None and run.steps >= draft.rules.limits.steps_per_run:
        fail(draft, _now(draft, run), f"it took {run.steps} steps, which is the limit")
    elif fault is None:
        last = next((entry for entry in reversed(run.entries) if isinstance(entry, ModelStep)), None)
        arguments = {"response": last.text if last else "", **first.request.arguments}
        _finish(draft, _now(draft, run), arguments, completed=True)


def _unseen_failure(draft: Transaction, run: Run) -> str | None:
    """Why work that failed a moment ago is not reported as done: the model wrote its report before it could know."""
    failed = (call.request.tool for call in run.calls if call.result is not None and not call.result.ok)
    tool = next((name for name in failed if name != "complete"), None)
    if tool is None or run.steps >= draft.rules.limits.steps_per_run:
        return None
    return f"{tool} in the same answer did not succeed. Look at its result first, then call `complete`."


def _wrong_completion(arguments: Mapping[str, Any], run: Run) -> str | None:
    for name in ("response", "summary", "issues"):
        if not isinstance(arguments.get(name, ""), str):
            return f"`{name}` of `complete` must be a text."
    needs_verdict = run.phase is Phase.VERIFICATION and run.parent is None
    verdict = arguments.get("verdict")
    if needs_verdict and verdict not in VERDICTS:
        return "In verification `complete` needs `verdict`: `verified`, `issues` or `untried`."
    if needs_verdict and verdict == "untried" and not str(arguments.get("issues") or "").strip():
        return "With the verdict `untried`, `complete` needs `issues`: why it could not be tried, in a sentence."
    return None


def _unproved(draft: Transaction, run: Run, agent: Agent, arguments: Mapping[str, Any]) -> str | None:
    """Why a verdict `verified` does not count yet; None where it does, and after `PROOFS` refusals."""
    if not _claims(run, arguments) or run.steps >= draft.rules.limits.steps_per_run:
        return None
    why = mode_of(draft.state).why_unproved(draft, agent)
    return why.refusal if why is not None and _unproved_before(run) < PROOFS else None


def _claims(run: Run, arguments: Mapping[str, Any]) -> bool:
    return run.phase is Phase.VERIFICATION and run.parent is None and arguments.get("verdict") == "verified"


def _unproved_before(run: Run) -> int:
    """How many verdicts of the run were refused for want of a trial."""
    results = [entry for entry in run.entries if isinstance(entry, CallResult) and entry.tool == "complete"]
    return sum(entry.content.startswith(UNPROVED) for entry in results)


def _finish(draft: Transaction, run: Run, arguments: Mapping[str, Any], *, completed: bool) -> None:
    text = str(arguments.get("response") or "").strip()
    issues = str(arguments.get("issues") or "").strip()
    if issues and issues not in text:
        text = f"{text}\n\n{issues}".strip()
    verdict = arguments.get("verdict") if run.phase is Phase.VERIFICATION else ""
    untried = issues if verdict == "untried" else ""
    why = mode_of(draft.state).why_unproved(draft, _agent(draft, run)) if _claims(run, arguments) else None
    if why is not None:
        verdict, untried = "untried", why.reason or f"{run.name} ran nothing that shows whether it works"
    summary = str(arguments.get("summary") or "").strip()
    text = text or summary or mode_of(draft.state).text_of_calls(draft, run)
    lacking = None
    if not text:
        lacking = f"Your answer is empty. Say what {'the person' if run.parent is None else 'your caller'} should read."
    elif run.phase is Phase.VERIFICATION and not verdict and run.parent is None:
        lacking = "Verification ends with a verdict: call `complete` with `verdict` `verified`, `issues` or `untried`."
    if lacking is None:
        known = cast("r.WorkVerdict", verdict if verdict in VERDICTS else "")
        finish_run(
            draft, run, "finished", text=text, summary=summary, verdict=known, untried=untried, completed=completed
        )
        after_end(draft, run)
    elif run.reprompts < NUDGES and run.steps < draft.rules.limits.steps_per_run:
        draft.add(r.ModelReprompted, run=run.id, text=lacking)
    elif text:  # an answer without a verdict is still an answer; only the gate stays open
        finish_run(draft, run, "finished", text=text, summary=summary, completed=completed)
        after_end(draft, run)
    else:
        fail(draft, run, EMPTY)


def returned(draft: Transaction, run: Run, call: Call, result: ToolResult) -> None:
    """A call gave its result: the next one may start, or the model is wanted again."""
    result = mode_of(draft.state).checked_result(draft, run, agent_phases.kept(draft, run, result))
    draft.add_result(
        run,
        call,
        ok=result.ok,
        content=result.content,
        read=dict(result.read),
        touched=tuple(result.touched),
        lines=dict(result.lines),
        lesson=result.lesson,
        reverted=tuple(result.reverted),
        values=dict(result.values),
        route=result.route,
        exit_status=result.exit_status,
        is_trial=result.exit_status is not None and programs.is_trial(call.request),
        has_outside_effect=result.has_outside_effect and not programs.only_reads(call.request),
    )
    after_result(draft, run, result.moves)


def after_result(draft: Transaction, run: Run, moves: Sequence[tuple[str, str]] = ()) -> None:
    """After a call has its result: see where the agent is, and go on with the others of its answer.

    With `moves` the call itself has changed the agent's phase; then its edges are not evaluated on top of it.
    """
    for source, target in moves:
        agent_phases.move(draft, run, source, target)
    if not moves:
        agent_phases.evaluate(draft, run.id)
    run = _now(draft, run)
    if run.calls:
        schedule_calls(draft, run)


def after_end(draft: Transaction, run: Run) -> None:
    """What is next when a run has ended: its caller goes on, or else the conversation; and who waited to call it."""
    caller = draft.state.runs.get(run.parent) if run.parent is not None else None
    if caller is not None:
        after_result(draft, caller)
    elif not stop_at_run_limit(draft):
        advance(draft)
    recheck_queued_calls(draft)


def recheck_queued_calls(draft: Transaction) -> None:
    """Judge the calls that wait, where what they wait for may be over, or be configured no more."""
    for waiting in subagents.queued(draft):
        if waiting in draft.state.runs:  # one that was let through may have ended another
            schedule_calls(draft, draft.state.runs[waiting])


def fail(draft: Transaction, run: Run, error: str, failure: ModelFailed | None = None) -> None:
    """An agent failed, perhaps by the failure of a model call; the others of its turn go on."""
    usage, model = (failure.usage, failure.model) if failure is not None else (NO_USAGE, "")
    finish_run(draft, run, "failed", error=error, usage=usage, model=model)
    after_end(draft, run)


def time_out(draft: Transaction, run: Run, sentence: str = STOPPED) -> None:
    """Fail an agent that took too long; the router reads of it. Open calls get the sentence as a result."""
    minutes = max(1, round(draft.rules.limits.expectation(run.phase).close_after / 60_000))
    close_calls(draft, run, sentence)
    finish_run(draft, _now(draft, run), "timed_out", error=f"no answer within {minutes} min")
    after_end(draft, run)


def end_loops(draft: Transaction) -> None:
    """End the runs that have just made the same call, with the same result, once too often."""
    first = draft.records[0].seq if draft.records else draft.state.next_seq
    while True:
        wanted = [run for run in draft.state.runs.values() if run.wants is not None and run.wants >= first]
        found = next(((run, made) for run in wanted if (made := loop_detection.repeated_call(run)) is not None), None)
        if found is None:
            return
        run, made = found
        gave = in_a_line(made.result.content, RESULT_CHARACTERS) or "nothing"
        fail(
            draft,
            run,
            f"it called {made.request.tool} {loop_detection.SAME_CALLS} times with the same arguments and got the same "
            f"result each time: {gave}",
        )


def warn(draft: Transaction, run: Run) -> None:
    """A run takes long: the user is informed, once for all that work at the same time."""
    at_work = [one for one in draft.state.runs.values() if not one.is_waiting]
    is_known = any(one.warned for one in at_work)
    draft.add(r.RunWarned, run=run.id)
    if is_known:
        return
    left = max(1, round((run.close_at - draft.now) / 60_000))
    names = _and(list(dict.fromkeys(one.name for one in at_work))) or run.name
    are, them = ("are", "them") if len(at_work) > 1 else ("is", "it")
    notify(draft, f"{names} {are} still working; I give {them} {left} more min. `/stop` ends it now.")


def _and(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def model_failed(draft: Transaction, run: Run | None, failure: ModelFailed) -> None:
    """A model call ended without an answer: try again later, hold the work, or give up."""
    if not failure.retryable and run is not None:
        _refused(draft, run, failure)
        return
    if run is not None and run.agent not in draft.rules.roster:  # no tools are offered, which vendors refuse
        fail(draft, run, "it is no longer one of the agents", failure)
        return
    question, limits = draft.state.question, draft.rules.limits
    tries = draft.state.failed_tries(run)
    is_last, asked = tries >= len(limits.retry_delays), failure.retry_after or 0
    is_reported = run.outage_reported if run else (question.outage_reported if question else False)
    is_reported = is_reported or any(run.is_held for run in draft.state.runs.values())  # they often share a provider
    delay = max(limits.hold_for if is_last else limits.retry_delays[tries], asked)
    if failure.needs_operator:
        delay = LIFETIME
    held = is_last or asked > SILENCE or failure.needs_operator
    draft.add(
        r.RetryScheduled,
        run=run.id if run else None,
        attempt=tries + 1,
        due=Millis(draft.now + delay),
        message=failure.message[:500],
        on_hold=held,
        needs_operator=failure.needs_operator,
        usage=failure.usage,
        model=failure.model,
        queued=failure.queued,
    )
    if held and not is_reported:
        who = f"{run.name}'s model" if run else "The orchestrator's model"
        why = as_sentence(failure.message[:REASON_CHARACTERS])
        minutes = max(1, round(delay / 60_000))
        rhythm = f"{'every' if is_last else 'in'} {minutes} min"
        text = f"{who} cannot be used: {why} I hold the work and try again {rhythm}; `/continue` tries at once."
        if failure.needs_operator:
            text = f"{who} cannot be used: {why} I hold the work until then; after that, send `/continue`."
        notify(draft, text, error="model")


def _refused(draft: Transaction, run: Run, failure: ModelFailed) -> None:
    """An answer of no use is asked for again with the reason, and then given up."""
    if run.reprompts < NUDGES:
        text = f"Your last answer could not be used: {as_sentence(failure.message[:300])} Answer again, in another way."
        draft.add(
            r.ModelReprompted, run=run.id, text=text, usage=failure.usage, model=failure.model, queued=failure.queued
        )
    else:
        fail(draft, run, failure.message, failure)
