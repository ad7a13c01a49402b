"""A person with a client built on nostr-sdk: rust-nostr's own parsing, verification and connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import nostr_sdk as sdk

from tenex.nostr.embedded import callback_loop
from tests.service.kit import PATIENCE

from .answers import Answer, Client
from .daemons import Daemon, Opening


class Person(Client):
    """One person, connected. nostr-sdk has verified what it receives."""

    def __init__(self, client: sdk.Client, keys: sdk.Keys) -> None:
        super().__init__()
        self._client = client
        self._stream = client.notifications()
        self._listening: set[str] = set()
        self.keys = keys

    @property
    def pubkey(self) -> str:
        return str(self.keys.public_key().to_hex())

    def event(self, kind: int, text: str, *tags: Sequence[str]) -> sdk.Event:
        builder = sdk.EventBuilder(sdk.Kind(kind), text).tags([sdk.Tag.parse(list(tag)) for tag in tags])
        return builder.finalize(self.keys)

    async def publish(self, event: sdk.Event) -> str:
        """Send an event; the relay must take it. Returns its id."""
        output = await self._client.send_event(event)
        assert output.success, f"the relay refused it: {output.failed}"
        return str(event.id().to_hex())

    async def write(self, text: str, *tags: Sequence[str], kind: int = 1) -> str:
        return await self.publish(self.event(kind, text, *tags))

    async def listen(self, **wanted: Any) -> None:
        name = f"listen-{len(self._listening)}"
        self._listening.add(name)
        await self._client.subscribe(_target(wanted), name)

    async def fetch(self, **wanted: Any) -> list[Answer]:
        events = await self._client.fetch_events(_target(wanted), timedelta(seconds=PATIENCE))
        return [_as_dict(event) for event in events]

    async def take_in(self) -> None:
        """Note what comes until the client is shut down."""
        while (news := await self._stream.next()) is not None and not news.is_shutdown():
            if not isinstance(news, sdk.ClientNotification.NEW_EVENT) or news.subscription_id not in self._listening:
                continue  # fetched events arrive here as well
            assert news.event.verify()
            if news.event.author().to_hex() != self.pubkey:
                await self.note(_as_dict(news.event))


@asynccontextmanager
async def person(url: str, keys: sdk.Keys | None = None) -> AsyncIterator[Person]:
    """Connect somebody, with a new key where none is given."""
    with callback_loop():
        client = sdk.ClientBuilder().build()
        await client.add_relay(sdk.RelayUrl.parse(url))
        await client.try_connect(timedelta(seconds=PATIENCE))
        somebody = Person(client, keys or sdk.Keys.generate())
        taking_in = asyncio.create_task(somebody.take_in())
        try:
            yield somebody
        finally:
            await client.shutdown()
            await asyncio.wait({taking_in}, timeout=PATIENCE)
            taking_in.cancel()
        if taking_in.done():
            taking_in.result()


@asynccontextmanager
async def owned(opened: Opening, url: str, data: Path) -> AsyncIterator[tuple[Daemon, Person]]:
    """Open a daemon, and connect its owner once it listens."""
    keys = sdk.Keys.generate()
    async with opened(data, url, keys.public_key().to_bech32()) as daemon, person(url, keys) as owner:
        await owner.finds(daemon)
        yield daemon, owner


def _target(wanted: dict[str, Any]) -> sdk.ReqTarget:
    fields = {name.replace("_", "#"): value for name, value in wanted.items()}
    return sdk.ReqTarget.auto([sdk.Filter.from_json(json.dumps(fields))])


def _as_dict(event: sdk.Event) -> Answer:
    answer: Answer = json.loads(event.as_json())
    return answer
