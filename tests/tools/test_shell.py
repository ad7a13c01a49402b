"""A program runs confined: nothing of ours to be seen, nothing outside to be changed, nothing left behind."""

import asyncio
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools import sandbox
from tenex.tools.check import check_tool
from tenex.tools.process import DiskReserve
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import LONGEST_COMMAND, Programs, ShellRules, python_tool, shell_tool
from tenex.tools.workspace import Workspace

from . import conftest as kit
from .conftest import (
    ROSTER,
    SANDBOXED,
    call,
    git,
    make_context,
    names_in,
    needs_bubblewrap,
    needs_git,
    put,
    refused,
    run,
    shell_registry,
)


@pytest.fixture
def shell(workspace: Workspace, scratch: Path, policy: RunPolicy) -> ToolRegistry:
    return shell_registry(workspace, replace(SANDBOXED, policy=policy), scratch)


async def printed(registry: ToolRegistry, command: str) -> list[str]:
    """The lines that a command prints."""
    return (await run(registry, command)).content.split("\n")[1:]


async def test_a_command_works_in_the_workspace(shell: ToolRegistry, root: Path, scratch: Path) -> None:
    result = await run(shell, "pwd; mkdir -p out && echo hällo | tee out/file; false | true; echo $((6 * 7)) >&2")
    assert result == ToolResult(ok=True, content=f"The command ended with exit status 0. Output:\n{root}\nhällo\n42")
    assert (root / "out/file").read_text() == "hällo\n"
    assert (root / "out/file").stat().st_uid == os.getuid()
    assert names_in(scratch) == []


async def test_failure_is_reported_with_what_was_printed(shell: ToolRegistry) -> None:
    result = await run(shell, "echo before; ls /nonexistent; exit 7")
    assert not result.ok
    assert result.content.startswith("The command ended with exit status 7. Output:\nbefore\nls: ")
    assert (await run(shell, "kill -SEGV $$")).content.split(". ")[0] in (
        "The command ended with exit status 139",  # bubblewrap reports it as a shell does
        "The command was ended by signal 11",
    )
    assert (await run(shell, "true")).content == "The command ended with exit status 0. No output."


async def test_it_starts_in_folders_of_the_workspace_only(shell: ToolRegistry, root: Path, outside: Path) -> None:
    kit.put(root, {"a b/x": "", "file": ""})
    (root / "out").symlink_to(outside)
    assert (await run(shell, "pwd", cwd="a b")).content.endswith(f"{root}/a b")
    for cwd, message in (("..", "`..`"), ("out", "outside"), ("gone", "no folder"), ("file", "no folder")):
        assert message in await refused(shell, "shell", command="touch ran", cwd=cwd)
    assert names_in(outside) == ["secret.txt"]


async def test_time_is_bounded_and_the_operator_has_the_last_word(workspace: Workspace, policy: RunPolicy) -> None:
    registry = shell_registry(workspace, ShellRules(policy=policy, timeout=1))
    loop = "echo on; while :; do :; done"
    for more in ({}, {"timeout": 600}):
        assert await refused(registry, "shell", command=loop, **more) == (
            "The command was still running after 1 s and was stopped, with everything it had started. Output:\non"
        )


async def test_its_environment_is_fixed(
    shell: ToolRegistry, monkeypatch: pytest.MonkeyPatch, policy: RunPolicy
) -> None:
    """The whole list, so that a new name has to be justified here."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:secret@proxy")
    lines = await printed(shell, "env")
    expected = "PATH LANG HOME TMPDIR TERM PAGER GIT_PAGER GIT_TERMINAL_PROMPT NO_COLOR USER LOGNAME SHELL PWD SHLVL _"
    assert {line.partition("=")[0] for line in lines} == set(expected.split())
    assert "secret" not in "".join(lines)
    python = await printed(shell, "python -c 'import sys; print(sys.prefix)'; python3 -c 'print(6 * 7)'")
    assert python == [sys.prefix, "42"], "the Python that `check` runs"
    if policy is RunPolicy.SANDBOXED:
        everything = (await run(shell, "cat /proc/*/environ; id -un; getent hosts localhost")).content
        assert "secret" not in everything
        assert "agent" in everything
        assert "localhost" in everything
        made = "touch ~/mine /tmp/mine && find ~ /tmp -name mine | wc -l"
        assert await printed(shell, made) == await printed(shell, made) == ["3"], "they vanish with the command"


FAMILY = """
sleep 600 & echo $! > child
setsid sh -c 'sleep 600 & echo $! > orphan' &
(trap '' TERM HUP INT; sleep 600; sleep 600) & echo $! > stubborn
while [ ! -s orphan ]; do sleep 0.01; done
touch born
"""


async def test_cancelling_ends_everything_it_started(shell: ToolRegistry, root: Path, scratch: Path) -> None:
    task = asyncio.create_task(run(shell, FAMILY + "wait"))
    await kit.until((root / "born").exists, "the family is born")
    assert len(kit.processes_in(root)) >= 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await kit.until(lambda: not kit.processes_in(root), "all are gone")
    assert names_in(scratch) == []
    assert [one for one in asyncio.all_tasks() if one.get_name().startswith("disk of")] == []


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.conftest import make_context
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import Programs, ShellRules, shell_tool
from tenex.tools.workspace import Workspace
tool = shell_tool(Programs(Workspace(Path(sys.argv[1])), ShellRules(policy=RunPolicy(sys.argv[2]), timeout=600)))
asyncio.run(tool.body({"command": sys.argv[3]}, make_context()))
"""


async def test_a_daemon_killed_outright_takes_everything_along(root: Path, policy: RunPolicy) -> None:
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DAEMON, str(root), policy, FAMILY + "wait", cwd=Path(__file__).parents[2]
    )
    await kit.until((root / "born").exists, "the family is born")
    assert len(kit.processes_in(root)) >= 4
    daemon.kill()
    await daemon.wait()
    await kit.until(lambda: not kit.processes_in(root), "all are gone")


@needs_bubblewrap
async def test_in_the_sandbox_there_is_no_way_out(
    workspace: Workspace, root: Path, tmp_path: Path, outside: Path
) -> None:
    """Each line tries one way to read, write, reach or kill what lies outside; all of them fail."""
    (root / "link").symlink_to(outside)
    ways = f"""
        cat {outside}/secret.txt
        cat link/secret.txt
        cat link/../outside/secret.txt
        cat /proc/1/root{outside}/secret.txt
        cat /proc/self/root{outside}/secret.txt
        cat /proc/self/cwd/../outside/secret.txt
        echo x > {outside}/new
        echo x > link/new
        ln {outside}/secret.txt hard
        touch /usr/new
        touch /etc/new
        touch {sys.prefix}/bin/x
        touch /new
        touch {tmp_path}/new && ls {outside}
        cat /etc/shadow
        ls /var
        cat /etc/machine-id
        mount -t tmpfs none /usr
        umount /usr
        mknod disk b 8 0 && cat disk
        chroot / true
        kill -9 {os.getpid()}
        cat /proc/1/mem
        su -c true
        ls /sys/class
        python -c 'import os; os.setuid(12345)'
        cat /dev/mem
        ls {Path.home()}/.ssh
        ls /run
    """
    tried = [way.strip() for way in ways.strip().splitlines()]
    script = "\n".join(f"( {way} ) && echo 'way {number}: worked'" for number, way in enumerate(tried))
    result = await run(shell_registry(workspace), script + "\necho done")
    assert result.content.endswith("done")
    assert "worked" not in result.content
    assert "the secret" not in result.content
    assert names_in(outside) == ["secret.txt"]
    assert names_in(tmp_path) == ["outside", "workspace"]


@needs_bubblewrap
async def test_there_is_no_network_unless_the_operator_permits_it(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"python -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')\""
        names = 'python -c "import socket; print([name for _, name in socket.if_nameindex()])"'
        alone = (await run(shell_registry(workspace), f"{reach}; {names}")).content
        assert "ConnectionRefusedError" in alone
        assert alone.endswith("['lo']")
        assert (await run(shell_registry(workspace, replace(SANDBOXED, network=True)), reach)).ok
    for network, words in ((False, "there is no network"), (True, "the network can be used")):
        assert words in shell_tool(Programs(workspace, replace(SANDBOXED, network=network))).description


@needs_bubblewrap
@needs_git
async def test_the_repository_can_be_read_and_nothing_can_be_planted_in_it(workspace: Workspace, root: Path) -> None:
    """What is written there would be run when a person next uses git, outside."""
    kit.put(root, {"a": "1\n"})
    git(root, "init", "-q")
    git(root, "add", "a")
    git(root, "commit", "-q", "-m", "first")
    registry = shell_registry(workspace)
    assert "first" in (await run(registry, "echo 2 >> a; git log --oneline; git diff --stat")).content
    for way in (
        "echo x > .git/hooks/post-checkout",
        "git config core.fsmonitor ./evil",
        "rm -rf .git",
        "mv .git old",
        "echo x >> .git/config",
        "mount --bind . .git",
        "echo elsewhere > .git/commondir",
        "chmod 777 .git",
    ):
        assert not (await run(registry, way)).ok, way
    assert git(root, "log", "--format=%s") == "first\n"
    assert git(root, "status", "--porcelain") == " M a\n"


async def test_a_missing_sandbox_is_reported(
    workspace: Workspace, root: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    found = await refused(shell_registry(workspace, SANDBOXED, scratch), "shell", command="touch ran")
    assert "The operator has to fix that" in found
    assert names_in(root) == names_in(scratch) == []


async def test_a_home_full_of_what_is_hard_to_remove_is_removed(shell: ToolRegistry, scratch: Path) -> None:
    deep = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    result = await run(shell, f'cd "$HOME" && mkdir shut && chmod 0 shut && python -c "{deep}" && echo made')
    assert result.content.endswith("made")
    assert names_in(scratch) == []


# ---- programs of Python --------------------------------------------------------------------------------------------


@pytest.fixture
def python(workspace: Workspace, scratch: Path, policy: RunPolicy) -> ToolRegistry:
    tool = python_tool(Programs(workspace, replace(SANDBOXED, policy=policy), scratch=scratch))
    runner = kit.member("runner", tools=frozenset({"python"}))
    return ToolRegistry([tool], {**kit.ROSTER, runner.slug: runner}.get)


async def test_1_2_a_program_of_python_runs_as_a_command_does(python: ToolRegistry, root: Path) -> None:
    async def run(program: str, phase: Phase = Phase.EXECUTE) -> ToolResult:
        return await kit.call(python, "python", kit.make_context(phase, "runner"), program=program)

    kit.put(root, {"sums.py": "def six(n): return 6 * n\n"})
    result = await run("from sums import six\nopen('out', 'w').write('ä')\nprint(six(7))")
    assert result == ToolResult(ok=True, content="The command ended with exit status 0. Output:\n42")
    assert (root / "out").read_text() == "ä"
    failed = await run("x = 1\nprint(x / 0)")
    assert not failed.ok
    assert 'File "<string>", line 2' in failed.content
    for phase in (Phase.CHAT, Phase.BRAINSTORM, Phase.PLAN, Phase.REFLECTION):
        assert "may not be used" in (await run("open('no', 'w')", phase)).content
    assert not (root / "no").exists()


@pytest.mark.parametrize("tool", ["shell", "python"])
async def test_what_no_command_line_can_hold_is_refused(registry: ToolRegistry, tool: str) -> None:
    name = "command" if tool == "shell" else "program"
    for text, message in (
        ("x\0", f"`{name}` holds a NUL"),
        ("#" * (LONGEST_COMMAND + 1), f"`{name}` has 100001 bytes"),
        ("'\ud83d'", "half of a pair"),
        ("", "minLength: 1"),
    ):
        assert message in await refused(registry, tool, **{name: text})


# ---- room on the disk ----------------------------------------------------------------------------------------------

MB = 1024**2


@pytest.fixture
def disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk of 1000 MB, of which the workspace's files and `used` are taken."""
    disk = SimpleNamespace(used=0)

    def statvfs(folder: Path) -> SimpleNamespace:
        if not folder.exists():
            raise FileNotFoundError(folder)
        taken = sum(path.lstat().st_size for path in root.rglob("*")) // MB + disk.used
        return SimpleNamespace(f_frsize=MB, f_blocks=1000, f_bavail=max(0, 1000 - taken))

    monkeypatch.setattr("tenex.tools.process.os.statvfs", statvfs)
    return disk


def reserving(workspace: Workspace, policy: RunPolicy, size: int) -> ToolRegistry:
    folders = {"the workspace": workspace.root, "the checkpoints": workspace.root.parent / "missing"}
    reserve = DiskReserve(size=size * MB, folders=folders)
    return shell_registry(workspace, ShellRules(policy=policy, timeout=60, reserve=reserve))


async def test_a_command_filling_the_disk_is_stopped(
    workspace: Workspace, root: Path, disk: SimpleNamespace, policy: RunPolicy
) -> None:
    disk.used = 955
    registry = reserving(workspace, policy, 40)
    slowly = "while true; do head -c 1000000 /dev/zero >> big; sleep 0.01; done"
    content = await refused(registry, "shell", command=f"echo begun; sleep 1000 & echo $! > pid; {slowly}")
    assert content.startswith("The command was stopped, with everything it had started: ")
    assert "MB are free on the disk of the workspace, and 40 MB are kept free" in content
    assert content.endswith("begun")
    if policy is RunPolicy.UNSANDBOXED:  # else the number is the sandbox's own
        assert not kit.is_alive(int((root / "pid").read_text()))
    assert (await refused(registry, "shell", command="rm big")).startswith("Nothing was run: ")
    (root / "big").unlink()
    assert (await run(registry, "true")).ok


@pytest.mark.parametrize(
    ("used", "size", "refusal"),
    [
        (0, 40, ""),
        (961, 40, "39 MB are free on the disk of the workspace, and 40 MB are kept free"),
        (999, 0, ""),
        (940, 5_000, ""),
        (951, 5_000, "49 MB are free on the disk of the workspace, and 50 MB are kept free"),  # a share of a small disk
    ],
)
async def test_below_the_reserve_no_command_begins(
    workspace: Workspace, root: Path, disk: SimpleNamespace, used: int, size: int, refusal: str
) -> None:
    disk.used = used
    result = await run(reserving(workspace, RunPolicy.UNSANDBOXED, size), "sleep 0.3; touch ran")
    assert result.ok is (root / "ran").exists() is (not refusal)
    if refusal:
        more = "Delete large files with `delete_file`, or ask for room."
        assert result.content == f"Nothing was run: {refusal}. {more}"


@pytest.fixture
def checks(workspace: Workspace, scratch: Path, policy: RunPolicy) -> ToolRegistry:
    return ToolRegistry([check_tool(workspace, policy, deadline=5, scratch=scratch)], ROSTER.get)


async def check(registry: ToolRegistry, root: Path, code: str, phase: Phase = Phase.EXECUTE) -> ToolResult:
    put(root, {"src/a.py": code})
    return await call(registry, "check", make_context(phase, touched=frozenset({"src/a.py"})), path="src/a.py")


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("print('hällo')", 0, "Output:\nhällo"),
        ("", 0, "No output."),
        ("print('before')\n1/0", 1, "Output:\nbefore\nTraceback"),
        ("print('x' * 1_000_000)", 0, "Output:\nxxx"),
    ],
)
async def test_a_program_is_reported_with_its_output(
    checks: ToolRegistry, root: Path, code: str, status: int, output: str
) -> None:
    for phase in (Phase.VERIFICATION, Phase.CHORES):
        result = await check(checks, root, code, phase)
        assert result.ok is (status == 0)
        assert result.content.startswith(f"src/a.py ended with exit status {status}. {output}")
        assert len(result.content) < 33 * 1024


@needs_bubblewrap
async def test_in_the_sandbox_it_cannot_change_the_workspace(workspace: Workspace, root: Path) -> None:
    """What else the sandbox holds back: `test_shell`."""
    registry = ToolRegistry([check_tool(workspace, RunPolicy.SANDBOXED)], ROSTER.get)
    code = """
import socket
for act in (
    lambda: open('new.txt', 'w'),
    lambda: open('src/a.py', 'a'),
    lambda: open('outside/secret.txt'),
    lambda: socket.create_connection(('127.0.0.1', 1), 1),
):
    try: print(act())
    except OSError as error: print('refused')
"""
    result = await check(registry, root, code)
    assert result.content.split("\n")[1:] == ["refused"] * 4
    assert names_in(root) == ["src"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("old.py", "has not been changed in this cycle"),
        ("link.py", "old.py has not been changed in this cycle; `check` runs only files that have: dir.py, gone.py"),
        ("a.sh", "not a Python file"),
        ("dir.py", "is a folder"),
        ("gone.py", "no file gone.py"),
        ("../x.py", "`..`"),
    ],
)
async def test_only_python_files_of_this_cycle_are_run(
    registry: ToolRegistry, root: Path, path: str, message: str
) -> None:
    put(root, dict.fromkeys(("old.py", "a.sh", "mine.py", "dir.py/x"), "open('ran', 'w')"))
    (root / "link.py").symlink_to("old.py")
    context = make_context(touched=frozenset({"a.sh", "dir.py", "link.py", "gone.py", "mine.py"}))
    assert message in await refused(registry, "check", context, path=path)
    assert not (root / "ran").exists()
    assert (await call(registry, "check", context, path="mine.py")).ok
    assert (root / "ran").exists()


@pytest.mark.parametrize(
    "script",
    [
        None,
        "raise SystemExit('bwrap: No permissions to create new namespace')",
        "print('confined')",
        """
import os, sys
i = sys.argv.index('--')
os.chdir(sys.argv[i - 1])
os.execv(sys.argv[i + 1], sys.argv[i + 1:])
""",
    ],
    ids=["missing", "forbidden", "lies", "does not confine"],
)
def test_a_bubblewrap_is_probed_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None) -> None:
    if script is not None:
        (tmp_path / "bwrap").write_text(f"#!{sys.executable}\n{script}")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.probe_bubblewrap() is False
