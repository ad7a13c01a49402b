"""Records of messages that were sent, and of what relays answered."""

from dataclasses import dataclass
from typing import Final, Literal

from tenex.core.config import Role, Verbosity
from tenex.core.ids import CallId, EventId, Millis, PublicKey, RunId
from tenex.core.phases import Phase
from tenex.core.port_values import AttachedFile, Buttons, TurnCost, UnsignedEvent, Wrap
from tenex.core.record import Record

Purpose = Literal["completion", "question", "notice", "error", "announcement", "progress", "confirmation", "reminder"]
"""`announcement` and `progress` are about work under way; a `confirmation` says how a result was checked that was an
answer before; a `reminder` is of what was sent in quiet hours."""

UNDER_WAY: Final[tuple[Purpose, ...]] = ("announcement", "progress")
UNNOTIFIED: Final[tuple[Purpose, ...]] = (*UNDER_WAY, "confirmation")
"""What notifies only those who want everything."""

Ask = Literal["", "approval", "waiver"]
"""What only a user can decide: the approval of a plan, or whether gates are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent(Record):
    """An agent or the orchestrator sent a message; `events` are signed by id and wait for their relays.

    `call` is the question it asks, if any.

    `wraps` are published in place of `events` where the conversation is private; users reply to the ids of `events`.

    `others` are relays that also get the events once one of `relays` has refused one permanently. `asks` is what a user
    is to decide, by a reply to these events.
    """

    speaker: PublicKey
    name: str
    text: str
    purpose: Purpose
    phase: Phase
    phase_from: Phase | None = None
    run: RunId | None = None
    call: CallId | None = None
    tags: tuple[tuple[str, ...], ...] = ()
    events: tuple[UnsignedEvent, ...] = ()
    wraps: tuple[Wrap, ...] = ()
    relays: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    asks: Ask = ""
    is_published: bool = True
    """False where the words are for other agents and the conversation's file only: then there are no events."""
    notifies: tuple[PublicKey, ...] | None = None
    """Whom p tags may name; None for all whom its form names. A private message has other p tags."""
    silent: tuple[PublicKey, ...] = ()
    """Whom they may not name all the same."""
    missed_by: tuple[PublicKey, ...] = ()
    """Whom it would notify outside of their quiet hours, which end at `missed_until`."""
    missed_until: Millis = Millis(0)
    files: tuple[AttachedFile, ...] = ()
    """What goes with it; of files that are not encrypted `text` has the addresses, of those not sent the words."""
    buttons: Buttons | None = None
    """The answers that its event offers as buttons; None where its relay has none."""
    in_place_of: EventId | None = None
    """The event of a message that relays refused and whose words this one repeats by another key: a reply to this is
    one to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonsClosed(Record):
    """The question of the `MessageSent` `message` is over; `events` end the buttons of its event `event`.

    There are none where its relay has refused that event: then the question follows as a plain message.
    """

    message: int
    event: EventId
    speaker: PublicKey
    is_refused: bool = False
    events: tuple[UnsignedEvent, ...] = ()
    relays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReported(Record):
    """An owner is informed of what an answer of `speaker` has cost; `events` are encrypted, and wait for their relays.

    There are none where the key of the speaker is elsewhere.
    """

    speaker: PublicKey
    name: str
    cost: TurnCost
    events: tuple[UnsignedEvent, ...] = ()
    relays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Record):
    """A relay gave its final answer about one event of a `MessageSent`; the others then have until `expires_at`.

    `refused` is the event's id where the relay did not accept it; older journals do not name it. `outdated` says that
    it may have been refused for its date, and that the relay does not have it. `again` is the event with a new date,
    which is the next part of the message and goes to the relays that refused the old one so (ADR 101).
    """

    message: int
    part: int
    relay: str
    accepted: bool
    detail: str = ""
    expires_at: Millis = Millis(0)
    refused: EventId | None = None
    outdated: bool = False
    again: UnsignedEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxExpired(Record):
    """Relays that did not answer in time are no longer tried for this `MessageSent`.

    `lost` is the number of its events that no relay has accepted: of a private message, the copies that no reader has.
    """

    message: int
    relays: tuple[str, ...] = ()
    """Those that did not answer; older journals do not name them."""
    accepted: int = 0
    """How many others have accepted an event of it."""
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequested(Record):
    """A user asked by `/show` for a file of the workspace."""

    path: str
    name: str
    author: PublicKey
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShown(Record):
    """The request `request` was looked up: what came of it is in the message that follows."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbositySet(Record):
    """A user has said how much they want to be sent in this conversation; None: what the settings say."""

    person: PublicKey
    verbosity: Verbosity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHoursInterrupted(Record):
    """A user has written, or answered by a reaction, in their quiet hours or before what came in them was sent on.

    They are awake and have seen what came.
    """

    person: PublicKey
    written_at: Millis = Millis(0)
    """By their clock, but not after `at`; older journals do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHoursPostponed(Record):
    """The timer of the end came late, in the next quiet hours: what waited for these people waits until those end."""

    people: tuple[PublicKey, ...]
    until: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHoursEnded(Record):
    """The quiet hours are over in which messages came that did not notify these people."""

    people: tuple[PublicKey, ...]
