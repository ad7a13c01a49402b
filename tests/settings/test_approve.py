"""Rules on calls of tools: read from the settings, checked, and made the core's."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.approvals.rules import ApprovalRule, Example, Verdict, doubts_of
from tenex.core.config import ApprovalPolicy
from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey
from tenex.operations.configuration_check import examples_that_fail
from tenex.settings import Settings, load

OWNERS = frozenset({PublicKey("a" * 64)})


def given(*rules: Any, **approvals: Any) -> Settings:
    return load(None, Path("/nowhere"), env={}, overrides={"approve": list(rules), "approvals": approvals})


def test_a_rule_becomes_the_cores_with_its_examples() -> None:
    written = {
        "tool": "shell",
        "match": ["git", "push"],
        "decision": "ask",
        "phase": "execute",
        "agent": "executor",
        "examples": {"match": ["git push"], "not": [{"command": "git pull"}]},
    }
    settings = given(written, members_may_answer=True, expire_after=60)
    policy = settings.approvals.to_core(settings.approve, OWNERS)
    (rule,) = policy.rules
    assert rule == ApprovalRule(
        decision=Verdict.ASK,
        name="rule 1 of [[approve]] (ask shell git push)",
        tool="shell",
        match=("git", "push"),
        phase="execute",
        agent="executor",
        examples=(
            Example(arguments={"command": "git push"}, matches=True),
            Example(arguments={"command": "git pull"}, matches=False),
        ),
    )
    assert policy == ApprovalPolicy(rules=(rule,), owners=OWNERS, members_may_answer=True, expire_after=60_000)


def test_the_defaults_are_the_cores() -> None:
    assert Settings().approvals.to_core([], frozenset()) == ApprovalPolicy()


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"tool": "shell"}, "rule 1 of [[approve]], decision"),
        ({"decision": "maybe"}, "rule 1 of [[approve]], decision"),
        ({"decision": "ask", "phase": "deployment"}, "rule 1 of [[approve]], phase"),
        ({"decision": "ask", "command": "git"}, "rule 1 of [[approve]], command"),
        ({"decision": "allow", "host": "example.org"}, "must name the `tool`"),
        ({"decision": "allow", "match": ["git", "*", "log"]}, "must be the last of several"),
        ({"decision": "allow", "match": ["*"]}, "must be the last of several"),
        ({"decision": "allow", "options": ["-f"]}, "belong to a rule that allows the words of a `match`"),
        ({"decision": "refuse", "match": ["git"], "options": ["-f"]}, "belong to a rule that allows"),
        ({"decision": "allow", "match": ["git"], "options": ["f"]}, "begin with a hyphen"),
        ({"decision": "ask", "examples": {"nor": []}}, "rule 1 of [[approve]], examples"),
    ],
)
def test_a_wrong_rule_is_a_fault_with_its_place(rule: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        given(rule)
    assert fault in str(error.value)


def test_examples_that_a_rule_does_not_treat_so_are_faults() -> None:
    rule = {"decision": "allow", "tool": "shell", "match": ["git", "status"]}
    good = {**rule, "examples": {"match": ["git status -s"], "not": ["git status; rm x"]}}
    bad = {**rule, "examples": {"match": ["git pull"], "not": ["git status"]}}
    assert examples_that_fail(given(good)) == []
    first, second = examples_that_fail(given(good, bad))
    assert "rule 2 of [[approve]] (allow shell git status): its example 'git pull' does not match" in first
    assert "rule 2 of [[approve]] (allow shell git status): its example 'git status' matches" in second


@pytest.mark.parametrize(
    ("rule", "remark"),
    [
        ({"match": ["git", "status"]}, "it matches `git status` alone, or with options that change nothing, as -z"),
        ({"match": ["make", "test"]}, "it matches `make test` alone. If further words are meant, end `match` with `*`"),
        ({"match": ["printf", "-v", "x"]}, "it matches no command: `printf -v x` is not plain words of a program"),
        ({"match": ["source", "x"]}, "it matches no command"),
        ({"match": ["A=1", "git"]}, "it matches no command"),
        ({"match": ["env", "*"]}, "with `*` it lets `env` run any other program"),
        ({"match": ["git", "status", "*"]}, ""),
        ({"match": ["git", "push"], "options": ["--force"]}, ""),
        ({"match": ["make", "test"], "examples": {"not": ["make test x"]}}, ""),
        ({"match": ["python", "-m", "pytest"]}, ""),
        ({"tool": "shell"}, ""),
        ({"match": ["git", "status"], "decision": "refuse"}, ""),
    ],
)
def test_what_an_allow_rule_lets_through_is_explained(rule: dict[str, Any], remark: str) -> None:
    settings = given({"decision": "allow", **rule})
    (made,) = settings.approvals.to_core(settings.approve, OWNERS).rules
    found = doubts_of(made)
    assert (remark in found[0]) if remark else not found
