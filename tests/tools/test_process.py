"""A program is bounded, and nothing of it is left behind; after a cancellation and our own end: `test_shell`."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tenex.tools import process as programs
from tenex.tools.process import Outcome, plain_text

from .conftest import FAMILY, processes_in, until

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


async def run(command: str, cwd: Path, deadline: float = 20, program: str = "/bin/bash") -> Outcome:
    line = [program, "-c", command]
    return await programs.run(line, cwd=cwd, environment=ENVIRONMENT, deadline=deadline, most_output=1_000)


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    outcome = await run("", tmp_path, program="/nonexistent/program")
    assert outcome.status == 127
    assert "cannot be started" in outcome.output


@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("exit 7", 7, ""),
        ("exit 255", 255, ""),
        ("kill -KILL $$", -signal.SIGKILL, ""),
        ("kill -PIPE $$", -signal.SIGPIPE, ""),
        ("kill -TERM $$", -signal.SIGTERM, ""),
        ("printf '%999s' x", 0, " " * 998 + "x"),
        ("printf '%1000s' x", 0, " " * 999 + "x"),
        (r"printf 'a\xff'", 0, "a\ufffd"),
        ("tr '\\0' '\\n' < /proc/$$/environ | sort", 0, "LANG=C.UTF-8\nPATH=/usr/bin:/bin\n"),
        ("cat; ls /proc/self/fd", 0, "0\n1\n2\n3\n"),  # 3 is the listing itself
    ],
)
async def test_the_status_and_output_are_the_programs_and_nothing_of_ours_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int, output: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with (tmp_path / "ours").open("w"):
        assert await run(command, tmp_path) == Outcome(status=status, output=output)


async def test_a_flood_is_drained_and_its_middle_left_out(tmp_path: Path) -> None:
    """20 MB go through; the program ends by itself, and its first and last words are kept."""
    outcome = await run("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo last", tmp_path)
    assert (outcome.status, outcome.cut) == (0, 6 + 20_000_000 + 5 - 1_000)
    assert outcome.output == f"first\n{'x' * 744}\n[{outcome.cut} bytes left out]\n{'x' * 245}last\n"


async def test_at_the_deadline_the_whole_family_is_gone_and_the_output_kept(tmp_path: Path) -> None:
    assert await run(FAMILY + "echo so far; sleep 600", tmp_path, deadline=2) == Outcome(status=None, output="so far\n")
    assert (tmp_path / "born").exists()
    assert not processes_in(tmp_path)


@pytest.mark.parametrize(
    ("command", "is_named"), [("echo once; exec sleep 600", True), ("while :; do echo on; sleep 0.1; done", False)]
)
async def test_what_printed_nothing_before_its_deadline_is_named(
    tmp_path: Path, command: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LONG_SILENCE", 1.5)
    outcome = await run(command, tmp_path, deadline=3)
    assert outcome.is_timed_out
    assert (" It had printed nothing for 3 s." in outcome.ended("It", 3)) is is_named


async def test_when_the_program_ends_what_it_started_ends_too(tmp_path: Path) -> None:
    """Also when these hold the output open, which would keep us reading for ever."""
    assert await run(FAMILY + "echo end", tmp_path) == Outcome(status=0, output="end\n")
    assert not processes_in(tmp_path)


async def test_cancelled_while_starting_nothing_is_left(tmp_path: Path) -> None:
    """Cancelled after each of the first twenty turns of the loop: no process or pipe of the run is left."""
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    for turns in range(20):
        task = asyncio.create_task(run("sleep 600", tmp_path))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: not processes_in(tmp_path), "no supervisor is left")
    await until(lambda: len(os.listdir("/proc/self/fd")) <= len(before), "no pipe is left open")  # noqa: PTH208


async def test_a_killed_supervisor_takes_the_program_along(tmp_path: Path) -> None:
    """Should somebody kill the supervisor itself, the program dies by the kernel's hand and the run comes back."""
    task = asyncio.create_task(run("echo $PPID > p.new; mv p.new p; exec sleep 600", tmp_path))
    await until((tmp_path / "p").exists, "the program runs")
    os.kill(int((tmp_path / "p").read_text()), signal.SIGKILL)
    assert (await task).status == -signal.SIGKILL
    await until(lambda: not processes_in(tmp_path), "the program is gone")


async def test_a_program_cannot_take_all_memory_or_fill_the_disk(tmp_path: Path) -> None:
    for code, error in (
        ("x = bytearray(3 * 1024**3)", "MemoryError"),
        ("f = open('big', 'wb')\nwhile True: f.write(b'x' * 1_000_000)", "File too large"),
    ):
        outcome = await run(code, tmp_path, program=sys.executable)
        assert outcome.status == 1
        assert error in outcome.output
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


def test_nothing_printed_on_purpose_takes_long() -> None:
    started = time.process_time()
    for part in ("\x1b]", "\r", "x\r", "\x1b[", "\x1b[0", "a"):
        plain_text(part * 100_000)
    assert time.process_time() - started < 5  # milliseconds; what grows with the square takes minutes
