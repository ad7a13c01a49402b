"""What a conversation's state is made of, and what can be read from several of its parts without a rule.

A part is one frozen value: what it keeps is in a file of its own here, and what each record does to it in the file of
the same name in `core/reducers`. All of it is bounded however long the conversation, by the numbers beside the parts,
the roster and the workspace: a snapshot is this, written down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import Final

from tenex.core.ids import ConversationId, PublicKey
from tenex.core.phases import QUALITY_PHASES, TALK_PHASES, Phase

from .cycle import Cycle
from .delivery import Delivery
from .history import History
from .identity import Identity
from .kind import KindState
from .memory import Memory
from .phases import Phases
from .router import Router
from .run import Message, Run
from .totals import Totals
from .work import Work


@dataclass(slots=True)
class State:
    """The state of a conversation: a handful of values, each replaced as a whole."""

    identity: Identity
    cycle: Cycle = field(default_factory=Cycle)
    work: Work = field(default_factory=Work)
    delivery: Delivery = field(default_factory=Delivery)
    memory: Memory = field(default_factory=Memory)
    totals: Totals = field(default_factory=Totals)
    history: History | None = field(default_factory=History, compare=False)
    """For readers; None where none is kept."""
    router: Router = field(default_factory=Router)
    phases: Phases = field(default_factory=Phases)
    kinds: Mapping[str, KindState] = field(default_factory=dict)
    """What each kind of conversation keeps, by its name."""

    @property
    def id(self) -> ConversationId:
        """Which conversation it is."""
        return self.identity.id

    @property
    def next_seq(self) -> int:
        """The seq of the next record."""
        return self.identity.next_seq

    @property
    def on_behalf_of(self) -> PublicKey:
        """The user whose message began the cycle; who wrote last where the cycle began without one.

        Not who is only said to have written: such a message has no author.
        """
        written = chain(self.cycle.messages, reversed(self.memory.recent))
        authors = (message.author for message in written if message.role is not None and message.author)
        return next(authors, self.identity.starter)

    @property
    def has_phases(self) -> bool:
        """Whether the phases limit what agents may do; else it is in `execute`, where code forbids nothing."""
        return all(kind.has_phases for kind in self.kinds.values())

    @property
    def watches_runs(self) -> bool:
        """Whether a kind watches its turns itself, so that runs have no deadlines of their own."""
        return any(kind.watches_runs for kind in self.kinds.values())

    @property
    def reads_messages(self) -> bool:
        """Whether a message is given to a kind, and to no agent that works, nor is it a wish for another agent."""
        return any(kind.reads_messages for kind in self.kinds.values())

    @property
    def location_label(self) -> str:
        """The phase; in a conversation without phases `@` and the name of what it is with."""
        labels = (kind.location_label for kind in self.kinds.values())
        return next((label for label in labels if label), str(self.cycle.phase))

    @property
    def is_talk(self) -> bool:
        """Whether it is in a phase in which nothing is made."""
        return self.has_phases and not self.has_open_kind and self.cycle.phase in TALK_PHASES

    @property
    def position(self) -> str:
        """The phase, if there are phases, and the cycle, as part of a sentence."""
        cycle = f"cycle {self.cycle.number}"
        return f"in {self.cycle.phase}, {cycle}" if self.has_phases else f"in {cycle}"

    @property
    def unmet_gates(self) -> tuple[Phase, ...]:
        """The quality gates still in the way of END, in order."""
        phases = self.phases
        if not phases.executed or not self.has_phases:
            return ()
        waived = phases.waived
        return tuple(gate for gate in QUALITY_PHASES if gate not in phases.gates_met and gate not in waived)

    @property
    def has_open_kind(self) -> bool:
        """Whether the work of a kind is open, running or paused: while it is, that decides what is next."""
        return any(kind.is_open for kind in self.kinds.values())

    @property
    def has_begun_kind(self) -> bool:
        """Whether something of a kind has begun here, over or not."""
        return any(kind.has_begun for kind in self.kinds.values())

    def failed_tries(self, run: Run | None) -> int:
        """How often the present model call of a run has failed in transport; with None that of the router."""
        if run is not None:
            return run.attempt
        question = self.router.question
        return question.tries if question is not None else 0

    @property
    def unanswered(self) -> tuple[Message, ...]:
        """A user's messages of this cycle that no agent has been shown."""
        answered = self.memory.answered
        return tuple(one for one in self.cycle.messages if one.role is not None and one.seq > answered)

    @property
    def requests(self) -> tuple[Message, ...]:
        """A user's messages of this cycle that no turn could carry out: shown to no agent, or in quality gates only.

        Answers to us are none, nor is what came before a user stopped the work.
        """
        worked_on = self.phases.worked_on
        handled = max(self.memory.answered if worked_on is None else worked_on, self.work.stopped)
        return tuple(
            one for one in self.cycle.messages if one.role is not None and one.seq > handled and not one.is_answer
        )

    def newer_than_last_turn(self) -> tuple[Message, ...]:
        """What a cycle begins with in journals whose `CycleStarted` does not name it."""
        turns = self.cycle.turns
        opened = max(turns[-1].seq if turns else 0, self.work.stopped)
        return tuple(
            one for one in self.cycle.messages if one.role is not None and one.seq > opened and not one.is_answer
        )


PARTS: Final = tuple(spec.name for spec in fields(State))
"""The names of the parts."""

parts_of: Final = attrgetter(*PARTS)
"""All parts of a state, in order."""


def worked_on(state: State, shown: int) -> int:
    """`Phases.worked_on` once agents of the open turn were shown the messages up to `shown`."""
    phases, turn = state.phases, state.work.turn
    before = state.memory.answered if phases.worked_on is None else phases.worked_on
    if turn is None or turn.phase not in QUALITY_PHASES:
        return max(before, shown)
    previous = state.cycle.turns[-1].seq if state.cycle.turns else 0
    is_for_message = turn.phase is Phase.VERIFICATION and previous < phases.asked_at_rest < turn.seq
    return max(before, phases.asked_at_rest) if is_for_message else before
