"""The door: who may come in, which conversation a message belongs to, and how much one person may send.

Strangers are ignored and counted, never answered, never logged in full. A message is known again by its event id,
which the journal and the directory keep; the bounds here only keep one person from flooding us.

The rate is counted by when messages arrive, never by the date their author gave them. What is above it waits its turn,
so that what somebody wrote while we were away is not lost; beyond a bound it is refused.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

import structlog

from tenex.core.config import PeerGroup, Role
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.ports import Clock, Directory
from tenex.core.signals import InboundMessage, MessageReceived

from .coordinator import ConversationCoordinator

log = structlog.get_logger(__name__)

AUTHORS = 10_000
"""Authors whose rate is remembered; the one not heard of longest is forgotten first."""
BACKLOG = 10
"""Minutes' worth of one person's messages that wait their turn; more are refused."""
QUEUED = 1000
"""Messages of all people together that wait their turn."""
EARLY = 100
"""Replies kept in case the message that begins their thread arrives after them."""
LARGEST = 256 * 1024
"""Characters of one message: four events of the usual size limit, and far above what anybody types."""
PER_MINUTE = 30
"""Messages one person may send in a minute, owners excepted: three times what one can type."""


class Admission(StrEnum):
    """What became of a message at the door."""

    ADMITTED = "admitted"
    STRANGER = "stranger"
    DUPLICATE = "duplicate"
    ELSEWHERE = "elsewhere"
    """Not ours to answer: it begins no conversation and belongs to none we know, as yet."""
    MACHINE = "machine"
    """A program's message that does not call us by name: agents must not wake each other by talking in a thread."""
    EMPTY = "empty"
    """It says nothing, so there is nothing to do or to answer."""
    QUEUED = "queued"
    """Its author sends faster than the limit: it is received again when its turn comes."""
    TOO_OLD = "too_old"
    """Written before all that could still be new: a relay sends again what was answered and lost here."""
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    CLOSED = "closed"


class Inbox:
    """Admits messages and hands them to their conversations."""

    def __init__(
        self,
        coordinator: ConversationCoordinator,
        directory: Directory,
        circle: PeerGroup,
        clock: Clock,
        *,
        names: Mapping[PublicKey, str],
        slugs: Mapping[PublicKey, Slug],
        per_minute: int = PER_MINUTE,
        workflows: Collection[PublicKey] = (),
        oldest: Callable[[InboundMessage], int] = lambda _: 0,
    ) -> None:
        """Stand at the door.

        Args:
            coordinator: takes what is admitted.
            directory: knows which events and conversations there are.
            circle: who may talk here.
            clock: tells the minute.
            names: what people call themselves; may grow while we serve.
            slugs: which of our keys is which agent or workflow.
            per_minute: messages one person may send in a minute, owners excepted.
            workflows: the keys a p tag alone calls, where it begins a conversation.
            oldest: the second before which a message cannot be new where it was heard.
        """
        self._oldest = oldest
        self._coordinator = coordinator
        self._directory = directory
        self._circle = circle
        self._clock = clock
        self._names = names
        self._slugs = slugs
        self._workflows = workflows
        self._per_minute = per_minute
        self._rates: OrderedDict[PublicKey, tuple[int, float]] = OrderedDict()
        """When each author last sent something, in ms, and how many more they could have sent then."""
        self._queues: dict[PublicKey, deque[InboundMessage]] = {}
        self._is_queued = asyncio.Event()
        self._places: OrderedDict[str, ConversationId] = OrderedDict()
        self._early: OrderedDict[EventId, InboundMessage] = OrderedDict()
        self.counts: Counter[Admission] = Counter()
        self.is_closed = False

    def change(self, circle: PeerGroup, slugs: Mapping[PublicKey, Slug], workflows: Collection[PublicKey] = ()) -> None:
        """Go by other people, agents and workflows from the next message on."""
        self._circle, self._slugs, self._workflows = circle, slugs, workflows

    def knows(self, author: PublicKey) -> bool:
        """Tell whether this person may talk here, so that nothing is read of what others write."""
        return self._circle.role(author) is not None

    async def run(self) -> None:
        """Receive what waits its turn, until cancelled."""
        pause = 60_000 // self._per_minute
        while True:
            await self._is_queued.wait()
            await self._clock.sleep_until(Millis(self._clock.now() + pause))
            for author, queue in list(self._queues.items()):
                while queue and self._takes_turn(author):
                    self.receive(queue.popleft(), has_turn=True)
                if not queue:
                    del self._queues[author]
            if not self._queues:
                self._is_queued.clear()

    def receive(self, message: InboundMessage, *, has_turn: bool = False) -> Admission:
        """Take a verified message in, or say why not. A second copy is a duplicate, also after a restart.

        `has_turn` is for one that is within its author's rate already.
        """
        verdict = self._receive(message, has_turn=has_turn)
        self.counts[verdict] += 1
        log.debug("message.received", verdict=verdict, event_id=message.event_id)
        if verdict is Admission.ELSEWHERE:
            self._early[message.event_id] = message
            if len(self._early) > EARLY:
                self._early.popitem(last=False)
        elif verdict is Admission.ADMITTED:
            thread = {message.event_id, self._places[message.event_id]}
            for reply in [early for early in self._early.values() if not thread.isdisjoint(early.references)]:
                del self._early[reply.event_id]
                self.receive(reply)
        return verdict

    def _receive(self, message: InboundMessage, *, has_turn: bool) -> Admission:
        role = self._circle.role(message.author)
        if role is None:
            return Admission.STRANGER
        if message.by_machine and not message.mentions:
            return Admission.MACHINE
        if self.is_closed:
            return Admission.CLOSED
        if message.event_id in self._places or self._directory.conversation_of(message.event_id) is not None:
            return Admission.DUPLICATE
        if not message.text.strip():
            return Admission.EMPTY
        if len(message.text) > LARGEST:
            log.warning("message.too_large", event_id=message.event_id, characters=len(message.text))
            return Admission.TOO_LARGE
        known = self._known(message)
        conversation = known or (message.conversation if message.starts else None)
        # a folder of which a crash left nothing but its name is no conversation yet
        is_new = known is None or str(known) == message.event_id
        if conversation is None:
            return Admission.ELSEWHERE
        if message.created_at < self._oldest(message):
            log.warning("message.too_old", event_id=message.event_id, created_at=message.created_at)
            return Admission.TOO_OLD
        if role is not Role.OWNER and not has_turn and (refused := self._queue(message)) is not None:
            return refused
        called = [*message.mentions, *(key for key in message.tagged if key in self._workflows and is_new)]
        addressed = tuple(dict.fromkeys(self._slugs[key] for key in called if key in self._slugs))
        name = self._names.get(message.author) or f"person-{message.author[:8]}"
        self._remember(message.event_id, conversation)
        self._coordinator.deliver(
            conversation, MessageReceived(message=message, role=role, name=name, addressed=addressed)
        )
        return Admission.ADMITTED

    def _known(self, message: InboundMessage) -> ConversationId | None:
        """The conversation of an event it refers to, then of the root; None for what none of ours is about."""
        for reference in message.references:
            known = self._places.get(reference) or self._directory.conversation_of(reference)
            known = known or self._named(reference)
            if known is not None:
                return known
        return self._named(message.conversation)

    def _named(self, root: str) -> ConversationId | None:
        """The conversation of that id, whose own event may still be on its way; None if there is none."""
        name = ConversationId(root)
        return name if name in self._coordinator or self._directory.exists(name) else None

    def _remember(self, event_id: str, conversation: ConversationId) -> None:
        self._places[event_id] = conversation
        if len(self._places) > AUTHORS:
            self._places.popitem(last=False)

    def _queue(self, message: InboundMessage) -> Admission | None:
        """Let a message wait its turn; None where its author is within the rate, so that it need not."""
        queue = self._queues.get(message.author, deque())
        if any(waiting.event_id == message.event_id for waiting in queue):
            return Admission.DUPLICATE
        if not queue and self._takes_turn(message.author):
            return None
        if len(queue) >= BACKLOG * self._per_minute or sum(map(len, self._queues.values())) >= QUEUED:
            log.warning("author.too_many", author=message.author[:8], per_minute=self._per_minute)
            return Admission.TOO_MANY
        queue.append(message)
        self._queues[message.author] = queue
        self._is_queued.set()
        return Admission.QUEUED

    def _takes_turn(self, author: PublicKey) -> bool:
        """Count one message of an author now, if that is within the rate."""
        now = self._clock.now()
        at, left = self._rates.pop(author, (now, float(self._per_minute)))
        left = min(self._per_minute, left + max(0, now - at) * self._per_minute / 60_000)
        is_within = left >= 1
        self._rates[author] = (now, left - is_within)
        if len(self._rates) > AUTHORS:
            self._rates.popitem(last=False)
        return is_within
