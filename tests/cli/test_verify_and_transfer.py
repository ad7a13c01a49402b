"""`tenex conversations verify`, `replay`, `export`, `import`, `rebuild`: what they print, and how they end."""

import errno
import hashlib
import json
import shutil
from pathlib import Path
from typing import NoReturn
from zlib import crc32

import pytest

from tenex.core.conversation import fold
from tenex.core.pending import pending
from tenex.store.journal_reader import JOURNAL
from tenex.store.lock import FolderLock
from tenex.store.view import Views
from tests.kits.commands import Tenex

from .journals import ONE, THREE, TWO, damage, worked, write_conversations


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two conversations with failures and a restart in them, and somebody who may talk."""
    write_conversations(tmp_path / "data", {ONE: worked(ONE), TWO: worked(TWO, 1)})
    (tmp_path / "data" / "tenex.toml").write_text("[people]\nopen = true\n")
    return tmp_path / "data"


@pytest.fixture
def exported(data: Path, tenex: Tenex) -> Path:
    """The first of them in a file."""
    file = data / "one.jsonl"
    assert f" conversations import {file}` reads it" in tenex(f"conversations export 1111 --out {file}").err
    return file


def names(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "conversations").iterdir() if path.name != ".lock")


def test_verify_names_what_is_damaged_and_reads_the_others(data: Path, tenex: Tenex, tmp_path: Path) -> None:
    assert tenex("conversations verify").out.startswith("2 of 2 conversations intact, ")
    assert tenex("conversations verify 1111").out.startswith("1 of 1 ")
    assert tenex(f"conversations verify --data {tmp_path}").out == "0 of 0 conversations intact, 0 records\n"
    journal = damage(data, ONE)
    out, err = tenex("conversations verify", code=4)
    first, last = out.splitlines()
    assert first.startswith(f"{ONE[:12]}  damaged: {journal}: line 1 cannot be right (byte 0): ")
    assert f" conversations rebuild {ONE[:12]} --from conversation.json`" in first
    assert last.startswith("1 of 2 conversations intact")
    assert err == "tenex: 1 of 2 conversations are damaged.\n"
    fault = first.partition("damaged: ")[2]
    for command in (f"show {ONE}", f"rollback {ONE} --to 2"):  # each with the same remedy
        assert tenex(f"conversations {command}", code=4).err == f"tenex: {fault}\n"
    verdicts = json.loads(tenex("conversations verify --json", code=4).out)
    assert [(one["id"], one["ok"], len(one["faults"])) for one in verdicts] == [(ONE, False, 1), (TWO, True, 0)]


def newer(data: Path, name: str) -> Path:
    """Have a conversation's journal end with a record of a later version of the program, whole and with its crc."""
    journal = data / "conversations" / name / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    seq = int(lines[-1].split(b'"seq":')[1].split(b",")[0]) + 1
    body = b'{"v":1,"seq":%d,"remaining":0,"at":1700000000000,"type":"MoodNoted","data":{}' % seq
    journal.write_bytes(b"".join(lines) + body + b',"crc":"%08x"}\n' % crc32(body))
    return journal


def test_what_another_version_wrote_is_named_and_not_called_damaged(data: Path, tenex: Tenex) -> None:
    journal = newer(data, ONE)
    before = journal.read_bytes()
    number = before.count(b"\n")
    where = f"{journal}: line {number} was written by another version of tenex (byte "
    out, err = tenex("conversations verify", code=4)
    first, last = out.splitlines()
    assert first.startswith(f"{ONE[:12]}  other version: {where}")
    assert "its type MoodNoted is unknown here. Nothing was changed. Upgrade tenex" in first
    assert last.startswith("1 of 2 conversations intact")
    assert err == "tenex: 1 of 2 conversations were written by another version of tenex.\n"
    texts = [out, err]
    for command in (
        f"show {ONE}",
        f"stats {ONE}",
        f"replay {ONE}",
        f"export {ONE}",
        f"rollback {ONE} --to 2",
    ):
        texts.append(tenex(f"conversations {command}", code=4).err)
        assert texts[-1].startswith(f"tenex: {where}")
        assert "Upgrade tenex" in texts[-1]
    texts.append(tenex(f"conversations rebuild {ONE} --from conversation.json", code=2).err)
    assert texts[-1].startswith(f"tenex: {where}")
    assert "A rebuild would lose what this version cannot read" in texts[-1]
    texts.append(tenex("conversations list").out)
    listed = tenex("doctor", code=4)
    (finding,) = [part for part in listed.out.split("\n\n") if "another version" in part] or [listed.out]
    assert "upgrade tenex" in finding
    assert "damaged" not in "".join([*texts, finding])
    assert "rebuild" not in finding
    assert journal.read_bytes() == before
    assert tenex("conversations stats").err.startswith(f"tenex: skipped {ONE[:12]}: {where}")


def test_an_export_of_another_version_is_named_too(exported: Path, tenex: Tenex) -> None:
    head, _, body = exported.read_bytes().partition(b"\n")
    last = body.splitlines()[-1]
    inner = last.partition(b',"crc"')[0].replace(b'"v":1', b'"v":7')
    body = body.removesuffix(last + b"\n") + inner + b',"crc":"%08x"}\n' % crc32(inner)
    fields = json.loads(head) | {"sha256": hashlib.sha256(body).hexdigest()}
    exported.write_bytes(json.dumps(fields).encode() + b"\n" + body)
    err = tenex(f"conversations import {exported}", code=4).err
    assert "was written by another version of tenex" in err
    assert "has version 7, and this one knows 1. Upgrade tenex" in err


@pytest.mark.usefixtures("data")
def test_replay_lists_every_step_to_a_record_and_shows_the_state_there(tenex: Tenex) -> None:
    shown = json.loads(tenex("conversations replay 1111 --each --to 9 --json").out)
    records = [record for decision in worked(ONE) for record in decision]
    assert [step["seq"] for step in shown["steps"]] == list(range(1, 10))
    assert (shown["lastSeq"], shown["record"]) == (len(records), type(records[8]).__name__)
    assert len(shown["pending"]) == len(pending(fold(ONE, records[:9])))
    shown = tenex("conversations replay 1111 --each --to 9").out
    assert shown.split()[:6] == ["SEQ", "TIME", "RECORD", "STATUS", "PHASE", "INFLIGHT"]
    assert [row.split()[0] for row in shown.splitlines()[1:10]] == [str(seq) for seq in range(1, 10)]
    assert f"after record 9 of {len(records)}" in shown
    err = tenex("conversations replay 1111 --to 100000", code=2).err
    assert "There is no record 100000; the journal ends with" in err


def test_a_conversation_comes_back_as_it_was(data: Path, exported: Path, tenex: Tenex) -> None:
    assert exported.stat().st_mode & 0o777 == 0o600
    before = exported.read_bytes()
    tenex(f"conversations export 2222 --out {exported}", code=2)
    assert exported.read_bytes() == before
    shutil.move(data / "conversations" / ONE, data / "old")
    assert tenex(f"conversations import {exported}").out.split(", ")[1] == "imported.\n"
    views = [json.loads((at / "conversation.json").read_text()) for at in (data / "conversations" / ONE, data / "old")]
    same = ("id", "title", "status", "phase", "cycle", "createdAt", "orchestratorTurns", "phaseTransitions")
    assert [views[0][name] for name in same] == [views[1][name] for name in same]
    assert [one["text"] for one in views[0]["messages"]] == [one["text"] for one in views[1]["messages"]]
    assert views[0]["imported"]
    again = tenex("conversations export 1111").out
    assert again.splitlines()[1:-1] == exported.read_text().splitlines()[1:]
    assert "already here, unchanged" in tenex(f"conversations import {exported}").out
    shutil.rmtree(data / "conversations" / ONE)
    shutil.move(data / "old", data / "conversations" / ONE)
    journal = data / "conversations" / ONE / JOURNAL
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))
    assert ", and one continues where the other ends" in tenex(f"conversations import {exported}", code=4).err
    damage(data, ONE)
    tenex(f"conversations import {exported}", code=4)
    with FolderLock(data / "conversations"):
        for line in (f"import {exported}", "rebuild 1111 --from conversation.json --force"):
            assert "is in use by process" in tenex(f"conversations {line}", code=4).err
    exported.write_bytes(before.replace(b'"version":1', b'"version":2', 1))
    assert "it was exported by a newer tenex" in tenex(f"conversations import {exported}", code=4).err


def test_an_imported_conversation_is_marked_wherever_it_is_shown(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    write_conversations(data, {THREE: worked(THREE)[:8]})
    tenex(f"conversations export 3333 --out {tmp_path / 'three.jsonl'}")
    shutil.rmtree(data / "conversations" / THREE)
    tenex(f"conversations import {tmp_path / 'three.jsonl'}")
    for line, code in (("conversations list", 0), ("conversations search nice", 0), ("status", 1)):
        (row,) = [row for row in tenex(line, code=code).out.splitlines() if THREE[:8] in row]
        assert row.endswith(" (imported)"), line
    for line in ("conversations show 3333", "conversations replay 3333", "conversations replay 3333 --to 5"):
        assert tenex(line).out.splitlines()[0].endswith(" (imported)"), line
    assert "what is above was not written here" in tenex("conversations show 3333").out
    view = json.loads((data / "conversations" / THREE / "conversation.json").read_text())
    replayed = json.loads(tenex("conversations replay 3333 --to 5 --json").out)
    shown = json.loads(tenex("conversations show 3333 --json").out)
    rows = [
        *json.loads(tenex("conversations list --json").out),
        *json.loads(tenex("conversations search nice --json").out),
    ]
    listed = [row for row in rows if row["id"] == THREE]
    assert len(listed) == 2
    status = json.loads(tenex("status --json", code=1).out)["conversations"]
    (waiting,) = status["waiting"]
    assert all(one["imported"] is True for one in (view, replayed, shown, waiting, *listed))
    assert all(message["from"].endswith(" (imported)") for message in view["messages"])
    assert not any("imported" in row for row in rows if row["id"] != THREE)


def test_what_was_at_work_is_over_after_an_import(tmp_path: Path, tenex: Tenex) -> None:
    write_conversations(tmp_path / "a", {ONE: worked(ONE)[:8]})
    file = tmp_path / "one.jsonl"
    tenex(f"conversations export --out {file} --data {tmp_path / 'a'}")
    assert "data: no such folder" in tenex(f"conversations import {file}", code=2).err
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    assert "nothing runs and nothing is sent until someone writes" in tenex(f"conversations import {file}").err
    shown = json.loads(tenex("conversations show --json").out)
    assert (shown["status"], shown["openTurn"], shown["running"], shown["undelivered"]) == ("waiting", None, [], 0)
    tenex("init")
    file = tmp_path / f"{'d' * 64}.json"  # of an older program
    file.write_text(json.dumps({"title": "Login", "phase": "EXECUTE", "history": []}))
    assert json.loads(tenex(f"conversations import {file} --json").out)["result"] == "imported"
    row = next(row for row in json.loads(tenex("conversations list --json").out) if row["id"] == "d" * 64)
    assert (row["title"], row["phase"], row["status"]) == ("Login", "execute", "waiting")


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        (None, 2, "cannot be read: No such file"),
        (b"", 4, "some.json cannot be read: it is not JSON"),
        (b'{"format":"tenex.conversation","version":1}\n', 4, "its checksum does not hold"),
        (b'{"id":"../../etc","phase":"CHAT"}', 2, "is not a conversation's id"),
        (b"[]", 4, "tenex: "),
        (b'{"id": 5}', 2, "tenex: "),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_and_nothing_is_made(
    data: Path, tmp_path: Path, tenex: Tenex, content: bytes | None, code: int, sentence: str
) -> None:
    file = tmp_path / "some.json"
    if content is not None:
        file.write_bytes(content)
    before = names(data)
    err = tenex(f"conversations import {file}", code=code).err
    assert sentence in err
    assert "--from relay" not in err
    assert names(data) == before
    assert content is None or file.read_bytes() == content


def test_rebuild_reports_what_is_lost_and_where_the_backup_is(data: Path, tenex: Tenex) -> None:
    write_conversations(data, {THREE: worked(THREE)[:4]})
    damage(data, THREE)
    assert " records, with 1 message of users.\n" in tenex("conversations rebuild 3333 --from conversation.json").out
    damage(data, ONE)
    lines = tenex("conversations rebuild 1111 --from conversation.json").out.splitlines()
    assert lines[0].startswith(f"{ONE}: ")
    assert lines[0].endswith(" 8 messages of users.")
    assert [line for line in lines if line.startswith("  lost: ")]
    aside = Path(lines[-1].removeprefix("The old files are in ").partition(". Write")[0])
    assert (aside / JOURNAL).exists()
    assert "recovered from conversation.json" in tenex("conversations show 1111").out


def test_a_disk_that_takes_the_records_and_not_the_view_has_the_conversation(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, tenex: Tenex
) -> None:
    async def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "other").mkdir()
    line = f"conversations import {exported} --data {tmp_path / 'other'}"
    with monkeypatch.context() as patch:
        patch.setattr(Views, "show", full)
        out, err = tenex(line)
    assert "imported." in out
    assert "conversation.json could not be written: No space left on device." in err
    assert "already here, unchanged." in tenex(line).out
