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
from tenex.tools import sandbox, shell_runner
from tenex.tools.process import DiskReserve
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import LONGEST_COMMAND, check_tool, python_tool, shell_tool
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import FAMILY, SANDBOXED, Bench, every_tool, make_context, names_in, processes_in, put, shell_only


@pytest.fixture
def shell(workspace: Workspace, scratch: Path, policy: RunPolicy) -> Bench:
    return shell_only(workspace, replace(SANDBOXED, policy=policy), scratch)


async def printed(tools: Bench, command: str) -> list[str]:
    """The lines that a command prints."""
    return (await tools.run(command)).content.split("\n")[1:]


async def test_a_command_works_in_the_workspace(shell: Bench, root: Path, scratch: Path, policy: RunPolicy) -> None:
    result = await shell.run(
        "pwd; mkdir -p out ~/shut/x && chmod 0 ~/shut; echo hällo | tee out/file; false | true; echo $((6 * 7)) >&2"
    )
    assert result == ToolResult(
        ok=True,
        content=f"The command ended with exit status 0. Output:\n{root}\nhällo\n42",
        exit_status=0,
        has_outside_effect=policy is RunPolicy.UNSANDBOXED,
    )
    assert (root / "out/file").read_text() == "hällo\n"
    assert (root / "out/file").stat().st_uid == os.getuid()
    assert names_in(scratch) == []


async def test_failure_is_reported_with_what_was_printed(shell: Bench) -> None:
    result = await shell.run("echo before; ls /nonexistent; exit 7")
    assert (result.ok, result.exit_status) == (False, 7)
    assert result.content.startswith("The command ended with exit status 7. Output:\nbefore\nls: ")
    assert (await shell.run("kill -SEGV $$")).content.split(". ")[0] in (
        "The command ended with exit status 139",  # bubblewrap reports it as a shell does
        "The command was ended by signal 11",
    )
    assert (await shell.run("true")).content == "The command ended with exit status 0. No output."


async def test_it_starts_in_folders_of_the_workspace_only(shell: Bench, root: Path, outside: Path) -> None:
    put(root, {"a b/x": "", "file": ""})
    (root / "out").symlink_to(outside)
    assert (await shell.run("pwd", cwd="a b")).content.endswith(f"{root}/a b")
    for cwd, message in (("..", "`..`"), ("out", "outside"), ("gone", "no folder"), ("file", "no folder")):
        assert message in await shell.refused("shell", command="touch ran", cwd=cwd)
    assert names_in(outside) == ["secret.txt"]


async def test_time_is_bounded_and_the_operator_has_the_last_word(workspace: Workspace, policy: RunPolicy) -> None:
    tools = shell_only(workspace, ShellRules(policy=policy, timeout=1))
    loop = "echo on; while :; do :; done"
    for more in ({}, {"timeout": 600}):
        assert await tools.refused("shell", command=loop, **more) == (
            "The command was still running after 1 s and was stopped, with everything it had started. Output:\non"
        )


async def test_a_command_whose_time_was_up_is_told_how_to_have_more(workspace: Workspace, policy: RunPolicy) -> None:
    tools = shell_only(workspace, ShellRules(policy=policy, timeout=30))
    less = await tools.refused("shell", command="echo on; exec sleep 600", timeout=1)
    assert "with everything it had started. It may have up to 30 s: give `timeout`. Output:\non" in less
    tools = every_tool(workspace, policy=policy, timeout=1)
    less = await tools.refused("shell", command="echo on; exec sleep 600")
    way = "For what takes longer, call `shell_start` with it: that goes on after its call."
    assert f"with everything it had started. {way} Output:\non" in less
    in_chores = await tools.refused("shell", make_context(Phase.CHORES), command="echo on; exec sleep 600")
    assert "was stopped, with everything it had started. Output:\non" in in_chores, "there is no `shell_start` there"


async def test_its_environment_is_fixed(shell: Bench, monkeypatch: pytest.MonkeyPatch, policy: RunPolicy) -> None:
    """The whole list, so that a new name has to be justified here."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:secret@proxy")
    lines = await printed(shell, "env")
    expected = "PATH LANG HOME TMPDIR TERM PAGER GIT_PAGER GIT_TERMINAL_PROMPT NO_COLOR USER LOGNAME SHELL PWD SHLVL _"
    expected += " GIT_OPTIONAL_LOCKS"  # `git status` would try to write where it cannot
    if policy is RunPolicy.SANDBOXED:  # without a network nothing is tried again
        expected += " BUNDLE_RETRY CARGO_NET_RETRY PIP_RETRIES POETRY_REQUESTS_MAX_RETRIES UV_HTTP_RETRIES"
        expected += " YARN_HTTP_RETRY npm_config_fetch_retries npm_config_update_notifier"
    assert {line.partition("=")[0] for line in lines} == set(expected.split())
    assert await printed(shell, "echo $PATH") == ["/usr/local/bin:/usr/bin:/bin"]
    if policy is RunPolicy.SANDBOXED:
        everything = (await shell.run("cat /proc/*/environ; id -un; getent hosts localhost")).content
        assert "secret" not in everything
        assert "agent" in everything
        assert "localhost" in everything
        made = "touch ~/mine /tmp/mine && find ~ /tmp -name mine | wc -l"
        assert await printed(shell, made) == await printed(shell, made) == ["3"], "they vanish with the command"


async def test_cancelling_ends_everything_it_started(shell: Bench, root: Path, scratch: Path) -> None:
    task = asyncio.create_task(shell.run(FAMILY + "wait"))
    await kit.until((root / "born").exists, "the family is born")
    assert len(kit.processes_in(root)) >= 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await kit.until(lambda: not kit.processes_in(root), "all are gone")
    assert names_in(scratch) == []
    assert [one for one in asyncio.all_tasks() if one.get_name().startswith("disk of")] == []


@needs_git
async def test_a_daemon_killed_outright_takes_everything_along(root: Path, folder: Path, policy: RunPolicy) -> None:
    await kit.killed_daemon(root, FAMILY + "wait", "born", folder, policy)


@needs_bubblewrap
async def test_in_the_sandbox_there_is_no_way_out(sandboxed: Bench, root: Path, tmp_path: Path, outside: Path) -> None:
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
        python3 -c 'import os; os.setuid(12345)'
        cat /dev/mem
        ls {Path.home()}/.ssh
        ls /run
    """
    tried = [way.strip() for way in ways.strip().splitlines()]
    script = "\n".join(f"( {way} ) && echo 'way {number}: worked'" for number, way in enumerate(tried))
    result = await sandboxed.run(script + "\necho done")
    assert result.content.endswith("done")
    assert "worked" not in result.content
    assert "the secret" not in result.content
    assert names_in(outside) == ["secret.txt"]
    assert names_in(tmp_path) == ["outside", "workspace"]


BOMB = """
bomb() { if [ $1 -gt 0 ]; then bomb $(($1 - 1)) | bomb $(($1 - 1)) & else sleep 600; fi; }
bomb 9; sleep 600
"""
"""What forks until it is stopped, or until there are about a thousand: a test must not take the machine down."""

FLOODS = {
    "processes": BOMB,
    "sessions of their own": "for i in $(seq 500); do setsid sleep 600 & done; wait",
    "threads": "python3 -c 'import threading, time\nwhile threading.active_count() < 500:\n"
    "    threading.Thread(target=time.sleep, args=(600,)).start()'",
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_fork_bomb_ends_in_a_sentence_for_root_too(
    shell: Bench, root: Path, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    """The kernel's own limit holds for no process of root, in a sandbox or not."""
    monkeypatch.setattr(shell_runner, "LIMITS", replace(shell_runner.LIMITS, processes=100))
    assert (await shell.run(FLOODS[flood])).content.startswith(
        "The command was stopped, with everything it had started: it had more than 100 processes and threads at once. "
        "Start fewer at a time. "
    )
    assert not processes_in(root)


async def test_many_processes_one_after_the_other_are_no_bomb(shell: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_runner, "LIMITS", replace(shell_runner.LIMITS, processes=100))
    orphans = "for i in $(seq 300); do (sleep 0 & exec sleep 0); done; echo end"
    assert (await shell.run(orphans)).content == "The command ended with exit status 0. Output:\nend"
    assert (await shell.run("for i in $(seq 40); do sleep 0.3 & done; wait; echo end")).content.endswith("end")


@needs_bubblewrap
async def test_there_is_no_network_unless_the_operator_permits_it(workspace: Workspace, sandboxed: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')\""
        names = 'python3 -c "import socket; print([name for _, name in socket.if_nameindex()])"'
        alone = (await sandboxed.run(f"{reach}; {names}")).content
        assert "ConnectionRefusedError" in alone
        assert alone.endswith("['lo']")
        assert (await shell_only(workspace, replace(SANDBOXED, network=True)).run(reach)).ok
    for network, words in ((False, "there is no network"), (True, "the network can be used")):
        assert words in shell_tool(Programs(workspace, replace(SANDBOXED, network=network))).description


async def test_a_missing_sandbox_is_reported(
    workspace: Workspace, root: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    found = await shell_only(workspace, SANDBOXED, scratch).refused("shell", command="touch ran")
    assert "The operator has to fix that" in found
    assert names_in(root) == names_in(scratch) == []


# ---- programs of Python --------------------------------------------------------------------------------------------


async def test_1_2_a_program_of_python_runs_as_a_command_does(
    workspace: Workspace, root: Path, scratch: Path, policy: RunPolicy
) -> None:
    tools = Bench([python_tool(Programs(workspace, replace(SANDBOXED, policy=policy), scratch=scratch))])
    put(root, {"sums.py": "def six(n): return 6 * n\n"})
    program = "from sums import six\nopen('out', 'w').write('ä')\nprint(six(7), flush=True)\n1 / 0"
    result = await tools.do("python", program=program)
    assert result.content.startswith("The command ended with exit status 1. Output:\n42\nTraceback")
    assert 'File "<string>", line 4' in result.content
    assert (root / "out").read_text() == "ä"


@pytest.mark.parametrize("tool", ["shell", "python"])
async def test_what_no_command_line_can_hold_is_refused(tools: Bench, tool: str) -> None:
    name = "command" if tool == "shell" else "program"
    for text, message in (
        ("x\0", f"`{name}` holds a NUL"),
        ("#" * (LONGEST_COMMAND + 1), f"`{name}` has 100001 bytes"),
        ("'\ud83d'", "half of a pair"),
        ("", "minLength: 1"),
    ):
        assert message in await tools.refused(tool, **{name: text})


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


def reserving(workspace: Workspace, policy: RunPolicy, size: int) -> Bench:
    folders = {"the workspace": workspace.root, "the checkpoints": workspace.root.parent / "missing"}
    rules = ShellRules(policy=policy, timeout=60, reserve=DiskReserve(size=size * MB, folders=folders))
    return shell_only(workspace, rules)


async def test_a_command_filling_the_disk_is_stopped(
    workspace: Workspace, root: Path, disk: SimpleNamespace, policy: RunPolicy
) -> None:
    disk.used, tools = 955, reserving(workspace, policy, 40)
    slowly = "while true; do head -c 1000000 /dev/zero >> big; sleep 0.01; done"
    content = await tools.refused("shell", command=f"echo begun; sleep 1000 & {slowly}")
    assert content.startswith("The command was stopped, with everything it had started: ")
    assert "MB are free on the disk of the workspace, and 40 MB are kept free" in content
    assert content.endswith("begun")
    await kit.until(lambda: not kit.processes_in(root), "all are gone")
    assert (await tools.refused("shell", command="rm big")).startswith("Nothing was run: ")
    (root / "big").unlink()
    assert (await tools.run("true")).ok


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
    result = await reserving(workspace, RunPolicy.UNSANDBOXED, size).run("sleep 0.3; touch ran")
    assert result.ok is (root / "ran").exists() is (not refusal)
    if refusal:
        more = "Delete large files with `delete_file`, or ask for room."
        assert result.content == f"Nothing was run: {refusal}. {more}"


async def test_a_checked_program_is_reported_with_its_output_and_changes_nothing_in_the_sandbox(
    workspace: Workspace, root: Path, scratch: Path, policy: RunPolicy
) -> None:
    """What else the sandbox holds back: see above."""
    tools = Bench([check_tool(workspace, policy, deadline=5, scratch=scratch)])
    acts = "open('new.txt', 'w')", "open('src/a.py', 'a')", "socket.create_connection(('127.0.0.1', 1), 1)"
    refused = "".join(f"try: {act}\nexcept OSError: print('hällo')\n" for act in acts)
    for code, ended in (
        (f"import socket\n{refused}print('x' * 1_000_000)", "src/a.py ended with exit status 0. Output:\nhällo\n"),
        ("1/0", "src/a.py ended with exit status 1. Output:\nTraceback"),
    ):
        put(root, {"src/a.py": code})
        for phase in (Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES):
            context = make_context(phase, touched=frozenset({"src/a.py"}))
            result = await tools.do("check", context, path="src/a.py")
            assert result.ok is ("status 0" in ended)
            assert result.content.startswith(ended)
            assert result.content.count("hällo") == (3 if policy is RunPolicy.SANDBOXED else 1) * result.ok
            assert len(result.content) < 33 * 1024
    assert names_in(root) == ["src"] if policy is RunPolicy.SANDBOXED else ["new.txt", "src"]


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
async def test_only_python_files_of_this_cycle_are_run(tools: Bench, root: Path, path: str, message: str) -> None:
    put(root, dict.fromkeys(("old.py", "a.sh", "mine.py", "dir.py/x"), "open('ran', 'w')"))
    (root / "link.py").symlink_to("old.py")
    context = make_context(touched=frozenset({"a.sh", "dir.py", "link.py", "gone.py", "mine.py"}))
    assert message in await tools.refused("check", context, path=path)
    assert not (root / "ran").exists()
    assert (await tools.do("check", context, path="mine.py")).ok
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
