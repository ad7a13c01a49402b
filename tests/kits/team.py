"""The roster that is shipped, and steps of its agents."""

import dataclasses
from typing import Any

from tenex.core.config import Agent, GateRules, Limits, Policy
from tenex.core.phases import Phase
from tests.fakes.scenario import VERIFIES, agent, policy, reply

PHASES = {
    "project-manager": (Phase.CHAT, Phase.BRAINSTORM, Phase.VERIFICATION, Phase.REFLECTION),
    "planner": (Phase.PLAN, Phase.REFLECTION),
    "executor": (Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION),
}


def team(*more: Agent, limits: Limits | None = None, gates: GateRules | None = None) -> Policy:
    """A roster like the one that is shipped, and more."""
    members = [dataclasses.replace(agent(slug), phases=phases) for slug, phases in PHASES.items()]
    known = policy(limits=limits, gates=gates, routes_by_rule=True)
    return dataclasses.replace(known, roster={member.slug: member for member in (*members, *more)})


def hand_over(phase: str = "execute", reason: str = "create hello.py", **more: Any) -> Any:
    return reply("", ("hand_over", {"phase": phase, "reason": reason, **more}))


BUILDS = reply("", ("write_file", {"path": "a"}), ("complete", {"response": "built", "summary": "a is new; run it"}))
FINDS = reply("", ("complete", {"response": "it fails", "verdict": "issues", "issues": "it prints nothing"}))
TIDIES = reply("", ("complete", {"response": "tidy", "summary": "nothing to do"}))
WORK = {"execute": [BUILDS], "verification": [VERIFIES], "chores": [TIDIES]}
