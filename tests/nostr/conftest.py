"""Fixtures of the client's tests: a relay that misbehaves as a test asks, and what was delivered."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.faultrelay import FaultRelay

from .kit import Received


@pytest.fixture
async def fault() -> AsyncIterator[FaultRelay]:
    """A relay on loopback."""
    async with FaultRelay() as relay:
        yield relay


@pytest.fixture
async def received() -> Received:
    """Delivered events."""
    return Received()
