"""Each relay, asked as the daemon asks it: name, connection, TLS, websocket, a subscription served to its EOSE."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from tenex.configuration.agents import PROJECT
from tenex.core.errors import ConfigurationError, RelayUnavailable, TenexError
from tenex.nostr.connection import ClientConnection
from tenex.nostr.events import MAX_EVENT_BYTES
from tenex.nostr.keys import Key, KeyRing, RemoteKey
from tenex.nostr.relay_info import DocumentUnread, read_limits
from tenex.nostr.retry import ReasonAction, printable, read_answer
from tenex.nostr.threading import KINDS
from tenex.nostr.timeouts import REFUSED_AHEAD, RelayTimeouts
from tenex.nostr.urls import is_loopback, normalise_url
from tenex.nostr.websocket import open_websocket
from tenex.runtime.functions import in_thread

from .findings import Case, Finding, Level, fault, ok, url_text, warning

STEP_TIMEOUT: Final = 6.0
"""Seconds for each of name, connection and subscription; with the document they stay below those of the check."""
DOCUMENT_TIMEOUT: Final = 3.0
MAX_SKEW: Final = 60.0
"""Seconds: events of the daemon are dated at most so far ahead; more is a clock that is wrong."""

REFUSED: Final = "connection refused: no relay listens there"
NEEDS_KEY: Final = "it serves authenticated clients only (NIP-42), and there is no project key"

_RETRY: Final = "it may pass: the daemon keeps trying; else name another relay under relays.urls"
_OTHER: Final = "check the address, or name another relay under relays.urls"


def relays(case: Case) -> Iterator[Finding]:
    """Examine all relays concurrently."""
    try:
        identity = KeyRing(*case.paths.key_folders).read(PROJECT)
    except ConfigurationError:
        identity = None  # the check `keys` reports it

    async def ask_all() -> list[list[Finding]]:
        return await asyncio.gather(*(examine_relay(url, identity) for url in dict.fromkeys(case.settings.relays.urls)))

    results = asyncio.run(ask_all())
    for found in results:
        yield from found
    if len(results) > 1 and all(any(finding.level is Level.FAULT for finding in found) for found in results):
        yield fault("no relay can be used: no message can be received", "relays.urls", _OTHER, RelayUnavailable)


async def examine_relay(url: str, identity: Key | None) -> list[Finding]:
    """Connect to a relay and subscribe, with the project's key where it asks for one; publishes nothing."""
    location = url_text(url)
    try:
        plain = normalise_url(url)
    except ValueError as error:
        return [fault(str(error), "relays.urls", "write wss:// and the relay's name")]
    parts = urlsplit(plain)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    try:
        # a thread of its own: looking up a name cannot be cancelled, and would hold up the end of the program
        name = partial(socket.getaddrinfo, parts.hostname, port, type=socket.SOCK_STREAM)
        await asyncio.wait_for(in_thread(name), STEP_TIMEOUT)
        async with asyncio.timeout(2 * STEP_TIMEOUT + DOCUMENT_TIMEOUT):
            return await _connected(plain, location, identity)
    except (OSError, WebSocketException, RelayUnavailable) as error:
        message, fix = _reason(error)
        if is_loopback(plain) and isinstance(error, ConnectionRefusedError):
            fix = f"start it: `tenex relay --port {port}` runs one on this machine"
        return [fault(message, location, fix, RelayUnavailable)]


async def _connected(url: str, location: str, identity: Key | None) -> list[Finding]:
    timeouts = replace(RelayTimeouts(), auth_timeout=STEP_TIMEOUT / 2)
    async with await open_websocket(url, open_timeout=STEP_TIMEOUT, close_timeout=1) as opened:
        found = [*_clock(opened.server_date, location)]
        connection = ClientConnection(opened, url, prefix="doctor", identity=identity, timeouts=timeouts, now=time.time)
        tasks = [asyncio.create_task(connection.read()), asyncio.create_task(connection.write())]
        try:
            found.append(await _subscription(connection, location, identity))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    limits = None
    with suppress(DocumentUnread):
        limits = await read_limits(url, DOCUMENT_TIMEOUT)
    if limits is not None and limits.max_message_length < MAX_EVENT_BYTES:
        message = f"it takes no message above {limits.max_message_length:,} bytes, so long answers are cut"
        found.append(warning(message, location, "add a relay with a higher limit"))
    return found


async def _subscription(connection: ClientConnection, location: str, identity: Key | None) -> Finding:
    """Subscribe as the daemon does, once more after authentication if the relay asks for it.

    Raises:
        RelayUnavailable: it closed the connection, or does not answer.
    """
    start = time.perf_counter()
    note = ""
    recipient = {} if identity is None else {"#p": [identity.public]}
    while True:
        request = connection.request([{"kinds": list(KINDS), "limit": 1, **recipient}], lambda _: None)
        if not await request.settled(STEP_TIMEOUT):
            raise RelayUnavailable(f"it does not answer the subscription for {STEP_TIMEOUT:g} s")
        if request.eose.done():
            connection.drop(request)
            return ok(f"serves a subscription in {(time.perf_counter() - start) * 1000:.0f} ms{note}", location)
        refusal = request.closed.result()
        if refusal is None:
            raise RelayUnavailable("it closed the connection after the subscription")
        answer = read_answer(refusal)
        if note or answer.action is not ReasonAction.AUTH:
            message = f"it refuses the subscription: {answer.text or 'without a reason'}"
            fix = _OTHER if answer.action is ReasonAction.FINAL else _RETRY
        elif identity is None:
            message = NEEDS_KEY
            fix = "restore the key, or run `tenex init`"
        elif isinstance(identity, RemoteKey):
            message = (
                "it asks for authentication (NIP-42) with the project's key, whose remote signer is not asked here"
            )
            return warning(message, location, "look whether `tenex status` shows it as connected")
        elif refused := await connection.authenticate():
            message = f"it asks for authentication (NIP-42) and refuses the project's key: {printable(refused)}"
            fix = "ask its operator to admit the project's npub, or name another relay"
        else:
            note = ", after authentication with the project's key (NIP-42)"
            continue
        return fault(message, location, fix, RelayUnavailable)


def _clock(server_date: float | None, location: str) -> Iterator[Finding]:
    """Compare this machine's clock with the Date of the relay's answer."""
    ahead = time.time() - server_date if server_date is not None else 0.0
    message = f"this machine's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the relay's"
    fix = "set the clock (`timedatectl set-ntp true`), unless other relays agree with it"
    if abs(ahead) > REFUSED_AHEAD:
        yield fault(f"{message}; relays refuse events dated so far off", location, fix)
    elif abs(ahead) > MAX_SKEW:
        yield warning(message, location, fix)


def _reason(error: Exception) -> tuple[str, str]:
    """Why a connection failed, and the fix."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {error.verify_message}", f"{_OTHER}; or set the clock"
        case ssl.SSLError():
            return f"no TLS: {error.reason or error}", f"{_OTHER}; ws:// and wss:// are not the same"
        case socket.gaierror():
            return f"its name is not known ({error.strerror})", f"{_OTHER}; or repair this machine's network"
        case InvalidStatus():
            return f"it answers HTTP {error.response.status_code}, and opens no websocket", _OTHER
        case InvalidHandshake():
            return f"it speaks no websocket there: {printable(str(error))}", _OTHER
        case TimeoutError():
            return "no answer in time", _RETRY
        case ConnectionRefusedError():
            return REFUSED, _RETRY
        case ConnectionResetError() | EOFError():
            return "it closes the connection without an answer", f"{_OTHER}; ws:// and wss:// are not the same"
        case OSError():
            return f"cannot be reached: {printable(error.strerror or str(error) or type(error).__name__)}", _RETRY
        case TenexError():
            return printable(str(error)), _RETRY
    return f"the connection broke: {printable(str(error))}", _RETRY
