"""An agent's file becomes a definition, or a list of errors."""

import pytest

from tenex.core.config import AgentKind
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tenex.prompting.agents import AgentDefinition, read_agent

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
TOOLS = {"read_file", "write_file"}


def read(text: str) -> tuple[AgentDefinition | None, list[str]]:
    faults: list[str] = []
    return read_agent(Slug("reviewer"), text, "reviewer.md", TOOLS, faults), faults


def valid(text: str) -> AgentDefinition:
    agent, faults = read(text)
    assert faults == []
    assert agent is not None
    return agent


def test_every_field_is_read() -> None:
    agent = valid(FRONT + BODY)
    assert (agent.slug, agent.name, agent.role, agent.kind) == ("reviewer", "Reviewer", "reads code", AgentKind.EXPERT)
    assert (agent.use_when, agent.model) == ("a change is: risky", "openai:gpt-5")
    assert agent.phases == (Phase.VERIFICATION, Phase.PLAN)
    assert agent.tools == ("read_file", "complete")
    assert agent.in_phase == {Phase.VERIFICATION: "Look twice."}
    assert agent.output is None
    assert agent.body == "You review {{ phase }}.\n\n## Style\n\nBe kind.\n\n```md\n## In plan\n```"
    member = agent.agent(PublicKey("a" * 64))
    assert (member.slug, member.kind, member.model) == ("reviewer", AgentKind.EXPERT, "openai:gpt-5")
    assert member.tools == {"read_file", "complete"}
    assert agent.agent(PublicKey("a" * 64), "offline").model == "offline"


def test_text_that_yaml_reads_as_another_type_stays_text() -> None:
    agent = valid(FRONT.replace("name: Reviewer", "name: yes").replace("reads code", "2026-01-01") + BODY)
    assert (agent.name, agent.role) == ("yes", "2026-01-01")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("You review.\n", "reviewer.md:1: there is no front matter."),
        ("---\nname: x\n", "reviewer.md:1: there is no front matter."),
        ("", "reviewer.md:1: there is no front matter."),
        (FRONT.replace("name: Reviewer\n", "") + BODY, "reviewer.md:1: `name` is missing"),
        (FRONT.replace("Reviewer", "''") + BODY, "reviewer.md:2: `name` is empty."),
        (FRONT.replace("Reviewer", "[a]") + BODY, "reviewer.md:2: `name` must be text."),
        (FRONT.replace("tools:", "tool:") + BODY, "reviewer.md:7: `tool` is not a known key. Did you mean `tools`?"),
        (FRONT.replace("expert", "exprt") + BODY, "reviewer.md:4: `kind`: 'exprt' is not a kind of agent. Did"),
        (FRONT.replace("Plan", "planing") + BODY, "reviewer.md:6: `in_phases`: 'planing' is not a phase. Did"),
        (
            FRONT.replace("read_file", "raed_file") + BODY,
            "reviewer.md:7: there is no tool 'raed_file'. Did you mean `read_file`? There are: read_file, write_file.",
        ),
        (FRONT.replace("[read_file, complete]", "read_file") + BODY, "reviewer.md:7: `tools` must be a list"),
        (FRONT.replace("[read_file, complete]", "[[a]]") + BODY, "reviewer.md:7: `tools` must be a list"),
        (FRONT.replace('"a change is: risky"', "a change is: risky") + BODY, "reviewer.md:5: the front matter is not"),
        (FRONT.replace("role: reads code", "name: Again\nrole: x") + BODY, "reviewer.md:3: `name` appears twice"),
        ("---\n- a\n---\nbody\n", "reviewer.md:1: the front matter must be lines"),
        ("---\nname: [\n---\nbody\n", "reviewer.md:2: the front matter is not valid YAML"),
        ("---\n\x07\n---\nbody\n", "reviewer.md:1: the front matter is not valid YAML: a character"),
        (FRONT, "reviewer.md:10: the agent has no instructions."),
        (
            FRONT + BODY + "\n## In planing\n\nx\n",
            "reviewer.md:24: `## In planing` names no phase. Did you mean `plan`?",
        ),
        (FRONT + BODY + "\n## In Verification\n\nx\n", "reviewer.md:24: `## In Verification` appears twice"),
        (FRONT + BODY + "\n## In plan\n", "reviewer.md:24: `## In plan` is empty"),
        (
            FRONT.replace("expert", "orchestrator") + BODY,
            "reviewer.md:7: an orchestrator has no tools: it routes and never works.",
        ),
        (
            "---\nname: R\nrole: r\nkind: orchestrator\noutput: true\n---\nx\n",
            "reviewer.md:5: an orchestrator has no output",
        ),
        ("---\nname: R\nrole: r\nkind: worker\n---\nx\n", "reviewer.md:1: `use_when` is missing"),
    ],
)
def test_an_error_is_reported_with_its_line(text: str, fault: str) -> None:
    agent, faults = read(text)
    assert agent is None
    assert len(faults) == 1, faults
    assert faults[0].startswith(fault)


def test_only_an_orchestrator_needs_no_use_when_and_tools_are_checked_against_a_list() -> None:
    assert valid("---\nname: R\nrole: routes\nkind: Orchestrator\n---\nYou route.\n").kind is AgentKind.ORCHESTRATOR
    faults: list[str] = []
    assert read_agent(Slug("r"), FRONT.replace("read_file", "other") + BODY, "r.md", None, faults) is not None
    assert faults == []
    assert valid(FRONT.replace("---\n", "---\noutput: false\n", 1) + BODY).output is None


@pytest.mark.parametrize(
    ("value", "plan", "act", "least", "most"),
    [
        ("true", ("thinking", "scratchpad", "inner_monologue"), ("tool_call",), None, 3),
        ("{}", ("thinking", "scratchpad", "inner_monologue"), ("tool_call",), None, 3),
        ("{plan: [thinking], act: [tool_call, python], min: 0, max: 2}", ("thinking",), ("tool_call", "python"), 0, 2),
        ("{max: 0}", (), ("tool_call",), None, 0),
        ("{plan: []}", (), ("tool_call",), None, 0),
    ],
)
def test_an_agent_may_answer_by_states(
    value: str, plan: tuple[str, ...], act: tuple[str, ...], least: int | None, most: int
) -> None:
    definition = valid(FRONT.replace("---\n", f"---\noutput: {value}\n", 1) + BODY)
    assert definition.output is not None
    found = definition.output
    assert (found.plan, found.act, found.least, found.most) == (plan, act, least, most)
    tools = definition.agent(PublicKey("0" * 64)).tools
    assert ("python" in tools) == ("python" in act), "the state `python` brings the tool of that name"


def test_every_error_of_states_is_reported_with_its_line() -> None:
    output = "output:\n  plan: thinking\n  act: [[x]]\n  max: -1\n  mxa: 1\n  act: [python]"
    definition, faults = read(FRONT.replace("---\n", f"---\n{output}\n", 1) + BODY)
    assert definition is None
    assert [fault.split(": ")[0] for fault in faults] == [f"reviewer.md:{line}" for line in (7, 3, 4, 5, 6)]
