"""Which call made a line, and which took one away, by the real git."""

import pytest

from tenex.core.records import ToolCallStarted
from tenex.tools.line_origins import PathChange
from tests.programs import needs_git

from .conftest import put
from .undo_kit import CONVERSATION, Work
from .undo_kit import work as work  # a fixture

pytestmark = needs_git


def changes(work: Work, *paths: str) -> dict[str, PathChange]:
    cycle = 1
    found = work.checkpoints.origins(CONVERSATION, cycle, paths, patience=10)
    return {change.path: change for change in found}


def test_each_line_has_the_call_that_made_it_and_each_that_is_gone_the_one_that_took_it(work: Work) -> None:
    put(work.root, {"a.py": "one\ntwo\nthree\nfour\n"})
    work.turn()
    first = work.runs("sed -i 's/two/TWO/' a.py")
    second = work.runs("sed -i '/four/d' a.py; echo five >> a.py; echo 'in: one' > new.py")
    made = changes(work, "a.py", "new.py", "never.py")
    assert set(made) == {"a.py", "new.py"}
    assert made["a.py"].made == {2: start(work, first), 4: start(work, second)}
    assert made["a.py"].gone == {2: start(work, first), 4: start(work, second)}
    assert made["new.py"].made == {1: start(work, second)}
    assert "+in: one" in made["new.py"].patch


def test_what_was_undone_between_has_no_origin_and_a_deleted_file_has(work: Work) -> None:
    put(work.root, {"a.py": "one\n", "b.py": "x\ny\n"})
    work.turn()
    work.runs("echo two >> a.py")
    work.runs("sed -i '/two/d' a.py")
    third = work.runs("rm b.py")
    made = changes(work, "a.py", "b.py")
    assert set(made) == {"b.py"}
    assert made["b.py"].gone == {1: start(work, third), 2: start(work, third)}


def test_what_somebody_else_changed_is_no_call_s(work: Work) -> None:
    put(work.root, {"a.py": "one\n", "b.py": "x\n"})
    work.turn()
    first = work.runs("echo two >> a.py")
    work.person("echo mine >> a.py")
    work.runs("echo three >> a.py", person="echo theirs >> b.py", seen=["b.py"])
    made = changes(work, "a.py", "b.py")
    assert made["a.py"].made[2] == start(work, first)
    assert made["a.py"].made[3] == 0, "between two calls"
    assert made["b.py"].made == {2: 0}, "while a call ran"


@pytest.mark.parametrize("name", ["-rf", "grün.md", "new\nline", ":(glob)*", 'a"b', "two  words"])
def test_names_are_taken_as_they_are(work: Work, name: str) -> None:
    put(work.root, {name: "diff --git a/x b/x\n"})
    work.turn()
    seq = work.calls(**{name: "diff --git a/x b/x\nmore\n"})
    assert changes(work, name)[name].made == {2: start(work, seq)}


def test_without_a_checkpoint_nothing_is_known(work: Work) -> None:
    assert work.checkpoints.origins(CONVERSATION, 1, ["a.py"], patience=10) == []
    work.turn()
    work.runs("echo x > a.py")
    assert work.checkpoints.origins(CONVERSATION, 7, ["a.py"], patience=10) == []
    assert work.checkpoints.origins(CONVERSATION, 1, [], patience=10) == []


def start(work: Work, last: int) -> int:
    """The record that permitted a call which ended with a record."""
    assert isinstance(work.records[last - 2], ToolCallStarted)
    return last - 1
