"""A conversation as messages and folded work: what belongs together, what its line says, and what a filter finds."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tenex.core.history.facts import facts_of
from tenex.core.ids import ConversationId
from tenex.core.records import MessageSent
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tenex.web.story import Entry, Story
from tenex.web.talk import Node, Work, bar_of, chosen, items_of, newest_work, summary_of
from tests.cli.journals import ONE, THREE, TWO, renamed
from tests.histories.record import ROOT
from tests.kits.lived import lived

from .kit import Served, append

HISTORIES = sorted(path.parent for path in ROOT.glob("*/journal.jsonl"))


def story_of(records: Any, name: Any = ONE) -> tuple[Story, list[Entry]]:
    story = Story(name)
    return story, [entry for record in records for entry in story.take(record)]


def recorded(name: str) -> list[Any]:
    return list(peek(ROOT / name / "journal.jsonl", CONVERSATION))


def shown_of(node: Node) -> list[Entry]:
    """All entries that a node shows, in the order of its tree."""
    own = [node.first, node.entry] if node.is_update else [node.entry]
    return [*own, *(entry for part in node.parts for entry in shown_of(part))]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
def test_each_entry_is_shown_once_and_messages_in_their_order(history: Path) -> None:
    records = peek(history / "journal.jsonl", CONVERSATION)
    _, entries = story_of(records, ConversationId(getattr(records[0], "id", history.name)))
    items = items_of(entries)
    shown: list[Entry] = []
    for item in items:
        shown += [entry for node in item.nodes for entry in shown_of(node)] if isinstance(item, Work) else [item]
    assert sorted(map(id, shown)) == sorted(map(id, entries))
    singles = [item for item in items if isinstance(item, Entry)]
    assert [entry.seq for entry in singles] == sorted(entry.seq for entry in singles)
    for before, after in itertools.pairwise(items):
        assert not (isinstance(before, Work) and isinstance(after, Work))


def test_every_dollar_is_in_the_line_of_some_work() -> None:
    records = lived(0).records()
    _, entries = story_of(records, lived(0).conversation.id)
    cost = sum(fact.usage.cost_usd or 0 for record in records for fact in facts_of(record))
    assert cost > 0.1
    assert sum(entry.paid for entry in entries) == pytest.approx(cost)


def test_calls_are_below_their_run_and_runs_below_their_turn() -> None:
    _, entries = story_of(recorded("checks"), THREE)
    works = [item for item in items_of(entries) if isinstance(item, Work)]
    turns = [node for work in works for node in work.nodes if node.entry.role == "turn"]
    assert {node.entry.role for turn in turns for node in turn.parts} == {"run"}
    runs = [run for turn in turns for run in turn.parts]
    assert {node.entry.role for run in runs for node in run.parts} >= {"model", "call"}
    (reflection,) = [turn for turn in turns if "turn-4" in turn.entry.label]
    assert reflection.has_lanes
    assert reflection.is_update
    assert not runs[0].has_lanes


def test_a_line_counts_calls_files_and_checks_here() -> None:
    _, entries = story_of(recorded("checks"), THREE)
    works = [item for item in items_of(entries) if isinstance(item, Work)]
    first, *_ = works
    assert (first.summary.who, first.summary.amounts[:2]) == ("Executor", ("1 call", "1 file"))
    checked = next(work for work in works if any(entry.role == "check" for entry in work.entries))
    assert "test: 11 passed, 1 failed" in checked.summary.amounts
    assert checked.is_open
    checks = [entry for entry in checked.entries if entry.role == "check"]
    assert [(entry.result, "before the work" in entry.facts) for entry in checks] == [
        ("failed", False),
        ("", True),
        ("", False),
    ]


def test_what_only_agents_are_shown_is_no_message() -> None:
    records = recorded("checks")
    _, entries = story_of(records, THREE)
    hidden = {record.seq for record in records if isinstance(record, MessageSent) and not record.is_published}
    assert hidden
    assert all(entry.is_work for entry in entries if entry.seq in hidden)


def test_the_newest_work_is_what_comes_after_the_last_message() -> None:
    _, entries = story_of(recorded("checks"), THREE)
    for end in range(1, len(entries) + 1):
        items = items_of(entries[:end])
        expected = items[-1] if isinstance(items[-1], Work) else Work()
        assert summary_of(newest_work(entries[:end])) == expected.summary


def test_filters_and_the_search_find_entries() -> None:
    _, entries = story_of(recorded("checks"), THREE)
    assert {entry.role for entry in chosen(entries, "messages", "")} == {"message", "mark"}
    assert all(entry.changed for entry in chosen(entries, "files", ""))
    assert {entry.role for entry in chosen(entries, "failures", "")} >= {"check", "line"}
    found = chosen(entries, "all", "RUFF is not")
    assert found
    assert all("ruff" in entry.text for entry in found)


def test_a_longer_duration_has_a_longer_bar() -> None:
    widths = [bar_of(took) for took in (None, 50, 200, 2_000, 20_000, 600_000, 10**9)]
    assert widths[:2] == [0.0, 0.0]
    assert widths[2:6] == sorted(set(widths[2:6]))
    assert widths[-1] == widths[-2]


async def test_a_search_goes_on_in_earlier_files_and_nothing_is_folded(pages: Served) -> None:
    page = await pages.get(f"/c/{TWO}?find=colour")
    assert page.seqs
    assert all("colour" in entry.text.lower() for entry in page.of_class("entry"))
    assert "data-stream" not in page.all("body")[0].attributes
    none = await pages.get(f"/c/{TWO}?find=unfindable&show=files")
    assert "There is no entry here" in none.all("main")[0].text
    odd = await pages.get(f"/c/{TWO}?show=nonsense")
    assert "data-stream" in odd.all("body")[0].attributes


async def test_arguments_and_results_are_on_demand_and_a_failure_is_at_once(pages: Served) -> None:
    await append(pages.data, THREE, *renamed(THREE, [tuple(recorded("checks"))]))
    page = await pages.get(f"/c/{THREE}")
    details = [e for e in page.all("details") if "/entry/" in e.attributes.get("data-src", "")]
    assert details
    seq = details[0].attributes["data-src"].rpartition("/")[2]
    part = await pages.get(f"/c/{THREE}/entry/{seq}?part=1")
    assert part.all("pre")
    whole = await pages.get(f"/c/{THREE}/entry/{seq}")
    assert whole.all("pre")[0].text == part.all("pre")[0].text
    await pages.get(f"/c/{THREE}/entry/1", 404)
    assert any("test_old" in element.text for element in page.of_class("tail"))
    assert any("open" in e.attributes for e in page.all("details") if "data-src" not in e.attributes)
