"""`tenex conversations stats`: one conversation and all of them, from real files."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.cli import output
from tenex.cli.stats import _cost, _duration, gather
from tenex.core.ids import ConversationId
from tenex.core.messages import Usage
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL, MARK
from tenex.store.repository import ConversationFolder
from tenex.store.stats import Spending
from tests.store.kit import StillClock

from .conftest import Tenex
from .journals import ONE, THREE, TWO, damage, worked, write_conversations


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two conversations that cost something, with failures and a restart in them."""
    write_conversations(tmp_path / "data", {ONE: worked(ONE), TWO: worked(TWO, 1)})
    return tmp_path / "data"


def view(data: Path, name: str) -> Any:
    return json.loads((data / "conversations" / name / "conversation.json").read_text("utf-8"))


def without_unpriced(usage: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in usage.items() if key != "unpricedCalls"}


def test_one_conversation_agrees_with_its_file(data: Path, tenex: Tenex) -> None:
    out, err = tenex("conversations stats 1111 --json")
    stats, shown = json.loads(out), view(data, ONE)
    assert (err, stats["id"]) == ("", ONE)
    assert without_unpriced(stats["usage"]) == shown["usage"]
    assert stats["turns"] == len(shown["orchestratorTurns"])
    for phase, metrics in shown["phaseMetrics"].items():
        assert without_unpriced(stats["phases"][phase]["usage"]) == metrics["usage"]
    with (data / "conversations" / ONE / JOURNAL).open("ab") as journal:  # half a decision of a running daemon
        journal.write(b'{"v":1,"seq":99999,"remaining":1,"at":17')
    assert tenex("conversations stats 1111 --json").out == out


def test_all_of_them_are_added_up(data: Path, tenex: Tenex) -> None:
    out, err = tenex("conversations stats --json")
    stats, shown = json.loads(out), [view(data, name)["usage"] for name in (ONE, TWO)]
    assert (err, stats["leftOut"]) == ("", [])
    assert [one["id"] for one in stats["conversations"]] == [ONE, TWO]
    assert [without_unpriced(one["usage"]) for one in stats["conversations"]] == shown
    for key in ("calls", "inputTokens", "outputTokens", "costUsd"):
        assert stats["total"]["usage"][key] == sum(one[key] for one in shown), key
    assert (stats["total"]["conversations"], stats["total"]["restarts"]) == (2, 2)


def test_a_person_reads_sums_and_three_tables(data: Path, tenex: Tenex) -> None:
    out, err = tenex("conversations stats")
    assert err == ""
    assert out.startswith("2 conversations, ")
    assert [line.split()[0] for line in out.splitlines() if line[:1].isupper()] == ["PHASE", "MODEL", "AGENT"]
    assert "orchestrator" in out
    assert "routing answers refused" in out
    names = ("estimatedTokens", "cacheReadTokens", "cacheWriteTokens")
    estimated, read, stored = (sum(view(data, one)["usage"][name] for one in (ONE, TWO)) for name in names)
    assert estimated > 0
    assert stored > 0
    assert f"{estimated:,} tokens estimated" in out
    assert f"prompt cache: {read:,} of the tokens in read, {stored:,} written" in out
    assert tenex(f"conversations stats {TWO}").out.startswith(f"{TWO}\n1 conversation, ")


def test_what_cannot_be_read_is_named_and_left_out_of_the_sums(data: Path, tenex: Tenex) -> None:
    before = json.loads(tenex("conversations stats --json").out)["conversations"][0]
    damage(data, TWO)
    write_conversations(data, {THREE: worked(THREE, 3)})
    (data / "conversations" / THREE / MARK).write_text("journal.jsonl: it was odd.\n")
    out, err = tenex("conversations stats --json")
    stats = json.loads(out)
    assert [one["id"] for one in stats["leftOut"]] == [TWO, THREE]
    assert stats["leftOut"][1]["fault"] == "journal.jsonl: it was odd."
    assert stats["conversations"] == [before]
    assert stats["total"]["usage"] == before["usage"]
    assert f"skipped {TWO[:12]}" in err
    assert f"skipped {THREE[:12]}" in err
    assert tenex(f"conversations stats {TWO}", code=4).out == ""


def test_a_bar_is_shown_on_a_terminal_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(output, "PROGRESS_AFTER", 0.0)
    assert list(output.progress(["one", "two"])) == ["one", "two"]
    assert "Reading journals" in shown.getvalue()


async def test_a_conversation_that_goes_while_we_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, StillClock())

    async def lengths() -> dict[ConversationId, int]:
        return {THREE: 1}

    monkeypatch.setattr(folder, "lengths", lengths)
    found = await gather(folder)
    disk.close()
    assert f"no conversation {THREE}" in found.unreadable[THREE]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (_duration(59_940), "59.9 s"),
        (_duration(60_000), "1 min"),
        (_duration(47 * 3_600_000), "1 d 23 h"),
        (_cost(Spending()), "-"),
        (_cost(Spending(usage=Usage(cost_usd=0.0))), "$0.00"),
        (_cost(Spending(usage=Usage(cost_usd=0.01234))), "$0.0123"),
        (_cost(Spending(usage=Usage(cost_usd=1234.5))), "$1,234.50"),
        (_cost(Spending(usage=Usage(input_tokens=1), unpriced=1)), "price unknown"),
        (_cost(Spending(usage=Usage(cost_usd=2.0), unpriced=3)), "$2.00 + 3 unpriced"),
    ],
)
def test_durations_have_two_units_and_costs_name_the_calls_without_a_price(shown: str, expected: str) -> None:
    assert shown == expected
