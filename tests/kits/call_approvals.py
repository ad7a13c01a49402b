"""A conversation in which calls of an agent wait for a person's approval."""

import dataclasses
from typing import Any

from tenex.core import records as r
from tenex.core.config import ApprovalPolicy, Policy, Replay, ToolRule
from tenex.core.ids import PublicKey
from tenex.core.phases import Access, Phase
from tests.fakes.scenario import (
    ALICE,
    TOOLS,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    policy,
    reply,
    route,
    scenario_at,
    step_until,
)

BOB = PublicKey("b" * 64)
SHELL = ToolRule(name="shell", access=Access.RUN, replay=Replay.ONCE, asks=True)
PUSH: tuple[str, dict[str, Any]] = ("shell", {"command": "git push origin main"})
TURNED_ROUND = [
    "no problem",
    "no worries, go ahead",
    "No objections",
    "No issue, run it",
    "нет проблем",
    "no hay problema",
    "kein Problem",
    "pas de problème",
    "non c'è problema",
    "sem problema",
    "no, no problem",
    "No, ok",
    "nope not at all",
]
"""Words that begin as a no, and may say the contrary."""


def policy_of(**approvals: Any) -> Policy:
    known = policy()
    roster = {slug: dataclasses.replace(one, tools=one.tools | {"shell"}) for slug, one in known.roster.items()}
    return dataclasses.replace(
        known,
        roster=roster,
        tools={**TOOLS, "shell": SHELL},
        approvals=ApprovalPolicy(owners=frozenset({ALICE, BOB}), **approvals),
    )


def asked(*steps: Any, agents: tuple[str, ...] = ("executor",), config: Policy | None = None) -> Scenario:
    """A scenario whose agent has asked for what its first step calls."""
    script = [*(steps or [reply("I publish it.", PUSH)]), reply("done")]
    router, models = Router(route("execute", *agents), WAITS), model_by_phase(execute=script)
    scenario = scenario_at(Phase.CHAT, router, models, config=config or policy_of())
    step_until(scenario, lambda it: bool(it.records(r.ApprovalRequested)) or not it.running)
    while scenario.step():
        pass
    return scenario


def request_event(scenario: Scenario) -> str:
    sent = [record for record in scenario.records(r.MessageSent) if record.text.startswith("Allow ")]
    return str(sent[-1].events[0].id)


PUBLISH: tuple[str, dict[str, Any]] = ("shell", {"command": "npm publish"})


def asked_two() -> Scenario:
    """A step with two calls, about which one message asks."""
    return asked(reply("", PUSH, PUBLISH))
