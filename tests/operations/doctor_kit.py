"""What the doctor's tests share: a case to examine, and what is wrong with it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenex.operations.doctor.configuration import settings
from tenex.operations.doctor.findings import Case, DaemonProcess, Finding, Level

NO_DAEMON = DaemonProcess()
Look = Callable[[Case], Iterator[Finding]]


def case_of(data: Path, **more: Any) -> Case:
    """A case whose settings have been looked at."""
    case = Case(data=data, config=None, env={}, **more)
    list(settings(case))
    return case


def bad(look: Look, case: Case) -> list[Finding]:
    """What a check says is not well."""
    return [finding for finding in look(case) if finding.level is not Level.OK]


def text_of(findings: list[Finding]) -> str:
    """All of it, as a person reads it."""
    return "\n".join(f"{f.level} {f.location}: {f.message} -> {f.fix}" for f in findings)


def change(data: Path, text: str) -> None:
    """Add to the configuration."""
    file = data / "tenex.toml"
    file.write_text(f"{file.read_text()}\n{text}\n")
