"""The offline model as a speaker: it hands over, sets variables and finishes where a person asks it to, once."""

from typing import Any

import pytest

from tenex.core.ids import CallId, Slug
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelRequest, ModelStep, ToolSpec, UserText
from tenex.llm.scripted.worker import answer_work

WORDS = ("handoff", "finish", "set_context", "delete_context")


def request(text: str, *entries: Entry, agent: str = "planner", offered: tuple[str, ...] = WORDS) -> ModelRequest:
    """What an agent is asked in a workflow."""
    tools = tuple(ToolSpec(name=name, description="", parameters={}) for name in offered)
    return ModelRequest(
        purpose="work",
        agent=Slug(agent),
        phase="execute",
        system="",
        tools=tools,
        entries=(UserText(author="alice", text=text), *entries),
    )


def calls(step: ModelStep) -> list[tuple[str, dict[str, Any]]]:
    """What it calls."""
    return [(call.tool, dict(call.arguments)) for call in step.calls]


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
def test_it_does_what_is_asked_of_it_and_nothing_that_is_asked_of_others(
    text: str, wanted: list[tuple[str, str]]
) -> None:
    made = calls(answer_work(request(text)))
    own = [(tool, given.get("target", "")) for tool, given in made if tool in WORDS]
    assert own == wanted


def test_a_value_is_read_as_what_it_looks_like() -> None:
    for word, value in (("true", True), ("7", 7), ("none", None), ("b.", "b"), ("1.5", "1.5")):
        (call,) = calls(answer_work(request(f"set route to {word}")))
        assert call == ("set_context", {"key": "route", "value": value})


def test_after_its_calls_it_reports_them_and_does_not_repeat_them() -> None:
    call = CallRequest(id=CallId("1"), tool="handoff", arguments={"target": "executor"})
    done = (ModelStep(calls=(call,)), CallResult(id=call.id, tool="handoff", ok=True, content="executor speaks."))
    answered = answer_work(request("hand off to executor", *done))
    assert answered.text == "This is planner. As you asked: executor speaks."
    later = answer_work(request("planner hands off to executor", AgentText(author="Planner", text=answered.text)))
    assert not [name for name, _ in calls(later) if name in WORDS]


def test_outside_a_workflow_the_words_mean_nothing() -> None:
    assert not calls(answer_work(request("hand off to executor", offered=("list_files",))))[1:]
    assert all(name not in WORDS for name, _ in calls(answer_work(request("hand off to x", offered=("list_files",)))))
