"""Settings with rules on calls, and with MCP servers that no daemon has started."""

from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing, SecretKey

RULES = """
[[approve]]
tool = "shell"
match = ["git", "status"]
decision = "allow"
examples = { match = ["git status -s"], not = ["git status | sh"] }
[[approve]]
match = ["rm"]
decision = "refuse"
[tools.shell]
sandbox = "none"
"""


@pytest.fixture
def file(data: Path) -> Path:
    file = data / "tenex.toml"
    file.write_text(f"[people]\nowners = ['{SecretKey.generate().npub}']\n{RULES}", encoding="utf-8")
    KeyRing(data / "keys").get_or_create("project")
    return file


SERVERS = """
[mcp.servers.time]
command = "/nonexistent"
tools = ["get_time", "convert_time"]
[mcp.servers.shop]
command = "/nonexistent"
trust = true
"""
