"""Ids given by their beginning."""

import pytest

from tenex.core.errors import UsageError
from tenex.operations.short_ids import conversation_of, matching


@pytest.mark.parametrize(
    ("start", "found"), [("pla", "planner"), ("plan", "plan"), ("planner", "planner"), ("x", None), ("lan", None)]
)
def test_a_whole_name_or_the_beginning_of_one_names_it(start: str, found: str | None) -> None:
    known = ["planner", "plan", "executor"] if start != "pla" else ["planner", "executor"]
    assert matching(start, known, "agents") == found


def test_a_beginning_of_several_lists_them() -> None:
    with pytest.raises(UsageError, match=r"6 agents begin with a; give more of it: a0, a1, a2, a3, \.\.\.\."):
        matching("a", [f"a{n}" for n in range(6)], "agents")


def test_no_conversation_is_an_error_also_without_a_letter_and_capitals_are_read() -> None:
    for start in ("", " ", "ff", "../.."):
        with pytest.raises(UsageError, match="No conversation begins with"):
            conversation_of(start, ["0" * 64])
    assert conversation_of(" ABC", ["abc" + "0" * 61, "abd" + "0" * 61]) == "abc" + "0" * 61
