"""What follows from the router's answer: a turn, a wait, an end, a question again, or the fallback."""

from dataclasses import replace
from typing import Final

from tenex.core import records as r
from tenex.core.delivery.outgoing import as_sentence, notify
from tenex.core.delivery.records import Purpose
from tenex.core.effects import Check
from tenex.core.ids import EventId, Millis, PublicKey, Slug
from tenex.core.inbox.message import Message
from tenex.core.messages import NO_USAGE, ModelStep
from tenex.core.people.decider import Decider, person
from tenex.core.phases import AFTER_WORK, PHASE_TRANSITIONS, Phase
from tenex.core.router.answer import UnknownPhase, parse, recorded
from tenex.core.signals import Checked, Inspected
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.work.turns import advance, open_turn, same_failure, spent, too_many_turns, wait_at_limit
from tenex.workflows.phases.state import phases_of

from . import ceremony, checks, closing, fates, gates, waivers
from . import records as p
from .only_choice import only_choice, to_accept_so
from .routing import Accepted, Rejected, check, no_phase

REQUEST: Final = 400
"""Characters of the request, in a message about a transition."""
BY_RULE = "rule"
"""`Routed.by` of a decision that was taken without a model."""
NO_STEP = ModelStep(usage=NO_USAGE)


def answered(transaction: Transaction, step: ModelStep) -> None:
    """The router answered."""
    question = transaction.state.router.question
    if question is None:
        return
    decision = parse(step.text)
    if isinstance(decision, str):
        reject(transaction, step, Rejected(sentence=decision, plain="did not answer in the form that is asked for"))
        return
    if isinstance(decision, UnknownPhase):
        reject(transaction, step, no_phase(decision.name))
        return
    settled = fates.settled(transaction.state, decision)
    if isinstance(settled, Rejected):
        reject(transaction, step, settled)
        return
    decision = waivers.grant_wish(transaction, decision, settled)
    verdict = check(transaction.state, decision, transaction.policy, settled)
    if isinstance(verdict, Rejected):
        reject(transaction, step, verdict)
    else:
        accept(transaction, verdict, by=transaction.policy.project.slug, decider=_router(transaction, step), step=step)


def seen(transaction: Transaction, signal: Inspected | Checked) -> None:
    """Record what the daemon has seen of the work, and go on once nothing more is to be looked at."""
    wanted = next((effect for effect in checks.effects(transaction.state) if effect.key == signal.key), None)
    if isinstance(signal, Inspected) and wanted is not None:
        transaction.add(p.WorkInspected, inspection=signal.inspection)
    elif isinstance(signal, Checked) and isinstance(wanted, Check):
        transaction.add(p.CheckEnded, result=signal.result, is_earlier=wanted.is_earlier)
    else:
        return
    if checks.are_under_way(transaction.state):
        return
    last = transaction.state.cycle.turns[-1] if transaction.state.cycle.turns else None
    gate = gates.met(transaction.state, last, transaction.policy) if last is not None else None
    if last is not None and gate is not None and gate in transaction.state.unmet_gates:
        transaction.add(p.VerificationCounted, turn_id=last.turn_id, gate=gate)
    advance(transaction)


def reject(transaction: Transaction, step: ModelStep, rejected: Rejected) -> None:
    """Refuse an answer with its sentence; ask again, ask the user, or fall back."""
    transaction.add(
        r.RouteRejected,
        answer=step.text[:2_000],
        sentence=rejected.sentence,
        counted=not rejected.stale,
        usage=step.usage,
        model=step.model,
        decided_by=_router(transaction, step),
    )
    question = transaction.state.router.question
    attempt = question.attempt if question else 1
    if rejected.stale:
        want_router(transaction, attempt)
    elif rejected.waiver:
        waivers.ask(transaction, rejected.waiver, settled=rejected.settled)
    elif attempt < transaction.policy.limits.routing_attempts:
        want_router(transaction, attempt + 1)
    else:
        _fall_back(transaction, rejected)


def _router(transaction: Transaction, step: ModelStep) -> Decider:
    project = transaction.policy.project
    return Decider(kind="router", name=project.name, pubkey=project.pubkey, model=step.model)


def delayed(transaction: Transaction) -> None:
    """Report, once, that the router has not answered in time."""
    transaction.add(r.RouteDelayed)
    seconds = round(transaction.policy.limits.router_warn_after / 1000)
    text = f"{_model(transaction)} has not answered for {seconds} s. I keep trying; `/stop` ends it."
    notify(transaction, text, "progress")


def _fall_back(transaction: Transaction, rejected: Rejected) -> None:
    """Report what the router did where the last attempt was refused, and wait."""
    question = transaction.state.router.question
    attempts = question.attempt if question else 1
    decisions = "a decision" if attempts == 1 else f"{attempts} decisions"
    notify(
        transaction,
        f"I could not decide how to go on. {_model(transaction)} gave {decisions} that I cannot use; the last time it "
        f"{rejected.plain}. Write to try again, or `/retry`. If it happens often, set a stronger `models.router`.",
        error="routing",
    )
    transaction.add(r.Waiting, reason="fallback")


def _model(transaction: Transaction) -> str:
    return f"The orchestrator's model {transaction.policy.project.model}".rstrip()


def accept(
    transaction: Transaction, accepted: Accepted, *, by: str, decider: Decider, step: ModelStep = NO_STEP
) -> None:
    """Carry out a decision that is permitted; `step` is the router's answer, if it was asked."""
    question = transaction.state.router.question
    rejections = question.rejections if question else ()
    agents = accepted.agents or (("END",) if accepted.end else ("USER",))
    phase = accepted.way[-1] if accepted.way else None
    is_question = accepted.decision.is_question and not (accepted.end or accepted.user)
    transaction.add(
        r.Routed,
        agents=agents,
        phase=phase,
        by=by,
        usage=step.usage,
        model=step.model,
        decided_by=decider,
        settled=accepted.settled,
        **recorded(replace(accepted.decision, is_question=is_question)),
    )
    for sentence in rejections:
        if sentence.startswith("There is no "):
            transaction.add(r.RouterCorrected, lesson=f"{sentence} The answer that was accepted: {', '.join(agents)}.")
    if accepted.user:
        _say_that_it_waits(transaction, accepted.decision.reason)
        transaction.add(r.Waiting, reason="user")
        return
    if accepted.end:
        end(transaction, accepted.decision.reason, decider)
        return

    _enter(transaction, accepted, decider)
    if addressed_now(transaction):  # a user named someone who could not have their turn before: they go first
        advance(transaction)
    else:
        open_turn(transaction, accepted.agents, accepted.decision.reason, decider)


def _say_that_it_waits(transaction: Transaction, reason: str) -> None:
    """Tell users that they are waited for, where that is not clear from what they read last, with what fails."""
    state = transaction.state
    is_in_execute = state.cycle.phase is Phase.EXECUTE
    repair = closing.unpublished_result(state) if is_in_execute else ""
    is_in_vain = is_in_execute and closing.was_repaired_in_vain(state)  # users read last that a repair follows
    failing = "" if is_in_vain else checks.failing(state)  # the answer of such a repair says it
    if is_in_vain or (is_in_execute and (repair or failing)) or not _has_answered(transaction):
        # as after `/continue` and nothing to do: silence would look like a fault
        says = f"I wait for you: {reason}"
    elif state.cycle.phase in AFTER_WORK:
        says = f"Work has stopped: {as_sentence(reason)} Write how it is to go on, or `/continue`."
    else:
        return
    notify(transaction, "\n\n".join(part for part in (repair, failing, says) if part))


def _has_answered(transaction: Transaction) -> bool:
    """Whether the user has had an answer to what they wrote last: by a turn, or by an agent who had asked them."""
    state = transaction.state
    if state.cycle.turns_since_user:
        return True
    is_message = bool(state.memory.recent) and not state.delivery.command_origin
    return is_message and state.memory.recent[-1].role is None


def _enter(transaction: Transaction, accepted: Accepted, decider: Decider) -> None:
    for phase in accepted.way[:-1]:
        _pass(transaction, phase, decider)
    if accepted.way:
        target = accepted.way[-1]
        from_reflection = transaction.state.cycle.phase is Phase.REFLECTION
        transition(transaction, target, accepted.decision.reason, decider, begins=from_reflection)
        if from_reflection:
            transaction.begin_cycle("chat was entered from reflection", decided_by=decider)
    elif transaction.state.memory.last_turn is not None and transaction.state.cycle.turns:
        transaction.add(
            r.HandedOff,
            **handoff_fields(transaction, transaction.state.cycle.phase, accepted.decision.reason, decider),
        )


def _pass(transaction: Transaction, phase: Phase, decider: Decider) -> None:
    """Pass through a gate in which no agent works: a user waived it, it was met before, or there is nothing to do."""
    phases = phases_of(transaction.state)
    waiver = next((waiver for waiver in phases.waivers if phase in waiver.phases), None)
    if waiver is not None:
        transition(transaction, phase, f"waived by {waiver.name}", person(waiver.name, waiver.author))
    elif phase in phases.gates_met:
        transition(transaction, phase, "it was passed before, and nothing was changed since", decider)
    else:
        reason = ceremony.why_passed(transaction.state, transaction.policy, phase)
        transition(transaction, phase, reason, _rule(transaction), gate=phase)


def end(transaction: Transaction, reason: str, decider: Decider) -> None:
    """End the cycle; open the next at once for requests that no turn of it could carry out."""
    for phase in gates.passed_to_the_end(transaction.state, transaction.policy):
        _pass(transaction, phase, decider)

    requests = transaction.state.requests
    part = phases_of(transaction.state)
    was_worked = part.executed or (part.inspection is not None and bool(transaction.state.cycle.touched))
    purpose: Purpose
    if was_worked:
        purpose = "notice" if closing.is_news(transaction.state) else "confirmation"
        notify(transaction, closing.last_word(transaction.state), purpose)
    else:
        settled = list(fates.settled_words(transaction.state))
        answer = closing.unpublished_answer(transaction.state)
        if settled:
            purpose = "notice" if fates.are_unclear(transaction.state) else "confirmation"
            notify(transaction, "\n".join(settled), purpose)
        elif answer:
            notify(transaction, answer)

    transaction.add(r.Ended, reason=reason, decided_by=decider, checks=tuple(checks.sentences(transaction.state)))
    if requests:
        author = person(requests[-1].name, requests[-1].author)
        begin_cycle(transaction, "a message came while the last cycle ended", author)
        route(transaction)


# ---- choosing what is next -------------------------------------------------------------------------------------------


def addressed_now(transaction: Transaction) -> tuple[Slug, ...]:
    """The agents a user mentioned that may have their turn in this phase; the others keep waiting for it.

    One that is only ever called by others has none: the router reads such a message like any.
    """
    state = transaction.state
    policy = transaction.policy
    named = dict.fromkeys(slug for slug, _ in state.work.addressed)
    present = tuple(slug for slug in named if slug in policy.routable)
    if state.cycle.phase is Phase.REFLECTION:
        return tuple(slug for slug in present if not gates.ineligible(state, (slug,), policy))
    return present


def route(transaction: Transaction) -> None:
    """Take the only choice there is, or ask the router; at a limit ask a user first, except about an end."""
    is_asked = any(not message.is_settled for message in transaction.state.unanswered)
    if checks.are_under_way(transaction.state) and not is_asked:
        return  # the next signal is of a check, and then it goes on

    only = only_choice(transaction.state, transaction.policy)
    limit = _limit(transaction) if only is None or not only.end else None
    if limit is not None:
        wait_at_limit(transaction, *limit)
        return

    untried = to_accept_so(transaction.state, transaction.policy)
    if untried is not None:
        waivers.ask(transaction, (transaction.state.cycle.phase,), untried=untried)
    elif only is not None:
        accept(transaction, only, by=BY_RULE, decider=_rule_or_agent(transaction))
    else:
        want_router(transaction, 1)


def _rule_or_agent(transaction: Transaction) -> Decider:
    """Who decided the only choice there is: the agent that handed its work over, or a rule."""
    state = transaction.state
    handed_over = () if state.unanswered else state.cycle.turns[-1].completions
    slug = next((done.agent for done in handed_over if done.hand_over is not None), None)
    agent = transaction.policy.roster.get(slug) if slug is not None else None
    if agent is None:
        return _rule(transaction)
    return Decider(kind="hand-over", name=agent.name, pubkey=agent.pubkey)


def _rule(transaction: Transaction) -> Decider:
    project = transaction.policy.project
    return Decider(kind="rule", name=project.name, pubkey=project.pubkey)


def want_router(transaction: Transaction, attempt: int) -> None:
    """Want the router's answer; that it is slow is reported once for a message, however often it has to be asked."""
    question = transaction.state.router.question
    warn_at = question.warn_at if question else Millis(transaction.now + transaction.policy.limits.router_warn_after)
    if transaction.state.router.delay_reported:
        warn_at = Millis(0)
    transaction.add(r.RouteRequested, attempt=attempt, warn_at=warn_at)


def _limit(transaction: Transaction) -> tuple[str, str] | None:
    state = transaction.state
    limits = transaction.policy.limits
    limit = too_many_turns(transaction) or same_failure(transaction)
    if limit is not None:
        return limit
    if state.cycle.route_streak >= limits.same_route:
        agents = ", ".join(state.cycle.streak_of[1:])
        sentence = f"{agents} worked {state.cycle.route_streak} times in {state.cycle.phase} and nothing changed."
        return "same_route", sentence
    return spent(transaction)


def correct_plan(transaction: Transaction, name: str, author: PublicKey) -> None:
    """Have those who made the plan change it by what a user has just written; at a limit ask a user first."""
    limit = _limit(transaction)
    last = transaction.state.cycle.turns[-1]
    agents = tuple(slug for slug in last.agents if slug in transaction.policy.routable)
    if limit is not None:
        wait_at_limit(transaction, *limit)
    elif agents:
        reason = f"{name} wants another plan"
        decider = person(name, author)
        transaction.add(r.Routed, agents=agents, phase=None, reason=reason, by=name, decided_by=decider)
        open_turn(transaction, agents, reason, decider)
    else:
        advance(transaction)


# ---- cycles and phases -----------------------------------------------------------------------------------------------


def transition(
    transaction: Transaction,
    to: Phase,
    reason: str,
    decider: Decider,
    *,
    begins: bool = False,
    gate: Phase | None = None,
) -> None:
    """Enter a phase; `begins` is whether the next cycle begins with that, `gate` what a rule passes with it."""
    cycle = transaction.state.cycle.number
    fields = handoff_fields(transaction, to, reason, decider, begins=begins)
    request = _request(transaction.state, begins=begins)
    event = EventId(request.event_id) if request is not None else EventId("")
    transaction.add(r.PhaseTransition, **fields, cycle=cycle, gate=gate, request=event)


def handoff_fields(
    transaction: Transaction, to: Phase, reason: str, decider: Decider, *, begins: bool = False
) -> dict[str, object]:
    """Why and where the work goes on, for the next agents; the agent is the one that decided it, or the project."""
    state = transaction.state
    project = transaction.policy.project
    is_agent = decider.kind == "hand-over"
    last = state.cycle.turns[-1] if state.cycle.turns else None
    request = _request(state, begins=begins)
    asked = request.text if request is not None else ""
    if len(asked) > REQUEST:
        asked = f"{asked[:REQUEST]} …"
    return {
        "from_": state.cycle.phase,
        "to": to,
        "message": f"{reason}\n\nRequest: {asked}" if asked else reason,
        "agent_pubkey": decider.pubkey if is_agent else project.pubkey,
        "agent_name": decider.name if is_agent else project.name,
        "reason": reason,
        "summary": last.summary if last else "",
        "decided_by": decider,
    }


def _request(state: State, *, begins: bool) -> Message | None:
    """What the cycle is for: the message that began it, not an answer that came since.

    For the cycle that begins next it is the first request that is left for it; None where that is not recorded yet.
    """
    messages = state.requests if begins else state.cycle.messages
    return next((message for message in messages if not message.is_settled), None)


def begin_cycle(transaction: Transaction, reason: str, decider: Decider) -> None:
    """Begin a cycle in chat; the way there is a transition only where the table has it."""
    state = transaction.state
    if state.cycle.number and PHASE_TRANSITIONS.permits(state.cycle.phase, Phase.CHAT):
        transition(transaction, Phase.CHAT, reason, decider, begins=True)
    transaction.begin_cycle(reason, decided_by=decider)
