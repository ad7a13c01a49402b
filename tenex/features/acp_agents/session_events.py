"""What goes into a session with an agent of others, and what comes out of it; values alone.

`session.py` speaks the protocol. Everything here is plain data, so that what uses a session does not need the SDK.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one message of an agent: the content of a large file is in one. The `limit` of the stream that is read."""

LOGIN_NEEDED: Final = -32000
"""The protocol's error `Authentication required`."""


class Process(Protocol):
    """An agent that has been started."""

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Where it is written to."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Where it is read from; made with `limit=LINE_LIMIT`."""

    def stderr_tail(self) -> str:
        """The last lines that it has written beside the protocol, for the sentence about its end."""

    async def wait(self) -> int:
        """Its exit status, once it has ended."""

    def kill(self) -> None:
        """End it with all that it has started; harmless where it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long an agent may take, in seconds."""

    start: float = 60.0
    """For each answer until the session has begun; agents from npm need 1 to 4 s."""
    setting: float = 10.0
    """Until a mode or a model that was set can be read back."""
    silence: float = 900.0
    """Without a message of it while it works and no call is open: a model may think for minutes."""
    silence_in_call: float = 3600.0
    """The same while one of its calls is open: a build says nothing for long."""
    cancel: float = 2.0
    """Until a cancelled prompt has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """What a session is begun with."""

    cwd: str
    """Absolute, as the agent sees it."""
    mcp_servers: Sequence[Mapping[str, Any]] = ()
    """As `session/new` takes them: `{"type": "http", "name", "url", "headers"}`, or `command`, `args` and `env`."""
    mode: str = ""
    """The id of the mode that is set and read back; "" to leave the agent's own."""
    model: str = ""
    """The agent's own id of a model that is set and read back; "" where its environment says it."""
    version: str = ""
    """What `agentInfo.version` has to begin with, by whole parts: 0.10 is no beginning of 0.101."""
    session: str = ""
    """The id of the session to go on with; "" for a new one."""
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSeen:
    """A call that the agent makes by itself: all that it has said of it so far, merged by id.

    It comes when the agent begins it and after every change. The first one has all arguments that the agent has sent
    within half a second. It may have ended in its first one.
    """

    id: str
    kind: str = "other"
    """read, edit, delete, move, search, execute, think, fetch, switch_mode, other, or an unknown word."""
    title: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its `rawInput`; {"value": …} where that is no object; empty where the agent says nothing of it."""
    locations: tuple[str, ...] = ()
    """The paths that it names, those of its diffs among them."""
    status: str = "pending"
    """pending, in_progress, completed, failed."""
    output: str = ""
    """The text of its content, else its `rawOutput`; before its end some agents have a description there."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.status in ("completed", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One answer that the agent offers to its request for permission."""

    id: str
    name: str
    kind: str
    """allow_once, allow_always, reject_once, reject_always, or an unknown word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAsked:
    """The agent asks whether it may. One at a time: the next one comes once this one is answered or withdrawn."""

    id: int
    """Its number in this session."""
    call: CallSeen
    """The call that it is about: in the words of the request, and where that has none, in those of the call."""
    options: tuple[Option, ...]

    @property
    def can_be_allowed(self) -> bool:
        """Whether it offers a yes for this once; else it can only be refused."""
        return any(option.kind == "allow_once" for option in self.options)

    @property
    def is_usual(self) -> bool:
        """Whether rules may answer it: options of the protocol alone, and no change of mode, which a plan is."""
        return (
            self.can_be_allowed
            and self.call.kind != "switch_mode"
            and all(o.kind in OPTION_KINDS for o in self.options)
        )


OPTION_KINDS: Final = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionWithdrawn:
    """The agent no longer waits for the answer to a permission that was delivered and not answered."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """More of what the agent writes."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSeen:
    """The whole plan of the agent, in the place of the one before."""

    entries: tuple[tuple[str, str], ...]
    """Content and status (pending, in_progress, completed) of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSeen:
    """What the agent says it has used: its own numbers, which nothing is decided by."""

    used: int
    """Tokens in its context."""
    size: int
    """Tokens that its context can have."""
    cost: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSeen:
    """The agent has changed its mode: by itself, where no one set it."""

    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEnded:
    """The agent has answered the prompt; all of its text has been delivered before."""

    stop_reason: str
    """end_turn, max_tokens, max_turn_requests, refusal, cancelled, or an unknown word."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The agent's own numbers, by its own names; of the last request, the turn or the session, each agent otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFailed:
    """The agent has answered the prompt by an error; it lives, and may be prompted again."""

    code: int
    why: str

    @property
    def needs_login(self) -> bool:
        """Whether it answers `Authentication required`."""
        return self.code == LOGIN_NEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The process has ended, has closed its output, or was silent for too long and was killed."""

    why: str
    was_silent: bool = False


Event = (
    TextPiece
    | CallSeen
    | PermissionAsked
    | PermissionWithdrawn
    | PlanSeen
    | UsageSeen
    | ModeSeen
    | PromptEnded
    | PromptFailed
    | Died
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What `session/load` has shown of the past: to compare, never to count."""

    prompts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    calls: tuple[CallSeen, ...] = ()
    """Each once, as it was last shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a session that has begun."""

    session_id: str
    program: str
    version: str
    how: Literal["new", "resumed", "loaded"]
    mode: str = ""
    """As read back; "" where the agent has none."""
    model: str = ""
    """As the agent says; "" where it does not."""
    modes: tuple[str, ...] = ()
    """The ids of those that it offers."""
    models: tuple[str, ...] = ()
    replay: Replay = field(default_factory=Replay)
    notes: tuple[str, ...] = ()
    """What it does not do, or did not do now: a sentence each."""
