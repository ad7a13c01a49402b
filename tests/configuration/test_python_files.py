"""What a folder of agents in Python makes of the roster, and what is wrong with it, without a daemon."""

from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.configuration.agents import read_library
from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey, Slug
from tenex.tools.standard import TOOL_NAMES

LEAD = """
from tenex.workflows.agents import AgentLink, BaseAgent, Link, State

class Planner(BaseAgent):
    __system_message__ = "You plan."

class Lead(BaseAgent):
    __system_message__ = "You lead."
    {name}: Link[Planner] = AgentLink()
"""
CALLS_IT = """
from tenex.workflows.agents import AgentLink, BaseAgent, Link

class Other(BaseAgent):
    __system_message__ = "You lead too."
    planning: Link[PlannerAgent] = AgentLink()
"""


def write(folder: Path, name: str, link: str = "planning") -> None:
    """A file of an agent that calls another."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(LEAD.format(name=link))


@pytest.mark.parametrize("link", ["shell", "python", "read_file"])
def test_a_sub_agent_cannot_have_the_name_of_a_tool(tmp_path: Path, link: str) -> None:
    write(tmp_path, "lead.py", link)
    with pytest.raises(ConfigurationError) as caught:
        read_library(tmp_path, TOOL_NAMES, code_refusal="")
    fault = f"{tmp_path / 'lead.py'}: {link} is a tool of the daemon's. Call the link by another name."
    assert caught.value.faults == (fault,)


@pytest.mark.parametrize("slug", ["lead", "planner"])
def test_an_agent_in_python_is_not_copied_as_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slug: str
) -> None:
    write(tmp_path / "agents", "lead.py")
    assert main(["--data", str(tmp_path), "agents", "add", slug]) == 2
    assert f"{slug} is written in Python, in {tmp_path / 'agents' / 'lead.py'}" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "agents").glob("*.md")] == []


def test_a_sub_agent_s_class_is_called_and_not_routed_to_and_may_serve_several_files(tmp_path: Path) -> None:
    write(tmp_path, "lead.py")
    (tmp_path / "second.py").write_text("from tests.workflows.pages.project_agent import PlannerAgent\n" + CALLS_IT)
    (tmp_path / "third.py").write_text("from tests.workflows.pages.project_agent import PlannerAgent\n" + CALLS_IT)
    library = read_library(tmp_path, TOOL_NAMES, code_refusal="")
    assert library.definitions[Slug("planner-agent")].is_called_only
    assert library.definitions[Slug("planner")].agent(PublicKey("k")).is_called_only
    assert not library.definitions[Slug("lead")].agent(PublicKey("k")).is_called_only
