"""Passes requests of a program of others on to the providers of the settings, with their keys, and measures them.

What can happen to one request, in this order: it is refused (`Rejected`) before anything is sent; it waits for its turn
among all calls of the provider, our own too; the server cannot be reached; the server answers with an error, which is
passed on with the headers that say when to try again; it answers whole; it streams, and each event is passed on when it
is complete. The program may leave at any of these moments: then the request to the provider is cancelled too. What it
has cost is reported once in every case, as it was reported by the server or else estimated: where nothing of an answer
had come, a server that was asked has read the request.

The key is in no answer: a server that refuses it often repeats a part of it, so that answer is replaced.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import httpx2

from tenex.core.errors import ConfigurationError, ModelUnavailable
from tenex.core.messages import NO_USAGE, Usage
from tenex.log import get_logger

from .answer_limits import AnswerTooLarge, WebPage, limit_body
from .config import OFFLINE, ModelClientConfig, ProviderConfig, split_name
from .measured_answer import Measure
from .network import connection_fault
from .pricing import Bill, bill_for
from .providers import Destination, Vendor, destination_of
from .rate_limit import ProviderQueue
from .vendor_apis import Api, Asked, Fault, Rejected, error_event, read_request

CONNECTING: Final = 15.0
"""Seconds to reach a server, or the company's proxy."""

_SENT_HEADERS: Final = ("accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
"""What of a program's headers a provider gets: its keys, cookies and accounts are not among them."""
_SENT_QUERY: Final = ("beta", "alt")
_GIVEN_HEADERS: Final = re.compile(
    r"content-type|retry-after(-ms)?|x-should-retry|request-id|x-request-id|(x|anthropic)-ratelimit-[a-z-]+"
)
"""What of a server's headers the program gets."""

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA: Final = re.compile(rb"^data: ?(.*)$", re.MULTILINE)
_SECONDS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_STATUS_REFUSED: Final = (400, 422)
"""Statuses of servers that do not know `stream_options`."""

log = get_logger(__name__)

OnUsage = Callable[[str, Usage], None]
"""Takes the full name of a model, and what one request has cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """An answer as it is passed on."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: AsyncGenerator[bytes, None]


@dataclass(slots=True, kw_only=True, eq=False)
class _Served:
    """A model that may be asked."""

    name: str
    provider: ProviderConfig
    destination: Destination
    bill: Bill
    queue: ProviderQueue
    takes_stream_options: bool = True


@dataclass(slots=True, kw_only=True, eq=False)
class _Sent:
    """What is known of a request while it is under way."""

    asked: Asked
    served: _Served
    measure: Measure
    is_begun: bool = False
    """Whether a server may have read it."""
    is_failed: bool = False
    """Whether the server answered with an error, which costs nothing."""
    adds_usage: bool = False
    """Whether we asked for the usage of a stream, and the program did not."""
    response: httpx2.Response | None = field(default=None)


class Forwarding:
    """The way from a program to the models that it may use. Belongs to one event loop."""

    def __init__(
        self,
        config: ModelClientConfig,
        models: Sequence[str],
        on_usage: OnUsage,
        queue_of: Callable[[str], ProviderQueue] | None = None,
    ) -> None:
        """Take the full names of models, such as `anthropic:claude-sonnet-5`.

        `queue_of` gives the queue of a provider's calls; without it there are queues for these requests alone.

        Raises:
            ConfigurationError: a name is none of a provider of the settings, or programs cannot use that provider.
        """
        self._config = config
        self._on_usage = on_usage
        self._client: httpx2.AsyncClient | None = None
        self._served: dict[tuple[Vendor, str], _Served] = {}
        own = cache(lambda name: ProviderQueue.of(config.provider(name)))
        for name in models:
            parts = split_name(name)
            if parts is None or name == OFFLINE:
                raise ConfigurationError([f'"{name}" is no model of a provider; write <provider>:<model>.'])
            provider = config.provider(parts[0])
            destination = destination_of(provider)
            served = _Served(
                name=name,
                provider=provider,
                destination=destination,
                bill=bill_for(config, name),
                queue=(queue_of or own)(provider.name),
            )
            self._served.setdefault((destination.vendor, parts[1]), served)

    async def read(self, vendor: Vendor, path: str, body: bytes) -> Asked:
        """What a program asks for.

        Raises:
            Rejected: it may not, or it cannot be read.
        """
        asked = await asyncio.to_thread(read_request, vendor, path, body)
        if (vendor, asked.model) not in self._served:
            names = ", ".join(sorted(model for of, model in self._served if of == vendor))
            known = f"It may use {names}." if names else "It may use none by this protocol."
            raise Rejected(
                Fault.UNKNOWN_MODEL, f'The agent\'s file does not name the model "{asked.model[:80]}". {known}'
            )
        return asked

    def least(self, asked: Asked) -> Usage:
        """What a request costs before a word is written, estimated."""
        if asked.is_free:
            return NO_USAGE
        served = self._served[asked.vendor, asked.model]
        return Measure(asked.api, asked.tokens).usage(served.provider, served.destination, served.bill)

    @asynccontextmanager
    async def answer(
        self, asked: Asked, headers: Mapping[str, str], query: Iterable[tuple[str, str]] = ()
    ) -> AsyncIterator[Passed]:
        """Ask the provider; the answer is passed on within the block.

        Args:
            asked: the request, as `read` gives it.
            headers: all that the program sent, by names in lower case.
            query: of the program's address.

        Raises:
            Rejected: no server was reached, or it took too long, or its answer cannot be passed on.
        """
        served = self._served[asked.vendor, asked.model]
        sent = _Sent(asked=asked, served=served, measure=Measure(asked.api, asked.tokens))
        kept = {name: headers[name] for name in _SENT_HEADERS if name in headers}
        parameters = [(name, value) for name, value in query if name in _SENT_QUERY]
        try:
            async with served.queue.turn(asked.tokens, model=served.name) as turn:
                deadline = asyncio.get_running_loop().time() + self._config.timeout
                try:
                    response = await self._sent(sent, kept, parameters, deadline)
                    passed = await self._passed(sent, response, deadline)
                    async with aclosing(passed.pieces):
                        yield passed
                finally:
                    turn.settle(self._report(sent).tokens)
                    if sent.response is not None:
                        await sent.response.aclose()
        except ModelUnavailable as error:  # of the queue
            raise Rejected(Fault.BUSY, f"{error}.", error.retry_after) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _report(self, sent: _Sent) -> Usage:
        """Report what a request has cost."""
        if not sent.is_begun or sent.is_failed or sent.asked.is_free:
            return NO_USAGE
        served = sent.served
        usage = sent.measure.usage(served.provider, served.destination, served.bill)
        log.info(
            "proxy.answered",
            model=served.name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
            estimated_tokens=usage.estimated,
        )
        self._on_usage(served.name, usage)
        return usage

    async def _sent(
        self, sent: _Sent, headers: Mapping[str, str], query: list[tuple[str, str]], deadline: float
    ) -> httpx2.Response:
        """Send a request, again where the server does not know an option of ours or has another key by now."""
        response = await self._sent_once(sent, headers, query, deadline)
        if sent.adds_usage and response.status_code in _STATUS_REFUSED:
            await response.aread()
            if b"stream_options" in response.content or b"include_usage" in response.content:
                sent.served.takes_stream_options = False
                response = await self._sent_once(sent, headers, query, deadline)
        if response.status_code == Fault.KEY.status and await self._reads_key_again(sent.served):
            await response.aclose()
            response = await self._sent_once(sent, headers, query, deadline)
        return response

    async def _sent_once(
        self, sent: _Sent, headers: Mapping[str, str], query: list[tuple[str, str]], deadline: float
    ) -> httpx2.Response:
        destination = sent.served.destination
        body: dict[str, Any] = dict(sent.asked.body)
        options = body.get("stream_options")
        sent.adds_usage = (
            sent.asked.api is Api.CHAT
            and sent.asked.is_streamed
            and sent.served.takes_stream_options
            and not (isinstance(options, dict) and options.get("include_usage"))
        )
        if sent.adds_usage:
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        client = self._opened()
        # as it was read: of a name that is there twice a server may take another
        content = await asyncio.to_thread(lambda: json.dumps(body).encode())
        request = client.build_request(
            "POST",
            f"{destination.address}{sent.asked.path}",
            params=tuple(query) or None,
            content=content,
            headers={**headers, **destination.headers, "content-type": "application/json"},
        )
        sent.is_begun = True
        try:
            async with asyncio.timeout_at(deadline):
                response = await client.send(request, stream=True)
        except TimeoutError as error:
            raise self._too_late(sent) from error
        except httpx2.HTTPError as error:
            sent.is_begun = not isinstance(error, httpx2.ConnectError | httpx2.ProxyError | httpx2.ConnectTimeout)
            raise self._unreachable(sent, error) from error
        sent.response = response
        limit_body(response)
        return response

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            waits = httpx2.Timeout(None, connect=CONNECTING)  # answers are bounded as those of our own calls
            self._client = httpx2.AsyncClient(timeout=waits, follow_redirects=False)
        return self._client

    async def _reads_key_again(self, served: _Served) -> bool:
        """Take a key that has changed since it was read; whether it has."""
        try:
            now = await asyncio.to_thread(self._config.read_again, served.provider)
            destination = destination_of(now)
        except ConfigurationError:
            return False
        is_other = now.api_key != served.provider.api_key
        for other in self._served.values():
            if other.provider.name == now.name:
                other.provider, other.destination = now, destination
        return is_other

    async def _passed(self, sent: _Sent, response: httpx2.Response, deadline: float) -> Passed:
        """What the program gets of an answer."""
        sent.is_failed = response.status_code >= 300
        pause = response.headers.get("retry-after", "")
        if not sent.is_failed:
            sent.served.queue.resume(sent.served.name)
        elif _SECONDS.fullmatch(pause):
            sent.served.queue.pause(float(pause), sent.served.name)
        if response.status_code == Fault.KEY.status:
            log.warning("proxy.key_refused", provider=sent.served.provider.name)
            where = f"models.providers.{sent.served.provider.name}"
            raise Rejected(Fault.KEY, f"The provider refused its key. The operator has to correct {where}.")
        if 300 <= response.status_code < 400:
            raise Rejected(Fault.UNAVAILABLE, f"{sent.served.name}: its server answered with a redirect.")
        given = tuple((name, value) for name, value in response.headers.items() if _GIVEN_HEADERS.fullmatch(name))
        if "text/event-stream" in response.headers.get("content-type", "") and not sent.is_failed:
            pieces = self._events(sent, response, deadline)
        else:
            whole = await self._whole(sent, response, deadline)
            sent.measure.event(whole)
            pieces = _once(whole)
        return Passed(status=response.status_code, headers=given, pieces=pieces)

    async def _whole(self, sent: _Sent, response: httpx2.Response, deadline: float) -> bytes:
        try:
            async with asyncio.timeout_at(deadline):
                return await response.aread()
        except TimeoutError as error:
            raise self._too_late(sent) from error
        except httpx2.HTTPError as error:
            raise self._unreachable(sent, error) from error

    async def _events(self, sent: _Sent, response: httpx2.Response, deadline: float) -> AsyncGenerator[bytes, None]:
        """The events of a stream, each as soon as it is complete; a fault is the last one."""
        try:
            async with aclosing(_events_of(self._in_time(response, deadline))) as events:
                async for event in events:
                    data = b"\n".join(found.rstrip(b"\r") for found in _DATA.findall(event))
                    value = sent.measure.event(data)
                    is_ours = sent.adds_usage and value is not None and value.get("usage") and not value.get("choices")
                    if not is_ours:
                        yield event
        except TimeoutError:
            is_over = asyncio.get_running_loop().time() >= deadline
            fault = self._too_late(sent) if is_over else self._silent(sent)
        except httpx2.HTTPError as error:
            fault = self._unreachable(sent, error)
        else:
            return
        yield error_event(sent.asked.api, fault.fault, str(fault))

    async def _in_time(self, response: httpx2.Response, deadline: float) -> AsyncGenerator[bytes, None]:
        """The body of an answer, with no silence longer than our own calls permit."""
        loop = asyncio.get_running_loop()
        async with aclosing(response.aiter_bytes()) as pieces:
            while True:
                async with asyncio.timeout_at(min(deadline, loop.time() + self._config.idle_timeout)):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                yield piece

    def _too_late(self, sent: _Sent) -> Rejected:
        log.warning("proxy.unavailable", model=sent.served.name, reason="timeout")
        seconds = self._config.timeout
        sentence = f"{sent.served.name} did not finish its answer within {seconds:g} s, which models.timeout sets."
        return Rejected(Fault.TIMEOUT, sentence)

    def _silent(self, sent: _Sent) -> Rejected:
        log.warning("proxy.unavailable", model=sent.served.name, reason="silence")
        seconds = self._config.idle_timeout
        return Rejected(Fault.TIMEOUT, f"{sent.served.name} fell silent within its answer for {seconds:g} s.")

    def _unreachable(self, sent: _Sent, error: Exception) -> Rejected:
        why = connection_fault(error)
        if why is None:
            is_understood = isinstance(error, AnswerTooLarge | WebPage)
            why = f"sent what cannot be passed on: {error}" if is_understood else "could not be reached, or broke off"
        log.warning("proxy.unavailable", model=sent.served.name, reason=type(error).__name__)
        return Rejected(Fault.UNAVAILABLE, f"{sent.served.name}: its server {why}.")


async def _once(whole: bytes) -> AsyncGenerator[bytes, None]:
    yield whole


async def _events_of(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The events of a stream with the blank lines that end them; what remains at the end is the last."""
    rest = bytearray()
    looked = 0
    async with aclosing(pieces):
        async for piece in pieces:
            rest += piece
            while (end := _EVENT_END.search(rest, max(0, looked - 3))) is not None:
                event = bytes(rest[: end.end()])
                del rest[: end.end()]
                looked = 0
                yield event
            looked = len(rest)
    if rest:
        yield bytes(rest)
