"""The stdio transport: a server as a child process, with one JSON-RPC message a line.

It is ours and not the SDK's for three reasons. A line is read in linear time and has a bound: the SDK's needs a core
for a minute to read one of 20 MB, and takes any. A server has one second to end once its input is closed, then it is
ended with all it has started: the SDK's takes up to six. And the end of the server is reported at once, with a reason.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .hidden import Hidden
from .limits import LARGEST_MESSAGE, TOO_LARGE, TOO_MANY_MESSAGES, Rate
from .screening import flattened, too_deep

GRACE: Final = 1.0
"""Seconds a server has to end after its input was closed."""
READ_WITHIN: Final = 20.0
"""Seconds a server may leave unread what was sent to it, once that fills the pipe: a frozen one does."""
SWEPT_WITHIN: Final = 3.0
"""Seconds the supervisor has to kill all that a server has started; it takes milliseconds."""
KILLED_WITHIN: Final = 2.0
"""Seconds after a kill; only a process that hangs in the kernel takes longer, and it is left alone."""
LAST_WORDS: Final = 0.5
"""Seconds to read what it wrote before its end; only a process that hangs in the kernel keeps the pipe open."""
REPORTED_WITHIN: Final = 1.0
"""Seconds from the end of its output to its exit status, which says why it ended."""
_LOOK_EVERY: Final = 0.01
_KEPT: Final = 2_000
"""Bytes of what a server writes to its error output, the newest: they say why it ended."""
_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started for a server, once: a supervisor, which kills all below it at SIGTERM and when it ends."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    umask: int = -1
    """Of the files it makes; this process's unless given."""
    descriptors: tuple[int, ...] = ()
    """Further open files that it gets, by the same numbers."""
    exceeded: Mapping[int, str] = field(default_factory=dict)
    """The exit statuses by which a limit ends it, each with the sentence on what was exceeded."""

    def release(self) -> None:
        """Free what was opened for it, once it has ended or could not be started."""


class ErrorOutput:
    """The newest of what a server has written to its error output, without its secrets."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._kept = b""
        self._room = _KEPT + hidden.longest
        self._is_cut = False

    def add(self, chunk: bytes) -> None:
        """Keep the end of it."""
        kept = self._kept + chunk
        self._is_cut = self._is_cut or len(kept) > self._room
        self._kept = kept[-self._room :]

    @property
    def last_line(self) -> str:
        """The last line that is not empty; "" for none."""
        text = self._hidden(self._kept.decode("utf-8", "replace"))
        if self._is_cut:  # a secret may have been cut, and the rest of it is not recognised
            text = text[self._hidden.longest :]
        lines = [line.strip() for line in text.splitlines()]
        return next((line for line in reversed(lines) if line), "")


@asynccontextmanager
async def stdio_transport(
    program: Program, errors: ErrorOutput, rate: Rate, on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server and give the streams of its messages; on leaving it has ended, with all it has started.

    `on_end` gets the reason where the server ends, breaks the protocol or sends too much before that.

    Raises:
        OSError: it cannot be started.
    """
    import anyio

    process = await asyncio.create_subprocess_exec(
        *program.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LARGEST_MESSAGE,
        start_new_session=True,
        env=dict(program.environment),
        cwd=program.folder,
        umask=program.umask,
        pass_fds=program.descriptors,
    )
    pipes = _Pipes(process, program.exceeded, errors, rate, on_end)
    try:
        async with anyio.create_task_group() as group:
            for work in (pipes.read, pipes.write, pipes.listen):
                group.start_soon(work)
            try:
                yield pipes.from_server, pipes.to_server
            finally:
                pipes.is_leaving = True
                with anyio.CancelScope(shield=True):
                    await _stop(process)
                    with anyio.move_on_after(LAST_WORDS):
                        await pipes.heard_all.wait()
                group.cancel_scope.cancel()
    finally:
        pipes.close()
        _close(process)


class _Pipes:
    """What goes between the pipes of a process and the streams of a session."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        exceeded: Mapping[int, str],
        errors: ErrorOutput,
        rate: Rate,
        on_end: Callable[[str], None],
    ) -> None:
        import anyio

        self._process = process
        self._exceeded = exceeded
        self._errors = errors
        self._rate = rate
        self._on_end = on_end
        self._to_session, self.from_server = anyio.create_memory_object_stream[Any](0)
        self.to_server, self._from_session = anyio.create_memory_object_stream[Any](0)
        self.heard_all = anyio.Event()
        """Set once all of its error output was read."""
        self.is_leaving = False

    def close(self) -> None:
        for stream in (self._to_session, self.from_server, self.to_server, self._from_session):
            stream.close()

    async def _limit(self) -> str:
        """The limit by which it was ended, once its exit status is known; "" for none."""
        await _has_ended(self._process, REPORTED_WITHIN)
        return self._exceeded.get(self._process.returncode or 0, "")

    def _ended(self, why: str) -> None:
        if not self.is_leaving:
            self._on_end(why)

    async def read(self) -> None:
        import anyio

        async with self._to_session:
            while True:
                message = await self._message()
                if message is None:
                    return
                try:
                    await self._to_session.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is over
                    return

    async def _message(self) -> Any:
        """The next message; None where there is none any more."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                self._ended(TOO_LARGE)
                return None
            if not line:
                self._ended(await self._limit() or "it ended")
                return None
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                shallow = flattened(line)
                if shallow is None:  # what a server prints to its output by mistake
                    continue
                try:
                    message = too_deep(jsonrpc_message_adapter.validate_json(shallow, by_name=False))
                except ValueError:
                    continue
            if not self._rate.takes():
                self._ended(TOO_MANY_MESSAGES)
                return None
            return SessionMessage(message)

    async def write(self) -> None:
        entrance = self._process.stdin
        assert entrance is not None
        async with self._from_session:
            async for message in self._from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    entrance.write(text.encode() + b"\n")
                    async with asyncio.timeout(READ_WITHIN):
                        await entrance.drain()
                except (OSError, RuntimeError):  # a TimeoutError is an OSError; calls would wait for ever
                    self._ended(await self._limit() or "it does not read any more")
                    self._to_session.close()
                    return

    async def listen(self) -> None:
        assert self._process.stderr is not None
        while True:
            chunk = await self._process.stderr.read(_CHUNK)
            if not chunk:
                self.heard_all.set()
                return
            self._errors.add(chunk)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a server by closing its input, or else by its supervisor."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        if await _has_ended(process, GRACE):
            return
    finally:  # also where this is cancelled: the supervisor does the rest without us
        with suppress(ProcessLookupError, PermissionError):
            process.terminate()
    if await _has_ended(process, SWEPT_WITHIN):
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await _has_ended(process, KILLED_WITHIN)


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends in time; polled, because `wait` also waits for pipes that others may hold open."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while process.returncode is None:
        if loop.time() >= until:
            return False
        await asyncio.sleep(_LOOK_EVERY)
    return True


def _close(process: asyncio.subprocess.Process) -> None:
    """Close the pipes, which a process that survived a kill would hold open."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
