"""A relay of rooms (NIP-29) with the rules of Buzz's, each of which can be switched off.

The rules are those of the relay of github.com/block/buzz in September 2026, and the texts of the answers are quoted
from its sources. With `Rules.plain()` it is a relay of NIP-29 alone: many keys to a connection, every kind, live events
to every subscription that matches. Members come and go by 9000, 9001, 9021 and 9022. Its store of files is
`relay_store`. Left out: git.
"""

import asyncio
import json
import time
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tenex.core.errors import InvalidEvent
from tenex.core.ids import PublicKey
from tenex.nostr.attestations import holds_for, parse_attestation
from tenex.nostr.events import is_genuine, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.filters import Matcher
from tenex.nostr.keys import SecretKey

from . import room_interactions as interactions
from .relay_store import QUIET, RelayStore, StoreConnection, given
from .room_interactions import Interactions

Raw = dict[str, Any]

OF_THE_WORKSPACE: Final = frozenset({0, 1, 3, 10002, 10100, 30023, 30315, 44200})
"""Kinds that belong to no room."""
IN_A_ROOM: Final = frozenset({9, 40002, 40003, 40008, 45001, 45003, 9000, 9001, 9002, 9005, 9022})
"""`invalid: channel-scoped events must include an h tag`."""
KINDS: Final = OF_THE_WORKSPACE | IN_A_ROOM | {5, 7, 1059, 9007, 9021}
"""All others are refused: `restricted: unknown event kind`."""
PUT_USER, REMOVE_USER, JOIN, LEAVE = 9000, 9001, 9021, 9022
AGENT_PROFILE, PRESENCE, TURN_COST = 10100, 20001, 44200
ROLES: Final = ("owner", "admin", "member", "guest", "bot")
MODERATING: Final = frozenset({"owner", "admin"})
"""Roles that may delete what others wrote, and add others to a private room."""
GATED: Final = frozenset({1059, 24200, 30622, 44100, 44101, 44200})
"""Kinds that are given only to a filter whose `#p` is exactly the key of the connection."""
AUTH_WITHIN: Final = 5.0
AUTH_MAY_DIFFER: Final = 60
DATES_MAY_DIFFER: Final = 900
FRAMES: Final = (50, 5.0)
"""REQs and EVENTs of a key, and in how many seconds."""
EVENTS: Final = (60, 60.0)
LARGEST: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the relay demands."""

    one_key: bool = True
    """One AUTH to a connection, and only events of that key."""
    auth_first: bool = True
    """AUTH within five seconds, and nothing before."""
    live_by_room: bool = True
    """New events of a room go only to subscriptions whose filters all name it, and no other."""
    gated: bool = True
    listed_kinds: bool = True
    dates: bool = True
    quotas: bool = True
    events: tuple[int, float] = EVENTS
    """Events of a key, and in how many seconds."""
    threads: bool = True
    """Marks of replies are checked, and 39000 has the type of a room in `t`."""
    store: bool = True
    """Files are stored on its host."""
    interactions: bool = False
    """Prompts with buttons are taken, and the document says so: an experiment of Buzz's that operators switch on."""
    max_subscriptions: int = 1024
    largest: int = LARGEST
    """Bytes of the content of an event."""
    says_largest: bool = True
    """Whether its document says so."""
    keys: frozenset[str] | None = None
    """The members of the workspace; None: everybody. Others are refused at AUTH, but for those whom a member has
    attested (NIP-OA)."""

    @classmethod
    def plain(cls, **more: Any) -> Self:
        """The rules of NIP-29 alone."""
        off = dict.fromkeys(
            ("one_key", "auth_first", "live_by_room", "gated", "listed_kinds", "dates", "quotas", "threads", "store"),
            False,
        )
        return cls(**{**off, **more})


@dataclass(slots=True, kw_only=True)
class Room:
    """A room and its members, with their roles."""

    id: str
    name: str
    private: bool = False
    sort: str = "stream"
    """`stream`, `forum` or `dm`."""
    members: dict[str, str] = field(default_factory=dict)


class RefusedEvent(Exception):
    """Holds what the relay answers."""


class RoomRelay:
    """The relay. `published` lists the events that were sent to it, each copy; `answers` the OK of each."""

    def __init__(self, rules: Rules, now: Callable[[], float]) -> None:
        self.rules = rules
        self.now = now
        self.key = SecretKey.generate()
        self.port = 0
        self.rooms: dict[str, Room] = {}
        self.stored: list[tuple[Raw, str]] = []
        """The events, each with its room; "" for those of the workspace."""
        self.published: list[Raw] = []
        self.answers: list[tuple[Raw, bool, str]] = []
        self.notices: list[str] = []
        self.frames: list[tuple[float, str, str]] = []
        """When a frame came, by which key, and its first word."""
        self.clients: set[RoomClient] = set()
        self.usage: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)
        self.interactions = Interactions(self.say, lambda key, room: key in self.rooms[room].members, now)
        self.owners: dict[str, str] = {}
        """Who has attested each key that has shown it at AUTH (NIP-OA): the first one stays."""
        self.presence: dict[str, str] = {}
        """What each key has said last of whether it is there (20001)."""
        self.on_frame: Callable[[RoomClient, list[Any]], bool] = lambda client, frame: True
        """Whether the relay takes a frame that has come; a fault may do more with it."""
        self.on_send: Callable[[RoomClient, list[Any]], Sequence[list[Any]]] = lambda client, frame: [frame]
        """What is sent in place of a frame."""
        self.document_status = 200
        """The HTTP status of its document."""
        self.store = RelayStore(is_member=self._is_known, now=now, is_there=rules.store)
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    # ---- what a test does to it ----

    def make(self, name: str, *members: str, private: bool = False, sort: str = "stream") -> str:
        """Make a room with these members; returns its id."""
        room = Room(id=str(uuid.uuid4()), name=name, private=private, sort=sort)
        self.rooms[room.id] = room
        for member in members:
            room.members[member] = "member"
        self._announce(room)
        for member in members:
            self._by_relay(44100, [["p", member], ["h", room.id]])
        return room.id

    def add(self, room_id: str, member: str, role: str = "member") -> None:
        room = self.rooms[room_id]
        room.members[member] = role
        self._announce(room)
        self._by_relay(44100, [["p", member], ["h", room_id]])

    def remove(self, room_id: str, member: str) -> None:
        room = self.rooms[room_id]
        room.members.pop(member, None)
        self._announce(room)
        self._by_relay(44101, [["p", member], ["h", room_id]])

    def publish_own(self, kind: int, tags: Sequence[Sequence[str]], room: str) -> None:
        """Publish an event of the relay itself in a room."""
        self._by_relay(kind, tags, room)

    def accepted(self, kind: int, **tags: str) -> list[Raw]:
        """The stored events of a kind, each once, that have these tags."""
        kept = (event for event, _ in self.stored if event["kind"] == kind)
        return [event for event in kept if all(value in _values(event, name) for name, value in tags.items())]

    def write(self, event: Raw) -> str:
        """Take an event as if by the connection of somebody; returns its id."""
        self._take(event, self.place_of(event, event["pubkey"]))
        return str(event["id"])

    async def stop(self) -> None:
        """Hang up and take no connection."""
        if self._server is None:
            return
        for client in list(self.clients):
            client.cut()
        self._server.close()
        await self._server.wait_closed()
        self._server = None

    async def start(self) -> None:
        """Listen; after a stop on the same port."""
        connection = type("Connection", (StoreConnection,), {"store": self.store})
        self._server = await serve(
            self._talk,
            "127.0.0.1",
            self.port,
            process_request=self._document,
            ping_interval=None,
            close_timeout=0.2,
            max_size=1 << 21,
            create_connection=connection,
            logger=QUIET,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        self.store.url = f"http://127.0.0.1:{self.port}"

    # ---- what it does ----

    def say(self, kind: int, tags: Sequence[Sequence[str]], room: str, content: str) -> str:
        """Publish an event of the relay's own; returns its id."""
        return self._by_relay(kind, tags, room, content)

    def _by_relay(self, kind: int, tags: Sequence[Sequence[str]], room: str = "", content: str = "") -> str:
        draft = unsigned_event(self.key.public, int(self.now()), kind, tags, content)
        event = to_wire(sign(draft, self.key))
        if 39000 <= kind < 40000:
            address = (kind, room, _values(event, "d"))
            self.stored = [(old, at) for old, at in self.stored if (old["kind"], at, _values(old, "d")) != address]
        self._take(event, room)
        return str(event["id"])

    def _announce(self, room: Room) -> None:
        head = [["d", room.id], *([["t", room.sort]] if self.rules.threads else [])]
        is_private = ["private" if room.private else "public"]
        self._by_relay(39000, [*head, ["name", room.name], is_private, ["closed"]], room.id)
        members = [["p", key, "", role] for key, role in room.members.items()]
        self._by_relay(39002, [*head, *members], room.id)
        moderators = [["p", key, role] for key, role in room.members.items() if role in MODERATING]
        self._by_relay(39001, [["d", room.id], *moderators], room.id)

    def _take(self, event: Raw, room: str) -> None:
        if not 20000 <= event["kind"] < 30000:
            self.stored.append((event, room))
        for client in list(self.clients):
            client.offer(event, room)

    def may_read(self, keys: Sequence[str], event: Raw, room_id: str) -> bool:
        room = self.rooms.get(room_id)
        if room is not None and room.private and room.members.keys().isdisjoint(keys):
            return False
        return not self.rules.gated or event["kind"] not in GATED or not set(keys).isdisjoint(_values(event, "p"))

    def place_of(self, event: Raw, key: str) -> str:
        """The room of an event, "" for one of the workspace.

        Raises:
            RefusedEvent: the relay does not take it.
        """
        kind = event["kind"]
        self._check_event(event)
        targets = _values(event, "e")
        target = next(((old, at) for old, at in self.stored if targets and old["id"] == targets[-1]), None)
        if kind == 7 and target is None:
            raise RefusedEvent("invalid: reaction target event not found")
        room_id = next(iter(_values(event, "h")), "")
        if kind in (5, 7):
            room_id = target[1] if target is not None else ""
        if kind in OF_THE_WORKSPACE or kind in (1059, PRESENCE):
            return ""
        if kind in IN_A_ROOM | interactions.KINDS and not room_id:
            raise RefusedEvent("invalid: channel-scoped events must include an h tag")
        if room_id and kind == JOIN and not self.is_open_to(key, room_id):
            raise RefusedEvent("invalid: channel is private — request an invitation")
        if room_id and not self.is_open_to(key, room_id):
            raise RefusedEvent("restricted: not a channel member")
        if kind in (PUT_USER, REMOVE_USER, LEAVE):
            self._check_membership(event, self.rooms[room_id])
        if kind in IN_A_ROOM | {interactions.PROMPT}:
            self._check_thread(event, room_id)
        self._check_interaction(event, room_id)
        self._check_target(event, target)
        return room_id

    def _check_event(self, event: Raw) -> None:
        """Refuse an event for what it is, to any room."""
        kind = event["kind"]
        try:
            genuine = is_genuine(parse_event(event))
        except InvalidEvent:
            genuine = False
        if not genuine:
            raise RefusedEvent("invalid: bad id or signature")
        is_stored = not 20000 <= kind < 30000
        if is_stored and self.rules.dates and abs(event["created_at"] - self.now()) > DATES_MAY_DIFFER:
            raise RefusedEvent("invalid: event timestamp too far from server time")
        size = len(event["content"].encode())
        largest = self.rules.largest
        if size > largest:
            raise RefusedEvent(f"invalid: content exceeds maximum size of {largest} bytes (got {size})")
        self._check_kind(kind)
        if kind == TURN_COST:
            self._check_cost(event)
        if kind == AGENT_PROFILE and "channel_add_policy" not in json.loads(event["content"]):
            raise RefusedEvent("invalid: kind:10100 missing channel_add_policy field")

    def _check_membership(self, event: Raw, room: Room) -> None:
        kind, actor = event["kind"], event["pubkey"]
        target = actor if kind == LEAVE else next(iter(_values(event, "p")), "")
        is_in_charge = room.members.get(actor) in MODERATING
        role = next(iter(_values(event, "role")), "")
        owners = [key for key, held in room.members.items() if held == "owner"]
        if not target:
            raise RefusedEvent("invalid: missing p tag")
        if kind == PUT_USER:
            if role and role not in ROLES:
                raise RefusedEvent(f"invalid: invalid role: {role}")
            if room.private and target != actor and not is_in_charge:
                raise RefusedEvent("invalid: only owners/admins may add private-channel members")
            if target in room.members and role and role != room.members[target] and not is_in_charge:
                raise RefusedEvent("invalid: only owners/admins may change an active member's role")
            return
        if target != actor and not is_in_charge:
            raise RefusedEvent("invalid: actor not authorized")
        if target == actor and target not in room.members:
            raise RefusedEvent("invalid: actor is not an active member")
        if owners == [target]:
            raise RefusedEvent("invalid: cannot remove the last owner")

    def _change_members(self, event: Raw, room_id: str) -> None:
        """Do what an accepted event says of who is in a room."""
        kind, actor = event["kind"], event["pubkey"]
        held = self.rooms[room_id].members if room_id in self.rooms else {}
        if kind == PUT_USER:
            target = _values(event, "p")[0]
            role = next(iter(_values(event, "role")), held.get(target, "member"))
            if held.get(target) != role:
                self.add(room_id, target, role)
        elif kind == JOIN and actor not in held:
            self.add(room_id, actor)
        elif kind in (REMOVE_USER, LEAVE):
            self.remove(room_id, actor if kind == LEAVE else _values(event, "p")[0])

    def _check_kind(self, kind: int) -> None:
        if kind in interactions.KINDS and not self.rules.interactions:
            raise RefusedEvent(interactions.DISABLED)
        is_stored = not 20000 <= kind < 30000
        if is_stored and self.rules.listed_kinds and kind not in KINDS | interactions.KINDS:
            raise RefusedEvent("restricted: unknown event kind")

    def _check_cost(self, event: Raw) -> None:
        """Refuse a report of a cost that is not of an agent to its owner (NIP-AM); the words are not the relay's."""
        owners = _values(event, "p")
        if _values(event, "agent") != [event["pubkey"]] or len(owners) != 1:
            raise RefusedEvent("invalid: one p tag, and the agent tag of the author")
        if self.owners.get(event["pubkey"]) != owners[0]:
            raise RefusedEvent("restricted: not the owner of this agent")

    def _check_interaction(self, event: Raw, room_id: str) -> None:
        if not self.rules.interactions or not room_id:
            return
        try:
            self.interactions.check(event, room_id)
        except interactions.WrongInteraction as fault:
            raise RefusedEvent(str(fault)) from None

    def is_open_to(self, key: str, room_id: str) -> bool:
        room = self.rooms.get(room_id)
        return room is not None and (not room.private or key in room.members)

    def _check_thread(self, event: Raw, room_id: str) -> None:
        marks = {tag[3]: tag[1] for tag in event["tags"] if tag[0] == "e" and len(tag) > 3}
        if not self.rules.threads:
            return
        if "reply" not in marks:  # a root alone leaves it at the top of the room
            return
        parent = next(((old, at) for old, at in self.stored if old["id"] == marks["reply"]), None)
        if parent is None:
            raise RefusedEvent("invalid: reply parent not found")
        if parent[1] != room_id:
            raise RefusedEvent("invalid: parent event belongs to a different channel")
        above = {tag[3]: tag[1] for tag in parent[0]["tags"] if tag[0] == "e" and len(tag) > 3}
        root = above.get("root") or above.get("reply") or parent[0]["id"]
        if "reply" not in above:
            root = parent[0]["id"]
        if marks.get("root", marks["reply"]) != root:
            raise RefusedEvent("invalid: root tag does not match thread ancestry")

    def _check_target(self, event: Raw, target: tuple[Raw, str] | None) -> None:
        """An edit or a deletion is of what is there; who may delete it is left to those who read it."""
        kind = event["kind"]
        if kind == 5 and len(_values(event, "e") + _values(event, "a")) != 1:
            raise RefusedEvent("invalid: deletion must reference exactly one target")
        if kind not in (9005, 40003):
            return
        if target is None:
            raise RefusedEvent("invalid: target event not found")
        if target[1] not in _values(event, "h"):
            raise RefusedEvent("invalid: target event belongs to a different channel")

    def wait_for(self, key: str, what: str, limit: tuple[int, float]) -> int:
        """Count a use of a quota; the seconds to wait where it is over, else 0."""
        if not self.rules.quotas:
            return 0
        most, window = limit
        recent = self.usage[key, what]
        now = time.monotonic()
        while recent and recent[0] < now - window:
            recent.popleft()
        recent.append(now)
        return int(recent[0] + window - now) + 1 if len(recent) > most else 0

    def publish(self, client: "RoomClient", event: Raw) -> None:
        """Take an event, or say why not."""
        self.published.append(event)
        if self.rules.auth_first and not client.keys:
            return self._answer(client, event, "auth-required: not authenticated")
        key = client.key or event["pubkey"]
        wait = self.wait_for(key, "frames", FRAMES) or self.wait_for(key, "events", self.rules.events)
        if wait:
            self.notices.append(f"rate-limited: quota exceeded; retry in {wait}s")
            return client.send("NOTICE", self.notices[-1])
        if self.rules.one_key and event["pubkey"] != client.key and event["kind"] != 1059:
            return self._answer(client, event, "invalid: event pubkey does not match authenticated identity")
        try:
            room_id = self.place_of(event, event["pubkey"])
        except RefusedEvent as refusal:
            return self._answer(client, event, str(refusal))
        if any(old["id"] == event["id"] for old, _ in self.stored):
            client.send("OK", event["id"], True, "duplicate:")
            return None
        self.answers.append((event, True, ""))
        client.send("OK", event["id"], True, "")
        self._take(event, room_id)
        if self.rules.interactions and room_id:
            self.interactions.taken(event, room_id)
        self._change_members(event, room_id)
        if event["kind"] == PRESENCE:
            self.presence[event["pubkey"]] = event["content"]
        return None

    def _answer(self, client: "RoomClient", event: Raw, why: str) -> None:
        self.answers.append((event, False, why))
        client.send("OK", event["id"], False, why)

    def _is_known(self, key: str) -> bool:
        """Whether a key is a member of the workspace: of a room of it at least."""
        return any(key in room.members for room in self.rooms.values())

    def _document(self, connection: ServerConnection, request: Request) -> Response | None:
        file = given(self.store, request)
        if file is not None:
            return file
        if "nostr+json" not in request.headers.get("Accept", ""):
            return None
        limits = {"max_message_length": 524288, "max_subscriptions": self.rules.max_subscriptions, "max_limit": 10000}
        if self.rules.says_largest:
            limits["max_content_length"] = self.rules.largest
        document = {"supported_nips": [1, 11, 29, 42], "self": self.key.public, "limitation": limits}
        if self.rules.interactions:
            document["supported_extensions"] = [interactions.EXTENSION]
        return connection.respond(self.document_status, json.dumps(document))

    async def _talk(self, socket: ServerConnection) -> None:
        client = RoomClient(self, socket)
        self.clients.add(client)
        client.send("AUTH", client.challenge)
        sending = asyncio.create_task(client.write())
        loop = asyncio.get_running_loop()
        late = loop.call_later(AUTH_WITHIN, client.hang_up_unless_authenticated)
        try:
            async for text in socket:
                client.receive(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            late.cancel()
            sending.cancel()
            self.clients.discard(client)


class RoomClient:
    """One connection to it."""

    def __init__(self, relay: RoomRelay, socket: ServerConnection) -> None:
        self.relay = relay
        self.socket = socket
        self.challenge = uuid.uuid4().hex
        self.keys: list[str] = []
        self.subscriptions: dict[str, tuple[list[Raw], str | None]] = {}
        self._out: asyncio.Queue[str] = asyncio.Queue()

    @property
    def key(self) -> str:
        return self.keys[0] if self.keys else ""

    def send(self, *frame: Any) -> None:
        for each in self.relay.on_send(self, list(frame)):
            self._out.put_nowait(json.dumps(each))

    def cut(self) -> None:
        """Drop the connection, with what is not sent yet."""
        self.socket.transport.abort()

    async def write(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self.socket.send(await self._out.get())

    def hang_up_unless_authenticated(self) -> None:
        if self.relay.rules.auth_first and not self.keys:
            self.cut()

    def receive(self, frame: list[Any]) -> None:
        self.relay.frames.append((time.monotonic(), self.key, frame[0]))
        if not self.relay.on_frame(self, frame):
            return
        match frame:
            case ["AUTH", event]:
                self._authenticate(event)
            case ["EVENT", event]:
                self.relay.publish(self, event)
            case ["REQ", name, *filters]:
                self._subscribe(name, filters)
            case ["CLOSE", name]:
                self.subscriptions.pop(name, None)

    def _authenticate(self, event: Raw) -> None:
        rules = self.relay.rules
        place = next(iter(_values(event, "relay")), "").rstrip("/")
        is_right = self.challenge in _values(event, "challenge") and is_genuine(parse_event(event))
        is_in_time = abs(event["created_at"] - self.relay.now()) <= AUTH_MAY_DIFFER
        why = ""
        if self.keys and rules.one_key:
            why = "auth-required: already authenticated"
        elif not is_right or not is_in_time or place != self.relay.url:
            why = "auth-required: verification failed"
        elif rules.keys is not None and rules.keys.isdisjoint((event["pubkey"], _attested_by(event))):
            why = "restricted: not a relay member"
        if not why:
            self.keys.append(event["pubkey"])
            if owner := _attested_by(event):
                self.relay.owners.setdefault(event["pubkey"], owner)
        self.send("OK", event["id"], not why, why)

    def _subscribe(self, name: str, filters: list[Raw]) -> None:
        relay = self.relay
        rules = relay.rules
        if rules.auth_first and not self.keys:
            return self.send("CLOSED", name, "auth-required: not authenticated")
        wait = relay.wait_for(self.key, "frames", FRAMES) if self.key else 0
        if wait:
            return self.send("CLOSED", name, f"rate-limited: quota exceeded; retry in {wait}s")
        if name not in self.subscriptions and len(self.subscriptions) >= rules.max_subscriptions:
            return self.send("CLOSED", name, "error: too many subscriptions")
        room_id = _one_room(filters)
        if room_id is not None and not any(relay.is_open_to(key, room_id) for key in self.keys or [""]):
            return self.send("CLOSED", name, "restricted: not a channel member")
        gated = [wanted for wanted in filters if GATED.intersection(wanted.get("kinds", GATED)) and "ids" not in wanted]
        if rules.gated and room_id is None and any(wanted.get("#p") != [self.key] for wanted in gated):
            return self.send("CLOSED", name, "restricted: p-gated events require #p matching your pubkey")
        self.subscriptions[name] = (filters, room_id)
        for wanted in filters:
            kept = [event for event, at in relay.stored if self._matches(wanted, event, at)]
            kept.sort(key=lambda event: -event["created_at"])
            for event in kept[: wanted.get("limit", 2000)]:
                self.send("EVENT", name, event)
        self.send("EOSE", name)
        return None

    def offer(self, event: Raw, room_id: str) -> None:
        """Send a new event to the subscriptions that are given it."""
        for name, (filters, only) in list(self.subscriptions.items()):
            is_given = not self.relay.rules.live_by_room or only == (room_id or None)
            bare = [{name: value for name, value in wanted.items() if name != "limit"} for wanted in filters]
            if is_given and any(self._matches(wanted, event, room_id) for wanted in bare):
                self.send("EVENT", name, event)

    def _matches(self, wanted: Raw, event: Raw, room_id: str) -> bool:
        rooms = wanted.get("#h")
        bare = {name: value for name, value in wanted.items() if name not in ("#h", "limit")}
        in_room = rooms is None or room_id in rooms or bool(set(rooms) & set(_values(event, "h")))
        return in_room and Matcher(bare).matches(event) and self.relay.may_read(self.keys, event, room_id)


def _values(event: Raw, name: str) -> list[str]:
    return [tag[1] for tag in event["tags"] if len(tag) > 1 and tag[0] == name]


def _attested_by(event: Raw) -> str:
    """Who has attested the author of an event (NIP-OA); "" if no one has."""
    tags = [tag for tag in event["tags"] if tag[0] == "auth"]
    try:
        tag = parse_attestation(tags[0] if len(tags) == 1 else (), PublicKey(event["pubkey"]))
    except ValueError:
        return ""
    return tag[1] if holds_for(tag, event["kind"], event["created_at"]) else ""


def _one_room(filters: Iterable[Raw]) -> str | None:
    """The one room that all filters name; None where one names none, or another."""
    named = [wanted.get("#h", []) for wanted in filters]
    rooms = {room for rooms in named for room in rooms}
    return rooms.pop() if len(rooms) == 1 and all(named) else None


@asynccontextmanager
async def room_relay(rules: Rules | None = None, now: Callable[[], float] = time.time) -> AsyncIterator[RoomRelay]:
    """A relay of rooms for as long as the block lasts."""
    relay = RoomRelay(rules or Rules(), now)
    await relay.start()
    try:
        yield relay
    finally:
        await relay.stop()
