"""MCP servers of others from npm, in the sandbox: files, images and a form, in the protocol of 2025-11-25."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.configuration.mcp_launch import Launcher
from tenex.core import records as r
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.mcp.connection import ServerConnection
from tenex.mcp.results import File, read_result
from tests.kits.mcp_conversations import Scripted, make_repository, talking
from tests.mcp.conftest import config, running, text_of
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person

from .scripts import HERE

PACKAGES = HERE / "node_modules" / "@modelcontextprotocol"

pytestmark = [pytest.mark.interop, needs_bubblewrap]


@asynccontextmanager
async def started(data: Path, name: str, *words: object) -> AsyncIterator[ServerConnection]:
    """A server by its script, as its settings would name it: with node, and not with npx."""
    root = data / "workspace"
    root.mkdir(parents=True)
    script = PACKAGES / f"server-{name}" / "dist" / "index.js"
    server = config(name, command=shutil.which("node"), args=(str(script), *map(str, words)), sandbox=True)
    connection = ServerConnection(server, Launcher(root, data, has_sandbox=True), lambda: None, ready=30)
    async with running(connection):
        yield connection


@pytest.mark.usefixtures("javascript")
async def test_the_filesystem_server_works_in_the_workspace_and_nowhere_else(tmp_path: Path) -> None:
    data = tmp_path.resolve()
    root = data / "workspace"
    async with started(data, "filesystem", root) as connection:
        written = await connection.call("write_file", {"path": str(root / "a.txt"), "content": "from npm"})
        assert not written.is_error
        assert (root / "a.txt").read_text() == "from npm"
        assert "a.txt" in text_of(await connection.call("list_directory", {"path": str(root)}))
        outside = await connection.call("read_text_file", {"path": str(data / "key")})
        assert outside.is_error
        assert connection.protocol == "2025-11-25"
        assert len(connection.tools) >= 10


@pytest.mark.usefixtures("javascript")
async def test_the_everything_server_gives_an_image_and_embedded_files(tmp_path: Path) -> None:
    async with started(tmp_path.resolve(), "everything", "stdio") as connection:
        await connection.wait()
        name = next(tool.name for tool in connection.tools if "image" in tool.name.lower())
        parts = read_result(await connection.call(name, {})).parts
        image = next(part for part in parts if isinstance(part, File))
        assert (image.mime, image.suffix) == ("image/png", ".png")
        assert image.data.startswith(b"\x89PNG")


@pytest.mark.usefixtures("javascript")
async def test_the_form_of_the_everything_server_is_answered_by_the_person_while_its_call_waits(tmp_path: Path) -> None:
    """In the protocol of 2025-11-25, which has no other way to ask."""
    data = tmp_path.resolve() / "data"
    (data / "workspace").mkdir(parents=True)
    script = PACKAGES / "server-everything" / "dist" / "index.js"
    tool = "everything__trigger-elicitation-request"
    settings = (
        f'[mcp.servers.everything]\ncommand = "{shutil.which("node")}"\nargs = ["{script}", "stdio"]\n'
        f'[[approve]]\ntool = "{tool}"\ndecision = "allow"\n'
    )
    async with talking(data, tool, settings, Scripted((tool, {}), (tool, {}))) as talk:
        ended = asyncio.create_task(talk.say("Ask me.", "execute"))
        await person.until(lambda: talk.seen.of(r.QuestionAsked))
        (asked,) = talk.seen.of(r.QuestionAsked)
        assert asked.question.startswith("The MCP server everything asks: Please provide inputs")
        assert "- name (text): Your full, legal name" in asked.question
        await talk.write("name: Ada\ncheck: yes\ninteger: 7\ntitledSingleSelectEnum: hero-2")
        answer = await ended
        assert talk.app.mcp.connections[0].counters.calls == 1
    assert "User provided the requested information" in answer
    assert "- Name: Ada\n- Agreed to terms: true\n- Favorite Integer: 7" in answer


@pytest.mark.usefixtures("javascript")
async def test_npx_without_a_network_says_at_once_that_it_has_none(tmp_path: Path) -> None:
    root = tmp_path / "data" / "workspace"
    root.mkdir(parents=True)
    words = ("-y", "@modelcontextprotocol/server-memory")
    server = config("memory", command=shutil.which("npx"), args=words, sandbox=True)
    connection = ServerConnection(server, Launcher(root, root.parent, has_sandbox=True), lambda: None)
    async with asyncio.timeout(15), running(connection):
        await connection.is_settled.wait()
    assert "has no network to install it from: set network = true, or install the server" in connection.why


class TwoAgents(Scripted):
    """Agents of which each has calls of its own."""

    def __init__(self, **calls: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__()
        self.by_agent = calls

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once, by the agent who asks."""
        self.calls = tuple(self.by_agent.get(str(request.agent), ()))
        return await super().step(request, on_text)


@needs_git
@pytest.mark.usefixtures("javascript")
async def test_two_agents_use_three_servers_of_others_within_a_task(tmp_path: Path) -> None:
    """Of npm filesystem and everything, of PyPI git: one agent writes a file and reads the log, one reads the file."""
    data = tmp_path.resolve() / "data"
    root = data / "workspace"
    root.mkdir(parents=True)
    make_repository(root)
    node = shutil.which("node")
    files, everything = (PACKAGES / f"server-{name}" / "dist" / "index.js" for name in ("filesystem", "everything"))
    git = Path(sys.executable).with_name("mcp-server-git")
    settings = (
        f'[mcp.servers.files]\ncommand = "{node}"\nargs = ["{files}", "{root}"]\ntrust = true\n'
        f'[mcp.servers.all]\ncommand = "{node}"\nargs = ["{everything}", "stdio"]\ntrust = true\n'
        f'[mcp.servers.git]\ncommand = "{git}"\nargs = ["--repository", "{root}"]\ntrust = true\n'
        '[tools]\nadd = ["files__*", "all__*", "git__*"]\n'
        '[[approve]]\ntool = "files__write_file"\ndecision = "allow"\n'
        '[[approve]]\ntool = "git__git_add"\ndecision = "allow"\n'
    )
    note = str(root / "note.txt")
    model = TwoAgents(
        historian=[
            ("git__git_log", {"repo_path": str(root)}),
            ("files__write_file", {"path": note, "content": "written by one"}),
            ("git__git_add", {"repo_path": str(root), "files": ["note.txt"]}),
        ],
        executor=[("files__read_text_file", {"path": note}), ("all__echo", {"message": "heard"})],
    )
    async with talking(data, "git__*", settings, model) as talk:
        await person.until(lambda: all(server["state"] == "ready" for server in talk.app.mcp.status()), within=60)
        assert [server.get("leftOut") for server in talk.app.mcp.status()] == [None] * 3
        await talk.say("Note it.", "execute")
        model.routes.append({"phase": "execute", "agents": ["executor"], "reason": "it reads it"})
        await talk.write("Now read it.")
        await person.until(lambda: len(talk.seen.of(r.RunEnded)) > 1)
    results = {record.tool: record.content for record in talk.seen.of(r.ToolCallCompleted)}
    assert "The first" in results["git__git_log"]
    assert (root / "note.txt").read_text() == "written by one"
    assert "Read-only file system" in results["git__git_add"]
    assert "Git repositories are read-only to MCP servers" in results["git__git_add"]
    assert "written by one" in results["files__read_text_file"]
    assert "heard" in results["all__echo"]
