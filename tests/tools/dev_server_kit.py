"""A server in the workspace, a command that asks it, and the built-in tools as a daemon has them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tenex.core.ids import ConversationId, RunId
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext
from tenex.tools.background import BackgroundCommands
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell_runner import ShellRules
from tenex.tools.standard import standard_tools
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace

from .conftest import Bench, KeptLessons, make_context

RUN = RunId("turn-1.executor")
OTHER = ConversationId("d" * 64)

SERVE = "exec python3 -u -m http.server --bind 127.0.0.1 8000"

ASK = """python3 - <<'END'
import time, urllib.request
for _ in range(200):
    try:
        print("got", urllib.request.urlopen("http://127.0.0.1:8000/name.txt", timeout=5).read().decode())
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
END
"""
"""Asks until the server answers, for ten seconds at most."""

ASK_PYTHON = ASK.split("\n", 1)[1].rpartition("END")[0]

ASK_ONCE = ASK.replace("range(200)", "range(1)")


def at(call: int = 7, phase: Phase = Phase.EXECUTE, **more: Any) -> ExecutionContext:
    """The context of a call of the run."""
    context = make_context(phase, idempotency_key=f"{'c' * 64}:{call}", run=RUN)
    return replace(context, **more)


class Daemon:
    """The built-in tools in a sandbox, as a daemon has them."""

    def __init__(self, workspace: Workspace, checkpoints: Path, **rules: Any) -> None:
        self.root = workspace.root
        self.commands = BackgroundCommands()
        self.views = TurnViews(workspace.root.with_name("views"), workspace)
        turns = Transactions(workspace, Checkpoints(checkpoints, workspace.root), self.commands, self.views)
        parts = ToolDependencies(
            workspace=workspace,
            lessons=KeptLessons(),
            shell=ShellRules(**{"policy": RunPolicy.SANDBOXED, "timeout": 30, **rules}),
            transactions=turns,
            views=self.views,
            background=self.commands,
        )
        self.tools = Bench(standard_tools(parts), turns)

    async def start(self, context: ExecutionContext, command: str = SERVE, **arguments: Any) -> str:
        result = await self.tools.do("shell_start", context, command=command, **arguments)
        assert result.ok, result.content
        return result.content

    async def ask(self, context: ExecutionContext, command: str = ASK) -> str:
        return (await self.tools.run(command, context)).content

    def end_turn(self, conversation: ConversationId) -> None:
        ended: Any = SimpleNamespace(id=conversation, work=SimpleNamespace(runs={}, turn=None))
        self.commands.on_records(ended, [])
        self.views.on_records(ended, [])

    async def close(self) -> None:
        await self.commands.close()
        await self.views.close()
