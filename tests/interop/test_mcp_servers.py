"""MCP servers of others from npm, in the sandbox: files and images, in the protocol of 2025-11-25."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenex.configuration.mcp_launch import Launcher
from tenex.mcp.connection import ServerConnection
from tenex.mcp.results import File, read_result
from tests.mcp.conftest import config, running, text_of
from tests.programs import needs_bubblewrap

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
