"""`config/tenex.service`: systemd takes it, it is well confined, and it agrees with what the program does."""

import asyncio
import re
import shlex
import subprocess
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from tenex.cli.run import CLOSING
from tenex.core.errors import ConfigurationError, StoreError, UsageError
from tenex.service.notify import STATUS_EVERY
from tenex.settings import Settings
from tenex.tools.sandbox import clean_environment, wrapped
from tests.programs import needs_bubblewrap, needs_strace, needs_systemd

from .kit import ROOT, TENEX, Folder, daemon, running
from .test_life import Manager

UNIT = ROOT / "config" / "tenex.service"
EXPOSURE = 3.5
"""Of 10: what `systemd-analyze security` calls OK ends at 4.9; it was 2.9 when this was written."""


def directives() -> dict[str, list[str]]:
    """The directives of the unit, each with its values in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit as on a machine where the program lies elsewhere: systemd looks whether it is there."""
    program = tmp_path / "bin" / "tenex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (command,) = directives()["ExecStart"]
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(f"ExecStart={command.split()[0]}", f"ExecStart={program}"))
    return unit


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


@needs_systemd
def test_systemd_takes_it_without_a_word(installed: Path) -> None:
    done = analyze("verify", installed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_it_is_confined(installed: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={int(EXPOSURE * 10)}", installed)
    assert done.returncode == 0, done.stdout[-300:]


def test_it_agrees_with_the_program() -> None:
    unit = directives()
    assert unit["ExecStart"] == ["/opt/tenex/bin/tenex run"]
    assert int(unit["TimeoutStopSec"][0]) > Settings().shutdown.deadline + CLOSING
    assert int(unit["WatchdogSec"][0]) > 2 * STATUS_EVERY
    permanent = {error.exit_code for error in (UsageError, ConfigurationError, StoreError)}
    assert {int(code) for code in unit["RestartPreventExitStatus"][0].split()} == permanent
    assert unit["KillMode"] == ["mixed"], "programs under way are not to get the daemon's signal"
    assert unit["UMask"] == ["0077"]
    assert all(unit[name] == ["tenex"] for name in ("User", "Group", "StateDirectory"))


@needs_systemd
@needs_strace
@needs_bubblewrap
def test_the_sandbox_of_agents_asks_the_kernel_for_nothing_the_unit_forbids(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    command = wrapped(tmp_path, ["/bin/true"], clean_environment("/tmp"))
    assert command is not None
    subprocess.run(["strace", "-f", "-qq", "-o", log, *command], check=True, timeout=60, capture_output=True)
    # a process that is being killed leaves `syscall_0x…` in the log: strace could not read which call it was in
    asked = set(re.findall(r"^\d+ +((?!syscall_0x)[a-z]\w+)\(", log.read_text(), re.MULTILINE))
    assert {"mount", "pivot_root", "unshare"} & asked
    assert asked - _permitted(directives()["SystemCallFilter"][0].split()) == set()


def _permitted(names: list[str]) -> set[str]:
    calls: set[str] = set()
    for name in names:
        if not name.startswith("@"):
            calls.add(name)
            continue
        lines = analyze("syscall-filter", name).stdout.splitlines()[1:]
        calls |= _permitted([line.strip() for line in lines if line.strip() and not line.strip().startswith("#")])
    return calls


def test_what_would_break_the_sandbox_is_not_set() -> None:
    covering = {"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "PrivateUsers"}
    assert covering & directives().keys() == set()
    assert "user" in directives()["RestrictNamespaces"][0].split()


async def test_a_reload_needs_no_program_but_the_shell(folder: Folder) -> None:
    words = shlex.split(directives()["ExecReload"][0])
    assert words[0] == "/bin/sh"
    async with daemon(folder) as process:
        env = {"MAINPID": str(process.pid), "PATH": "/nonexistent"}
        await asyncio.to_thread(subprocess.run, words, env=env, check=True, timeout=10)
        await process.until("configuration.reloaded")


async def test_its_command_runs_in_its_environment(folder: Folder, tmp_path: Path) -> None:
    words = [*TENEX, *directives()["ExecStart"][0].split()[1:]]
    with closing(Manager(str(tmp_path / "notify"))) as manager:
        env = {"STATE_DIRECTORY": str(folder.data), "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "60000000"}
        async with running(words, **env), asyncio.timeout(int(directives()["TimeoutStartSec"][0])):
            await manager.expect(READY="1")
