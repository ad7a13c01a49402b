"""The offline model as an agent: the port, a speaker of a workflow, and an agent with phases of its own."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.agent_phases.decide import offered
from tenex.core.agent_phases.program import Program
from tenex.core.ids import CallId, Slug
from tenex.core.messages import (
    AgentText,
    CallRequest,
    CallResult,
    Entry,
    ModelRequest,
    ModelStep,
    Note,
    ToolSpec,
    Usage,
    UserText,
)
from tenex.core.phases import Phase
from tenex.llm.scripted import OfflineModel
from tenex.llm.scripted.worker import _PHASES, answer_work
from tenex.prompting.agents import read_agent
from tenex.tools.ask_complete import COMPLETE_SPEC
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import WAITS, Router, Scenario, route

from . import clients

TOOLS = ("read_file", "list_files", "write_file", "check", "learn", "complete", "ask")
WORDS = ("handoff", "finish", "set_context", "delete_context")
EXAMPLE = Path(__file__).parents[2] / "config" / "agents" / "researcher.md"


def work(
    text: str, *entries: Entry, agent: str = "planner", phase: str = "chat", tools: tuple[str, ...] = ()
) -> ModelRequest:
    specs = tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in tools)
    request = clients.work(UserText(author="Ada", text=text), *entries, tools=specs)
    return replace(request, agent=Slug(agent), phase=phase)


def calls(request: ModelRequest) -> list[tuple[str, dict[str, Any]]]:
    """The calls by which a speaker of a workflow does what it is asked for."""
    return [(call.tool, dict(call.arguments)) for call in answer_work(request).calls if call.tool in WORDS]


# ---- the port ----


@pytest.mark.parametrize("phase", list(Phase))
async def test_equal_requests_get_equal_answers_free_of_charge(phase: Phase) -> None:
    request = work("Create hello.py that prints hello", phase=phase.value, tools=TOOLS)
    one = OfflineModel()
    step = await one.step(request)
    assert step == await OfflineModel().step(request) == await one.step(request)
    assert (step.model, step.usage) == ("offline", Usage(cost_usd=0.0))


def test_the_offline_model_has_work_for_every_phase() -> None:
    """A phase that it does not know is a talk to it, which makes nothing and reports no fault."""
    assert sorted(_PHASES) == sorted(Phase)


async def test_streamed_text_grows_to_the_whole_answer_at_the_pace_and_a_decision_is_not_streamed() -> None:
    streamed: list[str] = []
    paced: list[int] = []

    async def pace(_request: ModelRequest) -> None:
        paced.append(len(streamed))

    step = await OfflineModel(pace=pace).step(work("hi", tools=("complete",)), streamed.append)
    assert paced == [0, 1, 2, 3, 4]
    assert all(later.startswith(earlier) for earlier, later in pairwise(streamed))
    assert streamed.pop() == step.calls[0].arguments["response"]
    streamed.clear()
    asked = replace(work("hi"), purpose="route", entries=(Note(title="routing", text="{}"),))
    step = await OfflineModel().step(asked, streamed.append)
    assert (streamed, step.calls, json.loads(step.text)["agents"]) == ([], (), ["USER"])


# ---- a speaker of a workflow ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Please hand off to executor", [("handoff", "executor")]),
        ("@review hands over to @executor", [("handoff", "executor")]),
        ("planner hands off to executor", [("handoff", "executor")]),
        ("editor hands off to executor", []),
        ("hand off to planner", []),
        ("finish the workflow", [("finish", "")]),
        ("finish the report", []),
        ("planner sets approved to true, executor sets approved to false", [("set_context", "")]),
    ],
)
def test_a_speaker_does_what_is_asked_of_it_and_nothing_that_is_asked_of_others(
    text: str, wanted: list[tuple[str, str]]
) -> None:
    assert [(tool, given.get("target", "")) for tool, given in calls(work(text, tools=WORDS))] == wanted
    assert not calls(work(text, tools=("list_files",))), "outside a workflow"


def test_a_value_is_read_as_what_it_looks_like() -> None:
    for word, value in (("true", True), ("7", 7), ("none", None), ("b.", "b"), ("1.5", "1.5")):
        assert calls(work(f"set route to {word}", tools=WORDS)) == [("set_context", {"key": "route", "value": value})]


def test_after_its_calls_a_speaker_reports_them_and_does_not_repeat_them() -> None:
    arguments = {"target": "executor", "reason": "the user asked for it"}
    call = CallRequest(id=CallId("1"), tool="handoff", arguments=arguments)
    done = (ModelStep(calls=(call,)), CallResult(id=call.id, tool="handoff", ok=True, content="executor speaks."))
    answered = answer_work(work("hand off to executor", *done, tools=WORDS))
    assert answered.text == "This is planner. As you asked: executor speaks."
    spoken = AgentText(author="Planner", text=answered.text)
    assert not calls(work("planner hands off to executor", spoken, tools=WORDS))


# ---- an agent with phases or tools of its own ----


def moves(of: Program) -> list[tuple[str, str]]:
    """The way of an executor with that program, whose model is the offline one."""

    def worker(conversation: Any, call: Any) -> ModelStep:
        run = conversation.work.runs[call.run]
        tools = offered(conversation, run, one.policy, lambda phase, agent: [COMPLETE_SPEC])
        request = work("", agent=run.agent, phase=run.phase)
        return answer_work(replace(request, entries=call.entries, tools=tools))

    one = Scenario(Router(route("execute", "executor"), WAITS), worker, config=with_program(of))
    one.user_writes("Find out why the sky is blue")
    one.settle()
    assert one.records(r.RunEnded)[0].outcome == "finished"
    return [(record.source, record.target) for record in one.records(r.AgentPhaseChanged)]


def test_an_agent_goes_through_its_own_phases_with_a_state_and_without_one() -> None:
    found = read_agent(Slug("researcher"), EXAMPLE.read_text(), "researcher.md", None, [])
    assert found is not None
    assert found.program is not None
    assert moves(found.program) == [("planning", "research"), ("research", "analysis")]
    ways = (("a", "b", lambda me: True), ("b", "c", lambda me: False))
    assert moves(program(ways, defaults={}, schema={}, scopes={}, is_settable=False)) == [("a", "b")]


def test_an_agent_s_own_tools_are_named_as_left_alone_with_what_to_set() -> None:
    """Else who asks an agent in Python without a key is answered as if it had no tools, and looks for what is wrong."""
    request = work("Is the moon made of cheese?", tools=("read_file", "list_claims", "settle"))
    answered = answer_work(replace(request, methods=frozenset({"list_claims", "settle"}))).text
    assert answered.endswith(
        "This agent has tools of its own that I cannot use: `list_claims`, `settle`. For anything that needs thought, "
        "name a model: `models.default` in tenex.toml, or `--model openai:gpt-5-mini` of a demo."
    )
    assert answered.count("models.default") == 1


def test_of_all_who_reflect_who_verified_the_work_records_no_lesson_of_it() -> None:
    verified = AgentText(author="Project Manager", text="Verified:\n- ran `python hello.py`: it prints “hello”")
    for agent, learns in (("project-manager", False), ("executor", True)):
        request = work("Create hello.py that prints hello", verified, agent=agent, phase="reflection", tools=("learn",))
        assert bool(answer_work(request).calls) is learns


def test_a_lesson_that_another_agent_has_recorded_meanwhile_is_no_failure() -> None:
    """In a demo two agents reflect at the same time, and would record the same."""
    first = work("Create hello.py that prints hello", phase="reflection", tools=("learn",))
    step = answer_work(first)
    refused = CallResult(
        id=step.calls[0].id, tool="learn", ok=True, content="Nothing to record: the lesson “x” says this already."
    )
    then = replace(first, entries=(*first.entries, step, refused))
    assert answer_work(then).text == "No lesson: it has been recorded already."
