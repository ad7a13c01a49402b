"""`tenex conversations verify`, `replay`, `export`, `import`, `rebuild`: what they print, and how they end."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tenex.cli.main import main
from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.store.archive import packed
from tenex.store.lock import FolderLock
from tenex.store.view import Views
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases
from tests.store.test_stats import lived

from .conftest import Done
from .journals import ONE, TWO, renamed, write_conversations

Tenex = Callable[..., Done]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two conversations with failures and a restart in them, and somebody who may talk."""
    write_conversations(tmp_path, {name: renamed(name, lived(seed).journal) for seed, name in enumerate((ONE, TWO))})
    (tmp_path / "tenex.toml").write_text("[people]\nopen = true\n")
    return tmp_path


def journal(data: Path, name: ConversationId) -> Path:
    return data / "conversations" / name / "journal.jsonl"


def spoil(data: Path, name: ConversationId) -> None:
    content = bytearray(journal(data, name).read_bytes())
    content[200] ^= 1
    journal(data, name).write_bytes(content)


def test_verify_reports_intact_conversations(data: Path, tenex: Tenex, installed: Tenex) -> None:
    done = installed("conversations", "verify", "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 of 2 conversations intact, ")
    assert tenex("conversations", "verify", "1111", "--data", data).stdout.startswith("1 of 1 ")


def test_verify_names_what_is_damaged_and_reads_the_others(data: Path, tenex: Tenex) -> None:
    spoil(data, ONE)
    done = tenex("conversations", "verify", "--data", data)
    assert done.returncode == 4
    first, last = done.stdout.splitlines()
    assert first.startswith(f"{ONE[:12]}  damaged: {journal(data, ONE)}: line 1 cannot be right (byte 0): ")
    assert f" conversations rebuild {ONE[:12]} --from conversation.json`" in first
    assert last.startswith("1 of 2 conversations intact")
    assert done.stderr == "tenex: 1 of 2 conversations are damaged.\n"
    verdicts = json.loads(tenex("conversations", "verify", "--json", "--data", data).stdout)
    assert [(verdict["id"], verdict["ok"], len(verdict["faults"])) for verdict in verdicts] == [
        (ONE, False, 1),
        (TWO, True, 0),
    ]


def test_verify_of_nothing_is_fine(tmp_path: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "verify", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (0, "0 of 0 conversations intact, 0 records\n")


def test_replay_shows_the_state_after_any_record(data: Path, tenex: Tenex) -> None:
    records = [record for decision in renamed(ONE, lived(0).journal) for record in decision]
    for seq in (7, 40):
        done = tenex("conversations", "replay", "1111", "--to", str(seq), "--json", "--data", data)
        shown, state = json.loads(done.stdout), fold(ONE, records[:seq])
        assert (shown["seq"], shown["lastSeq"], shown["record"]) == (seq, len(records), type(records[seq - 1]).__name__)
        assert (shown["status"], shown["phase"], shown["cycle"]) == (state.status, state.phase.value, state.cycle)
        assert (shown["openGates"], shown["turns"]) == (list(state.unmet_gates), state.turn_count)
        assert shown["usage"]["inputTokens"] == state.usage.input_tokens
        assert len(shown["pending"]) == len(pending(state))
        text = tenex("conversations", "replay", "1111", "--to", str(seq), "--data", data).stdout
        assert f"after record {seq} of {len(records)}" in text
        assert f"{state.status} in {state.phase}" in text


def test_replay_lists_every_step(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "replay", "1111", "--each", "--to", "9", "--json", "--data", data)
    assert [step["seq"] for step in json.loads(done.stdout)["steps"]] == list(range(1, 10))
    head, *rows = tenex("conversations", "replay", "1111", "--each", "--to", "9", "--data", data).stdout.splitlines()
    assert head.split() == ["SEQ", "TIME", "RECORD", "STATUS", "PHASE", "INFLIGHT"]
    assert [row.split()[0] for row in rows[:9]] == [str(seq) for seq in range(1, 10)]


def test_replay_beyond_the_end_is_refused(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "replay", "1111", "--to", "100000", "--data", data)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no record 100000; the journal ends with" in done.stderr


def test_an_exported_file_is_for_its_owner_and_replaces_nothing(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    file = tmp_path / "one.jsonl"
    done = tenex("conversations", "export", "1111", "--out", file, "--data", data)
    assert (done.returncode, done.stdout) == (0, "")
    assert f" conversations import {file}` reads it" in done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    done = tenex("conversations", "export", "2222", "--out", file, "--data", data)
    assert (done.returncode, file.read_bytes()) == (2, before)


def test_a_conversation_comes_back_as_it_was(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    file = tmp_path / "one.jsonl"
    tenex("conversations", "export", "1111", "--out", file, "--data", data)
    old = tmp_path / "old"
    shutil.move(data / "conversations" / ONE, old)
    done = tenex("conversations", "import", file, "--data", data)
    assert (done.returncode, done.stdout.split(", ")[1]) == (0, "imported.\n")
    views = [json.loads((at / "conversation.json").read_text()) for at in (data / "conversations" / ONE, old)]
    for view in views:
        view["metadata"]["address"].pop("relays", None)
    assert views[0] == {**views[1], "seq": views[1]["seq"] + 1}
    exported = tenex("conversations", "export", "1111", "--data", data).stdout
    assert exported.splitlines()[1:-1] == file.read_text().splitlines()[1:]
    again = tenex("conversations", "import", file, "--data", data)
    assert "already here, unchanged" in again.stdout
    spoil(data, ONE)
    assert tenex("conversations", "import", file, "--data", data).returncode == 4


def test_what_was_at_work_is_over_after_an_import(tmp_path: Path, tenex: Tenex) -> None:
    whole = renamed(ONE, lived(0).journal)
    write_conversations(tmp_path / "a", {ONE: whole[:8]})
    file = tmp_path / "one.jsonl"
    tenex("conversations", "export", "--out", file, "--data", tmp_path / "a")
    mistyped = tenex("conversations", "import", file, "--data", tmp_path / "b")
    assert (mistyped.returncode, "b: no such folder" in mistyped.stderr) == (2, True)
    assert not (tmp_path / "b").exists()
    (tmp_path / "b").mkdir()
    done = tenex("conversations", "import", file, "--data", tmp_path / "b")
    assert done.returncode == 0
    assert "nothing runs and nothing is sent until someone writes" in done.stderr
    shown = json.loads(tenex("conversations", "show", "--json", "--data", tmp_path / "b").stdout)
    assert (shown["status"], shown["openTurn"], shown["running"], shown["undelivered"]) == ("waiting", None, [], 0)


def test_the_file_of_an_older_program_is_imported_too(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    assert tenex("init", "--dir", tmp_path / "new").returncode == 0
    file = tmp_path / f"{'d' * 64}.json"
    file.write_text(json.dumps({"title": "Login", "phase": "EXECUTE", "history": []}))
    done = tenex("conversations", "import", file, "--json", "--data", tmp_path / "new")
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, "imported")
    assert file.exists()
    (row,) = json.loads(tenex("conversations", "list", "--json", "--data", tmp_path / "new").stdout)
    assert (row["id"], row["title"], row["phase"], row["status"]) == ("d" * 64, "Login", "execute", "waiting")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file"),
        (b"", "cannot be read: it is not JSON"),
        (b'{"format":"tenex.conversation","version":1}\n', "its checksum does not hold"),
        (b'{"id":"../../etc","phase":"CHAT"}', "is not a conversation's id"),
        (b"\0" * 4000, "cannot be read: it is not JSON"),
        (b"[]", "tenex: "),
        (b'{"id": 5}', "tenex: "),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_and_nothing_is_made(
    data: Path, tmp_path: Path, tenex: Tenex, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "some.json"
    if content is not None:
        file.write_bytes(content)
    before = sorted(path.name for path in (data / "conversations").iterdir())
    done = tenex("conversations", "import", file, "--data", data)
    assert done.returncode in (2, 4)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert "--from relay" not in done.stderr
    after = sorted(path.name for path in (data / "conversations").iterdir() if path.name != ".lock")
    assert after == before


def test_what_writes_is_refused_while_somebody_else_has_the_folder(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    file = tmp_path / "one.jsonl"
    tenex("conversations", "export", "1111", "--out", file, "--data", data)
    with FolderLock(data / "conversations"):
        for words in (("import", file), ("rebuild", "1111", "--from", "conversation.json", "--force")):
            done = tenex("conversations", *words, "--data", data)
            assert done.returncode == 4
            assert "is in use by process" in done.stderr


def test_rebuild_wants_a_reason_and_a_source(data: Path, tenex: Tenex) -> None:
    done = tenex("conversations", "rebuild", "1111", "--from", "conversation.json", "--data", data)
    assert done.returncode == 2
    assert "is whole" in done.stderr
    done = tenex("conversations", "rebuild", "1111", "--from", "memory", "--data", data)
    assert (done.returncode, "Choose conversation.json or relay" in done.stderr) == (2, True)
    done = tenex("conversations", "rebuild", "1111", "--data", data)
    assert (done.returncode, "is whole" in done.stderr) == (2, True), "the readable file is taken where none is named"


def test_a_rebuild_of_what_there_is_not_makes_nothing(data: Path, tmp_path: Path, tenex: Tenex) -> None:
    before = sorted((data / "conversations").iterdir())
    done = tenex("conversations", "rebuild", "e" * 64, "--data", data)
    assert (done.returncode, "There is no conversation eeee" in done.stderr) == (2, True)
    assert [path for path in sorted((data / "conversations").iterdir()) if path.name != ".lock"] == before
    done = tenex("conversations", "rebuild", "e" * 64, "--data", tmp_path / "mistyped")
    assert (done.returncode, "mistyped: no such folder" in done.stderr) == (2, True)
    assert not (tmp_path / "mistyped").exists()


def test_rebuild_reports_what_is_lost_and_where_the_backup_is(data: Path, tenex: Tenex) -> None:
    spoil(data, ONE)
    done = tenex("conversations", "rebuild", "1111", "--from", "conversation.json", "--data", data)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{ONE}: ")
    assert [line for line in lines if line.startswith("  lost: ")]
    aside = Path(lines[-1].removeprefix("The old files are in ").partition(". Write")[0])
    assert (aside / "journal.jsonl").exists()
    assert tenex("conversations", "verify", "--data", data).returncode == 0
    assert "recovered from conversation.json" in tenex("conversations", "show", "1111", "--data", data).stdout


def test_a_view_nested_without_end_stops_no_list(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one file of one conversation, and somebody else's program may have written it."""
    spoil(data, ONE)
    (data / "conversations" / ONE / "conversation.json").write_text("[" * 100_000)
    assert main(["conversations", "list", "--data", str(data)]) == 0
    listed = capsys.readouterr().out
    assert (f"{ONE[:12]}  unread" in listed, TWO[:12] in listed) == (True, True)
    assert main(["status", "--data", str(data)]) == 1
    assert "QUARANTINED" in capsys.readouterr().out


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("I want something nice")
    scenario.settle()
    (tmp_path / "data").mkdir()
    file = tmp_path / "carried.jsonl"
    file.write_bytes(packed(ID, [record for decision in scenario.journal for record in decision], Millis(1)))
    return file


def test_a_disk_that_takes_the_records_and_not_the_view_has_the_conversation(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Views, "show", full)
    assert main(["conversations", "import", str(exported), "--data", str(tmp_path / "data")]) == 0
    out, stderr = capsys.readouterr()
    assert "imported." in out
    assert "conversation.json could not be written: No space left on device." in stderr
    monkeypatch.undo()
    assert main(["conversations", "import", str(exported), "--data", str(tmp_path / "data")]) == 0
    assert "already here, unchanged." in capsys.readouterr().out


def test_a_file_of_a_newer_program_is_called_that(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not a damaged file of an older one."""
    exported.write_bytes(exported.read_bytes().replace(b'"version":1', b'"version":2', 1))
    assert main(["conversations", "import", str(exported), "--data", str(tmp_path / "data")]) == 4
    assert "it was exported by a newer tenex" in capsys.readouterr().err
