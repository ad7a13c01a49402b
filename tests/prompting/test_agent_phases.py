"""Front matter becomes a program: phases, state, scoped tools and sub-agents; or a list of errors."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Millis, Slug
from tenex.core.phases import Phase
from tenex.core.state.agent import AgentPhaseState, Moved, Program
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.agents import AgentDefinition, read_agent
from tenex.workflows.agents.definition import ask_now

from .conftest import TOOLS

HEAD = "---\nname: R\nrole: researches\nkind: worker\nuse_when: asked\n"
EXAMPLE = Path(__file__).parents[2] / "config" / "agents" / "researcher.md"


def read(front: str, body: str = "You work.") -> tuple[AgentDefinition | None, list[str]]:
    faults: list[str] = []
    return read_agent(Slug("r"), f"{HEAD}{front}---\n{body}\n", "r.md", TOOLS, faults), faults


def program(front: str) -> Program:
    definition, faults = read(front)
    assert faults == []
    assert definition is not None
    assert definition.program is not None
    return definition.program


def test_the_shipped_example_is_whole_and_runs_through_its_phases() -> None:
    faults: list[str] = []
    found = read_agent(Slug("researcher"), EXAMPLE.read_text(), "researcher.md", TOOLS, faults)
    assert faults == []
    assert found is not None
    assert found.program is not None
    assert found.tools == ("read_file", "search_files", "write_file")
    position, way = found.program.begin(ask_now), []
    for values in ({"research_plan": "look"}, {"data": [1, 2]}, {"data": [1, 2, 3]}, {}):
        position = position.changed(values)
        after = found.program.evaluate(position, Phase.EXECUTE, ask_now).target
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
        ("x: 2026", "integer", 2026),
        ("x: {type: text}", "string", ""),
        ("x: {type: number, default: 0}", "number", 0),
        ("x: {type: boolean}", "boolean", False),
        ("x: {default: 0}", "integer", 0),
    ],
)
def test_1_1_e_a_default_keeps_its_value_and_its_type_however_empty_it_is(line: str, kind: str, default: Any) -> None:
    found = program(f"state:\n  {line}\n")
    assert found.begin(ask_now).values == {"x": default}
    assert type(found.begin(ask_now).values["x"]) is type(default)
    assert found.schema["x"]["type"] == kind


def test_conditions_see_state_by_name_and_whole_the_phase_and_the_conversations() -> None:
    found = program(
        "state: {plan: '', n: 0}\nphases:\n"
        '  - [a, b, \'plan and state.n > 1 and phase == "a" and conversation.phase == "execute"\']\n  - [b, a]\n'
    )
    begun = found.begin(ask_now)
    assert found.evaluate(begun, Phase.EXECUTE, ask_now).target is None
    ready = begun.changed({"plan": "p", "n": 2})
    assert found.evaluate(ready, Phase.EXECUTE, ask_now).target == "b"
    assert found.evaluate(ready, Phase.PLAN, ask_now).target is None
    assert found.evaluate(AgentPhaseState(phase="b", values=begun.values), None, ask_now).target == "a", (
        "no condition is always true"
    )


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
    begun = found.begin(ask_now)
    there = AgentPhaseState(phase="b", values={"ok": True})
    names = ("read_file", "shell", "check", "list_files")
    assert [name for name in names if found.offers(name, begun, None, ask_now)] == ["read_file"]
    assert [name for name in names if found.offers(name, there, None, ask_now)] == list(names)
    assert not found.offers("shell", AgentPhaseState(phase="b", values={"ok": False}), None, ask_now), (
        "phases AND condition"
    )


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        ("phases: [plan, execute]\n", "r.md:6: `phases` must be a list of `[source, destination, condition]`"),
        ("phases: x\n", "r.md:6: `phases` must be a list of `[source, destination, condition]`."),
        ("phases: [[a]]\n", "r.md:6: `phases`: each of them must be `[source, destination, condition]`."),
        ("phases: [[a, 'b c']]\n", "r.md:6: `phases`: 'b c' is not a phase's name"),
        ("phases: [[a, b, 'x +']]\n", "r.md:6: the condition 'x +' is not an expression"),
        ("phases: [[a, b, x]]\n", "r.md:6: the condition 'x' names 'x'. There are: conversation, phase, state."),
        ("phases: [[a, END]]\n", "r.md:6: `phases`: END is reserved and cannot be a node."),
        ("state: x\n", "r.md:6: `state` must be lines of `key: value`."),
        ("state: {1a: 0}\n", "r.md:6: `state.1a`: this cannot be a field's name"),
        ("state: {phase: 0}\n", "r.md:6: `state.phase`: this cannot be a field's name: it is reserved."),
        ("state:\n  a: 0\n  a: 1\n", "r.md:8: `a` appears twice, first in line 7"),
        ("state: {a: }\n", "r.md:6: `state.a` has neither a type nor a default"),
        ("state: {a: {type: txt}}\n", "r.md:6: `state.a.type`: 'txt' is not a type. Did you mean `text`?"),
        ("state: {a: {typ: text, default: 1}}\n", "r.md:6: `state.a.typ` is not a known key. Did you mean `type`?"),
        ("state: {a: {type: list, default: 1}}\n", "r.md:6: `state.a`: the default is not of type list."),
        ("state: {a: 2026-01-01}\n", "r.md:6: `state.a`: the default is not a JSON value"),
        ("state: {a: .nan}\n", "r.md:6: `state.a`: the default is not a JSON value"),
        ("state: {a: !x 1}\n", "r.md:6: `state.a`: the default is not a JSON value"),
        ("phases: [[a, b]]\ntools: [{shell: {phases: [c]}}]\n", "r.md:7: 'c' is none of the agent's own phases."),
        ("tools: [{shel: {when: '1'}}]\n", "r.md:6: there is no tool 'shel'. Did you mean `shell`?"),
        ("tools: [{shell: {if: x}}]\n", "r.md:6: `tools.shell.if` is not a known key"),
        ("tools: [{shell: 3}]\n", "r.md:6: `tools.shell` must be lines of `key: value`, with: phases, when."),
        ("tools:\n  - shell\n  - shell: {when: '1'}\n", "r.md:8: `shell` appears in `tools` twice"),
        ("tools: [{shell: {when: '1', when: '2'}}]\n", "r.md:6: `when` appears twice, first in line 6"),
        ("agents:\n  - x: {shared: true}\n  - x\n", "r.md:8: `x` appears in `agents` twice"),
        ("state: {a: {type: list, type: text}}\n", "r.md:6: `type` appears twice, first in line 6"),
        ("agents: x\n", "r.md:6: `agents` must be a list of names"),
        ("agents: [{x: {shared: maybe}}]\n", "r.md:6: `agents.x.shared` must be true or false."),
        ("triggers: 3\n", "r.md:6: `triggers` must be true or false."),
        ("input: x\n", "r.md:6: `input` is a template for agents with `phases` or `state`."),
        ("state: {a: 0}\ninput: '{{ b }}'\n", "r.md:7: there is no variable 'b'."),
    ],
)
def test_an_error_is_reported_with_its_line(front: str, fault: str) -> None:
    definition, faults = read(front)
    assert definition is None
    assert len(faults) == 1, faults
    assert faults[0].startswith(fault)


def test_an_invalid_graph_is_refused_with_every_reason() -> None:
    _, faults = read("phases: [[a, b], [c, d]]\n")
    assert faults == [f"r.md:6: `phases`: The node {name} cannot be reached from a." for name in "cd"]
    _, faults = read("phases: [[a, b], [a, c]]\n")
    assert "ambiguous: same condition and priority; the first wins" in faults[0]
    assert read("phases: [[a, b], [a, c]]\ntriggers: true\n")[1] == [], "a model may choose what rules never would"


def test_all_errors_are_reported_at_once() -> None:
    _, faults = read("phases: [[a, b, nope]]\nstate: {x: {type: text}}\ntools: [{shell: {phases: [z]}}, nothing]\n")
    assert [fault.split(":")[1] for fault in faults] == ["6", "8", "8"]
    _, faults = read("phases: [[a, 1b]]\nstate: {x: {type: y}}\nfoo: 1\n", body="## In nowhere\n\nx\n")
    assert [fault.split(":")[1] for fault in faults] == ["7", "6", "8", "10", "10"]


def test_phases_of_the_conversation_are_referred_to_in_phases() -> None:
    _, (fault,) = read("phases: [verification, plan]\n")
    assert "`in_phases: [verification, plan]`" in fault


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("You.\n\n{{ nothing }}", "r.md:10: there is no variable 'nothing'. There are: conversation"),
        ("You.\n{% if %}", "r.md:9: the template cannot be rendered"),
        ("You.\n{{ plan.missing }}", "r.md:9: the template cannot be rendered"),
        ("You.\n\n## In plan\n\n{{ no }}", "r.md:12: there is no variable 'no'."),
    ],
)
def test_templates_are_rendered_when_the_file_is_read(body: str, fault: str) -> None:
    _, faults = read("state: {plan: ''}\n", body)
    assert len(faults) == 1, faults
    assert faults[0].startswith(fault)


def test_text_is_a_template_only_with_phases_or_state() -> None:
    for front in ("", "tools: [read_file]\n", "in_phases: [plan]\n", "tools: [{shell: {when: phase}}]\n"):
        definition, faults = read(front, "You {{ see }} {% this %}.")
        assert faults == []
        assert definition is not None
        assert definition.body == "You {{ see }} {% this %}."


def library(folder: Path, **agents: str) -> PromptLibrary:
    for slug, front in agents.items():
        body = f"In {{{{ phase }}}} of {{{{ conversation.phase }}}}, {slug}." if "phases" in front else "You work."
        (folder / f"{slug}.md").write_text(f"{HEAD}{front}---\n{body}\n\n## In plan\n\nPlan.\n")
    return PromptLibrary.load(builtin_prompts(), folder, tools=TOOLS)


def test_a_prompt_is_rendered_with_the_agents_phase(own: Path) -> None:
    known = library(own, scout="phases: [[a, b, plan]]\nstate: {plan: ''}\n", plain="")
    prompts = [
        known.system_prompt(
            Slug("scout"),
            Phase.PLAN,
            tools=(),
            project_name="p",
            position=AgentPhaseState(phase=phase, values={"plan": ""}),
        )
        for phase in ("a", "b")
    ]
    assert "In a of plan, scout." in prompts[0]
    assert "In b of plan, scout." in prompts[1]
    assert "You work." in known.system_prompt(Slug("plain"), Phase.PLAN, tools=(), project_name="p")


def test_a_template_that_fails_is_left_as_it_was_written(own: Path) -> None:
    (own / "scout.md").write_text(
        f"{HEAD}state: {{data: []}}\n---\nThe first: {{{{ data[0] }}}}!\n".replace(
            "{{ data[0] }}", "{% if data %}{{ data[0].title }}{% endif %}"
        )
    )
    known = PromptLibrary.load(builtin_prompts(), own, tools=TOOLS)
    prompt = known.system_prompt(
        Slug("scout"), Phase.PLAN, tools=(), project_name="p", position=AgentPhaseState(values={"data": [1]})
    )
    assert "{{ data[0].title }}" in prompt


def test_a_sub_agent_is_a_tool_described_by_its_role(own: Path) -> None:
    known = library(
        own,
        lead=(
            "phases: [[a, b, plan]]\nstate: {plan: ''}\n"
            "agents:\n  - planner: {phases: [a], when: not plan, shared: true}\n  - security-expert\n"
        ),
    )
    found = known.definitions[Slug("lead")].program
    assert found is not None
    assert set(found.links) == {"ask_planner", "ask_security_expert"}
    link = found.links["ask_planner"]
    assert (link.agent, link.is_shared) == ("planner", True)
    assert link.description.startswith("Asks Planner, who designs the technical approach")
    assert found.offers("ask_planner", found.begin(ask_now), None, ask_now)
    assert not found.offers("ask_planner", AgentPhaseState(phase="b", values={"plan": ""}), None, ask_now)
    assert found.offers("ask_security_expert", AgentPhaseState(phase="b", values={"plan": ""}), None, ask_now)


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
        library(own, lead=f"agents: [{named}]\n")
    (found,) = caught.value.faults
    assert fault in found


def test_an_orchestrator_has_no_phases_of_its_own() -> None:
    faults: list[str] = []
    text = f"{HEAD}phases: [[a, b]]\nstate: {{x: 0}}\n---\nYou route.\n".replace("worker", "orchestrator")
    assert read_agent(Slug("r"), text, "r.md", TOOLS, faults) is None
    assert [fault.split(":")[1] for fault in faults] == ["6", "7"]


def test_a_field_may_have_the_name_of_a_mapping_method() -> None:
    found = program(
        "phases:\n - [a, b, state.items|length > 1]\n - [b, a, state.get == 'x']\nstate: {items: [], get: ''}\n"
    )
    begins = found.begin(ask_now)
    assert found.evaluate(begins, None, ask_now).failed == ()
    assert found.evaluate(begins.changed({"items": [1, 2]}), None, ask_now).target == "b"


def test_a_template_sees_where_the_agent_has_been(own: Path) -> None:
    agent = "phases: [[a, b, n]]\nstate: {n: 0}\n---\n{{ state.phase }} after {{ state.history|length }} moves\n"
    found = library(own, r=agent)
    been = AgentPhaseState(phase="b", values={"n": 1}, history=(Moved(source="a", target="b", at=Millis(1)),))
    prompt = found.system_prompt(Slug("r"), Phase.CHAT, tools=(), project_name="demo", position=been)
    assert "b after 1 moves" in prompt


@pytest.mark.parametrize("begins", ["planing", "plannning", "plannign", "plamning", "Planning"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_phase_spelled_in_two_ways_is_an_error(begins: str, is_first: bool) -> None:
    first, last = (begins, "planning") if is_first else ("planning", begins)
    _, faults = read(f"state: {{a: ''}}\nphases: [[{first}, research, a], [research, {last}]]\n")
    (fault,) = faults
    assert fault.startswith(f"r.md:7: `phases`: nothing leads to {first} and nothing leads out of {last}. If they are")


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("step_1", "step_3"),
        ("part_a", "part_c"),
        ("draft", "draft2"),
        ("plan", "done"),
        ("a", "b"),
        ("read", "ready"),
        ("open", "oven"),
    ],
)
def test_phases_with_different_names_are_not_misspelled(first: str, last: str) -> None:
    assert read(f"state: {{a: ''}}\nphases: [[{first}, research, a], [research, {last}]]\n")[1] == []


def test_two_transitions_with_one_trigger_are_an_error() -> None:
    front = "state: {a: ''}\nphases: [[a, b_to_c, a], [b_to_c, a_to_b, a], [a_to_b, c, a]]\n"
    assert read(front)[1] == []
    (fault,) = read(f"{front}triggers: true\n")[1]
    assert "a -> b_to_c and a_to_b -> c would both be the trigger a_to_b_to_c. Rename a phase." in fault


def test_a_phase_that_is_left_or_entered_again_is_not_misspelled() -> None:
    for more in ("[research, planing]", "[planning, review]"):
        front = f"state: {{a: ''}}\nphases: [[planing, research, a], [research, planning, a], {more}]\n"
        assert read(front)[1] == []
