"""The key `acp` of an agent's file: what it takes, and where such an agent cannot be used."""

from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.configuration.agents import load_agents
from tenex.configuration.own_tools import find_own_tools
from tenex.core.ids import Slug
from tenex.feature import tools_of
from tenex.main import FEATURES
from tenex.prompting import PromptLibrary
from tenex.settings import load, resolve_paths

HEAD = "name: Claude\nrole: works\nkind: worker\nuse_when: there is work\n"


def library(place: Path, front: str, *, is_without: bool = False) -> PromptLibrary:
    """The agents of a folder that has one more file, of a program with all features or without that one."""
    data = place / "data"
    prepare(data, None, ["ws://127.0.0.1:1"])
    (data / "agents").mkdir(exist_ok=True)
    (data / "agents" / "claude.md").write_text(f"---\n{HEAD}{front}---\nYou work.\n")
    features = [feature for feature in FEATURES if not (is_without and feature.name == "acp_agents")]
    settings = load(None, data, env={}, features=tools_of(features))
    places = resolve_paths(settings)
    return load_agents(places, {}, find_own_tools(settings, places))


def test_a_program_has_the_two_tools_beside_its_own_and_its_settings(tmp_path: Path) -> None:
    front = (
        "tools: [read_file]\nacp:\n  command: [claude-agent-acp, --fast]\n  mode: default\n  env: {A: '{anthropic}'}\n"
    )
    agent = library(tmp_path, front).definitions[Slug("claude")]
    assert agent.acp is not None
    assert (agent.acp.command, agent.acp.mode) == (("claude-agent-acp", "--fast"), "default")
    assert agent.acp.env == {"A": "{anthropic}"}
    assert agent.tools == ("read_file", "acp_call", "acp_permission")


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        ("acp: {mode: default}\n", "`acp.command` is missing"),
        ("acp: {command: []}\n", "`acp.command`"),
        ("acp: {command: [a], hots: [b]}\n", "Did you mean `hosts`?"),
        ("acp: {command: [a]}\noutput: true\n", "an agent with `acp` has no output"),
        ("acp: {command: [a]}\nagents: [executor]\n", "an agent with `acp` has no agents"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, front: str, fault: str) -> None:
    (said,) = library(tmp_path, front).faults[Slug("claude")]
    assert fault in said
    assert "claude.md:" in said


def test_without_the_feature_it_is_disabled_with_the_reason(tmp_path: Path) -> None:
    found = library(tmp_path, "acp: {command: [a]}\n", is_without=True)
    (said,) = found.faults[Slug("claude")]
    assert "without the feature `acp_agents`" in said
