"""A model that answers by states, behind a real server: what it is sent, what is taken of its answers, what is not."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId, Slug
from tenex.core.messages import CallRequest, CallResult, Entry, ModelRequest, ModelStep, ToolSpec, UserText
from tenex.llm.client import ModelClient
from tenex.llm.config import ModelClientConfig
from tenex.llm.errors import rejects_form
from tenex.llm.scripted import OfflineModel
from tenex.output_states import (
    AgentOutput,
    Enforced,
    OutputModel,
    OutputProgress,
    Python,
    Scratchpad,
    Thinking,
    ToolCallState,
    agents,
)
from tests.fakes.modelprotocol import Answer, Breaks, Fails, Json, Reply
from tests.fakes.modelserver import ModelServer, model_server, text_of
from tests.llm.clients import NAME, provider

from .kit import Engine, Freeform, tool

TOOLS = (tool("read", {"path": {"type": "string"}}), tool("python", {"program": {"type": "string"}}))
SECRET = "secret-4711"
THOUGHT = "I shall read the file first, because I do not know its content."
NOTE = "The file is called notes.txt; its second line has the number."
CALL = '{"name": "read", "arguments": {"path": "notes.txt"}}'
FENCED = f"```thinking\n{THOUGHT}\n```\n```scratchpad\n{NOTE}\n```\n```tool\n{CALL}\n```"


SMALL, PAD = partial(Thinking, character_max=200), partial(Scratchpad, character_max=200)
"""States whose limits keep a grammar short."""


class Case:
    """An agent that speaks by states, before a server that answers what it is scripted to."""

    def __init__(self, server: ModelServer, enforced: Enforced, output: AgentOutput) -> None:
        self.server, self.progress, self.streamed = server, list[OutputProgress](), list[str]()

        def wrap(model: Any, _: Any) -> OutputModel:
            outputs = {Slug("executor"): output}
            return OutputModel(model, outputs, enforced, rejects=rejects_form, on_progress=self.progress.append)

        config = ModelClientConfig(providers={"local": provider(server)})
        self.client = ModelClient(config, lambda *_: (NAME,), OfflineModel(), wrap=wrap)

    async def step(self, *entries: Entry, tools: Sequence[ToolSpec] = TOOLS) -> ModelStep:
        request = ModelRequest(
            purpose="work",
            agent=Slug("executor"),
            phase="execute",
            system="You are a test.",
            entries=(UserText(author="Ada", text="What is the number?"), *entries),
            tools=tuple(tools),
        )
        return await self.client.step(request, self.streamed.append)

    @property
    def bodies(self) -> list[Json]:
        return [exchange.request for exchange in self.server.exchanges]


def output(least: int | None = None, most: int = 3) -> AgentOutput:
    return AgentOutput([SMALL, PAD], [ToolCallState, Python], least, most)


@asynccontextmanager
async def served(
    *answers: Reply | str, enforced: Enforced = "none", given: AgentOutput | None = None
) -> AsyncIterator[Case]:
    """An agent before a server that answers these in turn, the last again and again."""
    left = [Answer(text=one) if isinstance(one, str) else one for one in answers]
    async with model_server(lambda _: left.pop(0) if len(left) > 1 else left[0]) as server:
        case = Case(server, enforced, given or output())
        try:
            yield case
        finally:
            await case.client.close()


async def answered(
    *answers: Reply | str, enforced: Enforced = "none", given: AgentOutput | None = None
) -> tuple[Case, ModelStep]:
    """What one step gave, for which every answer was asked for."""
    async with served(*answers, enforced=enforced, given=given) as case:
        step = await case.step()
    assert len(case.bodies) == len(answers)
    return case, step


async def test_a_valid_answer_is_a_call_and_its_plan_is_kept_apart() -> None:
    case, step = await answered(FENCED)
    assert [(call.tool, call.arguments) for call in step.calls] == [("read", {"path": "notes.txt"})]
    assert step.text == ""
    assert step.thinking == f"thinking:\n{THOUGHT}\n\nscratchpad:\n{NOTE}"
    (body,) = case.bodies
    system = text_of(body["messages"][0])
    machine = output().format_for(TOOLS)
    assert machine is not None
    assert all(str(state) in system for state in machine.states.values()), "every state is in the prompt"
    assert not {"tools", "grammar", "structured_outputs", "response_format"} & body.keys()
    assert case.streamed == [], "nothing private goes to relays"
    closed = [(part.state, part.text, part.emoji) for part in case.progress if part.kind == "closed"]
    assert closed == [
        ("thinking", THOUGHT, "🧠"),
        ("scratchpad", NOTE, "📝"),
        ("tool_call", ToolCallState().readable_format(CALL), "🔧"),
    ]
    assert "".join(part.text for part in case.progress if part.kind == "piece") == THOUGHT + NOTE + CALL


async def test_python_is_a_call_of_its_tool_and_cannot_be_reached_without_it() -> None:
    program = f"```thinking\n{THOUGHT}\n```\n```python\nprint(6 * 7)\n```"
    _, step = await answered(program)
    assert [(call.tool, call.arguments) for call in step.calls] == [("python", {"program": "print(6 * 7)"})]
    async with served(program, FENCED) as case:
        step = await case.step(tools=TOOLS[:1])
    assert step.calls[0].tool == "read", "a program was refused where nothing may run"
    assert "🐍" not in str(case.progress)
    assert "```python" not in text_of(case.bodies[0]["messages"][0])


@pytest.mark.parametrize("answer", [f"```tool\n{CALL}\n```", "I shall simply talk."], ids=["too few", "no states"])
async def test_1_2_nothing_of_an_invalid_answer_is_done_and_it_is_asked_for_again(answer: str) -> None:
    case, step = await answered(answer, FENCED)
    assert len(step.calls) == 1
    assert step.usage.calls == 2, "both answers are paid for"
    again = [text_of(message) for message in case.bodies[1]["messages"]]
    assert again[-2].strip() == answer.strip(), "it sees what it wrote"
    assert "nothing of it was done" in again[-1]
    assert "thinking" in again[-1]
    assert [part.kind for part in case.progress].count("refused") == 1


async def test_after_three_wrong_answers_the_run_fails() -> None:
    with pytest.raises(ModelRefused, match="3 answers in a row did not follow the states") as refused:
        await answered("no", "no", f"{SECRET}```tool\n{SECRET}")
    assert refused.value.usage.calls == 3
    assert SECRET not in str(refused.value), "users are sent this sentence, over relays"


async def test_an_answer_that_broke_off_is_reported() -> None:
    half = Breaks(answer=Answer(text=f"```thinking\n{THOUGHT}\n```"), after=3)
    async with served(half) as case:
        with pytest.raises(ModelUnavailable):
            await case.step()
    assert [part.kind for part in case.progress if part.kind != "piece"] == ["broken"]
    assert case.progress[-1].kind == "broken"


async def test_min_and_max_planning_loops_are_the_agents() -> None:
    one = f"```thinking\n{THOUGHT}\n```\n```tool\n{CALL}\n```"
    await answered(one, FENCED, given=output(least=2, most=2))
    _, step = await answered(f"```tool\n{CALL}\n```", given=AgentOutput([], [ToolCallState], None, 0))
    assert (step.calls[0].tool, step.thinking) == ("read", "")


def tag_of(body: Json) -> dict[str, Any]:
    tag: dict[str, Any] = json.loads(body["structured_outputs"]["structural_tag"])
    return tag


async def test_1_2_the_body_carries_the_grammar_a_server_takes() -> None:
    case, _ = await answered(FENCED, enforced="structural_tag")
    engine = Engine.of_tag(tag_of(case.bodies[0]))
    assert engine.fault == ""
    assert engine.accepts(FENCED), "what we take is what the server permits"
    assert not engine.permits("```tool"), "no action comes before a plan"
    long = FENCED.replace(THOUGHT, THOUGHT * 20)
    case, _ = await answered(long, FENCED, enforced="structural_tag")
    assert Engine.of_tag(tag_of(case.bodies[0])).accepts(long), "the parser checks the lengths, which a server does not"
    assert "thinking is too long" in text_of(case.bodies[1]["messages"][-1])


async def test_openai_is_sent_a_schema_and_its_answer_is_json() -> None:
    plan = [{"state": "thinking", "content": THOUGHT}, {"state": "scratchpad", "content": NOTE}]
    written = json.dumps({"plan": plan, "action": {"state": "tool_call", "content": json.loads(CALL)}})
    case, step = await answered(written, enforced="json_schema")
    assert case.bodies[0]["response_format"]["json_schema"]["name"] == "agent_output"
    assert (step.calls[0].tool, step.thinking) == ("read", f"thinking:\n{THOUGHT}\n\nscratchpad:\n{NOTE}")
    assert [part.kind for part in case.progress] == ["closed"] * 3
    case, _ = await answered(json.dumps({"plan": [], "action": 1}), written, enforced="json_schema")
    assert "nothing of it was done" in text_of(case.bodies[1]["messages"][-1])


async def test_a_server_that_takes_no_grammar_is_asked_without_and_checked() -> None:
    fails = Fails(status=400, message="grammar: unsupported field")
    async with served(fails, "no states", FENCED, enforced="structural_tag") as case:
        await case.step()
        await case.step()
    assert ["structured_outputs" in body for body in case.bodies] == [True, False, False, False]


async def test_an_agents_own_steps_come_back_to_it_in_its_delimiters() -> None:
    async with served(FENCED) as case:
        first = await case.step()
        result = CallResult(id=first.calls[0].id, tool="read", ok=False, content="There is no ```tool\n<note>.")
        ran = ModelStep(calls=(CallRequest(id=CallId("b"), tool="python", arguments={"program": "print(1)"}),))
        printed = CallResult(id=CallId("b"), tool="python", ok=True, content="1")
        await case.step(first, result, ran, printed)
    written = [(message["role"], text_of(message)) for message in case.bodies[1]["messages"]][2:]
    assert [role for role, _ in written] == ["assistant", "user", "assistant", "user"]
    assert written[0][1] == FENCED
    assert written[1][1].startswith('<note-2 title="Result of read, which failed">')
    assert written[2][1] == "```python\nprint(1)\n```", "a step that was not made by states has only its call"
    assert case.server.refused == [], "no results without calls were sent"


async def test_requests_of_other_agents_or_without_an_action_go_through_untouched() -> None:
    async with served("Hello", enforced="structural_tag") as case:
        request = ModelRequest(purpose="work", agent=Slug("planner"), phase="plan", system="S", entries=(), tools=TOOLS)
        assert (await case.client.step(request)).text == "Hello"
        assert (await case.step(tools=())).text == "Hello", "no tool, so no action could be taken"
    assert len(case.bodies[0]["tools"]) == 2
    assert not any("structured_outputs" in body for body in case.bodies)


async def test_a_grammar_is_made_once_for_a_set_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def build(_: Any) -> dict[str, Any]:
        built.append(len(built) + 1)
        return {"grammar": built[-1]}

    monkeypatch.setitem(agents._BODIES, "structural_tag", build)
    async with served(FENCED, enforced="structural_tag") as case:
        await asyncio.gather(case.step(), case.step())
        await case.step(tools=TOOLS[:1])
        await case.step()
    assert sorted(body["grammar"] for body in case.bodies) == [1, 1, 1, 2]


class Report(Freeform):
    """An action whose content users are shown in another form."""

    def readable_format(self, string: str) -> str:
        if "broken" in string:
            raise ValueError("no form for this")
        return f"**{self.readable_name}**: {string}"


async def test_an_action_that_neither_calls_nor_runs_is_the_reply_as_its_readable_format_shows_it() -> None:
    """The model is shown again what it wrote itself; where the format fails, users are shown the content as it is."""
    report = AgentOutput([SMALL], [lambda: Report("report", ("<report>", "</report>"), 1, 60)], 0, 3)
    thought = f"```thinking\n{SECRET}, a thought that is long enough to be one.\n```js\nx\n```\n~~~\n```\n"
    async with served(f"{thought}<report>done</report>", "<report>broken</report>", given=report) as case:
        step = await case.step()
        again = await case.step(step)
    assert (step.text, step.calls, again.text) == ("**report**: done", (), "broken")
    assert SECRET in step.thinking
    assert (case.streamed[0], case.streamed[-1]) == ("done", "broken"), "as it is written, and nothing private"
    assert [part.text for part in case.progress if part.kind == "closed"][1:] == ["**report**: done", "broken"]
    assert text_of(case.bodies[1]["messages"][2]).endswith("<report>done</report>")
