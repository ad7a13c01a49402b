"""Servers are read in the forms that people have, and one with a fault is named and left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.mcp.config import Configured, read_servers
from tenex.mcp.names import tool_name, tool_names

ENVIRONMENT = {"TOKEN": "secret", "EMPTY": ""}


def read(**servers: Any) -> Configured:
    return read_servers(None, servers, ENVIRONMENT, "tenex.toml")


def test_the_json_of_other_programs_is_read_as_it_is(tmp_path: Path) -> None:
    """With their keys that mean nothing here, their spellings of HTTP, and servers that are switched off."""
    file = tmp_path / "mcp.json"
    servers = {
        "git": {
            "command": "uvx",
            "args": ["mcp-server-git", 7],
            "env": {"K": "${NONE:-x}", "N": 1},
            "autoApprove": ["a"],
        },
        "api": {"type": "streamableHttp", "url": "https://x.example/mcp", "headers": {"A": "Bearer ${TOKEN}"}},
        "off": {"command": "x", "disabled": True},
    }
    file.write_text(json.dumps({"mcpServers": servers, "other": 1}))
    api, git = read_servers(file, {}, ENVIRONMENT, "tenex.toml").servers
    assert (git.command, git.args, dict(git.env)) == ("uvx", ("mcp-server-git", "7"), {"K": "x", "N": "1"})
    assert git.sandbox
    assert not git.trust
    assert (api.url, dict(api.headers)) == ("https://x.example/mcp", {"A": "Bearer secret"})
    assert "secret" not in repr(api)


def test_a_server_of_the_settings_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"git": {"command": "old"}}}))
    (server,) = read_servers(file, {"git": {"command": "new"}}, {}, "tenex.toml").servers
    assert server.command == "new"


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"type": "sse", "url": "https://x.example/sse"}, 'type "sse" is not supported, MCP has dropped it'),
        ({"type": "carrier-pigeon", "url": "https://x.example"}, "the type 'carrier-pigeon' is not known"),
        ({}, "it needs either `command` or `url`"),
        ({"command": "x", "url": "https://x.example"}, "it needs either `command` or `url`"),
        ({"type": "http", "command": "x"}, 'type "http" needs `url`'),
        ({"type": "stdio", "url": "https://x.example"}, 'type "stdio" needs `command`'),
        ({"url": "ftp://x.example"}, "is no address such as"),
        ({"command": "x", "env": {"K": "${MISSING}"}}, "env.K: the variable MISSING is not set"),
        ({"command": "x", "args": "one"}, "args: "),
        ({"command": "x", "timeout": 0}, "timeout: "),
    ],
)
def test_a_fault_says_what_where_and_what_to_do(written: Any, sentence: str) -> None:
    configured = read(bad=written)
    assert configured.servers == ()
    assert configured.faults["bad"].startswith("tenex.toml: mcp.servers.bad")
    assert sentence in configured.faults["bad"]


def test_a_variable_that_is_empty_is_set_and_yet_takes_a_default() -> None:
    (server,) = read(x={"command": "x", "args": ["${EMPTY}", "${EMPTY:-d}", "$TOKEN", "${TOKEN:-d}"]}).servers
    assert server.args == ("", "d", "$TOKEN", "secret")


def test_a_file_that_cannot_be_used_is_one_fault_and_the_settings_still_count(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"servers": {}}', None):
        file = tmp_path / "mcp.json"
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content)
        configured = read_servers(file, {"git": {"command": "x"}}, {}, "tenex.toml")
        assert [server.name for server in configured.servers] == ["git"]
        assert list(configured.faults) == [str(file)]


def test_two_servers_whose_tools_would_be_called_alike_are_not_both_used() -> None:
    configured = read(**{"my git": {"command": "a"}, "my_git": {"command": "b"}})
    assert [server.name for server in configured.servers] == ["my git"]
    assert "Rename one of them" in configured.faults["my_git"]
    assert read(a__b={"command": "x"}).servers[0].prefix == "a_b"


def test_names_of_tools_are_what_every_vendor_takes() -> None:
    """Cut ones differ by a hash; those that would share a name have none."""
    assert tool_name("git", "git.status v2") == "git__git_status_v2"
    long = [tool_name("s" * 32, "t" * 100 + end) for end in ("a", "b")]
    assert len(set(long)) == 2
    assert {len(name) for name in long} == {64}
    clear, refused = tool_names("x", ["b", "a.c", "a_c", "a"])
    assert (list(clear.items()), refused) == ([("x__a", "a"), ("x__b", "b")], ["a.c", "a_c"])
