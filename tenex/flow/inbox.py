"""The door: who may come in, which conversation a message belongs to, and how much one person may send.

Strangers are ignored and counted, never answered, never logged in full. A message is known again by its event id,
which the journal and the directory keep; the bounds here only keep one person from flooding us.

Never: wait; what cannot be taken now is refused with a reason.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from enum import StrEnum

import structlog

from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.ports import Clock, Directory
from tenex.core.roster import Circle, Role
from tenex.core.signals import Incoming, PersonSpoke

from .coordinator import ConversationCoordinator

log = structlog.get_logger(__name__)

AUTHORS = 10_000
"""Authors whose rate is remembered; the one not heard of longest is forgotten first."""
BACKLOG = 10
"""Times that rate at which one person's messages may come in, whenever they say they wrote them."""
EARLY = 100
"""Replies kept in case the message that begins their thread arrives after them."""
LARGEST = 256 * 1024
"""Characters of one message: four events of the usual size limit, and far above what anybody types."""
PER_MINUTE = 30
"""Messages one person may send in a minute, owners excepted: three times what one can type."""


class Verdict(StrEnum):
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
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    CLOSED = "closed"


class Inbox:
    """Admits messages and hands them to their conversations."""

    def __init__(
        self, coordinator: ConversationCoordinator, directory: Directory, circle: Circle, clock: Clock, *,
        names: Mapping[PublicKey, str], slugs: Mapping[PublicKey, Slug], per_minute: int = PER_MINUTE,
        workflows: Collection[PublicKey] = (),
    ) -> None:  # fmt: skip
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
        """
        self._coordinator = coordinator
        self._directory = directory
        self._circle = circle
        self._clock = clock
        self._names = names
        self._slugs = slugs
        self._workflows = workflows
        self._per_minute = per_minute
        self._heard: OrderedDict[PublicKey, tuple[int, int]] = OrderedDict()
        self._places: OrderedDict[str, ConversationId] = OrderedDict()
        self._early: OrderedDict[EventId, Incoming] = OrderedDict()
        self.counts: Counter[Verdict] = Counter()
        self.is_closed = False

    def change(self, circle: Circle, slugs: Mapping[PublicKey, Slug], workflows: Collection[PublicKey] = ()) -> None:
        """Go by other people, agents and workflows from the next message on."""
        self._circle, self._slugs, self._workflows = circle, slugs, workflows

    def knows(self, author: PublicKey) -> bool:
        """Tell whether this person may talk here, so that nothing is read of what others write."""
        return self._circle.role(author) is not None

    def receive(self, message: Incoming) -> Verdict:
        """Take a verified message in, or say why not. A second copy is a duplicate, also after a restart."""
        verdict = self._receive(message)
        self.counts[verdict] += 1
        log.debug("message.received", verdict=verdict, event_id=message.event_id)
        if verdict is Verdict.ELSEWHERE:
            self._early[message.event_id] = message
            if len(self._early) > EARLY:
                self._early.popitem(last=False)
        elif verdict is Verdict.ADMITTED:
            thread = {message.event_id, self._places[message.event_id]}
            for reply in [early for early in self._early.values() if not thread.isdisjoint(early.references)]:
                del self._early[reply.event_id]
                self.receive(reply)
        return verdict

    def _receive(self, message: Incoming) -> Verdict:
        role = self._circle.role(message.author)
        if role is None:
            return Verdict.STRANGER
        if message.by_machine and not message.mentions:
            return Verdict.MACHINE
        if self.is_closed:
            return Verdict.CLOSED
        if message.event_id in self._places or self._directory.conversation_of(message.event_id) is not None:
            return Verdict.DUPLICATE
        if not message.text.strip():
            return Verdict.EMPTY
        if len(message.text) > LARGEST:
            log.warning("message.too_large", event_id=message.event_id, characters=len(message.text))
            return Verdict.TOO_LARGE
        known = self._known(message)
        conversation = known or (message.conversation if message.starts else None)
        # a folder of which a crash left nothing but its name is no conversation yet
        is_new = known is None or str(known) == message.event_id
        if conversation is None:
            return Verdict.ELSEWHERE
        if role is not Role.OWNER and self._is_flooding(message):
            return Verdict.TOO_MANY
        called = [*message.mentions, *(key for key in message.tagged if key in self._workflows and is_new)]
        addressed = tuple(dict.fromkeys(self._slugs[key] for key in called if key in self._slugs))
        name = self._names.get(message.author) or f"person-{message.author[:8]}"
        self._remember(message.event_id, conversation)
        self._coordinator.deliver(conversation, PersonSpoke(message=message, role=role, name=name, addressed=addressed))
        return Verdict.ADMITTED

    def _known(self, message: Incoming) -> ConversationId | None:
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

    def _is_flooding(self, message: Incoming) -> bool:
        """Whether one person sends more than one can read.

        Counted by the minute a message was written in, so that what was written while we were away is not too much at
        once; and, because that is only what its author says, by the minute it came in, at `BACKLOG` times the rate.
        """
        now = self._clock.now() // 60_000
        written = self._count(message.author, message.created_at // 60)
        came = self._count(PublicKey(f"{message.author} now"), now)
        if written <= self._per_minute and came <= BACKLOG * self._per_minute:
            return False
        log.warning("author.too_many", author=message.author[:8], per_minute=self._per_minute)
        return True

    def _count(self, who: PublicKey, minute: int) -> int:
        last, count = self._heard.pop(who, (minute, 0))
        count = count + 1 if last == minute else 1
        self._heard[who] = (minute, count)
        if len(self._heard) > AUTHORS:
            self._heard.popitem(last=False)
        return count
