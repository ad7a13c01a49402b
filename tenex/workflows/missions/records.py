"""Records of a mission: a conversation routed by what its nodes return.

    MissionOpened ─► NodeEntered ─► StepStarted ─► StepCompleted ─► NodeCompleted ─► NodeEntered ... ─► MissionEnded

Values of the workflow (state, fields of nodes, results) are JSON, as the workflow's own types write them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenex.core.config import Replay
from tenex.core.ids import Millis, PublicKey
from tenex.core.messages import Usage
from tenex.core.record import Record

MissionOutcome = Literal["finished", "failed", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionOpened(Record):
    """A mission began, with this state; `pubkey` is the key it signs with where the conversation is its own."""

    workflow: str
    state: Mapping[str, Any]
    by: str
    pubkey: PublicKey = PublicKey("")


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionRefused(Record):
    """A user's message could not start the mission it mentioned; the next one may."""

    workflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntered(Record):
    """A node is to run; `data` are its fields, `changed` what entering changes in the state."""

    node: str
    data: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    close_at: Millis = Millis(0)
    """When its time is up; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Record):
    """A step of the node may have its effect; it is named by `step` within the visit."""

    step: str
    replay: Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(Record):
    """A step gave its result, or failed with an error of that `kind`; `changed` are fields of the state since the last.

    A step that was cut off where it may not run again failed too: its effect is unknown.
    """

    step: str
    ok: bool
    result: Any = None
    kind: str = ""
    message: str = ""
    retryable: bool = False
    needs_operator: bool = False
    changed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionUsageRecorded(Record):
    """Models that a mission's node asked have cost this, since that was last recorded; one record for each model."""

    workflow: str
    model: str
    usage: Usage

    @property
    def spender(self) -> str:
        """The mission."""
        return self.workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetryScheduled(Record):
    """The node failed with a transient error and runs again at `due`; results of its steps are kept."""

    attempt: int
    due: Millis
    kind: str
    message: str
    limit: str = ""
    """The limit of a day that keeps the node from running; then nothing failed, and `due` is the end of that day."""
    needs_operator: bool = False
    """No try succeeds before somebody has acted, as with a wrong key: it waits for `/continue`, a reload or a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetryDue(Record):
    """The node runs again from its last completed step: after a wait, or because a user resumed it."""

    by: str = ""
    """The user; empty where a wait is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompleted(Record):
    """A node returned what follows it, or failed for good (`kind` and `message`) and its error edge is taken."""

    node: str
    to: str
    changed: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionPauseRequested(Record):
    """A user wants a pause while a step runs: that step may finish, and no other begins."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionPaused(Record):
    """Nothing of the mission runs until a user resumes it."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionEnded(Record):
    """The mission is over; `result` is what its last node gave to `End`."""

    outcome: MissionOutcome
    result: Any = None
    kind: str = ""
    message: str = ""
