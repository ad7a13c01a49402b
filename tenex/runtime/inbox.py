"""Admission: who may write, which conversation a message belongs to, and the rate limit per author.

Messages of unauthorized senders are ignored and counted, never answered, never logged in full. Duplicates are found by
event id, which the journal and the directory keep.

The rate is counted by arrival, not by the date in the event. Messages above it are queued, so that what was written
while the daemon was down is not lost; beyond a bound they are refused. All guests together have a rate too: a message
is some ms of work before any limit of a day counts, and anybody may send hundreds with as many keys. The messages of
owners and members are read meanwhile, and do not wait behind them.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from tenex.core.config import PeerGroup, Role
from tenex.core.identity.state import title_of
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.inbox.commands import parse
from tenex.core.people.trust import chat_of
from tenex.core.ports import Clock, Directory
from tenex.core.signals import ConversationLeft, InboundMessage, MessageDeleted, MessageReceived
from tenex.core.text.foreign import trimmed
from tenex.core.text.names import placeholder
from tenex.log import get_logger

from .coordinator import ConversationCoordinator

log = get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")

AUTHORS = 10_000
"""Authors whose rate is kept, and message ids; the oldest are evicted."""
BACKLOG = 10
"""Minutes' worth of one author's messages that may be queued; more are refused."""
QUEUED = 1000
"""Messages of all guests together that may be queued, and as many of all others."""
GUESTS_PER_MINUTE = 600
"""Messages of all guests together: some 7 ms of work each, so that guests take less than a tenth of the time."""
GUESTS_AT_ONCE = 30
"""Of these at once, after some seconds of silence."""
GUESTS = PublicKey("")
"""Under which the rate of all guests is kept."""
EARLY = 100
"""Replies kept in case the first message of their thread arrives later."""
LARGEST = 256 * 1024
"""Characters of one message: four events of the usual size limit, far more than a user types."""
PER_MINUTE = 30
"""Messages an author may send in a minute, except owners: three times what one can type."""
NEW: Final = "new"
"""The command that begins another conversation in direct messages."""


class Admission(StrEnum):
    """The result of admission."""

    ADMITTED = "admitted"
    STRANGER = "stranger"
    DUPLICATE = "duplicate"
    ELSEWHERE = "elsewhere"
    """It starts no conversation and belongs to none that is known, so far."""
    MACHINE = "machine"
    """A program's message that does not mention us: agents must not trigger each other in a thread."""
    EMPTY = "empty"
    """It has no text."""
    QUEUED = "queued"
    """Its author exceeds the rate limit: it is received again later."""
    EXPIRED = "expired"
    """Its author wanted it ignored by now (NIP-40)."""
    DELETED = "deleted"
    """Its author has deleted it (NIP-09)."""
    TOO_OLD = "too_old"
    """Too old to be new: a relay repeats a message whose conversation was deleted here."""
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a message belongs."""

    message: InboundMessage
    """As its conversation takes it."""
    existing: ConversationId | None = None
    """The conversation that it goes on with; None where it begins one, if it may."""
    left: ConversationId | None = None
    """The conversation of its room that is over by that."""


class Inbox:
    """Admits messages and hands them to their conversations."""

    def __init__(
        self,
        coordinator: ConversationCoordinator,
        directory: Directory,
        peers: PeerGroup,
        clock: Clock,
        *,
        names: Mapping[PublicKey, str],
        slugs: Mapping[PublicKey, Slug],
        per_minute: int = PER_MINUTE,
        workflows: Collection[PublicKey] = (),
        oldest: Callable[[InboundMessage], int] = lambda _: 0,
        is_room_guest: Callable[[PublicKey, str], bool] = lambda _author, _chat: False,
    ) -> None:
        """Configure admission.

        Args:
            coordinator: takes what is admitted.
            directory: knows which events and conversations there are.
            peers: the authorized users and their roles.
            clock: for the rate limit.
            names: display names by key; may grow.
            slugs: which of our keys is which agent or workflow.
            per_minute: messages an author may send in a minute, except owners.
            workflows: keys that a p tag alone addresses in the first message of a conversation.
            oldest: the second before which a message cannot be new on its relay.
            is_room_guest: whether somebody may write in a chat (`trust.chat_of`) as a member of that room.
        """
        self._oldest = oldest
        self._is_room_guest = is_room_guest
        self._coordinator = coordinator
        self._directory = directory
        self._peers = peers
        self._clock = clock
        self._names = names
        self._slugs = slugs
        self._workflows = workflows
        self._per_minute = per_minute
        self._rates: OrderedDict[PublicKey, tuple[int, float]] = OrderedDict()
        """When each author last sent something, in ms, and how many more they could have sent then."""
        self._queues: dict[PublicKey, deque[InboundMessage]] = {}
        self._is_queued = asyncio.Event()
        self._conversations: OrderedDict[str, ConversationId] = OrderedDict()
        self._rooms: OrderedDict[ConversationId, str] = OrderedDict()
        """The rooms of conversations that began in this process."""
        self._chats: OrderedDict[ConversationId, str] = OrderedDict()
        """The chats of conversations that began in this process."""
        self._newest: OrderedDict[str, tuple[ConversationId, str]] = OrderedDict()
        """The newest of them of each room, and its title."""
        self._early: OrderedDict[EventId, InboundMessage] = OrderedDict()
        self._deleted: OrderedDict[tuple[EventId, str], None] = OrderedDict()
        """Deleted events and who deleted them, or the chat whose moderation did: relays send a deletion also before
        what it deletes."""
        self.counts: Counter[Admission] = Counter()
        self.is_closed = False

    def change(self, peers: PeerGroup, slugs: Mapping[PublicKey, Slug], workflows: Collection[PublicKey] = ()) -> None:
        """Use other users, agents and workflows from the next message on."""
        self._peers = peers
        self._slugs = slugs
        self._workflows = workflows

    def knows(self, author: PublicKey) -> bool:
        """Whether this author is authorized."""
        return self._peers.role(author) is not None

    async def run(self) -> None:
        """Receive queued messages within the rate, until cancelled."""
        pause = 60_000 // self._per_minute
        while True:
            await self._is_queued.wait()
            await self._clock.sleep_until(Millis(self._clock.now() + pause))
            for author, queue in list(self._queues.items()):
                is_guest = self._is_guest(author)
                while queue and self._may_go_on(author, is_guest=is_guest):
                    self.receive(queue.popleft(), has_turn=True)
                if not queue:
                    del self._queues[author]
            if not self._queues:
                self._is_queued.clear()

    def receive(self, message: InboundMessage, *, has_turn: bool = False, is_new: bool = False) -> Admission:
        """Admit a verified message or return why not. A second copy is a duplicate, also after a restart.

        `has_turn` skips the rate limit. Where the event `is_new` at its relay, a refusal for its date is answered.
        """
        events = (message.event_id, message.edits or message.event_id)
        by = (message.author, chat_of(message.address))
        is_deleted = any((event, who) in self._deleted for event in events for who in by)
        verdict = Admission.DELETED if is_deleted else self._receive(message, has_turn=has_turn)
        if verdict is Admission.TOO_OLD and is_new and not message.is_reaction:
            self._coordinator.report_date(message, is_guest=self._is_guest(message.author))
        self.counts[verdict] += 1
        log.debug("message.received", verdict=verdict, event_id=message.event_id)
        if verdict is Admission.ELSEWHERE:
            self._early[message.event_id] = message
            if len(self._early) > EARLY:
                self._early.popitem(last=False)
        elif verdict is Admission.ADMITTED:
            thread = {message.event_id, self._conversations[message.event_id]}
            for reply in [early for early in self._early.values() if not thread.isdisjoint(early.references)]:
                if self._early.pop(reply.event_id, None) is not None:  # one before it may have brought it along
                    self.receive(reply)
        return verdict

    def look_again(self, conversation: ConversationId) -> None:
        """Go by the directory where another worker has written: which conversation of its room is the newest there.

        Early replies are received once more, because it may have recorded their thread.
        """
        self._ask_for_newest(self._directory.room_of(conversation) or self._directory.chat_of(conversation))
        early = self._early
        self._early = OrderedDict()
        for message in early.values():
            self.receive(message)

    def hand_on(self, signal: MessageReceived, wrong: ConversationId, right: ConversationId) -> None:
        """Deliver a message to the conversation for which another worker took it, which is not the one chosen here."""
        _remember(self._conversations, signal.message.event_id, right)
        room = _talk_of(signal.message)
        newest = self._newest.get(room)
        if newest is not None and newest[0] == wrong:
            self._ask_for_newest(room)
            if room in self._newest:  # that conversation has not begun, and never will
                self.add_room(room, right, newest[1])
        self._coordinator.deliver(right, signal)

    def _ask_for_newest(self, room: str) -> None:
        """Have the directory say which conversation of a room is the newest, where it knows the one chosen here."""
        newest = self._newest.get(room)
        if newest is not None and room in (self._directory.room_of(newest[0]), self._directory.chat_of(newest[0])):
            del self._newest[room]

    def delete(
        self, event_id: EventId, author: PublicKey, *, is_member: bool = False, moderated: str | None = None
    ) -> None:
        """Take back a message whose event was deleted, as far as no work has begun on it.

        Args:
            event_id: what was deleted.
            author: who deleted it; it counts if they wrote the message.
            is_member: whether they may write as a member of a room.
            moderated: the room that they moderate, where whatever is in it may have been written by others.
        """
        if not is_member and moderated is None and not self.knows(author):
            return
        self._deleted[event_id, moderated or author] = None
        if len(self._deleted) > AUTHORS:
            self._deleted.popitem(last=False)
        conversation = self._conversations.get(event_id) or self._directory.conversation_of(event_id)
        if conversation is None or self.is_closed:
            return
        is_moderated = moderated is not None and self._chat_of(conversation) == moderated
        signal = MessageDeleted(event_id=event_id, author=author, is_moderated=is_moderated)
        self._coordinator.deliver(conversation, signal)

    def _receive(self, received: InboundMessage, *, has_turn: bool) -> Admission:
        role = self._role_of(received)
        if role is None:
            return Admission.STRANGER
        if received.by_machine and not received.mentions:
            return Admission.MACHINE
        if self.is_closed:
            return Admission.CLOSED
        if received.event_id in self._conversations or self._directory.conversation_of(received.event_id) is not None:
            return Admission.DUPLICATE

        place = self._place(received)
        message = place.message
        existing = place.existing
        is_root = existing == ConversationId(message.event_id)
        if existing is not None and not is_root and self._directory.imported(message.event_id) == existing:
            return Admission.DUPLICATE
        if message.has_expired(self._clock.now()):
            return Admission.EXPIRED
        if not trimmed(message.text):  # nothing that anybody sees
            return Admission.EMPTY
        if len(message.text) > LARGEST:
            log.warning("message.too_large", event_id=message.event_id, characters=len(message.text))
            return Admission.TOO_LARGE

        conversation = existing or (message.conversation if message.starts else None)
        if conversation is None:
            return Admission.ELSEWHERE
        if message.created_at < self._oldest(message):
            log.warning("message.too_old", event_id=message.event_id, created_at=message.created_at)
            return Admission.TOO_OLD
        is_limited = role is not Role.OWNER and not has_turn
        queued = self._queue(received, is_guest=role is Role.GUEST) if is_limited else None
        if queued is not None:
            return queued

        # a crash may have left an empty folder, which is not a conversation
        is_new = existing is None or str(existing) == message.event_id
        called = [*message.mentions, *(key for key in message.tagged if key in self._workflows and is_new)]
        addressed = tuple(dict.fromkeys(self._slugs[key] for key in called if key in self._slugs))
        name = self._names.get(message.author) or placeholder(message.author, self._peers.owners)

        _remember(self._conversations, message.event_id, conversation)
        self._note_beginning(place, role, name)
        signal = MessageReceived(
            message=message, role=role, name=name, addressed=addressed, is_plain=message.by_program
        )
        self._coordinator.deliver(conversation, signal)
        return Admission.ADMITTED

    def _is_guest(self, author: PublicKey) -> bool:
        """Whether an author is neither owner nor member; who writes in rooms may be nobody elsewhere."""
        return self._peers.role(author) in (Role.GUEST, None)

    def _role_of(self, message: InboundMessage) -> Role | None:
        """What the author of a message may do; None for a stranger."""
        role = self._peers.role(message.author)
        lacks_work = role is Role.GUEST and _work(message.event_id) < self._peers.guest_work
        if role is not None and not lacks_work:
            return role
        return Role.GUEST if self._is_room_guest(message.author, self._chat_written_in(message)) else None

    def _chat_written_in(self, message: InboundMessage) -> str:
        """The chat of a message; of a reaction, which may name nothing but an event, the one of that event."""
        if not message.is_reaction:
            return chat_of(message.address)
        target = message.reply_to or ""
        conversation = self._conversations.get(target) or self._directory.conversation_of(target)
        return self._chat_of(conversation) if conversation is not None else ""

    def _place(self, message: InboundMessage) -> _Place:
        """The conversation of a message. What was written in direct messages, and what was not, never meet in one."""
        talk = _talk_of(message)
        if talk:
            return self._place_in_talk(message, talk)
        existing = self._existing(message)
        if any(map(self._room_of, {existing, message.conversation})):
            return _Place(message=replace(message, starts=False))
        return _Place(message=message, existing=existing)

    def _place_in_talk(self, message: InboundMessage, talk: str) -> _Place:
        """The conversation of direct messages that it replies to, else the newest; or none, where it begins the next.

        Of messages between people these are private; of a group they are in its chat.
        """
        for reference in message.references:
            conversation = self._conversations.get(reference) or self._directory.conversation_of(reference)
            if conversation is not None and talk == (self._room_of(conversation) or self._chat_of(conversation)):
                return _Place(message=message, existing=conversation)
        if message.is_reaction:
            return _Place(message=replace(message, starts=False))
        newest, title = self._newest_in(talk)
        command = None if message.by_program else parse(message.text)
        if command is not None and command.name == NEW:
            text = command.argument or message.text
            return _Place(message=replace(message, text=text), left=newest)
        if message.title and newest is not None and title_of(message.title) != title:
            return _Place(message=message, left=newest)
        return _Place(message=message, existing=newest)

    def _room_of(self, conversation: ConversationId | None) -> str:
        if conversation is None:
            return ""
        room = self._rooms.get(conversation)
        return self._directory.room_of(conversation) if room is None else room

    def _chat_of(self, conversation: ConversationId) -> str:
        chat = self._chats.get(conversation)
        return self._directory.chat_of(conversation) if chat is None else chat

    def _newest_in(self, room: str) -> tuple[ConversationId | None, str]:
        """The newest conversation of a room, and its title."""
        return self._newest.get(room) or self._directory.newest_in(room) or (None, "")

    def add_room(self, room: str, conversation: ConversationId, title: str) -> None:
        """Have messages of a room go on in this conversation from now on."""
        _remember(self._rooms, conversation, room)
        _remember(self._newest, room, (conversation, title))

    def _note_beginning(self, place: _Place, role: Role, name: str) -> None:
        """Note in which chat or room a conversation begins, and have what runs in the one end that is left for it."""
        message = place.message
        if place.existing is not None:
            return
        _remember(self._chats, message.conversation, chat_of(message.address))
        talk = _talk_of(message)
        if not talk:
            return
        title = title_of(message.title or message.text)
        if message.room:
            self.add_room(talk, message.conversation, title)
        else:
            _remember(self._newest, talk, (message.conversation, title))
        if place.left is not None:
            self._coordinator.deliver(place.left, ConversationLeft(author=message.author, role=role, name=name))

    def _existing(self, message: InboundMessage) -> ConversationId | None:
        """The conversation of a referenced event, then of the root; None if there is none.

        What was received or sent here comes first: an import may name any id. A message of a chat answers by quoting,
        so what it quotes of another chat, of a thread or of direct messages is only quoted.
        """
        is_in_thread = str(message.conversation) != message.event_id or message.is_reaction
        chat = chat_of(message.address)
        for reference in message.references:
            conversation = self._conversations.get(reference) or self._directory.conversation_of(reference)
            conversation = conversation or self._named(reference)
            if conversation is None:
                continue
            is_here = self._chat_of(conversation) == chat and not self._room_of(conversation)
            if is_in_thread or is_here:
                return conversation
        conversation = self._named(message.conversation)
        imported = map(self._directory.imported, (*message.references, message.conversation))
        return conversation or next((name for name in imported if name is not None), None)

    def _named(self, root: str) -> ConversationId | None:
        """The conversation of that id, whose first event may not have arrived; None for none, or an imported one."""
        name = ConversationId(root)
        if name not in self._coordinator and not self._directory.exists(name):
            return None
        return None if self._directory.imported(name) == name else name

    def _queue(self, message: InboundMessage, *, is_guest: bool) -> Admission | None:
        """Queue a message; None if its author is within the rate."""
        queue = self._queues.get(message.author, deque())
        if any(waiting.event_id == message.event_id for waiting in queue):
            return Admission.DUPLICATE
        if not queue and self._may_go_on(message.author, is_guest=is_guest):
            return None
        if len(queue) >= BACKLOG * self._per_minute or self._queued(is_guest=is_guest) >= QUEUED:
            log.warning("author.rate_limited", author=message.author[:8], per_minute=self._per_minute)
            return Admission.TOO_MANY
        queue.append(message)
        self._queues[message.author] = queue
        self._is_queued.set()
        return Admission.QUEUED

    def _queued(self, *, is_guest: bool) -> int:
        """How many messages of guests, or of all others, are queued."""
        theirs = (queue for author, queue in self._queues.items() if self._is_guest(author) is is_guest)
        return sum(map(len, theirs))

    def _may_go_on(self, author: PublicKey, *, is_guest: bool) -> bool:
        """Count one message of an author if that is within the rate; a guest's if it is within that of all guests."""
        if not self._takes_turn(author, self._per_minute, self._per_minute):
            return False
        return not is_guest or self._takes_turn(GUESTS, GUESTS_PER_MINUTE, GUESTS_AT_ONCE)

    def _takes_turn(self, author: PublicKey, per_minute: int, at_once: int) -> bool:
        """Count one message if that is within a rate."""
        now = self._clock.now()
        at, left = self._rates.pop(author, (now, float(at_once)))
        left = min(at_once, left + max(0, now - at) * per_minute / 60_000)
        is_within = left >= 1
        self._rates[author] = (now, left - is_within)
        if len(self._rates) > AUTHORS:
            self._rates.popitem(last=False)
        return is_within


def _talk_of(message: InboundMessage) -> str:
    """Where a message continues the newest conversation: the people, or the group, of direct messages; else ""."""
    return message.room or (chat_of(message.address) if message.is_direct else "")


def _remember(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep a value, and at most `AUTHORS` of them."""
    kept[key] = value
    if len(kept) > AUTHORS:
        kept.popitem(last=False)


def _work(event_id: EventId) -> int:
    """The proof of work in the id of an event: the zero bits it begins with (NIP-13)."""
    return 256 - int(event_id, 16).bit_length()
