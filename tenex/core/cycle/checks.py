"""What the daemon has seen of a cycle's work itself: what differs in the workspace, and how the project's checks ended.

These are facts. What agents say about the same work is a claim, and no code reads its words.
"""

from dataclasses import dataclass
from typing import Final, Literal

CheckOutcome = Literal["passed", "failed", "nothing", "timeout", "changed", "missing", "uncontained"]
"""How a run of a check ended.

    passed       exit status 0, and something was tested where tests are counted
    failed       another exit status, or a failure in its report
    nothing      it ended well, and tested nothing
    timeout      it was stopped at its limit
    changed      somebody changed the workspace during each attempt
    missing      a program, or a file of an earlier tree, that it needs is not there
    uncontained  nothing keeps what it writes apart from the workspace here
"""

LOCK_FILES: Final = frozenset(
    {
        "Cargo.lock",
        "Gemfile.lock",
        "bun.lock",
        "bun.lockb",
        "composer.lock",
        "deno.lock",
        "go.sum",
        "mix.lock",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "packages.lock.json",
        "pdm.lock",
        "pnpm-lock.yaml",
        "poetry.lock",
        "uv.lock",
        "yarn.lock",
    }
)
"""Names of files in which a package manager writes what it has chosen."""

NAMES_KEPT: Final = 200
"""Failures of a run that are kept by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that differs between the beginning of a cycle and now."""

    path: str
    added: int = 0
    """Lines; 0 too for what is no text, as is `removed`."""
    removed: int = 0
    kind: Literal["new", "changed", "deleted"] = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The workspace after a turn, compared with the beginning of its cycle."""

    tree: str = ""
    """The name of what it holds now, in the checkpoints; "" where there are none."""
    base: str = ""
    """Of what it held when the cycle began."""
    changed: tuple[ChangedFile, ...] = ()
    checks: tuple[str, ...] = ()
    """The names of the checks that apply, in the order in which they run."""
    named_in: tuple[str, ...] = ()
    """Documents of the workspace that name a file which differs."""
    fault: str = ""
    """Why it is not known what differs."""

    @property
    def paths(self) -> frozenset[str]:
        """Of the files that differ."""
        return frozenset(file.path for file in self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """How a check ended on one tree."""

    name: str
    command: str
    """As a person would type it."""
    tree: str
    """On which it ran."""
    outcome: CheckOutcome
    status: int | None = None
    """The exit status; None where it was stopped or did not begin."""
    seconds: float = 0.0
    tests: int | None = None
    """How many were run, without those that were skipped; None where that is not known."""
    has_tests: bool = False
    """Whether it is one that runs tests."""
    failures: int | None = None
    """How many of them failed; None where that is not known."""
    failed: tuple[str, ...] = ()
    """The names of those, sorted, at most `NAMES_KEPT`; empty where the runner does not tell them."""
    last_lines: str = ""
    """The end of what it printed."""
    output: str = ""
    """The file with all that it printed; "" for none."""
    reason: str = ""
    """Why there is no exit status."""
    environment: str = ""
    """A digest of the lock files of that tree: runs with different packages cannot be compared."""

    @property
    def has_run(self) -> bool:
        """Whether it says something about the tree."""
        return self.outcome in ("passed", "failed", "nothing", "timeout")

    @property
    def is_success(self) -> bool:
        """Whether it came to its end and found no fault."""
        return self.outcome == "passed"

    @property
    def is_uncounted(self) -> bool:
        """Whether it passed as a check that runs tests, and nothing tells that there was one."""
        return self.is_success and self.has_tests and self.tests is None

    @property
    def has_all_names(self) -> bool:
        """Whether each failure is known by its name."""
        return bool(self.failed) and len(self.failed) == self.failures
