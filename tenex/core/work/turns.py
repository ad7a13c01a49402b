"""Opening turns, ending runs, closing turns, and what comes next.

Everything that may have made the conversation idle calls `advance`.
"""

from collections.abc import Sequence

from tenex.core import records as r
from tenex.core.agent_phases.decide import sync_agent_state
from tenex.core.config import Agent, Expectation, Replay
from tenex.core.delivery.outgoing import as_sentence, notify, send_as_agent
from tenex.core.effects import Key, Work
from tenex.core.ids import CallId, Millis, RunId, Slug, TurnId
from tenex.core.kind import kind_of_conversation
from tenex.core.memory.window import MESSAGE_CHARACTERS, in_a_line
from tenex.core.messages import NO_USAGE, Usage, cut
from tenex.core.people.decider import Decider
from tenex.core.phases import PHASES, Phase
from tenex.core.port_values import Handoff
from tenex.core.router.answer import RoutingDecision
from tenex.core.transaction import Transaction

from .loop_detection import SAME_FAILURES, repeated_failure
from .records import Finding
from .run import CallState, Run
from .turn import Completion

LIFETIME = 100 * 366 * 24 * 3_600_000
UNWATCHED = Expectation(warn_after=LIFETIME, close_after=LIFETIME)
"""Of a run that its kind of conversation watches itself."""

STOPPED = "stopped; outcome unknown"

ERROR_CHARACTERS = 500
"""Of a failure that is repeated to the user."""

SUMMARY_CHARACTERS = 1_200
"""Of each completion in a turn's summary: enough to hand on, and no essay in every later prompt."""


def advance(transaction: Transaction) -> None:
    """Start what follows by the kind of the conversation, unless a turn is open or the conversation has ended."""
    state = transaction.state
    if state.work.turn is None and state.cycle.status != "ended":
        kind_of_conversation(state).next(transaction)


def wait_at_limit(transaction: Transaction, name: str, sentence: str) -> None:
    """Record that a limit is reached, report it and wait until a user continues."""
    transaction.add(r.LimitReached, limit=name, sentence=sentence)
    notify(transaction, f"{sentence} Write `/continue` to go on.")
    transaction.add(r.Waiting, reason="limit")


def same_failure(transaction: Transaction) -> tuple[str, str] | None:
    """The limit and its sentence where an agent has failed repeatedly for the same reason."""
    done = repeated_failure(transaction.state)
    if done is None:
        return None
    agent = transaction.policy.roster.get(done.agent)
    name = agent.name if agent is not None else done.agent
    error = in_a_line(done.error, ERROR_CHARACTERS)
    return "same_failure", (
        f"{name} failed {SAME_FAILURES} times for the same reason, so I have stopped: {as_sentence(error)} "
        f"Remove the cause, or ask for it in another way."
    )


def too_many_turns(transaction: Transaction) -> tuple[str, str] | None:
    """The limit and its sentence where too many turns were taken since a user last wrote."""
    turns = transaction.state.cycle.turns_since_user
    if turns >= transaction.policy.limits.turns_per_message:
        return "turns_per_message", f"I have worked {turns} times since you last wrote."
    return None


def spent(transaction: Transaction) -> tuple[str, str] | None:
    """The limit of the cycle or the conversation that is reached, and the sentence about it.

    In chat and brainstorm only the conversation's limit stops: a long talk is one cycle.
    """
    state = transaction.state
    limits = transaction.policy.limits
    used = NO_USAGE if state.is_talk else state.cycle.usage - state.cycle.talk_usage
    return _over("cycle", "This work", used, limits.tokens_per_cycle, limits.cost_per_cycle_usd) or _over(
        "conversation",
        "This conversation",
        state.totals.usage - state.totals.granted,
        limits.tokens_per_conversation,
        limits.cost_per_conversation_usd,
    )


def limit_reached(transaction: Transaction, run: Run) -> tuple[str, str] | None:
    """The limit of a single run that is reached, and the sentence about it."""
    limits = transaction.policy.limits
    return _over("run", f"{run.name}'s run", run.usage, limits.tokens_per_run, limits.cost_per_run_usd)


def _over(scope: str, what: str, usage: Usage, tokens: int, cost_usd: float) -> tuple[str, str] | None:
    cost = usage.cost_usd or 0.0
    if tokens and usage.tokens >= tokens:
        return f"tokens_per_{scope}", f"{what} has used {usage.tokens:,} tokens of {tokens:,}."
    if cost_usd and cost >= cost_usd:
        return f"cost_per_{scope}", f"{what} has cost ${cost:.2f} of ${cost_usd:.2f}."
    return None


def stop_at_run_limit(transaction: Transaction) -> bool:
    """Ask the user where an agent of the turn that has just closed was stopped at the limit of a run."""
    state = transaction.state
    if state.work.turn is not None or state.memory.last_turn is None:
        return False
    if not kind_of_conversation(state).asks_at_limits:
        return False
    if PHASES[state.memory.last_turn.phase].may_fail:
        return False
    over = [done.error for done in state.memory.last_turn.completions if done.outcome == "over_limit"]
    if not over:
        return False
    notify(transaction, f"{' '.join(over)} Write `/continue` to go on.")
    transaction.add(r.Waiting, reason="limit")
    return True


def open_turn(transaction: Transaction, agents: Sequence[Slug], reason: str, decider: Decider) -> None:
    """Set agents to work at the same time, in the phase the conversation is in."""
    state = transaction.state
    policy = transaction.policy
    turn = TurnId(f"turn-{state.totals.turn_count + 1}")
    transaction.add(
        r.TurnOpened,
        turn_id=turn,
        phase=state.cycle.phase,
        agents=tuple(agents),
        reason=reason,
        handoff=_handoff(transaction),
        gates_by_effect=state.has_phases and state.cycle.phase is Phase.EXECUTE,
        decided_by=decider,
    )
    for slug in agents:
        start_run(transaction, RunId(f"{turn}.{slug}"), policy.roster[slug])


def start_run(
    transaction: Transaction,
    run: RunId,
    agent: Agent,
    *,
    parent: RunId | None = None,
    call: CallId | None = None,
    is_shared: bool = False,
) -> None:
    """Set an agent to work; `parent` and `call` where a sub-agent called it."""
    state = transaction.state
    expected = UNWATCHED if state.watches_runs else transaction.policy.limits.expectation(state.cycle.phase)
    transaction.add(
        r.RunStarted,
        run=run,
        agent=agent.slug,
        agent_name=agent.name,
        pubkey=agent.pubkey,
        warn_at=Millis(transaction.now + expected.warn_after),
        close_at=Millis(transaction.now + expected.close_after),
        parent=parent,
        call=call,
        is_shared=is_shared,
    )
    sync_agent_state(transaction, transaction.state.work.runs[run])


def _handoff(transaction: Transaction) -> Handoff | None:
    transitions = (kind.last_transition for kind in transaction.state.kinds.values())
    last = next((transition for transition in transitions if transition is not None), None)
    if last is None or transaction.now - last.at > transaction.policy.limits.handoff_window:
        return None
    return Handoff(from_=last.from_, to=last.to, message=last.message, reason=last.reason, summary=last.summary)


def finish_run(
    transaction: Transaction,
    run: Run,
    outcome: r.Outcome,
    *,
    text: str = "",
    summary: str = "",
    verdict: r.WorkVerdict = "",
    untried: str = "",
    findings: Sequence[Finding] = (),
    error: str = "",
    completed: bool = False,
    announce: bool = True,
    usage: Usage = NO_USAGE,
    model: str = "",
    hand_over: RoutingDecision | None = None,
) -> None:
    """Count an agent's completion, once; close the turn if it was the last. `usage` is of a call without an answer.

    The sub-agents it has called end with it. A sub-agent's text goes to its caller only.
    """
    if transaction.state.work.turn is None or run.id not in transaction.state.work.runs:
        return
    for called in transaction.state.work.called_by(run.id):
        close_calls(transaction, called, STOPPED)
        finish_run(transaction, called, "stopped", error=f"{run.name}, who called it, has ended")

    announce = announce and run.parent is None
    if announce and outcome == "finished":
        asks_approval = kind_of_conversation(transaction.state).approval_question(transaction, run)
        after = asks_approval or kind_of_conversation(transaction.state).what_follows(transaction, run, verdict)
        not_run = transaction.state.approvals.unattended(run.id)
        left = f"Not run, since no one is there to allow it: {'; '.join(not_run)}." if not_run else ""
        shown = "\n\n".join(part for part in (text, after, left) if part)
        asks: r.Ask = "approval" if asks_approval else ""
        is_published = kind_of_conversation(transaction.state).is_published(transaction.state, run, outcome, verdict)
        has_words = bool(text) or bool(transaction.state.delivery.attached.get(run.id))
        is_published = bool(asks) or (is_published and has_words)
        words = shown or summary
        send_as_agent(transaction, run, words, "completion", completed=completed, asks=asks, is_published=is_published)
    elif announce:
        is_published = kind_of_conversation(transaction.state).is_published(transaction.state, run, outcome, verdict)
        words = f"I could not finish: {error}"
        send_as_agent(transaction, run.spent(usage, model), words, "error", is_published=is_published)

    transaction.add(
        r.RunEnded,
        run=run.id,
        outcome=outcome,
        text=text,
        summary=summary,
        verdict=verdict,
        untried=untried,
        findings=tuple(findings),
        error=error,
        usage=usage,
        model=model,
        hand_over=hand_over,
        completed=completed,
    )

    if run.parent is not None:
        _hand_back(transaction, run, outcome, f"[{verdict}] {text}" if verdict else text or error)
    elif not transaction.state.work.runs:
        close_turn(transaction)
        kind_of_conversation(transaction.state).on_turn_closed(
            transaction, run, outcome, text or error, completed=completed
        )


def _hand_back(transaction: Transaction, run: Run, outcome: r.Outcome, words: str) -> None:
    """Give the caller what came of its call, if it still waits for it."""
    caller = transaction.state.work.runs.get(run.parent) if run.parent is not None else None
    call = caller.find(run.call) if caller is not None and run.call is not None else None
    if caller is None or call is None:
        return
    is_done = outcome == "finished"
    content = words if is_done else f"{run.name} {outcome.replace('_', ' ')}: {words}"
    transaction.add_result(caller, call, ok=is_done, content=cut(content, MESSAGE_CHARACTERS))


def close_calls(transaction: Transaction, run: Run, sentence: str, *, only: Replay | None = None) -> None:
    """Give open calls a result without having one: only those of one class, or all."""
    returned = transaction.state.work.undecided_keys
    for call in run.open_calls:
        is_running = call.state is CallState.PERMITTED and Key(Work.TOOL, call.seq) not in returned
        if only is None or (is_running and call.replay is only):
            may_have_changed = call.state is CallState.PERMITTED and call.replay is not Replay.READ
            transaction.add_result(
                run, call, ok=False, content=sentence, has_outside_effect=may_have_changed, is_broken_off=True
            )


def stop_turn(transaction: Transaction, reason: str) -> None:
    """End the runs of the open turn, with the reason as their error, and close it."""
    for run in transaction.state.work.own_runs:
        close_calls(transaction, run, STOPPED)
        finish_run(transaction, transaction.state.work.runs[run.id], "stopped", error=reason, announce=False)
    close_turn(transaction)


def close_turn(transaction: Transaction) -> None:
    """Close the open turn, whose runs have all ended."""
    turn = transaction.state.work.turn
    if turn is None:
        return
    summary = "\n".join(_line(done) for done in turn.completions)
    kind = kind_of_conversation(transaction.state)
    gate = kind.gate_met(transaction, turn)
    is_inspected = kind.is_inspected_after(transaction.state, turn)
    transaction.add(r.TurnClosed, turn_id=turn.turn_id, summary=summary, gate=gate, is_inspected=is_inspected)


def _line(done: Completion) -> str:
    if done.outcome != "finished":
        return f"{done.agent} {done.outcome.replace('_', ' ')}: {done.error}"
    words = done.summary or done.text
    cut = words if len(words) <= SUMMARY_CHARACTERS else words[:SUMMARY_CHARACTERS] + " …"
    verdict = f" [{done.verdict}]" if done.verdict else ""
    return f"{done.agent}{verdict}: {cut}"
