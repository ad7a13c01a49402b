"""A speaker of a workflow: asked to hand over, to finish or to set a variable, it does; the rest is its phase's rules.

Understood are, in a person's message: "hand off to X" (or "planner hands off to X": only the planner does), "set KEY to
VALUE" and "finish the workflow", likewise. Each is done once by an agent in a conversation.
"""

import re
from typing import Any

from .moves import Finish, Move, act
from .tasks import short
from .transcript import Transcript

_WHO = r"(?:(?<![@\w-])(?P<who>[a-z0-9-]+)(?:,| should| must| shall)?\s+)?"
_ASKED = (
    ("handoff", re.compile(rf"{_WHO}hands?\s+(?:off|over)\s+to\s+@?(?P<target>[a-z0-9-]+)", re.IGNORECASE)),
    ("set_context", re.compile(rf"{_WHO}sets?\s+`?(?P<key>\w+)`?\s+to\s+`?(?P<value>[\w.-]+)`?", re.IGNORECASE)),
    ("finish", re.compile(rf"{_WHO}finish(?:es)?\s+the\s+workflow\b", re.IGNORECASE)),
)
_COMMON = frozenset(("please", "then", "and", "to", "now", "you", "bitte"))
_VALUES: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}


def take_part(seen: Transcript, agent: str) -> Move | None:
    """What a request asks of this speaker; None where it is no workflow, or nothing of that kind is asked for."""
    if "handoff" not in seen.offered:
        return None
    wanted = [call for call in _wanted(seen, agent) if not seen.calls(call[0])]
    if wanted:
        return act(*wanted)
    if any(done.tool in ("handoff", "finish", "set_context") for done in seen.done):
        told = "; ".join(done.content.rstrip(".") for done in seen.done)
        return Finish(response=f"This is {agent}. As you asked: {short(told, 400)}.")
    return None


def _wanted(seen: Transcript, agent: str) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = []
    text = "\n".join(message for group in seen.groups for message in group)
    for tool, asked in _ASKED:
        for found in asked.finditer(text):
            named = (found["who"] or "").lower()
            who = "" if named in _COMMON else named
            if who in ("", agent) and _is_asked(seen, agent, who):
                calls.append((tool, _arguments(tool, found)))
                break
    return [call for call in calls if call[1].get("target") != agent]


def _is_asked(seen: Transcript, agent: str, who: str) -> bool:
    """Without a name whoever speaks first is meant, and nobody who spoke before does it again."""
    return not any(said.startswith(f"This is {agent}.") for said in seen.said) if who else not seen.said


def _arguments(tool: str, found: re.Match[str]) -> dict[str, Any]:
    if tool == "handoff":
        return {"target": found["target"].lower(), "reason": "the person asked for it"}
    if tool == "finish":
        return {"summary": "The person asked for the end.", "reason": "asked"}
    word = found["value"].rstrip(".")
    value = _VALUES.get(word.lower(), word)
    return {"key": found["key"], "value": int(word) if word.isdecimal() else value}
