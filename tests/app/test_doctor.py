"""`tenex doctor`: how checks are run, and what they say of settings, folders, permissions, keys and the machine."""

import asyncio
import fcntl
import os
import re
import resource
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.app.doctor import machine
from tenex.app.doctor.checks import FIRST, THEN
from tenex.app.doctor.configuring import agents, paths_and_people, settings
from tenex.app.doctor.disk import disk, kind_of
from tenex.app.doctor.examination import MOST, Report, examine, mend
from tenex.app.doctor.findings import Case, Check, Daemon, Finding, Fix, Level, fault, ok, warning
from tenex.app.doctor.keeping import folders, permissions
from tenex.app.doctor.keyring import keys
from tenex.app.doctor.models import models
from tenex.app.doctor.running import control, daemon, holder
from tenex.app.doctor.testimony import complaints
from tenex.app.doctor.workbench import git, sandbox
from tenex.cli.init import prepare
from tenex.core.errors import Bug, ConfigurationError, RelayUnavailable, StoreError
from tenex.nostr.keys import KeyRing
from tenex.service.control import control_socket
from tenex.store.lock import FolderLock

NOBODY = Daemon()
Look = Callable[[Case], Iterator[Finding]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `tenex init` leaves it."""
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data


def case_of(data: Path, **more: Any) -> Case:
    """A case whose settings have been looked at."""
    case = Case(data=data, config=None, env={}, **more)
    list(settings(case))
    return case


def bad(look: Look, case: Case) -> list[Finding]:
    """What a check says is not well."""
    return [finding for finding in look(case) if finding.level is not Level.OK]


def said(findings: list[Finding]) -> str:
    """All of it, as a person reads it."""
    return "\n".join(f"{f.level} {f.where}: {f.what} -> {f.mend}" for f in findings)


def change(data: Path, text: str) -> None:
    """Add to the configuration."""
    file = data / "tenex.toml"
    file.write_text(f"{file.read_text()}\n{text}\n")


# ---- how checks are run -------------------------------------------------------------------------------------------


async def test_a_check_that_hangs_or_breaks_costs_only_itself(data: Path) -> None:
    """What it had found counts; the others are told; a thread that never ends keeps nobody."""
    never = threading.Event()

    def hangs(_: Case) -> Iterator[Finding]:
        yield warning("seen before", "here", "mend")
        never.wait(30)

    def breaks(_: Case) -> Iterator[Finding]:
        yield ok("seen before")
        raise RuntimeError("nobody foresaw this")

    async def waits(_: Case) -> AsyncIterator[Finding]:
        yield ok("asked")
        await asyncio.Event().wait()

    def works(_: Case) -> Iterator[Finding]:
        yield ok("well")

    checks = [Check(name=look.__name__, look=look, deadline=0.2) for look in (hangs, breaks, waits, works)]
    began = time.monotonic()
    found = await examine(case_of(data), (), checks)
    never.set()
    assert time.monotonic() - began < 5
    told = {name: [f.what for f in found if f.check == name] for name in ("hangs", "breaks", "waits", "works")}
    assert told["hangs"] == ["seen before", "this was not examined to its end: it took longer than 0.2 s"]
    assert told["breaks"] == ["this could not be examined: RuntimeError: nobody foresaw this", "seen before"]
    assert told["waits"][0].startswith("this was not examined")
    assert told["works"] == ["well"]
    (broken,) = [f for f in found if f.check == "breaks" and f.level is Level.FAULT]
    assert broken.blame is Bug


async def test_what_is_told_is_bounded_on_one_line_and_without_secrets(data: Path) -> None:
    secret = KeyRing(data / "keys").get("project").nsec

    def talks(_: Case) -> Iterator[Finding]:
        yield fault(f"a\nb \x1b[2J {secret}", "/x/\udcff", "y")
        yield from (warning("again", "there", "mend") for _ in range(200))

    found = await examine(case_of(data), (), [Check(name="talks", look=talks, deadline=5)])
    assert len(found) == MOST + 1
    assert found[0].what == "a b \\x1b[2J [redacted]"
    assert found[0].where == "/x/\\udcff"
    assert found[-1].what == "161 more findings of this kind are not told"


def test_the_exit_code_is_the_highest_of_the_faults_branches() -> None:
    world = fault("x", "y", "z", RelayUnavailable)
    assert Report(findings=(ok("x"), warning("x", "y", "z"))).exit_code == 0
    assert Report(findings=(world,)).exit_code == 1
    assert Report(findings=(fault("x", "y", "z"), world)).exit_code == 3
    assert Report(findings=(world, fault("x", "y", "z", StoreError), fault("x", "y", "z"))).exit_code == 4


async def test_a_mend_that_needs_rest_is_not_done_beside_a_daemon(data: Path) -> None:
    done: list[str] = []

    def fix(name: str, *, needs_rest: bool) -> Fix:
        def act() -> str:
            done.append(name)
            return name

        return Fix(act=act, needs_rest=needs_rest)

    fixes = [fix("any", needs_rest=False), fix("rest", needs_rest=True)]
    findings = [warning("x", "y", "z", one) for one in fixes]
    with FolderLock(data / "conversations"):
        busy = await mend(data / "conversations", findings)
    assert done == ["any"]
    assert [m.success for m in busy] == [True, False]
    assert f"process {os.getpid()}" in busy[1].done
    assert [m.success for m in await mend(data / "conversations", findings)] == [True, True]
    assert done == ["any", "any", "rest"]


async def test_every_check_survives_every_mess(tmp_path: Path) -> None:
    """Folders for files, files for folders, pipes, links in circles, bytes that are no text."""
    data = tmp_path / "data"
    for name in ("tenex.toml", "config/tenex.toml", "conversations/.lock", "conversations/index.sqlite",
                 "conversations/_daemon/journal.jsonl", f"conversations/{'a' * 64}/journal.jsonl/x",
                 f"conversations/{'a' * 64}/conversation.json", f"conversations/{'b' * 64}",
                 "keys/project.nsec", "keys/openai.api-key", "agents/planner.md", "checkpoints"):  # fmt: skip
        (data / name).mkdir(parents=True)
    os.mkfifo(data / "keys" / "executor.nsec")
    os.mkfifo(data / "conversations" / ("b" * 64) / "journal.jsonl")
    (data / "conversations" / ("c" * 64)).symlink_to("c" * 64)
    (data / "conversations" / os.fsdecode(b"\xff\xfe")).write_bytes(b"\xff")
    (data / "tenex.sock").symlink_to("tenex.sock")
    (data / "workspace").write_bytes(b"\x00")
    checks = [check for check in THEN if check.name not in ("sandbox", "relays")]
    found = await examine(Case(data=data, config=None, env={}), FIRST, checks)
    assert not [f for f in found if f.blame is Bug and f.level is Level.FAULT], said(list(found))
    assert not [f for f in found if "took longer" in f.what], said(list(found))
    assert {"folders", "keys", "conversations", "index", "agents"} <= {f.check for f in found if f.level is Level.FAULT}


# ---- what the operator wrote --------------------------------------------------------------------------------------


def test_all_faults_of_the_settings_are_told_and_the_rest_is_examined(data: Path) -> None:
    change(data, '[limits]\nturns_per_message = 0\nsame_rout = 3\n[paths]\nkeys = "secrets"\n')
    case = Case(data=data, config=None, env={})
    found = bad(settings, case)
    assert [f.level for f in found] == [Level.FAULT, Level.FAULT, Level.WARNING]
    assert "did you mean `same_route`" in said(found)
    assert "as if limits were not set" in found[-1].what
    assert case.places is not None
    assert case.places.keys == data / "secrets"  # what holds no fault still counts
    assert case.doubtful == {"limits"}


@pytest.mark.parametrize(
    ("raw", "what"),
    [(b"[people\n", "no valid TOML"), (b"x = '\xff'", "no UTF-8"), (b"colour = 1\n", "no such setting")],
)
def test_a_file_that_cannot_be_read_is_a_fault_with_its_place(data: Path, raw: bytes, what: str) -> None:
    (data / "tenex.toml").write_bytes(raw)
    found = bad(settings, Case(data=data, config=None, env={}))
    assert what in found[0].what
    assert found[0].where == str(data / "tenex.toml")
    assert found[0].blame is ConfigurationError


def test_a_wrong_variable_is_told_as_one(data: Path) -> None:
    found = bad(settings, Case(data=data, config=None, env={"TENEX_LOG__LEVEL": "loud"}))
    assert found[0].where == "TENEX_LOG__LEVEL"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('[paths]\nworkspace = "."', "paths.workspace", "holds our"),
        ('[paths]\nworkspace = "keys/w"', "paths.workspace", "lies in our keys folder"),
        ("[limits]\ncost_per_cycle_usd = 0", "limits.cost_per_cycle_usd", "stops at once"),
        ("[limits]\nturns_per_message = 3", "limits.turns_per_message", "too few"),
        ("[limits]\ntokens_per_cycle = 5000", "limits.tokens_per_cycle", "one call may take more"),
        (
            "[limits.expectations.default]\nwarn_after = 5\nclose_after = 10",
            "expectations.default",
            "before models.timeout",
        ),
        ("[shutdown]\ndeadline = 200", "shutdown.deadline", "kills after 90 s"),
        ('[relays]\nurls = ["ws://relay.example"]', "relays.urls", "not encrypted"),
        ('[relays]\nurls = ["wss://R.example", "wss://r.example/"]', "relays.urls", "listed twice"),
        ('[models.prices."openai:gpt"]\ninput = 1\noutput = 2', "models.prices", "never used"),
        ("[models.providers.mine]\nconcurrency = 1", "models.providers.mine", "no setting names a model"),
        ('[metrics]\nhost = "0.0.0.0"\nport = 1', "metrics.host", "others can reach"),
        ("[people]\nopen = true", "people.open", "cost money"),
    ],
)
def test_settings_that_make_no_sense_together_are_told(data: Path, text: str, where: str, what: str) -> None:
    file = data / "tenex.toml"
    if text.startswith("[people]"):
        text += '\n[models]\ndefault = "openai:gpt-5"'
    file.write_text(text if text.startswith(("[relays]", "[people]")) else f"{file.read_text()}\n{text}\n")
    found = [f for f in bad(paths_and_people, case_of(data)) if where in f.where and what in f.what]
    assert found, said(bad(paths_and_people, case_of(data)))
    assert found[0].mend


def test_the_settings_that_init_writes_raise_no_doubt(data: Path) -> None:
    assert not bad(paths_and_people, case_of(data))
    assert not bad(agents, case_of(data))


def test_nobody_who_may_talk_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").write_text("[people]\nowners = []\n")
    found = bad(paths_and_people, case_of(tmp_path))
    assert "nobody may talk here" in said(found)
    assert "npub" in found[0].mend


def test_agents_with_faults_and_settings_for_agents_that_are_not_there(data: Path) -> None:
    change(data, '[models.agents.exector]\nmodel = "offline"')
    assert "there is no agent 'exector'" in said(bad(agents, case_of(data)))
    (data / "agents" / "critic.md").write_text("---\nname: Critic\n---\n")
    found = bad(agents, case_of(data))
    assert found
    assert all(str(data / "agents" / "critic.md") in f.where for f in found)


# ---- folders, permissions, keys -----------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_or_not_ours_is_named(tmp_path: Path) -> None:
    assert "there is no such folder" in said(bad(folders, case_of(tmp_path / "nowhere")))
    (tmp_path / "something").write_text("of somebody else")
    assert "holds nothing of tenex" in said(bad(folders, case_of(tmp_path)))


async def test_missing_folders_are_made_by_fix(data: Path) -> None:
    (data / "agents").rmdir()
    (data / "workspace").rmdir()
    found = bad(folders, case_of(data))
    assert {Path(f.where).name for f in found} == {"agents", "workspace"}
    assert all(m.success for m in await mend(data / "conversations", found))
    assert not bad(folders, case_of(data))
    assert stat.S_IMODE((data / "workspace").stat().st_mode) == 0o700


async def test_what_others_may_read_is_told_and_mended(data: Path) -> None:
    (data / "keys" / "openai.api-key").write_text("sk-x\n")
    modes = {"keys/project.nsec": 0o644, "keys/openai.api-key": 0o640, "keys": 0o755, "tenex.toml": 0o666, ".": 0o755}
    for name, mode in modes.items():
        (data / name).chmod(mode)
    found = bad(permissions, case_of(data))
    assert {f.where for f in found} == {str(data / name) for name in modes}
    levels = {str(Path(f.where).relative_to(data)): f.level for f in found}
    assert levels["keys/project.nsec"] == levels["keys/openai.api-key"] == levels["tenex.toml"] == Level.FAULT
    assert levels["keys"] == levels["."] == Level.WARNING
    assert all("chmod" in f.mend for f in found)
    assert all(m.success for m in await mend(data / "conversations", found))
    assert not bad(permissions, case_of(data))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_another_user_are_told(data: Path) -> None:
    os.chown(data / "keys" / "project.nsec", 12_345, -1)
    (data / "conversations" / ("a" * 64)).mkdir()
    os.chown(data / "conversations" / ("a" * 64), 12_345, -1)
    found = bad(permissions, case_of(data))
    assert {f.blame for f in found} == {ConfigurationError, StoreError}
    assert all("chown" in f.mend for f in found)


def test_a_link_is_not_followed_when_permissions_are_mended(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    other.chmod(0o644)
    (data / "keys" / "x.nsec").symlink_to(other)
    assert not [f for f in bad(permissions, case_of(data)) if "x.nsec" in f.where]
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def test_keys_that_are_missing_broken_or_doubled(data: Path) -> None:
    ring = data / "keys"
    (ring / "planner.nsec").write_bytes((ring / "executor.nsec").read_bytes())
    (ring / "project.nsec").unlink()
    (ring / "project-manager.nsec").unlink()
    (ring / "old.nsec").write_bytes(b"\xff nonsense")
    (ring / "old.nsec").chmod(0o600)
    (ring / "a b.nsec").write_text("x")
    (ring / ".executor.nsec.k3k3").write_text("x")
    (ring / "openai.api-key").write_text("two words")
    found = {Path(f.where).name: f for f in bad(keys, case_of(data))}
    assert found["planner.nsec"].what.startswith("this is the same key as executor.nsec")
    assert "project's key is missing" in found["project.nsec"].what
    assert "tenex init" in found["project.nsec"].mend
    assert found["project-manager.nsec"].level is Level.WARNING
    assert "holds no nsec1 key" in found["old.nsec"].what
    assert "no name of a key" in found["a b.nsec"].what
    assert "cut short" in found[".executor.nsec.k3k3"].what
    assert "one line" in found["openai.api-key"].what
    assert not re.search(r"nsec1[a-z0-9]{6}", said(list(found.values())))


@pytest.mark.parametrize("name", ["project", "owner"])
def test_a_key_that_cannot_be_replaced_is_never_called_the_copy(data: Path, name: str) -> None:
    """Whoever moves that one away and runs `tenex init` has another address, or is no owner any more."""
    (data / "keys" / "executor.nsec").write_bytes((data / "keys" / f"{name}.nsec").read_bytes())
    (found,) = [f for f in bad(keys, case_of(data)) if "the same key" in f.what]
    assert found.where == str(data / "keys" / "executor.nsec")
    assert f"as {name}.nsec" in found.what


def test_an_owner_who_has_the_key_of_an_agent_is_never_heard(data: Path) -> None:
    npub = KeyRing(data / "keys").get("executor").npub
    (data / "tenex.toml").write_text(f'[people]\nowners = ["{npub}"]\n')
    (found,) = bad(keys, case_of(data))
    assert found.where == "people.owners[0]"
    assert "key of executor" in found.what


# ---- the daemon ---------------------------------------------------------------------------------------------------


def test_the_holder_is_found_without_taking_the_lock(data: Path) -> None:
    """A pid that was left, a holder in this process, one that wrote nothing: and a lock stays what it is."""
    path = data / "conversations" / ".lock"
    path.write_text("1\n")  # a process that lives and has nothing to do with us
    assert holder(path) == Daemon()
    with FolderLock(data / "conversations"):
        assert holder(path) == Daemon(running=True, pid=os.getpid())
        case = case_of(data)
        assert not bad(daemon, case)
        assert case.daemon.running
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, 0)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert holder(path).running
        with pytest.raises(BlockingIOError), path.open() as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    assert holder(path) == Daemon()


def test_a_lock_that_is_no_file_is_a_fault(data: Path) -> None:
    (data / "conversations" / ".lock").mkdir()
    (found,) = bad(daemon, case_of(data))
    assert found.blame is StoreError


async def asked(data: Path, running: Daemon = NOBODY) -> list[Finding]:
    """What the check of the socket says is not well."""
    return [f async for f in control(case_of(data, daemon=running)) if f.level is not Level.OK]


async def test_a_socket_that_was_left_is_removed_by_fix_and_only_then(data: Path) -> None:
    path = data / "tenex.sock"
    with socket.socket(socket.AF_UNIX) as left:
        _bind_in(left, path)
    found = await asked(data)
    assert [f.level for f in found] == [Level.WARNING]
    assert path.exists()
    (mended,) = await mend(data / "conversations", found)
    assert mended.done == "removed"
    assert not path.exists()
    assert not await asked(data)
    assert "not there" in said(await asked(data, Daemon(running=True, pid=1)))


def _bind_in(server: socket.socket, path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        server.bind(path.name)
    finally:
        os.chdir(before)


async def test_a_file_in_the_place_of_the_socket_and_a_socket_without_answers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.app.doctor.running.ANSWER", 0.2)
    path = data / "tenex.sock"
    path.write_text("x")
    assert "no socket" in said(await asked(data))
    path.unlink()
    with socket.socket(socket.AF_UNIX) as mute:
        _bind_in(mute, path)
        mute.listen()
        (found,) = await asked(data)
    assert "does not tell its status" in found.what
    assert found.blame.exit_code == 1


async def test_a_daemon_is_asked_over_its_socket(data: Path) -> None:
    async def status(_: dict[str, Any]) -> dict[str, Any]:
        return {"conversations": {"frozen": [{"id": "f", "why": "disk full"}]}}

    async with control_socket(data / "tenex.sock", {"status": status}):
        found = [f async for f in control(case_of(data, daemon=Daemon(running=True, pid=1)))]
    assert [f.what for f in found] == ["the daemon answers", "frozen: disk full"]
    assert found[1].blame is StoreError


def test_what_a_daemon_says_is_wrong_is_passed_on() -> None:
    status = {
        "configuration": {"file": "/x/tenex.toml", "refused": ["a", "b"], "needsRestart": ["relays.urls"]},
        "relays": [
            {"url": "wss://a.example?key=1", "state": "deaf", "deafSince": "2026-01-01T00:00:00Z", "fault": "x"},
            {"url": "wss://b.example", "state": "connected"},
        ],
        "models": {"lastFailure": {"why": "no credit left"}},
        "conversations": {
            "open": [{"id": "h", "kind": "held"}, {"id": "p", "kind": "parked"}],
            "frozen": [{"id": "f", "since": "then", "why": "disk full"}],
            "quarantined": [{"id": "q", "why": "line 3"}],
        },
    }
    found = list(complaints(status))
    assert [f.level for f in found] == [Level.WARNING, Level.WARNING, *[Level.FAULT] * 4]
    text = said(found)
    for word in ("2 faults", "relays.urls", "wss://a.example?...", "disk full", "line 3", "no credit left"):
        assert word in text
    assert "key=1" not in text


@pytest.mark.parametrize("status", [None, 5, [], {"relays": 5, "conversations": [1], "models": {"lastFailure": 1}}])
def test_a_status_of_another_shape_says_nothing(status: object) -> None:
    assert not list(complaints(status))


# ---- the machine --------------------------------------------------------------------------------------------------


def test_this_machine_has_what_the_program_needs(data: Path) -> None:
    assert not bad(machine.installed, case_of(data))
    assert not bad(machine.clock, case_of(data))


def test_a_package_that_is_missing_or_of_another_version_is_told() -> None:
    needed = [
        "coincurve<22,>=21", "nothing-of-that-name>=1", "pynostr==0.0.1", "nothing-else; extra == 'dev'",
        "nothing-at-all; python_version < '3'", "rich<1,>=0.5; extra == 'relay'",
    ]  # fmt: skip
    assert [name for name, _ in machine.unmet(needed)] == ["nothing-of-that-name", "pynostr", "rich"]


@pytest.mark.parametrize(
    ("version", "sign", "bound", "holds"),
    [("1.10", ">=", "1.9", True), ("1.0", "==", "1.0.0", True), ("2.0rc1", "<", "2.1", True), ("3", "<", "3", False)],
)
def test_versions_are_compared_as_numbers(version: str, sign: str, bound: str, holds: bool) -> None:
    assert machine._holds(version, sign, bound) is holds


def test_a_clock_of_1970_is_a_fault(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 86_400.0)
    (found,) = bad(machine.clock, case_of(data))
    assert "1970-01-02" in found.what


def test_what_a_service_manager_left_out_is_told(data: Path) -> None:
    change(data, "[metrics]\nport = 9")
    env = {"NOTIFY_SOCKET": str(data / "none"), "CREDENTIALS_DIRECTORY": str(data / "none")}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = data / "tenex.toml"
        file.write_text(file.read_text().replace("port = 9", f"port = {taken.getsockname()[1]}"))
        case = Case(data=data, config=None, env=env)
        list(settings(case))
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        try:
            found = bad(machine.service, case)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {f.where for f in found} >= {"$NOTIFY_SOCKET", "$CREDENTIALS_DIRECTORY", "metrics.port"}
    assert "only 200 files" in said(found)
    (port,) = [f for f in found if f.where == "metrics.port"]
    assert port.what.endswith("of 127.0.0.1 cannot be used (Address already in use)")


def test_a_collector_of_traces_that_is_away_is_told_and_no_fault(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as collector:
        port = collector.getsockname()[1]
        change(data, f'[traces]\nendpoint = "http://127.0.0.1:{port}/v1/traces?key=1"')
        assert not bad(machine.service, case_of(data))
    (found,) = bad(machine.service, case_of(data))
    assert (found.level, found.where) == (Level.WARNING, "traces.endpoint")
    assert f"127.0.0.1:{port} cannot be reached (Connection refused)" in found.what
    assert "key=1" not in said([found])


def test_the_kind_of_disk_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nx /srv tmpfs rw 0 0\ny /srv/my\\040data nfs4 rw 0 0\n")
    assert kind_of(Path("/srv/my data/x"), mounts) == "nfs4"
    assert kind_of(Path("/srv/other"), mounts) == "tmpfs"
    assert kind_of(Path("/home"), mounts) == "ext4"
    assert kind_of(Path("/"), tmp_path / "none") == ""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no tmpfs here")
def test_a_data_folder_in_memory_is_a_warning() -> None:
    data = Path("/dev/shm") / f"tenex-doctor-{os.getpid()}"
    data.mkdir()
    try:
        case = case_of(data)
        assert "everything is gone when the machine stops" in said(bad(disk, case))
        assert not list(data.iterdir())
    finally:
        data.rmdir()


def test_a_disk_that_takes_nothing_is_a_fault_of_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    (found,) = bad(disk, case_of(data))
    assert found.blame is StoreError
    assert "No space left" in found.what
    assert not [path for path in (data / "conversations").iterdir() if path.name != ".lock"]


def test_without_bubblewrap_the_tools_that_are_off_are_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    change(data, '[models.phases]\nchat = "openai:gpt-5"')
    found = bad(sandbox, case_of(data))
    assert "bubblewrap is not installed" in said(found)
    assert {f.where for f in found} == {"tools", "tools.shell.sandbox", "tools.check"}
    assert "git is not installed" in said(bad(git, case_of(data)))


def test_a_checkpoint_folder_that_is_no_repository_is_a_fault(data: Path) -> None:
    (data / "checkpoints").mkdir()
    assert not bad(git, case_of(data))
    (data / "checkpoints" / "HEAD").write_text("nonsense")
    (found,) = bad(git, case_of(data))
    assert found.where == str(data / "checkpoints")


# ---- models -------------------------------------------------------------------------------------------------------


async def told(data: Path, **more: Any) -> list[Finding]:
    """What the check of the models says."""
    return [f async for f in models(case_of(data, **more))]


async def test_models_that_cannot_be_used_are_told_with_their_setting(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    text = (data / "tenex.toml").read_text().replace("[models]", '[models]\ndefault = ["openai:gpt-5", "what:x"]', 1)
    (data / "tenex.toml").write_text(text)
    found = [f for f in await told(data) if f.level is Level.FAULT]
    assert len(found) == 2, said(found)
    assert "openai" in said(found)
    assert "api-key" in said(found)
    assert '"what" is no provider' in said(found)


async def test_a_key_that_is_there_makes_a_model_usable_and_is_not_told(data: Path) -> None:
    secret = "sk-very-secret-indeed-0123456789"
    (data / "keys" / "openai.api-key").write_text(f"{secret}\n")
    (data / "keys" / "openai.api-key").chmod(0o600)
    text = (data / "tenex.toml").read_text().replace("[models]", '[models]\ndefault = "openai:gpt-5"', 1)
    (data / "tenex.toml").write_text(text)
    found = await told(data)
    assert not [f for f in found if f.level is Level.FAULT], said(found)
    assert secret not in said(found)


async def test_the_offline_model_needs_no_package(data: Path) -> None:
    (found,) = await told(data)
    assert found.level is Level.OK
    assert "only the offline model" in found.what


def test_looking_needs_no_terminal_and_changes_nothing(data: Path) -> None:
    """Only modification times are compared: reading may touch the others."""
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    case = case_of(data)
    for check in THEN:
        if check.name not in ("relays", "models", "control", "sandbox"):
            list(check.look(case))  # type: ignore[arg-type]
    after = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    assert {path for path in before if path.name != "conversations" and before[path] != after[path]} == set()
    assert sys.version_info >= machine.OLDEST_PYTHON
