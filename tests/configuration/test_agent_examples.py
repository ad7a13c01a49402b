"""The agents that ship as examples, added as an operator adds them and at work over a relay.

`researcher` is in `test_own_phases`.
"""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from tenex.app import open_application
from tenex.cli.main import main
from tenex.core import records as r
from tenex.core.messages import CallResult, ModelRequest, ModelStep
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.settings import load
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, decision
from tests.fakes.modelserver import model_server, text_of
from tests.fakes.python_agents import ScriptedModel, calls, results
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import MODEL, folder_with_model

from .test_python_agents import rests, serving

CLAIMS = ["Tea is a plant.", "Tea is blue."]
PRIVATE = "The worst: no one has tried it with an empty file."


def checks(request: ModelRequest) -> ModelStep:
    """List two claims, settle one that is none, ask the skeptic about the second, settle both, conclude."""
    if request.agent == "skeptic":
        return ModelStep(text="It is green or black; quite sure.", model="script")
    way = (
        calls("settle", claim=CLAIMS[0], verdict="true", because="too early"),
        calls("list_claims", claims=CLAIMS),
        calls("settle", claim="Tea is dear.", verdict="true", because="no source supports it"),
        calls("skeptic", message=CLAIMS[1]),
        calls("settle", claim=CLAIMS[0], verdict="true", because="it grows"),
        calls("settle", claim=CLAIMS[1], verdict="false", because="it is green or black"),
        ModelStep(text="One claim holds, one does not.", model="script"),
    )
    return way[len(results(request))]


def test_the_shipped_fact_checker_goes_through_its_phases_with_its_sub_agent(tmp_path: Path) -> None:
    model = ScriptedModel(checks, router="fact-checker")
    assert main(["--data", str(tmp_path), "agents", "add", "--like", "fact-checker"]) == 0

    async def hold() -> None:
        async with serving(tmp_path, model) as (_, url, _):
            ring = KeyRing(tmp_path / "keys")
            note = person.note(ring.get("owner"), " ".join(CLAIMS), ["p", ring.get("project").public])
            await person.publish(url, note)
            state = await person.until(partial(rests, tmp_path, note["id"]))
            sent = [event["content"] for event in await person.stored(url, authors=[ring.get("fact-checker").public])]
            assert "One claim holds, one does not." in sent
            agent_state = state.agent_states["fact-checker"]
            assert [move.target for move in agent_state.history] == ["checking", "concluding"]
            assert agent_state.values["verdicts"] == {
                CLAIMS[0]: "true: it grows",
                CLAIMS[1]: "false: it is green or black",
            }

    asyncio.run(hold())
    last = [request for request in model.asked if request.agent == "fact-checker"][-1]
    shown = [(entry.tool, entry.ok) for entry in last.entries if isinstance(entry, CallResult)]
    assert shown == [
        ("settle", False),
        ("list_claims", True),
        ("settle", False),
        ("skeptic", True),
        ("settle", True),
        ("settle", True),
    ]
    sentences = [entry.content for entry in results(last)]
    assert "it belongs to checking" in sentences[0]
    assert "no such claim was listed" in sentences[2]
    assert sentences[3] == "It is green or black; quite sure."
    offers = [{"list_claims", "settle", "skeptic"} & set(names) for names in model.tools]
    assert [names for names in offers if names] == [{"list_claims"}] * 2 + [{"settle", "skeptic"}] * 4
    system = [request.system for request in model.asked if request.agent == "fact-checker"]
    assert [all(f"- {claim}" in text for claim in CLAIMS) for text in system] == [False] * 2 + [True] * 4 + [False]


def objects(request: Json) -> Answer:
    """Route to the critic once; it plans in private, leaves out the plan the first time, and gives its answer."""
    asked = Asked(request)
    if asked.question is not None:
        who = "USER" if asked.question["turns"] else "critic"
        return decision(request, {"agents": [who], "reason": "it is theirs"})
    word = {"name": "complete", "arguments": {"response": "Try it with an empty file."}}
    action = f"```tool\n{json.dumps(word)}\n```"
    is_again = '<note title="Refused">' in text_of(request["messages"][-1])
    return Answer(text=f"<risks>{PRIVATE}</risks>\n{action}" if is_again else action)


async def test_the_shipped_critic_plans_in_a_private_state_and_publishes_only_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    assert main(["--data", str(data), "agents", "add", "--like", "critic"]) == 0
    async with embedded_relay() as url, model_server(objects) as server:
        monkeypatch.setenv("LOCAL_KEY", server.key)
        folder = folder_with_model(data, url, server)
        settings = load(None, data, env={"TENEX_MODELS__DEFAULT": MODEL}, parse_key=parse_public_key)
        async with open_application(settings) as app, asyncio.TaskGroup() as group:
            group.create_task(app.serve())
            await app.pool.listening("addressed", 10)
            name = await folder.write("Is `rm -r` of the cache a good plan?")
            await person.until(lambda: rests(data, name))
            app.runtime.stop()
        stored = await person.stored(url)
    assert any(event["content"] == "Try it with an empty file." for event in stored)
    assert PRIVATE not in json.dumps(stored)
    (step,) = [record.step for record in of_kind(folder.records(name), r.ModelResponded)]
    assert (step.thinking, step.usage.calls) == (f"risks:\n{PRIVATE}", 2)
    prompts = [Asked(exchange.request).system for exchange in server.exchanges]
    assert sum("Risks: List what may go wrong" in prompt and "Thinking: " in prompt for prompt in prompts) == 2
