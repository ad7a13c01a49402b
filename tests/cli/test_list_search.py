"""`tenex conversations list` and `search`, from real files."""

import asyncio
import errno
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tenex.core.ids import Slug
from tenex.core.inbox.records import MessageRecorded
from tenex.core.records import RunStarted
from tenex.nostr.keys import SecretKey
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.journal_reader import MARK
from tenex.store.repository import ConversationFolder
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import Scenario, diligent, longest_way, policy
from tests.fakes.workflows import NAME, TRIO, started
from tests.kits.commands import Tenex
from tests.store.kit import StillClock

from .journals import ONE, THREE, TWO, Decisions, changed, damage, renamed, worked, write_conversations

KEY = SecretKey.generate().public


def talked() -> Decisions:
    """A conversation that never left chat."""
    scenario = Scenario(longest_way, diligent)
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
    text, whom = "Où est la bibliothèque? \x1b[31m数据库", (Slug("security"),)
    chatted = changed(talked(), MessageRecorded, text=text, addressed=whom)
    built = changed(changed(worked(ONE), MessageRecorded, text="Build the zebra enclosure"), RunStarted, pubkey=KEY)
    write_conversations(tmp_path / "data", {ONE: built, TWO: renamed(TWO, chatted)})
    index(tmp_path / "data")
    return tmp_path / "data"


def ids(tenex: Tenex, line: str, *words: object) -> list[str]:
    out, err = tenex(f"conversations {line}", *words, "--json")
    assert err == ""
    return [row["id"] for row in json.loads(out)]


def test_a_conversation_without_phases_is_listed_with_its_agent_or_workflow(tmp_path: Path, tenex: Tenex) -> None:
    data = tmp_path / "data"
    alone = Scenario(longest_way, diligent, config=replace(policy(), only_agent=Slug("executor"))).converse("Hello")
    speakers = started(TransitionGraph.sequence(TRIO)).settle()
    write_conversations(data, {ONE: renamed(ONE, alone.journal), TWO: renamed(TWO, speakers.journal)})
    index(data)
    rows = json.loads(tenex("conversations list --json").out)
    assert {row["id"]: (row["phase"], row["with"]) for row in rows} == {ONE: (None, "executor"), TWO: (None, NAME)}
    shown = tenex("conversations list").out
    assert "@executor" in shown
    assert "execute " not in shown
    assert ids(tenex, "list --phase execute") == []
    stats = tenex("conversations stats").out.splitlines()
    table = [line.split()[:3] for line in stats[stats.index("") + 1 :]]
    assert table[1 : table.index([])] == [["@executor", "1", "1"], [f"@{NAME}", "1", "3"]]
    for name in (ONE, TWO):
        (data / "conversations" / name / MARK).write_text("damaged")
    assert tenex("conversations list --json").out.count('"with": ') == 2


@pytest.mark.parametrize("has_index", [True, False])
def test_filters_name_what_they_let_through(data: Path, tenex: Tenex, has_index: bool) -> None:
    """With the index and, where it was deleted, without it: the answers are the same."""
    if not has_index:
        (data / "conversations" / "index.sqlite").unlink()
    view = json.loads((data / "conversations" / ONE / "conversation.json").read_text("utf-8"))
    assert set(ids(tenex, "list")) == {ONE, TWO}
    assert ids(tenex, f"list --status {view['status'].upper()} --phase {view['phase'].upper()}") == [ONE]
    assert ids(tenex, "list --phase chat") == [TWO]
    assert ids(tenex, "list --agent executor") == [ONE]
    assert ids(tenex, "list --agent @Security") == [TWO]  # who is only addressed counts too
    assert ids(tenex, f"list --agent {KEY}") == [ONE]
    assert ids(tenex, "list --agent unknown") == []
    assert ids(tenex, "list --agent", os.fsdecode(b"unknown\xff")) == []  # half a character, from a poor terminal
    assert ids(tenex, "list --until 1969-12-31") == []
    assert ids(tenex, "list --since", "1 day ago") == []
    assert len(ids(tenex, "list --limit 1")) == 1
    (row,) = json.loads(tenex("conversations list --was-in execute --json").out)
    same = {name: view[name] for name in ("status", "phase", "cycle", "title")}
    assert row == {"id": ONE, **same, "created": view["createdAt"], "updated": view["updatedAt"]}


def test_the_text_shows_where_each_match_is(data: Path, tenex: Tenex) -> None:
    head, line = tenex("conversations search bibliothèque").out.splitlines()
    at = datetime.fromtimestamp(1_000).astimezone().strftime("%Y-%m-%d %H:%M")
    assert head.startswith(f"{TWO[:12]}  waiting in chat  {at}  I want something nice")
    assert line == f"    {at}  alice: Où est la «bibliothèque»? [31m数据库"
    (found,) = json.loads(tenex("conversations search bibliothèque --json").out)
    assert found["matches"] == 1
    assert set(ids(tenex, "search", '"something nice"')) == {ONE, TWO}  # the titles
    assert ids(tenex, "search zebra encl --was-in execute --agent executor") == ids(tenex, "search zebra") == [ONE]
    for other in ("--agent security", "--phase chat", "--since 2000-01-01"):
        assert ids(tenex, f"search zebra {other}") == []
    (message,) = found["messages"]
    assert (message["from"], message["excerpt"]) == ("alice", "Où est la bibliothèque?  [31m数据库")


def test_a_folder_of_another_user_is_explained(data: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service has a user of its own, and the operator asks as themselves."""
    look = os.listdir

    def refuse(path: str | Path) -> list[str]:
        if Path(path).is_relative_to(data):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look(path)

    monkeypatch.setattr(os, "listdir", refuse)
    for question in ("list", "show 1", "stats", "verify"):
        err = tenex(f"conversations {question}", code=4).err
        assert f"{data / 'conversations'} cannot be read: Permission denied. Ask as the user the daemon" in err
        assert "internal error" not in err


def test_broken_settings_do_not_hide_what_is_there(data: Path, tenex: Tenex) -> None:
    """A daemon that refused them continues with the old ones; what would change files refuses them too."""
    (data / "tenex.toml").write_text("[people\n")
    out, err = tenex("conversations list")
    assert ONE[:12] in out
    assert err.count("not valid TOML") == 1
    assert "using the default folders" in err
    tenex("conversations fork 1 --at 3", code=3)


def test_nothing_found_is_reported(data: Path, tenex: Tenex) -> None:
    assert tenex("conversations search unfindable") == ("", "Nothing was found.\n")
    assert tenex("conversations search unfindable --json") == ("[]\n", "")
    assert "no conversations of that kind" in tenex("conversations list --phase plan").err


def test_what_cannot_be_read_is_listed_with_its_fault_and_left_out_of_filters(data: Path, tenex: Tenex) -> None:
    damage(data, TWO)
    write_conversations(data, {THREE: renamed(THREE, talked())})
    (data / "conversations" / THREE / MARK).write_text("journal.jsonl: it was odd.\n")
    index = data / "conversations" / "index.sqlite"
    index.write_bytes(b"nonsense" * 1000)
    err = tenex("conversations search zebra --json").err
    assert f"{index} is of no use: " in err
    assert "the journals are read instead" in err
    assert index.read_bytes() == b"nonsense" * 1000
    index.unlink()
    rows = {row["id"]: row for row in json.loads(tenex("conversations list --json").out)}
    assert (rows[TWO]["status"], rows[THREE]["status"]) == ("unread", "quarantined")
    assert "line " in rows[TWO]["fault"]
    assert rows[TWO]["title"] == rows[THREE]["title"] == "I want something nice"  # as in conversation.json
    assert ids(tenex, "list --status quarantined") == [THREE]
    assert ids(tenex, "list --status unread") == [TWO]
    (data / "conversations" / THREE / "conversation.json").write_text("[" * 100_000)  # nested without end
    assert ids(tenex, "list --status quarantined") == [THREE]
    assert "QUARANTINED" in tenex("status", code=1).out
    out, err = tenex("conversations list --phase chat --json")
    assert json.loads(out) == []
    assert "skipped 2 unreadable" in err
    out, err = tenex("conversations search zebra --json")
    assert [row["id"] for row in json.loads(out)] == [ONE]
    assert f"skipped {TWO[:12]}" in err


def test_a_conversation_without_a_record_has_no_date(data: Path, tenex: Tenex) -> None:
    """As a full disk leaves it."""
    (data / "conversations" / THREE).mkdir()
    (data / "conversations" / THREE / "journal.jsonl").touch()
    (row,) = [row for row in json.loads(tenex("conversations list --json").out) if row["id"] == THREE]
    assert (row["status"], row["created"], row["updated"]) == ("new", "", "")
    assert "1970-01-01 00:00:00" not in tenex("conversations list").out
