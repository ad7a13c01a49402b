"""The values and parts of prompts: an agent's system prompt, the note on its phase, and the router's prompt.

Equal input gives equal text, byte for byte, so that providers' prompt caches hit. What changes more often comes later:
of a system prompt the skills, the workspace's notes and, last, the lessons; what depends on the phase is a note after
the messages.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.messages import cut
from tenex.core.phases import PHASE_ACCESS, PHASE_TRANSITIONS, QUALITY_PHASES, Access, Phase
from tenex.core.router.answer import FIELDS

from .agents import AgentDefinition
from .phase_guides import PhaseGuide

PARTS: Final = ("identity", "", "tools", "answer", "skills", "workspace", "lessons")
"""An agent's system prompt, in order; "" is the place of one of `PLACES`. An empty part is left out."""
PLACES: Final = ("phases", "phase", "workflow", "conversation")
"""Where an agent works: each a fragment. `Kind.guide` names the last three; `phases` is the same in every phase."""
PHASE: Final = "fragments/phase.md.j2"
"""The phase: a note, or a part of the system prompt of an agent that has phases of its own besides."""
FRAGMENTS: Final = tuple(f"fragments/{name}.md.j2" for name in (*PARTS, *PLACES) if name)

ROUTER: Final = "orchestrator.md.j2"

NOTES_CHARACTERS = 24_000
"""Of a workspace's AGENTS.md: about 6,000 tokens, so that the work keeps most of the context."""
SKILLS_CHARACTERS: Final = 16_000
"""Of the lines of all skills: about 4,000 tokens, in every prompt; those that do not fit are listed by name alone."""
LESSONS_CHARACTERS = 12_000
"""Of all lessons together; the newest are kept."""
NAME_CHARACTERS = 120
"""Of names within a sentence."""


@dataclass(frozen=True, slots=True)
class SkillLines:
    """The skills that can be read, a line for each: its name in backticks, a colon, and what it is for."""

    own: tuple[str, ...] = ()
    """Of the operator."""
    of_workspace: tuple[str, ...] = ()
    """Files of the workspace, which are data."""

    def texts(self) -> tuple[str, str]:
        """Both lists; of what does not fit only the names."""
        room = SKILLS_CHARACTERS
        lists: list[str] = []
        for lines in (self.own, self.of_workspace):
            shown: list[str] = []
            for line in lines:
                text = line if len(line) <= room else f"{line.partition('`: ')[0]}`"
                room -= len(text)
                shown.append(text)
            lists.append("\n".join(shown))
        return lists[0], fenced(lists[1]) if lists[1] else ""


NO_SKILLS: Final = SkillLines()


def fenced(text: str) -> str:
    """The text as a fenced block that it cannot close: the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def agent_values(
    definition: AgentDefinition,
    guide: PhaseGuide,
    *,
    tools: Sequence[str],
    project_name: str,
    lessons: Sequence[str] = (),
    workspace_notes: str | None = None,
    skills: SkillLines = NO_SKILLS,
    place: tuple[str, str] = ("phases", ""),
) -> dict[str, Any]:
    """The variables of an agent's fragments.

    Args:
        definition: The agent.
        guide: The phase it works in; of other phases it is given no more than the name.
        tools: The names of the tools that it may use now.
        project_name: The project's display name.
        lessons: Its lessons, oldest first; the newest that fit are shown.
        workspace_notes: The workspace's AGENTS.md, if there is one.
        skills: Those that it may read.
        place: One of `PLACES`, and the name that its fragment shows.
    """
    notes = (workspace_notes or "").strip()
    learned = _lessons(lessons)
    own_skills, workspace_skills = skills.texts()
    return {
        "agent": definition,
        "project_name": _one_line(project_name),
        "workspace_notes": fenced(cut(notes, NOTES_CHARACTERS)) if notes else "",
        "lessons": fenced(learned) if learned else "",
        "skills": own_skills,
        "workspace_skills": workspace_skills,
        "phase": str(guide.phase),
        "phase_text": guide.text,
        "own_section": definition.in_phase.get(guide.phase, ""),
        "tools": tuple(f"`{name}`" for name in tools),
        "withheld": (),
        "can_complete": "complete" in tools,
        "place": place[0],
        "is_note": False,
        "name": _one_line(place[1]),
    }


def router_values(
    definition: AgentDefinition,
    guides: Mapping[Phase, PhaseGuide],
    *,
    project_name: str,
    plan_approval: str,
) -> dict[str, Any]:
    """The variables of the router's template.

    Args:
        definition: The orchestrator.
        guides: The phases, for their purposes and when they are entered.
        project_name: The project's display name.
        plan_approval: `router` or `person`, as in `GateRules.plan_approval`.
    """
    return {
        "instructions": definition.body,
        "project_name": _one_line(project_name),
        "phases": tuple(
            (guides[Phase(node)], PHASE_TRANSITIONS.permitted(node), _may(Phase(node)))
            for node in PHASE_TRANSITIONS.nodes
        ),
        "initial": str(PHASE_TRANSITIONS.initial),
        "gates": tuple(str(gate) for gate in QUALITY_PHASES),
        "plan_approval": plan_approval,
        "answer_fields": FIELDS,
    }


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), NAME_CHARACTERS)


def _lessons(lessons: Sequence[str]) -> str:
    """The newest lessons that fit, oldest of them first, as a list."""
    room = LESSONS_CHARACTERS
    kept = list[str]()
    for lesson in dict.fromkeys(reversed([lesson.strip() for lesson in lessons])):  # without duplicates
        if lesson:
            text = cut(lesson, LESSONS_CHARACTERS)
            room -= len(text)
            if room < 0:
                break
            kept.append(text)
    kept.reverse()
    return "\n".join(text.replace("\n", "\n   ") for text in kept)


def _may(phase: Phase) -> tuple[str, ...]:
    """What agents may do in a phase, in words."""
    words = {Access.SPEAK: "talk"}
    return tuple(words.get(access, str(access)) for access in Access if access in PHASE_ACCESS[phase])
