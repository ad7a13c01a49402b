"""What is sent within a run keeps to the budget, its pairs and its beginning whole; what is remembered of a cycle."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.ids import CallId
from tenex.core.memory.window import (
    LEAST,
    PAST_CHARACTERS,
    PAST_CYCLES,
    RELIEF,
    PastCycle,
    cut_bytes,
    entry_weight,
    fitted,
    in_a_line,
    remembered,
    request_tokens,
    tokens,
    weight,
)
from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep, Note, ToolSpec, UserText
from tenex.core.phases import Phase

from .kit import message, turn

REQUEST = UserText(author="alice", text="build it " + "r" * 2_000)
PART = Note(title="Your part", text="build")
TOOLS = (ToolSpec(name="read_file", description="Reads.", parameters={"type": "object"}),)


def step(number: int, *calls: tuple[str, dict[str, Any]], text: str = "", vendor: Any = None) -> ModelStep:
    requests = tuple(
        CallRequest(id=CallId(f"c{number}.{place}"), tool=tool, arguments=arguments)
        for place, (tool, arguments) in enumerate(calls)
    )
    return ModelStep(text=text, calls=requests, vendor=vendor)


def result(number: int, place: int, content: str, tool: str = "read_file") -> CallResult:
    return CallResult(id=CallId(f"c{number}.{place}"), tool=tool, ok=True, content=content)


def reading(*sizes: int, letter: str = "x") -> list[Entry]:
    """A run that reads one file after another."""
    entries: list[Entry] = [REQUEST, PART]
    for number, size in enumerate(sizes):
        entries += [step(number, ("read_file", {"path": f"src/{number}.py"})), result(number, 0, letter * size)]
    return entries


def requests_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """What was there each time the model was asked."""
    asked = [place for place, entry in enumerate(entries) if isinstance(entry, ModelStep)]
    return [list(entries[:place]) for place in [*asked, len(entries)]]


def common(one: Sequence[Entry], other: Sequence[Entry]) -> int:
    """How many entries two requests begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def size(entries: Sequence[Entry]) -> int:
    return request_tokens("system", entries, TOOLS)


def fit(entries: Sequence[Entry], budget: int) -> tuple[Entry, ...]:
    return fitted("system", entries, TOOLS, budget)


def test_a_size_is_counted_in_bytes_and_rounded_up() -> None:
    assert [tokens(text) for text in ("", "a", "abcd", "abcde", "日本", "\ud800")] == [0, 1, 1, 2, 2, 1]
    assert weight({"a": ["bc", 12]}) > 5


def test_of_a_step_all_counts_that_is_sent_back() -> None:
    """The vendor's blob holds what the step does not state, so both are sent; the thinking goes with the blob."""
    plain = step(0, ("write_file", {"content": "x" * 1_000}))
    assert entry_weight(plain) > 1_000
    assert entry_weight(dataclasses.replace(plain, vendor=["y" * 9_000])) > 10_000
    assert entry_weight(dataclasses.replace(plain, vendor=["y"], thinking="z" * 5_000)) > 6_000
    assert entry_weight(dataclasses.replace(plain, thinking="z" * 5_000)) == entry_weight(plain)


def test_the_oldest_result_goes_first_for_a_line_that_names_it_and_the_newest_stays() -> None:
    entries = reading(20_000, 20_000, 20_000)
    shown = fit(entries, 13_000)
    assert isinstance(shown[3], CallResult)
    assert shown[3].content == (
        "[left out: 20000 characters of read_file src/0.py; call it again if you need them and that does no harm]"
    )
    assert (shown[0], shown[1], shown[-1]) == (REQUEST, PART, entries[-1])
    assert size(shown) <= 13_000


def test_a_full_budget_is_emptied_to_a_part_so_that_the_beginning_stays_for_many_steps() -> None:
    entries = reading(*[8_000] * 50)
    budget = 40_000
    sent = [fit(entries, budget) for entries in requests_of(entries)]
    assert all(size(entries) <= budget for entries in sent)
    changes = [n for n in range(1, len(sent)) if common(sent[n - 1], sent[n]) < len(sent[n - 1])]
    grown = 50 * 2_010
    assert 1 <= len(changes) <= grown / (budget * (1 - RELIEF)) + 1
    first = changes[0]
    assert size(sent[first]) <= budget * RELIEF + 2_100, "the newest result may be above that"


def test_old_results_are_not_enough_then_old_arguments_and_vendors_parts_go() -> None:
    entries: list[Entry] = [REQUEST, PART]
    for number in range(10):
        wrote = step(number, ("write_file", {"path": f"{number}.py", "content": "w" * 8_000}), vendor=["v" * 8_100])
        entries += [wrote, result(number, 0, "written", "write_file")]
    shown = fit(entries, 12_000)
    assert size(shown) <= 12_000
    old, new = shown[2], shown[-2]
    assert isinstance(old, ModelStep)
    assert old.vendor is None
    assert old.calls[0].arguments["path"] == "0.py"
    assert "characters left out" in old.calls[0].arguments["content"]
    assert new == entries[-2], "the newest step is as its model wrote it"


def test_the_arguments_of_the_newest_calls_are_cut_where_they_alone_are_too_much() -> None:
    """A file of many pages, written in one call: without this the next request would never fit a model's window."""
    written = step(1, ("write_file", {"path": "big.txt", "content": "w" * 300_000}), vendor=["signature"])
    entries = [*reading(900), written, result(1, 0, "written", "write_file")]
    shown = fit(entries, 20_000)
    assert size(shown) <= 20_000
    newest = shown[-2]
    assert isinstance(newest, ModelStep)
    assert newest.calls[0].arguments["path"] == "big.txt"
    assert "characters left out" in newest.calls[0].arguments["content"]
    assert newest.vendor == ["signature"], "some vendors reject the step they are to go on from without it"


def test_after_an_answer_without_calls_the_newest_results_are_those_before_it() -> None:
    entries = [*reading(30_000, 8_000), ModelStep(text=""), Note(title="Reminder", text="Say something.")]
    shown = fit(entries, 6_000)
    assert shown[5] == entries[5]
    assert isinstance(shown[3], CallResult)
    assert shown[3].content.startswith("[left out")


texts = st.builds(lambda letter, n: letter * n, st.sampled_from(["x", "é", "日", "a\n"]), st.integers(0, 30_000))
tools = st.sampled_from(["read_file", "write_file", "shell", "ask"])


class Drawn(list[Entry]):
    """A run with a short name: hypothesis writes every one down."""

    def __repr__(self) -> str:
        return f"a run of {[(type(entry).__name__, entry_weight(entry)) for entry in self]}"


@st.composite
def runs(draw: st.DrawFn) -> Drawn:
    entries: list[Entry] = [REQUEST, PART]
    for number in range(draw(st.integers(0, 8))):
        calls = [(draw(tools), {"path": "p", "content": draw(texts)}) for _ in range(draw(st.integers(0, 3)))]
        vendor = [{"content": draw(texts)}] if draw(st.booleans()) else None
        entries.append(step(number, *calls, text=draw(texts), vendor=vendor))
        entries += [result(number, place, draw(texts), tool) for place, (tool, _) in enumerate(calls)]
        if draw(st.booleans()):
            entries.append(UserText(author="alice", text=draw(texts)))
    return Drawn(entries)


@given(runs(), st.integers(50, 60_000))
def test_whatever_a_run_holds_the_rules_of_fitting_hold(entries: Drawn, budget: int) -> None:
    sent = [(asked, fit(asked, budget)) for asked in requests_of(entries)]
    for asked, shown in sent:
        assert len(shown) == len(asked)
        for was, now in zip(asked, shown, strict=True):
            assert type(was) is type(now)
            assert entry_weight(now) <= entry_weight(was)
            match was, now:
                case CallResult(), CallResult():
                    assert (was.id, was.tool, was.ok) == (now.id, now.tool, now.ok)
                    assert was == now or was.tool != "ask"
                case ModelStep(), ModelStep():
                    assert [(c.id, c.tool) for c in was.calls] == [(c.id, c.tool) for c in now.calls]
                case _:
                    assert was == now
        if size(asked) <= budget:
            assert shown == tuple(asked)
        newest = max((n for n, e in enumerate(asked) if isinstance(e, ModelStep) and e.calls), default=len(asked))
        for was, now in zip(asked[newest:], shown[newest:], strict=True):
            if isinstance(was, ModelStep) and isinstance(now, ModelStep):
                assert (was.text, was.vendor) == (now.text, now.vendor)
            elif not isinstance(was, CallResult):
                assert was == now
        if size(shown) > budget:  # then nothing is left that could be made smaller
            fixed = [e for n, e in enumerate(shown) if n >= newest or not isinstance(e, (CallResult, ModelStep))]
            assert all(weight(e.content) <= LEAST for e in fixed if isinstance(e, CallResult) and e.tool != "ask")
        assert fit(asked, budget) == shown, "the same every time"
    for (_, before), (asked, after) in pairwise(sent):
        if common(before, after) < len(before):
            assert size([*before, *asked[len(before) :]]) > budget, (
                "what was sent before is changed only where it is full"
            )


@given(st.text(max_size=400), st.integers(0, 600))
def test_a_text_cut_in_bytes_is_whole_or_keeps_to_them(text: str, limit: int) -> None:
    short = cut_bytes(text, limit)
    assert short == text if weight(text) <= limit else weight(short) <= max(limit, 64)


def test_of_a_cycle_the_request_and_the_last_word_on_each_phase_are_remembered() -> None:
    turns = [
        turn(4, Phase.EXECUTE, summary="executor: first try"),
        turn(5, Phase.VERIFICATION, summary="executor [issues]: broken"),
        turn(6, Phase.EXECUTE, summary="executor: wrote\n a.py"),
        turn(7, Phase.VERIFICATION, summary="executor [verified]: works"),
        turn(8, Phase.REFLECTION, summary="executor: I learned"),
    ]
    (past,) = remembered((), 1, [message(2, "Build it"), message(3, "in Python")], turns)
    done = ("execute: executor: wrote a.py", "verification: executor [verified]: works")
    assert past == PastCycle(cycle=1, since=2, request="Build it", done=done)


def test_a_cycle_in_which_no_one_worked_leaves_nothing() -> None:
    known = remembered((), 1, [message(1, "x")], [turn(2, Phase.CHAT, summary="pm: hello")])
    assert remembered(known, 2, [message(3, "y")], []) is known
    assert remembered((), 2, [message(3, "y")], [turn(4, Phase.REFLECTION, summary="pm: learned")]) == ()


def test_what_is_remembered_is_bounded() -> None:
    past: tuple[PastCycle, ...] = ()
    for cycle in range(1, 100):
        turns = [turn(n, phase, summary="s" * 100_000) for n, phase in enumerate(Phase)]
        past = remembered(past, cycle, [message(1, "\n" * 10_000 + "r" * 100_000)], turns)
    assert [reported.cycle for reported in past] == list(range(100 - PAST_CYCLES, 100))
    assert all(len(reported.request) <= PAST_CHARACTERS for reported in past)
    assert all(len(line) <= PAST_CHARACTERS + 20 for reported in past for line in reported.done)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a  b\nc", "a b c"), ("", ""), ("abcdefgh", "abcdefgh"), ("abcdefghi", "abcdef …"), (" " * 30 + "x", " …")],
)
def test_a_line_is_one_line_and_no_longer(text: str, line: str) -> None:
    assert in_a_line(text, 8) == line
