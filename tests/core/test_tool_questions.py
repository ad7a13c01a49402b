"""A tool may ask a person in the middle of its call: it is parked like `ask`, and called again with the answer."""

import dataclasses
from typing import Any

from tenex.core import records as r
from tenex.core.config import Policy, Replay, ToolRule
from tenex.core.effects import ToolCall
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep
from tenex.core.phases import Access
from tenex.core.port_values import ToolResult
from tenex.core.signals import ToolReturned
from tenex.core.tool_questions import answered, answers_to
from tests.fakes.scenario import Scenario, policy, reply

TOOL = "shop__order"
ARGUMENTS = {"what": "tea"}


def policy_with_a_server() -> Policy:
    """The roster of the tests, in which everybody has a tool of a server."""
    usual = policy()
    rule = ToolRule(name=TOOL, access=Access.RUN, replay=Replay.ONCE)
    roster = {
        slug: dataclasses.replace(member, tools=member.tools | {f"{TOOL}", "shop__*"})
        for slug, member in usual.roster.items()
    }
    return dataclasses.replace(usual, tools={**usual.tools, TOOL: rule}, roster=roster)


def asking(answers: list[ModelStep]) -> Scenario:
    """A conversation in which the executor gives these answers."""

    def router(question: dict[str, Any]) -> dict[str, Any]:
        if question["turns"]:
            return {"agents": ["USER"], "reason": "x"}
        return {"phase": "execute", "agents": ["executor"], "reason": "x"}

    scenario = Scenario(router, lambda *_: answers.pop(0), config=policy_with_a_server())
    scenario.user_writes("order tea")
    return scenario


def until_called(scenario: Scenario) -> ToolCall:
    while True:
        call = next((effect for effect in scenario.running.values() if isinstance(effect, ToolCall)), None)
        if call is not None:
            return call
        assert scenario.step()


def test_the_call_waits_over_a_restart_and_the_next_one_has_the_answer() -> None:
    answers = [reply("", (TOOL, ARGUMENTS)), reply("", (TOOL, ARGUMENTS)), reply("I ordered it.")]
    scenario = asking(answers)
    call = until_called(scenario)
    assert call.context.answers == ()
    scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=False, content="", question="How many?")))
    assert [record.question for record in scenario.records(r.QuestionAsked)] == ["How many?"]
    assert "How many?" in scenario.records(r.MessageSent)[-1].text
    scenario.crash()
    scenario.settle()
    assert len(answers) == 2, "the model is not asked before the person has answered"
    scenario.user_writes("8", by_program=True)
    assert scenario.records(r.QuestionAnswered) == [], "a server asks a person, and no program answers for them"
    scenario.user_writes("7, please")
    again = until_called(scenario)
    assert again.context.answers == ("7, please",)
    assert again.key != call.key
    scenario.settle()
    assert [record.text for record in scenario.records(r.RunEnded)] == ["I ordered it."]
    results = [record.content for record in scenario.records(r.ToolCallCompleted)]
    assert results == [f"{TOOL} done"]


def test_a_call_that_has_changed_files_is_not_parked_for_then_they_would_not_count() -> None:
    scenario = asking([reply("", (TOOL, ARGUMENTS)), reply("done")])
    call = until_called(scenario)
    result = ToolResult(ok=False, content="It asks: How many?", question="How many?", touched=("f",))
    scenario.handle(ToolReturned(key=call.key, result=result))
    assert scenario.records(r.QuestionAsked) == []
    assert [record.touched for record in scenario.records(r.ToolCallCompleted)] == [("f",)]


def test_answers_are_those_of_the_same_call_since_it_had_a_result() -> None:
    def step(name: str, **arguments: Any) -> ModelStep:
        return ModelStep(calls=(CallRequest(id=CallId(name), tool=TOOL, arguments=arguments),))

    def result(name: str, content: str) -> CallResult:
        return CallResult(id=CallId(name), tool=TOOL, ok=True, content=content)

    entries: list[Entry] = [step("a", n=1), result("a", answered(TOOL, "one"))]
    asked = CallRequest(id=CallId("z"), tool=TOOL, arguments={"n": 1})
    assert answers_to(entries, asked) == ("one",)
    assert answers_to(entries, dataclasses.replace(asked, arguments={"n": 2})) == ()
    entries += [step("b", n=1), result("b", answered(TOOL, "two"))]
    assert answers_to(entries, asked) == ("one", "two")
    entries += [step("c", n=1), result("c", "ordered")]
    assert answers_to(entries, asked) == ()
