"""A program is bounded, and nothing of it is left behind; after a cancellation and our own end: `test_shell`."""

import asyncio
import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tenex.tools import process as programs
from tenex.tools.process import Outcome, plain_text

from .conftest import is_alive, processes_in, until

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

FAMILY = """
import os, sys, time
def born(name):
    with open(name + '.new', 'w') as file: file.write(str(os.getpid()))
    os.rename(name + '.new', name)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            born('orphan')
            time.sleep(600)
        os._exit(0)
    born('child')
    time.sleep(600)
born('program')
"""
"""A program with a child in its group, and a grandchild that has left the group, the session and its parent."""


async def run(code: str, cwd: Path, *, deadline: float = 20, most_output: int = 1_000) -> Outcome:
    return await programs.run(
        [sys.executable, "-I", "-B", "-c", textwrap.dedent(code)],
        cwd=cwd,
        environment=ENVIRONMENT,
        deadline=deadline,
        most_output=most_output,
    )


async def family(folder: Path) -> list[int]:
    names = [folder / name for name in ("program", "child", "orphan")]
    await until(lambda: all(name.exists() for name in names), "the family is born")
    return [int(name.read_text()) for name in names]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if is_alive(pid)]


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    outcome = await programs.run(
        ["/nonexistent/program"], cwd=tmp_path, environment=ENVIRONMENT, deadline=20, most_output=1_000
    )
    assert outcome.status == 127
    assert "cannot be started" in outcome.output


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("print('out', flush=True); import os; os.write(2, b'err\\n'); os._exit(0)", 0, "out\nerr\n"),
        ("raise SystemExit(7)", 7, ""),
        ("import os; os._exit(255)", 255, ""),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import os, signal as s; s.signal(13, s.SIG_DFL); os.kill(os.getpid(), 13)", -signal.SIGPIPE, ""),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM, ""),
        ("print('x' * 999, end='')", 0, "x" * 999),
        ("print('x' * 1000, end='')", 0, "x" * 1000),
        ("import os; os.write(1, b'a\\xff')", 0, "a\ufffd"),
        ("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))", 0, "['LANG', 'PATH']\n"),
        (
            "import os, sys; print(repr(sys.stdin.read()), sorted(os.listdir('/proc/self/fd'))[:4])",
            0,
            "'' ['0', '1', '2', '3']\n",  # 3 is the listing itself
        ),
    ],
)
async def test_the_status_and_output_are_the_programs_and_nothing_of_ours_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: int, output: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with (tmp_path / "ours").open("w"):
        assert await run(code, tmp_path) == Outcome(status=status, output=output)


async def test_a_flood_is_drained_and_its_middle_left_out(tmp_path: Path) -> None:
    """20 MB go through; the program ends by itself, and its first and last words are kept."""
    outcome = await run(
        "import sys\nprint('first')\nfor _ in range(200): sys.stdout.write('x' * 100_000)\nprint('last')", tmp_path
    )
    assert (outcome.status, outcome.cut) == (0, 6 + 20_000_000 + 5 - 1_000)
    assert outcome.output == f"first\n{'x' * 744}\n[{outcome.cut} bytes left out]\n{'x' * 245}last\n"


async def test_at_the_deadline_the_whole_family_is_gone_and_the_output_kept(tmp_path: Path) -> None:
    task = asyncio.create_task(run(FAMILY + "print('so far', flush=True)\ntime.sleep(600)", tmp_path, deadline=2))
    pids = await family(tmp_path)
    assert await task == Outcome(status=None, output="so far\n")
    assert not alive(pids)


async def test_when_the_program_ends_what_it_started_ends_too(tmp_path: Path) -> None:
    """Also when these hold the output open, which would keep us reading for ever."""
    wait = "\nwhile not all(os.path.exists(n) for n in ('child', 'orphan')): time.sleep(0.005)\nprint('end')"
    assert await run(FAMILY + wait, tmp_path) == Outcome(status=0, output="end\n")
    assert not alive(await family(tmp_path))


async def test_cancelled_while_starting_nothing_is_left(tmp_path: Path) -> None:
    """Cancelled after each of the first twenty turns of the loop: no process or pipe of the run is left."""
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    for turns in range(20):
        task = asyncio.create_task(run("import time; time.sleep(600)", tmp_path))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: not processes_in(tmp_path), "no supervisor is left")
    await until(lambda: len(os.listdir("/proc/self/fd")) <= len(before), "no pipe is left open")  # noqa: PTH208


async def test_a_killed_supervisor_takes_the_program_along(tmp_path: Path) -> None:
    """Should somebody kill the supervisor itself, the program dies by the kernel's hand and the run comes back."""
    code = """
        import os, time
        with open('p.new', 'w') as file: file.write(f'{os.getpid()} {os.getppid()}')
        os.rename('p.new', 'p')
        time.sleep(600)
    """
    task = asyncio.create_task(run(code, tmp_path))
    await until((tmp_path / "p").exists, "the program runs")
    program, supervisor = map(int, (tmp_path / "p").read_text().split())
    os.kill(supervisor, signal.SIGKILL)
    assert (await task).status == -signal.SIGKILL
    await until(lambda: not is_alive(program), "the program is gone")


async def test_a_program_cannot_take_all_memory_or_fill_the_disk(tmp_path: Path) -> None:
    memory = await run("x = bytearray(3 * 1024**3)", tmp_path)
    assert memory.status == 1
    assert "MemoryError" in memory.output
    disk = await run("f = open('big', 'wb')\nwhile True: f.write(b'x' * 1_000_000)", tmp_path)
    assert disk.status == 1
    assert "File too large" in disk.output
    assert (tmp_path / "big").stat().st_size == 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("plain\nlines\n", "plain\nlines"),
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07words", "red and words"),
        ("  1%\r 50%\r100%\ndone\r\n", "100%\ndone"),
        ("nul\0bell\x07tab\t", "nul\ufffdbell\ufffdtab\t"),
        ("\n\n  indented\n\n", "  indented"),
        ("\x9b31mc1\x9d0;title\x9c", "\ufffd31mc1\ufffd0;title\ufffd"),
        ("grüße 漢字 \ufffd", "grüße 漢字 \ufffd"),
    ],
)
def test_printed_text_reads_as_it_looked(output: str, shown: str) -> None:
    assert plain_text(output) == shown


@pytest.mark.parametrize("part", ["\x1b]", "\r", "x\r", "\x1b[", "\x1b[0", "a"])
def test_nothing_printed_on_purpose_takes_long(part: str) -> None:
    started = time.process_time()
    plain_text(part * 100_000)
    assert time.process_time() - started < 5  # milliseconds; what grows with the square takes minutes
