"""Whatever a run holds, what is sent of it is taken by every provider: one bad call spoils no later request."""

import json
import random
from collections.abc import Callable

import pytest

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelStep, Note, UserText
from tenex.llm.config import ProviderConfig
from tests.fakes import providerrules
from tests.fakes.modelprotocol import Answer, Fails, Json, Reply

from .clients import WRITE, client_for, talking, work
from .otherservers import Request, anthropic, google, serving

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
    "rule",
    [providerrules.openai, providerrules.mistral, providerrules.mistral_template],
    ids=lambda rule: rule.__name__,
)
async def test_servers_of_the_common_protocol_take_every_run(rule: providerrules.Rule) -> None:
    faults: list[str] = []

    def respond(request: Json) -> Reply:
        if fault := rule(request):
            faults.append(fault)
            return Fails(status=500 if rule is providerrules.mistral_template else 400, message=fault)
        return Answer(text="ok")

    async with talking(respond) as (client, server):
        for seed in SEEDS:
            assert (await client.step(work(*entries(seed), tools=(WRITE,)))).text == "ok", seed
        assert not server.refused
    assert len(faults) <= 1, "a server is asked in its way once it has rejected the other"


async def test_a_server_whose_model_is_known_to_be_strict_is_asked_so_from_the_start() -> None:
    def respond(request: Json) -> Reply:
        fault = providerrules.mistral(request)
        return Fails(status=400, message=fault) if fault else Answer(text="ok")

    async with talking(respond, chain=("local:Mistral-Small-3.2",)) as (client, server):
        for seed in SEEDS:
            await client.step(work(*entries(seed), tools=(WRITE,)))
    assert {exchange.outcome for exchange in server.exchanges} == {"delivered"}


@pytest.mark.parametrize(
    ("kind", "rule", "answer"),
    [("anthropic", providerrules.anthropic, anthropic), ("google", providerrules.gemini, google)],
)
async def test_vendors_take_every_run_in_their_own_protocol(
    kind: str, rule: providerrules.Rule, answer: Callable[[Request], tuple[int, str, bytes]]
) -> None:
    faults: list[str] = []

    def answering(request: Request) -> tuple[int, str, bytes]:
        if fault := rule(request.body):
            faults.append(fault)
            return 400, "application/json", json.dumps({"error": {"message": fault}}).encode()
        return answer(request)

    async with serving(answering) as served:
        provider = ProviderConfig(name="x", kind=kind, base_url=served.url, api_key="k")
        client = client_for(provider, chain=("x:claude-sonnet-4-6" if kind == "anthropic" else "x:gemini-2.5-pro",))
        for seed in SEEDS:
            try:
                await client.step(work(*entries(seed), tools=(WRITE,)))
            except (ModelUnavailable, ModelRefused) as error:
                raise AssertionError(f"{seed}: {faults}") from error
        await client.close()
    assert not faults
