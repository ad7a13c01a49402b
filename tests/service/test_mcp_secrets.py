"""An MCP server prints the token that it was given: no one reads it, neither in reports, the log nor a journal."""

import asyncio
import json
import sys
from pathlib import Path

from tests.fakes import mcp_server
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls
from tests.fakes.modelserver import model_server

from . import person
from .kit import ROOT, tenex_here
from .loopback import folder_with_model, serving, settled

TOKEN = "one that looks like no known key 4711"
SETTINGS = """
[[approve]]
tool = "web__fail"
decision = "allow"
[[approve]]
tool = "web__die"
decision = "allow"
[mcp.servers.web]
command = "{python}"
args = ["-I", "-S", "{script}", "--leaks"]
env = {{ TOKEN = "${{WEB_TOKEN}}" }}
sandbox = false
trust = true
[mcp.servers.crash]
command = "{python}"
args = ["-I", "-S", "-c", "import os, sys; sys.exit('not valid: ' + os.environ['TOKEN'])"]
env = {{ TOKEN = "${{WEB_TOKEN}}" }}
sandbox = false
"""


def worker(asked: Asked) -> Reply:
    """Has the server fail and end, and then does its work."""
    if asked.phase != "execute":
        return brisk(asked)
    if "web__fail" not in asked.results:
        return calls(("web__fail", {}))
    if "web__die" not in asked.results:
        return calls(("web__die", {}))
    return brisk(asked)


async def test_a_token_that_a_server_prints_is_nowhere(tmp_path: Path, relay: str) -> None:
    settings = SETTINGS.format(python=sys.executable, script=mcp_server.__file__)
    async with model_server(Team(worker=worker)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, settings)
        executor = (ROOT / "prompts" / "agents" / "executor.md").read_text()
        (folder.data / "agents").mkdir(exist_ok=True)
        with_tools = executor.replace("  - shell\n", '  - shell\n  - "web__*"\n')
        (folder.data / "agents" / "executor.md").write_text(with_tools)
        env = {"WEB_TOKEN": TOKEN}
        async with serving(folder, server, **env) as process:
            name = await folder.write("Write note-00.txt.")
            await settled(folder, name)
            await person.until(lambda: "mcp.server_lost" in process.events())
            shown = []
            for words in (("status",), ("status", "--json"), ("doctor",), ("mcp", "list")):
                _, out, err = await tenex_here(*words, "--data", folder.data, **env)
                shown.append(out + err)
            assert "it ended: not valid: [redacted]" in shown[0]
        _, out, err = await tenex_here("mcp", "test", "--data", folder.data, **env)
        assert "not valid: [redacted]" in out
        shown += [out + err, process.stderr, json.dumps(await person.stored(relay))]
        kept = await asyncio.to_thread(
            lambda: [file.read_text() for file in folder.data.glob("conversations/*/*.json*")]
        )
        assert any("it broke: [redacted]" in text for text in kept), "the failed result is in the journal"
        assert [text for text in (*shown, *kept) if TOKEN in text] == []
        assert [exchange for exchange in server.exchanges if TOKEN in json.dumps(exchange.request)] == []
