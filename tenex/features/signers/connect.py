"""Connecting to a remote signer (NIP-46), once for each key: it is asked which key it holds."""

import asyncio
from typing import Final

from tenex.cli.shared import output
from tenex.core.errors import RelayUnavailable, UsageError
from tenex.nostr.connection import AUTH_KIND
from tenex.nostr.keys import RemoteKey, SecretKey
from tenex.nostr.profiles import METADATA, RELAY_LIST
from tenex.nostr.signers import (
    BunkerAddress,
    SignerClient,
    SignerRefused,
    SignerSilent,
    SignerTimeouts,
    parse_bunker,
)
from tenex.nostr.threading import KINDS
from tenex.nostr.unread_kinds import PUBLIC_MESSAGE

_KINDS: Final = (METADATA, *KINDS, PUBLIC_MESSAGE, RELAY_LIST, AUTH_KIND)
_PERMISSIONS: Final = ",".join(f"sign_event:{kind}" for kind in _KINDS)
"""What the signer is asked to allow from now on: the kinds that a daemon signs."""


def connect_signer(text: str, timeouts: SignerTimeouts | None = None) -> RemoteKey:
    """Connect to the signer of a `bunker://` address, and ask for the key it holds.

    Raises:
        UsageError: it is no such address, or the signer refuses.
        RelayUnavailable: it does not answer.
    """
    try:
        address = parse_bunker(text)
    except ValueError as error:
        raise UsageError(f"The address was not read: {error}.") from error
    relays = ", ".join(address.relays)
    output.message(f"Asking the signer at {relays}; allow it there if it asks.")
    try:
        return asyncio.run(_connect(address, timeouts or SignerTimeouts()))
    except SignerSilent as error:
        raise RelayUnavailable(
            f"The signer did not answer at {relays}: {error}. See that it runs; try again."
        ) from error
    except SignerRefused as error:
        raise UsageError(f"The signer refused: {error}. Ask it for a new address; most work once.") from error


async def _connect(address: BunkerAddress, timeouts: SignerTimeouts) -> RemoteKey:
    key = SecretKey.generate()
    client = SignerClient(address.signer, address.relays, key, timeouts=timeouts, on_allow=_show)
    running = asyncio.create_task(client.run(), name="relays of the signer")
    try:
        public, relays = await client.connect(address, _PERMISSIONS)
        return RemoteKey(public=public, signer=address.signer, relays=relays, client=key)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _show(address: str) -> None:
    output.message(
        f"The signer asks you to allow this at: {address}" if address else "The signer asks you to allow it."
    )
