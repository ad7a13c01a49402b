"""Files and packages of tools as an operator has them, and calls of their tools through the registry."""

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Agent
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.plugins.sources import Plugins, find_plugins
from tenex.tools.registry import ToolRegistry
from tenex.tools.serialized_calls import Transactions
from tenex.tools.tool import Tool
from tenex.tools.workspace import Workspace
from tests.tools.conftest import make_context

HEAD = "from tenex.plugins import ToolContext, tool\n"
TAKEN = {"read_file": "a tool of the daemon's"}


@dataclass
class Own:
    """A folder of tools, and a workspace beside it."""

    folder: Path
    workspace: Path

    def put(self, name: str, text: str) -> Path:
        """Write a file of tools; the import is there already."""
        path = self.folder / name
        path.write_text(HEAD + textwrap.dedent(text))
        return path

    def find(self, *allowed: str, **more: Any) -> Plugins:
        return find_plugins(self.folder, allowed, **{"taken": TAKEN, "env": {}, **more})

    def load(self, *names: str, allowed: tuple[str, ...] = (), **more: Any) -> tuple[dict[str, Tool], list[str]]:
        """The tools of these names, all that are claimed unless some are given, and every fault."""
        plugins = self.find(*allowed, **more)
        tools = plugins.load(names or plugins.names, self.workspace)
        return {tool.name: tool for tool in tools}, plugins.faults()

    def tool(self, text: str, name: str = "sample") -> Tool:
        """The tool of a file with one, which has no fault."""
        self.put(f"{name}.py", text)
        tools, faults = self.load(name)
        assert faults == []
        return tools[name]


@pytest.fixture
def own(tmp_path: Path) -> Own:
    for name in ("tools", "workspace"):
        (tmp_path / name).mkdir(mode=0o700)
    return Own(tmp_path / "tools", tmp_path / "workspace")


async def call(tool: Tool, arguments: Any = None, phase: Phase = Phase.EXECUTE, root: Path | None = None) -> ToolResult:
    """Call a tool as a model does, through the registry; `root` is a workspace in which calls take turns."""
    agent = Agent(slug=Slug("executor"), name="e", pubkey=PublicKey("0" * 64), tools=frozenset({tool.name}))
    turns = Transactions(Workspace(root)) if root is not None else None
    return await ToolRegistry([tool], {agent.slug: agent}.get, turns).call(
        tool.name, arguments or {}, make_context(phase)
    )


def package(place: Path, name: str, module: str, entries: dict[str, str], group: str = "tenex.tools") -> None:
    """A package as an installer leaves it: its module, and a folder that describes it."""
    (place / f"{name}_module.py").write_text(module)
    about = place / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {name}_module:{value}\n" for entry, value in entries.items()]
    (about / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that Python finds."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    before = set(sys.modules)
    yield place
    for name in set(sys.modules) - before:
        if name.endswith("_module"):
            del sys.modules[name]
