"""A server with pages, at an address that counts as public."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.nostr import addresses
from tests.fakes.certificates import certificate
from tests.kits.addresses import resolving_to

from .kit import DOMAIN, PROXIES, Site, listen


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """The server, whose host counts as public and whose certificate is trusted."""
    trusted, context = certificate(tmp_path, DOMAIN)
    made = Site()
    secure, secure_port = await listen(made, context)
    open_, open_port = await listen(made, None)
    made.https = f"https://{DOMAIN}:{secure_port}"
    made.http = f"http://{DOMAIN}:{open_port}"
    monkeypatch.setattr(addresses, "is_public", lambda _: True)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    async with secure, open_:
        yield made
