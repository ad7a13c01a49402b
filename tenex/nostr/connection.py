"""One open socket to a relay: sends frames at a limited rate and routes received frames to their requests."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from tenex.core.errors import RelayUnavailable
from tenex.core.ids import PublicKey
from tenex.log import get_logger

from .events import Sign, sign_here, to_wire, unsigned_event
from .filters import Filter
from .keys import Key
from .relay_traits import RelayTraits
from .retry import ReasonAction, is_worth_logging, printable, read_answer
from .timeouts import RelayTimeouts, TokenBucket
from .websocket import RelaySocket
from .wire import MAX_SUBSCRIPTIONS, AuthChallenge, Closed, Eose, EventFrame, Ok, RelayNotice, Wire, auth_frame

log = get_logger(__name__)

Take = Callable[[dict[str, Any]], Awaitable[None] | None]
"""Takes a raw event; an awaitable it returns is awaited before the next frame is read."""

SPARE: Final = 2
"""Subscriptions reserved for short requests: pages, fetches, probes."""

MAX_LIVE: Final = MAX_SUBSCRIPTIONS - SPARE

SPARE_BYTES: Final = 128 * 1024
"""Bytes of ephemeral events that may be queued: two of the largest, so that messages wait behind no more."""

OFFER_PAUSE: Final = 60.0
"""Seconds without offers to a relay that refused one: a limit per minute has passed by then."""

AT_ONCE: Final = 100
"""Frames read before other tasks run again, some 20 ms: what has arrived is read without waiting."""

MOST_DROPPED: Final = 10_000
"""Messages of one connection that may be dropped: what is on its way when a subscription is closed, and far more."""

AUTH_KIND: Final = 22242

MOST_IDENTITIES: Final = 20
"""Keys that are shown to a relay beside the first: as many as a large project has agents."""
_EVENT: Final = '["EVENT"'
_COUNTED: Final = ('["REQ"', _EVENT)
_FOR_NOW: Final = ("error", "rate-limited")
"""The prefixes (NIP-01) of refusals that are of the moment, and not of a key."""
_TOO_BIG: Final = 1009  # RFC 6455: the frame was more than the other side takes


TryAlone = Callable[[Key], Awaitable[bool]]
"""Shows the relay a key on a connection of its own; whether it is accepted there."""


async def _never_tried(_: Key) -> bool:
    return False


class Request:
    """One REQ as long as it is open."""

    __slots__ = ("active_at", "closed", "count", "eose", "id", "is_dropped", "most", "sent", "size", "take")

    def __init__(self, sub_id: str, take: Take, now: float, most: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.id = sub_id
        self.take = take
        self.most = most
        """Events it may bring; None for any number."""
        self.count = 0
        """Events it has brought."""
        self.active_at = now
        """When it was sent, or the last frame for it arrived, on the loop's clock."""
        self.sent: asyncio.Future[None] = loop.create_future()
        """Done once it is sent: at the slow rate it may wait behind many others."""
        self.is_dropped = False
        self.size = 0
        """Characters of the frame that brought the event that is being taken."""
        self.eose: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[str | None] = loop.create_future()
        """The text of its CLOSED, or None where the connection was lost."""

    def note_sent(self, now: float) -> None:
        """Note that it was sent, at this time of the loop's clock."""
        self.active_at = now
        if not self.sent.done():
            self.sent.set_result(None)

    async def settled(self, patience: float) -> bool:
        """Wait for EOSE or the end, as long as events keep coming; False after `patience` seconds of silence.

        The seconds count from when it was sent.
        """
        loop = asyncio.get_running_loop()
        if not self.sent.done():
            begins: set[asyncio.Future[Any]] = {self.sent, self.closed}
            await asyncio.wait(begins, return_when=asyncio.FIRST_COMPLETED)
        while not (self.eose.done() or self.closed.done()):
            left = self.active_at + patience - loop.time()
            if left <= 0:
                return False
            ends: set[asyncio.Future[Any]] = {self.eose, self.closed}
            await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def stored(self, patience: float) -> str:
        """Wait until it has brought all stored events; "" if it has, else why not."""
        answered = await self.settled(patience)
        if self.eose.done():  # then it is complete, whatever happened to the REQ afterwards: some relays close it
            return ""
        return self.closed.result() or "error: closed without a reason" if answered else "error: no EOSE in time"


class _Publishing:
    """An event that is sent, and who waits for the relay's answer to it."""

    __slots__ = ("is_auth", "sent", "size", "waiters")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_auth = False
        self.sent = asyncio.Event()
        self.waiters: list[asyncio.Future[Ok | None]] = []

    def answer(self, ok: Ok | None) -> None:
        """Give the relay's answer to all who wait; None where the connection is lost."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(ok)


class ClientConnection:
    """What is in flight on one socket. All methods but `read` and `write` may be called from any task."""

    def __init__(
        self,
        socket_: RelaySocket,
        url: str,
        *,
        prefix: str,
        identity: Key | None,
        timeouts: RelayTimeouts,
        now: Callable[[], float],
        more_identities: Callable[[], Iterable[Key]] = tuple,
        sign: Sign = sign_here,
        traits: RelayTraits | None = None,
        try_alone: TryAlone = _never_tried,
    ) -> None:
        self._ws = socket_
        self._url = url
        self._identity = identity
        self._more_identities = more_identities
        self._sign = sign
        self._traits = traits or RelayTraits()
        self._try_alone = try_alone
        self._timeouts = timeouts
        self._now = now
        self._loop = asyncio.get_running_loop()
        self.wire = Wire(prefix)
        self.spare = asyncio.Semaphore(SPARE)
        self.received_at = now()
        """When the last frame arrived, on the wall clock: every earlier frame has been handled."""
        self.oversized = ""
        """The event that made the relay hang up because it was too big."""
        self.lost = False
        self.is_flooded = False
        """It ended because the relay sent too many unrequested messages."""
        self._outgoing: asyncio.PriorityQueue[tuple[int, int, str, _Publishing | Request | None]]
        self._outgoing = asyncio.PriorityQueue()
        """Events before REQs and all else, which at the slow rate may be many; the order of each is kept."""
        self._queued = count()
        self._pace = TokenBucket(timeouts.frames_per_second, self._loop.time())
        self._is_slow = False
        if self._traits.takes_one_key:
            self.slow_down()
        self._is_idle = False
        """Whether `write` waits for a frame."""
        self._offers: set[str] = set()
        """Frames that were offered and are not sent yet."""
        self._offers_paused_until = 0.0
        self._requests: dict[str, Request] = {}
        self._unanswered: dict[str, _Publishing] = {}
        self._challenge: asyncio.Future[str] = self._loop.create_future()
        self.is_auth_final = True
        """Whether the last AUTH failed for a reason that will be the same the next time."""
        self._authenticated: tuple[str | None, str, float] = (None, "", 0.0)
        """The last challenge answered, why the answer was refused ("" if it was not), and when."""
        self._shown: dict[PublicKey, bool] = {}
        """Our keys that were shown to the relay for that challenge, each with whether it was accepted."""
        self._auth_lock = asyncio.Lock()
        self._notices = 0
        linux = sys.platform == "linux"
        self._raw_socket: socket.socket | None = socket_.transport.get_extra_info("socket") if linux else None
        self._has_acked = False
        """Whether all that has been read from the socket so far is acknowledged."""

    async def write(self) -> None:
        """Send queued frames within the rate until the connection ends; one that takes no more is dropped."""
        try:
            while True:
                self._is_idle = True
                *_, frame, cause = await self._outgoing.get()
                self._is_idle = False
                if isinstance(cause, Request) and cause.is_dropped:
                    continue
                await self._until_allowed(frame)
                self._count(frame)
                async with asyncio.timeout(self._timeouts.ping_interval + self._timeouts.ping_timeout):
                    await self._ws.send(frame)
                match cause:
                    case _Publishing():
                        cause.sent.set()
                    case Request():
                        cause.note_sent(self._loop.time())
                self._offers.discard(frame)
        except ConnectionClosed:
            return  # `read` reports it
        except TimeoutError:
            log.warning("relay.takes_nothing", relay=self._url)
            self.abort()

    def _enqueue(self, frame: str, cause: _Publishing | Request | None) -> None:
        rank = 0 if frame.startswith(_EVENT) else 1
        self._outgoing.put_nowait((rank, next(self._queued), frame, cause))

    async def _until_allowed(self, frame: str) -> None:
        """Wait until the rate allows a frame; at the slow rate only frames are counted that relays count."""
        if self._is_slow and not frame.startswith(_COUNTED):
            return
        pause = self._pace.take(self._loop.time())
        if pause:
            await asyncio.sleep(pause)

    def _count(self, frame: str) -> None:
        """Count an event against the quota of the connection's key, where it has one key."""
        if self._is_slow and self._identity is not None and frame.startswith(_EVENT):
            self._traits.note_sent(self._identity.public, self._loop.time())

    def slow_down(self) -> None:
        """Keep to the quota of a key, where the connection is that of one key."""
        if self._is_slow:
            return
        self._is_slow = True
        rate = self._timeouts.one_key_frames_per_second
        self._pace = TokenBucket(rate, self._loop.time(), self._timeouts.one_key_frames)

    async def read(self) -> str:
        """Read until the connection ends; returns the reason."""
        try:
            frames = 0
            while True:
                text = await self._ws.receive()
                frames += 1
                if frames % AT_ONCE == 0:
                    await asyncio.sleep(0)
                self._ack_at_once()
                self.received_at = self._now()
                waiting = self._handle(text)
                if waiting is not None:
                    await waiting
                if self.wire.dropped.total() > MOST_DROPPED:
                    self.is_flooded = True
                    return f"it sent more than {MOST_DROPPED} messages that were malformed, forged or not asked for"
        except ConnectionClosed as end:
            code = end.rcvd.code if end.rcvd else None
            if code == _TOO_BIG and self._unanswered:
                self.oversized = max(self._unanswered, key=lambda event_id: self._unanswered[event_id].size)
            return printable(str(end))
        finally:
            self._fail_waiters()

    def request(self, filters: Sequence[Filter], take: Take, most: int | None = None) -> Request:
        """Open a REQ with an id of its own; it ends as if by EOSE once it has brought more than `most` events."""
        sub_id, frame = self.wire.request(filters)
        request = Request(sub_id, take, self._loop.time(), most)
        if self.lost:
            request.closed.set_result(None)
            return request
        self._requests[sub_id] = request
        self._enqueue(frame, request)
        return request

    def drop(self, request: Request) -> None:
        """Close a REQ; one that is closed already is only forgotten."""
        self._requests.pop(request.id, None)
        request.is_dropped = True
        frame = self.wire.close(request.id)
        if frame is not None and not self.lost:
            self._enqueue(frame, None)

    async def publish(self, event_id: str, frame: str, patience: float) -> Ok:
        """Send an event and wait for the relay's answer to it, which may also be a notice that it was too much.

        Raises:
            TimeoutError: no answer in `patience` seconds after it was sent.
            RelayUnavailable: the connection was lost before one.
        """
        if self.lost:
            raise RelayUnavailable(f"{self._url}: the connection was lost")
        waiting: asyncio.Future[Ok | None] = self._loop.create_future()
        publishing = self._unanswered.setdefault(event_id, _Publishing(len(frame)))
        publishing.waiters.append(waiting)
        try:
            is_free = self._is_idle and self._outgoing.empty() and self._pace.left(self._loop.time()) >= 1
            # behind many REQs at the slow rate, an AUTH would come after the relay has hung up
            is_first = self._is_slow and publishing.is_auth
            if is_free or is_first:
                if is_free:
                    self._pace.take(self._loop.time())
                self._count(frame)
                publishing.sent.set()
                with suppress(ConnectionClosed):  # `read` reports it
                    async with asyncio.timeout(patience):
                        await self._ws.send(frame)  # without a round of the loop for the task that writes
            else:
                self._enqueue(frame, publishing)
                await publishing.sent.wait()
            async with asyncio.timeout(patience):
                ok = await waiting
        finally:
            publishing.waiters.remove(waiting)
            if not publishing.waiters and self._unanswered.get(event_id) is publishing:
                del self._unanswered[event_id]
        if ok is None:
            raise RelayUnavailable(f"{self._url}: the connection was lost before it answered")
        return ok

    @property
    def has_room(self) -> bool:
        """Whether an ephemeral event may be sent: half of the rate is reserved for messages.

        Where a connection has one key, its whole quota is, but for what is offered as `is_rare`.
        """
        return not self._is_slow and self._has_spare

    @property
    def _has_spare(self) -> bool:
        now = self._loop.time()
        if self.lost or now < self._offers_paused_until or sum(map(len, self._offers)) > SPARE_BYTES // 2:
            return False
        return self._pace.left(now) - len(self._offers) > self._pace.capacity / 2

    def _has_quota(self) -> bool:
        """Whether a rare ephemeral event leaves enough to messages, by the second and by the minute."""
        if not self._is_slow or self._identity is None:
            return self._has_spare
        may_send = self._traits.may_send_ephemeral(self._identity.public, self._loop.time())
        return self._has_spare and may_send and not self._unanswered

    def offer(self, frame: str, *, is_rare: bool = False) -> bool:
        """Queue a frame without expecting an answer; False if there is no room and it is dropped.

        `is_rare`: sent every few seconds at most, and also where the connection has one key.
        """
        if not (self._has_quota() if is_rare else self.has_room):
            return False
        self._offers.add(frame)
        self._enqueue(frame, None)
        return True

    async def authenticate(self) -> str:
        """Authenticate (NIP-42); "" if accepted, else why not. A refusal is cached for `auth_timeout`."""
        if self._identity is None:
            return "this connection has no key to authenticate with"
        async with self._auth_lock:
            try:
                async with asyncio.timeout(self._timeouts.auth_timeout):
                    challenge = await asyncio.shield(self._challenge)
            except TimeoutError:
                return "it requires AUTH and sent no challenge"
            answered, why, at = self._authenticated
            is_old = self._loop.time() - at > self._timeouts.auth_timeout
            if challenge != answered or (why and is_old):
                self._shown.clear()
                why = await self._authenticate(self._identity, challenge)
                if self._shown.get(self._identity.public) is False:
                    self._traits.refused_keys[self._identity.public] = why
                if not why:
                    await self._show_more_identities(self._identity, challenge)
                self._authenticated = (challenge, why, self._loop.time())
            return why

    def was_accepted(self, key: PublicKey) -> bool:
        """Whether the relay has accepted a key of ours here."""
        return self._shown.get(key) is True

    @property
    def was_challenged(self) -> bool:
        """Whether the relay has sent an AUTH challenge (NIP-42)."""
        return self._challenge.done()

    def abort(self) -> None:
        """Drop the connection without a close frame."""
        self._ws.transport.abort()

    async def _show_more_identities(self, identity: Key, challenge: str) -> None:
        """Authenticate our other keys too, as NIP-42 permits: a relay gives private messages to their readers only.

        Where a relay keeps the last key alone, that is the first one again. Where it takes one key to a connection, the
        others need connections of their own.
        """
        if self._traits.takes_one_key:
            return
        others = (key for key in self._more_identities() if key != identity)
        more = list(islice(others, MOST_IDENTITIES))
        if more:
            await asyncio.gather(*(self._authenticate(key, challenge) for key in more))
            await self._learn_from_refusals(more)
            if not self._traits.takes_one_key:
                await self._authenticate(identity, challenge)

    async def shows(self, key: Key) -> bool:
        """Show one more of our keys, where the relay has asked for AUTH and knows another by it; whether it knows it.

        An event of a key that it does not know here may be refused for that alone.
        """
        async with self._auth_lock:
            challenge, why, _ = self._authenticated
            if challenge is None or why or self._traits.takes_one_key or self._identity is None:
                return False
            if key.public not in self._shown:
                await self._authenticate(key, challenge)
                await self._learn_from_refusals([key])
                if self._shown.get(key.public):
                    await self._authenticate(self._identity, challenge)
                    return True
            return False

    async def _learn_from_refusals(self, keys: Sequence[Key]) -> None:
        """Try the keys that the relay refuses beside another on connections of their own, one after the other.

        If one is accepted there, the relay takes one key to a connection. One that is refused there too is not tried
        again by this process, or until the relay has accepted it.
        """
        for key in keys:
            is_refused = self._shown.get(key.public) is False
            if is_refused and key.public not in self._traits.refused_keys and await self._try_alone(key):
                self._traits.note_one_key()
                return

    async def _authenticate(self, identity: Key, challenge: str) -> str:
        self.is_auth_final = False
        tags = (("relay", self._url), ("challenge", challenge))
        unsigned = unsigned_event(identity.public, int(self._now()), AUTH_KIND, tags, "")
        try:
            async with asyncio.timeout(self._timeouts.auth_timeout):
                event = await self._sign(unsigned, identity)
        except TimeoutError:
            return "the remote signer of the key did not sign the AUTH in time"
        except ValueError as fault:
            self.is_auth_final = True
            return str(fault)
        try:
            publishing = self._unanswered.setdefault(event.id, _Publishing(0))
            publishing.is_auth = True
            ok = await self.publish(event.id, auth_frame(to_wire(event)), self._timeouts.auth_timeout)
        except TimeoutError:
            return "it did not answer the AUTH"
        except RelayUnavailable as fault:
            return str(fault)
        log.info("relay.authenticated", relay=self._url, accepted=ok.accepted, answer=printable(ok.text))
        answer = read_answer(ok.text)
        self.is_auth_final = answer.action is ReasonAction.FINAL
        if ok.accepted:
            self._traits.note_authenticated(identity.public)
        if ok.accepted or answer.prefix not in _FOR_NOW:
            self._shown[identity.public] = ok.accepted
        return "" if ok.accepted else printable(ok.text) or "it refused the AUTH"

    def _handle(self, text: str | bytes) -> Awaitable[None] | None:
        frame = self.wire.receive(text)
        if isinstance(frame, EventFrame):
            request = self._requests[frame.sub_id]
            request.active_at = self._loop.time()
            request.size = len(text)
            if request.count == request.most:
                self._cut(request)
                return None
            request.count += 1
            return request.take(frame.raw)
        match frame:
            case Ok():
                self._answered(frame)
            case Eose(sub_id=sub_id):
                request = self._requests[sub_id]
                request.active_at = self._loop.time()
                if not request.eose.done():
                    request.eose.set_result(None)
            case Closed(sub_id=sub_id, text=why):
                self._requests.pop(sub_id).closed.set_result(why)
            case RelayNotice(text=notice):
                self._notices += 1
                level = log.warning if is_worth_logging(self._notices) else log.debug
                level("relay.notice", relay=self._url, text=printable(notice), notices=self._notices)
                self._note_quota(notice)
            case AuthChallenge(challenge=challenge):
                if self._challenge.done():
                    self._challenge = self._loop.create_future()
                self._challenge.set_result(challenge)
            case None:
                pass
        return None

    def _note_quota(self, notice: str) -> None:
        """Take a notice that the quota is exceeded as the answer to the events that were sent and are not answered.

        Buzz sends it in place of an OK. Which event it did not take is not said, so all are sent again: it answers
        “duplicate” to those it has. Nothing is sent before the time that it asks for.
        """
        answer = read_answer(notice)
        if answer.action is ReasonAction.SLOWER:
            self._offers_paused_until = self._loop.time() + max(OFFER_PAUSE, answer.wait or 0)
        sent = [(id_, each) for id_, each in self._unanswered.items() if each.sent.is_set() and not each.is_auth]
        if answer.action is not ReasonAction.SLOWER or not sent:
            return
        self._pace.hold(self._loop.time(), answer.wait or self._timeouts.rate_limited)
        for event_id, publishing in sent:
            publishing.answer(Ok(event_id, accepted=False, text=notice))

    def _cut(self, request: Request) -> None:
        """End a REQ that has brought more than it was asked for; what it has brought so far counts."""
        self.wire.dropped["over_limit"] += 1
        log.warning("relay.over_limit", relay=self._url)
        if not request.eose.done():
            request.eose.set_result(None)
        self.drop(request)

    def _answered(self, ok: Ok) -> None:
        publishing = self._unanswered.get(ok.event_id)
        if publishing is not None:
            publishing.answer(ok)
        elif not ok.accepted:  # an offered event, or a late answer: either way reduce the load
            self._offers_paused_until = self._loop.time() + OFFER_PAUSE
            log.debug("relay.unexpected_ok", relay=self._url, event_id=printable(ok.event_id), text=printable(ok.text))

    def _fail_waiters(self) -> None:
        """Resolve every waiter: the connection is lost."""
        self.lost = True
        for request in self._requests.values():
            if not request.closed.done():
                request.closed.set_result(None)
        self._requests.clear()
        for publishing in self._unanswered.values():
            publishing.sent.set()
            publishing.answer(None)

    def _ack_at_once(self) -> None:
        """Acknowledge now (Linux): relays leave Nagle on, and a delayed ACK costs their next frame 40 ms.

        The kernel forgets the option after some segments, so it is set again with every read of the socket; frames
        that came in one read share it, for the loop reads again only when it has come round.
        """
        if self._raw_socket is None or self._has_acked:
            return
        try:
            self._raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except OSError:
            self._raw_socket = None  # it has just closed; `recv` reports it
            return
        self._has_acked = True
        self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._has_acked = False
