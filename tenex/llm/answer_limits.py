"""Limits of what a provider's server may send, so that no answer fills the memory or holds the event loop.

They are set on the HTTP client of a provider, below the vendors' libraries, and so hold for whole answers, streams,
errors and redirects of every vendor alike. Bytes are counted before and after each decompression. They are constants:
no model writes half of what they allow, so there is nothing to adjust.

* An error or a redirect is cut: its beginning holds what is wanted of it.
* A stream of server-sent events may be long, because a server wraps each token into an event of some hundred bytes. It
  is limited as a whole, in its events, and in each event.
* Anything else is one document. The libraries make objects of about a kilobyte out of each pair of brackets, so the
  brackets of a document or an event are limited too.

The same hook sees two other things that the libraries do not: an error in a document with a good status, which gets
the status that it names, and a whole answer to a request for a stream.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import httpx2

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider

MB: Final = 1024 * 1024

ANSWER: Final = 64 * MB
"""Bytes of a stream: 128,000 tokens, as the largest models write, take up to 50 MB as an event each."""
EVENTS: Final = 2**18
"""Events of a stream, twice as many."""
DOCUMENT: Final = 4 * MB
"""Bytes of a whole answer or of one event: 128,000 tokens with every character escaped take half."""
BRACKETS: Final = 2**17
"""Opening brackets in them, those within texts included: a file of 4 MB of JSON has about as many."""
ERROR: Final = 64 * 1024
"""Bytes that are read of an error or a redirect: an HTML page has fewer, and the message comes first."""
CODINGS: Final = 5
"""Compressions of one answer, as httpx2 limits them; real servers use one."""

CONTENT: Final = 2 * MB
"""Bytes of text, thoughts and arguments in a stream: 128,000 tokens have 600 KB."""
PARTS: Final = 1024
"""Texts, thoughts and calls of a stream; of the calls 64 are carried out."""

_PIECE: Final = 64
"""Bytes that each piece counts beside its own: a byte that is sent alone takes as much time as many."""
_SLICE: Final = 16 * 1024
"""Bytes that are passed on before other tasks run: some hundred events."""

_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BEGIN_EVENTS: Final = b":deir"
"""The first letters of a comment and of the fields `data`, `event`, `id` and `retry`; no JSON begins with one."""


class AnswerTooLarge(httpx2.RequestError):
    """A server sent more than a limit allows; the message names the limit."""


class WebPage(httpx2.RequestError):
    """A server answered with a page for people, as one does whose address lacks its last part."""


class WholeAnswer(httpx2.RequestError):
    """A server answered whole where a stream was asked for."""


def exceeded(error: BaseException | None) -> AnswerTooLarge | None:
    """The limit behind an error of a library; None where there is none."""
    found = _behind(error, AnswerTooLarge)
    return found if isinstance(found, AnswerTooLarge) else None


def is_page(error: BaseException | None) -> bool:
    """Whether a web page is behind an error of a library."""
    return _behind(error, WebPage) is not None


def _behind(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def is_whole(error: BaseException | None) -> bool:
    """Whether a whole answer to a request for a stream is behind an error of a library."""
    return _behind(error, WholeAnswer) is not None


def limit_provider(provider: "Provider[Any]") -> None:
    """Limit what the servers of a provider may send to the client that it made for itself."""
    make = provider._http_client_factory
    if provider._own_http_client is None or make is None:
        return

    def limited() -> Any:
        return limit_client(make())

    limit_client(provider._own_http_client)
    provider._http_client_factory = limited  # for a client that was closed, or belongs to another event loop


def limit_client(client: Any) -> Any:
    """Limit what servers may send to a client of httpx2, or of httpx, which Cohere's and Groq's libraries use."""
    client.event_hooks = {**client.event_hooks, "response": [*client.event_hooks["response"], limit_answer]}
    return client


async def limit_answer(response: Any) -> None:
    """Limit an answer whose body has not been read; a hook of the client, called for redirects too."""
    is_read_whole = limit_body(response)
    if is_read_whole and "json" in response.headers.get("content-type", ""):
        await _check_document(response)


def limit_body(response: Any) -> bool:
    """Limit and decompress the body of an answer while it is read; whether all of it will be.

    Raises:
        AnswerTooLarge: it says that it is compressed too often.
    """
    codings = [coding.strip().lower() for coding in response.headers.get_list("content-encoding", split_commas=True)]
    if len(codings) > CODINGS:
        raise AnswerTooLarge(f"more than {CODINGS} compressions of one answer")
    source = response.stream
    pieces: AsyncGenerator[bytes, None] = _counted(source, _Count().take)
    for coding in reversed(codings):
        packed = httpx2.Response(200, headers={"content-encoding": coding}, stream=_Stream(pieces, source.aclose))
        pieces = _counted(packed.aiter_bytes(), _Count().take)
    if codings:
        del response.headers["content-encoding"]
    is_read_whole: bool = response.status_code < 300
    pieces = _counted(pieces, _AnswerCount().take) if is_read_whole else _cut(pieces)
    library = sys.modules[type(response).__module__.partition(".")[0]]
    kind = _Stream if library is httpx2 else type("_LegacyStream", (_Pieces, library.AsyncByteStream), {})
    response.stream = kind(pieces, source.aclose)
    return is_read_whole


async def _check_document(response: Any) -> None:
    """Give an error within a good answer its status, as if it had been sent with it; routers say most errors so.

    Raises:
        WholeAnswer: it is a good answer, and a stream was asked for.
    """
    try:
        body = json.loads(await response.aread())
    except (ValueError, RecursionError):
        return
    body = body[0] if isinstance(body, list) and body else body
    fault = body.get("error") if isinstance(body, dict) and not body.get("choices") else None
    if fault:
        code = fault.get("code") if isinstance(fault, dict) else None
        is_status = isinstance(code, int | str) and _STATUS.fullmatch(str(code))
        response.status_code = int(str(code)) if is_status else 500
    elif isinstance(body, dict) and body.get("choices") and _ASKS_STREAM.search(response.request.content):
        raise WholeAnswer("a whole answer, and no stream")


_STATUS: Final = re.compile(r"[45]\d\d")
_ASKS_STREAM: Final = re.compile(rb'"stream": ?true')


class _Pieces:
    """The body of an answer. A reader goes on after a pause where it was: so connections are reused."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]]) -> None:
        self._pieces = pieces
        self._close = close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._close()


class _Stream(_Pieces, httpx2.AsyncByteStream):
    """The same for httpx2."""


class _Count:
    """Counts the bytes of a body."""

    def __init__(self) -> None:
        self._bytes = 0

    def take(self, piece: bytes) -> None:
        """Count the next piece.

        Raises:
            AnswerTooLarge: it is more than a limit allows.
            WebPage: it begins like one.
        """
        self._bytes += len(piece) + _PIECE
        if self._bytes > ANSWER:
            raise AnswerTooLarge(f"more than {ANSWER // MB} MB in one answer")


class _AnswerCount(_Count):
    """Counts what is in an answer: a stream of events, or one document."""

    def __init__(self) -> None:
        super().__init__()
        self._is_stream: bool | None = None
        """None before the first character."""
        self._end = b""
        """The last characters, in which a blank line may have begun."""
        self._events = self._size = self._brackets = 0

    def take(self, piece: bytes) -> None:
        """See `_Count.take`."""
        super().take(piece)
        if self._is_stream is None:
            begin = piece.lstrip(b" \t\r\n\xef\xbb\xbf")
            self._is_stream = begin[0] in _BEGIN_EVENTS if begin else None
            if begin.startswith(b"<"):  # no JSON does, and no event
                raise WebPage("a web page")
        if self._is_stream:
            piece = self._last_event(piece)
        self._size += len(piece)
        self._brackets += piece.count(b"{") + piece.count(b"[")
        what = "event" if self._is_stream else "answer"
        if self._size > DOCUMENT:
            raise AnswerTooLarge(f"more than {DOCUMENT // MB} MB in one {what}")
        if self._brackets > BRACKETS:
            raise AnswerTooLarge(f"more than {BRACKETS:,} brackets in one {what}")
        if self._events > EVENTS:
            raise AnswerTooLarge(f"more than {EVENTS:,} events in one answer")

    def _last_event(self, piece: bytes) -> bytes:
        """What of a piece belongs to the event that has not ended."""
        text = self._end + piece
        ends = [blank.end() for blank in _BLANK_LINE.finditer(text)]
        rest = text[ends[-1] :] if ends else text
        self._end = rest[-3:]
        if not ends:
            return piece
        self._events += len(ends)
        self._size = self._brackets = 0
        return rest


async def _counted(source: AsyncIterable[bytes], count: Callable[[bytes], None]) -> AsyncGenerator[bytes, None]:
    """Pass on a body in small pieces, and let other tasks run between them."""
    passed = 0
    async with aclosing(aiter(source)) as pieces:  # type: ignore[type-var]  # the bodies are generators
        async for piece in pieces:
            for start in range(0, len(piece), _SLICE):
                part = piece[start : start + _SLICE]
                count(part)
                yield part
                passed += len(part) + _PIECE
                if passed >= _SLICE:
                    passed = 0
                    await asyncio.sleep(0)


async def _cut(source: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Pass on the beginning of a body."""
    left = ERROR
    async with aclosing(source):
        async for piece in source:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return
