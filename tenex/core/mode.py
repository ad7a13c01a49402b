"""The port of the kinds of conversation: what the kernel asks the kind that a conversation is of, and their registry.

A kind is a folder of `tenex.workflows`; `tenex.workflows` registers all of them. What a kind keeps is part of `State`
and changes by records, so folding and `pending` need no kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tenex.core.config import Agent, Policy
from tenex.core.conversation import Conversation
from tenex.core.decide.transaction import Transaction
from tenex.core.decider import Decider
from tenex.core.effects import Key
from tenex.core.errors import InternalError
from tenex.core.ids import Slug
from tenex.core.messages import Note, ToolSpec
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.records.run import Outcome, WorkVerdict
from tenex.core.signals import MessageReceived, Signal
from tenex.core.state.conversation import State
from tenex.core.state.run import Call, Message, OrchestratorTurn, Run


@dataclass(frozen=True, slots=True)
class Unproved:
    """Why a verdict `verified` does not count: for the model, and as the reason of the `untried` in its place."""

    refusal: str
    reason: str = ""


class Mode:
    """A kind of conversation. The defaults are those of one agent that works without rules of a kind.

    `begins`, `on_signal` and `on_timer` are asked of every kind in the order of registration, the others of the first
    that owns the conversation.
    """

    has_run_deadlines = True
    """Whether `Limits.expectations` bound each run; else the kind watches its turns itself."""
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

    def begin_cycle(self, draft: Transaction, reason: str, decider: Decider) -> None:
        """Begin the first cycle, or the one that a message after the end begins; without phases it is in `execute`."""
        draft.begin_cycle(reason, Phase.EXECUTE, decided_by=decider)

    def on_message(self, draft: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Record a user's message and what follows; `called` is the workflow it mentions, "" for none."""
        raise NotImplementedError

    def next(self, draft: Transaction) -> None:
        """Decide what follows now that nothing is under way: open a turn, ask the router, wait or end."""

    def on_turn_closed(self, draft: Transaction, run: Run, outcome: Outcome, text: str, *, completed: bool) -> None:
        """Decide what follows from a turn whose last run has just ended; `next` is called afterwards."""

    def router_question(self, conversation: Conversation, policy: Policy, budget: int, lessons: Sequence[str]) -> Note:
        """The question that the kind's router is asked, in `budget` estimated tokens, with its lessons of elsewhere."""
        raise NotImplementedError

    def gate_met(self, draft: Transaction, turn: OrchestratorTurn) -> Phase | None:
        """The quality gate that a turn meets by closing."""
        return None

    def is_published(self, state: State, run: Run, outcome: Outcome, verdict: WorkVerdict) -> bool:
        """Whether users get an agent's last words as a message."""
        return True

    def why_unproved(self, draft: Transaction, agent: Agent) -> Unproved | None:
        """Why the verdict `verified` of an agent does not count; None where it does."""
        return None

    def what_follows(self, draft: Transaction, run: Run, verdict: WorkVerdict) -> str:
        """What is done next by rule, for users at the end of a run's words; "" where nothing has to be said."""
        return ""

    def approval_question(self, draft: Transaction, run: Run) -> str:
        """The question for a user's approval at the end of what a run presents; "" where none is needed."""
        return ""

    # ---- a run's steps ----

    def tool_specs(self, state: State, run: Run, policy: Policy) -> tuple[ToolSpec, ...]:
        """The tools the kind itself offers to a run, in a stable order."""
        return ()

    def withheld(self, run: Run) -> frozenset[str]:
        """Those of `tool_specs` that are refused now: they are offered so that an agent's list is always the same."""
        return frozenset()

    def own_call(self, draft: Transaction, run: Run, call: Call) -> bool:
        """Decide a call of one of the kind's own tools, with its result; False for any other call."""
        return False

    def checked_result(self, draft: Transaction, run: Run, result: ToolResult) -> ToolResult:
        """A tool's result without what it may not ask of this conversation; the content names what was dropped."""
        if result.route is None and not result.context and not result.removed:
            return result
        content = f"{result.content}\nThis is no turn of a workflow: no handoff, end or variable of it counts."
        return replace(result, content=content, route=None, context={}, removed=())

    def text_of_calls(self, draft: Transaction, run: Run) -> str:
        """What a run that ends without text has expressed by its calls."""
        return ""

    # ---- signals ----

    def on_signal(self, draft: Transaction, signal: Signal) -> bool:
        """Handle a signal that the kernel does not; whether it was this kind's."""
        return False

    def on_timer(self, draft: Transaction, key: Key) -> bool:
        """Handle a timer that is pending; whether it was this kind's."""
        return False

    def on_opened(self, draft: Transaction) -> None:
        """Handle that another process has opened the conversation."""

    def retry_on_hold(self, draft: Transaction) -> None:
        """Try work of the kind again that a daily limit holds back."""

    # ---- commands and messages ----

    def command(self, draft: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute a user's command in the kind's way; False leaves it to the kernel."""
        return False

    def on_stop(self, draft: Transaction, name: str) -> str:
        """Stop what the kind itself runs, and return what that was; the runs have ended."""
        return ""

    def status(self, draft: Transaction) -> list[str]:
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
        return ("phase", "") if state.has_phases else ("conversation", state.identity.agent)

    def notes(self, state: State, run: Run, room: int) -> Iterator[Note]:
        """Notes on the kind's state for a run that begins, in that many bytes."""
        yield from ()

    def visible(self, state: State, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the messages that a run may be shown, oldest first."""
        return messages


_MODES: Final[list[Mode]] = []


def register(*modes: Mode) -> None:
    """Make kinds of conversation known, the one that owns all the rest last."""
    _MODES.extend(modes)


def all_modes() -> Sequence[Mode]:
    """The kinds in the order of registration.

    Raises:
        InternalError: none is registered.
    """
    if not _MODES:
        raise InternalError("no kind of conversation is registered: import tenex.workflows first")
    return _MODES


def mode_of(state: State) -> Mode:
    """The kind that a conversation is of now."""
    return next(mode for mode in all_modes() if mode.owns(state))


def can_begin(draft: Transaction, slug: Slug) -> bool:
    """Whether a first message that mentions this name begins a workflow."""
    return any(mode.begins(draft.rules, slug) for mode in all_modes())


def unbegun(draft: Transaction) -> Slug:
    """The workflow that the next message may begin, since the last message could not; "" for none."""
    slug = Slug(draft.state.refused)
    return slug if slug and can_begin(draft, slug) else Slug("")
