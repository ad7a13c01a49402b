"""`tenex approvals`: which rule decides, and what is said where no daemon runs."""

import json
from pathlib import Path

import pytest

from tests.kits.approve_rules import SERVERS
from tests.kits.approve_rules import file as file
from tests.kits.commands import Tenex


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
