"""Whatever a run holds, what is sent of it is taken by every provider: one bad call spoils no later request."""

import json
import random

import pytest

from tenex.core.ids import CallId
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelStep, Note, UserText
from tests.fakes import providerrules
from tests.fakes.modelprotocol import Answer, Fails, Json, Reply

from .clients import NAME, WRITE, talking, vendor, work
from .otherservers import Answering, Request, anthropic, google

SEEDS = range(25)
NAMES = ("write_file", "functions.write file", "schreibe_größe", "", "n" * 90, "1st-tool", "<|tool|>", "a.b:c")
IDS = ("call-1", "functions.write_file:0", "", "i" * 64, "abc123XYZ", "ключ", "x y", "call_|fc_1")


def entries(seed: int) -> list[Entry]:
    """A run with all that models and servers do to it: odd names and ids, missing and orphaned results, empty steps."""
    dice, number = random.Random(seed), 0
    made: list[Entry] = []
    for _ in range(dice.randrange(1, 9)):
        match dice.randrange(5):
            case 0:
                made.append(UserText(author="Ada", text=dice.choice(["Go on.", ""])))
            case 1:
                made.append(AgentText(author="planner", text="A plan."))
            case 2:
                made.append(Note(title="Reminder", text="Please call a tool."))
            case 3:
                made.append(ModelStep(text=dice.choice(["", " \n", "I see."])))
            case _:
                calls = []
                for _ in range(dice.randrange(1, 4)):
                    number += 1
                    name = CallId(f"{dice.choice(IDS)}{number}" if number % 3 else f"{number:09}")
                    calls.append(CallRequest(id=name, tool=dice.choice(NAMES), arguments={"path": "a"}))
                made.append(ModelStep(text=dice.choice(["", " ", "Now."]), calls=tuple(calls)))
                made += [
                    CallResult(id=call.id, tool=call.tool, ok=dice.random() < 0.5, content=dice.choice(["", "done"]))
                    for call in dice.sample(calls, dice.randrange(len(calls) + 1))
                ]
                if dice.random() < 0.2:
                    made.append(CallResult(id=CallId("gone"), tool="a b", ok=True, content="late"))
    return made


@pytest.mark.parametrize(
    ("rule", "name", "tries"),
    [
        (providerrules.openai, NAME, 0),
        (providerrules.mistral, NAME, 1),
        (providerrules.mistral_template, NAME, 1),
        (providerrules.mistral, "local:Mistral-Small-3.2", 0),
    ],
)
async def test_servers_of_the_common_protocol_take_every_run(rule: providerrules.Rule, name: str, tries: int) -> None:
    """A server is asked in its way once it has rejected the other, or from the start where the model is known."""
    faults: list[str] = []

    def respond(request: Json) -> Reply:
        if fault := rule(request):
            faults.append(fault)
            return Fails(status=500 if rule is providerrules.mistral_template else 400, message=fault)
        return Answer(text="ok")

    async with talking(respond, chain=(name,)) as (client, server):
        for seed in SEEDS:
            assert (await client.step(work(*entries(seed), tools=(WRITE,)))).text == "ok", seed
        assert not server.refused
    assert len(faults) == tries


@pytest.mark.parametrize(
    ("kind", "model", "rule", "answer"),
    [
        ("anthropic", "claude-sonnet-4-6", providerrules.anthropic, anthropic),
        ("google", "gemini-2.5-pro", providerrules.gemini, google),
    ],
)
async def test_vendors_take_every_run_in_their_own_protocol(
    kind: str, model: str, rule: providerrules.Rule, answer: Answering
) -> None:
    faults: list[str] = []

    def answering(request: Request) -> tuple[int, str, bytes]:
        if fault := rule(request.body):
            faults.append(fault)
            return 400, "application/json", json.dumps({"error": {"message": fault}}).encode()
        return answer(request)

    async with vendor(answering, kind, model) as (client, _):
        for seed in SEEDS:
            await client.step(work(*entries(seed), tools=(WRITE,)))
    assert not faults
