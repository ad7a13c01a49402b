"""In the sandbox nothing is planted for later: not in a repository, our Python, or the settings of the machine."""

import ctypes
import os
import sys
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools import sandbox, sandbox_init
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import shell_tool
from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, git, needs_bubblewrap, needs_git
from .test_shell import SANDBOXED, registry_of, run


@pytest.mark.parametrize("place", ["inside", "around"])
def test_nested_folders_are_all_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Python's own folder may lie in the workspace, or the workspace in it: the inner one is mounted last."""
    root, prefix = (tmp_path, tmp_path / "venv") if place == "inside" else (tmp_path / "work", tmp_path)
    (prefix / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    line = sandbox.wrapped(root, ["/bin/true"], {}, can_write=True) or pytest.skip("bubblewrap is not installed")
    mounts = [(line[at], line[at + 1]) for at, word in enumerate(line) if word in ("--bind", "--ro-bind")]
    if place == "inside":
        assert mounts.index(("--bind", str(root))) < mounts.index(("--ro-bind", str(prefix)))
    else:
        assert mounts.index(("--ro-bind", str(prefix / "lib"))) < mounts.index(("--bind", str(root)))


@needs_bubblewrap
async def test_only_python_is_seen_of_its_folder(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes an environment in a folder, changes there and begins a project: keys and the socket lie in it."""
    for name in ("bin", "lib", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys/project").write_text("the secret key")
    (tmp_path / "lib/module.py").write_text("a module")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    result = await run(registry_of(workspace, SANDBOXED), f"cat {tmp_path}/lib/module.py; cat {tmp_path}/keys/project")
    assert "a module" in result.content
    assert "the secret key" not in result.content
    assert (await run(registry_of(workspace, SANDBOXED), f"ls {tmp_path}")).content.split("\n")[1:] == [
        "bin",
        "lib",
        "workspace",
    ]


@needs_bubblewrap
async def test_our_python_in_the_workspace_is_protected(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planted there would run as the daemon, outside."""
    prefix = workspace.root / "tools/env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").write_text("ours")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    registry = registry_of(workspace, SANDBOXED)
    for way in ("echo x > tools/env/bin/python", "mv tools/env old", "mv tools old", "rm -rf tools"):
        assert not (await run(registry, way)).ok, way
    assert (prefix / "bin/python").read_text() == "ours"


def test_a_workspace_that_is_our_python_is_read_only(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(workspace.root))
    line = sandbox.wrapped(workspace.root, ["/bin/true"], {}, can_write=True) or pytest.skip("no bubblewrap")
    assert "--bind" not in line
    assert str(workspace.root.parent) not in line


@needs_bubblewrap
async def test_settings_of_the_machine_cannot_be_written_even_by_root(workspace: Workspace) -> None:
    """The kernel runs what is in `core_pattern`, outside; the owner of that file needs no privilege for it."""
    result = await run(
        registry_of(workspace, SANDBOXED),
        "cat /proc/sys/kernel/core_pattern > /tmp/now; cat /tmp/now > /proc/sys/kernel/core_pattern || echo refused",
    )
    assert result.content.endswith("refused")
    assert (await run(registry_of(workspace, SANDBOXED), "echo x > /dev/null && echo x > /dev/shm/x")).ok
    assert not (await run(registry_of(workspace, SANDBOXED), "echo x > /dev/x")).ok


@needs_bubblewrap
async def test_what_it_keeps_in_memory_is_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sandbox._can_size("bwrap"):
        pytest.skip("this bubblewrap cannot bound it")
    monkeypatch.setattr(sandbox, "LARGEST_SCRATCH", 1024**2)
    for place in ("/tmp/x", "/dev/shm/x"):
        result = await run(registry_of(workspace, SANDBOXED), f"head -c 3000000 /dev/zero > {place}")
        assert "No space left" in result.content


@needs_bubblewrap
@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION])
@pytest.mark.parametrize(
    "way",
    [
        "git init -q .",
        "git init -q src",
        "mkdir -p s/.git/objects s/.git/refs; mkfifo s/.git/HEAD",
        "git init -q t; echo 'gitdir: ../t/.git' > src/.git",
        "ln -s /tmp .git",
        "mkdir .GIT; echo x > .GIT/config",
    ],
)
async def test_a_repository_made_by_a_command_is_taken_away(workspace: Workspace, phase: Phase, way: str) -> None:
    (workspace.root / "src").mkdir()
    registry = ToolRegistry([shell_tool(workspace, SANDBOXED, may_write=lambda _: True)], ROSTER.get)
    result = await run(registry, f"{way}; echo 1 > src/a", phase)
    assert "Taken away: " in result.content
    assert [path for path in workspace.root.rglob("*") if path.name.lower() == ".git"] == []
    assert (workspace.root / "src/a").read_text() == "1\n"


@needs_bubblewrap
@needs_git
async def test_nothing_can_be_planted_in_repositories_inside_either(workspace: Workspace) -> None:
    """A submodule, a clone, and a bare one with the work trees of which people work."""
    root = workspace.root
    git(root, "init", "-q", "inner/clone")
    git(root, "init", "-q", "--bare", ".bare")
    (root / "module").mkdir()
    (root / "module/.git").write_text("gitdir: ../.bare\n")
    registry = registry_of(workspace, SANDBOXED)
    for way in (
        "git -C inner/clone config core.fsmonitor ./evil",
        "echo x > inner/clone/.git/hooks/post-checkout",
        "echo x > .bare/config",
        "echo x > .bare/hooks/post-checkout",
        "mv .bare old",
        "rm -rf .bare",
        "echo 'gitdir: /tmp' > module/.git",
        "rm module/.git",
        "mv module/.git x",
    ):
        assert not (await run(registry, way)).ok, way
    result = await run(registry, "mv inner old && git init -q inner/clone && git -C inner/clone config a.b c")
    assert "Taken away: inner/clone/.git." in result.content
    assert not (root / "inner/clone/.git").exists()
    assert (root / "old/clone/.git/HEAD").is_file()  # it went along, unharmed
    for path in (".bare/config", ".bare/hooks/x", "old/clone/.git/config"):
        with pytest.raises(Refusal, match=r"repository|\.git"):
            workspace.resolve(path)


@needs_bubblewrap
async def test_a_workspace_that_a_command_has_shut_is_opened_again(workspace: Workspace) -> None:
    workspace.root.chmod(0o750)
    await run(registry_of(workspace, SANDBOXED), "chmod 000 .")
    assert workspace.root.stat().st_mode & 0o777 == 0o750


@needs_bubblewrap
async def test_its_processes_are_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MOST_PROCESSES", 77)
    assert (await run(registry_of(workspace, SANDBOXED), "ulimit -u")).content.endswith("\n77")


ASK_FOR_KEYS = """
import ctypes, errno, sys
system = ctypes.CDLL(None, use_errno=True)
add_key, request_key, keyctl = map(int, sys.argv[1:4])
read, search, link, join, session, user = 11, 10, 8, 1, ctypes.c_long(-3), ctypes.c_long(-4)
for number in map(int, sys.argv[4:]):
    assert system.syscall(keyctl, link, number, session) == -1
    assert system.syscall(keyctl, read, number, ctypes.create_string_buffer(99), 99) == -1, "a key was read"
for keyring in (session, user):
    assert system.syscall(keyctl, search, keyring, b"user", b"tenex-test", 0) == -1
assert system.syscall(keyctl, join, None) == -1
assert system.syscall(request_key, b"user", b"tenex-test", None, 0) == -1
assert system.syscall(add_key, b"user", b"tenex-test", b"x", 1, user) == -1 and ctypes.get_errno() == errno.ENOSYS
print("no keys")
"""


@needs_bubblewrap
async def test_a_command_neither_sees_nor_uses_keys_of_the_kernel(workspace: Workspace) -> None:
    """By its number another process of the user can link the user's keyring and read all that is in it."""
    calls = next(iter(sandbox_init.SYSTEM_CALLS.get(os.uname().machine, {}).values()), None)
    if calls is None:
        pytest.skip("the numbers of these system calls are not known for this machine")
    system = ctypes.CDLL(None)
    user_keyring = ctypes.c_long(-4)
    key = system.syscall(calls[0], b"user", b"tenex-test", b"the secret", 10, user_keyring)
    if key < 0:
        pytest.skip("the kernel gives no keys here")
    try:
        keyring = system.syscall(calls[2], 0, user_keyring, 0)  # its number
        (workspace.root / "keys.py").write_text(ASK_FOR_KEYS)
        numbers = " ".join(map(str, [*calls, keyring, key]))
        result = await run(
            registry_of(workspace, SANDBOXED), f"python keys.py {numbers}; cat /proc/keys /proc/key-users"
        )
    finally:
        system.syscall(calls[2], 9, key, user_keyring)  # unlink
    assert "no keys" in result.content
    assert "tenex-test" not in result.content
    assert "_uid" not in result.content


def test_no_other_way_to_call_the_kernel_leads_to_its_keys() -> None:
    """Programs of 32 bits and those with short pointers have numbers of their own."""
    lines = sandbox_init.key_filter(sandbox_init.SYSTEM_CALLS["x86_64"])

    def answer(architecture: int, number: int) -> bool:
        """Whether the filter lets a call pass, as the kernel reads it."""
        at, value = 0, 0
        while True:
            operation, jump_true, jump_false, constant = lines[at]
            at += 1
            match operation:
                case sandbox_init.LOAD:
                    value = number if constant == sandbox_init.NUMBER else architecture
                case sandbox_init.IF_EQUAL:
                    at += jump_true if value == constant else jump_false
                case sandbox_init.IF_AT_LEAST:
                    at += jump_true if value >= constant else jump_false
                case _:
                    return constant == sandbox_init.SECCOMP_RET_ALLOW

    for architecture, calls in sandbox_init.SYSTEM_CALLS["x86_64"].items():
        assert not any(answer(architecture, number) for number in calls)
        assert all(answer(architecture, number) for number in (0, 1, 59, calls[0] - 1, calls[-1] + 1))
        assert not answer(architecture, sandbox_init.X32 + calls[0])
    assert not answer(0xDEAD, 1)
