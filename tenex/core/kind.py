"""The port of the kinds of conversation: what the kernel asks the kind that a conversation is of, and their registry.

A kind is a folder of `tenex.workflows`; `tenex.workflows` registers all of them. It has a part of the state
(`core/kind_format.py`) with reducers, records of its own, and the answers below. The kernel knows none by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from tenex.core.config import Agent, Policy
from tenex.core.conversation import Conversation, register_reducers
from tenex.core.effects import Effect, Key
from tenex.core.errors import InternalError
from tenex.core.ids import ConversationId, Slug
from tenex.core.inbox.claim import Claim
from tenex.core.inbox.command import SlashCommand
from tenex.core.inbox.message import Message
from tenex.core.kind_format import KindShare, register_format
from tenex.core.messages import Note, ToolSpec
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.record import Record
from tenex.core.reducers import Reducers
from tenex.core.signals import MessageReceived, Signal
from tenex.core.state import KindState, State
from tenex.core.text.lines import Place, Row
from tenex.core.transaction import Transaction
from tenex.core.work.records import Outcome, WorkVerdict
from tenex.core.work.run import Call, Run, Wait
from tenex.core.work.turn import OrchestratorTurn


@dataclass(frozen=True, slots=True)
class Unproved:
    """Why a verdict `verified` does not count: for the model, and as the reason of the `untried` in its place."""

    refusal: str
    reason: str


class Kind:
    """A kind of conversation. The defaults are those of one agent that works without rules of a kind.

    `begins`, `on_signal` and `on_timer` are asked of every kind in the order of registration, the others of the first
    that owns the conversation.
    """

    name: ClassVar[str] = ""
    """Of its part in `State.kinds`, and before the types of its records in a journal."""
    state: ClassVar[type[KindState] | None] = None
    """The class of its part; None for a kind that keeps nothing."""
    records: ClassVar[tuple[type[Record], ...]] = ()
    """The classes of its own records."""
    reducers: ClassVar[Reducers[Any] | None] = None
    """What each record does to its part."""

    commands: ClassVar[tuple[SlashCommand, ...]] = ()
    """Its own commands."""
    claims: ClassVar[tuple[Claim[Any], ...]] = ()
    """Its own claims on what users send (`core/inbox/claims.py`), before the questions of agents."""

    waits_when_idle = True
    """Whether a user is waited for after a command that starts nothing; else the kind goes on by itself."""
    asks_at_limits = True
    """Whether a user is asked where a run has reached a limit of cost; else the run fails like any other."""

    def owns(self, state: State) -> bool:
        """Whether a conversation is of this kind now."""
        return False

    def begins(self, policy: Policy, slug: Slug) -> bool:
        """Whether a first message that mentions this name begins a conversation of this kind."""
        return False

    def begin_cycle(self, transaction: Transaction, reason: str, decider: Decider) -> None:
        """Begin the first cycle, or the one that a message after the end begins; without phases it is in `execute`."""
        transaction.begin_cycle(reason, Phase.EXECUTE, decided_by=decider)

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Record a user's message and what follows; `called` is the name by which it begins the kind, "" for none."""
        raise NotImplementedError

    def next(self, transaction: Transaction) -> None:
        """Decide what follows now that nothing is under way: open a turn, ask the router, wait or end."""

    def on_turn_closed(
        self, transaction: Transaction, run: Run, outcome: Outcome, text: str, *, completed: bool
    ) -> None:
        """Decide what follows from a turn whose last run has just ended; `next` is called afterwards."""

    def router_question(self, conversation: Conversation, policy: Policy, budget: int, lessons: Sequence[str]) -> Note:
        """The question that the kind's router is asked, in `budget` estimated tokens, with its lessons of elsewhere."""
        raise NotImplementedError

    def forget(self, conversation: ConversationId) -> None:
        """Drop what is kept of a conversation to save work: it has left memory."""

    def router_choices(self, conversation: Conversation, policy: Policy) -> tuple[Sequence[str], Sequence[str]]:
        """The agents and the phases that the kind's router may choose now."""
        raise NotImplementedError

    def gate_met(self, transaction: Transaction, turn: OrchestratorTurn) -> Phase | None:
        """The quality gate that a turn meets by closing."""
        return None

    def is_inspected_after(self, state: State, turn: OrchestratorTurn) -> bool:
        """Whether the daemon looks at the workspace once a turn is over."""
        return False

    def is_published(self, state: State, run: Run, outcome: Outcome, verdict: WorkVerdict) -> bool:
        """Whether users get an agent's last words as a message."""
        return True

    def why_unproved(self, transaction: Transaction, agent: Agent) -> Unproved | None:
        """Why the verdict `verified` of an agent does not count; None where it does."""
        return None

    def what_is_missing(self, state: State, run: Run) -> str:
        """What a model is asked for once, before its run ends with what it says; "" for nothing."""
        return ""

    def what_follows(self, transaction: Transaction, run: Run, verdict: WorkVerdict) -> str:
        """What is done next by rule, for users at the end of a run's words; "" where nothing has to be said."""
        return ""

    def approval_question(self, transaction: Transaction, run: Run) -> str:
        """The question for a user's approval at the end of what a run presents; "" where none is needed."""
        return ""

    def why_uncounted(self, transaction: Transaction, signal: MessageReceived) -> str:
        """Why its author may not answer the question of the kind that a message replies to; "" where they may."""
        return ""

    # ---- a run's steps ----

    def tool_specs(self, state: State, run: Run, policy: Policy) -> tuple[ToolSpec, ...]:
        """The tools the kind itself offers to a run, in a stable order."""
        return ()

    def withheld(self, run: Run) -> frozenset[str]:
        """Those of `tool_specs` that are refused now: they are offered so that an agent's list is always the same."""
        return frozenset()

    def own_call(self, transaction: Transaction, run: Run, call: Call) -> bool:
        """Decide a call of one of the kind's own tools, with its result; False for any other call."""
        return False

    def checked_result(self, transaction: Transaction, run: Run, result: ToolResult) -> ToolResult:
        """A tool's result without what it may not ask of this conversation; the content names what was dropped."""
        if result.route is None and not result.context and not result.removed:
            return result
        content = f"{result.content}\nThis is no turn of a workflow: no handoff, end or variable of it counts."
        return replace(result, content=content, route=None, context={}, removed=())

    def text_of_calls(self, transaction: Transaction, run: Run) -> str:
        """What a run that ends without text has expressed by its calls."""
        return ""

    # ---- signals ----

    def on_signal(self, transaction: Transaction, signal: Signal) -> bool:
        """Handle a signal that the kernel does not; whether it was this kind's."""
        return False

    def on_timer(self, transaction: Transaction, key: Key) -> bool:
        """Handle a timer that is pending; whether it was this kind's."""
        return False

    def on_opened(self, transaction: Transaction) -> None:
        """Handle that another process has opened the conversation."""

    def effects(self, state: State) -> Iterator[Effect]:
        """The work that the kind's own part wants now, in a stable order."""
        yield from ()

    def waits(self, state: State) -> Iterator[Wait]:
        """The waits for another try of the kind's own work."""
        yield from ()

    def held_timers(self, state: State) -> Iterator[Key]:
        """The timers of those waits that a user, an operator or another day may end at once."""
        yield from ()

    def is_between(self, state: State) -> bool:
        """Whether the last record is one half of a step: no one can go back to the moment between."""
        return False

    def continues(self, state: State, record: Record) -> bool:
        """Whether a record belongs to the one before it, so that no one can go back to the moment between."""
        return False

    def retry_on_hold(self, transaction: Transaction) -> None:
        """Try work of the kind again that a daily limit holds back."""

    # ---- what users are shown of it ----

    def share(self, state: State) -> KindShare | None:
        """What the kind adds to the facts of a conversation; None for nothing."""
        return None

    def place(self, state: State) -> Place:
        """What the kind's lines in a transcript show of where the conversation is."""
        return {}

    def rows(self, record: Record, place: Place) -> Iterator[Row]:
        """The lines in a transcript of a record of the kind's own, which may change the place."""
        yield from ()

    def conditions(self, state: State) -> Iterator[str]:
        """What the work of the kind does: where that is `held` or `limited`, the conversation is."""
        yield from ()

    def counts(self, record: Record) -> Mapping[str, int]:
        """What a record adds to the kind's own sums, by name; every sum it may change is named, also with 0."""
        return {}

    def counts_in_words(self, counts: Mapping[str, int]) -> str:
        """These sums in a line; asked only where a record has added to them."""
        return ", ".join(f"{name}: {number}" for name, number in counts.items())

    # ---- commands and messages ----

    def command(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute one of its own commands, or `/new`, `/retry` and `/continue` in its way; whether it did."""
        return False

    def on_stop(self, transaction: Transaction, name: str) -> str:
        """Stop what the kind itself runs, and return what that was; the runs have ended."""
        return ""

    def status(self, transaction: Transaction) -> list[str]:
        """The lines of `/status` on where the conversation is and what it does."""
        raise NotImplementedError

    def position(self, state: State) -> str:
        """Where the conversation is, as part of a sentence."""
        last = state.memory.last_turn
        return state.position + (f", after {last.turn_id} ({', '.join(last.agents)})" if last is not None else "")

    def sender(self, state: State) -> Agent | None:
        """Who sends the conversation's own messages; None: the project."""
        return None

    # ---- what a run is shown ----

    def guide(self, state: State, run: Run) -> tuple[str, str]:
        """The fragment of the system prompt on where the run works, and the name that the fragment shows."""
        return "phase", ""

    def notes(self, state: State, run: Run, room: int) -> Iterator[Note]:
        """Notes on the kind's state for a run that begins, in that many bytes."""
        yield from ()

    def visible(self, state: State, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the messages that a run may be shown, oldest first."""
        return messages


_KINDS: Final[list[Kind]] = []


def register(*kinds: Kind) -> None:
    """Make kinds of conversation known: at first with the one that owns all the rest as the last, later before it."""
    _KINDS[-1:-1] = kinds
    for kind in kinds:
        register_format(kind.name, kind.state, kind.records)
        if kind.reducers is not None:
            register_reducers(kind.reducers)


def all_kinds() -> Sequence[Kind]:
    """The kinds in the order of registration.

    Raises:
        InternalError: none is registered.
    """
    if not _KINDS:
        raise InternalError("no kind of conversation is registered: import tenex.workflows first")
    return _KINDS


def kind_of_conversation(state: State) -> Kind:
    """The kind that a conversation is of now."""
    for kind in all_kinds():  # a loop: it is asked a dozen times in a turn
        if kind.owns(state):
            return kind
    raise InternalError("no kind of conversation owns this one")


def has_own_work(state: State) -> bool:
    """Whether a kind has work of its own under way, beside runs and the router."""
    return any(next(kind.effects(state), None) is not None for kind in all_kinds())


def held_timers(state: State) -> Iterator[Key]:
    """The timers of the work of kinds that is held or limited: to have them fire is to try again at once."""
    for kind in all_kinds():
        yield from kind.held_timers(state)


def can_begin(transaction: Transaction, slug: Slug) -> bool:
    """Whether a first message that mentions this name begins a conversation of a kind."""
    return any(kind.begins(transaction.policy, slug) for kind in all_kinds())


def what_is_refused(transaction: Transaction) -> str:
    """What the kind calls that which could not begin."""
    return next((kind.refused_noun for kind in transaction.state.kinds.values() if kind.refused_name), "conversation")


def refused_name(transaction: Transaction) -> Slug:
    """What the next message may begin, since the last message could not; "" for nothing."""
    names = (Slug(kind.refused_name) for kind in transaction.state.kinds.values())
    return next((name for name in names if name and can_begin(transaction, name)), Slug(""))
