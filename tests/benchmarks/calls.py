"""Calls of models, the tokens they read, and notes to the person: a simple request, all phases, and a long chat.

The daemon of `tenex eval` asks a server on loopback that speaks OpenAI's protocol and keeps every request. Its count of
tokens is of words; vendors count tokens of about four bytes, so an estimate from the bytes is shown too.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenex.core.messages import Usage
from tenex.features.evaluation.figures import Call, Figures, figures_of
from tenex.features.evaluation.run import run_scenario
from tenex.features.evaluation.scenario import ROUTER, Message, Scenario
from tenex.nostr.keys import parse_public_key
from tenex.settings import Settings, load
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, Team, all_phases, brisk
from tests.fakes.modelserver import Exchange, ModelServer, model_server

from .rig import PATIENCE, Row

MESSAGES = 100
"""Of the chat."""
THINKING = 0.02
"""Seconds that a model takes."""


def _chats(question: Json) -> Mapping[str, Any]:
    """An orchestrator that has the project manager answer each message."""
    turns = question["turns"]
    is_answered = bool(turns) and question["messages"][-1]["after_turn"] != turns[-1]["turn"]
    return {"agents": ["USER" if is_answered else "project-manager"], "reason": "talk"}


def _talks(asked: Asked) -> Answer:
    """An agent that answers, and begins nothing."""
    return Answer(text=f"This is the word of {asked.agent}.")


async def measure(place: Path) -> list[Row]:
    request = await _figures(place / "request", Team(worker=brisk), ["Please create note-01.txt."])
    phases = ["I want a note-01.txt.", "Give me ideas for note-01.txt.", "Take the first one."]
    longest = await _figures(place / "longest", Team(all_phases, brisk), phases)
    chat = await _figures(
        place / "chat", Team(_chats, _talks), [f"message {n}: how are you?" for n in range(1, MESSAGES + 1)]
    )
    return [
        *_rows("simple request", request, calls=7, sequential=6, tokens=15_000, notes=2, shared=90),
        *_rows("all phases", longest, calls=16, tokens=40_000),
        # the router chooses the first phase, and judges after two turns, four, and eight each if it is a talk
        *_rows(f"chat of {MESSAGES} messages", chat, calls=MESSAGES + 15, shared=88),
    ]


async def _figures(data: Path, team: Team, messages: list[str]) -> tuple[Figures, int, int]:
    """The figures by the server's log, the tokens estimated from the bytes, and the notes to the person."""

    async def thinks(request: Json) -> Reply:
        await asyncio.sleep(THINKING)  # else calls at the same time look as if one came after the other
        return team(request)

    async with model_server(thinks) as server:
        said = [Message(text=message) for message in messages]
        scenario = Scenario(name=data.name, messages=said, models="settings", timeout=PATIENCE)
        result = await run_scenario(scenario, _settings(data, server), None, "test", data / "run")
        assert result["passed"], result["failures"]
        calls = [_call(exchange) for exchange in server.delivered()]
    return figures_of(calls), sum(len(call.sent) for call in calls) // 4, result["notes"]


def _settings(data: Path, server: ModelServer) -> Settings:
    data.mkdir(parents=True)
    (data / "key").write_text(server.key)
    provider = {"kind": "openai", "base_url": server.url, "api_key_file": "key"}
    models = {"default": "local:test", "providers": {"local": provider}}
    limits = {"tokens_per_cycle": 1_000_000_000}
    return load(None, data, env={}, parse_key=parse_public_key, overrides={"models": models, "limits": limits})


def _call(exchange: Exchange) -> Call:
    request = exchange.request
    asked = Asked(request)
    first = [message for message in request["messages"] if message["role"] in ("system", "developer")]
    rest = [message for message in request["messages"] if message not in first]
    parts = [*(request.get("tools") or []), *first, *rest]
    return Call(
        agent=ROUTER if asked.question is not None else asked.agent,
        sent=b"".join(json.dumps(part, ensure_ascii=False).encode() + b"\n" for part in parts),
        began=exchange.began,
        ended=exchange.ended,
        usage=Usage(input_tokens=exchange.input_tokens),
    )


def _rows(
    work: str,
    measured: tuple[Figures, int, int],
    *,
    calls: int | None = None,
    sequential: int | None = None,
    tokens: int | None = None,
    notes: int | None = None,
    shared: int | None = None,
) -> list[Row]:
    figures, estimated, published = measured
    return [
        Row(f"{work}: calls", figures.calls, "", budget=calls),
        Row(f"{work}: sequential calls", figures.sequential_calls, "", budget=sequential),
        Row(f"{work}: prompt tokens, by the server", figures.prompt_tokens, "", budget=tokens),
        Row(f"{work}: prompt tokens, by the bytes", estimated, ""),
        Row(f"{work}: notes to the person", published, "", budget=notes),
        Row(f"{work}: shared prefix", 100 * (figures.cached or 0.0), "%", budget=shared, sense="at least"),
    ]
