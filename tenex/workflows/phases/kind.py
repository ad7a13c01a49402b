"""The phases as a kind of conversation: every conversation that is of no other kind."""

from collections.abc import Iterator, Sequence

from tenex.core import records as r
from tenex.core.config import Agent, Policy
from tenex.core.conversation import Conversation
from tenex.core.delivery.outgoing import notify
from tenex.core.effects import Effect, Key, Work
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.inbox.claims import is_answer
from tenex.core.inbox.command import SlashCommand
from tenex.core.inbox.commands import activity
from tenex.core.inbox.decide import record_message, report_disabled, report_elsewhere
from tenex.core.kind import Kind, Unproved
from tenex.core.kind_format import KindShare
from tenex.core.messages import CallResult, ModelStep, Note, ToolSpec
from tenex.core.people.decider import Decider, person
from tenex.core.people.permissions import Decision
from tenex.core.phases import QUALITY_PHASES, TALK_PHASES, Phase
from tenex.core.record import Record
from tenex.core.signals import Checked, DayLimitReached, Inspected, MessageReceived, ModelFailed, RouteAnswered, Signal
from tenex.core.state import State
from tenex.core.text.lines import Place, Row
from tenex.core.transaction import Transaction
from tenex.core.work import holds, runs
from tenex.core.work.run import Call, Run
from tenex.core.work.turn import OrchestratorTurn
from tenex.core.work.turns import advance, open_turn, stop_turn
from tenex.workflows.phases import records as p
from tenex.workflows.phases.reducers import CHANGING, PHASES
from tenex.workflows.phases.state import NAME, Phases, phases_of

from . import approvals, checks, claims, closing, decide, gates, hand_over, verdicts, waivers
from .claims import DECISION
from .only_choice import will_repair
from .reflection_note import reflection_notes
from .router_prompt import forget, permitted, question_for
from .routing import Rejected
from .view import rows_of, share_of

NO_GATES = "There are no quality gates here, so there is nothing to skip."
ONLY_WORDS = (
    "You have called no tool, so nothing was changed and nothing was run. Do now what was asked. If nothing is to be "
    "done, or it cannot be done, call `complete` and say that."
)
"""To an agent in execute that ends its part with words alone."""
NO_APPROVAL = "Plans need no approval here."


class PhasesKind(Kind):
    """A conversation whose router chooses agents and phases."""

    name = NAME
    state = Phases
    records = (
        p.WaiverRequested,
        p.WaiverDeclined,
        p.Waived,
        p.PlanApproved,
        p.WorkInspected,
        p.CheckEnded,
        p.VerificationCounted,
    )
    reducers = PHASES
    commands = (
        SlashCommand(
            name="quick",
            help="skip verification, chores and reflection in this cycle",
            elsewhere=NO_GATES,
            counts_as_last_line=True,
            needs=Decision.WAIVER,
            split=lambda words: ("", words),
        ),
        SlashCommand(
            name="skip",
            usage="PHASE",
            help="skip one of them",
            elsewhere=NO_GATES,
            takes_argument=True,
            counts_as_last_line=True,
            needs=Decision.WAIVER,
            split=waivers.split_gates,
        ),
        # it takes no words, which may be a condition: but then the kind refuses it
        SlashCommand(
            name="approve",
            help="approve the plan that waits for it",
            elsewhere=NO_APPROVAL,
            takes_argument=True,
        ),
        SlashCommand(
            name="reject",
            usage="REASON",
            help="have that plan changed",
            elsewhere=NO_APPROVAL,
            takes_argument=True,
        ),
    )
    claims = (DECISION,)

    def owns(self, state: State) -> bool:
        """Every conversation: it is registered last."""
        del state
        return True

    def begin_cycle(self, transaction: Transaction, reason: str, decider: Decider) -> None:
        """Begin a cycle in chat."""
        decide.begin_cycle(transaction, reason, decider)

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Take a message as an answer to an open question, or as work."""
        state = transaction.state
        is_begun = bool(state.memory.recent or state.cycle.turns or state.has_begun_kind)
        wrote = record_message(transaction, signal)
        if not called and report_disabled(transaction, signal) and not is_begun:
            policy = transaction.policy
            disabled = {**policy.disabled, **policy.disabled_agents}
            slug = next(slug for slug in signal.addressed if slug in disabled)
            what = f"the workflow {slug}" if slug in policy.disabled else slug
            transaction.add(r.Ended, reason=f"{what} is disabled")
            return
        if is_answer(transaction, signal, wrote):
            return
        if called:
            report_elsewhere(transaction, called)
        advance(transaction)

    def next(self, transaction: Transaction) -> None:
        """Open a turn of the agents a user mentioned, or ask the router."""
        state = transaction.state
        present = decide.addressed_now(transaction)
        if present:
            names = ", ".join(dict.fromkeys(name for slug, name in state.work.addressed if slug in present))
            keys = {message.author for message in state.cycle.messages if message.name == names and message.author}
            decider = person(names, keys.pop() if len(keys) == 1 else PublicKey(""))
            reason = "addressed by the person"
            transaction.add(r.Routed, agents=present, phase=None, reason=reason, by=names, decided_by=decider)
            open_turn(transaction, present, reason, decider)
        elif state.router.question is None:
            decide.route(transaction)

    def what_is_missing(self, state: State, run: Run) -> str:
        """That an agent in execute does what it only announces or claims, or says that it did not."""
        if run.parent is not None or run.phase is not Phase.EXECUTE:
            return ""
        has_called = any(isinstance(entry, CallResult) for entry in run.entries)
        has_called = has_called or any(call.result is not None for call in run.calls if call.request.tool != "complete")
        return ONLY_WORDS if not has_called and closing.facts_of_turn(state) else ""

    def what_follows(self, transaction: Transaction, run: Run, verdict: r.WorkVerdict) -> str:
        """That a repair follows, after a verification's issues; what speaks against a claim in execute."""
        state = transaction.state
        if run.phase is Phase.EXECUTE:
            return " ".join(filter(None, (closing.facts_of_turn(state), checks.failing(state))))
        is_verifier = run.phase is Phase.VERIFICATION and verdict == "issues"
        return "A repair follows." if is_verifier and will_repair(state, transaction.policy, verdict) else ""

    def approval_question(self, transaction: Transaction, run: Run) -> str:
        """How a user approves a plan, where one has to."""
        return approvals.question(transaction, run)

    def why_uncounted(self, transaction: Transaction, signal: MessageReceived) -> str:
        """Who may decide whether checks are skipped, or a plan is approved."""
        return claims.why_uncounted(transaction, signal)

    def rows(self, record: Record, place: Place) -> Iterator[Row]:
        """Waived gates and approved plans."""
        return rows_of(record)

    def router_question(self, conversation: Conversation, policy: Policy, budget: int, lessons: Sequence[str]) -> Note:
        """The question the router is asked, in `budget` estimated tokens."""
        return question_for(conversation, policy, budget, lessons)

    def forget(self, conversation: ConversationId) -> None:
        """Drop what was written of its router's questions."""
        forget(conversation)

    def router_choices(self, conversation: Conversation, policy: Policy) -> tuple[Sequence[str], Sequence[str]]:
        """All agents, and the phases of the permitted transitions, the present one among them."""
        phases = dict.fromkeys((conversation.cycle.phase, *permitted(conversation, policy)))
        return tuple(policy.routable), tuple(map(str, phases))

    def tool_specs(self, state: State, run: Run, policy: Policy) -> tuple[ToolSpec, ...]:
        """`hand_over`, for agents that talk with a user."""
        del state
        return hand_over.specs(run, policy)

    def withheld(self, run: Run) -> frozenset[str]:
        """`hand_over`, after the talk."""
        return frozenset() if run.phase in TALK_PHASES else frozenset({hand_over.NAME})

    def own_call(self, transaction: Transaction, run: Run, call: Call) -> bool:
        """Decide a call of `hand_over`."""
        return call.request.tool == hand_over.NAME and hand_over.decide(transaction, run, call)

    def is_inspected_after(self, state: State, turn: OrchestratorTurn) -> bool:
        """Whether something was changed that the daemon has not looked at."""
        part = phases_of(state)
        return part.executed and turn.phase in CHANGING and part.inspection is None

    def is_published(self, state: State, run: Run, outcome: r.Outcome, verdict: r.WorkVerdict) -> bool:
        """Whether users get an agent's last words as a message: one per answer and issue."""
        return closing.is_published(state, run, outcome, verdict)

    def why_unproved(self, transaction: Transaction, agent: Agent) -> Unproved | None:
        """Why a verdict `verified` does not count: its agent has not looked at the work."""
        return verdicts.why_unproved(transaction, agent)

    def gate_met(self, transaction: Transaction, turn: OrchestratorTurn) -> Phase | None:
        """The quality gate that a turn meets by closing."""
        return gates.met(transaction.state, turn, transaction.policy)

    def notes(self, state: State, run: Run, room: int) -> Iterator[Note]:
        """In verification and repairs how the checks ended; in reflection what happened, and which own calls failed."""
        if run.phase is Phase.REFLECTION:
            yield from reflection_notes(state, run, room)
        is_worse = run.phase is Phase.CHORES and bool(checks.worse(state))
        if run.phase not in (Phase.VERIFICATION, Phase.EXECUTE) and not is_worse:
            return
        report = checks.report(state, room // 2)
        if report:
            yield Note(title="Checks", text=f"The daemon ran the project's checks on the files as they are:\n{report}")

    def effects(self, state: State) -> Iterator[Effect]:
        """What the daemon is to look at itself, and the checks that it is to run."""
        yield from checks.effects(state)

    def on_signal(self, transaction: Transaction, signal: Signal) -> bool:
        """Handle what the daemon has seen, and the router's answer, its failure and its limit.

        One that is not waited for gives no record.
        """
        if isinstance(signal, Inspected | Checked):
            decide.seen(transaction, signal)
            return True
        if not isinstance(signal, RouteAnswered | ModelFailed | DayLimitReached) or signal.key.work is not Work.ROUTE:
            return False
        question = transaction.state.router.question
        if question is None or question.retry is not None or signal.key != (Work.ROUTE, question.seq, ""):
            return True
        match signal:
            case RouteAnswered(step=step):
                decide.answered(transaction, step)
            case DayLimitReached():
                holds.hold(transaction, None, signal)
            case ModelFailed(retryable=True):
                runs.model_failed(transaction, None, signal)
            case ModelFailed():
                nothing = ModelStep(text="", usage=signal.usage, model=signal.model)
                refused = Rejected(
                    sentence=f"The answer was of no use: {signal.message[:300]}",
                    plain=f"gave no usable answer ({signal.message[:200]})",
                )
                decide.reject(transaction, nothing, refused)
        return True

    def on_stop(self, transaction: Transaction, name: str) -> str:
        """Name the check that ends; a look at what differs is not worth a word."""
        del name
        wanted = checks.next_check(phases_of(transaction.state))
        return f"the check {wanted[0]}" if wanted is not None else ""

    def share(self, state: State) -> KindShare | None:
        """What the daemon has seen of the work."""
        return share_of(state)

    def on_timer(self, transaction: Transaction, key: Key) -> bool:
        """Retry the router, or report that it is slow."""
        if key.part == "route":
            transaction.add(r.RetryDue, run=None)
        elif key.part == "route-warn":
            decide.delayed(transaction)
        else:
            return False
        return True

    def command(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute `/quick`, `/skip`, `/approve`, `/reject` and `/retry`."""
        if name in ("quick", "skip"):
            self._waive(transaction, name, argument, signal)
        elif name == "approve":
            approvals.approve(transaction, signal, argument)
        elif name == "reject":
            approvals.reject(transaction, signal, argument)
        elif name == "retry":
            return self._retry(transaction, person(signal.name, signal.message.author))
        else:
            return False
        return True

    def _waive(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> None:
        phases: tuple[Phase, ...] = QUALITY_PHASES
        if name == "skip":
            phases = waivers.gates_in(argument)
            if not phases:
                rest = " Nothing was started." if argument else ""
                notify(transaction, f"/skip takes one of: {', '.join(QUALITY_PHASES)}.{rest}")
                return
        if transaction.state.cycle.status == "ended":
            sent = f"/skip {' '.join(phases)}" if name == "skip" else "/quick"
            notify(
                transaction,
                f"This cycle has ended: there is nothing to skip. Write a request, then send `{sent}` again.",
            )
            return
        wanted = waivers.still_open(transaction.state, phases)
        if not wanted:
            notify(transaction, waivers.nothing_to_skip(transaction.state, phases))
            return
        waivers.waive(transaction, wanted, signal)
        turn = transaction.state.work.turn
        if turn is not None and turn.phase in wanted:
            stop_turn(transaction, f"{signal.name} left {turn.phase} out")
            advance(transaction)
        elif turn is None and transaction.state.router.question is None and transaction.state.cycle.messages:
            advance(transaction)

    def _retry(self, transaction: Transaction, decider: Decider) -> bool:
        """Run the last turn again; False where there is none that may be repeated."""
        state = transaction.state
        name = decider.name
        last = state.memory.last_turn
        if holds.on_hold(state):
            return False
        if state.work.turn is not None:
            notify(transaction, "I am at work; `/stop` first.")
            return True
        is_in_cycle = state.cycle.status != "ended" and bool(state.cycle.turns)
        if last is None or not is_in_cycle or last.phase is not state.cycle.phase:
            return False

        agents = tuple(slug for slug in last.agents if slug in transaction.policy.roster)
        if state.cycle.phase is Phase.REFLECTION:  # each reflects once, and an attempt that failed was one
            agents = tuple(slug for slug in agents if not gates.ineligible(state, (slug,), transaction.policy))
        if not agents:
            return False

        transaction.add(r.Continued, name=name)
        reason = f"{name} asked for another try"
        transaction.add(r.Routed, agents=agents, phase=None, reason=reason, by=name, decided_by=decider)
        open_turn(transaction, agents, reason, decider)
        return True

    def status(self, transaction: Transaction) -> list[str]:
        """The phase, what runs, and the gates in the way of END."""
        state = transaction.state
        still_open = gates.open_gates(transaction.state, transaction.policy)
        lines = [
            f"Phase: {state.cycle.phase} (cycle {state.cycle.number})",
            *activity(transaction, "This cycle has ended."),
        ]
        return [*lines, *([f"Open gates: {', '.join(still_open)}"] if still_open else [])]
