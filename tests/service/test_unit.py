"""`config/tenex.service`: systemd takes it, it is well confined, and it agrees with what the program does."""

import asyncio
import re
import shlex
import socket
import subprocess
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from tenex.cli.run import CLOSING
from tenex.core.errors import ConfigurationError, StoreError, UsageError
from tenex.service.notify import STATUS_EVERY
from tenex.settings import EMBEDDED_RELAY_PORT, Settings
from tenex.store.postgres.database import Unavailable
from tenex.tools.sandbox import clean_environment, wrapped
from tenex.tools.witness import witness_of
from tenex.tools.workspace_view import Way, WorkspaceView
from tests.kits.service_manager import Manager
from tests.programs import needs_bubblewrap, needs_strace, needs_systemd

from . import person
from .kit import ROOT, TENEX, Folder, Process, daemon, environment, running

UNIT = ROOT / "config" / "tenex.service"
RELAY = ROOT / "config" / "tenex-relay.service"
TEMPLATE = ROOT / "config" / "tenex@.service"
EXPOSURE = 3.5
"""Of 10: what `systemd-analyze security` calls OK ends at 4.9; it was 2.9 when this was written."""


def directives(unit: Path = UNIT) -> dict[str, list[str]]:
    """The directives of a unit, each with its values in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


@pytest.fixture(params=[UNIT, RELAY, TEMPLATE], ids=lambda unit: unit.stem)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit as on a machine where the program lies elsewhere: systemd looks whether it is there."""
    program = tmp_path / "bin" / "tenex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    source: Path = request.param
    unit = tmp_path / source.name.replace("@.", "@a.")
    unit.write_text(source.read_text().replace("/opt/tenex/bin/tenex", str(program)))
    return unit


def port_here() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


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
    assert unit["UMask"] == ["0022"], "the workspace has it; what the daemon keeps is private whatever it is"
    assert directives(RELAY)["UMask"] == ["0077"]
    assert all(unit[name] == ["tenex"] for name in ("User", "Group", "StateDirectory"))


def test_each_of_several_daemons_is_confined_as_one_is_and_has_a_folder_of_its_own_but_for_the_keys() -> None:
    template, unit = directives(TEMPLATE), directives()
    assert {name for name in unit.keys() | template.keys() if unit[name] != template[name]} == {
        *("Description", "After", "StateDirectory", "WorkingDirectory", "Environment", "EnvironmentFile")
    }
    own, keys = template["StateDirectory"][0].split()
    assert template["WorkingDirectory"] == [f"%S/{own}"]
    (variable,) = template["Environment"]
    assert variable == f"TENEX_PATHS__KEYS=%S/{keys}"
    assert hasattr(Settings().paths, "keys")


def test_a_database_that_is_away_is_a_reason_to_start_again() -> None:
    assert str(Unavailable.exit_code) not in directives(TEMPLATE)["RestartPreventExitStatus"][0].split()


@needs_systemd
@needs_strace
@needs_bubblewrap
def test_the_sandbox_of_agents_asks_the_kernel_for_nothing_the_unit_forbids(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    (tmp_path / "workspace").mkdir()
    view = WorkspaceView(root=tmp_path / "workspace", folder=tmp_path / "view", way=Way.OVERLAY)
    view.make()
    mounting, mount = view.launch()
    with witness_of(view.root) as witness:
        environment = clean_environment("/tmp")
        program = wrapped(
            view.root, ["/bin/touch", "a"], environment, can_write=True, mount=mount, witness=witness.descriptor
        )
        line = ["strace", "-f", "-qq", "-o", str(log), *mounting, *program]
        descriptors = [witness.descriptor]
        subprocess.run(line, check=True, timeout=60, capture_output=True, pass_fds=descriptors)
    assert (view.upper / "a").is_file()
    assert (witness.fault, witness.wrote(b"a")) == ("", True)
    # a process that is being killed leaves `syscall_0x…` in the log: strace could not read which call it was in
    asked = set(re.findall(r"^\d+ +((?!syscall_0x)[a-z]\w+)\(", log.read_text(), re.MULTILINE))
    assert {"mount", "pivot_root", "unshare", "seccomp"} <= asked
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


async def reload(folder: Folder, process: Process, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the lines of ExecReload as systemd does: in order, each only if the one before has ended well."""
    own = {"MAINPID": str(process.pid), "PATH": "/nonexistent", "STATE_DIRECTORY": str(folder.data), **env}
    own = {name: value for name, value in environment(**own).items() if name != "TENEX_DATA"}
    for line in directives()["ExecReload"]:
        line = re.sub(r"(?<!\$)\$(\w+)", lambda name: own.get(name[1], ""), line).replace("$$", "$")
        words = shlex.split(line.replace("/opt/tenex/bin/tenex", shlex.join(TENEX)))
        assert words[0] == "/bin/sh", "a minimal Debian has no /bin/kill"
        done = await asyncio.to_thread(
            subprocess.run, words, env=own, cwd=folder.data, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            break
    return done


async def test_a_reload_needs_no_program_but_the_shell(folder: Folder) -> None:
    async with daemon(folder) as process:
        done = await reload(folder, process)
        assert done.returncode == 0, done.stderr
        await process.until("configuration.reloaded")


async def test_a_reload_of_a_broken_configuration_fails_with_the_sentence_and_sends_the_daemon_nothing(
    folder: Folder,
) -> None:
    file = folder.data / "tenex.toml"
    async with daemon(folder) as process:
        good = file.read_text()
        file.write_text(good.replace("[people]", "[people]\nopne = true", 1))
        done = await reload(folder, process)
        assert done.returncode == 3
        assert "opne: there is no such setting; did you mean `open`?" in done.stderr
        file.write_text(good)
        (folder.data / "agents" / "helper.md").write_text("---\nname: Helper\n---\n")
        done = await reload(folder, process)
        assert (done.returncode, "helper.md" in done.stderr) == (3, True)
        (folder.data / "agents" / "helper.md").unlink()
        assert (await reload(folder, process)).returncode == 0
        await process.until("configuration.reloaded")
        assert "configuration.refused" not in process.events()
        assert process.events().count("configuration.reloaded") == 1


async def test_a_check_before_a_reload_finds_the_keys_that_systemd_gives_the_daemon_alone(
    folder: Folder, tmp_path: Path
) -> None:
    """Systemd 252 names their folder to the check, which may not read it; below /proc it is the daemon's."""
    keys = tmp_path / "credentials"
    keys.mkdir()
    (keys / "openai.api-key").write_text("sk-loopback\n")
    async with daemon(folder) as process:
        file = folder.data / "tenex.toml"
        file.write_text(file.read_text().replace("[models]\n", '[models]\ndefault = "openai:gpt-5-mini"\n'))
        assert "no key" in (await reload(folder, process)).stderr
        done = await reload(folder, process, CREDENTIALS_DIRECTORY=str(keys))
        assert done.returncode == 0, done.stderr
        keys.chmod(0o700)
        (keys / "openai.api-key").unlink()
        done = await reload(folder, process, CREDENTIALS_DIRECTORY=str(keys))
        assert f"/proc/{process.pid}/root{keys}/openai.api-key" in done.stderr


async def test_the_relay_listens_where_the_daemon_looks_and_keeps_its_events(tmp_path: Path) -> None:
    (line,) = directives(RELAY)["ExecStart"]
    program, *words = line.replace("%S", str(tmp_path)).split()
    assert program == directives()["ExecStart"][0].split()[0]
    port = words[words.index("--port") + 1]
    assert Settings().relays.urls == [f"ws://127.0.0.1:{port}"] == [f"ws://127.0.0.1:{EMBEDDED_RELAY_PORT}"]
    words[words.index("--port") + 1] = str(port_here())
    async with running([*TENEX, *words]) as relay:
        await person.until((tmp_path / "tenex-relay" / "data.mdb").exists)
        assert await relay.stop() == 0


def steps(text: str) -> list[str]:
    """The commands of an install."""
    commands = [line.lstrip("# ").rstrip() for line in text.splitlines()]
    begin = next(number for number, line in enumerate(commands) if line.startswith("apt install"))
    return [line.partition("   #")[0].rstrip() for line in commands[begin : begin + 5]]


def test_the_five_steps_are_the_same_in_the_unit_and_in_the_document() -> None:
    assert steps(UNIT.read_text()) == steps((ROOT / "docs" / "how-to" / "install.md").read_text())
    assert "'.[relay," in steps(UNIT.read_text())[1]
    assert "config/tenex*.service" in steps(UNIT.read_text())[4]


async def test_its_command_runs_in_its_environment(folder: Folder, tmp_path: Path) -> None:
    words = [*TENEX, *directives()["ExecStart"][0].split()[1:]]
    with closing(Manager(str(tmp_path / "notify"))) as manager:
        env = {"STATE_DIRECTORY": str(folder.data), "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "60000000"}
        async with running(words, **env), asyncio.timeout(int(directives()["TimeoutStartSec"][0])):
            await manager.expect(READY="1")
