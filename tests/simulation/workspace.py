"""A workspace with checks for simulated worlds: what differs, and how checks end, whatever fails beside them."""

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from tenex.core import records as r
from tenex.core.cycle.checks import ChangedFile, CheckOutcome, CheckResult, Inspection
from tenex.core.effects import Check, Inspect
from tenex.core.ids import ConversationId
from tenex.workflows.phases import records as p

if TYPE_CHECKING:
    from .world import FaultyWorld

FILE: Final = "f"
"""What the tools of agents change."""
NAMES: Final = ("tests", "lint", "types")
FAULTS: Final = ("view", "check bug", "check slow", "edit")
RED: Final[tuple[CheckOutcome, ...]] = ("failed", "failed", "failed", "nothing")
TESTS: Final = ("one", "two", "three")
SLOW: Final = 2_000.0
"""Seconds of the longest run: longer than any deadline of an agent."""


class Workspace:
    """One workspace of all conversations: its content is a number, and its checks depend on that alone.

    It outlives daemons, as files do. A person edits it now and then while a check runs.
    """

    def __init__(self, world: "FaultyWorld") -> None:
        self._world = world
        self._dice = Random(f"checks {world.seed}")
        self._content = 0
        self._contents = 0
        """How many there have been."""
        self._begun: dict[tuple[str, int], int] = {}
        """What it was when the tools of a cycle first changed it."""
        self._names = NAMES[: self._dice.randint(0, len(NAMES))]
        self._odds = self._dice.choice([0.1, 0.4, 0.8])
        """How often a content fails a check."""
        self.running: Counter[str] = Counter()
        """The checks under way, by name and conversation."""
        self._recorded: set[tuple[str, int, str, str]] = set()
        """(conversation, cycle, name, tree) of the results that are durable."""
        self._cycles: dict[str, int] = {}

    def odds(self) -> dict[str, float]:
        """How often each kind of fault happens."""
        return {name: self._dice.choice([0.0, 0.03, 0.2]) for name in FAULTS}

    def tool_changes(self, conversation: ConversationId, cycle: int) -> None:
        """A tool of an agent changes the file, or puts it back as it was when its cycle began."""
        begun = self._begun.setdefault((conversation, cycle), self._content)
        if self._dice.random() < 0.15:
            self._content = begun
        else:
            self._changes()

    def note(self, conversation: str, record: r.Record) -> None:
        """A record is durable."""
        if isinstance(record, r.CycleStarted):
            self._cycles[conversation] = record.cycle
        elif isinstance(record, p.CheckEnded):
            name, tree = record.result.name, record.result.tree
            self._recorded.add((conversation, self._cycles.get(conversation, 0), name, tree))

    async def inspect(self, effect: Inspect) -> Inspection:
        """Look what differs; the disk may be slow, or fail."""
        await self._takes(0.5)
        if self._meets("view"):
            return Inspection(fault="git failed")
        if self._meets("check bug"):
            raise RuntimeError("a fault of ours")
        base = self._begun.get((effect.conversation, effect.cycle), self._content)
        changed = (ChangedFile(path=FILE, added=1),) if base != self._content and FILE in effect.touched else ()
        checks = self._names if changed else ()
        return Inspection(tree=_tree(self._content), base=_tree(base), changed=changed, checks=checks)

    async def run(self, effect: Check) -> CheckResult:
        """Run a check; it may be slow, find no way to keep the workspace as it is, or the workspace may change."""
        self._world.must(
            (effect.conversation, self._cycles.get(effect.conversation, 0), effect.name, effect.tree)
            not in self._recorded,
            f"{effect.name} ran again after its result on {effect.tree} was durable",
        )
        key = f"{effect.name} {effect.conversation}"
        self.running[key] += 1
        try:
            return await self._result(effect)
        finally:
            self.running -= Counter([key])

    async def _result(self, effect: Check) -> CheckResult:
        await self._takes(3.0)
        if self._meets("check bug"):
            raise RuntimeError("a fault of ours")
        if self._meets("view"):
            return self._fails(effect, "uncontained")
        if self._meets("check slow"):
            await asyncio.sleep(self._dice.uniform(0.0, SLOW))
            if self._dice.random() < 0.5:
                return self._fails(effect, "timeout")
        if self._meets("edit"):
            self._changes()
            if self._dice.random() < 0.3:
                return self._fails(effect, "changed")
        return self.result(effect.name, effect.tree if effect.is_earlier else _tree(self._content))

    def result(self, name: str, tree: str) -> CheckResult:
        """How a check ends on a tree where nothing fails beside it: always the same."""
        dice = Random(f"{self._world.seed} {name} {tree}")
        is_red = dice.random() < self._odds
        return _result(name, tree, dice.choice(RED) if is_red else "passed", dice)

    def _fails(self, effect: Check, outcome: CheckOutcome) -> CheckResult:
        return _result(effect.name, effect.tree, outcome, self._dice)

    async def _takes(self, seconds: float) -> None:
        await asyncio.sleep(self._dice.choice([0.0, 0.01, seconds]) * self._dice.random())

    def _meets(self, fault: str) -> bool:
        return self._dice.random() < self._world.odd(fault)

    def _changes(self) -> None:
        self._contents += 1
        self._content = self._contents


def _tree(content: int) -> str:
    return f"tree-{content}"


def _result(name: str, tree: str, outcome: CheckOutcome, dice: Random) -> CheckResult:
    failed = dice.sample(TESTS, dice.randint(1, len(TESTS))) if outcome == "failed" else []
    has_counts = outcome in ("passed", "failed")
    return CheckResult(
        name=name,
        command=f"make {name}",
        tree=tree,
        outcome=outcome,
        status={"passed": 0, "nothing": 0, "failed": 1}.get(outcome),
        seconds=1.0,
        has_tests=True,
        tests=9 if has_counts else None,
        failures=len(failed) if has_counts else None,
        failed=tuple(sorted(failed)),
    )
