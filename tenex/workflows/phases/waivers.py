"""Giving up quality gates: the one question the router may have put to a user, and what counts as their yes.

Words never waive a check by themselves: a command does, or a clear yes to that question. (ADR 21.)
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tenex.core import records as r
from tenex.core.answers.yes_no import Unclear, is_clear_no, is_clear_yes, read_answer
from tenex.core.delivery.buttons import yes_or_no
from tenex.core.delivery.outgoing import notify
from tenex.core.graph import END
from tenex.core.ids import EventId, PublicKey
from tenex.core.inbox.message import Message
from tenex.core.memory.window import in_a_line
from tenex.core.people.permissions import Decision, may_decide
from tenex.core.phases import GATES, QUALITY_PHASES, Phase
from tenex.core.router.answer import RoutingDecision
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.work.turns import advance
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of

from . import checks, gates
from .answers import why_no_answer
from .routing import Settled

REASON_CHARACTERS: Final = 300
"""Of the reason why the work could not be tried, and of the words that are taken for a wish."""


_NAME: Final = re.compile(r"[\s,]*(?:(?:and|[&+])\s+)?([^\s,]+)", re.IGNORECASE)
"""The next word of a list: `verification, chores and reflection`."""


def split_gates(words: str) -> tuple[str, str]:
    """The gates that the words after `/skip` begin with, and what follows them: a request."""
    end = 0
    for match in _NAME.finditer(words):
        if Phase.parse(match[1]) not in QUALITY_PHASES:
            break
        end = match.end()
    return (words[:end], words[end:]) if end else (words, "")


def gates_in(words: str) -> tuple[Phase, ...]:
    """The gates that are named; none where anything else is."""
    phases = [Phase.parse(match[1]) for match in _NAME.finditer(words)]
    gates = [phase for phase in phases if phase is not None and phase in QUALITY_PHASES]
    return tuple(dict.fromkeys(gates)) if len(gates) == len(phases) else ()


def ask(transaction: Transaction, phases: Sequence[Phase], untried: str = "", settled: Settled | None = None) -> None:
    """Ask once whether these gates may be skipped, and wait: who wrote last is asked, or an owner if they may not.

    With `untried`, the reason why the work could not be tried, whether it is accepted so. `settled` is what the router
    said of messages: a wish that is all of a message has its answer with this question.
    """
    state = transaction.state
    newest = state.cycle.messages[-1] if state.cycle.messages else None
    of = PublicKey("")
    if newest is not None and may_decide(
        Decision.WAIVER, state, transaction.policy.gates, author=newest.author, role=newest.role
    ):
        of = newest.author
    transaction.add(
        p.WaiverRequested,
        phases=tuple(phases),
        of=of,
        untried=untried,
        settled=settled.messages if settled is not None else (),
    )
    owners = "" if of else " Only an owner can allow it."
    keeps = "it" if len(phases) == 1 else "them"
    quote = in_a_line(settled.wish, REASON_CHARACTERS) if settled is not None else ""
    because = f", because of “{quote}”" if quote else ""
    failing = checks.failing(state) if Phase.VERIFICATION in phases else ""
    risks = "; ".join(GATES[phase].risk for phase in phases if not (failing and phase is Phase.VERIFICATION))
    then = " ".join(([f"It stays as it is: {failing}"] if failing else []) + ([f"Then {risks}."] if risks else []))
    text = (
        f"May I skip {listed(phases)} in this cycle{because}? {then}{owners} "
        f"Answer “yes” or 👍 to skip {keeps}; any other answer keeps {keeps}."
    )
    if untried:
        reason = in_a_line(untried, REASON_CHARACTERS).rstrip(" .")
        state_of_it = "It is not verified" if Phase.VERIFICATION in phases else "It is worse since it was tidied"
        said = " ".join(filter(None, (f"{state_of_it}: {reason}.", checks.without_end(state))))
        text = f"{said} Accept it so?{owners} Only “yes” or 👍 accepts it; else write how to go on."
    notify(transaction, text, "question", asks="waiver", buttons=yes_or_no(transaction.now))
    transaction.add(r.Waiting, reason="waiver")


def still_open(state: State, phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Those of the gates that this cycle has neither passed nor skipped."""
    return tuple(
        phase for phase in phases if phase not in phases_of(state).gates_met and phase not in phases_of(state).waived
    )


def grant_wish(transaction: Transaction, decision: RoutingDecision, settled: Settled) -> RoutingDecision:
    """Leave out chores and reflection because a user wants it so, without a question, once nothing is left to check.

    The wish is all of a message that came since the work was done (`settled`), and not a part of one.
    Gives the decision to go on with: END where no gate is left and no other work is wanted. Where the wish is for more,
    or of a user who may not waive, it is the decision unchanged: then a user is asked. (ADR 56.)
    """
    state = transaction.state
    named = [phase for phase in map(Phase.parse, decision.waive) if phase is not None]
    wanted = still_open(state, list(dict.fromkeys(named)))
    message = _wished_by(transaction, settled)
    if message is None or not wanted or not _may_leave_out(state, wanted):
        return decision
    transaction.add(
        p.Waived,
        phases=wanted,
        author=message.author,
        name=message.name,
        quote=in_a_line(message.text, REASON_CHARACTERS),
        message_id=EventId(message.event_id),
        unasked=True,
    )
    target = Phase.parse(decision.phase) if decision.phase is not None else None
    is_work_wanted = target is not None and target not in QUALITY_PHASES
    if is_work_wanted or gates.open_gates(transaction.state, transaction.policy):
        return decision
    return replace(decision, agents=(END,), phase=None)


def _may_leave_out(state: State, wanted: Sequence[Phase]) -> bool:
    """Whether these gates check nothing, verification is passed or waived, and no user has kept them when asked."""
    is_checked = phases_of(state).executed and Phase.VERIFICATION not in state.unmet_gates
    is_check = any(phase is Phase.VERIFICATION or phase not in QUALITY_PHASES for phase in wanted)
    return is_checked and not is_check and phases_of(state).waiver_declined.isdisjoint(wanted)


def _wished_by(transaction: Transaction, settled: Settled) -> Message | None:
    """The newest message that is nothing but such a wish, where those who wrote these may waive."""
    state = transaction.state
    seqs = {settlement.message for settlement in settled.messages if settlement.kind == "waiver"}
    wishes = [message for message in state.cycle.messages if message.seq in seqs]
    rules = transaction.policy.gates
    are_theirs = all(
        not wish.is_plain and may_decide(Decision.WAIVER, state, rules, author=wish.author, role=wish.role)
        for wish in wishes
    )
    return wishes[-1] if wishes and are_theirs else None


def nothing_to_skip(state: State, phases: Sequence[Phase]) -> str:
    """The answer to a command that would skip gates of which none is open."""
    passed = [phase for phase in phases if phase in phases_of(state).gates_met]
    skipped = [phase for phase in phases if phase not in phases_of(state).gates_met]
    parts = [f"{listed(passed)} {'is' if len(passed) == 1 else 'are'} done"] if passed else []
    parts += [f"{listed(skipped)} will be skipped already"] if skipped else []
    return f"There is nothing to skip: {', and '.join(parts)}."


def listed(phases: Sequence[Phase]) -> str:
    """The names of gates, as a part of a sentence."""
    return " and ".join(part for part in (", ".join(phases[:-1]), phases[-1]) if part)


def answered(transaction: Transaction, signal: MessageReceived, wrote: r.MessageRecorded, *, is_only: bool) -> bool:
    """Take a message as the answer to the open question, if there is one; whether it waived.

    Any message but a clear yes of the user asked, or of an owner, closes the question and is then read like any.
    `is_only` is whether nothing else was asked when it came.
    """
    state = transaction.state
    message = signal.message
    phases = phases_of(state).waiver_asked
    if not phases:
        return False
    is_theirs = not signal.is_plain and may_decide(
        Decision.WAIVER,
        state,
        transaction.policy.gates,
        author=message.author,
        role=signal.role,
        asked=phases_of(state).waiver_asked_of,
    )
    why_not = why_no_answer(transaction, message, phases_of(state).waiver_question, is_only=is_only)
    if is_theirs and is_clear_yes(message.text):
        if not why_not:
            waive(transaction, phases, signal, is_answer=True)
            advance(transaction)
            return True
        skips = " and ".join(f"`/skip {phase}`" for phase in phases)
        does, how = (
            ("accepts", "accept it so") if phases_of(state).waiver_untried else ("skips", f"skip {listed(phases)}")
        )
        notify(transaction, f"Your “yes” {does} nothing: {why_not}. To {how}, send {skips}.")
    if is_theirs and not why_not and read_answer(message.text) is Unclear.NO_AND_WORDS:
        words = in_a_line(message.text, REASON_CHARACTERS)
        notify(
            transaction,
            f"I cannot tell what “{words}” says of {listed(phases)}, so nothing is decided. Answer “yes” or “no”.",
            "question",
            asks="waiver",
        )
        transaction.add(r.Waiting, reason="waiver")
        return True
    is_no = is_theirs and not why_not and is_clear_no(message.text)
    transaction.add(p.WaiverDeclined, name=signal.name, message=wrote.seq if is_no else 0)
    return False


def waive(
    transaction: Transaction, phases: Sequence[Phase], signal: MessageReceived, *, is_answer: bool = False
) -> None:
    """Record that a user gave up gates with this message; report what that means unless they were asked just that."""
    message = signal.message
    untried = phases_of(transaction.state).waiver_untried
    is_accepted = bool(untried) and tuple(phases) == phases_of(transaction.state).waiver_asked
    transaction.add(
        p.Waived,
        phases=tuple(phases),
        author=message.author,
        name=signal.name,
        quote=message.text.strip(),
        message_id=message.event_id,
        untried=untried if is_accepted else "",
    )
    if is_accepted or is_answer:
        return
    if Phase.VERIFICATION in phases_of(transaction.state).gates_met:
        notify(transaction, f"As you wish, I skip {listed(phases)}. The work has been verified.")
        return
    skipped = "; ".join(f"{phase}: {GATES[phase].risk}" for phase in phases)
    notify(transaction, f"As you wish, I skip what follows. {skipped[:1].upper()}{skipped[1:]}.")
