"""What a person is asked about: no two different calls of a program look the same."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

from tenex.core.approvals.decide import digest_of
from tenex.features.acp_agents.session_events import CallSeen, Option, PermissionAsked
from tenex.features.acp_agents.tools import PERMISSION, asked_arguments

CALLS: list[Mapping[str, Any]] = [
    {"command": ["rm", "a b"]},
    {"command": ["rm", "a", "b"]},
    {"command": ["rm", "'a", "b'"]},
    {"command": ["rm a b"]},
    {"command": "ls", "kind": "read"},
    {"command": "ls", "kind": "write"},
    {"command": "ls", "unusual": True},
    {"command": "ls", "why": "because"},
    {"command": "ls"},
]


def asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    call = CallSeen(id="1", kind="execute", title="Run", arguments=arguments)
    return asked_arguments(PermissionAsked(id=1, call=call, options=(Option(id="y", name="Yes", kind="allow_once"),)))


@pytest.mark.parametrize(("one", "other"), list(combinations(CALLS, 2)), ids=str)
def test_calls_that_differ_are_asked_about_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    assert digest_of(PERMISSION, asked(one)) != digest_of(PERMISSION, asked(other))


@pytest.mark.parametrize("arguments", CALLS, ids=str)
def test_the_kind_is_that_of_the_call_and_a_word_of_the_program_makes_nothing_unusual(
    arguments: Mapping[str, Any],
) -> None:
    shown = asked(arguments)
    assert shown["kind"] == "execute"
    assert "unusual" not in shown
