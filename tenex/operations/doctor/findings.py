"""What a check is given and what it reports."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tenex.core.errors import ConfigurationError, TenexError
from tenex.settings import ProjectPaths, Settings, Trust


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    """Something does not work, or will not."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that loses no data, done by `--fix`."""

    run: Callable[[], object]
    """Blocking; raises OSError or TenexError where it could not be done."""
    done: str
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


PartProblems = Callable[[Any], Iterable[Finding]]
"""Reports the problems in a part of a status that a feature adds; it is given None where that part is missing."""


@dataclass(slots=True, kw_only=True)
class Case:
    """What is examined; the checks `settings` and `daemon` fill in the last fields for the others."""

    data: Path
    config: Path | None
    """The configuration file that was named; None looks in the data folder."""
    env: Mapping[str, str]
    trust: Trust | None = None
    """The trust that the data folder needs; None where it is used as it is."""
    probe: bool = False
    """Whether models may be asked, which costs a little."""
    has_settings: bool = False
    """Whether they are valid: else the next two are not set, and checks that need them are skipped."""
    settings: Settings = field(init=False, repr=False)
    paths: ProjectPaths = field(init=False, repr=False)
    features: Mapping[str, Mapping[str, str]] | None = None
    """Those that the program has, by name, with their tools; None: all."""
    problems: Mapping[str, PartProblems] = field(default_factory=dict)
    """What features find in their parts of a daemon's status, by the name of the part."""
    daemon: str = ""
    """The process that holds the lock of the conversations folder, in words; empty where no daemon runs."""


def ok(message: str, location: object = "") -> Finding:
    """Report that something works."""
    return Finding(level=Level.OK, message=message, location=str(location))


def warning(message: str, location: object, fix: str, repair: Repair | None = None) -> Finding:
    """Report what works and deserves attention."""
    return Finding(level=Level.WARNING, message=message, location=str(location), fix=fix, repair=repair)


def fault(message: str, location: object, fix: str, error: type[TenexError] = ConfigurationError) -> Finding:
    """Report what does not work."""
    return Finding(level=Level.FAULT, message=message, location=str(location), fix=fix, error=error)


def url_text(url: str) -> str:
    """An address without its query, which may hold a key."""
    return re.sub(r"\?.*", "?...", url)


def count_text(count: int, noun: str) -> str:
    """`1 journal`, `2 journals`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
