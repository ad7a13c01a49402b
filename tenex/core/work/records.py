"""Records of one agent's part in a turn, from its first prompt to its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenex.core.config import Replay
from tenex.core.ids import CallId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import NO_USAGE, ModelStep, StartEntry, Usage
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.port_values import AttachedFile, Handoff
from tenex.core.record import Record
from tenex.core.router.answer import RoutingDecision
from tenex.core.work.routes import Route

Outcome = Literal["finished", "failed", "timed_out", "stopped", "over_limit"]
Fulfilment = Literal["met", "not met", "cannot be met here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a verifier says of one thing that was asked for: a claim."""

    what: str
    result: Fulfilment
    how: str = ""
    """How it knows."""


WorkVerdict = Literal["", "verified", "issues", "untried"]
"""What a verifier says of the work; `untried`: it could not be tried, and meets no gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Record):
    """An agent started: one of the turn, or a sub-agent that another called.

    `system` is in the first record with this digest since it was last forgotten.
    """

    run: RunId
    agent: Slug
    agent_name: str
    pubkey: PublicKey
    warn_at: Millis
    close_at: Millis
    digest: str = ""
    system: str | None = None
    forgets: tuple[str, ...] = ()
    """Digests whose prompts are forgotten with this: state is bounded, and the next record that needs one holds it."""
    entries: tuple[StartEntry, ...] = ()
    parent: RunId | None = None
    """The run that called it, by its call `call`; None for an agent of the turn."""
    call: CallId | None = None
    is_shared: bool = False
    """Whether a sub-agent continues with its agent's state instead of starting afresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarned(Record):
    """A run takes longer than expected; the user was notified."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponded(Record):
    """A run's model answered: text, thinking, calls, usage and opaque data of the vendor, all in `step`."""

    run: RunId
    step: ModelStep
    files: tuple[Mapping[str, str], ...] = ()
    """Of calls that a person may be asked about: the files of the workspace that each names, with their digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReprompted(Record):
    """A run's model is asked again, with what its last answer is missing.

    `usage`, `model` and `queued` (ms, against no deadline) are of an answer that is no step.
    """

    run: RunId
    text: str
    usage: Usage = NO_USAGE
    model: str = ""
    queued: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(Record):
    """The gate permitted a call, which is about to run: the intent.

    If the process ends before the result, `replay` decides in `dispatch._on_restart` whether the call runs again.
    """

    run: RunId
    call: CallId
    tool: str
    replay: Replay
    phase: Phase
    unchanged: Mapping[str, str] | None = None
    """The digests that the files which it names must have when it begins, as a person has allowed it for these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutdated(Record):
    """A call that a person had allowed has not begun: files that it names are others now."""

    run: RunId
    call: CallId
    files: Mapping[str, str]
    """Those that it names, with their digests now."""
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRejected(Record):
    """The gate refused a call; the sentence is its result."""

    run: RunId
    call: CallId
    tool: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(Record):
    """A call ended. `read` are paths with the sha256 of what was seen; `reverted` were written and not kept."""

    run: RunId
    call: CallId
    tool: str
    ok: bool
    content: str
    read: Mapping[str, str] = field(default_factory=dict)
    touched: tuple[str, ...] = ()
    lesson: str = ""
    reverted: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the agent's own state that the call changed."""
    route: Route | None = None
    """What the result asks for, where rules choose who works next."""
    exit_status: int | None = None
    """The exit status of the program that the call ran; None where it ran none, and in older journals."""
    has_outside_effect: bool = False
    """Whether it may have changed something that `touched` does not name."""
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of changed files: the lines added and removed since the cycle began; (0, 0) also where that is not known."""
    unchanged: tuple[str, ...] = ()
    """Those of `touched` that are known to be as they were when the cycle began; none in older journals."""
    background: Mapping[str, str] | None = None
    """As in `ToolResult`."""
    files: tuple[AttachedFile, ...] = ()
    """As in `ToolResult`."""
    is_broken_off: bool = False
    """Whether it was closed without a result of its tool, as by a stop or a kill; False in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallQueued(Record):
    """The sub-agent of a call is busy with another: the call waits, and no deadline counts that time."""

    run: RunId
    call: CallId


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(Record):
    """A run asked the user a question and is parked until it is answered.

    `of` is who was asked. Older journals do not name them: there it is the user whose message began the cycle.
    """

    run: RunId
    call: CallId
    question: str
    of: PublicKey = PublicKey("")
    form: Mapping[str, Any] = field(default_factory=dict)
    """What a tool asks, as `core.forms` stores it: an answer is held to it when it comes. Empty for `ask`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered(Record):
    """The question was answered by the message `message`; the run's deadlines are moved by the time it was parked."""

    run: RunId
    call: CallId
    text: str
    name: str
    message: int
    """The seq of the `MessageRecorded`."""
    warn_at: Millis
    close_at: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCorrected(Record):
    """Who had answered the question of a tool answered it again, before the tool was called with the first answer."""

    run: RunId
    call: CallId
    text: str
    name: str
    message: int
    """The seq of the `MessageRecorded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Record):
    """A model call failed in transport and is tried again when due; `run` None means the router's.

    `on_hold`: after the last retry, or because the server asks for a long wait; the user is notified.
    `queued` are the ms the call waited for its turn, which count against no deadline.
    """

    run: RunId | None
    attempt: int
    due: Millis
    message: str
    on_hold: bool = False
    usage: Usage = NO_USAGE
    model: str = ""
    queued: int = 0
    limit: str = ""
    """The limit of a day that keeps the call from being made; then no call failed, and `due` is the end of that day."""
    needs_operator: bool = False
    """No try succeeds before somebody has acted, as with a wrong key: it waits for `/continue` or a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallCancelled(Record):
    """A model call was cancelled, or ended when its answer was no longer wanted; `run` None means the router's.

    `usage` is what it cost until then; what the server did not report is estimated. The run may be over.
    """

    run: RunId | None
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDue(Record):
    """The wait is over, or `by` wants a retry now; for the router `warn_at` is as in `RouteRequested`."""

    run: RunId | None
    by: str = ""
    warn_at: Millis = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Record):
    """A run is over, counted once; `usage` and `model` are of a last call without an answer.

    Where another agent called it, it is no part of the turn: its outcome is the result of the call.
    """

    run: RunId
    outcome: Outcome
    text: str = ""
    summary: str = ""
    verdict: WorkVerdict = ""
    error: str = ""
    usage: Usage = NO_USAGE
    model: str = ""
    hand_over: RoutingDecision | None = None
    """Where its agent wants the work to go on; it was permitted when the run ended."""
    untried: str = ""
    findings: tuple[Finding, ...] = ()
    """What a verifier says of each thing that was asked for."""
    """Why the work could not be tried, with that verdict."""
    completed: bool = False
    """Whether its agent called `complete`; else it only stopped to call tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpened(Record):
    """Agents started to work, concurrently.

    `gates_by_effect`: the gates open when a turn in execute changes something. In older journals it opens them itself.
    """

    turn_id: TurnId
    phase: Phase
    agents: tuple[Slug, ...]
    reason: str
    handoff: Handoff | None = None
    gates_by_effect: bool = False
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnClosed(Record):
    """Every agent of the turn is done; `summary` joins their completions, `gate` is the quality gate this met."""

    turn_id: TurnId
    summary: str
    gate: Phase | None = None
    is_inspected: bool = False
    """Whether the daemon looks at the workspace now."""
