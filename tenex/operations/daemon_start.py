"""A daemon that is starting: it has locked its folder and does not listen at its control socket yet."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from tenex.core.text.amounts import duration
from tenex.service.client import PATIENCE, ask
from tenex.store.lock import find_holder, locked_at

STARTS_WITHIN: Final = 60.0
"""Seconds after which a start counts as hanging: one without an index reads every journal."""
WAIT: Final = 5.0
"""Seconds for which a start is waited for, unless more is wanted: a usual one takes one or two."""
AGAIN: Final = 0.1
"""Seconds after which the socket is tried again."""


def locked_for(folder: Path) -> float | None:
    """For how many seconds a process has held the lock of a folder; None where none does, or it cannot be read."""
    try:
        if find_holder(folder) is None:
            return None
        return max(0.0, time.time() - locked_at(folder))
    except OSError:
        return None


def is_starting(folder: Path) -> bool:
    """Whether a process has locked a folder so recently that it may not listen yet."""
    age = locked_for(folder)
    return age is not None and age < STARTS_WITHIN


def why_silent(folder: Path, holder: str) -> str:
    """Why the process that has locked a folder does not listen, and what to do, as a clause."""
    age = locked_for(folder)
    if age is None:
        return f"{holder} has locked {folder}: it starts or hangs"
    since = f"{holder} has locked {folder} for {duration(age)}"
    if age < STARTS_WITHIN:
        return f"the daemon is starting: {since}. Try again in {duration(WAIT)}"
    return f"{since}: it hangs, or is another command"


async def ask_when_started(
    socket: Path, folder: Path, do: str, *, patience: float = PATIENCE, wait: float = WAIT, **arguments: Any
) -> Any:
    """Ask a daemon as `tenex.service.client.ask` does; one that is starting is waited for, up to `wait` seconds."""
    until = time.monotonic() + wait
    while True:
        try:
            return await ask(socket, do, patience=patience, **arguments)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            if time.monotonic() >= until or not is_starting(folder):
                raise
        await asyncio.sleep(AGAIN)
