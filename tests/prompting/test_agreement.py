"""What agents are sent agrees with the code, and says each thing once: every shipped agent in every phase."""

import re
from itertools import combinations
from pathlib import Path

import pytest

from tenex.core.messages import ModelRequest, Note, ToolSpec
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.operations.prompt_preview import preview
from tenex.prompting import builtin_prompts
from tenex.prompting.loader import PromptLibrary
from tenex.settings import load
from tenex.tools.standard import TOOL_NAMES

AGENTS = ("project-manager", "planner", "executor", "security-expert")

CASES = [(agent, phase) for agent in AGENTS for phase in Phase]

ALIKE = 0.6
"""The share of words that two sentences have in common when they say the same."""

SMALL = frozenset(
    ("the", "and", "for", "you", "your", "that", "this", "with", "what", "not", "are", "can", "has", "have")
)
"""Words that say nothing of what a sentence is about."""

SHORTEST = 6
"""Words: shorter sentences share too many of them by chance."""


async def sent(folder: Path, agent: str, phase: Phase) -> ModelRequest:
    (folder / "workspace").mkdir(exist_ok=True)
    (folder / "workspace" / "AGENTS.md").write_text("Use tabs in all files.\n")
    (folder / "workspace" / "made.py").write_text("print('made')\n")
    return (await preview(load(None, folder), agent, phase)).request


def note_of(request: ModelRequest) -> str:
    return "\n".join(entry.text for entry in request.entries if isinstance(entry, Note))


def described(tool: ToolSpec) -> list[str]:
    """The sentences of a tool; those of its parameters may say the same as those of another tool."""
    return sentences(tool.description)


def sentences(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|\n#+ [^\n]*|\n- |^- ", text)
    return [s.strip() for block in blocks for s in re.split(r"(?<=[.:?!])\s+", " ".join(block.split())) if s.strip()]


def words(sentence: str) -> frozenset[str]:
    """The words of a sentence that carry its meaning."""
    return frozenset(re.findall(r"[a-z_]{3,}", sentence.lower())) - SMALL


@pytest.mark.parametrize(("agent", "phase"), CASES)
async def test_a_tool_that_is_named_is_offered(tmp_path: Path, agent: str, phase: Phase) -> None:
    """A reader was told to try programs with a tool that the phase refuses."""
    request = await sent(tmp_path, agent, phase)
    note = note_of(request)
    first, _, guide = note.partition("\n")
    offered = {tool.name for tool in request.tools}
    if "no tools" in first:
        offered = set()
    elif first.startswith("You may use only"):
        offered = set(re.findall(r"`(\w+)`", first))
    elif first.startswith("You may use all your tools but"):
        offered -= set(re.findall(r"`(\w+)`", first))
    in_phase = {sentence for sentence in sentences(guide) if "if you have it" not in sentence.replace("\n", " ")}
    for sentence in in_phase:
        named = set(re.findall(r"`(\w+)`", sentence)) & (TOOL_NAMES | {"hand_over"})
        if not sentence.startswith("Without `hand_over`"):
            assert named <= offered, sentence
    for sentence in sentences(request.system):
        named = set(re.findall(r"`(\w+)`", sentence)) & (TOOL_NAMES | {"hand_over"})
        assert named <= {tool.name for tool in request.tools}, sentence


@pytest.mark.parametrize(("agent", "phase"), CASES)
async def test_no_rule_is_sent_twice(tmp_path: Path, agent: str, phase: Phase) -> None:
    """`Read a file before you change it` was in the agent's text, in the phase's and at the tool."""
    request = await sent(tmp_path, agent, phase)
    every = [*sentences(request.system), *sentences(note_of(request))]
    every += [sentence for tool in request.tools for sentence in described(tool)]
    long = [(sentence, words(sentence)) for sentence in every if len(words(sentence)) >= SHORTEST]
    twice = [
        (one, other)
        for (one, these), (other, those) in combinations(long, 2)
        if len(these & those) >= ALIKE * min(len(these), len(those))
    ]
    assert not twice


async def test_lists_in_prompts_are_those_of_the_code(tmp_path: Path) -> None:
    """The verdicts and phases that a tool accepts are those that its guide and its description name."""
    request = await sent(tmp_path, "project-manager", Phase.VERIFICATION)
    by_name = {tool.name: tool for tool in request.tools}
    verdicts = by_name["complete"].parameters["properties"]["verdict"]["enum"]
    assert all(f"`{verdict}`" in note_of(request) for verdict in verdicts)
    reached = {str(node) for node in PHASE_TRANSITIONS.permitted("chat")} | {str(Phase.CHAT)}
    assert set(by_name["hand_over"].parameters["properties"]["phase"]["enum"]) <= reached | set(
        map(str, PHASE_TRANSITIONS.permitted("brainstorm"))
    )
    question = (await preview(load(None, tmp_path), "orchestrator")).request.system
    for phase in Phase:
        assert f"`{phase}`" in question or f"## {phase}" in question or f"{phase}" in question


async def test_every_phase_can_be_entered_and_has_an_agent_for_it(tmp_path: Path) -> None:
    """A phase that no prompt leads to, or in which no agent works, would be a row that changes nothing."""
    library = PromptLibrary.load(builtin_prompts())
    question = (await preview(load(None, tmp_path), "orchestrator")).request.system
    for phase in set(Phase) - {PHASE_TRANSITIONS.initial}:
        sources = [source for source in Phase if PHASE_TRANSITIONS.permits(source, phase) and source is not phase]
        rows = [
            line for source in sources for line in question.splitlines() if line.startswith(f"- **{source}** (may ")
        ]
        assert rows, f"no phase leads to {phase}"
        assert all(phase in row.partition("; then ")[2].partition(")")[0].split(", ") for row in rows)
        named = [agent.slug for agent in library.roster if phase in agent.phases]
        assert named, f"no shipped agent has {phase} in its `in_phases`"


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_fact_of_the_workspace_is_sent_once(tmp_path: Path, agent: str) -> None:
    request = await sent(tmp_path, agent, Phase.VERIFICATION)
    whole = request.system + note_of(request)
    assert whole.count("Use tabs in all files.") == 1
    assert whole.count("made.py") <= 1


def test_every_tool_that_an_agents_file_names_exists() -> None:
    library = PromptLibrary.load(builtin_prompts())
    for definition in library.definitions.values():
        assert set(definition.tools) <= TOOL_NAMES
