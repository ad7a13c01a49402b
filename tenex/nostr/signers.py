"""Remote signers: the client of NIP-46, for keys that are held elsewhere.

A request is an ephemeral event (kind 24133) from a key of the client to that of the signer, encrypted by NIP-44; the
answer is one in the other direction with the request's id. Relays keep neither. So a request that reached a relay while
the signer was away is lost without a word, and "no answer" means nothing:

    sign ──► asked ──answer──► verified ──► the event
              ▲  │ none in time                               the same request is sent again after a pause, or as soon
              │  ▼                                            as a signer that was silent is heard of
             pause ◄── refused, or it signed something else   a new request, after a longer pause

A request is never given up here: who asks may cancel it, and a later process asks again for the same event id. The
answer to an earlier copy of a request counts as well: people take minutes to allow one on a phone. Whether a signer is
there, or only waits for a person, shows a `ping`, which no person is asked about; a silent one gets it every few
seconds. A signer may answer with an address (`auth_url`) at which a person allows the request; the real answer follows,
by the same id.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tenex.core.backoff import Backoff
from tenex.core.errors import InvalidEvent, RelayUnavailable, RemoteError
from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.core.text.foreign import plain
from tenex.log import get_logger

from .direct import nip44_decrypt, nip44_encrypt
from .events import Event, is_genuine, parse_event, sign, unsigned_event
from .keys import SecretKey, parse_public_key
from .pool import RelayPool
from .retry import printable
from .timeouts import RelayTimeouts
from .urls import normalise_url

log = get_logger(__name__)

SIGNER: Final = 24133
"""The kind of requests and answers."""
SCHEME: Final = "bunker"
MOST_RELAYS: Final = 10
AT_ONCE: Final = 4
"""Requests to one signer that wait for their answers at the same time."""
LARGE: Final = 32_000
"""Characters of a request that relays may refuse for its size; the smallest limits are 64 KiB."""
_ANSWERS: Final = "answers"
_ALLOW: Final = "auth_url"


LOOK_EVERY: Final = 0.1
"""Seconds between two looks at the relays of a signer that a person waits for."""


class SignerSilent(RelayUnavailable):
    """A remote signer did not answer in time, or no relay of it is there."""


class SignerRefused(RemoteError):
    """A remote signer answered with an error, or with what was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerTimeouts:
    """Every duration, in seconds; tests shorten them."""

    answer: float = 30.0
    """For the answer to a request; later it still counts."""
    allow: float = 600.0
    """The same once a person has been asked to allow it."""
    ping: float = 6.0
    """For a sign of life; a signer that is slower is called silent until it answers."""
    again_first: float = 30.0
    """Pauses before a request without an answer is sent again."""
    again_most: float = 300.0
    refused_first: float = 30.0
    """Pauses before a refused signature is asked for again: a person may be asked each time."""
    refused_most: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BunkerAddress:
    """A `bunker://` address: how a remote signer is reached, and the secret by which it knows whom it gave it to."""

    signer: PublicKey
    relays: tuple[str, ...]
    secret: str = field(default="", repr=False)


def parse_bunker(text: str) -> BunkerAddress:
    """Read a `bunker://` address, as a remote signer shows it.

    Raises:
        ValueError: it is none; the sentence does not repeat it, because it may hold a secret.
    """
    example = "it is like bunker://PUBLIC-KEY?relay=wss://relay.example&secret=WORD"
    try:
        parts = urlsplit(plain(text).strip())
        query = parse_qs(parts.query, max_num_fields=100)
    except ValueError:
        raise ValueError(f"this is no address of a remote signer: {example}") from None
    if parts.scheme.lower() != SCHEME:
        raise ValueError(f"this is no address of a remote signer: {example}")
    try:
        signer = parse_public_key(parts.netloc)
    except ValueError:
        raise ValueError(f"the address names no public key: {example}") from None
    relays = tuple(dict.fromkeys(normalise_url(relay) for relay in query.get("relay", ())))
    if not 0 < len(relays) <= MOST_RELAYS:
        raise ValueError(f"the address names {len(relays)} relays, and 1 to {MOST_RELAYS} are needed: {example}")
    return BunkerAddress(signer=signer, relays=relays, secret=query.get("secret", [""])[0])


def parse_relays(text: str) -> tuple[str, ...]:
    """The relays that a signer names as those to use from now on; empty if it names none, or what is no relay."""
    try:
        urls = json.loads(text)
        relays = tuple(dict.fromkeys(normalise_url(url) for url in urls)) if isinstance(urls, list) else ()
    except (ValueError, TypeError, RecursionError):
        return ()
    return relays if len(relays) <= MOST_RELAYS else ()


class _Request:
    """A request until its answer is there, however often it is sent."""

    def __init__(self, method: str, params: Sequence[str]) -> None:
        self.id = token_hex(16)
        self.method = method
        self.params = params
        self.answer: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        """The result, and the error."""
        self.waits_until = 0.0
        """On the loop's clock."""

    def result(self) -> str:
        """The result of an answered request.

        Raises:
            SignerRefused: the answer is an error.
        """
        result, error = self.answer.result()
        if error:
            raise SignerRefused(error)
        return result


class SignerClient:
    """The client of one signer, with a key of its own."""

    def __init__(
        self,
        signer: PublicKey,
        relays: Iterable[str],
        client: SecretKey,
        *,
        timeouts: SignerTimeouts | None = None,
        relay_timeouts: RelayTimeouts | None = None,
        on_allow: Callable[[str], object] = lambda _: None,
        on_heard: Callable[[], object] = lambda: None,
        must_be_public: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            signer: the key that answers.
            relays: where it is reached.
            client: the key that asks.
            timeouts: the durations.
            relay_timeouts: those of the relays.
            on_allow: takes the address at which a person is to allow a request.
            on_heard: is called for each answer to a request.
            must_be_public: whether a relay is used only at a public address.

        Raises:
            ValueError: one of the relays is no relay URL, or the signer's key is not on the curve.
        """
        self.timeouts = timeouts or SignerTimeouts()
        self._signer = signer
        self._client = client
        self._shared = client.shared_secret(signer)
        self._relays = tuple(dict.fromkeys(normalise_url(relay) for relay in relays))
        self._on_allow = on_allow
        self._on_heard = on_heard
        self._requests: dict[str, _Request] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._again = asyncio.Event()
        self._pool = RelayPool(
            self._relays,
            on_event=self._on_event,
            is_wanted=lambda author: author == signer,
            identity=client,
            timeouts=relay_timeouts,
            must_be_public=must_be_public,
        )
        wanted: dict[str, Any] = {"kinds": [SIGNER], "authors": [signer], "#p": [client.public]}
        self._pool.subscribe(_ANSWERS, [wanted], None)

    async def run(self) -> None:
        """Stay connected to the signer's relays until cancelled."""
        await self._pool.run()

    async def ask(self, method: str, *params: str, patience: float | None = None) -> str:
        """Send a request once and wait for its answer.

        Raises:
            SignerSilent: there was none in time.
            SignerRefused: it is an error.
            ValueError: the request is too long.
        """
        with self._open(method, params) as request:
            return await self._send_and_wait(request, self.timeouts.answer if patience is None else patience)

    async def connect(
        self, address: BunkerAddress, permissions: str, patience: float | None = None
    ) -> tuple[PublicKey, tuple[str, ...]]:
        """Become a client that the signer knows; returns the key that it holds, and its relays from now on.

        Raises:
            SignerSilent: there was no answer in time.
            SignerRefused: it refuses, or gives no key.
        """
        answer = await self.ask("connect", address.signer, address.secret, permissions, patience=patience)
        if answer not in ("ack", address.secret):
            raise SignerRefused("it did not confirm the connection")
        try:
            public = parse_public_key(await self.ask("get_public_key", patience=patience))
        except ValueError as fault:
            raise SignerRefused(f"it gave no public key ({fault})") from fault
        relays: tuple[str, ...] = ()
        with suppress(SignerSilent, SignerRefused):  # where it moves, if it does; not every signer knows this
            relays = parse_relays(await self.ask("switch_relays", patience=self.timeouts.ping))
        return public, relays or address.relays

    async def sign(self, event: UnsignedEvent, patience: float | None = None) -> Event:
        """Ask once for the signature of an event, and verify it.

        Raises:
            SignerSilent: there was no answer in time.
            SignerRefused: it refuses, or signed something else.
            ValueError: the event is too long.
        """
        return checked_answer(event, await self.ask("sign_event", request_text(event), patience=patience))

    def send_again(self) -> None:
        """Send all requests that wait for an answer again, without the rest of their pauses."""
        self._again.set()
        self._again = asyncio.Event()

    async def insist(self, method: str, *params: str, on_late: Callable[[str], object]) -> str:
        """Send a request until it is answered; `on_late` takes why there is no answer yet, each time.

        Raises:
            SignerRefused: the answer is an error.
            ValueError: the request is too long.
        """
        pauses = Backoff(self.timeouts.again_first, self.timeouts.again_most)
        with self._open(method, params) as request:
            while True:
                again = self._again
                try:
                    async with self._places:
                        return await self._send_and_wait(request, self.timeouts.answer)
                except SignerSilent as fault:
                    on_late(str(fault))
                waits: list[asyncio.Future[Any]] = [request.answer, asyncio.ensure_future(again.wait())]
                try:
                    await asyncio.wait(waits, timeout=pauses.next(), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waits[1].cancel()

    @contextmanager
    def _open(self, method: str, params: Sequence[str]) -> Iterator[_Request]:
        request = _Request(method, params)
        self._requests[request.id] = request
        try:
            yield request
        finally:
            del self._requests[request.id]

    async def _send_and_wait(self, request: _Request, patience: float) -> str:
        if request.answer.done():  # to an earlier copy
            return request.result()
        loop = asyncio.get_running_loop()
        request.waits_until = loop.time() + patience
        try:
            await self._pool.listening(_ANSWERS, patience)  # what answers before that would not be received
        except RelayUnavailable as fault:
            raise SignerSilent(str(fault)) from None
        event = self._event(request)
        refused: dict[str, str] = {}
        sending = [asyncio.create_task(self._send(event, relay, refused)) for relay in self._relays]
        try:
            while not request.answer.done():
                left = request.waits_until - loop.time()
                if left <= 0 or len(refused) == len(self._relays):
                    raise self._silence(refused, len(event.content))
                waits: list[asyncio.Future[Any]] = [request.answer, *(task for task in sending if not task.done())]
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        return request.result()

    def _event(self, request: _Request) -> Event:
        fields = {"id": request.id, "method": request.method, "params": list(request.params)}
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        content = nip44_encrypt(text, self._shared)
        tags = (("p", self._signer),)
        return sign(unsigned_event(self._client.public, int(time.time()), SIGNER, tags, content), self._client)

    async def _send(self, event: Event, relay: str, refused: dict[str, str]) -> None:
        outcome = await self._pool.publish(event, relay)
        if not outcome.accepted:
            refused[relay] = outcome.detail

    def _silence(self, refused: Mapping[str, str], length: int) -> SignerSilent | ValueError:
        """Why there is no answer; a ValueError if there never will be, because the request is too long."""
        if refused:
            why = "; ".join(f"{relay} refuses the request: {printable(why)}" for relay, why in refused.items())
            is_too_long = length > LARGE and all(why.startswith("invalid") for why in refused.values())
            if is_too_long and len(refused) == len(self._relays):
                return ValueError(f"too long for a remote signer: {why}")
            return SignerSilent(why)
        return SignerSilent(self._why_silent())

    async def unreachable(self) -> str:
        """Return once a connection to each of its relays has failed, and none is there: why, as a clause."""
        # relays report no change of their state
        while not all(status.fault and not status.connected for status in self._pool.status()):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY)
        return self._why_silent()

    def _why_silent(self) -> str:
        away = [status for status in self._pool.status() if not status.connected]
        if len(away) == len(self._relays):
            faults = (f"{status.url}: {status.fault or 'not connected yet'}" for status in away)
            return f"no relay of it can be reached ({'; '.join(faults)})"
        return "it does not answer"

    def _on_event(self, event: Event, _relay: str) -> None:
        try:
            fields = json.loads(nip44_decrypt(event.content, self._shared))
        except (ValueError, RecursionError):
            log.debug("signer.unreadable_answer", event_id=event.id)
            return
        request = self._requests.get(str(fields.get("id"))) if isinstance(fields, dict) else None
        if request is None or request.answer.done():
            return
        result, error = fields.get("result"), fields.get("error")
        if result == _ALLOW and error:
            request.waits_until = asyncio.get_running_loop().time() + self.timeouts.allow
            self._on_allow(_web_address(error))
        elif error or isinstance(result, str):
            request.answer.set_result((result if isinstance(result, str) else "", printable(str(error or ""))))
            self._on_heard()


def _web_address(text: object) -> str:
    """What a person may open in a browser; empty if it is something else."""
    is_web = isinstance(text, str) and text.startswith(("https://", "http://"))
    return str(text) if is_web and len(str(text)) < 2_000 and str(text).isprintable() and " " not in str(text) else ""


def request_text(event: UnsignedEvent) -> str:
    """An event as a signer is given it."""
    fields = {
        "kind": event.kind,
        "content": event.content,
        "tags": [list(tag) for tag in event.tags],
        "created_at": event.created_at,
        "pubkey": event.pubkey,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def checked_answer(wanted: UnsignedEvent, answer: str) -> Event:
    """The event that a signer has signed.

    Raises:
        SignerRefused: it is another event, by another key, or not signed.
    """
    try:
        event = parse_event(json.loads(answer))
    except (ValueError, RecursionError, InvalidEvent):
        raise SignerRefused("its answer is no signed event") from None
    if event.pubkey != wanted.pubkey:
        raise SignerRefused("it signed with another key: connect again with `tenex keys connect`")
    if event.id != wanted.id:  # the hash of all but the signature
        raise SignerRefused("it signed another event than it was asked to")
    if not is_genuine(event):
        raise SignerRefused("its signature is not good")
    return event
