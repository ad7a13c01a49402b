"""A conversation in which an agent's call of a server's tool waits for an answer."""

import dataclasses
from typing import Any

from tenex.core import records as r
from tenex.core.config import Policy, Replay, ToolRule
from tenex.core.effects import ToolCall
from tenex.core.messages import ModelStep
from tenex.core.phases import Access
from tenex.core.port_values import ToolResult
from tenex.core.signals import ToolReturned
from tests.fakes.scenario import Scenario, policy, reply

TOOL = "shop__order"
ARGUMENTS = {"what": "tea"}


def policy_with_a_server(*, asks: bool = False) -> Policy:
    """The roster of the tests, in which everybody has a tool of a server."""
    usual = policy()
    rule = ToolRule(name=TOOL, access=Access.RUN, replay=Replay.ONCE, asks=asks)
    roster = {
        slug: dataclasses.replace(member, tools=member.tools | {f"{TOOL}", "shop__*"})
        for slug, member in usual.roster.items()
    }
    return dataclasses.replace(usual, tools={**usual.tools, TOOL: rule}, roster=roster)


def asking(answers: list[ModelStep], *, asks: bool = False) -> Scenario:
    """A conversation in which the executor gives these answers."""

    def router(question: dict[str, Any]) -> dict[str, Any]:
        if question["turns"]:
            return {"agents": ["USER"], "reason": "x"}
        return {"phase": "execute", "agents": ["executor"], "reason": "x"}

    scenario = Scenario(router, lambda *_: answers.pop(0), config=policy_with_a_server(asks=asks))
    scenario.user_writes("order tea")
    return scenario


def until_called(scenario: Scenario) -> ToolCall:
    while True:
        call = next((effect for effect in scenario.running.values() if isinstance(effect, ToolCall)), None)
        if call is not None:
            return call
        assert scenario.step()


def parked(*questions: str) -> Scenario:
    """A conversation in which a server asks these questions, one in each call; those but the last have an answer."""
    calls = [reply("", (TOOL, ARGUMENTS)) for _ in range(len(questions) + 1)]
    scenario = asking([*calls, reply("I ordered it.")])
    for number, question in enumerate(questions):
        call = until_called(scenario)
        scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=False, content="", question=question)))
        while scenario.step():
            pass
        if number < len(questions) - 1:
            scenario.user_writes("yes", reply_to=event_of(scenario, question))
    return scenario


def event_of(scenario: Scenario, words: str) -> str:
    """The newest message that ends with these words."""
    sent = [record for record in scenario.records(r.MessageSent) if record.text.endswith(words)]
    return str(sent[-1].events[0].id)
