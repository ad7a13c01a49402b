"""What a folder of agents in Python makes of the roster, and what is wrong with it, without a daemon."""

from pathlib import Path

import pytest

from tenex.app.staff import read_library
from tenex.cli.main import main
from tenex.core.errors import ConfigurationError
from tenex.tools.standard import TOOL_NAMES

LEAD = """
from tenex.workflow.agents import AgentLink, BaseAgent, Link, State

class Planner(BaseAgent):
    __system_message__ = "You plan."

class Lead(BaseAgent):
    __system_message__ = "You lead."
    {name}: Link[Planner] = AgentLink()
"""


def write(folder: Path, name: str, link: str = "planning") -> None:
    """A file of an agent that calls another."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(LEAD.format(name=link))


@pytest.mark.parametrize("link", ["shell", "python", "read_file"])
def test_a_colleague_cannot_be_called_by_the_name_of_a_tool(tmp_path: Path, link: str) -> None:
    write(tmp_path, "lead.py", link)
    with pytest.raises(ConfigurationError) as caught:
        read_library(tmp_path, TOOL_NAMES)
    assert caught.value.faults == (f"{tmp_path / 'lead.py'}: {link} is a tool of the daemon's. Call the link by "
                                   "another name.",)  # fmt: skip


@pytest.mark.parametrize("slug", ["lead", "planner"])
def test_an_agent_in_python_is_not_copied_as_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slug: str
) -> None:
    write(tmp_path / "agents", "lead.py")
    assert main(["--data", str(tmp_path), "agents", "add", slug]) == 2
    assert f"{slug} is written in Python, in {tmp_path / 'agents' / 'lead.py'}" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "agents").glob("*.md")] == []
