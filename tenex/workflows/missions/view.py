"""What of a mission users are shown."""

from typing import Any

from tenex.core.kind_format import KindShare
from tenex.core.state import State

from .state import Mission, mission_of


def mission_view(mission: Mission) -> dict[str, Any]:
    """A mission for a user to read: where it is, what it knows, and what came of it."""
    view: dict[str, Any] = {"workflow": mission.workflow, "node": mission.node, "state": mission.state}
    if mission.steps:
        view["steps"] = {
            step.id: "returned" if step.ok else step.kind or "under way" for step in mission.steps.values()
        }
    if mission.outcome is not None:
        view |= {"outcome": mission.outcome, "result": mission.result}
    if why := mission.message or mission.paused:
        view["because"] = why
    return view


def mission_condition(mission: Mission) -> str:
    """What a mission does: its outcome, or paused, held (until somebody acts), limited, retrying or running."""
    if mission.outcome is not None:
        return mission.outcome
    if mission.is_paused:
        return "paused"
    if mission.wait is None:
        return "running"
    if mission.wait.needs_operator:
        return "held"
    return "limited" if mission.wait.limit else "retrying"


def share_of(state: State) -> KindShare | None:
    """The node that a mission is at, and what it does there."""
    mission = mission_of(state)
    if mission is None:
        return None
    status: dict[str, Any] = {
        "workflow": mission.workflow,
        "node": mission.node,
        "state": mission_condition(mission),
        "steps": [step.id for step in mission.open_steps],
    }
    reason = mission.message or mission.paused or (mission.wait.message if mission.wait is not None else "")
    if reason:
        status["why"] = reason
    return KindShare(name="mission", view=mission_view(mission), status=status)
