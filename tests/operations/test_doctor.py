"""`tenex doctor`: how checks are run, and the checks of settings, agents, models, and of a running daemon."""

import asyncio
import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError, InternalError, RelayUnavailable, StoreError
from tenex.nostr.keys import KeyRing
from tenex.operations.doctor import daemon as module
from tenex.operations.doctor.configuration import configuration, models, settings
from tenex.operations.doctor.daemon import control, daemon, lock_holder
from tenex.operations.doctor.findings import Case, Finding, Level, Repair, fault, ok, warning
from tenex.operations.doctor.runner import CHECKS, FIRST, MAX_FINDINGS, Check, Report, examine, repair_all
from tenex.service.control import control_socket
from tenex.store.lock import FolderLock

from .doctor_kit import bad, case_of, change, found_by, text_of

RUNNING = "process 1"


# ---- how checks are run


async def test_a_check_that_hangs_or_breaks_costs_only_itself(data: Path) -> None:
    """Its earlier findings count, the others run, and a thread that never ends blocks nothing."""
    never = threading.Event()

    def hangs(_: Case) -> Iterator[Finding]:
        yield warning("seen before", "here", "fix")
        never.wait(30)

    def breaks(_: Case) -> Iterator[Finding]:
        yield ok("seen before")
        raise RuntimeError("unforeseen")

    def works(_: Case) -> Iterator[Finding]:
        yield ok("well")

    checks = [Check(look.__name__, look, 0.2) for look in (hangs, breaks, works)]
    began = time.monotonic()
    found = await examine(case_of(data), (), checks)
    never.set()
    assert time.monotonic() - began < 5
    assert [(f.check, f.message) for f in found] == [
        ("hangs", "seen before"),
        ("hangs", "the check did not finish within 0.2 s"),
        ("breaks", "the check failed: RuntimeError: unforeseen"),
        ("breaks", "seen before"),
        ("works", "well"),
    ]
    assert found[2].error is InternalError


async def test_what_is_reported_is_bounded_on_one_line_and_without_secrets(data: Path) -> None:
    secret = KeyRing(data / "keys").get("project").nsec

    def talks(_: Case) -> Iterator[Finding]:
        yield fault(f"a\nb \x1b[2J {secret}", "/x/\udcff", "y")
        yield from (warning("again", "there", "fix") for _ in range(200))

    found = await examine(case_of(data), (), [Check("talks", talks, 5)])
    assert len(found) == MAX_FINDINGS + 1
    assert (found[0].message, found[0].location) == ("a b \\x1b[2J [redacted]", "/x/\\udcff")
    assert found[-1].message == "161 more findings are not shown"


def test_the_exit_code_is_the_highest_of_the_faults_branches() -> None:
    world, wrong = fault("x", "y", "z", RelayUnavailable), fault("x", "y", "z")
    assert Report(findings=(ok("x"), warning("x", "y", "z"))).exit_code == 0
    assert Report(findings=(world,)).exit_code == 1
    assert Report(findings=(wrong, world)).exit_code == 3
    assert Report(findings=(world, fault("x", "y", "z", StoreError), wrong)).exit_code == 4


async def test_a_repair_that_needs_the_lock_is_not_done_beside_a_daemon(data: Path) -> None:
    done: list[str] = []
    repairs = [
        Repair(lambda: done.append("any"), "any"),
        Repair(lambda: done.append("rest"), "rest", needs_lock=True),
    ]
    findings = [warning("x", "y", "z", one) for one in repairs]
    with FolderLock(data / "conversations"):
        busy = await repair_all(data / "conversations", findings)
    assert [one.success for one in busy] == [True, False]
    assert f"process {os.getpid()}" in busy[1].done
    assert [one.success for one in await repair_all(data / "conversations", findings)] == [True, True]
    assert done == ["any", "any", "rest"]


async def test_no_check_breaks_on_odd_files(tmp_path: Path) -> None:
    """Folders for files, files for folders, pipes, links in circles, bytes that are not text."""
    data, stored = tmp_path / "data", tmp_path / "data" / "conversations"
    one, other, third = (letter * 64 for letter in "abc")
    for name in ("tenex.toml", "config/tenex.toml", "keys/project.nsec", "keys/openai.api-key", "agents/planner.md"):
        (data / name).mkdir(parents=True)
    for name in (
        ".lock",
        "index.sqlite",
        "_daemon/journal.jsonl",
        f"{one}/journal.jsonl/x",
        f"{one}/conversation.json",
    ):
        (stored / name).mkdir(parents=True)
    (data / "checkpoints").mkdir()
    (stored / other).mkdir()
    os.mkfifo(data / "keys" / "executor.nsec")
    os.mkfifo(stored / other / "journal.jsonl")
    (stored / third).symlink_to(third)
    (stored / os.fsdecode(b"\xff\xfe")).write_bytes(b"\xff")
    (data / "tenex.sock").symlink_to("tenex.sock")
    (data / "workspace").write_bytes(b"\x00")
    checks = [check for check in CHECKS if check.name not in ("sandbox", "relays")]
    found = await examine(Case(data=data, config=None, env={}), FIRST, checks)
    assert not [f for f in found if f.error is InternalError and f.level is Level.FAULT], text_of(list(found))
    assert not [f for f in found if "did not finish" in f.message], text_of(list(found))
    faults = {f.check for f in found if f.level is Level.FAULT}
    assert {"folders", "keys", "conversations", "index", "configuration"} <= faults


# ---- settings, agents, models


@pytest.mark.parametrize(
    ("raw", "messages"),
    [
        (b"[people\n", ["not valid TOML"]),
        (b"x = '\xff'", ["UTF-8"]),
        (b"[limits]\nturns_per_message = 0\nsame_rout = 3\n", ["", "did you mean `same_route`"]),
    ],
)
async def test_all_faults_of_the_settings_are_reported_with_their_place(
    data: Path, raw: bytes, messages: list[str]
) -> None:
    """What depends on settings is not examined then."""
    (data / "tenex.toml").write_bytes(raw)
    case = case_of(data)
    *found, last, program = await examine(case, FIRST, CHECKS)
    assert program.check == "program"
    assert [(f.level, f.error) for f in found] == [(Level.FAULT, ConfigurationError)] * len(messages)
    assert all(word in text_of(found) for word in messages)
    assert all(f.location.startswith(str(data / "tenex.toml")) for f in found)
    assert (last.level, case.has_settings) == (Level.WARNING, False)
    (found_in_environment, _) = bad(settings, Case(data=data.parent, config=None, env={"TENEX_LOG__LEVEL": "loud"}))
    assert found_in_environment.location == "TENEX_LOG__LEVEL"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('[paths]\nworkspace = "keys/w"', "paths.workspace", "is in the keys folder"),
        ("[limits]\ncost_per_day_usd = 0", "limits.cost_per_day_usd", "no limit"),
        ("[limits]\ntokens_per_day = 0", "limits.tokens_per_day", "no limit"),
        ("[limits]\ntokens_per_member_day = 5000", "limits.tokens_per_member_day", "one call may take more"),
        ("[limits]\nturns_per_message = 3", "limits.turns_per_message", "too few"),
        ("[limits]\ntokens_per_cycle = 5000", "limits.tokens_per_cycle", "one call may take more"),
        ("[limits.expectations.plan]\nwarn_after = 5\nclose_after = 10", "expectations.plan", "before models.timeout"),
        ("[shutdown]\ndeadline = 200", "shutdown.deadline", "after 90 s"),
        ('[relays]\nurls = ["ws://relay.example"]', "relays.urls", "not encrypted"),
        ('[relays]\nurls = ["wss://R.example", "wss://r.example/"]', "relays.urls", "listed twice"),
        ('[models.prices."openai:gpt"]\ninput = 1\noutput = 2', "models.prices", "never used"),
        ("[models.providers.mine]\nconcurrency = 1", "models.providers.mine", "no setting names a model"),
        ('[metrics]\nhost = "0.0.0.0"\nport = 1', "metrics.host", "others can reach"),
        ('[people]\nopen = true\n[models]\ndefault = "openai:gpt-5"', "people.open", "cost money"),
        ("[models.agents.exector]\nmodel = 'offline'", "models.agents.exector", "did you mean `executor`?"),
    ],
)
def test_settings_that_contradict_each_other_are_reported(data: Path, text: str, where: str, what: str) -> None:
    (data / "tenex.toml").write_text(text)
    found = bad(configuration, case_of(data))
    named = [f for f in found if where in f.location and what in f.message]
    assert named, text_of(found)
    assert all(f.fix for f in named)


def test_a_key_is_used_and_not_shown_and_the_offline_model_needs_none(data: Path) -> None:
    assert not bad(configuration, case_of(data)), "what `tenex init` writes gives no warning"
    (data / "agents" / "critic.md").write_text("---\nname: Critic\n---\n")
    faults = bad(configuration, case_of(data))
    assert faults
    assert all(str(data / "agents" / "critic.md") in f.location for f in faults)
    (data / "agents" / "critic.md").unlink()
    (found,) = models(case_of(data))
    assert (found.level, "only the offline model" in found.message) == (Level.OK, True)
    key = data / "keys" / "openai.api-key"
    key.write_text("sk-very-secret-indeed-0123456789\n")
    key.chmod(0o600)
    text = (data / "tenex.toml").read_text().replace("[models]", '[models]\ndefault = "openai:gpt-5"', 1)
    (data / "tenex.toml").write_text(text)
    case = case_of(data)
    found_all = [*configuration(case), *models(case)]
    assert {f.level for f in found_all} == {Level.OK}
    assert "sk-very-secret" not in text_of(found_all)
    change(data, '[models.agents.executor]\nmodel = "openai:a-model-of-tomorrow"')
    (unpriced,) = bad(models, case_of(data))
    assert "price of openai:a-model-of-tomorrow is not known" in unpriced.message


# ---- a daemon


def test_the_holder_is_found_without_taking_the_lock(data: Path) -> None:
    """A pid that was left, a holder in this process, and one that wrote nothing; the lock does not change."""
    folder = data / "conversations"
    path = folder / ".lock"
    path.write_text("1\n")  # a process that runs and is not a daemon
    assert lock_holder(folder) == ""
    with FolderLock(folder):
        assert lock_holder(folder) == f"process {os.getpid()}"
        case = case_of(data)
        assert not bad(daemon, case)
        assert case.daemon
    with path.open("w") as held, path.open() as second:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_holder(folder)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock_holder(folder) == ""


async def test_a_lock_of_another_user_is_never_to_be_moved(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon may hold it: with the file moved away a second one could begin."""
    real, path = os.open, data / "conversations" / ".lock"

    def refuse(name: Any, *flags: Any, **more: Any) -> int:
        if name == path:
            raise PermissionError(errno.EACCES, "refused", str(path))
        return real(name, *flags, **more)

    monkeypatch.setattr(os, "open", refuse)
    (found,) = [f for f in await examine(case_of(data), FIRST, ()) if f.level is not Level.OK]
    assert (found.location, found.message, "move" in found.fix) == (str(path), "cannot be examined (refused)", False)


def bound(data: Path) -> socket.socket:
    """A socket at the daemon's address."""
    server = socket.socket(socket.AF_UNIX)
    descriptor = os.open(data, os.O_RDONLY)
    server.bind(f"/proc/self/fd/{descriptor}/tenex.sock")
    os.close(descriptor)
    return server


async def asked(data: Path, process: str = "") -> list[Finding]:
    return [f for f in await found_by(control, case_of(data, daemon=process)) if f.level is not Level.OK]


async def test_a_stale_socket_is_removed_by_fix_only(data: Path) -> None:
    path = data / "tenex.sock"
    bound(data).close()
    assert "does not answer at its control socket" in text_of(await asked(data, RUNNING))
    found = await asked(data)
    assert ([f.level for f in found], path.exists()) == ([Level.WARNING], True)
    (fixed,) = await repair_all(data / "conversations", found)
    assert (fixed.done, path.exists()) == ("removed", False)
    assert not await asked(data)
    assert "is missing" in text_of(await asked(data, RUNNING))


async def test_a_daemon_that_is_starting_is_waited_for_and_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was called a daemon whose control socket is missing."""

    async def status(_: Any) -> Any:
        return {}

    with FolderLock(data / "conversations"):
        looks = asyncio.create_task(found_by(control, case_of(data, daemon=RUNNING)))
        await asyncio.sleep(0)  # it looks before there is a socket
        async with control_socket(data / "tenex.sock", {"status": status}):
            assert [finding.message for finding in await looks][:1] == ["the daemon answers"]
        monkeypatch.setattr(module, "WAIT", 0.05)
        (finding,) = await asked(data, RUNNING)
        assert finding.message.startswith(f"the daemon is starting: {RUNNING} has locked {data / 'conversations'} for ")
        assert finding.message.endswith("Try again in 5 s")
        os.utime(data / "conversations" / ".lock", (0, 0))
        assert "its control socket is missing" in text_of(await asked(data, RUNNING))


async def test_a_file_in_the_place_of_the_socket_and_a_socket_without_answers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATUS_TIMEOUT", 0.2)
    path = data / "tenex.sock"
    path.write_text("x")
    assert "not a socket" in text_of(await asked(data))
    path.unlink()
    with bound(data) as mute:
        mute.listen()
        (found,) = await asked(data)
    assert "does not answer with its status: timeout of 0.2 s" in found.message
    assert found.error.exit_code == 1


async def test_the_daemon_is_asked_for_its_problems(data: Path) -> None:
    """A status of another shape gives no finding."""
    away = {"state": "unresponsive", "unresponsiveSince": "then", "refused": [], "fault": "x"}
    conversations = {
        "open": [{"id": "h", "kind": "held"}, {"id": "p", "kind": "parked"}],
        "suspended": [{"id": "f", "since": "then", "why": "disk full"}],
        "quarantined": [{"id": "q", "why": "line 3"}],
    }
    problems = {
        "configuration": {"file": "/x/tenex.toml", "refused": ["a", "b"], "needsRestart": ["relays.urls"]},
        "relays": [{"url": "wss://a.example?key=1", **away}, {"url": "wss://b.example", "state": "connected"}],
        "models": {"lastFailure": {"why": "no credit left"}},
        "conversations": conversations,
    }
    answers: list[Any] = [problems, None, 5, [], {"relays": 5, "conversations": [1], "configuration": 1}]

    async def status(_: Any) -> Any:
        return answers.pop(0)

    async with control_socket(data / "tenex.sock", {"status": status}):
        first, *found = await found_by(control, case_of(data, daemon=RUNNING))
        while answers:
            assert [f.message for f in await found_by(control, case_of(data))] == ["the daemon answers"]
    assert first.message == "the daemon answers"
    assert [f.level for f in found] == [Level.WARNING, Level.WARNING, *[Level.FAULT] * 4]
    assert [f.error.exit_code for f in found[2:]] == [1, 4, 4, 1]
    text = text_of(found)
    for word in ("2 faults", "relays.urls", "wss://a.example?...", "disk full", "line 3", "no credit left"):
        assert word in text
    assert "key=1" not in text


def test_a_daemon_that_was_given_its_owner_is_no_fault(tmp_path: Path) -> None:
    """As `tenex demo` does; without a daemon, `tenex run` would refuse to start."""
    (stopped,) = bad(configuration, case_of(tmp_path))
    assert (stopped.level, "no one may talk here" in stopped.message) == (Level.FAULT, True)
    (running,) = bad(configuration, case_of(tmp_path, daemon="process 1"))
    assert (running.level, "tenex init" in running.fix) == (Level.WARNING, True)
