"""Receiving what runners of tests report about a run, without changing the command that starts them.

    pipes in the /tmp of a view ◄── pytest, Node and RSpec, told by variables of the environment, as often as they run
    files in the upper layer    ◄── Maven, Gradle and Meson, which write them in any case

A command may start a runner several times. Each of its reports comes through the pipe, where a file would hold the
last alone.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import restore
from .check_reports import LARGEST_REPORT, TestCounts, from_junit, from_rspec, total
from .workspace import HIDDEN
from .workspace_view import WorkspaceView, is_changed_since

FOLDER: Final = "tenex-reports"
"""The folder in a view's /tmp in which the pipes are."""

_PLAIN: Final = re.compile(r"[\w./-]+")
"""Paths that every runner takes without quotes, of which each has its own."""

_FILES: Final = re.compile(
    rb"(?:.*/)?(?:target/(?:surefire|failsafe)-reports/TEST-[^/]+\.xml"
    rb"|build/test-results/(?:.*/)?[^/]+\.xml"
    rb"|meson-logs/testlog[^/]*\.junit\.xml)"
)
"""Reports that Maven, Gradle and Meson always write."""

_NODE_VERSION: Final = "process.exit(require('node:test/reporters').junit ? process.version.slice(1).split('.')[0] : 0)"
"""Ends with the number of Node's version, if that has a reporter in JUnit's form."""

_NODE_OPTIONS: Final = f"""
node -e "{_NODE_VERSION}" >/dev/null 2>&1
version=$?
shown=spec
[ $version -lt 23 ] && shown=tap
if [ $version -ge 20 ] && [ $version -lt 120 ]; then
    NODE_OPTIONS="--test-reporter=$shown --test-reporter-destination=stdout"
    export NODE_OPTIONS="$NODE_OPTIONS --test-reporter=junit --test-reporter-destination=$TENEX_NODE_REPORT"
fi
unset TENEX_NODE_REPORT version shown
"""
"""What is printed stays what it is: before version 23, Node prints TAP where there is no terminal."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Pipe:
    """A pipe through which a runner of tests reports."""

    runner: str
    name: str
    variable: str
    """Of the environment: tells the runner."""
    value: str
    """With `{}` for the pipe's path."""
    option: str
    """By which the runner names it in an error."""
    read: Callable[[bytes], TestCounts | None]
    data: bytearray = field(default_factory=bytearray)

    def take(self, opened: int) -> None:
        """Read what is there, so that no program waits; what is too much is dropped."""
        with suppress(BlockingIOError):
            while chunk := os.read(opened, 1 << 16):
                self.data += chunk[: max(0, LARGEST_REPORT + 1 - len(self.data))]


def _pipes() -> list[_Pipe]:
    return [
        _Pipe(
            runner="pytest",
            # pytest expands the variable, which is set only within a test: tests that run pytest report elsewhere
            name="pytest$PYTEST_CURRENT_TEST.xml",
            variable="PYTEST_ADDOPTS",
            value="-o junit_family=xunit1 --junit-xml={}",
            option="--junit-xml",
            read=from_junit,
        ),
        _Pipe(
            runner="tap",
            name="node.xml",
            variable="TENEX_NODE_REPORT",
            value="{}",
            option="--test-reporter",
            read=from_junit,
        ),
        _Pipe(
            runner="rspec",
            name="rspec.json",
            variable="SPEC_OPTS",
            value="--format progress --format json --out {}",
            option="SPEC_OPTS",
            read=from_rspec,
        ),
    ]


class Reports:
    """What is received while a command runs in a view."""

    def __init__(self, pipes: Sequence[_Pipe], seen_at: Path) -> None:
        self._pipes = pipes
        self._seen_at = seen_at / FOLDER

    def variables(self) -> dict[str, str]:
        """The variables by which runners report."""
        if not _PLAIN.fullmatch(str(self._seen_at)):
            return {}
        return {pipe.variable: pipe.value.format(self._seen_at / pipe.name) for pipe in self._pipes}

    def prelude(self) -> str:
        """The lines of a shell by which Node reports, after the variables are set."""
        return _NODE_OPTIONS if self.variables() else ""

    def counts(self) -> dict[str, TestCounts]:
        """What each runner reported, by its name; those are left out that reported nothing that can be read."""
        found = {}
        for pipe in self._pipes:
            counts = pipe.read(bytes(pipe.data)) if pipe.data else None
            if counts is not None:
                found[pipe.runner] = counts
        return found

    def are_named_in(self, output: str) -> bool:
        """Whether a command names one of our options, as it does when it does not take that."""
        return any(pipe.option in output for pipe in self._pipes)


@asynccontextmanager
async def receiving(view: WorkspaceView, seen_at: Path) -> AsyncIterator[Reports]:
    """Receive what is reported within the block; `seen_at` is where the command sees the view's /tmp."""
    loop = asyncio.get_running_loop()
    pipes = _pipes()
    opened: list[tuple[_Pipe, int]] = []
    try:
        for pipe, descriptor in await asyncio.to_thread(_opened, view.tmp / FOLDER, pipes, opened):
            loop.add_reader(descriptor, pipe.take, descriptor)
        yield Reports(pipes, seen_at)
    finally:
        for pipe, descriptor in opened:
            loop.remove_reader(descriptor)
            pipe.take(descriptor)
            os.close(descriptor)


def _opened(folder: Path, pipes: Sequence[_Pipe], opened: list[tuple[_Pipe, int]]) -> list[tuple[_Pipe, int]]:
    """Make the pipes in a folder that is emptied first, and add them to a list once they are open."""
    restore.clear_away(folder)
    folder.mkdir(mode=0o700)
    for pipe in pipes:
        place = folder / pipe.name
        os.mkfifo(place, 0o600)
        # its own writer too: then it has no end between two programs
        opened.append((pipe, os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)))
    return opened


def from_files(view: WorkspaceView) -> TestCounts | None:
    """What reports say that the last program in a view has written into the workspace; None where there are none."""
    upper = os.fsencode(view.upper)
    found = []
    most = LARGEST_REPORT
    for folder, names, files in os.walk(upper):
        names[:] = [name for name in names if os.fsdecode(name) not in HIDDEN]
        for name in files:
            path = os.path.join(folder, name)[len(upper) + 1 :]  # noqa: PTH118 - bytes
            if not _FILES.fullmatch(path) or not is_changed_since(view.upper, path, view.began):
                continue
            try:
                report, _ = view.read(path, most)
            except OSError:
                return None
            most -= len(report)
            counts = from_junit(report)
            if counts is None:
                return None
            found.append(counts)
    return total(found) if found else None
