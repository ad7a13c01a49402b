"""What it costs to contain a program in a view, and to see which files a program writes: ratios to the same without.

Each ratio is the median over rounds, in each of which both are measured one after the other: so what else the machine
does counts for both.
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tenex.core.phases import Phase
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.turn_views import TurnViews
from tenex.tools.witness import witness_of
from tenex.tools.workspace import Workspace
from tests.programs import BUBBLEWRAP_WORKS
from tests.tools.conftest import every_tool, make_context, put

from .rig import Row

FILES: Final = 20_000
"""Of a large workspace, and of a command that unpacks an archive."""
TEST_FILES: Final = 90
ROUNDS: Final = 5
DEADLINE: Final = 120
"""Seconds for a command; the longest takes 5."""
SECONDS_OF_TESTS: Final = 60.0
"""No new round of the suite begins after that."""

_TESTS: Final = "\n".join(
    [
        "import pytest\n",
        *(f"def test_sum_{number}():\n    assert {number} + 1 == {number + 1}\n" for number in range(8)),
        'def test_file(tmp_path):\n    (tmp_path / "file").write_text("x")\n',
        "@pytest.mark.parametrize('given', [1])\ndef test_given(given):\n    assert given\n",
    ]
)
"""Ten tests, one of which writes a file."""

_MANY: Final = f"import os\nfor n in range({FILES}): os.close(os.open(f'{{n % 100}}/{{n}}', os.O_WRONLY | os.O_CREAT))"


async def measure(place: Path) -> list[Row]:
    """The rows; without a sandbox there is nothing to measure."""
    if not BUBBLEWRAP_WORKS:
        print("the rows of views are left out: bubblewrap does not work on this machine", file=sys.stderr)
        return []
    return [
        await _opened(place / "large"),
        *await _suite(place / "suite"),
        *await _many_files(place / "many"),
        await _commands(place / "commands"),
    ]


async def _opened(place: Path) -> Row:
    """A view of a large workspace, opened and removed."""
    workspace = _workspace(place)
    put(workspace.root, {f"{number % 200}/{number}.txt": "x" for number in range(FILES)})
    views = TurnViews(place / "views", workspace)
    took = []
    for number in range(ROUNDS):
        context = replace(make_context(Phase.VERIFICATION), turn=f"turn-{number}")
        began = time.perf_counter()
        async with views.using(context):
            pass
        views.end(context.conversation_id)
        await views.settled()
        took.append(time.perf_counter() - began)
    return Row(f"open and remove a view of {FILES:,} files", statistics.median(took), "s", budget=0.3)


async def _suite(place: Path) -> list[Row]:
    """A suite of tests: in a view, and under the witness."""
    workspace = _workspace(place)
    put(workspace.root, {f"tests/test_{number}.py": _TESTS for number in range(TEST_FILES)})
    put(workspace.root, {"pytest.ini": "[pytest]\n"})
    runs = _Runs(place, workspace)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:randomly", "tests"]
    await runs.plainly(command)  # compiles the tests
    await runs.in_view(command)
    ways = [runs.plainly, runs.in_view, runs.witnessed]
    plain, contained, seen = await _rounds([partial(way, command) for way in ways], SECONDS_OF_TESTS)
    name = f"a suite of {TEST_FILES * 10} tests"
    return [
        Row(f"{name}: plain, in the sandbox", statistics.median(plain), "s"),
        Row(f"{name}: in a view", _ratio(contained, plain), "x plain", budget=1.1),
        Row(f"{name}: seen by the witness", _ratio(seen, plain), "x plain", budget=1.15),
    ]


async def _many_files(place: Path) -> list[Row]:
    """One command that makes many files and does nothing else: what the witness costs at most."""
    workspace = _workspace(place)
    for number in range(100):
        (workspace.root / str(number)).mkdir()
    runs = _Runs(place, workspace)
    remove = [sys.executable, "-c", "import glob, os\nfor name in glob.glob('*/*'): os.unlink(name)"]
    command = [sys.executable, "-c", _MANY]

    async def emptied(way: Callable[[list[str]], Awaitable[float]]) -> float:
        took = await way(command)
        await runs.plainly(remove)
        return took

    plain, seen = await _rounds([partial(emptied, runs.plainly), partial(emptied, runs.witnessed)], SECONDS_OF_TESTS)
    more = [(with_witness - without) / FILES * 1e6 for with_witness, without in zip(seen, plain, strict=True)]
    return [
        Row(f"{FILES:,} files made by one command: seen by the witness", statistics.median(seen), "s"),
        Row("  as a ratio", _ratio(seen, plain), "x plain"),
        Row("  more for each file", statistics.median(more), "us", budget=120),
    ]


async def _commands(place: Path) -> Row:
    """A command that does nothing, called by an agent: in verification, and in execute with its checkpoints."""
    workspace = _workspace(place)
    put(workspace.root, {f"{number % 20}/{number}.txt": "x" for number in range(1_000)})
    tools = every_tool(workspace, place / "checkpoints", RunPolicy.SANDBOXED)

    async def call(phase: Phase) -> float:
        began = time.perf_counter()
        result = await tools.run("true", phase)
        took = time.perf_counter() - began
        assert result.ok, result.content
        return took

    phases = [Phase.EXECUTE, Phase.VERIFICATION]
    for phase in phases:
        await call(phase)  # the view is opened, the first checkpoint made
    changing, contained = await _rounds([partial(call, phase) for phase in phases], SECONDS_OF_TESTS)
    return Row("a command in verification", _ratio(contained, changing), "x execute", budget=1.1)


class _Runs:
    """One command in each of the ways to run it; returns the seconds."""

    def __init__(self, place: Path, workspace: Workspace) -> None:
        # the suite needs the pytest of this interpreter
        rules = ShellRules(policy=RunPolicy.SANDBOXED, folders=(Path(sys.base_prefix), Path(sys.prefix)))
        self._root = workspace.root
        self._programs = Programs(workspace, rules, views=TurnViews(place / "views", workspace))

    async def plainly(self, command: list[str]) -> float:
        began = time.perf_counter()
        outcome, _ = await self._programs.execute(command, self._root, DEADLINE)
        assert outcome.status == 0, outcome.output
        return time.perf_counter() - began

    async def witnessed(self, command: list[str]) -> float:
        began = time.perf_counter()
        with witness_of(self._root) as witness:
            outcome, _ = await self._programs.execute(command, self._root, DEADLINE, witness=witness)
        assert outcome.status == 0, outcome.output
        return time.perf_counter() - began

    async def in_view(self, command: list[str]) -> float:
        began = time.perf_counter()
        result = await self._programs.run(command, make_context(Phase.VERIFICATION), self._root, DEADLINE)
        assert result.ok, result.content
        return time.perf_counter() - began


async def _rounds(ways: list[Callable[[], Awaitable[float]]], seconds: float) -> list[list[float]]:
    """Measure all ways in turn, in rounds; returns the figures of each."""
    found: list[list[float]] = [[] for _ in ways]
    began = time.monotonic()
    while len(found[0]) < ROUNDS and (not found[0] or time.monotonic() - began < seconds):
        for figures, way in zip(found, ways, strict=True):
            figures.append(await way())
    return found


def _ratio(figures: list[float], others: list[float]) -> float:
    return statistics.median(figure / other for figure, other in zip(figures, others, strict=True))


def _workspace(place: Path) -> Workspace:
    root = place / "workspace"
    root.mkdir(parents=True)
    return Workspace(root)
