"""What a conversation's state is made of, and what can be read from several of its parts without a rule.

A part is one frozen value in a folder of its name: `state.py` is what it keeps, `reducers.py` what each record does to
it. All of it is bounded however long the conversation, by the numbers beside the parts, the roster and the workspace: a
snapshot is this, written down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import ClassVar, Final, Protocol, Self

from tenex.core import records as r
from tenex.core.approvals.state import Approvals
from tenex.core.cycle.state import Cycle
from tenex.core.delivery.state import Delivery
from tenex.core.history.state import History
from tenex.core.identity.state import Identity
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.inbox.message import Message
from tenex.core.memory.state import Memory
from tenex.core.phases import TALK_PHASES, Phase
from tenex.core.router.state import Router
from tenex.core.totals.state import Totals
from tenex.core.work.run import Run
from tenex.core.work.state import Work


class Waiver(Protocol):
    """Quality gates that a user gave up, as readers are shown them."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The gates."""

    @property
    def name(self) -> str:
        """Who gave them up."""

    @property
    def quote(self) -> str:
        """The words in which they did."""

    @property
    def untried(self) -> str:
        """Why the work could not be tried, where that was accepted."""

    @property
    def message_id(self) -> EventId:
        """The message with the words."""

    @property
    def at(self) -> Millis:
        """When."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """The part of a kind of conversation, in `State.kinds` under its name, and what the kernel asks of it.

    What each record does to it is said by its reducers. The defaults are those of a kind that changes nothing.
    """

    has_phases: ClassVar[bool] = True
    """Whether the phases limit what agents may do; else a conversation with this part is in `execute`."""
    watches_runs: ClassVar[bool] = False
    """Whether it watches its turns itself, so that runs have no deadlines of their own."""
    reads_messages: ClassVar[bool] = False
    """Whether a message is given to the kind, and to no agent that works, nor is it a wish for another agent."""
    is_endless: ClassVar[bool] = False
    """Whether its cycle has no end, so that limits of a cycle count from each message."""

    @property
    def is_open(self) -> bool:
        """Whether the kind's own work decides what is next, and not the router."""
        return False

    @property
    def has_begun(self) -> bool:
        """Whether something of the kind has begun here, over or not, which a message cannot begin again."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether what it was for has ended, so that the conversation has."""
        return False

    @property
    def refused_name(self) -> str:
        """What the last message could not begin yet, and the next one may; "" for nothing."""
        return ""

    @property
    def refused_noun(self) -> str:
        """What that is, as a noun."""
        return "conversation"

    @property
    def only_agent(self) -> Slug:
        """The agent that answers alone; "" for none."""
        return Slug("")

    @property
    def location_label(self) -> str:
        """Where the conversation is, for lists; "" for the phase."""
        return ""

    @property
    def asks_user(self) -> bool:
        """Whether a user is asked to decide something: their answer has to be dated after the question."""
        return False

    @property
    def question_events(self) -> tuple[EventId, ...]:
        """The messages by which a user is asked to decide something now."""
        return ()

    @property
    def last_transition(self) -> r.PhaseTransition | r.HandedOff | None:
        """How the work came to where it is, for the agents who are next."""
        return None

    @property
    def unannounced_phases(self) -> tuple[Phase, ...]:
        """The phases that were left, in order, as long as no message has shown it."""
        return ()

    @property
    def open_gates(self) -> tuple[Phase, ...]:
        """The quality gates still in the way of END, in order."""
        return ()

    @property
    def waivers(self) -> "tuple[Waiver, ...]":
        """What users gave up in the open cycle."""
        return ()

    @property
    def worked_on(self) -> int | None:
        """The seq of the newest message that agents who could carry it out were shown; None: `Memory.answered`."""
        return None

    def without_open_work(self, then: "State", at: Millis, seq: int) -> Self:
        """It as one to go on from after record `seq`, with nothing open; `then` is the whole state it is part of."""
        del then, at, seq
        return self

    def imported(self, then: "State", rest: "State") -> Self | None:
        """What an import takes over of it, None for nothing; `rest` is what it takes over of the kernel's parts."""
        del then, rest
        return None

    def forked(self, records: int) -> Self:
        """It as a fork begins with it, whose records have numbers that are smaller by so many."""
        del records
        return self


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
    approvals: Approvals = field(default_factory=Approvals)
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
        """The phase; in a conversation without phases `@` and the name of what it is with.

        What a mention has begun comes before the agent that answers alone where nothing has.
        """
        begun_first = sorted(self.kinds.values(), key=lambda kind: not kind.has_begun)
        labels = (kind.location_label for kind in begun_first)
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
        if not self.has_phases:
            return ()
        return next((kind.open_gates for kind in self.kinds.values() if kind.open_gates), ())

    @property
    def worked_on(self) -> int:
        """The seq of the newest message that agents who could carry it out were shown before their run ended."""
        marks = (kind.worked_on for kind in self.kinds.values())
        return next((mark for mark in marks if mark is not None), self.memory.answered)

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
        return tuple(message for message in self.cycle.messages if message.role is not None and message.seq > answered)

    @property
    def requests(self) -> tuple[Message, ...]:
        """A user's messages of this cycle that no turn could carry out: shown to no agent, or in quality gates only.

        Answers to us are none, nor what the router has settled, nor what came before a user stopped the work.
        """
        return self._unsettled_after(max(self.worked_on, self.work.stopped))

    def newer_than_last_turn(self) -> tuple[Message, ...]:
        """What a cycle begins with in journals whose `CycleStarted` does not name it."""
        turns = self.cycle.turns
        opened = turns[-1].seq if turns else 0
        return self._unsettled_after(max(opened, self.work.stopped))

    def _unsettled_after(self, seq: int) -> tuple[Message, ...]:
        newer = (message for message in self.cycle.messages if message.role is not None and message.seq > seq)
        return tuple(message for message in newer if not message.is_settled)


PARTS: Final = tuple(spec.name for spec in fields(State))
"""The names of the parts."""

parts_of: Final = attrgetter(*PARTS)
"""All parts of a state, in order."""
