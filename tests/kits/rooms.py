"""Rooms of direct messages: their addresses, and waiting until a conversation has its messages."""

import asyncio

from tenex.core import records as r
from tests.fakes.runtime import World

ROOM, OTHER_ROOM = "e" * 64, "f" * 64
FIRST, SECOND, THIRD = "1" * 64, "2" * 64, "3" * 64


def texts(world: World, conversation: str) -> list[str]:
    return [record.text for record in world.records(r.MessageRecorded, conversation)]


async def recorded(world: World, conversation: str, *expected: str) -> None:
    """Wait until a conversation has these messages, and no others."""
    async with asyncio.timeout(600):
        while len(texts(world, conversation)) < len(expected):
            await asyncio.sleep(0.1)
    assert texts(world, conversation) == list(expected)
