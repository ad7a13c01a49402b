"""`tenex config` shows rules on calls, tries their examples, and names those about tools that are not there."""

import tomllib
from pathlib import Path

import pytest

from tenex.settings import load
from tests.kits.approve_rules import SERVERS
from tests.kits.approve_rules import file as file
from tests.kits.commands import Tenex


def test_config_shows_the_rules_as_toml_and_checks_their_examples(tenex: Tenex, file: Path) -> None:
    again = load(None, Path("/nowhere"), env={}, overrides=tomllib.loads(tenex("config show").out))
    assert again.approve == load(None, file.parent, env={}).approve
    assert tenex("config check").out.startswith("ok")
    file.write_text(file.read_text().replace('not = ["git status | sh"]', 'not = ["git status"]'), encoding="utf-8")
    fault = tenex("config check", code=3).err
    assert "rule 1 of [[approve]] (allow shell git status): its example 'git status' matches" in fault


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
