"""A daemon without a relay, in this process, and users who write to it: for rows and tests of many turns.

Everything is the daemon's own but the relay, which takes what is published at once: a real one permits a hundred
frames a second.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from tenex.app import Application, open_application
from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.ports import Model, PublishOutcome
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.nostr.pool import RelayPool
from tenex.settings import load, resolve_paths

NOWHERE = "ws://127.0.0.1:9"


class Crowd:
    """Users who each write in a conversation of their own, as soon as it waits. An `Observer`."""

    def __init__(self, author: PublicKey) -> None:
        self._author = author
        self._left: dict[ConversationId, int] = {}
        self._spoken = 0
        self.written: list[InboundMessage] = []
        self.news = asyncio.Event()
        self.done = asyncio.Event()

    def begin(self, count: int, turns: int) -> None:
        """Open so many conversations, each for so many turns."""
        self._left = {ConversationId(os.urandom(32).hex()): turns for _ in range(count)}
        self.done.clear()
        for conversation in list(self._left):
            self._write(conversation, starts=True)

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Write again where it is a user's turn."""
        if any(isinstance(record, r.Waiting) for record in records) and conversation.id in self._left:
            if self._left[conversation.id]:
                self._write(conversation.id, starts=False)
            else:
                del self._left[conversation.id]
                if not self._left:
                    self.done.set()

    def _write(self, conversation: ConversationId, *, starts: bool) -> None:
        self._left[conversation] -= 1
        self._spoken += 1
        root = EventId(conversation)
        address = {
            "form": "notes",
            "root": root,
            "root_kind": 1,
            "root_author": self._author,
            "root_relay": NOWHERE,
            "relays": [NOWHERE],
        }
        event = root if starts else EventId(os.urandom(32).hex())
        self.written.append(
            InboundMessage(
                event_id=event,
                author=self._author,
                text=f"message {self._spoken}: how are you?",
                created_at=int(time.time()),
                conversation=conversation,
                starts=starts,
                references=() if starts else (root,),
                address=address,
                origin={"id": event, "author": self._author, "kind": 1, "relay": NOWHERE, "relays": [NOWHERE]},
            )
        )
        self.news.set()

    async def bring(self, app: Application) -> None:
        """Hand in what is written, until cancelled."""
        while True:
            await self.news.wait()
            self.news.clear()
            arrived, self.written = self.written, []
            for message in arrived:
                app.runtime.inbox.receive(message)


async def _accept(_pool: RelayPool, _event: Event, _relay: str) -> PublishOutcome:
    return PublishOutcome(accepted=True)


@asynccontextmanager
async def among_people(data: Path, scripted: Model) -> AsyncIterator[tuple[Application, Crowd]]:
    """A daemon that serves, and those who write to it; all is written when it is left."""
    owner = SecretKey.generate()
    overrides = {
        "relays": {"urls": [NOWHERE]},
        "people": {"owners": [owner.npub]},
        "limits": {"tokens_per_cycle": 10**9},
    }
    settings = load(None, data, env={}, parse_key=parse_public_key, overrides=overrides)
    KeyRing(resolve_paths(settings).keys).get_or_create("project")
    crowd = Crowd(owner.public)
    with patch.object(RelayPool, "publish", _accept):
        async with open_application(settings, model=scripted, observers=[crowd]) as app:
            serving = asyncio.create_task(app.serve())
            bringing = asyncio.create_task(crowd.bring(app))
            try:
                yield app, crowd
            finally:
                bringing.cancel()
                app.runtime.stop()
                await serving
