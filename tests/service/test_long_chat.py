"""A chat in direct messages that goes on for months: what a late message costs, and what is known of the beginning."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tenex.nostr.direct import GIFT_WRAP, read_direct
from tenex.nostr.events import parse_event
from tests.benchmarks.rig import ms_since, processor_ms, resident_mb
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, Team, calls
from tests.fakes.modelserver import model_server
from tests.kits.direct_messages import listening

from .chats import Chat
from .loopback import folder_with_model, serving

FACT = "The code of the gate is heliotrope."
QUESTION = "Which code has the gate?"


def talks(question: Json) -> Json:
    """An orchestrator that has one agent answer each message."""
    turns = question["turns"]
    newest = question["messages"][-1]
    is_answered = bool(turns) and newest["after_turn"] != turns[-1]["turn"]
    return {"agents": ["USER"] if is_answered else ["project-manager"], "reason": "a talk"}


def remembers(asked: Asked) -> Reply:
    """An agent that looks for the gate's code where it is asked for it, and answers with what it has found."""
    if QUESTION not in asked.words.rsplit("<message", 1)[-1]:
        return Answer(text="That is so. Herons have been seen there at dawn, in the shallow water below the bridge.")
    if "search_conversation" not in asked.results:
        return calls(("search_conversation", {"query": "code of the gate"}))
    return Answer(text=f"I found: {asked.results['search_conversation'][-1]}")


class Line:
    """A person's end of a chat, on a connection that stays open."""

    def __init__(self, chat: Chat, socket: ClientConnection) -> None:
        self.chat = chat
        self._socket = socket
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    async def say(self, text: str) -> str:
        """Send a message and wait for the answer."""
        for wrap in self.chat.wraps(self.chat.rumor(text)):
            await self._socket.send(json.dumps(["EVENT", wrap]))
        async with asyncio.timeout(60):
            return await self._answers.get()

    async def listen(self) -> None:
        async for text in self._socket:
            frame = json.loads(text)
            opened = (
                read_direct(parse_event(frame[2]), {self.chat.key.public: self.chat.key}) if len(frame) == 3 else None
            )
            if opened is not None:
                self._answers.put_nowait(opened.event.content)


@asynccontextmanager
async def opened(chat: Chat) -> AsyncIterator[Line]:
    async with connect(chat.url, max_size=None, proxy=None) as socket:
        line = Line(chat, socket)
        await socket.send(json.dumps(["REQ", "answers", {"kinds": [GIFT_WRAP], "#p": [chat.key.public], "limit": 0}]))
        listening = asyncio.create_task(line.listen())
        try:
            yield line
        finally:
            listening.cancel()
            await asyncio.wait({listening})


@dataclass(frozen=True, slots=True)
class Part:
    """What a message took, over a part of the chat."""

    tokens: float
    milliseconds: float
    processor: float
    memory: float


async def chat_of(messages: int, part: int, place: Path, relay: str) -> tuple[list[Part], str]:
    """Hold a chat of so many messages; what each part took, and the answer to the question at its end."""
    parts: list[Part] = []
    async with model_server(Team(router=talks, worker=remembers)) as server:
        folder = folder_with_model(place / "data", relay, server)
        chat = Chat(folder.owner, relay, folder.project.public)
        async with serving(folder, server, TENEX_MODELS__CONTEXT_TOKENS="16000") as process, opened(chat) as line:
            await listening(folder)
            await line.say("Hello there")  # it is the title of the conversation, which models are always shown
            await line.say(FACT)
            for first in range(0, messages, part):
                exchanges = len(server.exchanges)
                processor = processor_ms(process.pid)
                times = []
                for number in range(first, first + part):
                    began = time.perf_counter()
                    await line.say(f"This is message {number} of many: what do you know of the birds at the river?")
                    times.append(ms_since(began))
                tokens = sum(exchange.input_tokens for exchange in server.exchanges[exchanges:]) / part
                took = (processor_ms(process.pid) - processor) / part
                parts.append(Part(tokens, median(times), took, resident_mb(process.pid)))
            shown = json.dumps(server.exchanges[-1].request["messages"])
            print(f"\nthe first fact is {'' if FACT in shown else 'not '}among what models are shown")
            answer = await line.say(QUESTION)
        assert len(folder.names) == 2, "one conversation, and the one that began with a note"
    return parts, answer


def check(parts: list[Part]) -> None:
    print()
    for number, part in enumerate(parts, start=1):
        print(
            f"part {number:2}: {part.tokens:7.0f} tokens a message, {part.milliseconds:6.1f} ms,"
            f" {part.processor:6.1f} ms of a processor, {part.memory:5.0f} MB"
        )
    full = parts[1:]
    assert max(part.tokens for part in full) <= 1.25 * min(part.tokens for part in full)
    assert full[-1].processor <= 2 * full[0].processor


@pytest.mark.soak
async def test_two_thousand_direct_messages_cost_the_same_each_and_the_first_is_found(
    tmp_path: Path, relay: str
) -> None:
    parts, answer = await chat_of(2_000, 200, tmp_path, relay)
    check(parts)
    assert FACT in answer
