"""Shared by the tests of the doctor: a case to examine, and its faults."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenex.operations.doctor.configuration import settings
from tenex.operations.doctor.findings import Case, Finding, Level

Look = Callable[[Case], Iterator[Finding]]


def case_of(data: Path, config: Path | None = None, **more: Any) -> Case:
    """A case whose settings have been examined."""
    case = Case(data=data, config=config, env={}, **more)
    list(settings(case))
    return case


def bad(look: Look, case: Case) -> list[Finding]:
    """The faults and warnings of a check."""
    return [finding for finding in look(case) if finding.level is not Level.OK]


async def found_by(look: Look, case: Case) -> list[Finding]:
    """The findings of a check that runs an event loop of its own, and so needs a thread."""
    return await asyncio.to_thread(lambda: list(look(case)))


def text_of(findings: list[Finding]) -> str:
    """All findings as one text."""
    return "\n".join(f"{f.level} {f.location}: {f.message} -> {f.fix}" for f in findings)


def change(data: Path, text: str) -> None:
    """Add to the configuration."""
    file = data / "tenex.toml"
    file.write_text(f"{file.read_text()}\n{text}\n")
