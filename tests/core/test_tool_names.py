"""Tools of MCP servers by their names: an agent has all of a server, single ones, or none; phases of its own hold."""

import dataclasses

import pytest

from tenex.core.agent_phases.program import AgentPhaseState, Program, Scope
from tenex.core.config import Agent, Replay, ToolRule
from tenex.core.people.permissions import may_use
from tenex.core.phases import Access, Phase
from tenex.core.work.tool_names import all_of_server, server_of
from tests.fakes.scenario import agent


@pytest.mark.parametrize(
    ("tool", "server", "every"), [("git__log", "git", "git__*"), ("a_b__c__d", "a_b", "a_b__*"), ("shell", "", "")]
)
def test_the_server_is_what_comes_first(tool: str, server: str, every: str) -> None:
    assert (server_of(tool), all_of_server(tool)) == (server, every)


@pytest.mark.parametrize(
    ("named", "has"),
    [
        ({"git__*"}, {"git__log", "git__diff", "find_tools"}),
        ({"git__log"}, {"git__log", "find_tools"}),
        ({"read_file"}, set()),
        ({"gi__*", "*", "__*"}, {"find_tools"}),
    ],
)
def test_an_agent_has_what_it_names(named: set[str], has: set[str]) -> None:
    worker = agent("worker", tools=named)
    assert {tool for tool in ("git__log", "git__diff", "api__log", "find_tools") if worker.has_tool(tool)} == has


def _may(worker: Agent, access: Access, phase: Phase) -> bool:
    return may_use(ToolRule(name="git__log", access=access, replay=Replay.ONCE), phase, worker)


def test_a_phase_permits_a_tool_of_a_server_as_any_other() -> None:
    worker = agent("worker", tools={"git__*"})
    assert [phase for phase in Phase if _may(worker, Access.RUN, phase)] == ["execute", "verification", "chores"]
    assert not _may(worker, Access.READ, Phase.CHAT)
    assert not _may(dataclasses.replace(worker, tools=frozenset()), Access.READ, Phase.PLAN)


def test_what_an_agent_s_own_phase_offers_of_a_server_holds_for_each_of_its_tools() -> None:
    """One that is named by itself has its own phases."""
    program = Program(
        graph=None,
        defaults={},
        schema={},
        look=lambda *_: {},
        scopes={"git__*": Scope(phases=frozenset({"research"})), "git__log": Scope(phases=frozenset({"writing"}))},
    )
    here = AgentPhaseState(phase="writing", values={})

    def offered(tool: str) -> bool:
        return program.offers(tool, here, None, lambda *_: pytest.fail("no function is asked"))

    assert [offered(tool) for tool in ("git__diff", "git__log", "shell")] == [False, True, True]
