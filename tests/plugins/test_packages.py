"""Agents and workflows of packages that the operator allows."""

from pathlib import Path

import pytest

from tenex.configuration.agents import load_agents
from tenex.configuration.own_tools import find_own_tools
from tenex.configuration.workflows import load_workflows
from tenex.operations.doctor import configuration as doctor
from tenex.operations.doctor.findings import Level
from tenex.plugins import loading
from tenex.prompting import PromptLibrary
from tenex.settings import Settings, load, resolve_paths
from tests.operations.doctor_kit import case_of

from .conftest import package

AGENT = '''
from tenex import BaseAgent, Link, AgentLink, tool

class Scout(BaseAgent):
    """Looks around."""
    __system_message__ = "You scout."

    @tool("Look")
    def look(self) -> str:
        return "nothing"

class Executor(BaseAgent):
    """Takes the name of a built-in agent."""
    __system_message__ = "You execute."

class Chief(BaseAgent):
    """Calls one."""
    __system_message__ = "You lead."
    helper: Link[Executor] = AgentLink()

NUMBER = 5
'''


def settings_of(data: Path, *allowed: str) -> Settings:
    return load(None, data, env={}, overrides={"plugins": {"allow": list(allowed)}})


def library_of(settings: Settings) -> PromptLibrary:
    where = resolve_paths(settings)
    return load_agents(where, own=find_own_tools(settings, where))


def test_an_agent_of_a_package_is_one_once_it_is_allowed(tmp_path: Path, site: Path) -> None:
    package(site, "team", AGENT, {"scout": "Scout"}, "tenex.agents")
    assert "scout" not in library_of(settings_of(tmp_path)).definitions
    scout = library_of(settings_of(tmp_path, "team")).definitions["scout"]  # type: ignore[index]
    assert (scout.role, set(scout.methods)) == ("Looks around.", {"look"})


def test_one_that_is_faulty_or_takes_a_name_is_disabled_and_the_built_in_one_is_not(tmp_path: Path, site: Path) -> None:
    (tmp_path / "agents").mkdir()
    helper = "---\nname: H\nrole: helps\nkind: worker\nuse_when: always\ntools: []\n---\nYou help.\n"
    (tmp_path / "agents" / "mine.md").write_text(helper)
    entries = {
        "executor": "Executor",
        "chief": "Chief",
        "five": "NUMBER",
        "gone": "Missing",
        "Bad_Name": "Scout",
        "twice": "Scout",
        "mine": "Scout",
    }
    package(site, "team", AGENT, entries, "tenex.agents")
    package(site, "other", AGENT, {"twice": "Scout"}, "tenex.agents")
    library = library_of(settings_of(tmp_path, "team", "other"))
    assert {"executor", "planner"} <= set(library.definitions)
    assert not {"chief", "five", "gone", "twice", "mine"} & set(library.definitions)
    said = "\n".join(fault for one in library.disabled for fault in one.faults)
    for wanted in (
        "team: executor: there is a built-in agent of this name.",
        "team: chief: it calls executor, and there is a built-in agent of this name.",
        "team: five: team_module:NUMBER is no class of a BaseAgent.",
        "team: gone: team_module:Missing: team_module has no Missing.",
        "team: Bad_Name: 'Bad_Name' cannot be the name of an agent.",
        "team: twice: two packages have this agent.",
        "other: twice: two packages have this agent.",
        "there is mine.md too, which is the same agent. Keep one.",
    ):
        assert wanted in said


def test_one_that_takes_long_to_load_is_disabled(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SECONDS", 0.05)
    package(site, "slow", f"import threading\nthreading.Event().wait(30)\n{AGENT}", {"scout": "Scout"}, "tenex.agents")
    (one,) = library_of(settings_of(tmp_path, "slow")).disabled
    assert (one.slug, one.faults) == (
        "scout",
        ("slow: scout: it was not loaded within 0.05 s and was given up; load what is slow later.",),
    )


def test_a_workflow_of_a_package_is_one_once_it_is_allowed(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = (
        'from tenex import TransitionGraph\nduet = TransitionGraph.round_robin(("planner", "executor"), max_turns=2)\n'
    )
    package(site, "music", module, {"duet": "duet"}, "tenex.workflows")

    def found(*allowed: str) -> list[str]:
        settings = settings_of(tmp_path, *allowed)
        library = library_of(settings)
        read = load_workflows(settings, resolve_paths(settings), [one.slug for one in library.roster])
        assert read.disabled == ()
        return [str(one.slug) for one in read.found]

    assert (found(), found("music", "not-installed")) == ([], ["duet"])
    monkeypatch.setenv("TENEX_PLUGINS", "none")
    assert found("music") == []


def test_the_doctor_lists_a_package_that_brings_no_tool(tmp_path: Path, site: Path) -> None:
    package(site, "team", AGENT, {"scout": "Scout"}, "tenex.agents")
    package(site, "modes", "NUMBER = 5\n", {"mine": "NUMBER"}, "tenex.kinds")
    (tmp_path / "tenex.toml").write_text('[plugins]\nallow = ["team", "modes"]\n')
    findings = [*doctor.configuration(case_of(tmp_path))]
    listed = {finding.location: finding.message for finding in findings if finding.level is Level.OK}
    assert listed["modes 1.0"] == "its code has all rights of the daemon; it brings the kind of conversation mine"
    assert listed["team 1.0"].endswith("it brings the agent scout")
