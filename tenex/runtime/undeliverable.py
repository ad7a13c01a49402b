"""What people wrote that no journal holds: kept until one takes it, and told to them once.

A message is believed to be taken in when its record is durable. Where a conversation's files are damaged, or the disk
takes nothing, that may be days away; until then the message waits here, and `since` says from when on relays must be
asked for it again, should this process end first.

The word about it goes straight to the relays, as no other does: no journal of the conversation can hold it. It is made
of nothing but a message it answers, and which one that was is remembered (`Notices`), so that the same refusal after a
restart is the same event, whatever order relays then give the messages in.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.ports import Notice, Notices, OutgoingMessage, Sealer, UnsignedEvent
from tenex.core.signals import MessageReceived, Opened, Published, Signal, TimerFired

from .outbox import Outbox
from .reconciler import Spawn

log = structlog.get_logger(__name__)

KEPT: Final = 1_000
"""Messages of one conversation kept in memory; older ones are asked of the relays after a restart."""


class DeliveryFailure(StrEnum):
    """Why a message has no answer."""

    DAMAGED = "damaged"
    DISK = "disk"
    FAULT = "fault"


_TEXTS: Final[Mapping[DeliveryFailure, str]] = {
    DeliveryFailure.DAMAGED: (
        "I cannot take this in: the files of this conversation are damaged, and I change nothing in files I cannot "
        "read. What you wrote is not lost: it is on the relays, and I take it in once the files are mended. Whoever "
        "runs me sees what is wrong with `tenex doctor`; with me stopped, `tenex conversations rebuild {name}` makes "
        "the files anew from what can be regained."
    ),
    DeliveryFailure.DISK: (
        "I cannot go on here just now, because I cannot write to my disk. What you wrote is not lost, and there is no "
        "need to send it again: I keep trying and go on by myself as soon as the disk takes it. Whoever runs me sees "
        "why with `tenex status`."
    ),
    DeliveryFailure.FAULT: (
        "I cannot go on with this: a fault of my own got in the way, several times. I have put it aside, so that other "
        "messages are heard; nothing of it is lost, and I try it again when I am started the next time. My log says "
        "more."
    ),
}


@dataclass(slots=True)
class _Kept:
    since: int
    """Seconds: when the earliest message, kept or no more, was written."""
    messages: deque[MessageReceived] = field(default_factory=lambda: deque(maxlen=KEPT))


class Undeliverable:
    """Messages without a journal, of all conversations; used on the event loop only."""

    def __init__(
        self, sealer: Sealer, notices: Notices, outbox: Outbox, rules: Callable[[], Policy], spawn: Spawn
    ) -> None:
        self._sealer = sealer
        self._notices = notices
        self._outbox = outbox
        self._rules = rules
        self._spawn = spawn
        self._kept: dict[ConversationId, _Kept] = {}
        self._aside: list[int] = []
        """Seconds: when each message was written that the next process is to try again."""
        self._remembered = {notice.key: notice for notice in notices.open_notices()}
        """What an earlier process said, or was about to say; it is said again before anything else is."""
        self._told: dict[ConversationId, set[tuple[PublicKey, str]]] = {}
        self._saying: set[asyncio.Task[None]] = set()

    # ---- keeping ------------------------------------------------------------------------------------------------

    def keep(self, conversation: ConversationId, signals: Iterable[Signal]) -> None:
        """Keep what people wrote of these signals, which nobody is going to decide on now."""
        for signal in signals:
            if isinstance(signal, MessageReceived):
                at = signal.message.created_at
                kept = self._kept.setdefault(conversation, _Kept(at))
                kept.since = min(kept.since, at)
                kept.messages.append(signal)

    def put_aside(self, signal: Signal) -> None:
        """Leave a message that this process cannot decide on to the next one, which hears it from the relays."""
        if isinstance(signal, MessageReceived):
            self._aside.append(signal.message.created_at)

    def take(self, conversation: ConversationId) -> Iterator[MessageReceived]:
        """Hand what was kept over to an actor, in the order in which it came."""
        kept = self._kept.pop(conversation, None)
        return iter(kept.messages if kept is not None else ())

    def __iter__(self) -> Iterator[ConversationId]:
        """The conversations for which something is kept."""
        return iter(tuple(self._kept))

    def since(self, waiting: Iterable[Signal]) -> int | None:
        """When the earliest message without a journal was written, in seconds; None if there is none.

        Args:
            waiting: signals that actors have not decided on.
        """
        here = (signal.message.created_at for signal in waiting if isinstance(signal, MessageReceived))
        return min((*here, *self._aside, *(kept.since for kept in self._kept.values())), default=None)

    # ---- telling ------------------------------------------------------------------------------------------------

    def tell(self, notices: Iterable[Notice]) -> None:
        """Tell each of these people, unless they have been told since the trouble began. Returns at once."""
        for notice in notices:
            told = self._told.setdefault(notice.conversation, set())
            if (notice.author, notice.failure) not in told:
                told.add((notice.author, notice.failure))
                known = self._remembered.get(notice.key)
                is_known = (
                    known is not None or notice.failure == DeliveryFailure.DISK
                )  # which may take no note of it either
                self._spawn_saying(notice.conversation, self._say(known or notice, is_noted=is_known))

    def passed(self, conversation: ConversationId) -> None:
        """The conversation goes on: whoever meets a trouble after this is told anew."""
        told = self._told.pop(conversation, set())
        remembered = [key for key in self._remembered if key[0] == conversation]
        for key in remembered:
            del self._remembered[key]
        if remembered or any(trouble != DeliveryFailure.DISK for _, trouble in told):
            noted = self._noted(conversation, self._notices.clear_notices(conversation))
            self._spawn_saying(conversation, noted)

    @property
    def is_saying(self) -> bool:
        """Whether a word is on its way to a relay."""
        return bool(self._saying)

    async def stop(self) -> None:
        """Give up what no relay has taken yet; the next process says it again if it is still so."""
        saying = list(self._saying)
        for task in saying:
            task.cancel()
        if saying:
            await asyncio.wait(saying)

    def _spawn_saying(self, conversation: ConversationId, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(f"{conversation[:8]} notice", work)
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    async def _say(self, notice: Notice, *, is_noted: bool) -> None:
        if not is_noted:
            await self._noted(notice.conversation, self._notices.add_notice(notice))
        draft = OutgoingMessage(
            speaker=self._rules().project.pubkey,
            text=_TEXTS[DeliveryFailure(notice.failure)].format(name=notice.conversation[:12]),
            tags=(("error", "storage" if notice.failure != DeliveryFailure.FAULT else "internal"),),
            created_at=notice.written + 1,
            address=notice.address,
            reply_to=notice.origin,
        )
        try:
            events, relays = self._sealer.seal(draft), self._sealer.relays(draft)
        except Exception:  # it may be the very fault that is to be told of, and must not end the other conversations
            log.exception("notice.failed", conversation=notice.conversation, trouble=notice.failure)
            return
        log.warning("person.told", conversation=notice.conversation, trouble=notice.failure, event_id=events[0].id)
        for event in events:
            for relay in relays:
                self._spawn_saying(notice.conversation, self._publish(notice.conversation, event, relay))

    async def _noted(self, conversation: ConversationId, note: Awaitable[None]) -> None:
        try:
            await note
        except (AppendFailed, StoreError) as error:  # at worst somebody is told twice
            log.warning("notice.not_kept", conversation=conversation, reason=str(error))

    async def _publish(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> None:
        await self._outbox.publish(conversation, event, relay)


def notices(
    conversation: ConversationId,
    trouble: DeliveryFailure,
    signals: Collection[Signal],
    state: Conversation | None = None,
) -> list[Notice]:
    """For the people whose messages are among the signals; without any, for whoever waits for an answer of an open one.

    Args:
        conversation: the one that is in trouble.
        trouble: what it is.
        signals: those that could not be decided on.
        state: the conversation as it was before that, where it is known.
    """
    found: dict[PublicKey, Notice] = {}
    for signal in signals:
        if isinstance(signal, MessageReceived):
            message = signal.message
            found.setdefault(
                message.author,
                Notice(
                    conversation=conversation,
                    failure=trouble,
                    author=message.author,
                    written=message.created_at,
                    address=message.address,
                    origin=message.origin,
                ),
            )
    is_working = any(not isinstance(signal, Opened | Published | TimerFired) for signal in signals)
    if not found and state is not None and state.origin and (is_working or state.status == "active"):
        author = PublicKey(str(state.origin.get("author", "")))
        written = max(state.origin_at, state.last_created_at)
        found[author] = Notice(
            conversation=conversation,
            failure=trouble,
            author=author,
            written=written,
            address=state.address,
            origin=state.origin,
        )
    return list(found.values())
