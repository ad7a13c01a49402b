"""What clients of TENEX need: their project online, a conversation that begins in it, a stop, and another model."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nostr_sdk as sdk

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, Note, Usage
from tenex.core.phases import Phase
from tenex.core.ports import OnText, ignore_text
from tenex.core.records import CommandGiven
from tenex.feature import extensions_of
from tenex.main import FEATURES
from tenex.nostr.keys import parse_public_key
from tenex.settings import load
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.fakes.routing import read_question
from tests.interop.person import Person, person

from .kit import of_kind

THREAD, ANSWER, STATUS, TYPING = 11, 1111, 24010, 24111
STOP, CHANGE = 24134, 24020


@dataclass
class Slow:
    """A model that routes to the executor, which never ends by itself."""

    is_at_work: asyncio.Event = field(default_factory=asyncio.Event)

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        usage = Usage(input_tokens=1, output_tokens=1)
        if request.purpose == "route":
            note = next(entry for entry in request.entries if isinstance(entry, Note))
            done = bool(read_question(note.text)["turns"])
            route = {"agents": ["USER" if done else "executor"], "reason": "r"} | ({} if done else {"phase": "execute"})
            return ModelStep(text=json.dumps(route), model="slow", usage=usage)
        self.is_at_work.set()
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def serving(
    data: Path, alice: Person, member: Person, relay: str, model: Slow, more: str = ""
) -> AsyncIterator[Application]:
    """The daemon as `tenex run` puts it together, with an owner and a member, and more settings at a first start."""
    file = prepare(data, alice.keys.public_key().to_bech32(), [relay]).config
    if more:
        members = f'[people]\nmembers = ["{member.keys.public_key().to_bech32()}"]'
        file.write_text(f"{file.read_text().replace('[people]', members, 1)}{more}")
    settings = load(file, data, env={}, parse_key=parse_public_key)
    async with open_application(settings, model=model, extensions=extensions_of(FEATURES)) as app, app.serving():
        await app.pool.listening("addressed", 10)
        yield app


def of(received: list[dict[str, Any]], kind: int) -> list[dict[str, Any]]:
    return [event for event in received if event["kind"] == kind]


def key_of(app: Application, slug: str) -> str:
    return str(app.policy.roster[Slug(slug)].pubkey)


async def test_a_client_begins_in_its_project_sees_who_works_and_stops_it(relay: str, tmp_path: Path) -> None:
    model = Slow()
    async with person(relay) as alice, person(relay) as bob:
        project = f"31933:{alice.pubkey}:demo"
        where = sdk.Coordinate(sdk.Kind(31933), alice.keys.public_key(), "demo")
        await alice.listen(kinds=[STATUS], _p=[alice.pubkey])
        naddr = str(sdk.Nip19Coordinate(where).to_bech32())
        async with serving(tmp_path, alice, bob, relay, model, f'[project]\nevent = "{naddr}"\n') as app:
            event = alice.event(THREAD, "Please do it", ["title", "Do it"], ["a", project])
            root = str(event.id().to_hex())
            executor = key_of(app, "executor")
            await alice.listen(_e=[root])
            await alice.publish(event)
            await model.is_at_work.wait()
            await alice.until(lambda received: any(each["pubkey"] == executor for each in of(received, TYPING)))

            await bob.write("", ["e", root], ["p", executor], kind=STOP)
            await alice.write("", ["e", root], ["p", "ab" * 32], kind=STOP)
            await alice.write("", ["e", "cd" * 32], ["p", executor], kind=STOP)
            stop = await alice.write("", ["a", project], ["e", root], ["reason", "enough"], kind=STOP)
            await alice.until(lambda received: bool(of(received, ANSWER)))
            await alice.write("", ["e", root], ["p", executor], kind=STOP)  # there is nothing left to stop
            status = await alice.write("/status", ["E", root], ["K", "11"], ["e", root], ["k", "11"], kind=ANSWER)
            await alice.until(lambda received: len(of(received, ANSWER)) == 2)
            answers = [each["content"] for each in of(alice.received, ANSWER)]
        commands = of_kind(peek(tmp_path / "conversations" / root / "journal.jsonl", CONVERSATION), CommandGiven)
    assert [(each.event_id, each.command) for each in commands] == [(stop, "stop"), (status, "status")]
    assert answers[0].startswith("Stopped")
    assert "I wait for you." in answers[1]
    for kind in (ANSWER, STATUS, TYPING):
        tags = [each["tags"] for each in of(alice.received, kind)]
        assert tags, kind
        assert all(["a", project] in each for each in tags), kind


async def test_an_owner_chooses_the_model_of_an_agent_until_the_settings_name_another(
    relay: str, tmp_path: Path
) -> None:
    """Only an owner, only a model that is named already, and also after a restart."""
    models = 'default = "test:small"\nagents.executor.phases.chores = "test:big"\n'

    async def choose(who: Person, agent: str, model: str) -> None:
        await who.write("", ["p", agent], ["model", model], ["tool", "shell"], kind=CHANGE)

    async with person(relay) as alice, person(relay) as bob:
        await alice.listen(kinds=[STATUS], _p=[alice.pubkey])

        def shown(received: list[dict[str, Any]]) -> dict[str, list[str]]:
            """The agents of each model in the newest status."""
            status = of(received, STATUS)
            return {tag[1]: tag[2:] for tag in status[-1]["tags"] if tag[0] == "model"} if status else {}

        async with serving(tmp_path, alice, bob, relay, Slow(), models) as app:
            executor, planner = key_of(app, "executor"), key_of(app, "planner")
            await alice.until(lambda received: "executor" in shown(received).get("test:small", []))
            await choose(bob, executor, "test:big")
            await choose(alice, executor, "test:unknown")
            await choose(alice, planner, "test:big")
            await alice.until(lambda received: "planner" not in shown(received).get("test:small", []))
            assert "executor" in shown(alice.received)["test:small"]
            await choose(alice, app.project.public, "test:big")
            await alice.until(lambda received: "orchestrator" in shown(received)["test:big"])
        async with serving(tmp_path, alice, bob, relay, Slow()) as app:
            chosen = app.current.now.settings.models
            assert chosen.for_agent("planner", Phase.EXECUTE) == ("test:big", "test:small")
            assert chosen.for_router() == ("test:big", "test:small")
            assert chosen.for_agent("executor", Phase.EXECUTE) == ("test:small",)
            file = tmp_path / "tenex.toml"
            file.write_text(file.read_text().replace('"test:small"', '"test:tiny"'))
            await app.reload()
            await alice.until(lambda received: {"planner", "orchestrator"} <= {*shown(received).get("test:tiny", [])})
