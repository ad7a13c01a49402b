"""Messages to users about a mission: where it is, why it is paused and who lets it go on, how it ended."""

import json
from functools import partial
from typing import Any, assert_never

from tenex.core.decide.outgoing import notify
from tenex.core.decide.transaction import Transaction
from tenex.core.mission_config import MissionRule
from tenex.core.signals import Who
from tenex.core.state.mission import UNKNOWN_KIND, Mission

RESULT_CHARACTERS = 2_000
"""Of a result in the message that ends a mission: the whole is in the journal."""
TOLD = 50
"""Nodes announced one by one, since someone let it go on: a search of a thousand rounds would fill a client."""

_json = partial(json.dumps, ensure_ascii=False)


def announce_node(draft: Transaction, mission: Mission, rule: MissionRule, before: str) -> None:
    """Say in a line that another node was entered; one that follows itself is no news."""
    if not mission.is_alone or mission.node == before or mission.visits > TOLD:
        return
    label = rule.label(before, mission.node) if before else ""
    line = f"Now in {rule.nodes[mission.node].phase}{f': {label}' if label else ''}"
    more = "" if mission.visits < TOLD else " What follows is not told one by one; `/status` says where it is."
    notify(draft, line + ("." if more else "") + more, "announcement")


def report_end(draft: Transaction, mission: Mission, who: Who) -> None:
    """Say what came of it; where the conversation is its own, the message bears the reason."""
    outcome, name = mission.outcome or "finished", mission.workflow
    tags = (("close-reason", outcome),) if mission.is_alone else ()
    match outcome:
        case "finished":
            result = "" if mission.result is None else f" Its result: {_shown(mission.result)}"
            notify(draft, f"The mission {name} has ended.{result}", tags=tags)
        case "stopped":
            notify(draft, f"The mission {name} has ended: {mission.message}.", tags=tags)
        case "failed":
            remedy = f" {_remedy(mission, who)}" if mission.is_alone else ""
            notify(
                draft, f"The mission {name} has failed: {_ended(mission.message)}{remedy}", error="mission", tags=tags
            )
        case _:
            assert_never(outcome)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _shown(result: Any) -> str:
    text = result if isinstance(result, str) else _json(result)
    return text if len(text) <= RESULT_CHARACTERS else f"{text[:RESULT_CHARACTERS]}…"


def _remedy(mission: Mission, who: Who) -> str:
    again = f"mention @{mission.workflow} in a new note"
    if mission.kind == UNKNOWN_KIND:
        return f"Somebody has to look at what that step did; then {again}."
    if who == "world":
        return f"That may pass by itself; to try again, {again}."
    return f"The author of its code has to fix that; then {again}."


def pause(mission: Mission, reason: str, *, by_program: bool) -> str:
    """That it is paused, and who has to do what."""
    go_on = "Once the operator has fixed that, `/continue`" if by_program else "`/continue`"
    return f"The mission {mission.workflow} is paused at {mission.node}: {_ended(reason)} {go_on} lets it go on."


def status_line(mission: Mission) -> str:
    """Where a mission is, as one line."""
    where = f"The mission {mission.workflow}"
    if not mission.is_open:
        return f"{where} has ended ({mission.outcome})."
    if mission.is_paused:
        return f"{where} is paused at {mission.node}: {_ended(mission.paused)}"
    if mission.wait is not None and mission.wait.limit:
        return f"{where} is on hold at {mission.node}: {mission.wait.message}"
    return f"{where} tries {mission.node} again soon." if mission.wait else f"{where} is at work in {mission.node}."


def refusal(workflow: str, why: str) -> str:
    """That a message could not begin a mission, and what may."""
    return f"The mission {workflow} cannot begin: {why} Correct it and write it here again."


def over(mission: Mission) -> str:
    """The answer to a message after the end."""
    return f"{status_line(mission)} To run it again, mention @{mission.workflow} in a new note."
