"""The remote signers that hold keys, each asked whether it is there (NIP-46)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from tenex.core.errors import ConfigurationError, RelayUnavailable
from tenex.nostr.keys import KeyRing, RemoteKey
from tenex.nostr.signers import SignerClient, SignerRefused, SignerSilent
from tenex.operations.doctor.findings import Case, Finding, fault, ok, warning

TIMEOUT: Final = 5.0
"""Seconds for an answer, with the connection."""
NO_DIRECT: Final = "direct messages to this key are not read, because a remote signer holds it"


def signers(case: Case) -> Iterator[Finding]:
    """Ask each signer for a sign of life, by the client key that the daemon uses; nothing is signed."""
    ring = KeyRing(*case.paths.key_folders)
    keys: dict[str, RemoteKey] = {}
    for name in ring.names():
        try:
            key = ring.read(name)
        except ConfigurationError:  # the check `keys` reports it
            continue
        if isinstance(key, RemoteKey):
            keys[name] = key

    async def ask_all() -> list[Finding]:
        return await asyncio.gather(*(_ask(name, key, str(ring.file(name))) for name, key in keys.items()))

    if keys:
        yield from asyncio.run(ask_all())
    for name in keys:
        yield ok(NO_DIRECT, ring.file(name))


async def _ask(name: str, key: RemoteKey, location: str) -> Finding:
    start = time.perf_counter()
    client = SignerClient(key.signer, key.relays, key.client)
    running = asyncio.create_task(client.run(), name=f"signer of {name}")
    try:
        await client.ask("ping", patience=TIMEOUT)
    except SignerSilent as error:
        fix = f"start it, or connect {name} to another: `tenex keys connect {name} --replace`"
        return fault(f"the remote signer of {name} is silent: {error}", location, fix, RelayUnavailable)
    except SignerRefused as error:
        fix = f"allow it there, or connect again: `tenex keys connect {name} --replace`"
        return warning(f"the remote signer of {name} refuses a ping: {error}", location, fix)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return ok(f"the remote signer of {name} answers in {(time.perf_counter() - start) * 1000:.0f} ms", location)
