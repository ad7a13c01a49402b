"""What the tests of missions share: a journal that dies at a chosen append, and the shipped example as a module."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tenex.core.conversation import Conversation
from tenex.core.errors import AppendFailed
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.store.format import CONVERSATION
from tenex.workflows.kit.loading import load_script
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tests.fakes.virtual import VirtualClock, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config" / "workflows" / "mission.py"


def example() -> ModuleType:
    return load_script(EXAMPLE, "shipped")


def documented(begins: str) -> str:
    """The Python example of docs/workflows.md that begins with these words."""
    (code,) = re.findall(
        rf"```python\n(\"{{3}}{begins}.*?)```", (ROOT / "docs" / "workflows.md").read_text(), re.DOTALL
    )
    return str(code)


def play(graph: Graph[Any, Any, Any], start: Any = None, *, clock: Clock | None = None, **given: Any) -> Any:
    """Run a mission on virtual time, named `main`; it starts at the graph's first node if no other is given."""

    async def main() -> Any:
        return await graph.run(start or graph.first(), **{"mission": "main", **given}, clock=clock or VirtualClock())

    return run(main)


class Mute(Exception):
    """An error of user code that cannot state itself."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def idle(_ctx: Any) -> None:
    """Do nothing."""


def alone(body: Callable[[Any], Any] = idle, state_type: Any = None, **policy: Any) -> Graph[Any, Any, Any]:
    """A graph of one node with this body."""

    @dataclass
    class Only(BaseNode, **policy):  # as those write it who check no types
        async def run(self, ctx: GraphRunContext[Any, Any]) -> End[Any]:
            return End(await body(ctx))

    return Graph(nodes=(Only,), state_type=state_type)


def competition(folder: Path, *, title: str = "Fit a curve", points: Any = ((0, 1), (1, 3), (2, 5), (3, 7))) -> Path:
    """A platform's folder with one competition, and leaders a solution can beat."""
    (folder / "competitions").mkdir(parents=True)
    (folder / "competitions" / "curve.json").write_text(json.dumps({"title": title, "points": list(points)}))
    (folder / "competitions" / "leaders.json").write_text(json.dumps({"curve": [9.0, 0.000001]}))
    return folder


class Journals:
    """A journal as bytes, as a disk has it; the process dies at append `at`, before or after it is kept."""

    def __init__(self) -> None:
        self.lines = b""
        self.appends = 0
        self.at: tuple[int, str] | None = None
        self.next_seq = 1
        self.may_start = True

    async def open(self, _: ConversationId) -> "tuple[Journals, Sequence[Record]]":
        records = self.records()
        self.next_seq = len(records) + 1
        return self, records

    async def show(self, _: Conversation) -> None:
        """There is nothing to look at."""

    def records(self) -> list[Record]:
        records, length, fault = CONVERSATION.decode_lines(self.lines)
        assert (fault, length) == (None, len(self.lines))
        return records

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        self.appends += 1
        if self.at == (self.appends, "before"):
            raise AppendFailed("the process died")
        self.lines += CONVERSATION.encode_decisions(decisions)
        self.next_seq += sum(map(len, decisions))
        if self.at == (self.appends, "after"):
            raise AppendFailed("the process died")

    async def close(self) -> None:
        """Nothing to close."""
