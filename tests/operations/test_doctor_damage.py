"""Every damage to a data folder that can be named: found with its location and its fix; and repairing drops no byte."""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.cli.init import prepare
from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, Millis, Slug
from tenex.core.records import Record
from tenex.core.state.snapshot import StateSnapshot
from tenex.operations.doctor import configuration as configuring
from tenex.operations.doctor import machine
from tenex.operations.doctor.conversations import conversations, daemon_journal, index
from tenex.operations.doctor.daemon import control
from tenex.operations.doctor.daemon import daemon as holder
from tenex.operations.doctor.files import folders, permissions
from tenex.operations.doctor.findings import Case, Check, DaemonProcess, Finding, Level
from tenex.operations.doctor.runner import examine, repair_all
from tenex.store.daemon_journal import DAEMON, LessonLearned
from tenex.store.format import CONVERSATION
from tenex.store.lock import FolderLock
from tests.store.kit import asked, closed, going_on, started

NAME, OTHER = ConversationId("a" * 64), ConversationId("b" * 64)
Damage = Callable[[Path], object]
"""Damages a data folder."""

LESSON = DAEMON.encode_decisions(
    [[LessonLearned(seq=1, at=Millis(1), agent=Slug("executor"), conversation=NAME, title="t", lesson="l", key="k")]]
)
CHECKS = [
    Check(name=look.__name__, examine=look, timeout=20)
    for look in (folders, permissions, conversations, daemon_journal, index, control)
]


def between(data: Path, folder: Path) -> None:
    """Put a folder where a rebuild has it between its two renames; and make it be there, unless it was."""
    left = data / "conversations" / f".{folder.name}.abcd1234.tmp"
    (left / folder.name).mkdir(parents=True)
    if folder.exists():
        folder.rename(left / "was")
    else:
        (left / "was").mkdir()
        shutil.copytree(folder.parent / OTHER, folder)


def write(path: Path, data: bytes = b"x") -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two conversations, one of them in three files, lessons and an index."""
    data = prepare(tmp_path / "data", None, []).data
    make(data)
    return data


def make(data: Path) -> None:
    """Put the conversations there, with nothing wrong."""
    root = data / "conversations"
    records = list(going_on(1, 6, NAME))
    parts: list[list[Record]] = [records[:7], records[7:12], records[12:]]
    for number, part in enumerate(parts, 1):
        before: list[Record] = [record for earlier in parts[: number - 1] for record in earlier]
        decisions: list[list[Record]] = [[StateSnapshot.of(fold(NAME, before))], part] if before else [part]
        name = "journal.jsonl" if number == 1 else f"journal-{number:06}.jsonl"
        write(root / NAME / name, CONVERSATION.encode_decisions(decisions))
    lines: list[list[Record]] = [[started(OTHER)], [asked(2), asked(3)], [closed(4)]]
    write(root / OTHER / "journal.jsonl", CONVERSATION.encode_decisions(lines))
    for name, seq in ((NAME, records[-1].seq), (OTHER, 4)):
        write(root / name / "conversation.json", json.dumps({"id": name, "seq": seq}).encode())
        write(root / name / "orchestratorTurns-000001.json", b"[]")


async def examined(data: Path, *, running: bool = False) -> list[Finding]:
    """The faults and warnings of a folder."""
    case = Case(data=data, config=None, env={}, daemon=DaemonProcess(running=running))
    first = [
        Check(name="settings", examine=configuring.settings, timeout=9),
        *([] if running else [Check(name="daemon", examine=holder, timeout=9)]),
    ]
    return [finding for finding in await examine(case, first, CHECKS) if finding.level is not Level.OK]


def here(data: Path, name: str, conversation: str = NAME) -> Path:
    return data / "conversations" / conversation / name


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def as_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def emptied(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir(0o700)


def another_version(data: Path) -> None:
    path = data / "conversations" / "index.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("pragma user_version = 99; create table x (y)")
    path.chmod(0o600)


DAMAGES: dict[str, tuple[Damage, str, str, str]] = {
    # how it is done; location, message, fix
    "a flipped bit": (lambda d: flip(here(d, "journal-000002.jsonl")), "journal-000002.jsonl", "line", "from a backup"),
    "an empty newest file": (
        lambda d: write(here(d, "journal-000003.jsonl"), b""),
        "journal-000003.jsonl",
        "no checkpoint",
        "backup",
    ),
    "a file in the middle is gone": (
        lambda d: here(d, "journal-000002.jsonl").unlink(),
        "journal-000002.jsonl",
        "missing",
        "from a backup",
    ),
    "the newest file is gone": (
        lambda d: here(d, "journal-000003.jsonl").unlink(),
        "conversation.json",
        "the end of it is missing",
        "newest",
    ),
    "a file twice": (
        lambda d: shutil.copy(here(d, "journal-000002.jsonl"), here(d, "journal-000004.jsonl")),
        "journal-000003.jsonl",
        "journal-000004.jsonl follows",
        "a copy or older",
    ),
    "the first file again": (
        lambda d: shutil.copy(here(d, "journal.jsonl"), here(d, "journal-000004.jsonl")),
        "journal-000004.jsonl",
        "no checkpoint of the files before it",
        "a copy or older",
    ),
    "a later file for the first": (
        lambda d: shutil.copy(here(d, "journal-000002.jsonl"), here(d, "journal.jsonl", OTHER)),
        "journal.jsonl",
        "checkpoint of files that are not there",
        "move it out",
    ),
    "a copy under another name": (
        lambda d: shutil.copy(here(d, "journal.jsonl"), here(d, "journal (copy).jsonl")),
        "journal (copy).jsonl",
        "never read",
        "move it out",
    ),
    "a rotation begun and not finished": (
        lambda d: write(here(d, ".journal-000004.jsonl.abcd1234.tmp")),
        ".tmp",
        "interrupted write",
        "the next start does too",
    ),
    "an import cut short": (
        lambda d: (d / f"conversations/.{'c' * 64}.abcd1234.tmp").mkdir(),
        ".tmp",
        "interrupted",
        "the command again",
    ),
    "a rebuild cut short": (
        lambda d: between(d, here(d, "journal.jsonl").parent),
        ".tmp",
        "before its last step",
        "restores the folder",
    ),
    "a rebuild cut short, and its conversation begun again": (
        lambda d: between(d, d / "conversations" / ("c" * 64)),
        ".tmp",
        "before a rebuild",
        "when you have looked",
    ),
    "a torn tail set aside": (
        lambda d: write(here(d, "journal-000003.torn-20260101T000000Z-1")),
        "torn-",
        "torn tail",
        "when you have",
    ),
    "a damaged journal set aside": (
        lambda d: here(d, "journal.damaged-20260101T000000Z-1").mkdir(),
        "journal.damaged-",
        "before it was repaired",
        "when you",
    ),
    "a view that is no JSON": (
        lambda d: write(here(d, "conversation.json"), b"{"),
        "conversation.json",
        "cannot be read",
        "move it away",
    ),
    "a folder for the view": (
        lambda d: as_folder(here(d, "conversation.json")),
        "conversation.json",
        "cannot be read",
        "move it away",
    ),
    "older turns that are no JSON": (
        lambda d: write(here(d, "orchestratorTurns-000001.json"), b"\x00"),
        "orchestratorTurns",
        "cannot be read",
        "move it away",
    ),
    "a copy of a conversation under another name": (
        lambda d: shutil.copytree(d / "conversations" / OTHER, d / "conversations" / ("c" * 64)),
        f"{'c' * 64}/journal.jsonl",
        "in the folder of another one",
        "give it its name back",
    ),
    "a folder for the journal": (
        lambda d: as_folder(here(d, "journal.jsonl", OTHER)),
        "journal.jsonl",
        "not a file",
        "what it is",
    ),
    "an old file": (lambda d: write(d / f"conversations/{'c' * 64}.json", b"[}"), "c.json", "older program", "relay"),
    "an old file beside its folder": (
        lambda d: write(d / f"conversations/{NAME}.json", b"{}"),
        "a.json",
        "not read",
        "move it out",
    ),
    "a quarantine that is over": (
        lambda d: write(here(d, "QUARANTINED"), b"line 3"),
        "QUARANTINED",
        "whole again",
        "reload",
    ),
    "damaged lessons": (
        lambda d: write(d / "conversations/_daemon/journal.jsonl", b"{}\n" + LESSON),
        "_daemon",
        "cannot be right",
        "without the lessons",
    ),
    "a folder for the index": (
        lambda d: as_folder(d / "conversations/index.sqlite"),
        "index.sqlite",
        "not a file",
        "rebuilds it",
    ),
    "an index of nonsense": (
        lambda d: write(d / "conversations/index.sqlite", b"nonsense" * 999),
        "index.sqlite",
        "damaged",
        "rebuilds it",
    ),
    "an index of another version": (another_version, "index.sqlite", "not of version", "rebuilds it"),
    "an index set aside": (
        lambda d: write(d / "conversations/index.damaged-1"),
        "index.damaged-1",
        "moved away",
        "remove it",
    ),
    "a file for the socket": (lambda d: write(d / "tenex.sock"), "tenex.sock", "not a socket", "move it away"),
    "a folder for the socket": (lambda d: as_folder(d / "tenex.sock"), "tenex.sock", "not a socket", "move it away"),
    "a journal others may write": (lambda d: (d / "conversations").chmod(0o777), "conversations", "others", "chmod"),
    "a folder that is not a conversation": (
        lambda d: (d / "conversations/notes").mkdir(),
        "notes",
        "64 hex digits",
        "move it out",
    ),
    "an emptied folder": (lambda d: emptied(d / "conversations" / OTHER), OTHER, "no conversation", "if"),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_each_damage_is_reported_with_its_location_and_fix(data: Path, name: str) -> None:
    assert await examined(data) == []
    damage, location, message, fix = DAMAGES[name]
    damage(data)
    found = await examined(data)
    assert [f for f in found if location in f.location and message in f.message and fix in f.fix], found
    assert all(f.fix for f in found)


@pytest.mark.parametrize("name", DAMAGES)
async def test_beside_a_running_daemon_nothing_is_fixed_that_it_owns(data: Path, name: str) -> None:
    """What it may be writing is not damage, and `--fix` does not change its files."""
    DAMAGES[name][0](data)
    with FolderLock(data / "conversations"):
        found = await examined(data, running=True)
        before = contents(data / "conversations")
        done = await repair_all(data / "conversations", found)
    assert contents(data / "conversations") == before
    assert all(fixed.success for fixed in done if "set to" in fixed.done)


async def test_what_an_import_left_is_removed_and_what_a_rebuild_needs_is_not(data: Path) -> None:
    left = data / "conversations" / f".{'c' * 64}.abcd1234.tmp"
    write(left / ".journal.jsonl.abcd1234.tmp")
    between(data, here(data, "journal.jsonl").parent)
    done = await repair_all(data / "conversations", await examined(data))
    assert [(fixed.success, fixed.done) for fixed in done] == [(True, "removed")]
    assert not left.exists()
    (found,) = [found for found in await examined(data) if found.location.endswith(".tmp")]
    assert "before its last step" in found.message


def contents(data: Path) -> dict[str, str]:
    """What every file holds, by its path."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.soak)])
async def test_repairing_any_damages_together_loses_no_byte_and_comes_to_an_end(tmp_path: Path, examples: int) -> None:
    """All content is still there, perhaps under another name, except for what an interrupted write left."""
    plain = prepare(tmp_path / "plain", None, []).data
    make(plain)
    chosen: list[list[str]] = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=6, unique=True))
    def choose(names: list[str]) -> None:
        chosen.append(names)

    choose()
    for number, names in enumerate(chosen):
        data = tmp_path / f"data-{number}"
        shutil.copytree(plain, data)
        for name in names:
            try:
                DAMAGES[name][0](data)
            except (OSError, sqlite3.Error):  # an earlier damage removed its file
                continue
        before = {path: held for path, held in contents(data).items() if not path.endswith(".tmp")}
        found = await examined(data)
        assert found, names
        await repair_all(data / "conversations", found)
        after = contents(data)
        assert set(before.values()) <= set(after.values()), names
        journals = {path: held for path, held in before.items() if "/journal" in path}
        assert journals.items() <= after.items(), f"{names}: only its reader repairs a journal"
        again = await examined(data)
        assert not [f for f in again if f.repair is not None], f"{names}: repairs are complete"
        shutil.rmtree(data)


def test_a_folder_that_is_read_only_is_a_fault(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk mounted read-only root may not write either, and `access` returns False."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != NAME and real(path, mode))
    case = Case(data=data, config=None, env={})
    list(configuring.settings(case))
    (found,) = [f for f in conversations(case) if f.level is Level.FAULT]
    assert "read-only" in found.message
    assert found.error.exit_code == 4


async def test_what_another_doctor_flushes_for_a_look_is_no_damage(data: Path) -> None:
    """Two doctors at once, or two checks of one, must not report each other."""
    write(data / "conversations" / f"{machine.PROBE}abcd1234.tmp")
    assert await examined(data) == []


def test_a_full_disk_of_its_own_under_the_workspace_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conversations continue there; agents do not."""
    found = machine.free_space(tmp_path, is_store=False)
    assert found.level is Level.OK
    real = os.statvfs(tmp_path)
    full = SimpleNamespace(f_bavail=0, f_frsize=real.f_frsize, f_files=9, f_favail=9)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    found = machine.free_space(tmp_path, is_store=False)
    assert (found.level, found.message) == (Level.WARNING, "only 0 bytes are free")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{**vars(full), "f_bavail": 10**9, "f_favail": 0}))
    found = machine.free_space(tmp_path, is_store=False)
    assert (found.level, found.message) == (Level.WARNING, "no more files can be created")
