"""`tenex conversations stats`: one conversation and all of them, from real files, by the real program."""

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.output import PROGRESS_AFTER
from tenex.cli.stats import _cost, _duration, gather
from tenex.core.ids import ConversationId
from tenex.core.messages import Usage
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL, MARK
from tenex.store.repository import ConversationFolder
from tenex.store.stats import Spending
from tests.store.kit import StillClock
from tests.store.test_stats import lived

from .conftest import Done, command, environment
from .journals import ONE, THREE, TWO, renamed, write_conversations

Tenex = Callable[..., Done]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two conversations that cost something, with failures and a restart in them."""
    write_conversations(tmp_path, {name: renamed(name, lived(seed).journal) for seed, name in enumerate((ONE, TWO))})
    return tmp_path


def view(data: Path, name: str) -> Any:
    return json.loads((data / "conversations" / name / "conversation.json").read_text("utf-8"))


def without_unpriced(usage: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in usage.items() if key != "unpricedCalls"}


def test_one_conversation_agrees_with_its_file(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "stats", "1111", "--json", "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    stats, shown = json.loads(done.stdout), view(data, ONE)
    assert stats["id"] == ONE
    assert without_unpriced(stats["usage"]) == shown["usage"]
    assert stats["turns"] == len(shown["orchestratorTurns"])
    for phase, metrics in shown["phaseMetrics"].items():
        assert without_unpriced(stats["phases"][phase]["usage"]) == metrics["usage"]


def test_all_of_them_are_added_up(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "stats", "--json", "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    stats, shown = json.loads(done.stdout), [view(data, name) for name in (ONE, TWO)]
    assert stats["leftOut"] == []
    assert [one["id"] for one in stats["conversations"]] == [ONE, TWO]
    assert [without_unpriced(one["usage"]) for one in stats["conversations"]] == [one["usage"] for one in shown]
    for key in ("calls", "inputTokens", "outputTokens", "costUsd"):
        assert stats["total"]["usage"][key] == sum(one["usage"][key] for one in shown), key
    assert stats["total"]["conversations"] == 2
    assert stats["total"]["restarts"] == 2


def test_a_person_reads_sums_and_three_tables(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "stats", "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 conversations, ")
    heads = [line.split()[0] for line in done.stdout.splitlines() if line[:1].isupper()]
    assert heads == ["PHASE", "MODEL", "AGENT"]
    assert "orchestrator" in done.stdout
    assert "routing answers refused" in done.stdout
    shown = [view(data, name)["usage"] for name in (ONE, TWO)]
    estimated = sum(one["estimatedTokens"] for one in shown)
    assert estimated > 0
    assert f"{estimated:,} tokens estimated" in done.stdout
    read, stored = (sum(one[key] for one in shown) for key in ("cacheReadTokens", "cacheWriteTokens"))
    assert stored > 0
    assert f"prompt cache: {read:,} of the tokens in read, {stored:,} written" in done.stdout
    single = tenex("conversations", "stats", TWO, "--data", data).stdout
    assert single.startswith(f"{TWO}\n1 conversation, ")


def test_what_cannot_be_read_is_named_and_left_out_of_the_sums(data: Path, tenex: Tenex) -> None:
    before = json.loads(tenex("conversations", "stats", "--json", "--data", data).stdout)["conversations"][0]
    journal = data / "conversations" / TWO / JOURNAL
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(damaged)
    write_conversations(data, {THREE: renamed(THREE, lived(3).journal)})
    (data / "conversations" / THREE / MARK).write_text("journal.jsonl: it was odd.\n")
    done = tenex("conversations", "stats", "--json", "--data", data)
    stats = json.loads(done.stdout)
    assert done.returncode == 0
    assert [one["id"] for one in stats["leftOut"]] == [TWO, THREE]
    assert stats["leftOut"][1]["fault"] == "journal.jsonl: it was odd."
    assert stats["conversations"] == [before]
    assert stats["total"]["usage"] == before["usage"]
    assert f"skipped {TWO[:12]}" in done.stderr
    assert f"skipped {THREE[:12]}" in done.stderr
    alone = tenex("conversations", "stats", TWO, "--data", data)
    assert (alone.returncode, alone.stdout) == (4, "")
    assert "Traceback" not in alone.stderr


def test_a_decision_that_is_being_written_is_not_counted_yet(data: Path, tenex: Tenex) -> None:
    """Beside a running daemon the end of a journal may be half a decision: it has not been made."""
    before = tenex("conversations", "stats", ONE, "--json", "--data", data).stdout
    with (data / "conversations" / ONE / JOURNAL).open("ab") as journal:
        journal.write(b'{"v":1,"seq":99999,"remaining":1,"at":17')
    assert tenex("conversations", "stats", ONE, "--json", "--data", data).stdout == before


def test_no_conversations_is_an_answer_too(tmp_path: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "stats", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no conversations" in done.stderr
    stats = json.loads(tenex("conversations", "stats", "--json", "--data", tmp_path).stdout)
    assert stats["total"]["conversations"] == 0
    assert stats["conversations"] == []


def test_a_bar_is_shown_on_a_terminal_where_it_takes_long(data: Path) -> None:
    """The figures are on stdout alone, whatever the terminal is shown meanwhile."""
    ours, theirs = pty.openpty()
    code = (
        "import sys; from tenex.cli import output; from tenex.cli.main import main; output.PROGRESS_AFTER = 0.0;"
        "sys.exit(main(sys.argv[1:]))"
    )
    python = command()[0] if command()[0].endswith("python") else str(Path(command()[0]).with_name("python"))
    process = subprocess.run(
        [python, "-c", code, "conversations", "stats", "--json", "--data", str(data)],
        env=environment(TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "Reading journals" in shown
    assert json.loads(process.stdout)["total"]["conversations"] == 2


async def test_a_conversation_that_goes_while_we_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    folder = ConversationFolder(data / "conversations", disk, StillClock())

    async def lengths() -> dict[ConversationId, int]:
        return {ONE: 1, THREE: 1}

    monkeypatch.setattr(folder, "lengths", lengths)
    found = await gather(folder)
    disk.close()
    assert list(found.each) == [ONE]
    assert f"no conversation {THREE}" in found.unreadable[THREE]
    assert PROGRESS_AFTER > 0


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "0.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (47 * 3_600_000, "1 d 23 h"),
        (49 * 3_600_000, "2 d 1 h"),
    ],
)
def test_a_duration_has_two_units(ms: int, expected: str) -> None:
    assert _duration(ms) == expected


@pytest.mark.parametrize(
    ("spending", "expected"),
    [
        (Spending(), "-"),
        (Spending(usage=Usage(cost_usd=0.0)), "$0.00"),
        (Spending(usage=Usage(cost_usd=0.01234)), "$0.0123"),
        (Spending(usage=Usage(cost_usd=1234.5)), "$1,234.50"),
        (Spending(usage=Usage(input_tokens=1), unpriced=1), "price unknown"),
        (Spending(usage=Usage(cost_usd=2.0), unpriced=3), "$2.00 + 3 unpriced"),
    ],
)
def test_a_cost_names_the_calls_without_a_price(spending: Spending, expected: str) -> None:
    assert _cost(spending) == expected
