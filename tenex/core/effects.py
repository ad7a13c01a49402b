"""What should be running: derived from state by `pending`, never stored.

A key is the kind of work, the seq of the record that made it wanted, and a part where one record wants several
things. So a key never means two things, and a task that is already running for a key is the right one.

Never: a callable, a task or a handle.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .ids import Millis, RunId
from .ports import ExecutionContext, UnsignedEvent
from .steps import CallRequest, Entry


class Work(StrEnum):
    """The kinds of work."""

    ROUTE = "route"
    MODEL = "model"
    TOOL = "tool"
    PUBLISH = "publish"
    TIMER = "timer"


class Key(NamedTuple):
    """Identifies one piece of wanted work."""

    work: Work
    seq: int
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Ask the router."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """Ask a run's model for its next step, given everything in `entries`."""

    key: Key
    run: RunId
    system: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Run a permitted call."""

    key: Key
    run: RunId
    request: CallRequest
    context: ExecutionContext


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


Effect = Route | ModelCall | ToolCall | Publish | Timer
