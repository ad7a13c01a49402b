"""The dead-letter queue: received messages that their actor ended without recording, and one notice to each author.

A message is accepted when its record is durable. While the disk fails, it waits in its actor's queue, and only the
notice is sent from here. When the files are damaged or the actor ends, it waits here; `since` is the time from which
relays must be asked again if this process ends first.

The notice is published directly, because no journal of the conversation can hold it. It is built only from the message
it answers, and that choice is persisted (`Notices`), so a restart produces the same event.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import AppendFailed, DatabaseFailed, FolderMoved, StoreError
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.port_values import outgoing_events
from tenex.core.ports import Notice, Notices, OutgoingMessage, Sealer, UnsignedEvent
from tenex.core.signals import InboundMessage, MessageReceived, Opened, Published, Signal, TimerFired
from tenex.log import get_logger

from .outbox import Outbox
from .reconciler import Spawn

log = get_logger(__name__)

GUESTS_REPORTED: Final = 50
"""Guests who are notified of a wrong date: each notice is kept, and a stranger can write with any number of keys."""
KEPT: Final = 1_000
"""Messages of one conversation kept in memory; older ones are read from the relays after a restart."""


class DeliveryFailure(StrEnum):
    """Why a message has no answer."""

    DAMAGED = "damaged"
    OTHER_VERSION = "other version"
    DISK = "disk"
    DATABASE = "database"
    MOVED = "folder"
    FAULT = "fault"
    DATE = "date"


_TEXTS: Final[Mapping[DeliveryFailure, str]] = {
    DeliveryFailure.DAMAGED: (
        "The files of this conversation are damaged. Your message waits on the relays. Operator: stop tenex, then run "
        "`tenex conversations rebuild {name}`."
    ),
    DeliveryFailure.OTHER_VERSION: (
        "Another version of tenex wrote this conversation. Your message waits on the relays. Operator: upgrade tenex "
        "and start it again."
    ),
    DeliveryFailure.DISK: (
        "The disk does not accept writes, so I am waiting. Your message is kept; do not send it again. "
        "Operator: run `tenex status`."
    ),
    DeliveryFailure.DATABASE: (
        "The database does not accept writes, so I am waiting. Your message is kept; do not send it again. "
        "Operator: run `tenex status`."
    ),
    DeliveryFailure.MOVED: (
        "The data folder was moved while I run, so I am waiting. Your message is kept; do not send it again. "
        "Operator: see the log, or run `tenex status` where the folder is now."
    ),
    DeliveryFailure.FAULT: (
        "An internal error stopped this message several times. I will retry it after the next restart. "
        "Operator: see the log."
    ),
    DeliveryFailure.DATE: (
        "Your message is dated more than two days ago, so it was not carried out. Check your device's clock and send "
        "it again."
    ),
}
_ERRORS: Final[Mapping[DeliveryFailure, str]] = {
    DeliveryFailure.DAMAGED: "storage",
    DeliveryFailure.OTHER_VERSION: "storage",
    DeliveryFailure.DISK: "storage",
    DeliveryFailure.DATABASE: "storage",
    DeliveryFailure.MOVED: "storage",
    DeliveryFailure.FAULT: "internal",
    DeliveryFailure.DATE: "date",
}
_NOT_PERSISTED: Final = (DeliveryFailure.DISK, DeliveryFailure.DATABASE, DeliveryFailure.MOVED)
"""What refuses the journal refuses the notice too."""


@dataclass(slots=True)
class _Stored:
    since: int
    """Seconds: when the earliest message was written, also one evicted since."""
    messages: deque[MessageReceived] = field(default_factory=lambda: deque(maxlen=KEPT))


class Undeliverable:
    """The dead letters of all conversations; used on the event loop only."""

    def __init__(
        self, sealer: Sealer, notices: Notices, outbox: Outbox, policy: Callable[[], Policy], spawn: Spawn
    ) -> None:
        self._sealer = sealer
        self._notices = notices
        self._outbox = outbox
        self._rules = policy
        self._spawn = spawn
        self._stored: dict[ConversationId, _Stored] = {}
        self._dropped: list[int] = []
        """Seconds: when each message was written that only the next process retries."""
        self._remembered = {notice.key: notice for notice in notices.open_notices()}
        """Notices of an earlier process, which may not have been published: they are sent again unchanged."""
        self._notified: dict[ConversationId, set[tuple[PublicKey, str]]] = {}
        self._guests_reported = {key[0] for key in self._remembered if key[2] == DeliveryFailure.DATE}
        self._sending: set[asyncio.Task[None]] = set()

    def store(self, conversation: ConversationId, signals: Iterable[Signal]) -> None:
        """Store the messages among these undecided signals."""
        for signal in signals:
            if isinstance(signal, MessageReceived):
                at = signal.message.created_at
                stored = self._stored.setdefault(conversation, _Stored(at))
                stored.since = min(stored.since, at)
                stored.messages.append(signal)

    def drop(self, signal: Signal) -> None:
        """Leave a message to the next process, which receives it from the relays again."""
        if isinstance(signal, MessageReceived):
            self._dropped.append(signal.message.created_at)

    def discard(self, is_recorded: Callable[[str], bool]) -> None:
        """Forget the messages that another worker has recorded meanwhile, by the ids of their events."""
        for conversation, stored in list(self._stored.items()):
            kept = [signal for signal in stored.messages if not is_recorded(signal.message.event_id)]
            if not kept:
                del self._stored[conversation]
            elif len(kept) < len(stored.messages):
                stored.messages = deque(kept, maxlen=KEPT)
                stored.since = min(signal.message.created_at for signal in kept)

    def take(self, conversation: ConversationId) -> Iterator[MessageReceived]:
        """Remove and return the messages of a conversation, in order of arrival."""
        stored = self._stored.pop(conversation, None)
        return iter(stored.messages if stored is not None else ())

    def __contains__(self, conversation: ConversationId) -> bool:
        """Whether a conversation has dead letters."""
        return conversation in self._stored

    def __iter__(self) -> Iterator[ConversationId]:
        """The conversations with dead letters."""
        return iter(tuple(self._stored))

    def since(self, waiting: Iterable[Signal]) -> int | None:
        """When the earliest message without a journal was written, in seconds; None if there is none.

        Args:
            waiting: signals that actors have not decided.
        """
        here = (signal.message.created_at for signal in waiting if isinstance(signal, MessageReceived))
        return min((*here, *self._dropped, *(stored.since for stored in self._stored.values())), default=None)

    def notify(self, notices: Iterable[Notice]) -> None:
        """Notify each author once per failure. Returns at once."""
        for notice in notices:
            notified = self._notified.setdefault(notice.conversation, set())
            if (notice.author, notice.failure) not in notified:
                notified.add((notice.author, notice.failure))
                known = self._remembered.get(notice.key)
                is_persisted = known is not None or notice.failure in _NOT_PERSISTED
                self._spawn_sending(notice.conversation, self._send(known or notice, is_persisted=is_persisted))

    def report_date(self, message: InboundMessage, now: int, *, is_guest: bool) -> None:
        """Notify the author of a message that is too old to be carried out, once for all such messages of theirs.

        The notice is kept under the author's key in place of a conversation, so that no conversation clears it.
        """
        key = ConversationId(message.author)
        if is_guest and key not in self._guests_reported:
            if len(self._guests_reported) >= GUESTS_REPORTED:
                return
            self._guests_reported.add(key)
        notice = Notice(
            conversation=key,
            failure=DeliveryFailure.DATE,
            author=message.author,
            written=now,
            address=message.address,
            origin=message.origin,
        )
        self.notify([notice])

    def clear(self, conversation: ConversationId) -> None:
        """Forget the notices of a conversation that works again; a later failure is reported again."""
        notified = self._notified.pop(conversation, set())
        remembered = [key for key in self._remembered if key[0] == conversation]
        for key in remembered:
            del self._remembered[key]
        if remembered or any(failure not in _NOT_PERSISTED for _, failure in notified):
            work = self._persist(conversation, self._notices.clear_notices(conversation))
            self._spawn_sending(conversation, work)

    @property
    def is_sending(self) -> bool:
        """Whether a notice is being published."""
        return bool(self._sending)

    async def stop(self) -> None:
        """Cancel unpublished notices; the next process sends them again if the failure persists."""
        sending = list(self._sending)
        for task in sending:
            task.cancel()
        if sending:
            await asyncio.wait(sending)

    def _spawn_sending(self, conversation: ConversationId, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(f"{conversation[:8]} notice", work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, notice: Notice, *, is_persisted: bool) -> None:
        if not is_persisted:
            await self._persist(notice.conversation, self._notices.add_notice(notice))
        draft = OutgoingMessage(
            speaker=self._rules().project.pubkey,
            text=_TEXTS[DeliveryFailure(notice.failure)].format(name=notice.conversation[:12]),
            tags=(("error", _ERRORS[DeliveryFailure(notice.failure)]),),
            created_at=notice.written + 1,
            address=notice.address,
            reply_to=notice.origin,
        )
        try:
            events = self._sealer.seal(draft)
            outgoing = outgoing_events(events, self._sealer.relays(draft), self._sealer.wraps(draft, events))
        except Exception:  # it may be the error that is reported, and must not end other conversations
            log.exception("notice.failed", conversation=notice.conversation, failure=notice.failure)
            return
        event_id = events[0].id if events else ""
        log.warning("user.notified", conversation=notice.conversation, failure=notice.failure, event_id=event_id)
        for event, relays in outgoing:
            for relay in relays:
                self._spawn_sending(notice.conversation, self._publish(notice.conversation, event, relay))

    async def _persist(self, conversation: ConversationId, note: Awaitable[None]) -> None:
        try:
            await note
        except (AppendFailed, StoreError) as error:  # at worst an author is notified twice
            log.warning("notice.not_persisted", conversation=conversation, reason=str(error))

    async def _publish(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> None:
        await self._outbox.publish(conversation, event, relay)


def failure_of(error: AppendFailed) -> DeliveryFailure:
    """What did not take the records of a conversation."""
    match error:
        case DatabaseFailed():
            return DeliveryFailure.DATABASE
        case FolderMoved():
            return DeliveryFailure.MOVED
        case _:
            return DeliveryFailure.DISK


def notices(
    conversation: ConversationId,
    failure: DeliveryFailure,
    signals: Collection[Signal],
    state: Conversation | None = None,
) -> list[Notice]:
    """Return a notice per author of an undecided message; without any, one for the user who waits for an answer.

    Args:
        conversation: the one that failed.
        failure: why.
        signals: those that could not be decided.
        state: the conversation before that, if known.
    """
    found: dict[PublicKey, Notice] = {}
    for signal in signals:
        if isinstance(signal, MessageReceived) and not signal.message.is_reaction:
            message = signal.message
            found.setdefault(
                message.author,
                Notice(
                    conversation=conversation,
                    failure=failure,
                    author=message.author,
                    written=message.created_at,
                    address=message.address,
                    origin=message.origin,
                ),
            )
    is_working = any(not isinstance(signal, Opened | Published | TimerFired) for signal in signals)
    if not found and state is not None and state.delivery.origin and (is_working or state.cycle.status == "active"):
        author = PublicKey(str(state.delivery.origin.get("author", "")))
        written = max(state.delivery.origin_at, state.delivery.last_created_at)
        found[author] = Notice(
            conversation=conversation,
            failure=failure,
            author=author,
            written=written,
            address=state.identity.address,
            origin=state.delivery.origin,
        )
    return list(found.values())
