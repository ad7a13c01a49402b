"""A thousand conversations at once, with models that think for two seconds.

Each user writes again as soon as the conversation waits for them. The ideal is that nothing takes any time but the
models. Everything is the daemon's own but the relay, which takes what is published at once: a real one permits a
hundred frames a second.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import structlog

from tenex.app import Application, open_application
from tenex.cli.run import tune_gc
from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import Model, OnText, PublishOutcome, ignore_text
from tenex.core.signals import InboundMessage
from tenex.feature import extensions_of
from tenex.main import FEATURES
from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool

from .daemon import Instant, prepared
from .rig import NOWHERE, Row, in_process, notes_address, resident_mb

CONVERSATIONS = 1_000
TURNS = 2
THOUGHT = 2.0
"""Seconds of each answer."""
THOUGHTS = 3
"""Answers to a turn: the router's, the agent's, and the router's that it is the user's turn."""
PATIENCE = 240.0
"""Seconds for a round: several times as long as it takes."""


class Thoughtful(Instant):
    """The model of the other rows, after two seconds."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        await asyncio.sleep(THOUGHT)
        return await super().step(request, on_text)


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
                address=notes_address(root, self._author),
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
async def among_people(data: Path, scripted: Model, **more: Any) -> AsyncIterator[tuple[Application, Crowd]]:
    """A daemon that serves, and those who write to it; all is written when it is left. `more` is for `prepared`."""
    owner = SecretKey.generate()
    crowd = Crowd(owner.public)
    with patch.object(RelayPool, "publish", _accept):
        async with open_application(
            prepared(data, NOWHERE, owner.npub, **more),
            model=scripted,
            observers=[crowd],
            extensions=extensions_of(FEATURES),
        ) as app:
            serving = asyncio.create_task(app.serve())
            bringing = asyncio.create_task(crowd.bring(app))
            try:
                yield app, crowd
            finally:
                bringing.cancel()
                app.runtime.stop()
                await serving


async def _measure(data: Path) -> dict[str, float]:
    async with among_people(data, Thoughtful()) as (app, crowd):
        await _round(crowd, 20, 1)  # what is loaded once
        tune_gc()  # as the daemon does
        before = _settled_mb()
        took, processor = await _round(crowd, CONVERSATIONS, TURNS)
        waiting = len([actor for actor in app.runtime.coordinator if actor.conversation is not None])
        held = _settled_mb() - before
    return {"took": took, "processor": processor, "waiting": waiting, "held": held}


async def _round(crowd: Crowd, count: int, turns: int) -> tuple[float, float]:
    """Seconds, and seconds of a processor, until the last conversation waits."""
    began, used = time.perf_counter(), time.process_time()
    crowd.begin(count, turns)
    async with asyncio.timeout(PATIENCE):
        await crowd.done.wait()
    return time.perf_counter() - began, time.process_time() - used


def _settled_mb() -> float:
    gc.collect()
    return resident_mb()


async def measure(data: Path) -> list[Row]:
    found = await in_process("crowd", str(data))
    ideal = TURNS * THOUGHTS * THOUGHT
    turns = CONVERSATIONS * TURNS
    return [
        Row(f"{CONVERSATIONS:,} conversations at once, {TURNS} turns each", found["took"], "s"),
        Row("the same, rate against the ideal one", ideal / found["took"], "x", budget=0.9, sense="at least"),
        Row("the same, processor time to a turn", found["processor"] / turns * 1000, "ms"),
        Row("memory for each that waits, still open", found["held"] / max(1, found["waiting"]) * 1024, "KB", budget=50),
    ]


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(json.dumps(asyncio.run(_measure(Path(sys.argv[1])))))
