"""What waits to be sent: the outbox, what relays refused, and which message ours are replies to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.config import Verbosity
from tenex.core.ids import CallId, EventId, Millis, PublicKey, RunId
from tenex.core.phases import Phase
from tenex.core.port_values import AttachedFile, FileDestination, UnsignedEvent
from tenex.core.values import replace

OUTBOX_LONGEST: Final = Millis(30 * 24 * 3_600_000)
"""How long relays are tried for a message that none of them accepts, without the time in which the daemon did not run:
as long as a message that cannot be stored is fetched again. A dead relay keeps no row for ever."""


MOST_REDATED: Final = 50
"""New dates for the parts of one message: a relay that refuses every date gets no more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The events of one `MessageSent` and the relays that have not answered for good."""

    events: tuple[UnsignedEvent, ...]
    open: tuple[tuple[int, str], ...]
    """(part, relay), in the order in which they go out."""
    expires_at: Millis = Millis(0)
    """When relays that have not answered are given up, once one has accepted an event; 0 before."""
    lost_at: Millis = Millis(0)
    """The same as long as none has; 0 in rows of snapshots of older programs."""
    accepted: tuple[tuple[int, str], ...] = ()
    """(part, relay) that are delivered."""
    others: tuple[str, ...] = ()
    """Relays to try too once one has refused an event for good."""
    held: tuple[tuple[int, PublicKey], ...] = ()
    """Parts that wait until the quiet hours of their reader are over."""
    outdated: tuple[tuple[int, str], ...] = ()
    """(part, relay) that were refused and may be accepted with a new date."""
    refused: tuple[int, ...] = ()
    """Parts that a relay has refused without saying that it does not have them: an OK of it may have been lost."""
    redated: int = 0
    """How many parts are earlier ones with a new date."""
    name: str = ""
    """Of the speaker; "" in rows of snapshots of older programs."""
    text: str = ""
    """What is sent by another key where no relay takes it; "" where no one waits for it, or it repeats another."""

    @property
    def parts(self) -> int:
        """How many events the message has, where one with a new date is none of its own."""
        return len(self.events) - self.redated

    def may_be_redated(self, part: int, relay: str, *, is_outdated: bool) -> bool:
        """Whether a part gets a new date, given the answer of a relay that has not accepted it.

        Only when each relay was asked and does not have it: the new event is then the only one that can be read.
        """
        may_still_be_read = any(pair[0] == part for pair in self.accepted)
        waits = any(pair[0] == part and pair[1] != relay for pair in self.open)
        return is_outdated and part not in self.refused and not may_still_be_read and not waits

    def with_new_date(self, part: int, event: UnsignedEvent) -> "OutboxRow":
        """The row with a part once more, for the relays that have refused its date."""
        number = len(self.events)
        relays = (relay for other, relay in self.outdated if other == part)
        return replace(
            self,
            events=(*self.events, event),
            open=(*self.open, *((number, relay) for relay in relays)),
            outdated=tuple(pair for pair in self.outdated if pair[0] != part),
            redated=self.redated + 1,
        )

    @property
    def ready(self) -> tuple[tuple[int, str], ...]:
        """What of `open` may go out now."""
        if not self.held:
            return self.open
        held = {part for part, _ in self.held}
        return tuple(pair for pair in self.open if pair[0] not in held)

    def answered(
        self, part: int, relay: str, *, expires_at: Millis, is_accepted: bool, is_refused: bool
    ) -> "OutboxRow":
        """A relay has answered for good; once one has refused, all parts also go to the relays kept for that."""
        pair = (part, relay)
        left = tuple(other for other in self.open if other != pair)
        row = replace(
            self,
            open=left,
            expires_at=self.expires_at or expires_at,
            accepted=(*self.accepted, pair) if is_accepted else self.accepted,
        )
        if not is_refused:
            return row
        more = tuple((number, other) for number in range(len(self.events)) for other in self.others)
        return replace(row, open=(*left, *more), others=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRefusal:
    """A relay refused an event of a `MessageSent` for good."""

    message: int
    event: EventId
    relay: str
    reason: str
    at: Millis
    is_delivered: bool = False
    """Another relay has accepted what was written."""
    by: PublicKey = PublicKey("")
    """The key of the event; "" in snapshots of older programs, as the name."""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonQuestion:
    """A question of ours that a relay shows with buttons, and what sends it again without them."""

    message: int
    """The seq of its `MessageSent`."""
    speaker: PublicKey
    name: str
    text: str
    content: str
    """Of the event: the text as it is sent."""
    phase: Phase
    run: RunId | None
    call: CallId | None
    tags: tuple[tuple[str, ...], ...]
    asks: str
    notifies: tuple[PublicKey, ...] | None
    silent: tuple[PublicKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What did not notify a user in their quiet hours."""

    first: int
    """The seq of the first `MessageSent`."""
    until: Millis
    count: int
    newest: tuple[int, ...]
    """The seqs of the last few."""
    armed: int = 0
    """The seq of the record since which its timer runs, where that is not the first message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRequest:
    """A file that a user wants to see."""

    path: str
    destination: FileDestination


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Messages on their way out. What is sent stays sent: a rollback keeps it."""

    outbox: Mapping[int, OutboxRow] = field(default_factory=dict)
    """By the seq of the `MessageSent`."""
    refusals: tuple[RelayRefusal, ...] = ()
    last_created_at: int = 0
    """The newest time of an event of ours, in seconds: none is dated before it."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The message we answer: a user's newest that is no command."""
    first_origin: Mapping[str, Any] = field(default_factory=dict)
    """The message that began the conversation, answered where the newest was deleted."""
    command_origin: Mapping[str, Any] = field(default_factory=dict)
    """The command that the next message answers, where one was given last."""
    origin_at: int = 0
    verbosity: Mapping[PublicKey, Verbosity] = field(default_factory=dict)
    """Of users who have said how much they want to be sent here."""
    missed: Mapping[PublicKey, Missed] = field(default_factory=dict)
    """By user, until their quiet hours are over or they write."""
    awake: Mapping[PublicKey, Millis] = field(default_factory=dict)
    """When users last wrote in quiet hours."""
    reminders: tuple[EventId, ...] = ()
    """The newest events that only remind of others: a reply to one is to the thread as a whole."""
    attached: Mapping[RunId, tuple[AttachedFile, ...]] = field(default_factory=dict)
    """Files that go with the next message, by the run that attached them."""
    with_buttons: Mapping[EventId, ButtonQuestion] = field(default_factory=dict)
    """By their events, the questions with buttons that have not been closed."""
    shows: Mapping[int, ShowRequest] = field(default_factory=dict)
    """Files that users want to see and that are not looked up, by the seq of the request."""
    first_ids: Mapping[EventId, EventId] = field(default_factory=dict)
    """By the id of an event of ours with a new date: that of the event as it was first, by which rules know it."""

    def first_id(self, event: EventId | None) -> EventId | None:
        """The id by which an event is known here: of one of ours with a new date, the first it had."""
        return None if event is None else self.first_ids.get(event, event)

    def newest_id(self, event: EventId) -> EventId:
        """The id under which relays have an event of ours, given the first it had."""
        newer = [other for other, first in self.first_ids.items() if first == event]
        return newer[-1] if newer else event
