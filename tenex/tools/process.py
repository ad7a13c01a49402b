"""Running a program: bounded in time and output, and gone with everything it started when its task is gone."""

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import socket
from typing import Final

from tenex.core.ports import ToolResult

from .supervisor import TOO_MANY
from .tool import Refusal
from .workspace import LONGEST_PATH

SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")

GRACE: Final = 3.0
"""Seconds the supervisor has to clean up; it takes milliseconds, unless processes hang in the kernel."""

PROBE_DEADLINE: Final = 10.0
"""Seconds: starting the sandbox takes about 20 ms; a machine that needs longer cannot be used this way."""

LOOK_EVERY: Final = 0.2
"""Seconds between two looks at the disk: a fast one takes 3 GB a second, and 1 GB is kept free by default."""

LONG_SILENCE: Final = 5.0
"""Seconds without output after which a program that was stopped may have hung: a slow one prints now and then."""

MOST_NAMED: Final = 20
"""Paths named in a sentence to a model."""

LONGEST_NAMED: Final = 200
"""Characters of one of them."""

_CHUNK: Final = 64 * 1024
_MB: Final = 1024**2
_SHARE: Final = 20
"""Of a small disk at most one part in so many is kept free, or nothing could ever run there."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What each process of a program may have at most, in bytes, and how many there may be; 0 is no limit."""

    file: int = 64 * 1024 * 1024
    """Of one file it writes: a check needs none, and an endless loop must not fill the disk."""
    address_space: int = 2 * 1024**3
    """An endless list must not make the kernel kill the daemon instead."""
    data: int = 0
    """As the address space, but without what is only reserved: some runtimes reserve much more than they use."""
    processes: int = 1_024
    """Of the whole program, with threads: large builds have some hundreds, and what forks without end has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReserve:
    """How much stays free, and on which disks."""

    size: int = 0
    """Bytes; 0 keeps nothing free."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """A folder on each disk, by its name in messages."""

    def shortage(self) -> str:
        """The disk with too little free space, in words; empty if there is enough. Blocks for microseconds."""
        for name, folder in self.folders.items() if self.size else ():
            try:
                found = os.statvfs(folder)
            except OSError:  # not made yet
                continue
            free = found.f_bavail * found.f_frsize
            wanted = min(self.size, found.f_blocks * found.f_frsize // _SHARE)
            if free < wanted:
                return f"{free // _MB} MB are free on the disk of {name}, and {wanted // _MB} MB are kept free"
        return ""

    def refuse_if_short(self) -> None:
        """Refuse what could write to a disk on which too little is free.

        Raises:
            Refusal: with what to do.
        """
        if shortage := self.shortage():
            raise Refusal(f"Nothing was run: {shortage}. Delete large files with `delete_file`, or ask for room.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended, and what it printed on both streams together."""

    status: int | None
    """Its exit status, negative where a signal ended it; None where we did."""
    output: str
    cut: int = 0
    """Bytes left out of the middle of the output."""
    shortage: str = ""
    """Why it was stopped, where that was because of the disk."""
    most_processes: int = 0
    """How many it might have, where it was stopped because it had more."""
    tried_network: bool = False
    """Whether it tried to reach a network where it has none."""
    silence: float = field(default=0.0, compare=False)
    """Seconds since it last printed something, or began, where its time was up."""

    @property
    def is_timed_out(self) -> bool:
        """Whether it was stopped because its time was up."""
        return self.status is None and not self.shortage and not self.most_processes

    def ended(self, what: str, deadline: float) -> str:
        """How it ended, as a sentence for a model about `what`, which had so many seconds."""
        if self.shortage:
            return (
                f"{what} was stopped, with everything it had started: {self.shortage}. Delete what it wrote with "
                "`delete_file`; nothing runs until there is room."
            )
        if self.most_processes:
            return (
                f"{what} was stopped, with everything it had started: it had more than {self.most_processes} processes "
                "and threads at once. Start fewer at a time."
            )
        if self.status is None:
            quiet = f" It had printed nothing for {self.silence:.0f} s." if self.silence >= LONG_SILENCE else ""
            return (
                f"{what} was still running after {deadline:g} s and was stopped, with everything it had started.{quiet}"
            )
        if self.status < 0:
            return f"{what} was ended by signal {-self.status}."
        return f"{what} ended with exit status {self.status}."

    def result(self, ended: str) -> ToolResult:
        """The result of a call: how it ended, and what was printed."""
        printed = plain_text(self.output)
        shown = f"Output:\n{printed}" if printed.strip() else "No output."
        status = -signal.SIGKILL if self.status is None else self.status  # by which we end it
        return ToolResult(ok=self.status == 0, content=f"{ended} {shown}", exit_status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The ends that a program has of two streams, one in each direction, by which something talks with it."""

    input: socket
    output: socket

    def close(self) -> None:
        """Close them here; a second call does nothing."""
        self.input.close()
        self.output.close()


def drop(_: bytes) -> None:
    """Drop a piece of output."""


class _Output:
    """Keeps the start and the end of a stream: the start shows what was done, the end the traceback."""

    def __init__(self, most: int) -> None:
        self._head_size = most - most // 4
        self._tail_size = most // 4
        self._head, self._tail = bytearray(), bytearray()
        self._cut = 0
        self._newest = time.monotonic()
        self.silence = 0.0
        """Seconds between the newest output and `stop`."""

    def stop(self) -> None:
        """Note that the time is up."""
        self.silence = time.monotonic() - self._newest

    def add(self, chunk: bytes) -> None:
        self._newest = time.monotonic()
        room = self._head_size - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > self._tail_size + _CHUNK:  # cut now and then, not for each chunk
            self._trim()

    def _trim(self) -> None:
        over = max(0, len(self._tail) - self._tail_size)
        del self._tail[:over]
        self._cut += over

    def outcome(self, status: int | None) -> Outcome:
        self._trim()
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        middle = f"\n[{self._cut} bytes left out]\n" if self._cut else ""
        return Outcome(status=status, output=head + middle + tail, cut=self._cut, silence=self.silence)


def supervised(command: Sequence[str], limits: ProcessLimits) -> list[str]:
    """The command that runs a program under the supervisor, as a child of this process."""
    bounds = f"{limits.file},{limits.address_space},{limits.data},{limits.processes}"
    return [sys.executable, "-I", "-S", "-B", str(SUPERVISOR), str(os.getpid()), bounds, *command]


def probe(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Run a short program that shows what works here, and return how it ended and what it printed; blocks.

    As with `run`, nothing of it outlives the daemon: bubblewrap alone can, where it is killed as it starts.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    return subprocess.run(
        supervised(command, ProcessLimits()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PROBE_DEADLINE,
        check=False,
        cwd=cwd,
        env=dict(environment),
        pass_fds=descriptors,
    )


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline: float,
    most_output: int,
    limits: ProcessLimits = ProcessLimits(),
    reserve: DiskReserve | None = None,
    umask: int = -1,
    on_output: Callable[[bytes], None] = drop,
    descriptors: Sequence[int] = (),
    streams: Streams | None = None,
) -> Outcome:
    """Run a program to its end, or to the deadline.

    It and all it started are gone when this returns, raises or is cancelled, and also when the daemon is killed. The
    kernel takes the end of the calling thread for the end of the daemon: call this from a loop that lives as long.

    Args:
        command: an absolute path, then arguments.
        cwd: where it starts.
        environment: all it gets.
        deadline: seconds; `math.inf` for none.
        most_output: bytes kept of what it prints; the rest is read and dropped, so that it never blocks.
        limits: what each of its processes may have.
        reserve: what has to stay free on disk while it runs; nothing unless given.
        umask: of the files it makes; this process's unless given.
        on_output: receives all that it prints, as it comes.
        descriptors: further open files that it gets, by the same numbers.
        streams: its standard input and standard output, which are closed here once it has them; unless given it reads
            nothing, and both outputs are one.
    """
    reading, writing = os.pipe()
    output = _Output(most_output)
    reader, closing = await _open_reader(reading, writing)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *supervised(command, limits),
                stdin=asyncio.subprocess.DEVNULL if streams is None else streams.input.fileno(),
                stdout=writing if streams is None else streams.output.fileno(),
                stderr=writing,
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,
                pass_fds=descriptors,
                umask=umask,
            )
        finally:
            os.close(writing)
            if streams is not None:
                streams.close()
        watching = asyncio.create_task(_watch(process, reserve or DiskReserve()), name=f"disk of {process.pid}")
        try:
            status = await _attend(process, reader, output, deadline, on_output)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    finally:
        closing.close()
    if status == -TOO_MANY:
        return replace(output.outcome(None), most_processes=limits.processes)
    if watching.cancelled() or status == 0:
        return output.outcome(status)
    return replace(output.outcome(None), shortage=watching.result())


async def _watch(process: asyncio.subprocess.Process, reserve: DiskReserve) -> str:
    """End the program once too little is free; returns where. It looks only where something is to be kept free."""
    while True:
        await asyncio.sleep(LOOK_EVERY if reserve.size else math.inf)
        if shortage := await asyncio.to_thread(reserve.shortage):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)  # the supervisor kills everything below it
            return shortage


async def _open_reader(reading: int, writing: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        os.close(writing)
        raise
    return reader, transport


async def _attend(
    process: asyncio.subprocess.Process,
    reader: asyncio.StreamReader,
    output: _Output,
    deadline: float,
    on_output: Callable[[bytes], None],
) -> int | None:
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                while chunk := await reader.read(_CHUNK):
                    output.add(chunk)
                    on_output(chunk)
                return await process.wait()
        output.stop()
        return None
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)  # the supervisor kills everything below it
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()


def decoded(paths: Iterable[bytes]) -> list[str]:
    """Paths as text, sorted; long ones are cut, and bytes that are no text are marked."""
    return sorted(path[:LONGEST_PATH].decode("utf-8", "replace") for path in paths)


def named(paths: Sequence[str]) -> str:
    """The first paths in a sentence for a model, and how many more there are."""
    plain = [plain_text(path.replace("\n", "?")) for path in paths[:MOST_NAMED]]
    shown = ", ".join(path if len(path) <= LONGEST_NAMED else f"{path[:LONGEST_NAMED]}[cut]" for path in plain)
    return f"{shown} and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else shown


def plain_text(output: str) -> str:
    """The text without colours, without what was overwritten, and with marks for bytes that are no text."""
    lines = _ESCAPES.sub("", output).split("\n")
    seen = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("\ufffd", seen).strip("\n")
