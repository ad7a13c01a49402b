"""What of a mission users are shown."""

from collections.abc import Iterator, Sequence
from typing import Any

from tenex.core.kind_format import KindShare
from tenex.core.record import Record
from tenex.core.state import State
from tenex.core.text.lines import PARTNER, Place, Row, fields, shorten

from . import records as m
from .result_words import result_words
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
    return KindShare(
        name="mission",
        view=mission_view(mission),
        status=status,
        where=f"{mission.workflow}: {mission.node}",
        does=_work_in_words(status["state"], status["steps"], reason),
    )


def _work_in_words(condition: str, steps: Sequence[str], reason: str) -> str:
    if condition in ("running", "retrying"):
        return f"mission {condition}" + (f": {', '.join(steps)}" if steps else "")
    if condition == "held":
        return f"mission is held, until `/continue`: {reason}"
    return f"mission is limited: {reason}" if condition == "limited" else f"mission {condition}"


MISSION, NODE = "mission", "node"
"""Of a place in a transcript: the mission and the node that it is at."""


def place_of(state: State) -> Place:
    """The mission of a conversation, and its node."""
    mission = mission_of(state)
    return {MISSION: "", NODE: ""} if mission is None else {MISSION: mission.workflow, NODE: mission.node}


def name_in_words(mission: Mission) -> str:
    """What a mission is called within a sentence; where its name is "mission", that word is not said twice."""
    return "the mission" if mission.workflow.lower() == "mission" else f"the mission {mission.workflow}"


def rows_of(record: Record, place: Place) -> Iterator[Row]:
    """The lines of a mission's record."""
    match record:
        case m.MissionOpened():
            place[MISSION] = record.workflow
            if record.pubkey:
                place[PARTNER] = record.workflow
            yield Row("phase", f"🧭 {record.workflow}", f"begun by {record.by}")
        case m.MissionRefused():
            yield Row("notice", record.workflow, "could not begin")
        case m.NodeEntered():
            place[NODE] = record.node
            yield Row("turn", f"{place.get(MISSION, '')} · {record.node}", fields(record.data))
        case m.StepCompleted():
            shown = _value(record.result) if record.ok else f"{record.kind}: {record.message}"
            yield Row("tool" if record.ok else "refused", f"{place.get(NODE, '')} · {record.step}", shown)
        case m.NodeRetryScheduled(limit=""):
            yield Row("dim", place.get(NODE, ""), f"is tried again: {record.kind}: {record.message}")
        case m.NodeCompleted() if record.kind:
            yield Row("error", record.node, f"{record.kind}: {record.message}")
        case m.NodeRetryDue() if record.by:
            yield Row("dim", place.get(NODE, ""), f"goes on: {record.by} lets it")
        case m.MissionPaused():
            yield Row("notice", "paused", f"{record.reason} (by {record.by})")
        case m.MissionEnded():
            yield Row("phase", f"🧭 {record.outcome}", record.message or _value(record.result))


def _value(value: Any) -> str:
    return "" if value is None else shorten(result_words(value))
