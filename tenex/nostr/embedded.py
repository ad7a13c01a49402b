"""The embedded relay: rust-nostr's LocalRelay, for a first try, for one machine, and for tests.

Needs the extra `relay`. It listens on loopback only.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from tenex.core.errors import OperatorError, UsageError
from tenex.core.installation import pip_install

HOST = "127.0.0.1"
NOTES_PER_MINUTE = 1_000_000
"""The library's default of about 60 is for public relays; here one daemon publishes for all agents."""

_loops: Final[list[asyncio.AbstractEventLoop]] = []


@contextmanager
def callback_loop() -> Iterator[None]:
    """Have nostr_sdk's callbacks run in this event loop while the context lasts.

    The binding has one global loop: callbacks hang without one, and must not run in one that has ended.
    """
    import nostr_sdk

    loop = asyncio.get_running_loop()
    _loops.append(loop)
    nostr_sdk.uniffi_set_event_loop(loop)
    try:
        yield
    finally:
        _loops.remove(loop)
        nostr_sdk.uniffi_set_event_loop(_loops[-1] if _loops else None)


@asynccontextmanager
async def embedded_relay(port: int = 0, data: Path | None = None) -> AsyncIterator[str]:
    """Run a relay while the context lasts; yields its URL.

    Args:
        port: where to listen; 0 takes a free one.
        data: a folder to keep events in; None keeps them in memory.

    Raises:
        UsageError: the extra is not installed.
        OperatorError: the port is taken, or the folder cannot be used.
    """
    try:
        import nostr_sdk
    except ImportError:
        raise UsageError(f"The embedded relay is not installed. Run: {pip_install(extra='relay')}") from None
    with callback_loop():
        builder = nostr_sdk.LocalRelayBuilder().addr(HOST)
        builder = builder.rate_limit(nostr_sdk.RateLimit(max_reqs=1_000, notes_per_minute=NOTES_PER_MINUTE))
        if port:
            builder = builder.port(port)
        try:
            if data is not None:
                data.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240 once, before anything runs
                builder = builder.database(await nostr_sdk.NostrLmdb.open(str(data)))
            relay = builder.build()
            await relay.run()
        except (nostr_sdk.NostrSdkError, OSError) as error:
            where = f"port {port}" if port else f"the folder {data}"
            raise OperatorError(
                f"The embedded relay cannot start on {where}: {error}. Is another one running?"
            ) from error
        try:
            yield str(await relay.url()).rstrip("/")
        finally:
            relay.shutdown()
