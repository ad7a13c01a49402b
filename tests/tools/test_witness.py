"""What a program writes is seen by the first process of its sandbox, and told apart from what somebody else changes."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from tenex.tools import sandbox, sandbox_init
from tenex.tools.process import run
from tenex.tools.sandbox import HOME, RunPolicy, clean_environment, wrapped
from tenex.tools.witness import Witness, witness_of
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import Bench, every_tool, git, put

pytestmark = needs_bubblewrap

REF = f"refs/tenex/{'c' * 64}"


async def seen(root: Path, command: str) -> Witness:
    """Run a command, and return what was seen of it."""
    with witness_of(root) as witness:
        line = wrapped(
            root,
            ["/bin/bash", "-c", command],
            clean_environment(HOME),
            can_write=True,
            witness=witness.descriptor,
        )
        environment = clean_environment(HOME)
        outcome = await run(
            line, cwd=root, environment=environment, deadline=60, most_output=9_000, descriptors=[witness.descriptor]
        )
        assert outcome.status == 0, outcome.output
    return witness


EACH = {
    "echo 1 > new": ["new"],
    "echo 1 >> old/a": ["old/a"],
    "rm old/a": ["old/a"],
    "rm -r old": ["old/a", "old/b", "old"],
    "mv old/a b; ln b c; ln -s c d": ["old/a", "b", "c", "d"],
    "mv old e": ["old/a", "old/b", "e/a", "e"],
    "mkdir -p f/g; rmdir f/g": ["f", "f/g"],
    "chmod +x old/a": ["old/a"],
    "cd old; echo 1 > ../h; cd ..; echo 2 > ./old/../i; echo 3 > $PWD//j": ["h", "i", "j"],
    "ln -s old k; echo 1 >> k/a; ln -s old/b l; echo 1 >> l": ["old/a", "old/b", "k", "l"],
    "truncate -s 3 old/a; mkfifo m": ["old/a", "m"],
    "python3 -c \"import os; f = os.open('old', os.O_RDONLY); os.rename('a', 'n', src_dir_fd=f, dst_dir_fd=f)\"": [
        "old/a",
        "old/n",
    ],
    "python3 -c \"import os; os.fchmod(os.open('old/a', os.O_RDONLY), 0o600)\"": ["old/a"],
    "(sleep 0.1; echo 1 > o) & wait; setsid sh -c 'echo 1 > p'; sed -i s/a/b/ old/b": ["o", "p", "old/b"],
    "tar cf q old; tar xf q; gzip q": ["q", "q.gz", "old/a"],
    "printf 'r\\0s\\0' | xargs -0 -P 4 touch": ["r", "s"],
}


@pytest.mark.parametrize("command", EACH)
async def test_each_way_to_change_a_file_is_seen(root: Path, command: str) -> None:
    put(root, {"old/a": "a", "old/b": "b", "other": "o"})
    witness = await seen(root, f"cat other old/a > /dev/null; {command}")
    assert witness.fault == ""
    assert [path for path in EACH[command] if not witness.wrote(os.fsencode(path))] == []
    assert not witness.wrote(b"other")
    assert not witness.wrote(b"never")


async def test_what_only_reads_writes_nothing(root: Path) -> None:
    put(root, {"a": "1"})
    witness = await seen(root, "cat a; ls -la; grep -r 1 .; find . > /tmp/found; test -w a; stat a")
    assert not any(witness.wrote(path) for path in (b"a", b"found", b"."))


async def test_odd_names_are_seen_as_they_are(root: Path) -> None:
    witness = await seen(root, r"echo 1 > $'\xff'; echo 1 > $'new\nline'; echo 1 > '= x'")
    assert all(witness.wrote(path) for path in (b"\xff", b"new\nline", b"= x"))


async def test_a_command_with_many_files_and_processes_ends(root: Path) -> None:
    """Each call waits for the witness, also those that a signal interrupts."""
    program = """
import os, signal, threading
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def write(number):
    for name in range(200):
        with open(f"{number}-{name}", "w") as file:
            file.write("x")
children = []
for number in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        write(number)
        os._exit(0)
threads = [threading.Thread(target=write, args=(number,)) for number in range(4, 8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    put(root, {"many.py": program})
    witness = await seen(root, "python3 many.py")
    assert witness.fault == ""
    paths = [f"{number}-{name}".encode() for number in range(8) for name in range(200)]
    assert all(witness.wrote(path) for path in paths)


@pytest.mark.parametrize(
    "command",
    [
        "echo x > old/a/b/c",
        "ln -s loop loop; echo x > loop/b/c",
        "mkdir -m 0 shut; echo x > shut/b/c; chmod 700 shut",
        "echo x > missing/b/c",
        'python3 -c "import ctypes; assert ctypes.CDLL(None).unlink(ctypes.c_void_p(8)) == -1"',
    ],
)
async def test_a_call_that_fails_takes_nothing_from_what_is_known(root: Path, command: str) -> None:
    put(root, {"old/a": "a", "old/b": "b"})
    witness = await seen(root, f"({command}) 2> /dev/null; echo 1 > last")
    assert witness.fault == ""
    assert witness.wrote(b"last")


async def test_processes_killed_as_they_write_neither_stop_the_others_nor_the_witness(root: Path) -> None:
    """The memory of a process is gone where it was killed while its call is looked at."""
    program = """
import os, signal, time
for turn in range(150):
    children = []
    for number in range(4):
        children.append(os.fork())
        while children[-1] == 0:
            os.close(os.open(f"file-{number}", os.O_WRONLY | os.O_CREAT))
    time.sleep(turn % 10 / 1000)
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
open("last", "w").close()
"""
    put(root, {"kill.py": program})
    witness = await seen(root, "python3 kill.py")
    assert witness.fault == ""
    assert witness.wrote(b"last")


async def test_where_the_kernel_gives_no_listener_the_command_runs_and_nothing_is_claimed(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    init = Path(sandbox_init.__file__).read_text().replace('SECCOMP = {"x86_64": 317', 'SECCOMP = {"x86_64": 31700')
    (tmp_path / "sandbox_init.py").write_text(init)
    monkeypatch.setattr(sandbox, "__file__", str(tmp_path / "sandbox.py"))
    witness = await seen(root, "echo 1 > a")
    assert (root / "a").exists()
    assert witness.fault != ""


def test_entries_that_come_in_pieces_are_read_whole(tmp_path: Path) -> None:
    with witness_of(tmp_path) as witness:
        root = os.fsencode(tmp_path)
        for piece in (b"+", b"\0= ", root + b"/a", b"b\0/ " + root, b"/d\0= /else/where\0"):
            os.write(witness.descriptor, piece)
            witness.look()
        assert witness.fault == ""
        assert witness.wrote(b"ab")
        assert witness.wrote(b"d/e/f")
        assert not witness.wrote(b"else/where")
        witness.begin()
        assert not witness.wrote(b"ab")
        os.write(witness.descriptor, b"!a program of 32 bits\0+\0")
        witness.look()
    assert witness.fault


@needs_git
async def test_what_a_person_changes_while_a_command_runs_is_not_the_commands(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """Neither in what the model is told, nor in what counts as changed in the cycle, nor in the checkpoint."""
    kit.fill(root)
    tools = every_tool(workspace, folder, RunPolicy.SANDBOXED)
    command = "touch go; while [ ! -e went ]; do sleep 0.02; done; echo x >> app.py; rm src/other.py; rm go went"
    running = asyncio.create_task(tools.run(command))
    await kit.until((root / "go").exists, "the command runs")
    put(root, {"README.md": "by hand", "new.txt": "by hand", "went": ""})
    result = await running
    assert result.touched == ("app.py", "src/other.py")
    assert "[Changed: app.py, src/other.py. Changed by somebody else while it ran: README.md, new.txt.]" in (
        result.content
    )
    message = git(folder, "log", "-1", "--format=%b", REF).strip().splitlines()
    assert message[-4:] == ["access: run", "witnessed: yes", 'other: "README.md"', 'other: "new.txt"']


@needs_git
async def test_outside_a_sandbox_nobody_sees_who_changed_what(workspace: Workspace, root: Path, folder: Path) -> None:
    kit.fill(root)
    tools: Bench = every_tool(workspace, folder, RunPolicy.UNSANDBOXED)
    result = await tools.run("echo x >> app.py")
    assert result.touched == ("app.py",)
    assert "witnessed" not in git(folder, "log", "-1", "--format=%b", REF)


def test_the_init_needs_nothing_but_the_standard_library() -> None:
    """It is run by whatever Python the system has, without site packages."""
    lines = Path(sandbox_init.__file__).read_text().splitlines()
    imports = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imports <= sys.stdlib_module_names


async def test_a_list_that_is_emptied_while_entries_are_written_lacks_none_that_comes_after(tmp_path: Path) -> None:
    """As where a server still writes when its next call begins."""
    paths = [b"%b/%d" % (os.fsencode(tmp_path), number) for number in range(4)]
    stop = threading.Event()
    with witness_of(tmp_path) as witness:
        init = sandbox_init.Witness(os.uname().machine, witness.descriptor, [os.fsencode(tmp_path)])

        def write() -> None:
            while not stop.is_set():
                for path in paths:
                    init.write(b"=", path)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(300):
                witness.begin()
                for path in paths:
                    init.write(b"=", path)
                witness.look()
                assert [path for path in paths if not witness.wrote(path.rpartition(b"/")[2])] == []
        finally:
            stop.set()
            for thread in threads:
                thread.join()
