"""Keeps the caches beside the journals current: the index, the subscribed threads, the orchestrator's lessons."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import Millis, Slug
from tenex.core.people.trust import least_trusted, room_of
from tenex.core.rollback.whole import ConversationForked
from tenex.core.signals import InboundMessage
from tenex.log import get_logger
from tenex.nostr.pool import RelayPool
from tenex.nostr.subscriptions import OVERLAP, Listener
from tenex.nostr.urls import normalise_url
from tenex.runtime.clock import SystemClock
from tenex.store.conversations import Conversations
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.index import Index
from tenex.store.index_row import Row, news_of, summarise

log = get_logger(__name__)

CURSOR_EVERY: Final = 30.0
"""Seconds between two saves of the cursors: so much backlog is read again after a crash."""

UNJOURNALED_MOST: Final = 30 * 24 * 3_600_000
"""ms that a message without a journal holds cursors back at most: each start reads the relays from there."""

UnjournaledSince = Callable[[], int | None]


class IndexUpdater:
    """Updates the caches with what has become durable. An `Observer`."""

    def __init__(
        self,
        folder: Conversations,
        index: Index,
        book: DaemonJournal,
        listener: Listener,
        orchestrator: Slug,
        spawn: Callable[..., object],
    ) -> None:
        self._folder = folder
        self._index = index
        self._book = book
        self._listener = listener
        self._orchestrator = orchestrator
        self._spawn = spawn

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Update the conversation's row and add its new events."""
        self._index.update(summarise(conversation, self._folder.length(conversation.id)), news_of(records))
        for record in records:
            if isinstance(record, r.ConversationStarted | ConversationForked):
                if room_of(conversation.identity.address):  # no relay has its messages, and none learns their ids
                    continue
                self._listener.follow(record.id, _first_written(records))
            elif isinstance(record, r.RouterCorrected):
                key = f"{conversation.id}:{record.seq}"
                self._spawn(f"lesson {key}", self._learn(conversation, record.lesson, key))

    def on_row(self, row: Row) -> None:
        """Follow the thread of a conversation that another daemon has begun or changed."""
        if not self._index.room_of(row.id):  # as above
            self._listener.follow(row.id, row.started // 1000)

    async def _learn(self, conversation: Conversation, lesson: str, key: str) -> None:
        person = least_trusted(conversation)
        author, role = (person.author, person.role) if person else (None, None)
        try:
            await self._book.record(
                self._orchestrator, conversation.id, "A refused decision", lesson, "routing", key, author, role
            )
        except (AppendFailed, StoreError) as error:  # the conversation's own journal still holds it
            log.warning("lesson.not_persisted", reason=str(error))


def _first_written(records: Iterable[r.Record]) -> int | None:
    """The earliest date of these messages, in seconds; None if there is no message."""
    return min(
        (record.created_at for record in records if isinstance(record, r.MessageRecorded | r.CommandGiven)),
        default=None,
    )


async def keep_cursors(
    pool: RelayPool,
    index: Index,
    clock: SystemClock,
    every: float = CURSOR_EVERY,
    unjournaled_since: UnjournaledSince = lambda: None,
) -> None:
    """Save, every `every` seconds and when cancelled, up to when each relay has been read."""
    try:
        while True:
            await asyncio.sleep(every)
            save_cursors(pool, index, clock, unjournaled_since())
    finally:
        save_cursors(pool, index, clock, unjournaled_since())


def save_cursors(pool: RelayPool, index: Index, clock: SystemClock, unjournaled_since: int | None = None) -> None:
    """Save each relay's cursor: up to where nothing is missing. Where some of its past is unread it stays as it was.

    Args:
        pool: the relays.
        index: stores the cursors.
        clock: the current time.
        unjournaled_since: when the earliest message that no journal holds was written, in seconds; read again later.
    """
    now = clock.now()  # it may have been set back since
    most = now if unjournaled_since is None else min(now, max(unjournaled_since * 1000, now - UNJOURNALED_MOST))
    for status in pool.status():
        if status.received_until is not None:
            index.set_cursor(status.url, Millis(min(int(status.received_until * 1000), most)))


def oldest_new(index: Index, clock: SystemClock, message: InboundMessage) -> int:
    """The second before which a message cannot be new: its relay has been read from then on, by this process or before.

    A relay that was away for long, and a message that is still to be journaled, hold that relay's cursor back.
    """
    cursors = (index.cursor(relay) for relay in message.origin.get("relays", ()))
    earliest = min((at for at in cursors if at is not None), default=clock.now())
    return earliest // 1000 - OVERLAP


async def oldest_cursor(index: Index, folder: Conversations, relays: Iterable[str], clock: SystemClock) -> int | None:
    """The second from which stored events must be read: the oldest cursor; None in a first run.

    A new relay's cursor is set to now, because a first run may be shorter than `CURSOR_EVERY`. Where no relay is known
    and the folder is not new, the index was lost: then all are set to the time of the last record.
    """
    cursors = {relay: index.cursor(relay) for relay in map(normalise_url, relays)}  # as the pool spells them
    known = [at for at in cursors.values() if at is not None]
    since = min(known) // 1000 if known else await folder.last_written()
    start = clock.now() if known or since is None else Millis(since * 1000)
    for relay in [relay for relay, at in cursors.items() if at is None]:
        index.set_cursor(relay, start)
    return since
