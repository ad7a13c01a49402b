"""How checks run: one after another where they build on each other, else side by side; each with a deadline.

Blocking checks run in threads that nobody waits for: a disk that never answers must not keep the doctor.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tenex.core.errors import InternalError, TenexError, TransientError
from tenex.core.text import printable
from tenex.store.lock import FolderLock
from tenex.telemetry import redact

from .findings import Case, Check, Finding, Fix, Level, fault, warning

T = TypeVar("T")

MOST: Final = 40
"""Findings of one check that are told; ten thousand journals may have the same fault."""

FIX_DEADLINE: Final = 20.0
"""Seconds for one mend; each changes a handful of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an examination found."""

    findings: tuple[Finding, ...]
    mended: tuple["Fixed", ...] = ()

    @property
    def exit_code(self) -> int:
        """0 without a fault; else the highest code of the branches of the error tree that the faults belong to."""
        return max((f.blame.exit_code for f in self.findings if f.level is Level.FAULT), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A mend that was tried."""

    what: str
    where: str
    done: str
    """What was done, or why it could not be."""
    success: bool


async def examine(case: Case, first: Sequence[Check], then: Sequence[Check]) -> tuple[Finding, ...]:
    """Run checks, `first` one by one and `then` together; the findings come in the order of the checks."""
    found: list[Finding] = []
    for check in first:
        found += await _run(check, case)
    for several in await asyncio.gather(*(_run(check, case) for check in then)):
        found += several
    return tuple(found)


async def mend(conversations: Path, findings: Sequence[Finding]) -> tuple[Fixed, ...]:
    """Do every mend that was offered, one by one; those that need it under the lock of the conversations' folder."""
    return tuple([await _mend(conversations, finding, finding.fix) for finding in findings if finding.fix is not None])


async def in_thread(work: Callable[[], T], deadline: float) -> T:
    """Run blocking work in a thread of its own, which is left behind if it does not end in time.

    Raises:
        TimeoutError: it did not.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(put: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            put(value)

    def run() -> None:
        try:
            value = work()
        except BaseException as failure:  # noqa: BLE001 whoever waits for the thread hears of it
            told: tuple[Callable[[Any], None], Any] = (answer.set_exception, failure)
        else:
            told = (answer.set_result, value)
        with suppress(RuntimeError):  # the loop has gone: nobody waits any more
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    async with asyncio.timeout(deadline):
        return await answer


async def _run(check: Check, case: Case) -> list[Finding]:
    found: list[Finding] = []
    try:
        look = check.look(case)
        if isinstance(look, Iterator):
            await in_thread(lambda: _collect(look, found), check.deadline)
        else:
            async with asyncio.timeout(check.deadline):
                async for finding in look:
                    found.append(finding)  # noqa: PERF401 what was found before a deadline counts
    except TimeoutError:
        found = [*found, _slow(check)]
    except Exception as failure:  # noqa: BLE001 a mess that one check did not foresee must not hide the rest
        found = [*found, _failed(check, failure)]
    return _told(check, found)


def _collect(look: Iterator[Finding], into: list[Finding]) -> None:
    for finding in look:
        into.append(finding)  # noqa: PERF402 as above


def _slow(check: Check) -> Finding:
    return fault(
        f"this was not examined to its end: it took longer than {check.deadline:g} s",
        check.name,
        "look whether the disk or the network hangs, and try again",
        TransientError,
    )


def _failed(check: Check, failure: Exception) -> Finding:
    if isinstance(failure, OSError):
        return fault(
            f"cannot be looked at ({failure.strerror or failure})",
            failure.filename or check.name,
            f"give it to the user who runs tenex, or run this as that user (we are user {os.geteuid()})",
        )
    what = f"this could not be examined: {type(failure).__name__}: {failure}"
    return fault(what, check.name, "this is a fault of the program; please report it with this line", InternalError)


def _told(check: Check, found: list[Finding]) -> list[Finding]:
    """The findings of a check as they may be shown: bounded, on one line, without what looks like a secret."""
    bad = [finding for finding in found if finding.level is not Level.OK]
    good = [finding for finding in found if finding.level is Level.OK]
    if len(bad) > MOST:
        bad.sort(key=lambda finding: finding.level is not Level.FAULT)
        rest = len(bad) - MOST
        bad = [*bad[:MOST], warning(f"{rest} more findings of this kind are not told", check.name, "mend these first")]
    return [
        replace(f, check=check.name, what=_line(f.what), where=_line(f.where), mend=_line(f.mend))
        for f in (*bad, *good[:MOST])
    ]


def _line(text: str) -> str:
    """On one line, at most a screen of it; paths may hold any byte."""
    clean = redact(printable(" ".join(text.split())))
    return clean.encode("utf-8", "backslashreplace").decode()[:1_000]


async def _mend(conversations: Path, finding: Finding, fix: Fix) -> Fixed:
    def act() -> str:
        if not fix.needs_rest:
            return fix.act()
        with FolderLock(conversations):
            return fix.act()

    try:
        done, success = await in_thread(act, FIX_DEADLINE), True
    except (OSError, TenexError) as failure:  # TimeoutError is an OSError
        said = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
        done, success = f"could not be mended: {said or type(failure).__name__}", False
    return Fixed(what=finding.what, where=finding.where, done=_line(done), success=success)
