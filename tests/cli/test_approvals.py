"""`tenex approvals`: which rule decides, and what is said where no daemon runs."""

import json
import tomllib
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load

from .conftest import Tenex

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
        ("git status | sh", "ask: no rule: shell asks by default"),
    ],
)
def test_explain_names_the_rule_that_decides(tenex: Tenex, file: Path, command: str, said: str) -> None:
    assert tenex("approvals explain shell", json.dumps({"command": command})).out == f"{said}\n"


def test_explain_refuses_what_is_no_call(tenex: Tenex, file: Path) -> None:
    assert "There is no tool teleport" in tenex("approvals explain teleport", "{}", code=2).err
    assert "no JSON" in tenex("approvals explain shell", "git push", code=2).err
    assert "must be an object" in tenex("approvals explain shell", "[]", code=2).err


def test_what_needs_a_daemon_says_so(tenex: Tenex, file: Path) -> None:
    for line in ("list", "show 1", "yes 1", "no 1"):
        assert "No daemon runs" in tenex(f"approvals {line}", code=1).err


def test_config_shows_the_rules_as_toml_and_checks_their_examples(tenex: Tenex, file: Path) -> None:
    again = load(None, Path("/nowhere"), env={}, overrides=tomllib.loads(tenex("config show").out))
    assert again.approve == load(None, file.parent, env={}).approve
    assert tenex("config check").out.startswith("ok")
    file.write_text(file.read_text().replace('not = ["git status | sh"]', 'not = ["git status"]'), encoding="utf-8")
    assert "approve[0]: its example 'git status' matches" in tenex("config check", code=3).err
