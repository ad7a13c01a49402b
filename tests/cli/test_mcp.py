"""`tenex mcp` lists servers, starts them and shows their tools; a fault is a sentence and an exit code."""

import json
import sys
from pathlib import Path

import pytest

from tests.fakes import mcp_server
from tests.kits.commands import Tenex

SERVER = f"""
[mcp.servers.faulty]
command = "{sys.executable}"
args = ["-I", "-S", "{mcp_server.__file__}"]
sandbox = false
trust = true
"""
BROKEN = '\n[mcp.servers.old]\ntype = "sse"\nurl = "https://x.example/sse"\n'


@pytest.fixture
def folder(tenex: Tenex, tmp_path: Path) -> Path:
    tenex(f"init --dir {tmp_path}/data --model offline")
    return tmp_path / "data"


def _add(folder: Path, text: str) -> None:
    with (folder / "tenex.toml").open("a") as file:
        file.write(text)


def test_servers_are_listed_without_starting_any(tenex: Tenex, folder: Path) -> None:
    assert "There are no MCP servers" in tenex("mcp list").err
    _add(folder, SERVER + BROKEN)
    lines = tenex("mcp list").out.splitlines()
    assert lines[0] == (
        f"faulty  program {sys.executable}, WITHOUT A SANDBOX, trusted; agents have its tools by faulty__*"
    )
    assert lines[1].startswith("old  cannot be used: ")
    listed = json.loads(tenex("mcp list --json").out)
    assert [(server["name"], "fault" in server) for server in listed] == [("faulty", False), ("old", True)]


def test_a_server_is_started_and_answers_or_the_exit_code_says_that_it_does_not(tenex: Tenex, folder: Path) -> None:
    _add(folder, SERVER)
    shown = tenex("mcp test").out
    assert shown.startswith("faulty  ready in ")
    assert shown.endswith(" s, 10 tools, MCP 2025-11-25\n")
    _add(folder, BROKEN)
    assert "old  FAILED: " in tenex("mcp test", code=1).out
    tried = json.loads(tenex("mcp test faulty --json").out)
    assert (tried[0]["state"], tried[0]["tools"]) == ("ready", 10)
    assert "There is no MCP server 'nothing'; " in tenex("mcp test nothing", code=2).err


def test_a_tool_that_is_left_out_is_named_with_the_reason(tenex: Tenex, folder: Path) -> None:
    listed = folder / "listed.json"
    listed.write_text('[{"name": "odd", "inputSchema": {"type": "string"}}]')
    _add(folder, SERVER.replace('.py"]', f'.py", "--listed", "{listed}"]'))
    left = "odd is left out: its schema is of the type string, and arguments are an object"
    assert f"10 tools, MCP 2025-11-25\n  {left}" in tenex("mcp test").out
    assert json.loads(tenex("mcp test --json").out)[0]["leftOut"][0]["tool"] == "odd"
    assert f"faulty: {left}" in tenex("mcp tools").err


def test_tools_are_shown_as_agents_have_them(tenex: Tenex, folder: Path) -> None:
    _add(folder, SERVER)
    shown = json.loads(tenex("mcp tools --json").out)
    echo = next(tool for tool in shown if tool["name"] == "faulty__echo")
    assert (echo["access"], echo["replay"], echo["asks"]) == ("read", "read", False)
    assert "faulty__die" in tenex("mcp tools faulty").out


def test_the_configuration_is_checked_with_what_agents_name(tenex: Tenex, folder: Path) -> None:
    """Neither keeps the daemon from starting, so both are remarks."""
    _add(folder, BROKEN)
    agent = '---\nname: A\nrole: reads\nkind: worker\nuse_when: asked\ntools: ["git__*"]\n---\nYou read.\n'
    (folder / "agents" / "reader.md").write_text(agent)
    shown = tenex("config check")
    assert 'type "sse" is not supported' in shown.err + shown.out
    assert "git__* names no MCP server that is configured; there are: old__*" in shown.err + shown.out


def test_a_program_that_does_not_exist_is_named_by_the_list_and_by_the_check(tenex: Tenex, folder: Path) -> None:
    _add(folder, SERVER + '\n[mcp.servers.gone]\ncommand = "no-such-program-here"\nsandbox = false\n')
    missing = "gone.command: there is no program no-such-program-here. Install it"
    lines = tenex("mcp list").out.splitlines()
    assert "CANNOT" not in lines[0]
    assert "CANNOT BE STARTED: " in lines[1]
    assert missing in lines[1]
    listed = {server["name"]: server.get("fault", "") for server in json.loads(tenex("mcp list --json").out)}
    assert listed["faulty"] == ""
    assert missing in listed["gone"]
    assert missing in tenex("config check").err


def test_tools_of_servers_are_added_by_the_settings_and_a_name_that_fits_none_is_said(
    tenex: Tenex, folder: Path
) -> None:
    _add(folder, f'{SERVER}\n[tools.agents.executor]\nadd = ["faulty__*", "faulty__echo"]\n')
    assert "faulty" not in tenex("config check").err
    file = folder / "tenex.toml"
    file.write_text(file.read_text().replace('"faulty__*"', '"gone__*", "faulty__e*"'))
    said = tenex("config check", code=3).err
    assert said.count("gone__*") == 1
    assert "tools.agents.executor.add: gone__* names no MCP server that is configured; there are: faulty__*" in said
    assert "add: faulty__e* fits no tool; name each one, or all of the server by faulty__*" in said


def test_a_file_in_the_workspace_is_not_read(tenex: Tenex, folder: Path) -> None:
    (folder / "workspace" / "mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": "x"}}}))
    _add(folder, '\n[mcp]\nservers_file = "workspace/mcp.json"\n')
    assert "is in the workspace, where agents write" in tenex("mcp list").out


def test_what_servers_are_given_is_not_shown_with_the_settings(tenex: Tenex, folder: Path) -> None:
    secret = 'url = "https://x.example/mcp?key=s3cret"\nheaders = { A = "s3cret", B = "Bearer ${TOKEN}" }\n'
    _add(folder, f"\n[mcp.servers.x]\n{secret}")
    shown = tenex("config show").out
    assert "s3cret" not in shown + tenex("config show --json").out + tenex("mcp list --json").out
    assert 'B = "Bearer ${TOKEN}"' in shown
