"""`tenex doctor` and what is on disk: every damage that can be named, permissions, keys, the machine; and repairs."""

import asyncio
import grp
import hashlib
import json
import os
import pwd
import re
import resource
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.cli.init import prepare
from tenex.core.conversation import fold
from tenex.core.errors import ConfigurationError, StoreError
from tenex.core.ids import ConversationId, Millis, Slug
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.nostr.keys import KeyRing
from tenex.operations.doctor import configuration as configuring
from tenex.operations.doctor import conversations as on_disk
from tenex.operations.doctor import machine
from tenex.operations.doctor.conversations import claims, conversations, daemon_journal, index
from tenex.operations.doctor.daemon import control
from tenex.operations.doctor.daemon import daemon as holder
from tenex.operations.doctor.files import folders, keys, permissions
from tenex.operations.doctor.findings import Case, Finding, Level
from tenex.operations.doctor.machine import disk, file_system, git, sandbox
from tenex.operations.doctor.runner import Check, examine, repair_all
from tenex.settings.file_rights import is_own_group
from tenex.store.daemon_journal import DAEMON, LessonLearned
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.lock import FolderLock
from tenex.store.repository import ConversationFolder
from tenex.store.stats_cache import NAME as STATS
from tenex.store.verify import VerifyResult
from tenex.store.view import Views
from tests.store.kit import StillClock, asked, closed, going_on, started, waits, wrote

from .doctor_kit import bad, case_of, change, text_of

NAME, OTHER = ConversationId("a" * 64), ConversationId("b" * 64)
ROOM = "conversations"
INDEX, KEY, LESSONS, TEMPORARY = (
    "index.sqlite",
    "keys/project.nsec",
    "_daemon/journal.jsonl",
    ".journal-000004.jsonl.abcd1234.tmp",
)
_BODY = b'{"v":1,"seq":1,"remaining":0,"at":1,"type":"MoodNoted","data":{}'
NEWER = _BODY + b',"crc":"%08x"}\n' % crc32(_BODY)
LESSON = DAEMON.encode_decisions(
    [[LessonLearned(seq=1, at=Millis(1), agent=Slug("executor"), conversation=NAME, title="t", lesson="l", key="k")]]
)
SETTINGS = Check("settings", configuring.settings, 9, needs_settings=False)
CHECKS = [
    Check(look.__name__, look, 20)
    for look in (folders, permissions, keys, conversations, daemon_journal, index, control)
]


def write(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


@pytest.fixture
def stored(data: Path) -> Path:
    """A data folder with two conversations, one of them in three files."""
    make(data)
    return data


def make(data: Path) -> None:
    """Put the conversations there, with nothing wrong."""
    root = data / ROOM
    records = list(going_on(1, 6, NAME))
    parts: list[list[Record]] = [records[:7], records[7:12], records[12:]]
    for number, part in enumerate(parts, 1):
        before: list[Record] = [record for earlier in parts[: number - 1] for record in earlier]
        decisions: list[list[Record]] = [[StateSnapshot.of(fold(NAME, before))], part] if before else [part]
        name = "journal.jsonl" if number == 1 else f"journal-{number:06}.jsonl"
        write(root / NAME / name, CONVERSATION.encode_decisions(decisions))
    lines: list[list[Record]] = [[started(OTHER)], [asked(2), asked(3)], [closed(4, "a user's text")]]
    write(root / OTHER / "journal.jsonl", CONVERSATION.encode_decisions(lines))
    write(root / ".gitkeep", b"")  # as in a checkout of the repository
    for name, seq in ((NAME, records[-1].seq), (OTHER, 4)):
        write(root / name / "conversation.json", json.dumps({"id": name, "seq": seq}).encode())


async def examined(data: Path, *, running: bool = False) -> list[Finding]:
    """The faults and warnings of a folder."""
    case = Case(data=data, config=None, env={}, daemon="process 1" if running else "")
    first = [
        Check("settings", configuring.settings, 9, needs_settings=False),
        *([] if running else [Check("daemon", holder, 9)]),
    ]
    return [finding for finding in await examine(case, first, CHECKS) if finding.level is not Level.OK]


def here(data: Path, name: str, conversation: str = NAME) -> Path:
    return data / ROOM / conversation / name


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def as_file(path: Path) -> None:
    path.rmdir()
    write(path)


def emptied(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir(0o700)


def between(data: Path, folder: Path) -> None:
    """Put a folder where a rebuild has it between its two renames; and make it be there, unless it was."""
    left = data / ROOM / f".{folder.name}.abcd1234.tmp"
    (left / folder.name).mkdir(parents=True)
    if folder.exists():
        folder.rename(left / "was")
    else:
        (left / "was").mkdir()
        shutil.copytree(folder.parent / OTHER, folder)


def agent_as_owner(data: Path) -> None:
    (data / "tenex.toml").write_text(f'[people]\nowners = ["{KeyRing(data / "keys").get("executor").npub}"]\n')


def another_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("pragma user_version = 99; create table x (y)")
    path.chmod(0o600)


def journal(data: Path, number: int = 1) -> Path:
    """A file of the longer conversation's journal."""
    return here(data, "journal.jsonl" if number == 1 else f"journal-{number:06}.jsonl")


OLD = f"{'c' * 64}.json"
HALF = f".{'c' * 64}.abcd1234.tmp"
SHORT = f"rebuild {NAME[:12]} --from"
DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    # name, how it is done, and location, message and fix as a pattern
    ("a flipped bit", lambda d: flip(journal(d, 2)), "000002.jsonl: line .*from a copy"),
    ("an empty newest file", lambda d: write(journal(d, 3), b""), f"000003.jsonl: .*no snapshot.*{SHORT}"),
    ("a file in the middle is gone", lambda d: journal(d, 2).unlink(), "000002.jsonl: is missing.*from a copy"),
    ("the newest file is gone", lambda d: journal(d, 3).unlink(), "conversation.json: .*journal ends with.*newest"),
    ("no journal", lambda d: here(d, "journal.jsonl", OTHER).unlink(), "journal.jsonl: it is missing.*from a copy"),
    ("a renamed file", lambda d: copy(journal(d), here(d, "journal (copy).jsonl")), "never read -> .*move it out"),
    ("a rotation cut short", lambda d: write(here(d, TEMPORARY)), "1 file left by .*next start does too"),
    ("an import cut short", lambda d: (d / ROOM / HALF).mkdir(), "tmp: .*interrupted .*the command again"),
    ("a rebuild cut short", lambda d: between(d, d / ROOM / NAME), "before its last step.*restores the folder"),
    ("a rebuild after all", lambda d: between(d, d / ROOM / ("c" * 64)), "before a rebuild -> .*you have looked"),
    ("a torn tail kept", lambda d: write(here(d, "journal-000003.torn-2026-1")), "a torn tail .*when you have looked"),
    ("damage kept", lambda d: here(d, "journal.damaged-2026-1").mkdir(), "before it was repaired -> .*you have looked"),
    ("a lost end", lambda d: write(here(d, "conversation.ahead-9-1")), "ahead-9-1: holds records .* -> To rebuild"),
    ("a view that is no JSON", lambda d: write(here(d, "conversation.json"), b"{"), "as JSON -> .*move the file away"),
    ("an old file that is damaged", lambda d: write(d / ROOM / OLD, b"[}"), "c.json: .*older program.* relay"),
    ("an old file", lambda d: write(d / ROOM / OLD, b"{}"), "c.json: .*not imported -> .*conversations import"),
    ("an old file of a folder", lambda d: write(d / ROOM / f"{NAME}.json", b"{}"), "a.json: .*not read -> move it out"),
    ("a quarantine that is over", lambda d: write(here(d, "QUARANTINED")), "QUARANTINED: .*whole again -> .*reload"),
    ("damaged lessons", lambda d: write(d / ROOM / LESSONS, b"{}\n" + LESSON), "cannot be right.*without the lessons"),
    ("newer lessons", lambda d: write(d / ROOM / LESSONS, NEWER), "another version of tenex .* -> upgrade tenex"),
    ("a folder for the index", lambda d: (d / ROOM / INDEX).mkdir(), "sqlite: this is not a file -> .*rebuilds it"),
    ("an index of nonsense", lambda d: write(d / ROOM / INDEX, b"nonsense" * 999), "sqlite: .*damaged.*rebuilds it"),
    ("another version", lambda d: another_version(d / ROOM / INDEX), "sqlite: .*not of version.*rebuilds it"),
    ("a folder for the socket", lambda d: (d / "tenex.sock").mkdir(), "sock: this is not a socket -> move it away"),
    ("a folder others may change", lambda d: (d / ROOM).chmod(0o777), "conversations: others may change .*chmod"),
    ("not a conversation", lambda d: (d / ROOM / "notes").mkdir(), "notes: .*64 hex digits -> move it out"),
    ("an emptied folder", lambda d: emptied(d / ROOM / OTHER), f"{OTHER}: this holds no conversation -> remove it"),
    ("a missing folder", lambda d: (d / "agents").rmdir(), "agents: the folder is missing -> run `tenex init`"),
    ("a file for a folder", lambda d: as_file(d / "workspace"), "fault .*workspace: this is a file, where a folder"),
    ("a key others may read", lambda d: (d / KEY).chmod(0o644), "fault .*nsec: others may read this key .*chmod 600"),
    ("keys others may see", lambda d: (d / "keys").chmod(0o755), "warning .*keys: others may read this"),
    ("settings others change", lambda d: (d / "tenex.toml").chmod(0o666), "fault .*toml: others may change this"),
    ("a key twice", lambda d: copy(d / "keys/executor.nsec", d / "keys/planner.nsec"), "same key as executor.nsec"),
    ("the project's key twice", lambda d: copy(d / KEY, d / "keys/executor.nsec"), "fault .*executor.*as project.nsec"),
    ("the owner's key twice", lambda d: copy(d / "keys/owner.nsec", d / "keys/executor.nsec"), "executor.*as owner.ns"),
    ("the key of an agent as an owner", agent_as_owner, r"people\.owners\[0\]: this is the key of executor"),
    ("no key of the project", lambda d: (d / KEY).unlink(), "fault .*the project's key is missing.*tenex init"),
    ("no folder of keys", lambda d: shutil.rmtree(d / "keys"), "fault .*the project's key is missing.*from a backup"),
    ("no key of an agent", lambda d: (d / "keys/executor.nsec").unlink(), "warning .*this agent has no key"),
    ("a key of nonsense", lambda d: write(d / "keys/old.nsec", b"\xff"), "old.nsec: .*holds no nsec1 key"),
    ("not the name of a key", lambda d: write(d / "keys/a b.nsec"), "a b.nsec: this is not the name of a key"),
    ("a key half written", lambda d: write(d / "keys/.executor.nsec.k3k3"), "k3k3: this was left .*interrupted"),
]
DAMAGE = {name: damage for name, damage, _ in DAMAGES}


@pytest.mark.parametrize(("name", "pattern"), [(name, pattern) for name, _, pattern in DAMAGES], ids=DAMAGE)
async def test_each_damage_is_reported_with_its_location_and_fix(
    stored: Path, name: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a daemon nothing that it owns is changed by repairs."""
    monkeypatch.setattr("tenex.operations.doctor.daemon.WAIT", 0.0)  # for a daemon that starts: this one never answers
    DAMAGE[name](stored)
    found = await examined(stored)
    assert re.search(pattern, text_of(found)), text_of(found)
    assert all(f.fix for f in found)
    assert not re.search("user's text|nsec1[a-z0-9]{6}", text_of(found))
    with FolderLock(stored / ROOM):
        found = await examined(stored, running=True)
        before = contents(stored / ROOM)
        done = await repair_all(stored / ROOM, found)
    assert contents(stored / ROOM) == before
    assert all(fixed.success for fixed in done if "set to" in fixed.done)


@pytest.mark.parametrize(("name", "pattern"), [(name, pattern) for name, _, pattern in DAMAGES[:13]])
async def test_of_older_conversations_checksums_find_the_same_damage(
    stored: Path, name: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a readable file that was changed within is found by decoding alone."""
    monkeypatch.setattr(on_disk, "READ", 0)
    await as_views_are_written(stored)
    assert await examined(stored) == []
    (found,) = conversations(case_of(stored))
    assert found.message.startswith("2 conversations whole, 2 older ones by checksums alone")

    DAMAGE[name](stored)
    assert re.search(pattern, text_of(await examined(stored)))


async def as_views_are_written(data: Path) -> None:
    """Replace the readable files by those of a daemon."""
    disk = Disk()
    folder = ConversationFolder(data / ROOM, disk, StillClock())
    for name in (NAME, OTHER):
        await Views(folder, disk).show(fold(name, await folder.read(name)))
    disk.close()


def test_older_conversations_are_not_decoded(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(as_views_are_written(stored))
    for name, at in ((NAME, 1), (OTHER, 2)):
        os.utime(stored / ROOM / name, (at, at))
    monkeypatch.setattr(on_disk, "READ", 1)
    decoded: list[str] = []

    async def verified(_: object, name: ConversationId, **__: object) -> VerifyResult:
        decoded.append(name)
        return VerifyResult(id=name)

    monkeypatch.setattr(on_disk, "verify", verified)
    (found,) = conversations(case_of(stored))
    assert decoded == [OTHER], "the one that changed last"
    assert "1 older ones by checksums" in found.message


async def test_a_whole_folder_gives_no_finding(stored: Path) -> None:
    write(stored / ROOM / f"{machine.PROBE}abcd1234.tmp")  # of another doctor
    write(stored / ROOM / STATS, b"{}")  # of `tenex conversations stats`
    assert await examined(stored) == []


def contents(data: Path) -> dict[str, str]:
    """What every file holds, by its path."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.soak)])
async def test_repairing_any_damages_together_loses_no_byte_and_comes_to_an_end(tmp_path: Path, examples: int) -> None:
    """All content is still there, except for what an interrupted write left, and the index, which is a cache."""
    plain = prepare(tmp_path / "plain", None, []).data
    make(plain)
    chosen: list[list[str]] = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(st.sampled_from(sorted(DAMAGE)), min_size=1, max_size=6, unique=True))
    def choose(names: list[str]) -> None:
        chosen.append(names)

    choose()
    for number, names in enumerate(chosen):
        data = tmp_path / f"data-{number}"
        shutil.copytree(plain, data)
        for name in names:
            try:
                DAMAGE[name](data)
            except (OSError, sqlite3.Error, ConfigurationError):  # an earlier damage removed its file
                continue
        before = {path: held for path, held in contents(data).items() if not path.endswith((".tmp", INDEX))}
        found = await examined(data)
        assert found, names
        await repair_all(data / ROOM, found)
        after = contents(data)
        assert set(before.values()) <= set(after.values()), names
        journals = {path: held for path, held in before.items() if "/journal" in path}
        assert journals.items() <= after.items(), f"{names}: only its reader repairs a journal"
        again = await examined(data)
        assert not [f for f in again if f.repair is not None], f"{names}: repairs are complete"
        shutil.rmtree(data)


async def test_a_torn_tail_is_a_warning_unless_a_daemon_writes(stored: Path) -> None:
    for path in (here(stored, "journal.jsonl", OTHER), stored / ROOM / LESSONS):
        write(path, (path.read_bytes() if path.exists() else LESSON) + b'{"v":1')
    torn = "the last 6 bytes are an interrupted write"
    assert [(f.level, torn in f.message) for f in await examined(stored)] == [(Level.WARNING, True)] * 2
    assert [f.check for f in await examined(stored, running=True)] == ["control"]


def test_a_folder_that_is_read_only_is_a_fault(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk mounted read-only root may not write either, and `access` returns False."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != NAME and real(path, mode))
    (found,) = bad(conversations, case_of(stored))
    assert ("read-only" in found.message, found.error.exit_code) == (True, 4)


async def test_the_index_is_read_and_left_as_it_is(stored: Path, disk: Disk) -> None:
    path = stored / ROOM / INDEX
    cache = Index(path)
    try:
        await cache.catch_up(ConversationFolder(stored / ROOM, disk, StillClock()))
        assert not bad(index, case_of(stored)), "while somebody writes to it"
    finally:
        await cache.close()
    assert not bad(index, case_of(stored))
    assert [found.name for found in path.parent.glob("index*")] == [INDEX]


# ---- folders, permissions, keys


async def test_a_missing_or_foreign_folder_is_reported_and_not_created(tmp_path: Path) -> None:
    assert "there is no such folder -> run `tenex init`" in text_of(await examined(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "something").write_text("of another program")
    assert "holds nothing of tenex" in text_of(bad(folders, case_of(tmp_path)))


def test_a_link_is_not_followed_when_permissions_are_fixed(data: Path, tmp_path: Path) -> None:
    (data / "keys" / "x.nsec").symlink_to(tmp_path)
    tmp_path.chmod(0o755)
    assert not bad(permissions, case_of(data))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_another_user_are_reported(stored: Path) -> None:
    os.chown(stored / "keys" / "project.nsec", 12_345, -1)
    os.chown(stored / ROOM / NAME, 12_345, -1)
    found = bad(permissions, case_of(stored))
    assert {f.error for f in found} == {ConfigurationError, StoreError}
    assert all("chown" in f.fix for f in found)


PROGRAMS = ("agents/spy.md", "agents/deep/helper.py", "config/workflows/flow.toml")
PLACES = (*PROGRAMS, "agents", "config/workflows", "config", "named.toml")
"""Agents, Python beside them, workflows, the folder around them, and settings that were named."""


def with_code(data: Path) -> Case:
    """The folder with agents, workflows and a configuration elsewhere, that no other user may change."""
    (data / "named.toml").write_text((data / "tenex.toml").read_text())
    for name in PROGRAMS:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    for path in data.rglob("*"):
        path.chmod(0o755 if path.is_dir() and path.name not in ("keys", ROOM) else path.stat().st_mode & ~0o022)
    return case_of(data, data / "named.toml")


def belongs_to(user: int, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, -1, follow_symlinks=False)


async def test_code_and_settings_that_others_may_change_are_a_fault_and_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder above is closed to others it is a warning. The target of a link counts; a broken one does not."""
    monkeypatch.setattr("tenex.operations.doctor.files.is_own_group", lambda *_: False)

    def faults() -> list[Finding]:
        return [f for f in permissions(case) if f.level is Level.FAULT]

    with TemporaryDirectory() as folder:
        data = prepare(Path(folder) / "data", None, ["ws://127.0.0.1:1"]).data
        case, linked = with_code(data), Path(folder) / "other.py"
        linked.touch()
        linked.chmod(0o644)
        (data / "agents/linked.py").symlink_to(linked)
        (data / "agents/nowhere.py").symlink_to("nowhere")
        for place in (*PLACES, "agents/linked.py"):
            path, real = data / place, (data / place).resolve()
            before = stat.S_IMODE(path.stat().st_mode)
            real.chmod(before | 0o002)
            os.chmod(folder, 0o700)  # noqa: PTH101 pathlib blocks, says ruff
            assert [f.level for f in bad(permissions, case) if f.location == str(path)] == [Level.WARNING]
            for open_folder in (Path(folder), data):
                open_folder.chmod(0o755)
            for mode in (0o020, 0o002):
                real.chmod(before | mode)
                (found,) = faults()
                assert (found.location, found.fix) == (str(path), f"run `chmod go-w {real}`")
                assert f"others may change this (mode {before | mode:04o})" in found.message
                assert all(fixed.success for fixed in await repair_all(data / ROOM, [found]))
                assert stat.S_IMODE(path.stat().st_mode) == before
            if os.geteuid() == 0:
                belongs_to(4_321, Path(folder))
                assert not faults(), "the user who will run the daemon"
                os.chown(real, 12_345, -1)
                (found,) = faults()
                assert (found.location, found.fix) == (str(path), f"run `chown 4321 {real}` as root")
                belongs_to(0, Path(folder))


async def test_a_folder_made_with_the_umask_of_users_with_a_group_of_their_own_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Debian, Ubuntu and Fedora give each user a group, and let it write to what the user makes."""
    with TemporaryDirectory() as folder:
        data = prepare(Path(folder) / "data", None, ["ws://127.0.0.1:1"]).data
        own = (data.stat().st_gid, data.stat().st_uid)
        monkeypatch.setattr("tenex.operations.doctor.files.is_own_group", lambda *given: given == own)
        Path(folder).chmod(0o755)
        data.chmod(0o775)
        (data / "tenex.toml").chmod(0o664)
        (data / "agents").chmod(0o775)
        found = bad(permissions, case_of(data))
        assert {one.level for one in found} == {Level.WARNING}
        assert all(one.message.startswith("others may read this") for one in found)
        (data / "agents").chmod(0o777)
        (fault,) = [one for one in bad(permissions, case_of(data)) if one.level is Level.FAULT]
        assert fault.location == str(data / "agents")


def test_a_group_is_of_one_user_if_no_one_else_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ann = pwd.struct_passwd(("ann", "x", 1000, 1000, "", "/", ""))
    bob = pwd.struct_passwd(("bob", "x", 1001, 1001, "", "/", ""))
    eve = pwd.struct_passwd(("eve", "x", 1002, 1001, "", "/", ""))
    accounts = {account.pw_uid: account for account in (ann, bob, eve)}
    groups: dict[int, list[str]] = {1000: [], 1001: [], 1003: ["ann", "bob"]}
    monkeypatch.setattr("pwd.getpwuid", accounts.__getitem__)
    monkeypatch.setattr("pwd.getpwall", lambda: list(accounts.values()))
    monkeypatch.setattr("grp.getgrgid", lambda group: grp.struct_group(("g", "x", group, groups[group])))
    assert is_own_group(1000, 1000)
    assert not is_own_group(1001, 1001), "eve has it too"
    assert not is_own_group(1003, 1000)
    assert not is_own_group(1000, 1001)
    assert not is_own_group(7, 7), "no such user"
    groups[1000] = ["bob"]
    assert not is_own_group(1000, 1000)


# ---- the machine


def test_a_package_that_is_missing_or_of_another_version_is_reported(data: Path) -> None:
    assert not bad(machine.program, case_of(data))
    met = ["coincurve<22,>=21", "nothing-else; extra == 'dev'", "nothing-at-all; python_version < '3'"]
    unmet = ["nothing-of-that-name>=1", "pynostr==0.0.1", "rich<1,>=0.5; extra == 'relay'"]
    found = [name for name, _ in machine.unmet_requirements([*met, *unmet])]
    assert found == ["nothing-of-that-name>=1", "pynostr==0.0.1", "rich<1,>=0.5"]


def test_few_open_files_a_port_in_use_and_a_missing_package_are_reported(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200, 4096))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        change(data, f'[metrics]\nport = {port}\n[traces]\nendpoint = "http://127.0.0.1:9/v1/traces?key=1"')
        files, metrics, traces = bad(machine.service, case_of(data))
    assert "only 200 files" in files.message
    assert metrics.location == "metrics.port"
    assert metrics.message == f"port {port} of 127.0.0.1 cannot be used (Address already in use)"
    assert (traces.level, traces.location, "otel" in traces.fix) == (Level.FAULT, "traces.endpoint", True)


def test_the_kind_of_disk_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nx /srv tmpfs rw 0 0\ny /srv/my\\040data nfs4 rw 0 0\n")
    assert file_system(Path("/srv/my data/x"), mounts) == "nfs4"
    assert file_system(Path("/srv/other"), mounts) == "tmpfs"
    assert file_system(Path("/home"), mounts) == "ext4"
    assert file_system(Path("/"), tmp_path / "none") == ""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no tmpfs here")
def test_a_data_folder_in_memory_is_a_warning() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        assert "everything is lost when the machine stops" in text_of(bad(disk, case_of(Path(folder))))
        assert not list(Path(folder).iterdir())


def test_a_disk_that_takes_nothing_is_a_fault_of_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    (found,) = bad(disk, case_of(data))
    assert (found.error, "No space left" in found.message) == (StoreError, True)
    assert not [path for path in (data / ROOM).iterdir() if path.name != ".lock"]


@pytest.mark.parametrize(
    ("free", "inodes", "is_store", "level", "message"),
    [
        (0, 9, False, Level.WARNING, "only 0 MB are free"),
        (10**9, 0, False, Level.WARNING, "no more files can be created"),
        (0, 9, True, Level.FAULT, "only 0 MB are free"),
        (10**9, 0, True, Level.FAULT, "no more files can be created"),
        (100_000, 9, True, Level.WARNING, "only 410 MB are free"),
        (10**9, 9, True, Level.OK, "4096.0 GB are free"),
    ],
)
def test_a_full_disk_is_a_fault_only_where_conversations_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, inodes: int, is_store: bool, level: Level, message: str
) -> None:
    full = SimpleNamespace(f_bavail=free, f_frsize=4096, f_files=9, f_favail=inodes)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    found = machine.free_space(tmp_path, is_store=is_store)
    assert (found.level, found.message) == (level, message)


def test_without_bubblewrap_the_tools_that_are_off_are_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    change(data, '[models.phases]\nchat = "openai:gpt-5"')
    found = bad(sandbox, case_of(data))
    assert "bubblewrap is not installed" in text_of(found)
    assert {f.location for f in found} == {"tools", "tools.shell.sandbox"}
    assert "only the offline model has a tool that runs what they wrote" in text_of(list(sandbox(case_of(data))))
    assert "git is not installed" in text_of(bad(git, case_of(data)))


def test_a_checkpoint_folder_that_is_no_repository_is_a_fault(data: Path) -> None:
    (data / "checkpoints").mkdir()
    assert not bad(git, case_of(data))
    (data / "checkpoints" / "HEAD").write_text("nonsense")
    (found,) = bad(git, case_of(data))
    assert found.location == str(data / "checkpoints")


def test_a_workspace_whose_repository_lies_elsewhere_is_reported_unless_that_names_it(
    data: Path, tmp_path: Path
) -> None:
    """Agents can use a linked worktree; a folder that any file may name they cannot."""
    workspace, main = data / "workspace", tmp_path / "main"
    workspace.mkdir(exist_ok=True)
    assert not bad(git, case_of(data))
    (workspace / ".git").write_text(f"gitdir: {main}\n")
    (found,) = bad(git, case_of(data))
    assert "agents cannot use git there" in found.message
    assert found.location == str(workspace)
    main.mkdir()
    (main / "gitdir").write_text(f"{workspace}/.git\n")
    assert not bad(git, case_of(data))


@pytest.mark.parametrize("has_index", [True, False])
async def test_a_conversation_that_claims_messages_of_another_is_named_with_it(data: Path, *, has_index: bool) -> None:
    root = data / ROOM
    for name, at in ((NAME, 9), (OTHER, 5)):
        records = [replace(started(name), at=Millis(at)), wrote(2, "1" * 64), wrote(3, name), waits(4)]
        write(root / name / "journal.jsonl", CONVERSATION.encode_decisions([records]))
    if has_index:
        found = Index(root / INDEX)
        await found.catch_up(ConversationFolder(root, Disk(), StillClock()))
        await found.close()
    *_, finding = await examine(Case(data=data, config=None, env={}), [SETTINGS], [Check("claims", claims, 20)])
    assert (finding.level, finding.location) == (Level.WARNING, str(root / NAME))
    assert finding.message == f"its journal claims 1 message of {OTHER}, which keeps them"
