"""A request that is carried out, during which a person writes."""

from collections.abc import Callable
from typing import Any

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.phases import Phase
from tests.fakes.scenario import ENDS, VERIFIES, WAITS, Scenario, model_by_phase, policy, reply, route, routed_by_rule

REQUEST = "and make it green"
BUILDS = reply("", ("write_file", {"path": "a"}), ("complete", {"response": "built", "summary": "a is new; run it"}))
TIDIES = reply("", ("complete", {"response": "tidy", "summary": "nothing to do"}))
LEARNS = (reply("", ("learn", {"lesson": "test early"})), reply("", ("complete", {"response": "learnt"})))
ONWARD = {"execute": "verification", "verification": "chores", "chores": "reflection"}
Writes = Callable[[Scenario], Any]


def onward(question: dict[str, Any]) -> dict[str, Any]:
    """A router that always goes on to the next gate and then to the end, whatever was written."""
    here = question["phase"]
    if here == "chat":
        return route("execute", "executor") if question["cycle"] == 1 else _talks(question)
    if here == "reflection" and not question["still_to_reflect"]:
        return ENDS
    agents = question["still_to_reflect"] if here in ("chores", "reflection") else ["executor"]
    return route(ONWARD.get(here, here), *agents)


def _talks(question: dict[str, Any]) -> dict[str, Any]:
    return WAITS if question["turns"] else route(None, "project-manager")


class Interrupted:
    """Agents that do their work, and a person who writes while the first run of a phase waits for its model."""

    def __init__(self, phase: Phase, step: int, *writes: Writes) -> None:
        self.place, self.writes = (phase, step), list(writes)
        self.scenario: Scenario | None = None
        steps = {"execute": [BUILDS], "verification": [VERIFIES], "chores": [TIDIES], "reflection": list(LEARNS)}
        self.usual = model_by_phase(**steps)

    def __call__(self, conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.work.runs[call.run]
        if (run.phase, run.steps) == self.place and self.writes and self.scenario is not None:
            self.writes.pop(0)(self.scenario)
        return self.usual(conversation, call)


def interrupted(
    phase: Phase,
    *writes: Writes,
    step: int = 0,
    by_rule: bool = True,
    router: Any = onward,
    config: Policy | None = None,
) -> Scenario:
    """A request that is carried out, with words of a person in the middle of a phase."""
    worker = Interrupted(phase, step, *writes)
    known = config or (routed_by_rule(policy()) if by_rule else policy())
    scenario = worker.scenario = Scenario(router, worker, config=known)
    return scenario.converse("build it")
