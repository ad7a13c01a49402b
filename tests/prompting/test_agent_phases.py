"""Front matter becomes a program: phases, state, scoped tools and sub-agents; a text with them is a template."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Millis, Slug
from tenex.core.phases import Phase
from tenex.core.state.agent import AgentPhaseState, Moved, Program
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.agents import read_agent
from tenex.workflows.agents.definition import ask_now

from .conftest import TOOLS

HEAD = "---\nname: R\nrole: researches\nkind: worker\nuse_when: asked\n"
EXAMPLE = Path(__file__).parents[2] / "config" / "agents" / "researcher.md"


def read(text: str) -> tuple[Program | None, list[str]]:
    faults: list[str] = []
    agent = read_agent(Slug("r"), text, "r.md", TOOLS, faults)
    return None if agent is None else agent.program, faults


def faults_of(front: str) -> list[str]:
    return read(f"{HEAD}{front}---\nYou work.\n")[1]


def program(front: str) -> Program:
    found, faults = read(f"{HEAD}{front}---\nYou work.\n")
    assert faults == []
    assert found is not None
    return found


def test_the_shipped_example_runs_through_its_phases() -> None:
    found, faults = read(EXAMPLE.read_text())
    assert faults == []
    assert found is not None
    position, way = found.begin(ask_now), []
    for values in ({"research_plan": "look"}, {"data": [1, 2]}, {"data": [1, 2, 3]}, {}):
        position = position.changed(values)
        after = found.evaluate(position, Phase.EXECUTE, ask_now).target
        position = AgentPhaseState(phase=after or position.phase, values=position.values)
        way.append(position.phase)
    assert way == ["research", "research", "analysis", "analysis"]


@pytest.mark.parametrize(
    ("line", "kind", "default"),
    [
        ("x: 0", "integer", 0),
        ("x: 0.0", "number", 0.0),
        ("x: false", "boolean", False),
        ('x: ""', "string", ""),
        ("x: []", "array", []),
        ("x: {}", "object", {}),
        ("x: {type: text}", "string", ""),
        ("x: {type: number, default: 0}", "number", 0),
        ("x: {type: boolean}", "boolean", False),
        ("x: {default: 0}", "integer", 0),
    ],
)
def test_1_1_e_a_default_keeps_its_value_and_its_type_however_empty_it_is(line: str, kind: str, default: Any) -> None:
    found = program(f"state:\n  {line}\n")
    (value,) = found.begin(ask_now).values.values()
    assert (value, type(value)) == (default, type(default))
    assert found.schema["x"]["type"] == kind


def test_conditions_see_state_by_name_and_whole_the_phase_and_the_conversations() -> None:
    found = program(
        "state: {plan: '', items: [], n: 0}\nphases:\n"
        '  - [a, b, \'plan and state.items|length > 1 and phase == "a" and conversation.phase == "execute"\']\n'
        "  - [b, a]\n"
    )
    begun = found.begin(ask_now)
    assert found.evaluate(begun, Phase.EXECUTE, ask_now).target is None
    ready = begun.changed({"plan": "p", "items": [1, 2]})
    assert found.evaluate(ready, Phase.EXECUTE, ask_now).target == "b"
    assert found.evaluate(ready, Phase.PLAN, ask_now).target is None
    there = AgentPhaseState(phase="b", values=begun.values)
    assert found.evaluate(there, None, ask_now).target == "a", "no condition is always true"


def test_a_condition_cannot_change_what_it_sees_and_one_that_raises_is_not_true() -> None:
    found = program(
        "state: {data: []}\nphases: [[a, b, 'data.append(1)'], [a, c, 'data[0].x > 1'], [a, d, 'not data']]\n"
    )
    begun = found.begin(ask_now)
    outcome = found.evaluate(begun, None, ask_now)
    assert [target for target, _ in outcome.failed] == ["b", "c"]
    assert outcome.target == "d"
    assert begun.values == {"data": []}


def test_a_tool_has_phases_and_a_condition_and_a_word_alone_has_none() -> None:
    found = program(
        "state: {ok: false}\nphases: [[a, b, ok], [b, a, not ok]]\n"
        "tools:\n  - read_file\n  - shell: {phases: [b], when: ok}\n  - check: {when: ok}\n"
        "  - list_files: {phases: b}\n"
    )
    names = ["read_file", "shell", "check", "list_files"]
    for phase, ok, offered in (("a", False, names[:1]), ("b", True, names), ("b", False, ["read_file", "list_files"])):
        state = AgentPhaseState(phase=phase, values={"ok": ok})
        assert [name for name in names if found.offers(name, state, None, ask_now)] == offered


@pytest.mark.parametrize(
    ("front", "faults"),
    [
        ("phases: [[a, b], [c, d]]\n", [f"The node {name} cannot be reached from a." for name in "cd"]),
        ("phases: [[a, b], [a, c]]\n", ["ambiguous: same condition and priority; the first wins", "cannot be reached"]),
        ("phases: [[a, b], [a, c]]\ntriggers: true\n", []),  # a model may choose what rules never would
        ("phases: [[a, b_to_c], [b_to_c, a_to_b], [a_to_b, c]]\n", []),
        (
            "phases: [[a, b_to_c], [b_to_c, a_to_b], [a_to_b, c]]\ntriggers: true\n",
            ["a -> b_to_c and a_to_b -> c would both be the trigger a_to_b_to_c. Rename a phase."],
        ),
        (
            "phases: [[planing, research], [research, planning]]\n",
            ["nothing leads to planing and nothing leads out"],
        ),
        ("phases: [[planning, research], [research, plannign]]\n", ["nothing leads to planning and nothing leads out"]),
        ("phases: [[Planning, research], [research, planning]]\n", ["nothing leads to Planning and nothing leads out"]),
        # a phase that is left or entered again, and names that only resemble each other
        ("phases: [[planing, research], [research, planning], [planning, planing]]\n", []),
        ("phases: [[step_1, research], [research, step_3]]\n", []),
        ("phases: [[part_a, research], [research, part_c]]\n", []),
        ("phases: [[read, research], [research, ready]]\n", []),
        ("phases: [[research, review], [review, plan]]\n", []),
    ],
)
def test_an_invalid_graph_is_refused_with_every_reason(front: str, faults: list[str]) -> None:
    found = faults_of(front)
    assert len(found) == len(faults), found
    assert all(part in fault for fault, part in zip(found, faults, strict=True))


# ---- in prompts ----------------------------------------------------------------------------------------------------


def library(folder: Path, front: str, body: str = "You work.") -> PromptLibrary:
    """The built-in one with one more agent."""
    (folder / "lead.md").write_text(f"{HEAD}{front}---\n{body}\n")
    return PromptLibrary.load(builtin_prompts(), folder, tools=TOOLS)


@pytest.mark.parametrize(
    ("body", "state", "shown"),
    [
        ("In {{ phase }} of {{ conversation.phase }}.", AgentPhaseState(phase="a", values={"n": 0}), "In a of plan."),
        (
            "{{ state.phase }} after {{ state.history|length }} moves",
            AgentPhaseState(phase="b", values={"n": 1}, history=(Moved(source="a", target="b", at=Millis(1)),)),
            "b after 1 moves",
        ),
        # one that fails with this state is shown as it was written
        ("{% if n %}{{ n.x.y }}{% endif %}", AgentPhaseState(phase="b", values={"n": 1}), "{{ n.x.y }}"),
    ],
)
def test_a_prompt_is_rendered_with_the_agents_phase_and_state(
    own: Path, body: str, state: AgentPhaseState, shown: str
) -> None:
    known = library(own, "phases: [[a, b, n]]\nstate: {n: 0}\n", body)
    prompt = known.system_prompt(Slug("lead"), Phase.PLAN, tools=(), project_name="p", position=state)
    assert shown in prompt


def test_a_sub_agent_is_a_tool_described_by_its_role(own: Path) -> None:
    front = (
        "phases: [[a, b, plan]]\nstate: {plan: ''}\n"
        "agents:\n  - planner: {phases: [a], when: not plan, shared: true}\n  - security-expert\n"
    )
    found = library(own, front).definitions[Slug("lead")].program
    assert found is not None
    assert set(found.links) == {"ask_planner", "ask_security_expert"}
    link = found.links["ask_planner"]
    assert (link.agent, link.is_shared) == ("planner", True)
    assert link.description.startswith("Asks Planner, who designs the technical approach")
    later = AgentPhaseState(phase="b", values={"plan": ""})
    assert found.offers("ask_planner", found.begin(ask_now), None, ask_now)
    assert not found.offers("ask_planner", later, None, ask_now)
    assert found.offers("ask_security_expert", later, None, ask_now)


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ("plannr", "lead.md:6: there is no agent 'plannr'. Did you mean `planner`?"),
        ("lead", "lead.md:6: an agent cannot be its own sub-agent."),
        ("orchestrator", "lead.md:6: orchestrator is an orchestrator"),
    ],
)
def test_a_sub_agent_must_be_another_known_worker(own: Path, named: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        library(own, f"agents: [{named}]\n")
    (found,) = caught.value.faults
    assert fault in found
