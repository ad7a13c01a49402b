"""What people wrote that no journal holds: kept until one takes it, and told to them once.

A message is believed to be taken in when its record is durable. Where a conversation's files are damaged, or the disk
takes nothing, that may be days away; until then the message waits here, and `since` says from when on relays must be
asked for it again, should this process end first.

The word about it goes straight to the relays, as no other does: no journal can hold it. It is made of nothing but the
message it answers, so the same refusal, after a restart too, is the same event.

Never: decide, write, or say anything else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from tenex.core.conversation import Conversation
from tenex.core.errors import TenexError
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.ports import Draft, Sealer, UnsignedEvent
from tenex.core.roster import Rules
from tenex.core.signals import Opened, PersonSpoke, Published, Signal, TimerFired

from .outbox import Outbox
from .reconciler import Spawn

log = structlog.get_logger(__name__)

KEPT: Final = 1_000
"""Messages of one conversation kept in memory; older ones are asked of the relays after a restart."""


class Trouble(StrEnum):
    """Why a message has no answer."""

    DAMAGED = "damaged"
    DISK = "disk"
    FAULT = "fault"


_TEXTS: Final[Mapping[Trouble, str]] = {
    Trouble.DAMAGED: (
        "I cannot take this in: the files of this conversation are damaged, and I change nothing in files I cannot "
        "read. What you wrote is not lost: it is on the relays, and I take it in once the files are mended. Whoever "
        "runs me sees what is wrong with `tenex doctor`; with me stopped, `tenex conversations rebuild {name}` makes "
        "the files anew from what can be regained."
    ),
    Trouble.DISK: (
        "I cannot go on here just now, because I cannot write to my disk. What you wrote is not lost, and there is no "
        "need to send it again: I keep trying and go on by myself as soon as the disk takes it. Whoever runs me sees "
        "why with `tenex status`."
    ),
    Trouble.FAULT: (
        "I cannot take this in: a fault of my own got in the way, several times. I have put it aside, so that other "
        "messages are heard; what you wrote is on the relays, and I try it again when I am started the next time. "
        "My log says more."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who is to be told, and where."""

    author: PublicKey
    written: int
    """Seconds: when what waits, or the last word after it, was written."""
    address: Mapping[str, Any]
    origin: Mapping[str, Any]


@dataclass(slots=True)
class _Kept:
    since: int
    """Seconds: when the earliest message, kept or no more, was written."""
    messages: deque[PersonSpoke] = field(default_factory=lambda: deque(maxlen=KEPT))


class Owed:
    """Messages without a journal, of all conversations; used on the event loop only."""

    def __init__(self, sealer: Sealer, outbox: Outbox, rules: Callable[[], Rules], spawn: Spawn) -> None:
        self._sealer = sealer
        self._outbox = outbox
        self._rules = rules
        self._spawn = spawn
        self._kept: dict[ConversationId, _Kept] = {}
        self._told: dict[ConversationId, set[tuple[PublicKey, Trouble]]] = {}
        self._saying: set[asyncio.Task[None]] = set()

    # ---- keeping ------------------------------------------------------------------------------------------------

    def keep(self, conversation: ConversationId, signals: Iterable[Signal]) -> None:
        """Keep what people wrote of these signals, which nobody is going to decide on now."""
        for signal in signals:
            if isinstance(signal, PersonSpoke):
                at = signal.message.created_at
                kept = self._kept.setdefault(conversation, _Kept(at))
                kept.since = min(kept.since, at)
                kept.messages.append(signal)

    def take(self, conversation: ConversationId) -> Iterator[PersonSpoke]:
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
        here = (signal.message.created_at for signal in waiting if isinstance(signal, PersonSpoke))
        return min((*here, *(kept.since for kept in self._kept.values())), default=None)

    # ---- telling ------------------------------------------------------------------------------------------------

    def tell(self, conversation: ConversationId, trouble: Trouble, askers: Iterable[Asker]) -> None:
        """Tell each of them what the trouble is, unless they have been told since it began. Returns at once."""
        told = self._told.setdefault(conversation, set())
        for asker in askers:
            if (asker.author, trouble) not in told:
                told.add((asker.author, trouble))
                self._say(conversation, trouble, asker)

    def passed(self, conversation: ConversationId) -> None:
        """The conversation goes on: whoever meets a trouble after this is told anew."""
        self._told.pop(conversation, None)

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

    def _say(self, conversation: ConversationId, trouble: Trouble, asker: Asker) -> None:
        draft = Draft(
            speaker=self._rules().project.pubkey, text=_TEXTS[trouble].format(name=conversation[:12]),
            tags=(("error", "storage" if trouble is not Trouble.FAULT else "internal"),),
            created_at=asker.written + 1, address=asker.address, reply_to=asker.origin,
        )  # fmt: skip
        try:
            events, relays = self._sealer.seal(draft), self._sealer.relays(draft)
        except (TenexError, LookupError, TypeError, ValueError):  # the trouble is elsewhere, and that is being mended
            log.exception("notice.failed", conversation=conversation, trouble=trouble)
            return
        log.warning("person.told", conversation=conversation, trouble=trouble, event_id=events[0].id)
        for event in events:
            for relay in relays:
                task = self._spawn(f"{conversation[:8]} notice", self._publish(conversation, event, relay))
                self._saying.add(task)
                task.add_done_callback(self._saying.discard)

    async def _publish(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> None:
        await self._outbox.publish(conversation, event, relay)


def askers(signals: Collection[Signal], state: Conversation | None = None) -> list[Asker]:
    """The people whose messages are among the signals; if there are none, whoever waits for an answer of an open one.

    Args:
        signals: those that could not be decided on.
        state: the conversation as it was before that, where it is known.
    """
    found: dict[PublicKey, Asker] = {}
    for signal in signals:
        if isinstance(signal, PersonSpoke):
            message = signal.message
            found.setdefault(message.author, Asker(
                author=message.author, written=message.created_at, address=message.address, origin=message.origin
            ))  # fmt: skip
    is_working = any(not isinstance(signal, Opened | Published | TimerFired) for signal in signals)
    if not found and state is not None and state.origin and (is_working or state.status == "active"):
        author = PublicKey(str(state.origin.get("author", "")))
        written = max(state.origin_at, state.last_created_at)
        found[author] = Asker(author=author, written=written, address=state.address, origin=state.origin)
    return list(found.values())
