"""`tenex conversations stats`: one conversation and all of them, from real files."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.shared import output
from tenex.cli.stats import _cost, _duration, as_text
from tenex.core.ids import ConversationId
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tenex.store.journal_reader import JOURNAL, MARK
from tenex.store.record_log import Head
from tenex.store.repository import ConversationFolder
from tenex.store.stats import PhaseStats, Spending, Stats
from tests.kits.commands import Tenex

from .journals import ONE, THREE, TWO, damage, worked, write_conversations

GONE = ConversationId("4" * 64)


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
    sums = {key: sum(one[key] for one in shown) for key in shown[0]}
    assert without_unpriced(stats["total"]["usage"]) == sums
    assert (stats["total"]["conversations"], stats["total"]["restarts"]) == (2, 2)
    out = tenex("conversations stats").out
    assert out.startswith("2 conversations, ")
    assert [line.split()[0] for line in out.splitlines() if line[:1].isupper()] == ["PHASE", "MODEL", "AGENT"]
    estimated, read, stored = (sums[name] for name in ("estimatedTokens", "cacheReadTokens", "cacheWriteTokens"))
    cache = f"prompt cache: {read:,} of the tokens in read, {stored:,} written"
    for words in ("orchestrator", "routing answers refused", f"{estimated:,} tokens estimated", cache):
        assert words in out
    assert min(estimated, stored) > 0
    assert tenex(f"conversations stats {TWO}").out.startswith(f"{TWO}\n1 conversation, ")


def test_phases_come_in_their_order_and_other_places_behind_them() -> None:
    names = [*reversed(Phase), "Zoe", "Ana"]
    shown = as_text(Stats(places={name: PhaseStats() for name in map(str, names)}))
    rows = shown[shown.index("PHASE") :].splitlines()[1 : len(names) + 1]
    assert [row.split()[0] for row in rows] == [*map(str, Phase), "Ana", "Zoe"]


def test_what_cannot_be_read_is_named_and_left_out_of_the_sums(
    data: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    for name in (TWO, THREE):
        assert f"skipped {name[:12]}" in err
    tenex(f"conversations stats {TWO}", code=4)

    async def heads(_: ConversationFolder) -> dict[ConversationId, Head]:
        return {GONE: Head(1, 1)}  # it went while the others were read

    monkeypatch.setattr(ConversationFolder, "heads", heads)
    assert f"no conversation {GONE}" in tenex("conversations stats").err


def test_a_bar_is_shown_on_a_terminal_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(output, "PROGRESS_AFTER", 0.0)
    assert list(output.progress(["one", "two"])) == ["one", "two"]
    assert "Reading journals" in shown.getvalue()


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
