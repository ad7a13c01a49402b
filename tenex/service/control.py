"""The control socket: requests to a running daemon from its own machine.

One request to a line, one answer to a line, both JSON; a connection may ask again and again:

    {"do": "status"}  ->  {"ok": true, "result": {...}}
                      or  {"ok": false, "error": "a sentence", "code": 3, "faults": ["another", ...]}

`code` is the exit code the error has on the command line, `faults` are those of a configuration. Only the user who runs
the daemon, and root, are answered. Whatever else comes in is answered with an error or not at all.
"""

import asyncio
import errno
import json
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tenex.core.errors import ConfigurationError, StoreLocked, TenexError, UsageError
from tenex.log import get_logger

from .client import reachable

log = get_logger(__name__)

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes a request without its `do`; gives what JSON can hold, or raises a `TenexError` for the one who asked."""

REQUEST_BYTES: Final = 64 * 1024
"""A line of a request; a person's message over relays is smaller."""
CLIENTS: Final = 16
"""At the same time: an operator has a shell or two, and a monitor."""
IDLE: Final = 60.0
"""Seconds a client may be silent, and may take to read its answer."""
WORK: Final = 60.0
"""Seconds a request may take: a reload reads some hundred files."""

ELSEWHERE: Final = f"set it to a path on another disk, such as /run/user/{os.geteuid()}/tenex.sock"
"""What to do where a file system takes no sockets, such as exFAT and SMB."""

_CREDENTIALS: Final = struct.Struct("3i")


class Peer(NamedTuple):
    """The process at the other end, as the kernel noted it when the connection was made."""

    pid: int
    user: int
    group: int


def peer_of(connection: socket.socket) -> Peer:
    """Who is at the other end."""
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))


@asynccontextmanager
async def control_socket(
    path: Path, handlers: Mapping[str, Handler], *, start_serving: bool = True
) -> AsyncIterator[asyncio.Server]:
    """Listen at `path` (0600) while the context lasts; needs the folder's lock to be held by us.

    Without `start_serving` connections wait until that method of the server is called. A socket that a dead daemon left
    is replaced; on leaving, ours is removed.

    Raises:
        StoreLocked: another daemon answers there.
        ConfigurationError: something else is in the way, or no socket can be made there.
    """
    listening, inode = _bind(path)
    clients = _Clients(handlers)
    try:
        server = await asyncio.start_unix_server(
            clients.attend, sock=listening, limit=REQUEST_BYTES, start_serving=start_serving
        )
        try:
            yield server
        finally:
            server.close()
            await clients.hang_up()
            await server.wait_closed()
    finally:
        listening.close()
        _remove(path, inode)


def _bind(path: Path) -> tuple[socket.socket, int]:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        _clear(path)
        with reachable(path) as address:
            _bind_whole(listening, address)
        path.chmod(0o600)  # before `listen` no one can connect
        listening.listen(CLIENTS)
        return listening, path.stat().st_ino
    except OSError as fault:
        listening.close()
        why = fault.strerror or str(fault)
        raise ConfigurationError([f"paths.socket: {path}: no socket can be made there ({why}); {ELSEWHERE}"]) from fault
    except TenexError:
        listening.close()
        raise


def why_no_socket(path: Path) -> str:
    """Why no socket can be made beside a path, in the system's words; empty if one can."""
    probe = path.with_name(f".{path.name}.probe")
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            with reachable(probe) as address:
                _bind_whole(listening, address)
            probe.unlink()
        except OSError as fault:
            return fault.strerror or str(fault)
    return ""


def _bind_whole(listening: socket.socket, address: str) -> None:
    """Bind a socket to a path that is free; after an error nothing of it is left: exFAT makes an empty file then."""
    try:
        listening.bind(address)
    except OSError as fault:
        if fault.errno != errno.EADDRINUSE:
            Path(address).unlink(missing_ok=True)
        raise


def _remove(path: Path, inode: int) -> None:
    with suppress(OSError):
        if path.lstat().st_ino == inode:  # and not somebody's who has been put in its place
            path.unlink()


def _clear(path: Path) -> None:
    """Remove what a dead daemon left, and nothing else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError([f"paths.socket: {path} is in the way and no socket; move it, or choose another path"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe, reachable(path) as address:
        probe.settimeout(1.0)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        raise StoreLocked(f"process {peer_of(probe).pid} listens at {path}. Stop it, or choose another paths.socket.")


class _Clients:
    """Answers clients: a bounded number of them, each in a bounded time."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._present: set[asyncio.Task[Any]] = set()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        refusal = self._refusal(writer)
        self._present.add(task)
        try:
            if refusal:
                await _send(writer, _failed(refusal))
            else:
                await self._converse(reader, writer)
        except (OSError, asyncio.IncompleteReadError):  # gone, or too slow: TimeoutError is an OSError
            pass
        except asyncio.CancelledError:  # ours, from `hang_up`; the server would report it as a fault
            pass
        finally:
            self._present.discard(task)
            writer.close()

    async def hang_up(self) -> None:
        """End every connection."""
        present = list(self._present)
        for task in present:
            task.cancel()
        if present:
            await asyncio.wait(present)

    def _refusal(self, writer: asyncio.StreamWriter) -> str:
        user = peer_of(writer.get_extra_info("socket")).user
        if user not in (0, os.geteuid()):
            log.warning("control.refused", user=user)
            return f"this daemon belongs to user {os.geteuid()}, and you are {user}"
        if len(self._present) >= CLIENTS:
            return f"{CLIENTS} others are asking at this moment; try again"
        return ""

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                await _send(writer, _failed(f"a request has at most {REQUEST_BYTES} bytes"))
                return
            await _send(writer, await self._answer(line))

    async def _answer(self, line: bytes) -> bytes:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return _failed("a request is one line of JSON")
        name = request.pop("do", None) if isinstance(request, dict) else None
        handler = self._handlers.get(name) if isinstance(name, str) else None
        if handler is None:
            return _failed(f'a request is an object with "do", which is one of: {", ".join(sorted(self._handlers))}')
        try:
            async with asyncio.timeout(WORK):
                return _line({"ok": True, "result": await handler(request)})
        except TenexError as fault:
            return _failed(str(fault), fault.exit_code, fault.faults if isinstance(fault, ConfigurationError) else ())
        except TimeoutError:
            return _failed(f"it takes longer than {WORK:g} s, and was given up", TenexError.exit_code)
        except Exception:  # a stage loop: one strange question must not end the daemon
            log.exception("control.failed", do=name)
            return _failed("an internal error; see the daemon's log", TenexError.exit_code)


async def _send(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line)
    async with asyncio.timeout(IDLE):
        await writer.drain()


def _failed(sentence: str, code: int = UsageError.exit_code, faults: tuple[str, ...] = ()) -> bytes:
    return _line({"ok": False, "error": sentence, "code": code, "faults": faults})


def _line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
