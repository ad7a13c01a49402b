"""What an independent client receives while a real daemon works, and that the relay keeps nothing of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nostr_sdk as sdk
import pytest

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, Note, Usage
from tenex.core.ports import OnText, ignore_text
from tenex.nostr.keys import parse_public_key
from tenex.settings import load
from tests.fakes.routing import read_question
from tests.interop.person import Person, person

TYPING, STOPPED, SO_FAR, SINCE, OPERATIONS, STATUS = 24111, 24112, 21111, 24135, 24133, 24010
EPHEMERAL_KINDS = [TYPING, STOPPED, SO_FAR, SINCE, OPERATIONS, STATUS]
TALE = ["Once", "Once upon", "Once upon a time."]


@dataclass
class Teller:
    """A model that writes a story part by part, each once the last was received."""

    received: list[asyncio.Event] = field(default_factory=lambda: [asyncio.Event() for _ in TALE])

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        usage = Usage(input_tokens=1, output_tokens=1)
        if request.purpose == "route":
            note = next(entry for entry in request.entries if isinstance(entry, Note))
            done = bool(read_question(note.text)["turns"])
            route = {"agents": ["USER" if done else "executor"], "reason": "a tale"} | ({} if done else PHASE)
            return ModelStep(text=json.dumps(route), model="teller", usage=usage)
        for part, received in zip(TALE, self.received, strict=True):
            on_text(part)
            async with asyncio.timeout(60):
                await received.wait()
        return ModelStep(text=f"{TALE[-1]} The end.", model="teller", usage=usage)


PHASE = {"phase": "execute"}
STORY = "Once upon a time. The end.\n\nNo file was changed and nothing was run."


@asynccontextmanager
async def serving(data: Path, url: str, owner: str, model: Teller) -> AsyncIterator[Application]:
    """The daemon as `tenex run` puts it together, with a model of the test."""
    made = prepare(data, owner, [url])
    settings = load(made.config, data, env={}, parse_key=parse_public_key)
    async with open_application(settings, model=model) as app, app.serving():
        await app.pool.listening("addressed", 10)
        yield app


def of(received: list[dict[str, Any]], key: str, *kinds: int) -> list[dict[str, Any]]:
    """The events of one key, in the order in which they came."""
    return [event for event in received if event["pubkey"] == key and event["kind"] in kinds]


async def receive_all(alice: Person, model: Teller, key: str, kind: int, answer: int) -> list[dict[str, Any]]:
    """Receive the whole story, letting the model go on with each part that has come; returns its agent's events."""
    for number, gate in enumerate(model.received, 1):
        await alice.until(partial(_has, key=key, kind=kind, times=number))
        gate.set()
    await alice.until(partial(_has, key=key, kind=answer, times=1))
    await alice.until(_is_idle)
    return of(alice.received, key, TYPING, kind, STOPPED, answer)


def _has(received: list[dict[str, Any]], *, key: str, kind: int, times: int) -> bool:
    return len(of(received, key, kind)) >= times


def _is_idle(received: list[dict[str, Any]]) -> bool:
    return any(event["kind"] == OPERATIONS and not _tags(event, "p") for event in received)


def _tags(event: dict[str, Any], name: str) -> list[str]:
    return [tag[1] for tag in event["tags"] if tag[0] == name]


@pytest.mark.parametrize(("form", "kind", "answer"), [(1, SINCE, 1), (11, SO_FAR, 1111)])
async def test_a_client_receives_typing_text_and_stop_and_then_the_answer(
    relay: str, tmp_path: Path, form: int, kind: int, answer: int
) -> None:
    model, keys = Teller(), sdk.Keys.generate()
    async with serving(tmp_path, relay, keys.public_key().to_bech32(), model) as app, person(relay, keys) as alice:
        executor = app.policy.roster[Slug("executor")].pubkey
        event = alice.event(form, "Write me a story", ["p", app.project.public])
        root = str(event.id().to_hex())
        await alice.listen(kinds=[*EPHEMERAL_KINDS, answer], _e=[root])
        await alice.publish(event)
        sent = await receive_all(alice, model, executor, kind, answer)

        assert [event["kind"] for event in sent] == [TYPING, kind, kind, kind, STOPPED, answer]
        texts = [event["content"] for event in sent if event["kind"] == kind]
        assert texts == (["Once", " upon", " a time."] if kind == SINCE else TALE)
        assert sent[0]["content"] == "Executor is typing"
        assert ["phase", "execute"] in sent[0]["tags"]
        assert sent[-1]["content"] == STORY

        active = [_tags(event, "p") for event in alice.received if event["kind"] == OPERATIONS]
        assert active[0] in ([executor], [app.project.public]), "one that is soon replaced may be left out"
        assert active[-1] == []
        assert all(_tags(event, "P") == [alice.pubkey] for event in alice.received if event["kind"] == OPERATIONS)

        kept = await alice.fetch(kinds=[*EPHEMERAL_KINDS, answer], authors=sorted({executor, app.project.public}))
        assert [event["content"] for event in kept] == [STORY]
