"""What a conversation of the phases keeps beside its cycle: gates, waivers, the plan, and what was worked on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenex.core import records as r
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.ids import EventId, Millis, PublicKey, Slug, TurnId
from tenex.core.phases import AFTER_WORK, QUALITY_PHASES, Phase
from tenex.core.state import KindState, State
from tenex.core.values import replace
from tenex.workflows.phases import records as p

from .questions import DecisionQuestion

NAME: Final = "phases"
"""Of the kind."""

EARLIER_PLANS = 100
"""Messages that presented a plan which was changed since: a late `/approve` as a reply to one approves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases(KindState):
    """Where a cycle is on its way through the phases. A rollback restores it, with nothing asked."""

    wrote_since_entry: bool = False
    """A user has written since the phase was entered."""
    is_question: bool = False
    """Whether the open turn, or the next, is for messages that only ask something, as the router says."""
    last_transition: r.PhaseTransition | r.HandedOff | None = None
    unannounced: r.PhaseTransition | None = None
    """The last transition, as long as no message has shown it."""
    left_before: tuple[Phase, ...] = ()
    """The phases that were left before it, since a message has shown one."""

    # the gates
    executed: bool = False
    gates_met: frozenset[Phase] = frozenset()
    reflected: frozenset[Slug] = frozenset()
    changed_outside: bool = False
    """Whether execute may have changed something that `Cycle.touched` does not name."""
    waivers: tuple[p.Waived, ...] = ()
    waiver_asked: tuple[Phase, ...] = ()
    """Gates a user is being asked to give up."""
    waiver_asked_of: PublicKey = PublicKey("")
    """Who is asked; "" for any owner."""
    waiver_question: DecisionQuestion | None = None
    """The message that asks; None where its journal does not name it."""
    waiver_untried: str = ""
    """Why the work could not be tried, where a user is asked to accept that."""
    waiver_declined: frozenset[Phase] = frozenset()
    """Gates a user was asked to give up, and would not, since someone last wrote."""
    untried_asked: bool = False
    """A user was asked to accept untried what has been changed; they are asked once."""

    # what the daemon has seen of the work
    inspect_from: int = 0
    """The seq of the end of the turn after which the workspace is to be looked at; 0 for none."""
    inspection: Inspection | None = None
    """What was seen then; None where it was not looked at, or something was set to work since."""
    inspected_at: int = 0
    """The seq of its record."""
    last_tree: str = ""
    """What the workspace held when it was looked at last in this cycle, however much was changed since."""
    check_results: tuple[CheckResult, ...] = ()
    """Of this cycle, on all trees."""
    passed_before: tuple[CheckResult, ...] = ()
    """Those that passed on the last tree of the cycle before, by which it is known how many tests there were."""
    refused_tree: str = ""
    """The tree that was verified last with issues found, or with a check that is worse than before."""

    # what there is to reflect on
    failed_calls: Mapping[Slug, int] = field(default_factory=dict, compare=False)
    """How many calls of each agent have failed or were refused in this cycle, without programs that ended with an
    error: an exit status is a finding. A snapshot of before does not hold them, so they are not compared."""
    corrected: frozenset[Slug] = field(default=frozenset(), compare=False)
    """The agents to whose call a person said no, with a reason."""

    # the plan
    plan_question: DecisionQuestion | None = None
    """The messages that presented the newest plan and asked for its approval; None for none."""
    earlier_plans: tuple[EventId, ...] = ()
    """The newest of the messages that presented plans of this cycle which have been changed since."""
    approved_turn: TurnId = TurnId("")
    """The turn whose plan a user has approved; "" for none. A later turn makes another plan."""

    # messages
    worked_on: int | None = None
    """As `Memory.answered`, of runs in phases that may carry a message out: a gate may only look at what was asked for
    before. None where no such run has ended; then it is `answered`."""
    asked_at_rest: int = 0
    """The seq of the newest message that came in execute while nothing was under way or asked. The router could choose
    any work for it: where it chose to verify, that was what the user asked for."""

    @property
    def tree(self) -> str:
        """What the workspace holds, as it was looked at last; "" where that is not known."""
        return self.inspection.tree if self.inspection is not None else ""

    @property
    def is_looked_at(self) -> bool:
        """Whether the daemon looks at what this cycle has changed; not so in journals of before."""
        return self.executed and bool(self.inspect_from or self.last_tree or self.inspection)

    def result(self, name: str, tree: str) -> CheckResult | None:
        """How a check ended on a tree; None where it was not run there."""
        return next((found for found in self.check_results if (found.name, found.tree) == (name, tree)), None)

    def earlier(self, now: CheckResult) -> CheckResult | None:
        """How a check ended on the tree of the cycle's beginning; None where it was not run there.

        For one that passes now a run of the cycle before counts too. Another is run again: what is not in the tree,
        such as an installed package, may have changed since.
        """
        base = self.inspection.base if self.inspection is not None else ""
        found = self.result(now.name, base)
        if found is None and now.is_success:
            found = next((one for one in self.passed_before if (one.name, one.tree) == (now.name, base)), None)
        return found

    @property
    def asks_user(self) -> bool:
        """Whether a user is asked to skip gates, or to approve a plan."""
        return self.waiver_question is not None or self.plan_question is not None

    @property
    def question_events(self) -> tuple[EventId, ...]:
        """The messages that ask whether gates are skipped, or present a plan that no user has approved."""
        plan = self.plan_question if not self.approved_turn else None
        return tuple(event for asked in (self.waiver_question, plan) if asked is not None for event in asked.events)

    @property
    def unannounced_phases(self) -> tuple[Phase, ...]:
        """The phases that were left, in order, as long as no message has shown it."""
        return (*self.left_before, self.unannounced.from_) if self.unannounced is not None else ()

    @property
    def open_gates(self) -> tuple[Phase, ...]:
        """The gates that are neither met nor waived, in order."""
        if not self.executed:
            return ()
        waived = self.waived
        return tuple(gate for gate in QUALITY_PHASES if gate not in self.gates_met and gate not in waived)

    def without_open_work(self, then: State, at: Millis, seq: int) -> "Phases":
        """It with nothing asked; what agents of the open turn were shown counts."""
        del at
        worked = self.worked_on
        if then.work.turn is not None:
            shown = [then.memory.answered, *(run.shown for run in then.work.own_runs)]
            worked = self.worked_on_after(then, max(shown))
        return replace(
            self,
            worked_on=worked,
            waiver_asked=(),
            waiver_asked_of=PublicKey(""),
            waiver_question=None,
            waiver_untried="",
            unannounced=None,
            left_before=(),
            inspection=None,
            inspect_from=seq if self.is_looked_at else 0,
        )

    def forked(self, records: int) -> "Phases":
        """It as a fork begins with it, whose records have numbers that are smaller by so many."""
        worked_on = None if self.worked_on is None else self.worked_on - records
        return replace(
            self,
            worked_on=worked_on,
            asked_at_rest=self.asked_at_rest - records,
            inspected_at=max(0, self.inspected_at - records),
        )

    def imported(self, then: State, rest: State) -> "Phases":
        """What an import takes over of it: whether something was executed, so that its gates are open."""
        del then
        phase = rest.cycle.phase
        executed = self.executed or phase in (Phase.EXECUTE, *AFTER_WORK)
        return Phases(executed=executed and rest.cycle.status != "ended")

    def worked_on_after(self, state: State, shown: int) -> int:
        """`worked_on` once agents of the open turn were shown the messages up to `shown`."""
        turn = state.work.turn
        before = state.memory.answered if self.worked_on is None else self.worked_on
        if turn is None or turn.phase not in AFTER_WORK:
            return max(before, shown)
        previous = state.cycle.turns[-1].seq if state.cycle.turns else 0
        is_for_message = turn.phase is Phase.VERIFICATION and previous < self.asked_at_rest < turn.seq
        return max(before, self.asked_at_rest) if is_for_message else before

    @property
    def waived(self) -> frozenset[Phase]:
        """The gates a user gave up in this cycle."""
        return frozenset(phase for waiver in self.waivers for phase in waiver.phases)

    def without_waiver_question(self) -> "Phases":
        """The question about gates is over without a yes: it is not put again before a user has written."""
        return replace(
            self,
            waiver_declined=self.waiver_declined | frozenset(self.waiver_asked),
            waiver_asked=(),
            waiver_asked_of=PublicKey(""),
            waiver_question=None,
            waiver_untried="",
        )

    def without_changes(self) -> "Phases":
        """Nothing is changed in the end: there is nothing to verify."""
        return replace(self, executed=False, gates_met=frozenset())

    def with_failed_call(self, agent: Slug) -> "Phases":
        """A call of an agent has failed, or was refused."""
        return replace(self, failed_calls={**self.failed_calls, agent: self.failed_calls.get(agent, 0) + 1})

    def with_open_gates(self) -> "Phases":
        """Something was changed in execute: each gate is to be passed, again."""
        return replace(self, executed=True, gates_met=frozenset(), reflected=frozenset(), untried_asked=False)


_NEW: Final = Phases()


def phases_of(state: State) -> Phases:
    """Where a conversation is on its way through the phases; its beginning where there is nothing of it yet."""
    part = state.kinds.get(NAME)
    return part if isinstance(part, Phases) else _NEW
