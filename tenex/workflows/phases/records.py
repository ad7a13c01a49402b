"""What users decide in a conversation of the phases, and what the daemon has seen of its work."""

from dataclasses import dataclass

from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.ids import EventId, PublicKey, TurnId
from tenex.core.inbox.message import Settlement
from tenex.core.phases import Phase
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverRequested(Record):
    """Gates are to be skipped; the owner `of` is asked, or any owner where that is empty.

    `untried` is why the work could not be tried, where that is what a user is to accept; else the router wants it.
    `settled` are messages of which nothing is left to be done, the wish among them where it is all of a message.
    """

    phases: tuple[Phase, ...]
    of: PublicKey = PublicKey("")
    untried: str = ""
    settled: tuple[Settlement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverDeclined(Record):
    """A user did not clearly agree: the gates are kept. `message` is the seq of a clear no, which asks nothing else."""

    name: str
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived(Record):
    """A user waived quality gates of this cycle: by command, by agreeing to the question, or by a message alone."""

    phases: tuple[Phase, ...]
    author: PublicKey
    name: str
    quote: str
    message_id: EventId
    untried: str = ""
    """Why the work could not be tried, where a user accepted it untried."""
    unasked: bool = False
    """Whether a message was enough, which the router took for this wish: nothing was left to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproved(Record):
    """A user approved the plan of a turn, by `/approve` or by a clear yes, which is the message of seq `message`."""

    turn_id: TurnId
    author: PublicKey
    name: str
    message_id: EventId
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInspected(Record):
    """The daemon has compared the workspace with the beginning of the cycle."""

    inspection: Inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationCounted(Record):
    """A turn meets its gate now that all checks have ended: a verdict counts, or chores have broken nothing."""

    turn_id: TurnId
    gate: Phase = Phase.VERIFICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEnded(Record):
    """The daemon has run a check of the project in a view."""

    result: CheckResult
    is_earlier: bool = False
    """Whether it ran on the tree of the cycle's beginning."""
