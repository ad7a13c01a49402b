"""`tenex approvals`: which rule decides, and what is said where no daemon runs."""

import json
import tomllib
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load
from tests.kits.commands import Tenex

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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("git status", "allow: rule 1 of [[approve]] (allow shell git status)"),
        ("git status; rm -rf x", "refuse: rule 2 of [[approve]] (refuse * rm)"),
        ("git pull", "ask: no rule: shell asks by default"),
    ],
)
def test_explain_names_the_rule_that_decides(tenex: Tenex, file: Path, command: str, said: str) -> None:
    assert tenex("approvals explain shell", json.dumps({"command": command})).out == f"{said}\n"


def test_explain_refuses_what_is_no_call(tenex: Tenex, file: Path) -> None:
    assert "There is no tool teleport" in tenex("approvals explain teleport", "{}", code=2).err
    assert "no JSON" in tenex("approvals explain shell", "git push", code=2).err
    assert "must be an object" in tenex("approvals explain shell", "[]", code=2).err


def test_what_needs_a_daemon_says_so(tenex: Tenex, file: Path) -> None:
    for line in ("list", "show 1", "yes 1", "no 1", "no 1 not today, please"):
        assert "No daemon runs" in tenex(f"approvals {line}", code=1).err


def test_config_shows_the_rules_as_toml_and_checks_their_examples(tenex: Tenex, file: Path) -> None:
    again = load(None, Path("/nowhere"), env={}, overrides=tomllib.loads(tenex("config show").out))
    assert again.approve == load(None, file.parent, env={}).approve
    assert tenex("config check").out.startswith("ok")
    file.write_text(file.read_text().replace('not = ["git status | sh"]', 'not = ["git status"]'), encoding="utf-8")
    fault = tenex("config check", code=3).err
    assert "rule 1 of [[approve]] (allow shell git status): its example 'git status' matches" in fault


SERVERS = """
[mcp.servers.time]
command = "/nonexistent"
tools = ["get_time", "convert_time"]
[mcp.servers.shop]
command = "/nonexistent"
trust = true
"""


@pytest.mark.parametrize(
    ("tool", "said", "note"),
    [
        ("time__get_time", "ask: no rule: time__get_time asks by default", "Whether time has this tool is not known"),
        ("shop__list", "ask: no rule: shop__list asks by default", "asks unless it says that the tool only reads."),
        ("time__rm", "refuse: rule 3 of [[approve]] (refuse time__rm)", "Whether time has this tool is not known"),
    ],
)
def test_explain_says_what_would_be_done_with_a_tool_of_a_server_that_does_not_run(
    tenex: Tenex, file: Path, tool: str, said: str, note: str
) -> None:
    rule = '[[approve]]\ntool = "time__rm"\ndecision = "refuse"\n'
    file.write_text(file.read_text().replace("[tools.shell]", f"{rule}[tools.shell]") + SERVERS, encoding="utf-8")
    printed = tenex(f"approvals explain {tool}", "{}")
    assert printed.out == f"{said}\n"
    assert note in printed.err
    assert note in json.loads(tenex(f"approvals explain {tool} --json", "{}").out)["note"]


def test_explain_refuses_a_tool_of_no_server(tenex: Tenex, file: Path) -> None:
    assert "begin with tim__; none is configured" in tenex("approvals explain tim__get", "{}", code=2).err
    file.write_text(file.read_text() + SERVERS, encoding="utf-8")
    assert "begin with tim__; did you mean `time__`?" in tenex("approvals explain tim__get", "{}", code=2).err


@pytest.mark.parametrize(
    ("tool", "remark"),
    [
        ("shel", "there is no tool shel (did you mean shell?), so this rule does nothing"),
        ("time__get_tim", "there is no tool time__get_tim (did you mean time__get_time?)"),
        ("tme__*", "no MCP server is configured whose tools begin with tme__ (did you mean time?)"),
        ("qqqqqqqq", "there is no tool qqqqqqqq, so this rule does nothing"),
    ],
)
def test_a_rule_about_a_tool_that_there_is_not_is_named_with_the_nearest(
    tenex: Tenex, file: Path, tool: str, remark: str
) -> None:
    rule = f'[[approve]]\ntool = "{tool}"\ndecision = "ask"\n'
    file.write_text(file.read_text().replace("[tools.shell]", f"{rule}[tools.shell]") + SERVERS, encoding="utf-8")
    assert f"rule 3 of [[approve]] (ask {tool}): {remark}" in tenex("config check").err


@pytest.mark.parametrize(
    "tool", ["*", "sh*", "time__convert_*", "time__*", "*__get_time", "shop__anything", "hand_over"]
)
def test_a_rule_about_a_tool_that_there_is_or_may_be_is_not_named(tenex: Tenex, file: Path, tool: str) -> None:
    rule = f'[[approve]]\ntool = "{tool}"\ndecision = "ask"\n'
    file.write_text(file.read_text().replace("[tools.shell]", f"{rule}[tools.shell]") + SERVERS, encoding="utf-8")
    assert "of [[approve]]" not in tenex("config check").err
