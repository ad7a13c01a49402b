"""What a check is given and reports, its thread, and how values are written in messages."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from tenex.core.errors import ConfigurationError, TenexError
from tenex.settings import ProjectPaths, Settings

T = TypeVar("T")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    """Something does not work, or will not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A repair that loses no data, done by `--fix`."""

    run: Callable[[], str]
    """Blocking; returns what was done. Raises OSError or TenexError where it could not be."""
    needs_lock: bool = False
    """It changes files a daemon owns, so the lock of the conversations folder is taken first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check."""

    level: Level
    message: str
    location: str = ""
    """A path, a setting or an address."""
    fix: str = ""
    """What the operator can do."""
    error: type[TenexError] = ConfigurationError
    """The branch of the error tree whose exit code a fault gives."""
    repair: Repair | None = None
    check: str = ""
    """The name of the check; filled in by the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonProcess:
    """The process that holds the lock of the conversations folder."""

    running: bool = False
    pid: int | None = None
    """None where no daemon runs, or its process cannot be seen."""


@dataclass(slots=True, kw_only=True)
class Case:
    """What is examined; the checks `settings` and `daemon` fill in the last three fields for the others."""

    data: Path
    config: Path | None
    """The configuration file that was named; None looks in the data folder."""
    env: Mapping[str, str]
    code_refusal: str = ""
    """Why code of the data folder may not be run; empty where it may."""
    probe: bool = False
    """Whether models may be asked, which costs a little."""
    settings: Settings | None = None
    """None where they are not valid; then what depends on them is not examined."""
    paths: ProjectPaths | None = None
    daemon: DaemonProcess = DaemonProcess()


Findings = Iterator[Finding] | AsyncIterator[Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named group of questions."""

    name: str
    examine: Callable[[Case], Findings]
    """A generator, which runs in a thread of its own, or an asynchronous one."""
    timeout: float
    """Seconds; what was found until then is reported."""


async def run_in_thread(work: Callable[[], T], timeout: float) -> T:  # noqa: ASYNC109
    """Run blocking work in a thread of its own, which is abandoned if it does not end in time.

    Raises:
        TimeoutError: it did not.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(put: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            put(value)

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 the waiting task gets it
            outcome: tuple[Callable[[Any], None], Any] = (result.set_exception, error)
        else:
            outcome = (result.set_result, value)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    async with asyncio.timeout(timeout):
        return await result


def ok(message: str, location: object = "") -> Finding:
    """Report that something works."""
    return Finding(level=Level.OK, message=message, location=str(location))


def warning(message: str, location: object, fix: str, repair: Repair | None = None) -> Finding:
    """Report what works and deserves attention."""
    return Finding(level=Level.WARNING, message=message, location=str(location), fix=fix, repair=repair)


def fault(
    message: str,
    location: object,
    fix: str,
    error: type[TenexError] = ConfigurationError,
    repair: Repair | None = None,
) -> Finding:
    """Report what does not work."""
    return Finding(level=Level.FAULT, message=message, location=str(location), fix=fix, error=error, repair=repair)


def url_text(url: str) -> str:
    """An address without its query, which may hold a key."""
    return re.sub(r"\?.*", "?...", url)


def size_text(count: int) -> str:
    """Bytes with a readable unit."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def count_text(count: int, noun: str) -> str:
    """`1 journal`, `2 journals`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
