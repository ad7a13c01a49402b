"""In the sandbox nothing is planted for later in our Python or the machine's settings, and no key is seen."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

import pytest

from tenex.tools import sandbox, sandbox_init
from tests.programs import needs_bubblewrap

from .conftest import Bench, put


@needs_bubblewrap
async def test_our_python_is_protected_in_the_workspace_and_not_seen_elsewhere(
    sandboxed: Bench, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planted there would run as the daemon, outside; and keys may lie in a folder around both."""
    put(tmp_path, {"lib/module.py": "a module", "keys/project": "the key", "workspace/tools/env/bin/python": "ours"})
    monkeypatch.setattr(sys, "prefix", str(root / "tools/env"))
    for way in ("echo x > tools/env/bin/python", "mv tools/env old", "mv tools old", "rm -rf tools"):
        assert not (await sandboxed.run(way)).ok, way
    assert (root / "tools/env/bin/python").read_text() == "ours"
    monkeypatch.setattr(sys, "prefix", str(root))
    assert not (await sandboxed.run("touch x")).ok, "a workspace that is our Python is read-only"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    result = await sandboxed.run(f"ls {tmp_path}")
    assert result.content.split("\n")[1:] == ["workspace"]


@needs_bubblewrap
async def test_settings_of_the_machine_cannot_be_written_even_by_root(sandboxed: Bench) -> None:
    """The kernel runs what is in `core_pattern`, outside; the owner of that file needs no privilege for it."""
    pattern = "/proc/sys/kernel/core_pattern"
    command = f"cat {pattern} > /tmp/now; cat /tmp/now > {pattern} || echo refused; echo x > /dev/x || echo refused"
    content = (await sandboxed.run(f"{command}; echo x > /dev/null && echo x > /dev/shm/x")).content
    assert content.startswith("The command ended with exit status 0.")
    assert content.split("\n").count("refused") == 2


@needs_bubblewrap
async def test_memory_and_processes_are_bounded(sandboxed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MOST_PROCESSES", 77)
    assert (await sandboxed.run("ulimit -u")).content.endswith("\n77")
    if not sandbox._can_size("bwrap"):
        pytest.skip("this bubblewrap cannot bound what it keeps in memory")
    monkeypatch.setattr(sandbox, "LARGEST_SCRATCH", 1024**2)
    for place in ("/tmp/x", "/dev/shm/x"):
        result = await sandboxed.run(f"head -c 3000000 /dev/zero > {place}")
        assert "No space left" in result.content


@needs_bubblewrap
async def test_a_workspace_that_a_command_has_shut_is_opened_again(sandboxed: Bench, root: Path) -> None:
    root.chmod(0o750)
    await sandboxed.run("chmod 000 .")
    assert root.stat().st_mode & 0o777 == 0o750


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
async def test_a_command_neither_sees_nor_uses_keys_of_the_kernel(sandboxed: Bench, root: Path) -> None:
    """By its number another process of the user can link the user's keyring and read all that is in it."""
    known = next(iter(sandbox_init.SYSTEM_CALLS.get(os.uname().machine, {}).values()), None)
    if known is None:
        pytest.skip("the numbers of these system calls are not known for this machine")
    calls = [known[name] for name in ("add_key", "request_key", "keyctl")]
    system, user_keyring = ctypes.CDLL(None), ctypes.c_long(-4)
    key = system.syscall(calls[0], b"user", b"tenex-test", b"the secret", 10, user_keyring)
    if key < 0:
        pytest.skip("the kernel gives no keys here")
    try:
        keyring = system.syscall(calls[2], 0, user_keyring, 0)  # its number
        put(root, {"keys.py": ASK_FOR_KEYS})
        numbers = " ".join(map(str, [*calls, keyring, key]))
        result = await sandboxed.run(f"python3 keys.py {numbers}; cat /proc/keys /proc/key-users")
    finally:
        system.syscall(calls[2], 9, key, user_keyring)  # unlink
    assert "no keys" in result.content
    assert "tenex-test" not in result.content
    assert "_uid" not in result.content


def passes(architecture: int, number: int, argument: int = 0) -> bool:
    """Whether the filter lets a call pass, as the kernel reads it; `argument` is the first one."""
    lines = sandbox_init.refusing_filter(sandbox_init.SYSTEM_CALLS["x86_64"])
    at, value = 0, 0
    while True:
        operation, jump_true, jump_false, constant = lines[at]
        at += 1
        match operation:
            case sandbox_init.LOAD:
                places = {sandbox_init.NUMBER: number, sandbox_init.ARCHITECTURE: architecture}
                value = places.get(constant, argument)
            case sandbox_init.IF_EQUAL:
                at += jump_true if value == constant else jump_false
            case sandbox_init.IF_AT_LEAST:
                at += jump_true if value >= constant else jump_false
            case sandbox_init.IF_ANY_BIT:
                at += jump_true if value & constant else jump_false
            case _:
                return bool(constant == sandbox_init.SECCOMP_RET_ALLOW)


@pytest.mark.parametrize("architecture", sandbox_init.SYSTEM_CALLS["x86_64"])
def test_no_other_way_to_call_the_kernel_leads_to_what_is_refused(architecture: int) -> None:
    """Programs of 32 bits and those with short pointers have numbers of their own."""
    known = sandbox_init.SYSTEM_CALLS["x86_64"][architecture]
    refused = [known[name] for name in ("add_key", "request_key", "keyctl", "socketcall") if name in known]
    assert not any(passes(architecture, number) for number in [*refused, 425, 426, 427, 435])
    assert all(passes(architecture, number) for number in (0, 1, 59, min(refused) - 1, 424, 428, 434, 436))
    assert not passes(architecture, sandbox_init.X32 + refused[0])
    for name, wrong, right in (("unshare", 0x10000000, 0x20000), ("clone", 0x10000011, 0x11), ("socket", 40, 2)):
        assert not passes(architecture, known[name], wrong)
        assert passes(architecture, known[name], right)
    assert not passes(0xDEAD, 1)


ESCAPES = """
import ctypes, errno, os, socket, sys
system = ctypes.CDLL(None, use_errno=True)
tried = {
    "unshare": lambda: system.unshare(0x10000000),
    "clone": lambda: system.syscall(CLONE, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": lambda: system.syscall(435, 0, 0),
    "io_uring": lambda: system.syscall(425, 1, ctypes.create_string_buffer(200)),
    "ptrace": lambda: system.ptrace(16, 1, 0, 0),
    "seize": lambda: system.ptrace(0x4206, 1, 0, 0),
}
for name, call in tried.items():
    assert call() == -1, name
for name in ("mem", "maps", "environ", "fd/0", "cwd"):
    try:
        path = f"/proc/1/{name}"
        os.readlink(path) if name in ("fd/0", "cwd") else open(path, "rb").read()
    except OSError:
        continue
    raise SystemExit(f"{path} can be read")
try:
    socket.socket(40, socket.SOCK_STREAM)
    raise SystemExit("a vsock socket")
except OSError:
    print("no way out")
"""


@needs_bubblewrap
async def test_a_program_takes_no_user_namespace_and_does_not_trace_its_init(sandboxed: Bench, root: Path) -> None:
    """Nor an io_uring, whose calls pass no filter, or a socket to the host of a virtual machine."""
    known = next(iter(sandbox_init.SYSTEM_CALLS.get(os.uname().machine, {}).values()), None)
    if known is None:
        pytest.skip("the numbers of these system calls are not known for this machine")
    put(root, {"escape.py": ESCAPES.replace("CLONE", str(known["clone"]))})
    result = await sandboxed.run("python3 escape.py; kill -9 1; sh -c 'exit 3' & wait $!; echo $?; kill -TERM $$")
    assert "no way out\n3" in result.content
    assert result.exit_status == 128 + 15


@needs_bubblewrap
@pytest.mark.parametrize("is_forbidden", [True, False])
async def test_the_filter_is_enough_where_bubblewrap_cannot_forbid_namespaces(
    sandboxed: Bench, monkeypatch: pytest.MonkeyPatch, is_forbidden: bool
) -> None:
    monkeypatch.setattr(sandbox, "_can_forbid_namespaces", lambda _: is_forbidden)
    assert "not permitted" in (await sandboxed.run("unshare --user true")).content


@needs_bubblewrap
@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java is installed")
async def test_java_finds_its_settings(sandboxed: Bench, root: Path) -> None:
    source = 'java.security.MessageDigest.getInstance("SHA-256"); System.out.print("works");'
    body = f"class A {{ public static void main(String[] a) throws Exception {{ {source} }} }}"
    put(root, {"A.java": body})
    result = await sandboxed.run("javac A.java && java -cp . A")
    assert result.content.endswith("works"), result.content


@needs_bubblewrap
async def test_of_the_machines_settings_only_what_is_named_is_seen(sandboxed: Bench) -> None:
    """Also for root nothing that other users cannot read, and nothing where passwords are kept."""
    shown = (await sandboxed.run("find /etc -mindepth 1 -maxdepth 2 -not -type d")).content
    assert "/etc/alternatives/" in shown
    for name in ("shadow", "npmrc", "ssl/private", "maven/settings.xml", "hostname"):
        assert f"/etc/{name}" not in shown
