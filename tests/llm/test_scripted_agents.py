"""The offline model as an agent with phases of its own: it goes through them, and then does what it is asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.decide.agent_phases import offered
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, ToolSpec, UserText
from tenex.core.state.agent import Program
from tenex.llm.scripted.worker import answer_work
from tenex.prompting.agents import read_agent
from tenex.tools.ask_complete import complete_spec
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import WAITS, Router, Scenario, route

EXAMPLE = Path(__file__).parents[2] / "config" / "agents" / "researcher.md"


def moves(of: Program) -> list[tuple[str, str]]:
    """The way of an executor with that program, whose model is the offline one."""

    def worker(conversation: Any, call: Any) -> ModelStep:
        run = conversation.runs[call.run]
        tools = offered(conversation, run, one.rules, lambda phase, agent: [complete_spec()])
        return answer_work(
            ModelRequest(purpose="work", agent=run.agent, phase=run.phase, system="", entries=call.entries, tools=tools)
        )

    one = Scenario(Router(route("execute", "executor"), WAITS), worker, config=with_program(of))
    one.user_writes("Find out why the sky is blue")
    one.settle()
    assert one.records(r.RunEnded)[0].outcome == "finished"
    return [(record.source, record.target) for record in one.records(r.AgentPhaseChanged)]


def test_the_shipped_researcher_goes_through_all_its_phases() -> None:
    found = read_agent(Slug("researcher"), EXAMPLE.read_text(), "researcher.md", None, [])
    assert found is not None
    assert found.program is not None
    assert moves(found.program) == [("planning", "research"), ("research", "analysis")]


def test_an_agent_with_phases_and_no_state_does_what_it_is_asked() -> None:
    ways = (("a", "b", lambda me: True), ("b", "c", lambda me: False))
    assert moves(program(ways, defaults={}, schema={}, scopes={}, is_settable=False)) == [("a", "b")]


def test_an_agent_s_own_tools_are_named_as_left_alone_with_what_to_set() -> None:
    """Else who asks an agent in Python without a key is answered as if it had no tools, and looks for what is wrong."""
    tools = [ToolSpec(name=name, description="", parameters={}) for name in ("read_file", "list_claims", "settle")]
    request = ModelRequest(
        purpose="work",
        agent=Slug("fact-checker"),
        phase="chat",
        system="",
        tools=tuple(tools),
        entries=(UserText(author="Ann", text="Is the moon made of cheese?"),),
        methods=frozenset({"list_claims", "settle"}),
    )
    answered = answer_work(request).text
    assert answered.endswith(
        "This agent has tools of its own that I cannot use: `list_claims`, `settle`. For anything that needs thought, "
        "set a model: `models.default` in tenex.toml."
    )
    assert answered.count("models.default") == 1
    assert "tools of its own" not in answer_work(replace(request, methods=frozenset())).text
