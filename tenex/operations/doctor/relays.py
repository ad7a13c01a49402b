"""Each relay asked as the daemon will: name, connection, TLS, websocket, a subscription served to its EOSE."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from tenex.configuration.agents import PROJECT
from tenex.core.errors import ConfigurationError, RelayUnavailable, TenexError
from tenex.nostr.connection import ClientConnection
from tenex.nostr.events import MAX_EVENT_BYTES
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.nostr.relay_info import read_limits
from tenex.nostr.relay_reasons import ReasonAction, printable, read_answer
from tenex.nostr.subscriptions import KINDS
from tenex.nostr.timeouts import REFUSED_AHEAD, RelayTimeouts
from tenex.nostr.urls import is_loopback, normalise_url
from tenex.nostr.websocket import RelaySocket, open_websocket

from .findings import Case, Finding, fault, ok, warning
from .format import shown
from .runner import in_thread

NAME_DEADLINE: Final = 6.0
OPEN_DEADLINE: Final = 6.0
SERVE_DEADLINE: Final = 6.0
"""Seconds; together with the document's they stay below the deadline of the check."""
DOCUMENT_DEADLINE: Final = 3.0
SKEW: Final = 60.0
"""Seconds: what we date is at most so far ahead; more is a clock that is wrong."""

_AGAIN: Final = "it may pass: the daemon tries again by itself; else name another relay under relays.urls"
_OTHER: Final = "check the address, or name another relay under relays.urls"


async def relays(case: Case) -> AsyncIterator[Finding]:
    """All relays at the same time."""
    if case.settings is None or "relays" in case.doubtful:
        return
    identity = _identity(case)
    urls = list(dict.fromkeys(case.settings.relays.urls))
    worst: list[bool] = []
    for several in await asyncio.gather(*(_relay(url, identity) for url in urls)):
        worst.append(any(finding.level == "fault" for finding in several))
        for finding in several:
            yield finding
    if all(worst) and len(worst) > 1:
        yield fault("no relay can be used: nobody can be heard", "relays.urls", _OTHER, RelayUnavailable)


async def _relay(url: str, identity: SecretKey | None) -> list[Finding]:
    place = shown(url)
    try:
        plain = normalise_url(url)
    except ValueError as error:
        return [fault(str(error), "relays.urls", "write wss:// and the relay's name", ConfigurationError)]
    parts = urlsplit(plain)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "wss" else 80)
    try:
        await in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), NAME_DEADLINE)
        async with asyncio.timeout(OPEN_DEADLINE + SERVE_DEADLINE + DOCUMENT_DEADLINE):
            return await _visited(plain, place, identity)
    except (OSError, WebSocketException, RelayUnavailable) as error:
        what, mend = _reason(error)
        if is_loopback(plain) and isinstance(error, ConnectionRefusedError):
            mend = f"start it: `tenex relay --port {port}` runs one on this machine"
        return [fault(what, place, mend, RelayUnavailable)]


async def _visited(url: str, place: str, identity: SecretKey | None) -> list[Finding]:
    timings = replace(RelayTimeouts(), auth_timeout=SERVE_DEADLINE / 2)
    open_socket = await open_websocket(url, open_timeout=OPEN_DEADLINE, close_timeout=1)
    async with open_socket:
        found = _clock(open_socket, place)
        session = ClientConnection(open_socket, url, prefix="doctor", identity=identity, timings=timings, now=time.time)
        tasks = [asyncio.create_task(session.read()), asyncio.create_task(session.write())]
        try:
            found += await _served(session, place, identity)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    limits = await read_limits(url, DOCUMENT_DEADLINE)
    if limits is not None and limits.max_message_length < MAX_EVENT_BYTES:
        found.append(
            warning(
                f"it takes no message above {limits.max_message_length:,} bytes, so long answers are cut",
                place,
                "name a relay with more room beside it",
            )
        )
    return found


async def _served(session: ClientConnection, place: str, identity: SecretKey | None) -> list[Finding]:
    began = time.perf_counter()
    closed = await _subscribed(session, identity)
    greeted = ""
    if closed is not None and read_answer(closed).advice is ReasonAction.AUTH:
        if identity is None:
            return [
                fault(
                    "it serves only who says who they are (NIP-42), and there is no project key",
                    place,
                    "put the key back, or run `tenex init`",
                    RelayUnavailable,
                )
            ]
        refusal = await session.authenticate()
        if refusal:
            return [
                fault(
                    f"it asks who we are (NIP-42) and refuses our key: {printable(refusal)}",
                    place,
                    "ask its operator to admit the project's npub, or name another relay",
                    RelayUnavailable,
                )
            ]
        greeted = ", after the project's key was shown (NIP-42)"
        closed = await _subscribed(session, identity)
    if closed is not None:
        answer = read_answer(closed)
        mend = _OTHER if answer.advice is ReasonAction.FINAL else _AGAIN
        return [fault(f"it refuses our subscription: {answer.text or 'without a word'}", place, mend, RelayUnavailable)]
    took = (time.perf_counter() - began) * 1000
    return [ok(f"serves a subscription in {took:.0f} ms{greeted}", place)]


async def _subscribed(session: ClientConnection, identity: SecretKey | None) -> str | None:
    """Ask for what the daemon asks for; None where it was served, else the text of the refusal.

    Raises:
        RelayUnavailable: it hung up, or is silent.
    """
    wanted: dict[str, Any] = {"kinds": list(KINDS), "limit": 1}
    if identity is not None:
        wanted["#p"] = [identity.public]
    request = session.request([wanted], lambda _: None)
    if not await request.settled(SERVE_DEADLINE):
        raise RelayUnavailable(f"it takes our subscription and says nothing for {SERVE_DEADLINE:g} s")
    if request.eose.done():
        session.drop(request)
        return None
    refusal = request.closed.result()
    if refusal is None:
        raise RelayUnavailable("it hung up when asked for a subscription")
    return refusal


def _clock(open_socket: RelaySocket, place: str) -> list[Finding]:
    """Our clock against the Date of the relay's answer."""
    theirs = open_socket.server_date
    if theirs is None:
        return []
    ahead = time.time() - theirs
    if abs(ahead) <= SKEW:
        return []
    way = "ahead of" if ahead > 0 else "behind"
    what = f"this machine's clock is {abs(ahead):,.0f} s {way} the relay's"
    mend = "set the clock (`timedatectl set-ntp true`), unless other relays agree with it"
    if abs(ahead) > REFUSED_AHEAD:
        return [fault(f"{what}; relays refuse what is dated so far off", place, mend)]
    return [warning(what, place, mend)]


def _reason(error: Exception) -> tuple[str, str]:
    """What went wrong on the way, and what may be done about it."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not to be trusted: {error.verify_message}", f"{_OTHER}; or set the clock"
        case ssl.SSLError():
            return f"no TLS: {error.reason or error}", f"{_OTHER}; ws:// and wss:// are not the same"
        case socket.gaierror():
            return f"its name is not known ({error.strerror})", f"{_OTHER}; or mend this machine's network"
        case InvalidStatus():
            return f"it answers HTTP {error.response.status_code}, and opens no websocket", _OTHER
        case InvalidHandshake():
            return f"it speaks no websocket there: {printable(str(error))}", _OTHER
        case TimeoutError():
            return "no answer in time", _AGAIN
        case ConnectionRefusedError():
            return "nobody listens there", _AGAIN
        case ConnectionResetError() | EOFError():
            return "it hangs up before it has said a word", f"{_OTHER}; ws:// and wss:// are not the same"
        case OSError():
            return f"cannot be reached: {printable(error.strerror or str(error) or type(error).__name__)}", _AGAIN
        case TenexError():
            return printable(str(error)), _AGAIN
    return f"the connection broke: {printable(str(error))}", _AGAIN


def _identity(case: Case) -> SecretKey | None:
    try:
        return KeyRing(case.places.keys).get(PROJECT) if case.places else None
    except ConfigurationError:
        return None  # `keys` says so
