"""`tenex conversations list` and `search`, from real files."""

import asyncio
import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.main import main
from tenex.core.ids import ConversationId, Slug
from tenex.core.records import MessageRecorded, Record, RunStarted
from tenex.nostr.keys import SecretKey
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.journal_reader import JOURNAL, MARK
from tenex.store.repository import ConversationFolder
from tenex.store.view_json import SEGMENT
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import Scenario, diligent, rules, seven_phases
from tests.fakes.workflows import NAME, TRIO, started
from tests.store.kit import StillClock, going_on
from tests.store.test_stats import lived

from .conftest import Done
from .journals import renamed, write_conversations

Tenex = Callable[..., Done]
ONE, TWO, THREE = (ConversationId(digit * 64) for digit in "123")
KEY = SecretKey.generate().public


@pytest.fixture
def tenex(capsys: pytest.CaptureFixture[str]) -> Tenex:
    """The program within this process: there are many questions here, and a process takes a second to begin."""

    def run(*arguments: str | Path, **env: str) -> Done:
        words = [str(word) for word in arguments]
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            time.tzset()
            code = main(words)
        time.tzset()
        captured = capsys.readouterr()
        return Done(words, code, captured.out, captured.err)

    return run


def worded(decisions: list[tuple[Record, ...]], words: str, **more: Any) -> list[tuple[Record, ...]]:
    """The same conversation, where the person writes something else."""
    return [
        tuple(
            replace(record, text=words, **more) if isinstance(record, MessageRecorded) else record
            for record in decision
        )
        for decision in decisions
    ]


def keyed(decisions: list[tuple[Record, ...]]) -> list[tuple[Record, ...]]:
    """The same conversation, its agents with a real key."""
    return [
        tuple(replace(record, pubkey=KEY) if isinstance(record, RunStarted) else record for record in decision)
        for decision in decisions
    ]


def talked() -> list[tuple[Record, ...]]:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("I want something nice")
    scenario.settle()
    return scenario.journal


def index(data: Path) -> None:
    """Have the index know all, as a daemon leaves it."""

    async def main() -> None:
        disk = Disk()
        known = Index(data / "conversations" / "index.sqlite")
        await known.catch_up(ConversationFolder(data / "conversations", disk, StillClock()))
        await known.close()
        disk.close()

    asyncio.run(main())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One conversation that has been through all phases, one that never left chat; the first with real keys."""
    chatted = worded(talked(), "Où est la bibliothèque? \x1b[31m数据库", addressed=(Slug("security"),))
    write_conversations(
        tmp_path,
        {ONE: renamed(ONE, keyed(worded(lived(0).journal, "Build the zebra enclosure"))), TWO: renamed(TWO, chatted)},
    )
    index(tmp_path)
    return tmp_path


def listed(tenex: Tenex, data: Path, *words: str, command: str = "list") -> list[str]:
    done = tenex("conversations", command, *words, "--json", "--data", data)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [row["id"] for row in json.loads(done.stdout)]


def test_a_conversation_without_phases_is_listed_with_its_agent_or_workflow(tmp_path: Path, tenex: Tenex) -> None:
    alone = Scenario(seven_phases, diligent, config=replace(rules(), only_agent=Slug("executor"))).converse("Hello")
    speakers = started(TransitionGraph.sequence(TRIO)).settle()
    write_conversations(tmp_path, {ONE: renamed(ONE, alone.journal), TWO: renamed(TWO, speakers.journal)})
    index(tmp_path)
    done = tenex("conversations", "list", "--json", "--data", tmp_path)
    assert {row["id"]: (row["phase"], row["with"]) for row in json.loads(done.stdout)} == {
        ONE: (None, "executor"),
        TWO: (None, NAME),
    }
    shown = tenex("conversations", "list", "--data", tmp_path).stdout
    assert "@executor" in shown
    assert "execute " not in shown
    assert listed(tenex, tmp_path, "--phase", "execute") == []
    for name in (ONE, TWO):
        (tmp_path / "conversations" / name / MARK).write_text("damaged")
    assert tenex("conversations", "list", "--json", "--data", tmp_path).stdout.count('"with": ') == 2, "also if damaged"
    for name in (ONE, TWO):
        (tmp_path / "conversations" / name / MARK).unlink()
    stats = tenex("conversations", "stats", "--data", tmp_path).stdout.splitlines()
    table = [line.split()[:3] for line in stats[stats.index("") + 1 :]]
    assert table[1 : table.index([])] == [["@executor", "1", "1"], [f"@{NAME}", "1", "3"]]


@pytest.mark.parametrize("has_index", [True, False])
def test_filters_name_what_they_let_through(data: Path, tenex: Tenex, has_index: bool) -> None:
    """With the index and, where it was deleted, without it: the answers are the same."""
    if not has_index:
        (data / "conversations" / "index.sqlite").unlink()
    one = json.loads((data / "conversations" / ONE / "conversation.json").read_text("utf-8"))
    assert set(listed(tenex, data)) == {ONE, TWO}
    assert listed(tenex, data, "--status", one["status"].upper(), "--phase", one["phase"].upper()) == [ONE]
    assert listed(tenex, data, "--phase", "chat") == [TWO]
    assert listed(tenex, data, "--was-in", "execute") == [ONE]
    assert listed(tenex, data, "--agent", "executor") == [ONE]
    assert listed(tenex, data, "--agent", "@Security") == [TWO], "who is only addressed counts too"
    assert listed(tenex, data, "--agent", KEY) == [ONE]
    assert listed(tenex, data, "--agent", "unknown") == []
    assert listed(tenex, data, "--agent", os.fsdecode(b"unknown\xff")) == [], "half a character, from a poor terminal"
    assert listed(tenex, data, "--until", "1969-12-31") == []
    assert listed(tenex, data, "--since", "1 day ago") == []
    assert len(listed(tenex, data, "--limit", "1")) == 1


def test_a_row_agrees_with_the_file(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "list", "--was-in", "execute", "--json", "--data", data)
    (row,) = json.loads(done.stdout)
    view = json.loads((data / "conversations" / ONE / "conversation.json").read_text("utf-8"))
    assert row == {
        "id": ONE,
        "status": view["status"],
        "phase": view["phase"],
        "cycle": view["cycle"],
        "title": view["title"],
        "created": view["createdAt"],
        "updated": view["updatedAt"],
    }


def test_words_of_people_and_agents_and_titles_are_found(data: Path, tenex: Tenex) -> None:
    assert listed(tenex, data, "zebra", "encl", command="search") == [ONE]
    assert listed(tenex, data, "BIBLIOTHEQUE", command="search") == [TWO]
    assert listed(tenex, data, "数据", command="search") == [TWO]
    assert listed(tenex, data, "executor", "done", command="search") == [ONE], "by an agent"
    assert set(listed(tenex, data, '"something nice"', command="search")) == {ONE, TWO}, "the titles"
    assert listed(tenex, data, '"nice something"', command="search") == []
    assert listed(tenex, data, "zebra", "--agent", "security", command="search") == []
    assert listed(tenex, data, "zebra", "--phase", "chat", command="search") == []
    assert listed(tenex, data, "zebra", "--since", "2000-01-01", command="search") == []


def test_the_text_shows_where_each_match_is(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "search", "bibliothèque", "--data", data, TZ="UTC")
    assert (done.returncode, done.stderr) == (0, "")
    head, line = done.stdout.splitlines()
    assert head.startswith(f"{TWO[:12]}  waiting in chat  1970-01-01 00:16  I want something nice")
    assert line == "    1970-01-01 00:16  alice: Où est la «bibliothèque»? [31m数据库"
    done = tenex("conversations", "search", "bibliothèque", "--json", "--data", data)
    (found,) = json.loads(done.stdout)
    assert found["matches"] == 1
    (message,) = found["messages"]
    assert (message["from"], message["excerpt"]) == ("alice", "Où est la bibliothèque?  [31m数据库")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["search", "!!!"], "no word"),
        (["search", ""], "no word"),
        (["search", "x" * 2000], "2,000 characters"),
        (["search", *"a" * 40], "40 words"),
        (["search"], "Missing argument"),
        (["search", "x", "--limit", "0"], "greater than or equal to 1"),
        (["list", "--phase", "sleep"], "'sleep' is not a phase. Choose from chat, brainstorm"),
        (["list", "--status", "gone"], "'gone' is not a status. Choose from new, active"),
        (["list", "--since", "11/21"], "'11/21' is not a point in time. Examples: 2026-11-21"),
        (["list", "--agent", "npub1nonsense"], "--agent needs a slug or a key"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    tmp_path: Path, tenex: Tenex, words: list[str], sentence: str
) -> None:
    done = tenex("conversations", *words, "--data", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_secret_key_given_for_an_agent_is_not_repeated(tmp_path: Path, tenex: Tenex) -> None:
    secret = SecretKey.generate().nsec
    done = tenex("conversations", "list", "--agent", secret, "--data", tmp_path)
    assert done.returncode == 2
    assert secret not in done.stderr
    assert "secret key" in done.stderr


def test_a_folder_of_another_user_is_explained(data: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service has a user of its own, and the operator asks as themselves."""
    look = os.listdir

    def refuse(path: str | Path) -> list[str]:
        if Path(path).is_relative_to(data):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look(path)

    monkeypatch.setattr(os, "listdir", refuse)
    for question in (("list",), ("show", "1"), ("stats",), ("verify",)):
        done = tenex("conversations", *question, "--data", data)
        assert done.returncode == 4
        assert f"{data / 'conversations'} cannot be read: Permission denied. Ask as the user the daemon" in done.stderr
        assert "internal error" not in done.stderr


def test_broken_settings_do_not_hide_what_is_there(data: Path, tenex: Tenex) -> None:
    """A daemon that refused them runs on with those from before; what would change files refuses them too."""
    (data / "tenex.toml").write_text("[people\n")
    listed_ = tenex("conversations", "list", "--data", data)
    assert (listed_.returncode, ONE[:12] in listed_.stdout) == (0, True)
    assert listed_.stderr.count("not valid TOML") == 1
    assert "using the default folders" in listed_.stderr
    assert tenex("conversations", "fork", "1", "--at", "3", "--data", data).returncode == 3


@pytest.mark.parametrize(
    "words", [("rollback", "", "--to", "3", "--yes"), ("fork", "", "--at", "3"), ("rebuild", "", "--from", "relay")]
)
def test_an_empty_id_never_means_the_newest_where_something_is_changed(
    data: Path, tenex: Tenex, words: tuple[str, ...]
) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*.jsonl")}
    done = tenex("conversations", *words, "--data", data)
    assert (done.returncode, "the id is empty" in done.stderr) == (2, True)
    assert {path: path.read_bytes() for path in data.rglob("*.jsonl")} == before


def test_nothing_found_is_reported(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "search", "unfindable", "--data", data)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Nothing was found.\n")
    assert tenex("conversations", "search", "unfindable", "--json", "--data", data).stdout == "[]\n"
    done = tenex("conversations", "list", "--phase", "plan", "--data", data)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no conversations of that kind" in done.stderr


def test_what_cannot_be_read_is_listed_with_its_fault_and_left_out_of_searches(data: Path, tenex: Tenex) -> None:
    journal = data / "conversations" / TWO / JOURNAL
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(damaged + b"x")
    write_conversations(data, {THREE: renamed(THREE, talked())})
    (data / "conversations" / THREE / MARK).write_text("journal.jsonl: it was odd.\n")
    (data / "conversations" / "index.sqlite").unlink()
    done = tenex("conversations", "list", "--json", "--data", data)
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert (rows[TWO]["status"], rows[THREE]["status"]) == ("unread", "quarantined")
    assert "line " in rows[TWO]["fault"]
    assert rows[TWO]["title"] == rows[THREE]["title"] == "I want something nice", "as in conversation.json"
    assert listed(tenex, data, "--status", "quarantined") == [THREE]
    assert listed(tenex, data, "--status", "unread") == [TWO]
    assert listed(tenex, data, "--phase", "chat") == [TWO, THREE], "filters go by conversation.json"
    assert listed(tenex, data, "--status", "quarantined", "--was-in", "chat") == [THREE]
    assert listed(tenex, data, "--status", "quarantined", "--agent", "project-manager") == [THREE]
    assert listed(tenex, data, "--status", "quarantined", "--since", "1970-01-01", "--until", "1970-01-02") == [THREE]
    for never in (
        ("--phase", "plan"),
        ("--agent", "unknown"),
        ("--since", "2000-01-01"),
        ("--until", "1969-12-31"),
        ("--was-in", "reflection"),
    ):
        assert listed(tenex, data, "--status", "quarantined", *never) == [], never
    odd = {
        "phase": ["plan"],
        "phaseTransitions": [{"from": {}}],
        "orchestratorTurns": [{"agents": 7}],
        "messages": [{"author": []}],
    }
    (data / "conversations" / THREE / "conversation.json").write_text(json.dumps(odd))
    assert listed(tenex, data, "--status", "quarantined", "--phase", "plan", "--agent", "x", "--was-in", "plan") == []
    (data / "conversations" / THREE / "conversation.json").write_text("{")
    done = tenex("conversations", "list", "--phase", "plan", "--json", "--data", data)
    assert json.loads(done.stdout) == []
    assert "skipped 1 unreadable" in done.stderr
    assert listed(tenex, data, "--status", "quarantined") == [THREE]
    done = tenex("conversations", "search", "zebra", "--json", "--data", data)
    assert [row["id"] for row in json.loads(done.stdout)] == [ONE]
    assert f"skipped {TWO[:12]}" in done.stderr


def test_filters_use_the_readable_files_of_a_damaged_one_and_count_what_they_cannot_decide(
    data: Path, tenex: Tenex
) -> None:
    """Older turns lie in files beside; keys are only in the newest messages; and anybody may have edited the file."""
    write_conversations(data, {THREE: [tuple(going_on(1, 2 * SEGMENT + 30, THREE))]})
    folder = data / "conversations" / THREE
    (folder / MARK).write_text("journal.jsonl: it was odd.\n")
    oldest = folder / "orchestratorTurns-000001.json"
    turns = json.loads(oldest.read_text())
    turns[0]["agents"] = ["long-gone"]
    oldest.write_text(json.dumps(turns))
    assert listed(tenex, data, "--status", "quarantined", "--agent", "long-gone") == [THREE]
    assert listed(tenex, data, "--status", "quarantined", "--agent", "unknown") == []

    def left_out(agent: str) -> bool:
        done = tenex("conversations", "list", "--agent", agent, "--json", "--data", data)
        assert (done.returncode, json.loads(done.stdout)) == (0, [])
        return "skipped 1 unreadable" in done.stderr

    assert (left_out("unknown"), left_out(SecretKey.generate().public)) == (False, True)
    oldest.write_text("[")
    assert left_out("unknown")
    odd = {"messages": [{"author": ["x"]}, 5], "orchestratorTurns": [{"agents": 5}], "phaseTransitions": [{"to": {}}]}
    (folder / "conversation.json").write_text(json.dumps({**odd, "phase": ["chat"]}))
    assert left_out("unknown")


def test_a_damaged_index_is_reported_and_left_as_it_is(data: Path, tenex: Tenex) -> None:
    path = data / "conversations" / "index.sqlite"
    path.write_bytes(b"nonsense" * 1000)
    done = tenex("conversations", "search", "zebra", "--json", "--data", data)
    assert done.returncode == 0
    assert [row["id"] for row in json.loads(done.stdout)] == [ONE]
    assert f"{path} is of no use: " in done.stderr
    assert "the journals are read instead" in done.stderr
    assert path.read_bytes() == b"nonsense" * 1000
