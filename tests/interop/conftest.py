"""What the tests of this folder share: a real relay, both ways to run the daemon, the packages in JavaScript."""

import os
from collections.abc import AsyncIterator

import pytest

from tenex.nostr.embedded import embedded_relay
from tenex.settings import PREFIX

from .daemons import Opening, as_process, in_process
from .scripts import install


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the tests may hold settings."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    """rust-nostr's relay in this process; gives its url."""
    async with embedded_relay() as url:
        yield url


@pytest.fixture(params=[in_process, as_process], ids=["in process", "as a process"])
def opened(request: pytest.FixtureRequest) -> Opening:
    opening: Opening = request.param
    return opening


@pytest.fixture(scope="session")
def javascript() -> None:
    """The npm packages are there; without node or npm the test is skipped."""
    install()
