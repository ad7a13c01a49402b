"""Checks the router's decision against graph, roster and gates: accepted, or a sentence it can act on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.ids import Slug
from tenex.core.inbox.message import Message, Settlement
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.router.answer import USER, RoutingDecision
from tenex.core.values import replace
from tenex.workflows.phases.state import phases_of

from . import gates

NAME_CHARACTERS = 80
"""Of a wrong name in a refusal, which is reported to the router and remembered."""


class Settled(NamedTuple):
    """What the router's word on users' messages comes to (`fates`).

    `messages` are those of which nothing is left to be done; `wish` are the words on which its wish to waive rests.
    """

    messages: tuple[Settlement, ...] = ()
    wish: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A decision the graph, the roster and the gates permit.

    `end` and `user` stand alone. `way` are the phases entered, the waived ones on it first; empty means: stay.
    """

    decision: RoutingDecision
    agents: tuple[Slug, ...] = ()
    way: tuple[Phase, ...] = ()
    end: bool = False
    user: bool = False
    settled: tuple[Settlement, ...] = ()
    """The messages of which nothing is left to be done."""


_NOTHING_SETTLED: Final = Settled()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A decision that is refused, with a sentence the model can act on.

    `waiver` are the gates a user is to be asked about first. `stale` is set where the router could not know better;
    it is asked again, uncounted.
    """

    sentence: str
    plain: str
    """What the router did, for a user: it follows "The last time it ..."."""
    waiver: tuple[Phase, ...] = ()
    stale: bool = False
    settled: Settled = _NOTHING_SETTLED
    """With `waiver`: what of the decision counts in any case, and the words that are asked about."""


def check(
    conversation: Conversation, decision: RoutingDecision, policy: Policy, settled: Settled = _NOTHING_SETTLED
) -> Accepted | Rejected:
    """Hold a decision against graph, roster and gates; `settled` is what its `settles` come to.

    A wish to waive gates is put to a user before anything else of the decision is looked at.
    """
    verdict = _wish(conversation, decision, settled) or _checked(conversation, decision, policy, settled)
    return replace(verdict, settled=settled.messages) if isinstance(verdict, Accepted) else verdict


def _checked(
    conversation: Conversation, decision: RoutingDecision, policy: Policy, settled: Settled
) -> Accepted | Rejected:
    for word in (END, USER):
        if any(agent.upper() == word for agent in decision.agents):
            if len(decision.agents) > 1:
                sentence = f"{word} must stand alone; name either agents or {word}."
                return Rejected(sentence=sentence, plain="named agents and an end of the work at the same time")
            check = _check_end if word == END else _check_user
            return check(conversation, decision, policy, settled)

    agents: list[Slug] = []
    for name in decision.agents:
        agent = policy.find(name)
        if agent is None:
            roster = ", ".join(sorted(policy.routable))
            sentence = f"There is no agent {_short(name)}. The roster is: {roster}."
            return Rejected(sentence=sentence, plain=f"chose an agent that does not exist, {_short(name)}")
        if agent.slug not in agents:
            agents.append(agent.slug)

    way = _way(conversation, decision, policy)
    if isinstance(way, Rejected):
        return way
    target = way[-1] if way else conversation.cycle.phase
    wrong = _reflecting(conversation, agents, policy) if target is Phase.REFLECTION else None
    if wrong:
        return Rejected(sentence=wrong, plain="asked somebody to reflect who cannot, or who has done so")
    return Accepted(decision=decision, agents=tuple(agents), way=way)


def _way(conversation: Conversation, decision: RoutingDecision, policy: Policy) -> tuple[Phase, ...] | Rejected:
    phase = Phase.parse(decision.phase) if decision.phase is not None else None
    here = conversation.cycle.phase
    if phase is None or phase is here:
        return ()

    way = gates.path(conversation, phase, policy)
    if way is None:
        sentence = PHASE_TRANSITIONS.check(here, phase) or "There is no way there."
        return Rejected(sentence=sentence, plain=f"wanted to go from {here} to {phase}, which is not possible")

    wrong = gates.why_not_leave(conversation, way[0], policy)
    if wrong:
        return Rejected(sentence=wrong, plain=f"wanted to leave {here} before it was done")
    return way


def no_phase(name: str) -> Rejected:
    """The refusal of a name that is no phase's."""
    sentence = f"There is no phase {_short(name)}. The phases are: {', '.join(Phase)}."
    return Rejected(sentence=sentence, plain=f"chose a phase that does not exist, {_short(name)}")


def _check_end(
    conversation: Conversation, decision: RoutingDecision, policy: Policy, settled: Settled
) -> Accepted | Rejected:
    if gates.must_be_carried_out(conversation, policy):
        return _APPROVED
    wrong = gates.why_not_leave(conversation, END, policy)
    if wrong:
        still_open = ", ".join(gates.open_gates(conversation, policy))
        return Rejected(sentence=wrong, plain=f"wanted to end although {still_open} is still to do")

    stopped = conversation.work.stopped
    written = [message for message in conversation.cycle.messages if message.role is not None and message.seq > stopped]
    is_thanks = conversation.cycle.number > 1 and bool(written) and not _left(written, settled)
    if not conversation.cycle.turns and not is_thanks:
        sentence = "END is refused: the person's message has had no answer yet; name an agent."
        return Rejected(sentence=sentence, plain="wanted to end before your message was answered")
    return Accepted(decision=decision, end=True)


_APPROVED: Final = Rejected(
    sentence="The plan is approved and not carried out yet; go on to execute.",
    plain="wanted to stop although the plan is approved",
)


def _left(messages: Iterable[Message], settled: Settled) -> list[Message]:
    """Those of the messages of which something is left to be done."""
    seqs = {settlement.message for settlement in settled.messages}
    return [message for message in messages if not message.is_settled and message.seq not in seqs]


def _check_user(
    conversation: Conversation, decision: RoutingDecision, policy: Policy, settled: Settled
) -> Accepted | Rejected:
    asked = conversation.router.question.seq if conversation.router.question else 0
    if any(message.seq > asked for message in conversation.unanswered):
        sentence = "The person has just written; look again."
        return Rejected(sentence=sentence, plain="had not seen your newest message", stale=True)
    if _left((*conversation.unanswered, *conversation.requests), settled):
        sentence = "USER is refused: the person's newest message has had no answer; name an agent."
        return Rejected(sentence=sentence, plain="wanted to wait for you although your message has had no answer")
    if gates.must_be_carried_out(conversation, policy):
        return _APPROVED
    return Accepted(decision=decision, user=True)


def _reflecting(conversation: Conversation, agents: list[Slug], policy: Policy) -> str | None:
    ineligible = gates.ineligible(conversation, agents, policy)
    if not ineligible:
        return None
    waiting = gates.yet_to_reflect(conversation, policy)
    rest = f"still to reflect: {', '.join(waiting)}" if waiting else f"everybody has reflected; answer {END}"
    return f"Each participant reflects once; {', '.join(ineligible)} cannot reflect now ({rest})."


def _short(name: str) -> str:
    return repr(name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "…")


def _wish(conversation: Conversation, decision: RoutingDecision, settled: Settled) -> Rejected | None:
    """What comes of a wish to waive gates: None where there is none, or where nothing is left to ask.

    It rests on words of a person, whom the question about it quotes.
    """
    wanted: list[Phase] = []
    for name in decision.waive:
        phase = Phase.parse(name)
        if phase is None or phase not in QUALITY_PHASES:
            which = ", ".join(QUALITY_PHASES)
            sentence = f"{_short(name)} is no quality gate; only these can be waived: {which}."
            return Rejected(sentence=sentence, plain=f"wanted to skip {_short(name)}, which is no check")
        if phase not in (*wanted, *phases_of(conversation).waived, *phases_of(conversation).gates_met):
            wanted.append(phase)
    if not wanted:
        return None

    refused = [phase for phase in wanted if phase in phases_of(conversation).waiver_declined]
    if refused:
        gates_kept = ", ".join(refused)
        sentence = f"A person was asked whether {gates_kept} may be skipped, and did not say yes."
        return Rejected(sentence=sentence, plain=f"wanted again to skip {gates_kept}, without your yes")
    if not settled.wish:
        sentence = "`waive` rests on words of a person: quote them in `settles`, as a waiver."
        return Rejected(sentence=sentence, plain="wanted to skip checks without words of yours that ask for it")
    sentence = "Only a person can waive a gate; they are asked."
    return Rejected(sentence=sentence, plain="wanted to skip checks", waiver=tuple(wanted), settled=settled)
