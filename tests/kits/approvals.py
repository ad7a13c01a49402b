"""A conversation in which a plan waits for a person's approval."""

import dataclasses
from typing import Any

from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tests.fakes.scenario import ALICE, ALWAYS, WAITS, Scenario, model_by_phase, policy, route, routed_by_rule

PERSON = dataclasses.replace(ALWAYS, plan_approval="person")
HOUR = 3_600


def plans(question: dict[str, Any]) -> dict[str, Any]:
    """A router that has a plan made, and goes on as soon as it may."""
    if question["phase"] == "chat":
        return route("plan", "planner")
    if question["phase"] == "plan":
        return route("execute", "executor") if "execute" in question["permitted"] else WAITS
    return WAITS


def planned(
    *, role: Role = Role.OWNER, author: PublicKey = ALICE, by_rule: bool = False, router: Any = plans
) -> Scenario:
    """A scenario in which a plan has been presented, and its approval is awaited."""
    config = policy(gates=PERSON)
    scenario = Scenario(router, model_by_phase(), config=routed_by_rule(config) if by_rule else config)
    scenario.now = type(scenario.now)(10_000 * HOUR)
    scenario.converse("design it", role=role, author=author)
    assert (scenario.conversation.cycle.phase, scenario.conversation.cycle.status) == (Phase.PLAN, "waiting")
    return scenario
