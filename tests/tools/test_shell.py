"""A command runs confined: nothing of ours to be seen, nothing outside to be changed, nothing left behind."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import ShellPolicy, ShellRules, shell_tool
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, git, make_context, names_in, needs_bubblewrap, needs_git
from .test_process import is_alive, until

SANDBOXED = ShellRules(policy=ShellPolicy.SANDBOXED, timeout=30)


@pytest.fixture
def shell(workspace: Workspace, scratch: Path, policy: ShellPolicy) -> ToolRegistry:
    return registry_of(workspace, ShellRules(policy=policy, timeout=30), scratch)


def registry_of(workspace: Workspace, rules: ShellRules, scratch: Path | None = None) -> ToolRegistry:
    return ToolRegistry([shell_tool(workspace, rules, scratch=scratch)], ROSTER.get)


async def run(registry: ToolRegistry, command: str, phase: Phase = Phase.EXECUTE, **arguments: Any) -> ToolResult:
    return await registry.call("shell", {"command": command, **arguments}, make_context(phase))


async def test_a_command_works_in_the_workspace(shell: ToolRegistry, workspace: Workspace, scratch: Path) -> None:
    result = await run(shell, "pwd; mkdir -p out && echo hällo | tee out/file; false | true; echo $((6 * 7)) >&2")
    assert result == ToolResult(
        ok=True, content=f"The command ended with exit status 0. Output:\n{workspace.root}\nhällo\n42"
    )
    assert (workspace.root / "out/file").read_text() == "hällo\n"
    assert (workspace.root / "out/file").stat().st_uid == os.getuid()
    assert names_in(scratch) == []


async def test_failure_is_reported_with_what_was_printed(shell: ToolRegistry) -> None:
    result = await run(shell, "echo before; ls /nonexistent; exit 7")
    assert not result.ok
    assert result.content.startswith("The command ended with exit status 7. Output:\nbefore\nls: ")
    assert (await run(shell, "kill -SEGV $$")).content.split(". ")[0] in (
        "The command ended with exit status 139",  # bubblewrap reports it as a shell does
        "The command was ended by signal 11",
    )
    assert "syntax error" in (await run(shell, "if then")).content
    assert (await run(shell, "true")).content == "The command ended with exit status 0. No output."


async def test_it_starts_in_folders_of_the_workspace_only(
    shell: ToolRegistry, workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.root / "a b").mkdir()
    (workspace.root / "file").write_text("")
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    assert (await run(shell, "pwd", cwd="a b")).content.endswith(f"{workspace.root}/a b")
    for cwd, message in (
        ("..", "`..`"),
        ("/etc", "outside"),
        ("out", "outside"),
        ("gone", "no folder"),
        ("file", "no folder"),
    ):
        result = await run(shell, "touch ran", cwd=cwd)
        assert not result.ok
        assert message in result.content
    assert names_in(tmp_path / "outside") == ["secret.txt"]


async def test_what_is_no_command_line_is_refused(shell: ToolRegistry) -> None:
    assert "NUL" in (await run(shell, "echo a\0b")).content
    assert "write a script" in (await run(shell, "#" * 100_001)).content
    assert "half of a pair" in (await run(shell, "echo \ud800")).content
    assert "minLength: 1" in (await run(shell, "")).content


async def test_time_is_bounded_and_the_operator_has_the_last_word(workspace: Workspace, policy: ShellPolicy) -> None:
    registry = registry_of(workspace, ShellRules(policy=policy, timeout=1))
    loop = "echo on; while :; do :; done"
    for more in ({}, {"timeout": 1}, {"timeout": 600}):
        result = await registry.call("shell", {"command": loop, **more}, make_context())
        assert not result.ok
        assert result.content == (
            "The command was still running after 1 s and was stopped, with everything it had started. Output:\non"
        )


async def test_output_is_capped_readable_and_can_be_recorded(shell: ToolRegistry) -> None:
    result = await run(shell, "echo first; seq 200000; echo last >&2; exit 3")
    assert len(result.content) < 34 * 1024
    assert result.content.startswith("The command ended with exit status 3. Output:\nfirst\n1\n2\n")
    assert result.content.endswith("200000\nlast")
    assert "bytes left out" in result.content
    result = await run(shell, r"printf '\0\xff\xfe\x1b[31mred\x1b[0m\n'; head -c 100000 /dev/urandom")
    result.content.encode("utf-8")
    assert "red" in result.content
    assert not {"\0", "\x1b", "\x07"} & set(result.content)


async def test_its_environment_is_fixed(
    shell: ToolRegistry, monkeypatch: pytest.MonkeyPatch, policy: ShellPolicy
) -> None:
    """The whole list, so that a new name has to be justified here."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:secret@proxy")
    lines = (await run(shell, "env")).content.split("\n")[1:]
    expected = "PATH LANG HOME TMPDIR TERM PAGER GIT_PAGER GIT_TERMINAL_PROMPT NO_COLOR USER LOGNAME SHELL PWD SHLVL _"
    assert {line.partition("=")[0] for line in lines} == set(expected.split())
    python = await run(shell, "python -c 'import sys; print(sys.prefix)'; python3 -c 'print(6 * 7)'")
    assert python.content.split("\n")[1:] == [sys.prefix, "42"], "the Python that `check` runs"
    assert "secret" not in "".join(lines)
    if policy is ShellPolicy.SANDBOXED:
        everything = "cat /proc/*/environ | tr '\\0' '\\n'; id -un; getent hosts localhost"
        result = await run(shell, everything)
        assert "secret" not in result.content
        assert "agent" in result.content
        assert "localhost" in result.content


FAMILY = """
sleep 600 & echo $! > child
setsid sh -c 'sleep 600 & echo $! > orphan' &
(trap '' TERM HUP INT; sleep 600; sleep 600) & echo $! > stubborn
while [ ! -s orphan ]; do sleep 0.01; done
touch born
wait
"""


def sleepers(root: Path) -> list[int]:
    """All processes whose folder is the workspace, by whatever number they have outside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here = (entry / "cwd").readlink()
            except OSError:
                continue
            if here == root and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


async def test_cancelling_ends_everything_it_started(shell: ToolRegistry, workspace: Workspace, scratch: Path) -> None:
    task = asyncio.create_task(run(shell, FAMILY))
    await until((workspace.root / "born").exists, "the family is born")
    assert len(sleepers(workspace.root)) >= 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not sleepers(workspace.root), "all are gone")
    assert names_in(scratch) == []


async def test_what_it_leaves_in_the_background_ends_with_it(shell: ToolRegistry, workspace: Workspace) -> None:
    result = await run(shell, "(setsid sleep 600 >/dev/null 2>&1 &) ; echo started")
    assert result.content.endswith("started")
    assert not sleepers(workspace.root)


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.conftest import make_context
from tenex.tools.shell import ShellPolicy, ShellRules, shell_tool
from tenex.tools.workspace import Workspace
tool = shell_tool(Workspace(Path(sys.argv[1])), ShellRules(policy=ShellPolicy(sys.argv[2]), timeout=600))
asyncio.run(tool.body({"command": sys.argv[3]}, make_context()))
"""


async def test_a_daemon_killed_outright_takes_everything_along(workspace: Workspace, policy: ShellPolicy) -> None:
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DAEMON, str(workspace.root), policy, FAMILY, cwd=Path(__file__).parents[2]
    )
    await until((workspace.root / "born").exists, "the family is born")
    assert len(sleepers(workspace.root)) >= 4
    daemon.kill()
    await daemon.wait()
    await until(lambda: not sleepers(workspace.root), "all are gone")


@needs_bubblewrap
async def test_in_the_sandbox_there_is_no_way_out(workspace: Workspace, tmp_path: Path) -> None:
    """Each line tries one way to read, write, reach or kill what lies outside; all of them fail."""
    outside = tmp_path / "outside"
    (workspace.root / "link").symlink_to(outside)
    ways = [
        f"cat {outside}/secret.txt",
        f"ls {tmp_path}/scratch",
        "cat link/secret.txt",
        "cat link/../outside/secret.txt",
        f"cat /proc/1/root{outside}/secret.txt",
        f"cat /proc/self/root{outside}/secret.txt",
        "cat /proc/self/cwd/../outside/secret.txt",
        f"echo x > {outside}/new",
        "echo x > link/new",
        f"ln {outside}/secret.txt hard",
        "touch /usr/new",
        "touch /etc/new",
        f"touch {sys.prefix}/bin/x",
        "touch /new",
        f"touch {workspace.root.parent}/new && ls {outside}",
        "cat /etc/shadow",
        "ls /var",
        "cat /etc/machine-id",
        "mount -t tmpfs none /usr",
        "umount /usr",
        "mknod disk b 8 0 && cat disk",
        "chroot / true",
        f"kill -9 {os.getpid()}",
        "cat /proc/1/mem",
        "su -c true",
        "ls /sys/class",
        "python -c 'import os; os.setuid(12345)'",
        "cat /dev/mem",
        f"ls {Path.home()}/.ssh",
        "ls /run",
    ]
    for way in ways:
        result = await run(registry_of(workspace, SANDBOXED), way)
        assert not result.ok, way
        assert "the secret" not in result.content
    assert names_in(outside) == ["secret.txt"]
    assert not [name for name in names_in(workspace.root.parent) if name == "new"]


@needs_bubblewrap
async def test_there_is_no_network_unless_the_operator_permits_it(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"python -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')\""
        alone = await run(registry_of(workspace, SANDBOXED), f'{reach}; python -c "{INTERFACES}"')
        assert "ConnectionRefusedError" in alone.content
        assert alone.content.endswith("['lo']")
        rules = ShellRules(policy=ShellPolicy.SANDBOXED, network=True)
        assert (await run(registry_of(workspace, rules), reach)).content.endswith("reached")


INTERFACES = "import socket; print([name for _, name in socket.if_nameindex()])"


@needs_bubblewrap
async def test_inside_it_has_a_home_and_servers_of_its_own(workspace: Workspace, scratch: Path) -> None:
    registry = registry_of(workspace, SANDBOXED, scratch)
    serve = (
        "cd ~ && echo hi > /tmp/f && echo here > ~/index.html && python -m http.server 8000 >/dev/null 2>&1 & "
        'python -c "import time, urllib.request as u\nfor _ in range(200):\n'
        " try: print(u.urlopen('http://localhost:8000/index.html').read().decode()); break\n"
        ' except OSError: time.sleep(0.05)"'
    )
    assert (await run(registry, serve)).content.split("\n")[1] == "here"
    assert not (await run(registry, "cat /tmp/f || cat ~/index.html")).ok  # nothing of the last call is left


@needs_bubblewrap
@needs_git
async def test_the_repository_can_be_read_and_nothing_can_be_planted_in_it(workspace: Workspace) -> None:
    """What is written there would be run when a person next uses git, outside."""
    (workspace.root / "a").write_text("1\n")
    git(workspace.root, "init", "-q")
    git(workspace.root, "add", "a")
    git(workspace.root, "commit", "-q", "-m", "first")
    registry = registry_of(workspace, SANDBOXED)
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
        result = await run(registry, way)
        assert not result.ok, way
    assert git(workspace.root, "log", "--format=%s") == "first\n"
    assert git(workspace.root, "status", "--porcelain") == " M a\n"


async def test_a_missing_sandbox_is_reported(
    workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    result = await run(registry_of(workspace, SANDBOXED, scratch), "touch ran")
    assert "The operator has to fix that" in result.content
    assert names_in(workspace.root) == names_in(scratch) == []


@pytest.mark.parametrize("network", [True, False])
def test_its_description_names_the_rules_in_force(workspace: Workspace, network: bool) -> None:
    rules = ShellRules(policy=ShellPolicy.SANDBOXED, network=network, timeout=77)
    with pytest.raises(InternalError):
        shell_tool(workspace, ShellRules())
    described = shell_tool(workspace, rules).description
    assert "77 s" in described
    assert ("there is no network" in described) is not network
    assert "sandbox" not in shell_tool(workspace, ShellRules(policy=ShellPolicy.UNSANDBOXED)).description


async def test_a_home_full_of_what_is_hard_to_remove_is_removed(shell: ToolRegistry, scratch: Path) -> None:
    deep = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    result = await run(shell, f'cd "$HOME" && mkdir shut && chmod 0 shut && python -c "{deep}" && echo made')
    assert result.content.endswith("made")
    assert names_in(scratch) == []
