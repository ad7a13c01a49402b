"""Asks a running daemon over its control socket."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import ConfigurationError, StoreError, TenexError, UsageError

ANSWER_BYTES: Final = 16 * 1024 * 1024
"""A line of an answer; the status of thousands of conversations has some hundred KiB."""
PATH_BYTES: Final = 107
"""What the kernel takes for a socket's path: `sun_path`, without its last zero."""
PATIENCE: Final = 10.0
"""Seconds a daemon may take to answer unless more is granted: a healthy one needs some ms."""


NOT_LISTENING: Final = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)
"""Errors of `ask` where no daemon listens: the request was not sent."""


def unanswered(path: Path, fault: OSError, patience: float, check: str) -> str:
    """What became of a request for which `ask` raised an `OSError`, as a sentence.

    Args:
        path: the socket.
        fault: the error.
        patience: the seconds after which the caller gave up.
        check: what shows whether a request without an answer was carried out, as the end of "Look …".
    """
    if isinstance(fault, (*NOT_LISTENING, PermissionError)):
        return f"No daemon can be asked at {path}: {fault.strerror or fault}. Nothing was done."
    why = str(fault) or f"no answer within {patience:g} s"
    return f"The daemon took the request, but its result is unknown: {why}. Look {check} before you repeat it."


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address the kernel takes: a longer path is reached through a descriptor of its folder.

    Raises:
        OSError: there is no such folder.
    """
    if len(os.fsencode(path)) <= PATH_BYTES:
        yield os.fspath(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


async def is_listening(path: Path, *, patience: float = PATIENCE) -> bool:
    """Whether a process accepts connections at `path`; it is asked nothing."""
    try:
        async with asyncio.timeout(patience):
            with reachable(path) as address:
                _, writer = await asyncio.open_unix_connection(address)
    except OSError:  # a TimeoutError is one
        return False
    writer.close()
    return True


async def ask(path: Path, do: str, *, patience: float = PATIENCE, **arguments: Any) -> Any:
    """Ask the daemon that listens at `path`; returns its result.

    Raises:
        OSError: no daemon listens there (FileNotFoundError, ConnectionRefusedError), access is denied
            (PermissionError), it hung up (ConnectionResetError), or there is no answer in time (TimeoutError).
        TenexError: the daemon refused, with its sentence; of the branch it would be on the command line.
    """
    async with asyncio.timeout(patience):
        with reachable(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=ANSWER_BYTES)
        try:
            await _send(writer, {**arguments, "do": do})
            line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as fault:
            raise ConnectionResetError(f"{path}: the process there closed the connection without an answer") from fault
        finally:
            writer.close()
    try:
        answer = json.loads(line)
        is_ok = answer["ok"]
        value = answer["result" if answer["ok"] else "error"]
    except (ValueError, LookupError, TypeError) as fault:
        raise ConnectionResetError(f"{path}: the process there speaks another protocol") from fault
    if not is_ok:
        raise _error(str(value), answer.get("code"), answer.get("faults"))
    return value


async def _send(writer: asyncio.StreamWriter, request: Mapping[str, Any]) -> None:
    with suppress(ConnectionError):  # where it refused us before it read this, its answer is what counts
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()


def _error(sentence: str, code: Any, faults: Any) -> TenexError:
    if code == ConfigurationError.exit_code:
        return ConfigurationError([str(fault) for fault in faults or [sentence]])
    kinds = {kind.exit_code: kind for kind in (UsageError, StoreError)}
    return kinds.get(code, TenexError)(sentence)
