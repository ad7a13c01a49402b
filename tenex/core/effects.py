"""What should be running: derived from state by `pending`, never stored.

A key is the kind of work, the seq of the record that made it wanted, and a part where one record wants several
things. So a key never means two things, and a task that is already running for a key is the right one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from tenex.core.config import Replay
from tenex.core.ids import ConversationId, Millis, RunId
from tenex.core.messages import CallRequest, Entry
from tenex.core.port_values import ExecutionContext, FileDestination, UnsignedEvent
from tenex.core.undo.records import UndoScope


class Work(StrEnum):
    """The kinds of work."""

    ROUTE = "route"
    MODEL = "model"
    TOOL = "tool"
    PUBLISH = "publish"
    TIMER = "timer"
    NODE = "node"
    FUNCTIONS = "functions"
    UNDO = "undo"
    INSPECT = "inspect"
    CHECK = "check"
    SHOW = "show"


class Key(NamedTuple):
    """Identifies one piece of wanted work."""

    work: Work
    seq: int
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Ask the router; `is_urgent` where a user wants it tried now."""

    key: Key
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """Ask a run's model for its next step, given everything in `entries`; `is_urgent` as with `Route`."""

    key: Key
    run: RunId
    system: str
    entries: tuple[Entry, ...]
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Run a permitted call."""

    key: Key
    run: RunId
    request: CallRequest
    context: ExecutionContext
    replay: Replay
    unchanged: Mapping[str, str] | None = None
    """The digests that the files which it names must have when it begins; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Bring one event to one relay."""

    key: Key
    event: UnsignedEvent
    relay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Wait."""

    key: Key
    due: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEffect:
    """Work that a kind of conversation wants; what runs it is `ports.KindRunner`.

    While it runs, it may want another value under the same key: that is shown to it, and it goes on.
    """

    key: Key
    conversation: ConversationId

    def cannot_run(self) -> Any:
        """The signal in place of its end, in a process that cannot run it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Call the functions of operators that the decision of the first undecided signal depends on."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """List or put back what the conversation's last work changed in the workspace; the rest as in `UndoRequested`."""

    key: Key
    conversation: ConversationId
    scope: UndoScope
    to: int = 0
    paths: tuple[str, ...] = ()
    is_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Look what differs in the workspace since a cycle began, and which checks of the project apply."""

    key: Key
    conversation: ConversationId
    cycle: int
    touched: tuple[str, ...] = ()
    """What calls of the cycle have changed: of these, files that are in no checkpoint count as changed too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Run a check of the project in a view: on the workspace as it is, which `tree` names, or on an earlier tree."""

    key: Key
    conversation: ConversationId
    name: str
    tree: str
    is_earlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Read a file of the workspace for a user who wants to see it, and upload it where it is no short text."""

    key: Key
    conversation: ConversationId
    path: str
    destination: FileDestination


Effect = Route | ModelCall | ToolCall | Publish | Timer | KindEffect | Evaluate | Undo | Inspect | Check | Show


def may_start_early(effect: Effect) -> bool:
    """Whether it may start before the records that want it are durable: it changes nothing, so it can be dropped."""
    return isinstance(effect, Route | ModelCall) or (isinstance(effect, ToolCall) and effect.replay is Replay.READ)
