"""An agent's file becomes a definition and a program, or a list of errors."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.agent_phases.program import AgentPhaseState, Moved, Program
from tenex.core.config import AgentKind
from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.prompting.agents import AgentDefinition, read_agent
from tenex.tools.standard import TOOL_NAMES
from tenex.workflows.agents.definition import ask_now

from .conftest import WORKER, library_with

FRONT = """---
name: Reviewer
role: reads code
kind: expert
use_when: "a change is: risky"
in_phases: [verification, Plan]
tools: [read_file, complete]
model: openai:gpt-5
---
"""
BODY = """You review {{ phase }}.

## In verification

Look twice.

## Style

Be kind.

```md
## In plan
```
"""
ALL = FRONT + BODY


def read(text: str) -> tuple[AgentDefinition | None, list[str]]:
    faults: list[str] = []
    return read_agent(Slug("r"), text, "r.md", TOOL_NAMES, faults), faults


def valid(text: str) -> AgentDefinition:
    agent, faults = read(text)
    assert faults == []
    assert agent is not None
    return agent


def test_every_field_is_read() -> None:
    agent = valid(ALL)
    assert (agent.slug, agent.name, agent.role, agent.kind) == ("r", "Reviewer", "reads code", AgentKind.EXPERT)
    assert (agent.use_when, agent.model) == ("a change is: risky", "openai:gpt-5")
    assert agent.phases == (Phase.VERIFICATION, Phase.PLAN)
    assert agent.tools == ("read_file", "complete")
    assert agent.in_phase == {Phase.VERIFICATION: "Look twice."}
    assert agent.output is None
    assert agent.body == "You review {{ phase }}.\n\n## Style\n\nBe kind.\n\n```md\n## In plan\n```"
    member = agent.agent(PublicKey("a" * 64))
    assert (member.slug, member.kind, member.model) == ("r", AgentKind.EXPERT, "openai:gpt-5")
    assert member.tools == {"read_file", "complete"}
    assert agent.agent(PublicKey("a" * 64), "offline").model == "offline"


def test_what_may_be_left_out_or_looks_like_another_type_is_read() -> None:
    agent = valid(ALL.replace("name: Reviewer", "name: yes").replace("reads code", "2026-01-01"))
    assert (agent.name, agent.role) == ("yes", "2026-01-01")
    router = valid("---\nname: R\nrole: routes\nkind: Orchestrator\n---\nYou route.\n")
    assert router.kind is AgentKind.ORCHESTRATOR, "which needs no `use_when`"
    assert read_agent(Slug("r"), ALL.replace("read_file", "other"), "r.md", None, []) is not None, "no list of tools"


OWN_GRAPH = (
    "6: `phases` must be a list of `[source, destination, condition]`. This is the agent's own graph; the "
    "conversation's phases it works in are `in_phases: [verification, plan]`."
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("You review.\n", "1: there is no front matter."),
        (ALL.replace("name: Reviewer\n", ""), "1: `name` is missing"),
        (ALL.replace("Reviewer", "''"), "2: `name` is empty."),
        (ALL.replace("Reviewer", "[a]"), "2: `name` must be text."),
        (ALL.replace("tools:", "tool:"), "7: `tool` is not a known key. Did you mean `tools`?"),
        (ALL.replace("expert", "exprt"), "4: `kind`: 'exprt' is not a kind of agent. Did"),
        (ALL.replace("Plan", "planing"), "6: `in_phases`: 'planing' is not a phase. Did"),
        (ALL.replace("read_file", "raed_file"), "7: there is no tool 'raed_file'. Did you mean `read_file`?"),
        (ALL.replace("[read_file, complete]", "read_file"), "7: `tools` must be a list"),
        (ALL.replace('"a change is: risky"', "a change is: risky"), "5: the front matter is not"),
        (ALL.replace("role: reads code", "name: Again\nrole: x"), "3: `name` appears twice"),
        ("---\n- a\n---\nbody\n", "1: the front matter must be lines"),
        ("---\nname: [\n---\nbody\n", "2: the front matter is not valid YAML"),
        ("---\n\x07\n---\nbody\n", "1: the front matter is not valid YAML: a character"),
        (FRONT, "10: the agent has no instructions."),
        (ALL + "\n## In planing\n\nx\n", "24: `## In planing` names no phase. Did you mean `plan`?"),
        (ALL + "\n## In Verification\n\nx\n", "24: `## In Verification` appears twice"),
        (ALL + "\n## In plan\n", "24: `## In plan` is empty"),
        (ALL.replace("expert", "orchestrator"), "7: an orchestrator has no tools: it routes and never works."),
        ("---\nname: R\nrole: r\nkind: orchestrator\noutput: true\n---\nx\n", "5: an orchestrator has no output"),
        ("---\nname: R\nrole: r\nkind: worker\n---\nx\n", "1: `use_when` is missing"),
        # its own phases, state, tools and sub-agents
        (WORKER.format("phases: x\n"), "6: `phases` must be a list of `[source, destination, condition]`."),
        (WORKER.format("phases: [verification, plan]\n"), OWN_GRAPH),
        (WORKER.format("phases: [[a]]\n"), "6: `phases`: each of them must be `[source, destination, condition]`."),
        (WORKER.format("phases: [[a, 'b c']]\n"), "6: `phases`: 'b c' is not a phase's name"),
        (WORKER.format("phases: [[a, b, 'x +']]\n"), "6: the condition 'x +' is not an expression"),
        (WORKER.format("phases: [[a, b, x]]\n"), "6: the condition 'x' names 'x'. There are: conversation, phase, st"),
        (WORKER.format("phases: [[a, END]]\n"), "6: `phases`: END is reserved and cannot be a node."),
        (WORKER.format("state: x\n"), "6: `state` must be lines of `key: value`."),
        (WORKER.format("state: {1a: 0}\n"), "6: `state.1a`: this cannot be a field's name"),
        (WORKER.format("state: {phase: 0}\n"), "6: `state.phase`: this cannot be a field's name: it is reserved."),
        (WORKER.format("state:\n  a: 0\n  a: 1\n"), "8: `a` appears twice, first in line 7"),
        (WORKER.format("state: {a: }\n"), "6: `state.a` has neither a type nor a default"),
        (WORKER.format("state: {a: {type: txt}}\n"), "6: `state.a.type`: 'txt' is not a type. Did you mean `text`?"),
        (WORKER.format("state: {a: {typ: text, default: 1}}\n"), "6: `state.a.typ` is not a known key. Did you mean"),
        (WORKER.format("state: {a: {type: list, default: 1}}\n"), "6: `state.a`: the default is not of type list."),
        (WORKER.format("state: {a: 2026-01-01}\n"), "6: `state.a`: the default is not a JSON value"),
        (WORKER.format("state: {a: .nan}\n"), "6: `state.a`: the default is not a JSON value"),
        (WORKER.format("state: {a: !x 1}\n"), "6: `state.a`: the default is not a JSON value"),
        (WORKER.format("phases: [[a, b]]\ntools: [{shell: {phases: [c]}}]\n"), "7: 'c' is none of the agent's own ph"),
        (WORKER.format("tools: [{shel: {when: '1'}}]\n"), "6: there is no tool 'shel'. Did you mean `shell`?"),
        (WORKER.format("tools: [{shell: {if: x}}]\n"), "6: `tools.shell.if` is not a known key"),
        (WORKER.format("tools: [{shell: 3}]\n"), "6: `tools.shell` must be lines of `key: value`, with: phases, when."),
        (WORKER.format("tools:\n  - shell\n  - shell: {when: '1'}\n"), "8: `shell` appears in `tools` twice"),
        (WORKER.format("tools: [{shell: {when: '1', when: '2'}}]\n"), "6: `when` appears twice, first in line 6"),
        (WORKER.format("agents:\n  - x: {shared: true}\n  - x\n"), "8: `x` appears in `agents` twice"),
        (WORKER.format("agents: [{x: {shared: maybe}}]\n"), "6: `agents.x.shared` must be true or false."),
        (WORKER.format("input: x\n"), "6: `input` is a template for agents with `phases` or `state`."),
        (WORKER.format("state: {a: 0}\ninput: '{{ b }}'\n"), "7: there is no variable 'b'."),
        # a text that is a template is rendered when the file is read
        (WORKER.format("state: {a: 0}\n") + "\n{{ b }}\n", "10: there is no variable 'b'. There are: a, conversation"),
        (WORKER.format("state: {a: 0}\n") + "{% if %}\n", "9: the template cannot be rendered"),
        (WORKER.format("state: {a: ''}\n") + "{{ a.b }}\n", "9: the template cannot be rendered"),
        (WORKER.format("state: {a: ''}\n") + "\n## In plan\n\n{{ b }}", "12: there is no variable 'b'."),
    ],
)
def test_an_error_is_reported_with_its_line(text: str, fault: str) -> None:
    agent, faults = read(text)
    assert agent is None
    assert len(faults) == 1, faults
    assert faults[0].startswith(f"r.md:{fault}")


NOWHERE = "\n## In nowhere\n\nx\n"


@pytest.mark.parametrize(
    ("kind", "front", "more", "expected"),
    [
        ("worker", "phases: [[a, b, no]]\nstate: {x: 0}\ntools: [{shell: {phases: [z]}}, nothing]\n", "", [6, 8, 8]),
        ("worker", "phases: [[a, 1b]]\nstate: {x: {type: y}}\nfoo: 1\n", NOWHERE, [7, 6, 8, 12]),
        (
            "worker",
            "output:\n  plan: a\n  act: [[x]]\n  max: -1\n  mxa: 1\n  act: [b]\n",
            NOWHERE,
            [11, 7, 8, 9, 10, 15],
        ),
        ("orchestrator", "phases: [[a, b]]\nstate: {x: 0}\n", "", [6, 7]),
    ],
)
def test_all_errors_are_reported_at_once(kind: str, front: str, more: str, expected: list[int]) -> None:
    found = read(WORKER.format(front).replace("worker", kind) + more)[1]
    assert [int(fault.split(":")[1]) for fault in found] == expected


def test_text_is_a_template_only_with_phases_or_state() -> None:
    for front in ("", "tools: [read_file]\n", "in_phases: [plan]\n", "tools: [{shell: {when: phase}}]\n"):
        text = WORKER.format(front).replace("You work.", "You {{ see }} {% this %}.")
        assert valid(text).body == "You {{ see }} {% this %}."


THREE = ("thinking", "scratchpad", "inner_monologue")


@pytest.mark.parametrize(
    ("value", "plan", "act", "least", "most"),
    [
        ("true", THREE, ("tool_call",), None, 3),
        ("{}", THREE, ("tool_call",), None, 3),
        ("{plan: [thinking], act: [tool_call, python], min: 0, max: 2}", ("thinking",), ("tool_call", "python"), 0, 2),
        ("{max: 0}", (), ("tool_call",), None, 0),
        ("{plan: []}", (), ("tool_call",), None, 0),
    ],
)
def test_an_agent_may_answer_by_states(
    value: str, plan: tuple[str, ...], act: tuple[str, ...], least: int | None, most: int
) -> None:
    definition = valid(WORKER.format(f"output: {value}\n"))
    found = definition.output
    assert found is not None
    assert (found.plan, found.act, found.least, found.most) == (plan, act, least, most)
    tools = definition.agent(PublicKey("0" * 64)).tools
    assert ("python" in tools) == ("python" in act), "the state `python` brings the tool of that name"
    assert valid(WORKER.format("output: false\n")).output is None


def program(text: str) -> Program:
    found = valid(WORKER.format(text)).program
    assert found is not None
    return found


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
        ("phases: [[read_program, research], [research, ready]]\n", []),
        ("phases: [[research, review], [review, plan]]\n", []),
    ],
)
def test_an_invalid_graph_is_refused_with_every_reason(front: str, faults: list[str]) -> None:
    found = read(WORKER.format(front))[1]
    assert len(found) == len(faults), found
    assert all(part in fault for fault, part in zip(found, faults, strict=True))


# ---- in prompts ----------------------------------------------------------------------------------------------------


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
    known = library_with(own, "lead", "phases: [[a, b, n]]\nstate: {n: 0}\n", body)
    prompt = known.system_prompt(Slug("lead"), Phase.PLAN, tools=(), project_name="p", position=state)
    assert shown in prompt


def test_a_sub_agent_is_a_tool_described_by_its_role(own: Path) -> None:
    front = (
        "phases: [[a, b, plan]]\nstate: {plan: ''}\n"
        "agents:\n  - planner: {phases: [a], when: not plan, shared: true}\n  - executor\n"
    )
    found = library_with(own, "lead", front).definitions[Slug("lead")].program
    assert found is not None
    assert set(found.links) == {"ask_planner", "ask_executor"}
    link = found.links["ask_planner"]
    assert (link.agent, link.is_shared) == ("planner", True)
    assert link.description.startswith("Asks Planner, who designs the technical approach")
    later = AgentPhaseState(phase="b", values={"plan": ""})
    assert found.offers("ask_planner", found.begin(ask_now), None, ask_now)
    assert not found.offers("ask_planner", later, None, ask_now)
    assert found.offers("ask_executor", later, None, ask_now)


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ("plannr", "lead.md:6: there is no agent 'plannr'. Did you mean `planner`?"),
        ("lead", "lead.md:6: an agent cannot be its own sub-agent."),
        ("orchestrator", "lead.md:6: orchestrator is an orchestrator"),
    ],
)
def test_a_sub_agent_must_be_another_known_worker(own: Path, named: str, fault: str) -> None:
    library = library_with(own, "lead", f"agents: [{named}]\n")
    (found,) = library.faults[Slug("lead")]
    assert fault in found
    assert "lead" not in library.definitions
