"""Renders prompts from values: an agent's system prompt, and the router's.

Equal input gives equal text, byte for byte, so that providers' prompt caches hit. What is the same in every phase comes
first; the instructions come last, after all data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.graph import TransitionGraph
from tenex.core.messages import ToolSpec, cut
from tenex.core.phases import QUALITY_PHASES, Phase

from .agents import AgentDefinition
from .phase_guides import PhaseGuide
from .templates import Templates

_PARTS: Final = ("identity", "workspace", "lessons", "", "tools", "answer")
"""An agent's system prompt, in order; "" is the place of one of `PLACES`. An empty part is left out."""
PLACES: Final = ("phase", "workflow", "conversation")
"""Where an agent works, as `Mode.guide` names it: each a fragment."""
FRAGMENTS: Final = tuple(f"fragments/{name}.md.j2" for name in (*_PARTS, *PLACES) if name)

ROUTER: Final = "orchestrator.md.j2"

NOTES_CHARACTERS = 24_000
"""Of a workspace's AGENTS.md: about 6,000 tokens, so that the work keeps most of the context."""
LESSONS_CHARACTERS = 12_000
"""Of all lessons together; the newest are kept."""
NAME_CHARACTERS = 120
"""Of names within a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One argument of `complete`."""

    name: str
    required: bool
    description: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One phase in the router's prompt."""

    phase: str
    purpose: str
    next: tuple[str, ...]


def fenced(text: str) -> str:
    """The text as a fenced block that it cannot close: the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def agent_values(
    definition: AgentDefinition,
    guide: PhaseGuide,
    *,
    tools: Sequence[ToolSpec],
    project_name: str,
    previous: Phase | None = None,
    lessons: Sequence[str] = (),
    workspace_notes: str | None = None,
    language: str = "",
    place: tuple[str, str] = ("phase", ""),
) -> dict[str, Any]:
    """The variables of an agent's fragments.

    Args:
        definition: The agent.
        guide: The phase it works in; of other phases it is given no more than the name.
        tools: The tools it is offered in this phase.
        project_name: The project's display name.
        previous: The phase before this one, if any.
        lessons: Its lessons, oldest first; the newest that fit are shown.
        workspace_notes: The workspace's AGENTS.md, if there is one.
        language: The name of the user's language, if known.
        place: One of `PLACES`, and the name that its fragment shows.
    """
    by_name = {tool.name: tool for tool in tools}
    notes, learned = (workspace_notes or "").strip(), _lessons(lessons)
    completion = _fields(by_name["complete"].parameters) if "complete" in by_name else ()
    return {
        "agent": definition,
        "project_name": _one_line(project_name),
        "workspace_notes": fenced(cut(notes, NOTES_CHARACTERS)) if notes else "",
        "lessons": fenced(learned) if learned else "",
        "phase": str(guide.phase) if place[0] == "phase" else f"this {place[0]}",
        "previous_phase": str(previous) if previous is not None and previous is not guide.phase else "",
        "phase_text": guide.text,
        "own_section": definition.in_phase.get(guide.phase, ""),
        "tools": tuple(f"`{name}`" for name in by_name),
        "can_ask": "ask" in by_name,
        "can_complete": "complete" in by_name,
        "completion": completion,
        "needs_verdict": any(field.name == "verdict" and field.required for field in completion),
        "language": _one_line(language),
        "place": place[0],
        "name": _one_line(place[1]),
    }


def system_prompt(templates: Templates, values: Mapping[str, Any]) -> str:
    """An agent's system prompt from `agent_values`."""
    parts = (templates.render(f"fragments/{name or values['place']}.md.j2", values) for name in _PARTS)
    return "\n\n".join(part for part in parts if part) + "\n"


def router_values(
    definition: AgentDefinition,
    guides: Mapping[Phase, PhaseGuide],
    *,
    transitions: TransitionGraph,
    roster: Sequence[AgentDefinition],
    project_name: str,
    plan_approval: str,
) -> dict[str, Any]:
    """The variables of the router's template.

    Args:
        definition: The orchestrator.
        guides: The phases, for their purposes.
        transitions: Which phase may follow which.
        roster: The agents it may route to.
        project_name: The project's display name.
        plan_approval: `router` or `person`, as in `GateRules.plan_approval`.
    """
    rows = tuple(
        PhaseRow(phase=str(node), purpose=guides[Phase(node)].purpose, next=transitions.permitted(node))
        for node in transitions.nodes
    )
    return {
        "instructions": definition.body,
        "project_name": _one_line(project_name),
        "phases": rows,
        "initial": str(transitions.initial),
        "gates": tuple(str(gate) for gate in QUALITY_PHASES),
        "roster": tuple(sorted(roster, key=lambda agent: agent.slug)),
        "plan_approval": plan_approval,
    }


def router_prompt(templates: Templates, values: Mapping[str, Any]) -> str:
    """The router's system prompt from `router_values`; the question follows as a message."""
    return templates.render(ROUTER, values) + "\n"


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), NAME_CHARACTERS)


def _lessons(lessons: Sequence[str]) -> str:
    """The newest lessons that fit, oldest of them first, as a numbered list."""
    room, kept = LESSONS_CHARACTERS, list[str]()
    for lesson in dict.fromkeys(reversed([lesson.strip() for lesson in lessons])):  # without duplicates
        if lesson:
            text = cut(lesson, LESSONS_CHARACTERS)
            room -= len(text)
            if room < 0:
                break
            kept.append(text)
    kept.reverse()
    return "\n".join(f"{number}. " + text.replace("\n", "\n   ") for number, text in enumerate(kept, 1))


def _fields(parameters: Mapping[str, Any]) -> tuple[Field, ...]:
    required, fields = parameters.get("required", ()), []
    for name, schema in parameters.get("properties", {}).items():
        description = " ".join(str(schema.get("description", "")).split()).rstrip(".")
        choices = tuple(f"`{choice}`" for choice in schema.get("enum", ()))
        if all(choice in description for choice in choices):
            choices = ()
        fields.append(Field(name=name, required=name in required, description=description, choices=choices))
    return tuple(fields)
