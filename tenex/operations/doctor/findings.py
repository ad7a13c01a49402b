"""What a check says, and what it is given to look at."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tenex.core.errors import ConfigurationError, TenexError
from tenex.settings import ProjectPaths, Settings


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and somebody may be sorry later."""
    FAULT = "fault"
    """Something does not work, or will not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A mend that loses nothing."""

    act: Callable[[], str]
    """Does it, blocking, and says what was done. OSError and TenexError: it could not be."""
    needs_rest: bool = False
    """It touches what a daemon owns: only with the folder's lock in our hands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    where: str = ""
    """A path, a setting or an address."""
    mend: str = ""
    blame: type[TenexError] = ConfigurationError
    """The branch of the error tree, whose exit code a fault gives."""
    fix: Fix | None = None
    check: str = ""
    """The check that found it; filled in by `examination`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Who holds the conversations' folder."""

    running: bool = False
    pid: int | None = None
    """None where nobody runs, or it cannot be told who."""


@dataclass(slots=True, kw_only=True)
class Case:
    """What is examined. The first checks fill in what the later ones go by."""

    data: Path
    config: Path | None
    """The configuration that was named; None looks in the data folder."""
    env: Mapping[str, str]
    code_refusal: str = ""
    """Why code of the data folder may not be run; empty where it may."""
    probe: bool = False
    """Whether models may be asked, which costs a little."""
    settings: Settings | None = None
    places: ProjectPaths | None = None
    doubtful: frozenset[str] = frozenset()
    """Sections of the settings that could not be used, and stand here with their defaults."""
    daemon: Daemon = Daemon()


Found = Iterator[Finding] | AsyncIterator[Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A family of questions."""

    name: str
    look: Callable[[Case], Found]
    """A generator, run in a thread of its own; or an asynchronous one."""
    deadline: float
    """Seconds; what has been found by then counts."""


def ok(what: str, where: object = "") -> Finding:
    """All is well."""
    return Finding(level=Level.OK, what=what, where=str(where))


def warning(what: str, where: object, mend: str, fix: Fix | None = None) -> Finding:
    """It works, and somebody may be sorry later."""
    return Finding(level=Level.WARNING, what=what, where=str(where), mend=mend, fix=fix)


def fault(
    what: str, where: object, mend: str, blame: type[TenexError] = ConfigurationError, fix: Fix | None = None
) -> Finding:
    """Something does not work."""
    return Finding(level=Level.FAULT, what=what, where=str(where), mend=mend, blame=blame, fix=fix)
