"""A person of Buzz: events by buzzkit's builders, which are those of Buzz's own crates, over buzzkit's connection.

Runs with the Python of its own environment (`tests/interop/buzz.py`), and takes orders and gives facts as `lines.mjs`
does: one JSON object to a line, orders on stdin, facts on stdout.
"""

import asyncio
import json
import sys
from typing import Any

import buzzkit  # only its own environment has it


def report(**fact: Any) -> None:
    print(json.dumps(fact), flush=True)


class Person:
    """One key, one connection."""

    def __init__(self) -> None:
        self.secret = ""
        self.client: Any = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def join(self, url: str, secret: str) -> dict[str, str]:
        self.secret = secret
        self.client = buzzkit.BuzzClient(url, secret)
        await self.client.connect()
        return {"pubkey": self.client.pubkey_hex}

    async def enter(self, room: str) -> None:
        """Report what was and will be written in a room."""
        self.tasks.add(asyncio.create_task(self._hear(room)))

    async def publish(self, builder: str, given: dict[str, Any]) -> dict[str, Any]:
        """Build an event by a function of buzzkit, and have the relay take it; returns the event."""
        text = getattr(buzzkit, builder)(self.secret, **given)
        answer = await self.client.publish(text)
        if not answer["accepted"]:
            raise RuntimeError(answer["message"])
        event: dict[str, Any] = json.loads(text)
        return event

    async def listen(self, **orders: Any) -> None:
        """Report what is there and will be of a filter, which has the name that the other clients give it."""
        self.tasks.add(asyncio.create_task(self._listen([orders["filter"]])))

    async def _listen(self, filters: list[dict[str, Any]]) -> None:
        async for event in self.client.subscribe(filters, sub_id="listen"):
            report(heard=event, verified=buzzkit.verify_event(json.dumps(event)))

    async def _hear(self, room: str) -> None:
        async for event in self.client.subscribe_channel(room, sub_id=room):
            report(heard=event, verified=buzzkit.verify_event(json.dumps(event)))


async def obey(person: Person) -> None:
    """Carry out orders, one after the other, until stdin is closed."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        given = json.loads(line)
        number = given.pop("order")
        try:
            result = await getattr(person, given.pop("do"))(**given)
            report(done=number, result=result)
        except Exception as fault:
            report(failed=number, why=f"{type(fault).__name__}: {fault}")


asyncio.run(obey(Person()))
