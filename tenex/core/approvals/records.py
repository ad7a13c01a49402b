"""Records of calls that a person is asked about. `tenex.core.records` has them too; import them from there."""

from dataclasses import dataclass

from tenex.core.ids import CallId, EventId, Millis, PublicKey, RunId
from tenex.core.record import Record

from .state import AskedCall, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Record):
    """Calls of a run wait for a person; the run is parked. What is unattended is answered in the same append."""

    run: RunId
    calls: tuple[AskedCall, ...]
    expires_at: Millis
    remind_at: Millis = Millis(0)
    """When the message is sent once more if there is no answer; 0 for never."""
    needs_word: bool = False
    """Only a written yes counts: the message does not show all of what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered(Record):
    """These calls of the request `request` have their answer, the first that came.

    The run's deadlines move by the time it was parked. `by` is "" for the operator at the machine, and where no one has
    answered.
    """

    request: int
    run: RunId
    calls: tuple[CallId, ...]
    outcome: Outcome
    by: PublicKey = PublicKey("")
    name: str = ""
    event_id: EventId | None = None
    """The message or the reaction that answered."""
    reason: str = ""
    """What the person said with their no, for the agent."""
    remember: bool = False
    """Whether the like of these calls is allowed from now on."""
    is_for_server: bool = False
    """Whether that is everything which the servers of these calls offer."""
    until: Millis = Millis(0)
    """Until when; 0 for as long as the conversation."""
    warn_at: Millis = Millis(0)
    close_at: Millis = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalWithdrawn(Record):
    """A person has deleted what they had answered: what it allows beyond its calls ends.

    `calls` had not begun: their yes counts no more, so they are asked about again.
    """

    request: int
    run: RunId
    event_id: EventId
    """Of what is deleted."""
    calls: tuple[CallId, ...]
    by: PublicKey
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsRevoked(Record):
    """Permissions of this conversation hold no more."""

    numbers: tuple[int, ...]
    by: PublicKey
    name: str
