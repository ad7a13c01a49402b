"""All checks in the order in which they are reported, how they run, and how repairs are done.

Each check runs in a thread that is abandoned at its timeout: a disk that hangs must not hang the doctor.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tenex.core.errors import InternalError, TenexError, TransientError
from tenex.core.text.foreign import printable
from tenex.runtime.functions import in_thread
from tenex.store.lock import FolderLock
from tenex.telemetry import redact

from . import configuration, conversations, daemon, database, files, inboxes, machine, relays
from .findings import Case, Finding, Level, Repair, fault, warning


@dataclass(frozen=True, slots=True)
class Check:
    """A named group of questions."""

    name: str
    examine: Callable[[Case], Iterator[Finding]]
    timeout: float
    """Seconds; what was found until then is reported."""
    needs_settings: bool = True


FIRST: Final = (
    Check("settings", configuration.settings, 10, needs_settings=False),
    Check("daemon", daemon.daemon, 10),
)
"""The checks whose results the others use."""

CHECKS: Final = (
    Check("control", daemon.control, 15),
    Check("program", machine.program, 10, needs_settings=False),
    Check("service", machine.service, 10),
    Check("configuration", configuration.configuration, 30),  # vendors' libraries are imported
    Check("folders", files.folders, 10),
    Check("permissions", files.permissions, 20),
    Check("keys", files.keys, 10),
    Check("disk", machine.disk, 20),
    Check("database", database.database, 30),
    Check("conversations", conversations.conversations, 120),  # 0.1 s each, and 0.2 s for each 100 MB
    Check("claims", conversations.claims, 120),  # without an index all journals are read
    Check("journal", conversations.daemon_journal, 30),
    Check("index", conversations.index, 60),
    Check("relays", relays.relays, 30),
    Check("inboxes", inboxes.inboxes, 15),
    Check("models", configuration.models, 90),
    Check("sandbox", machine.sandbox, 20),
    Check("containment", machine.containment, 60),
    Check("git", machine.git, 45),
    Check("workspace", machine.workspace, 20),
)

MAX_FINDINGS: Final = 40
"""Of one check: ten thousand journals may have the same fault."""
REPAIR_TIMEOUT: Final = 20.0
"""Seconds; each repair changes a handful of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A repair that was tried."""

    message: str
    location: str
    done: str
    """What was done, or why it could not be."""
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one run of the doctor."""

    findings: tuple[Finding, ...]
    fixed: tuple[Fixed, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 without a fault; else the highest exit code of the faults' errors."""
        return max((f.error.exit_code for f in self.findings if f.level is Level.FAULT), default=0)

    def count(self, level: str) -> int:
        """The number of findings of a level."""
        return sum(finding.level == level for finding in self.findings)


async def run_doctor(case: Case, more: Sequence[Check] = (), *, fix: bool = False) -> Report:
    """Examine a data folder, also by the checks of features; with `fix` do every repair first.

    Raises nothing for what it finds.
    """
    checks = (*CHECKS, *more)
    fixed: tuple[Fixed, ...] = ()
    if fix:
        before = replace(case, probe=False)
        findings = await examine(before, FIRST, checks)
        if before.has_settings:
            fixed = await repair_all(before.paths.conversations, findings)
    return Report(findings=await examine(case, FIRST, checks), fixed=fixed)


async def examine(case: Case, first: Sequence[Check], then: Sequence[Check]) -> tuple[Finding, ...]:
    """Run checks, `first` one by one and `then` concurrently; the findings are in the order of the checks."""
    found = [await _run(check, case) for check in first]
    found += await asyncio.gather(*(_run(check, case) for check in then))
    return tuple(finding for findings in found for finding in findings)


async def repair_all(conversations_folder: Path, findings: Sequence[Finding]) -> tuple[Fixed, ...]:
    """Do every repair that was offered, one by one."""

    async def apply(finding: Finding, repair: Repair) -> Fixed:
        def run() -> None:
            with FolderLock(conversations_folder) if repair.needs_lock else nullcontext():
                repair.run()

        try:
            await asyncio.wait_for(in_thread(run), REPAIR_TIMEOUT)
            done = repair.done
            success = True
        except (OSError, TenexError) as error:  # TimeoutError is an OSError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            done = f"could not be fixed: {reason or type(error).__name__}"
            success = False
        return Fixed(message=finding.message, location=finding.location, done=_one_line(done), success=success)

    return tuple([await apply(finding, finding.repair) for finding in findings if finding.repair is not None])


async def _run(check: Check, case: Case) -> list[Finding]:
    """The findings of a check, at most `MAX_FINDINGS`, printable and without what looks like a secret."""
    found: list[Finding] = []

    def collect() -> None:
        for finding in check.examine(case):
            found.append(finding)  # one by one: what was found before a timeout counts

    if check.needs_settings and not case.has_settings:
        return []
    problem: list[Finding] = []
    try:
        await asyncio.wait_for(in_thread(collect), check.timeout)
    except TimeoutError:
        message = f"the check did not finish within {check.timeout:g} s"
        fix = "see whether the disk or the network hangs, then run it again"
        problem = [fault(message, check.name, fix, TransientError)]
    except OSError as error:
        message = f"cannot be examined ({error.strerror or error})"
        fix = f"give it to the user who runs tenex, or run this as that user (this is user {os.geteuid()})"
        problem = [fault(message, error.filename or check.name, fix)]
    except Exception as error:  # noqa: BLE001 what one check did not foresee must not hide the others
        message = f"the check failed: {type(error).__name__}: {error}"
        problem = [fault(message, check.name, "this is a bug in tenex: please report it with this line", InternalError)]
    found = [*found, *problem]
    bad = [finding for finding in found if finding.level is not Level.OK]
    good = [finding for finding in found if finding.level is Level.OK]
    if (more := len(bad) - MAX_FINDINGS) > 0:
        bad.sort(key=lambda finding: finding.level is not Level.FAULT)
        bad = [*bad[:MAX_FINDINGS], warning(f"{more} more findings are not shown", check.name, "fix these first")]
    return [
        replace(f, check=check.name, message=_one_line(f.message), location=_one_line(f.location), fix=_one_line(f.fix))
        for f in (*bad, *good[:MAX_FINDINGS])
    ]


def _one_line(text: str) -> str:
    clean = redact(printable(" ".join(text.split())))
    return clean.encode("utf-8", "backslashreplace").decode()[:1_000]
