"""A login by a remote signer (NIP-46): this process asks it to sign the login, and later what its owner writes here.

    POST /login/signer   address     connects; the signer signs an event for this page, as a key in the browser does
                         number      waits on, once a person has allowed it where the signer said

The page makes no request but to this server. Who is not logged in may name relays: they have to be at public addresses,
or in the settings, and few logins wait at a time.
"""

import asyncio
import secrets
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.errors import RelayUnavailable, TransientError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.nostr.events import Event, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.signers import BunkerAddress, SignerClient, SignerRefused, SignerSilent, parse_bunker
from tenex.nostr.threading import KINDS
from tenex.nostr.urls import normalise_url

from .key_login import KIND as LOGIN
from .key_login import KeyLogins

PATIENCE: Final = 60.0
"""Seconds for a person to allow something at their signer."""
LATER: Final = 600.0
"""Seconds for one who has to open another page for it."""
MOST: Final = 3
"""Logins that wait at a time: each asks relays that anybody may have named."""
PERMISSIONS: Final = ",".join(f"sign_event:{kind}" for kind in (*KINDS, LOGIN))


@dataclass(eq=False)
class SessionSigner:
    """The signer of a browser that is logged in."""

    client: SignerClient
    running: asyncio.Task[None]
    public: PublicKey = PublicKey("")
    """The key that it holds."""

    async def sign(self, events: Sequence[UnsignedEvent]) -> list[Event]:
        """Sign events, each verified.

        Raises:
            UsageError: the signer refuses.
            TransientError: it does not answer in time.
        """
        try:
            async with asyncio.timeout(PATIENCE):  # also where it asks a person at an address of its own
                return [await self.client.sign(event, patience=PATIENCE) for event in events]
        except SignerRefused as fault:
            raise UsageError(f"Your signer refused: {fault}. Nothing was sent.") from fault
        except TimeoutError as fault:
            raise TransientError(
                "Your signer did not sign in time. Nothing was sent; allow it there, and again."
            ) from fault
        except SignerSilent as fault:
            raise TransientError(
                f"Your signer did not sign: {fault}. Nothing was sent; allow it, and again."
            ) from fault
        except ValueError as fault:
            raise UsageError(f"Your signer cannot sign this: {fault}. Nothing was sent.") from fault

    def close(self) -> None:
        """Disconnect."""
        self.running.cancel()


class SignerLogins:
    """Connects to the signers that browsers log in with."""

    def __init__(self, key_logins: KeyLogins, relays: Collection[str]) -> None:
        """Take what judges the signature of a login, and the relays of the settings."""
        self._key_logins = key_logins
        self._relays = frozenset(map(_canonical, relays))
        self._waiting: dict[str, asyncio.Task[SessionSigner]] = {}

    async def begin(self, text: str, url: str) -> "SessionSigner | tuple[str, str]":
        """Log in at `url`: the signer, or where a person has to allow it first, and the number to go on with.

        Raises:
            UsageError: the address is none, the signer refuses, or its key is not an owner's.
            TransientError: it does not answer in time, or too many wait.
        """
        try:
            address = parse_bunker(text)
        except ValueError as fault:
            raise UsageError(f"The address was not read: {fault}.") from fault
        if len(self._waiting) >= MOST:
            raise TransientError("Other logins wait for their signers. Try again in some minutes.")
        number = secrets.token_urlsafe(16)
        allow_at: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_allow(where: str) -> None:
            if not allow_at.done():
                allow_at.set_result(where)

        client = SignerClient(
            address.signer,
            address.relays,
            SecretKey.generate(),
            on_allow=on_allow,
            must_be_public=lambda relay: relay not in self._relays,
        )
        connecting = asyncio.create_task(self._connect(client, address, url), name="login by a signer")
        self._waiting[number] = connecting
        asyncio.get_running_loop().call_later(LATER, self._forget, number)
        waits: list[asyncio.Future[Any]] = [connecting, allow_at]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            return allow_at.result(), number
        return await self.go_on(number)

    async def go_on(self, number: str) -> SessionSigner:
        """Wait for a login that a person had to allow elsewhere.

        Raises:
            UsageError: it is over, or as for `begin`.
            TransientError: as for `begin`.
        """
        connecting = self._waiting.get(number)
        if connecting is None:
            raise UsageError("This login is over. Begin again, with a new address of your signer.")
        try:
            return await connecting
        finally:
            self._waiting.pop(number, None)

    def _forget(self, number: str) -> None:
        """End a login with which its browser has not gone on."""
        connecting = self._waiting.pop(number, None)
        if connecting is None:
            return
        if not connecting.cancel() and connecting.exception() is None:
            connecting.result().close()

    async def _connect(self, client: SignerClient, address: BunkerAddress, url: str) -> SessionSigner:
        signer = SessionSigner(client, asyncio.create_task(client.run(), name="relays of a browser's signer"))
        try:
            async with asyncio.timeout(LATER):
                signer.public = await _connected(client, address)
                tags = (("u", url), ("method", "POST"))
                wanted = unsigned_event(signer.public, int(time.time()), LOGIN, tags, "")
                event = await client.sign(wanted, patience=PATIENCE)
            if why := self._key_logins.judge(event, url):
                raise UsageError(why)  # noqa: TRY301 the connection is closed below
        except BaseException as fault:
            signer.close()
            if isinstance(fault, SignerRefused):
                raise UsageError(f"The signer refused: {fault}. Most addresses work once.") from fault
            if isinstance(fault, SignerUnreachable):
                raise TransientError(f"The signer was not reached: {fault}. Nothing was sent.") from fault
            if isinstance(fault, (SignerSilent, TimeoutError)):
                raise TransientError(f"The signer did not answer in time: {fault}.") from fault
            raise
        return signer


async def _connected(client: SignerClient, address: BunkerAddress) -> PublicKey:
    """The key that a signer holds, once it knows this client; a person does not wait for relays that cannot be reached.

    Raises:
        SignerUnreachable: none of its relays can be.
    """
    connecting = asyncio.create_task(client.connect(address, PERMISSIONS, patience=PATIENCE), name="login by a signer")
    looking = asyncio.create_task(client.unreachable(), name="relays of a signer")
    try:
        await asyncio.wait([connecting, looking], return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            raise SignerUnreachable(looking.result())
        public, _ = await connecting
        return public
    finally:
        connecting.cancel()
        looking.cancel()


class SignerUnreachable(RelayUnavailable):
    """No relay of a signer can be reached."""


def _canonical(url: str) -> str:
    with suppress(ValueError):
        return normalise_url(url)
    return url
