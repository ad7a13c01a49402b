"""A server made with the first SDK, in an environment of its own: the protocol of 2025-11-25, without annotations."""

import subprocess
import sys
from pathlib import Path

import pytest

from tenex.configuration.mcp_launch import Launcher
from tenex.mcp.connection import ServerConnection
from tests.mcp.conftest import config, running, text_of
from tests.programs import needs_bubblewrap

INSTALLING = 300
"""Seconds pip may take."""


def installed(folder: Path) -> Path:
    """The server's program; skips the test where it cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = [folder / "bin" / "python", "-m", "pip", "install", "-q", "mcp-server-sqlite==2025.4.25", "mcp<2"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=INSTALLING, check=False)
    if done.returncode != 0:
        pytest.skip(f"mcp-server-sqlite cannot be installed: {done.stderr.strip()[-200:]}")
    return folder / "bin" / "mcp-server-sqlite"


@pytest.mark.soak
@needs_bubblewrap
async def test_the_sqlite_server_keeps_a_database_in_the_workspace(tmp_path: Path) -> None:
    data = tmp_path.resolve()
    root = data / "workspace"
    root.mkdir()
    program = installed(data / "environment")
    server = config(command=str(program), args=("--db-path", str(root / "notes.db")), sandbox=True)
    connection = ServerConnection(server, Launcher(root, data, has_sandbox=True), lambda: None, ready=60)
    async with running(connection):
        await connection.call("create_table", {"query": "CREATE TABLE notes (text TEXT)"})
        await connection.call("write_query", {"query": "INSERT INTO notes VALUES ('kept')"})
        assert "kept" in text_of(await connection.call("read_query", {"query": "SELECT text FROM notes"}))
        assert not any(tool.reads_only for tool in connection.tools)
    assert (root / "notes.db").is_file()
