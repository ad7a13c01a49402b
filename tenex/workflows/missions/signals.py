"""What comes in about a mission: from its nodes, and from who drives it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenex.core.config import Replay
from tenex.core.effects import Key
from tenex.core.messages import Usage
from tenex.core.signals import KindSignal
from tenex.core.state import State

from .state import mission_of

Who = Literal["world", "author", "operator"]
"""Whose a failure of a node is: the world's, of the author of the node, or of the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionRequested(KindSignal):
    """Someone wants a mission to begin at a node, with this state; both are JSON as the workflow writes it."""

    workflow: str
    node: str
    data: Mapping[str, Any]
    state: Mapping[str, Any]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequested(KindSignal):
    """A running node wants a step to have its effect."""

    node: Key
    step: str
    replay: Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(KindSignal):
    """A step of a running node ended; `state` is the whole state after it."""

    node: Key
    step: str
    ok: bool
    result: Any = None
    kind: str = ""
    message: str = ""
    may_pass: bool = False
    needs_operator: bool = False
    """No try succeeds before somebody has acted."""
    state: Mapping[str, Any]
    spent: Mapping[str, Usage] = field(default_factory=dict)
    """What models that the node asked have cost meanwhile, by model."""

    def if_late(self, state: State) -> "NodeInterrupted | None":
        """What it has spent, where the node's run is not wanted any more."""
        return late_cost(state, self.node, self.spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReturned(KindSignal):
    """A node returned the node that follows it, or `END` with its result."""

    key: Key
    to: str
    data: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    state: Mapping[str, Any]
    spent: Mapping[str, Usage] = field(default_factory=dict)

    def if_late(self, state: State) -> "NodeInterrupted | None":
        """What it has spent, where the node's run is not wanted any more."""
        return late_cost(state, self.key, self.spent)

    def without_result(self, why: str) -> "NodeFailed":
        """The same end, as a failure."""
        return NodeFailed(key=self.key, who="operator", kind="internal", message=why, spent=self.spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(KindSignal):
    """A node ended without an answer.

    `who` can fix it: no one need ("world": it may pass), the author of the node ("author"), or the
    operator ("operator": the workflow is not what it was when this began).
    """

    key: Key
    who: Who
    kind: str
    message: str
    retry_after: int | None = None
    """ms, where someone asked for it."""
    needs_operator: bool = False
    """No try succeeds before somebody has acted, as with a wrong key."""
    spent: Mapping[str, Usage] = field(default_factory=dict)

    def if_late(self, state: State) -> "NodeInterrupted | None":
        """What it has spent, where the node's run is not wanted any more."""
        return late_cost(state, self.key, self.spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInterrupted(KindSignal):
    """A node's task has ended without an answer that is wanted. What it had spent was spent all the same."""

    spent: Mapping[str, Usage]
    """What models that the node asked have cost since that was last reported, by model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested(KindSignal):
    """Someone wants the mission to pause; where a node itself does, `node` is its key and `step` names the place."""

    by: str
    reason: str
    node: Key | None = None
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueRequested(KindSignal):
    """Someone lets a mission go on that is paused or waits."""

    by: str


def late_cost(state: State, key: Key, spent: Mapping[str, Usage]) -> NodeInterrupted | None:
    """The signal of what a node has spent whose run is not wanted any more; None for nothing."""
    mission = mission_of(state)
    is_late = key.seq != (mission.wants if mission is not None else None)
    return NodeInterrupted(spent=spent) if spent and is_late else None
