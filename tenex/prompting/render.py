"""Makes prompts from values: an agent's system prompt, and the router's.

Equal input gives equal text, byte for byte, so that vendors' prompt caches hit. What stays the same from phase to
phase stands first; what an agent must do stands last, after all that is only data.
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

FRAGMENTS: Final = tuple(
    f"fragments/{name}.md.j2" for name in ("identity", "workspace", "lessons", "phase", "tools", "answer")
)
"""What an agent's system prompt is made of, in this order; an empty one leaves no trace."""

ROUTER: Final = "orchestrator.md.j2"

NOTES_CHARACTERS = 24_000
"""Of a workspace's AGENTS.md: about 6,000 tokens; longer ones crowd out the work."""
LESSONS_CHARACTERS = 12_000
"""Of all lessons together, the newest first to stay."""
NAME_CHARACTERS = 120
"""Of names that are set within a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One argument of `complete`, as its tool describes it."""

    name: str
    required: bool
    description: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One phase as the router is told of it."""

    phase: str
    purpose: str
    next: tuple[str, ...]


def fenced(text: str) -> str:
    """The text as a block of data that it cannot close: the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def agent_values(
    definition: AgentDefinition,
    guide: PhaseGuide,
    *,
    previous: Phase | None,
    tools: Sequence[ToolSpec],
    lessons: Sequence[str],
    workspace_notes: str | None,
    project_name: str,
    language: str,
    workflow: str | None = None,
) -> dict[str, Any]:
    """The variables that fragments may use."""
    by_name = {tool.name: tool for tool in tools}
    notes = (workspace_notes or "").strip()
    learned = _lessons(lessons)
    completion = _fields(by_name["complete"].parameters) if "complete" in by_name else ()
    return {
        "agent": definition,
        "project_name": _in_a_line(project_name),
        "workspace_notes": fenced(cut(notes, NOTES_CHARACTERS)) if notes else "",
        "lessons": fenced(learned) if learned else "",
        "phase": "this workflow" if workflow else str(guide.phase),
        "previous_phase": str(previous) if previous is not None and previous is not guide.phase else "",
        "phase_text": guide.text,
        "own_section": definition.in_phase.get(guide.phase, ""),
        "tools": tuple(f"`{name}`" for name in by_name),
        "can_ask": "ask" in by_name,
        "can_complete": "complete" in by_name,
        "completion": completion,
        "needs_verdict": any(field.name == "verdict" and field.required for field in completion),
        "language": _in_a_line(language),
        "workflow": _in_a_line(workflow or ""),
    }


def system_prompt(
    templates: Templates,
    definition: AgentDefinition,
    guide: PhaseGuide,
    *,
    previous: Phase | None = None,
    tools: Sequence[ToolSpec],
    lessons: Sequence[str] = (),
    workspace_notes: str | None = None,
    project_name: str,
    language: str = "",
    workflow: str | None = None,
) -> str:
    """What an agent is told once, at the start of its run.

    Args:
        templates: Where the fragments are.
        definition: The agent.
        guide: The phase it works in; of no other does it hear more than the name.
        previous: The phase before this one, where there was one.
        tools: What it is offered in this phase, as it is offered.
        lessons: What it learned before, oldest first; the newest that fit are shown.
        workspace_notes: The workspace's AGENTS.md, if there is one.
        project_name: As people call the project.
        language: The name of the person's language, where something knows it.
        workflow: The workflow it takes part in, in place of the phases.
    """
    values = agent_values(
        definition,
        guide,
        previous=previous,
        tools=tools,
        lessons=lessons,
        workspace_notes=workspace_notes,
        project_name=project_name,
        language=language,
        workflow=workflow,
    )
    parts = (templates.render(fragment, values) for fragment in FRAGMENTS)
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
    """The variables that the router's template may use."""
    rows = tuple(
        PhaseRow(phase=str(node), purpose=guides[Phase(node)].purpose, next=transitions.permitted(node))
        for node in transitions.nodes
    )
    return {
        "instructions": definition.body,
        "project_name": _in_a_line(project_name),
        "phases": rows,
        "initial": str(transitions.initial),
        "gates": tuple(str(gate) for gate in QUALITY_PHASES),
        "roster": tuple(sorted(roster, key=lambda agent: agent.slug)),
        "plan_approval": plan_approval,
    }


def router_prompt(
    templates: Templates,
    definition: AgentDefinition,
    guides: Mapping[Phase, PhaseGuide],
    *,
    transitions: TransitionGraph,
    roster: Sequence[AgentDefinition] = (),
    project_name: str,
    plan_approval: str = "router",
) -> str:
    """What the router is told; the question itself follows as a message.

    Args:
        templates: Where the router's template is.
        definition: The orchestrator.
        guides: The phases, for their purposes.
        transitions: Which phase may follow which.
        roster: Who can be named; empty leaves that to the question.
        project_name: As people call the project.
        plan_approval: `router` or `person`, as `GateRules.plan_approval` says.
    """
    values = router_values(
        definition,
        guides,
        transitions=transitions,
        roster=roster,
        project_name=project_name,
        plan_approval=plan_approval,
    )
    return templates.render(ROUTER, values) + "\n"


def _in_a_line(words: str) -> str:
    return cut(" ".join(words.split()), NAME_CHARACTERS)


def _lessons(lessons: Sequence[str]) -> str:
    """The newest lessons that fit, oldest of them first, as a numbered list."""
    room, kept = LESSONS_CHARACTERS, list[str]()
    for lesson in dict.fromkeys(reversed([lesson.strip() for lesson in lessons])):  # learned twice is told once
        if lesson:
            text = cut(lesson, LESSONS_CHARACTERS)
            room -= len(text)
            if room < 0:
                break
            kept.append(text)
    kept.reverse()
    return "\n".join(f"{number}. " + text.replace("\n", "\n   ") for number, text in enumerate(kept, 1))


def _fields(parameters: Mapping[str, Any]) -> tuple[Field, ...]:
    required = parameters.get("required", ())
    return tuple(_field(name, schema, required) for name, schema in parameters.get("properties", {}).items())


def _field(name: str, schema: Mapping[str, Any], required: Sequence[str]) -> Field:
    description = " ".join(str(schema.get("description", "")).split()).rstrip(".")
    choices = tuple(f"`{choice}`" for choice in schema.get("enum", ()))
    told = all(choice in description for choice in choices)
    return Field(name=name, required=name in required, description=description, choices=() if told else choices)
