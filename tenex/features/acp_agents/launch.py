"""Starts the program of an agent in the sandbox: with a HOME that stays, the workspace as the phase permits it.

The program belongs to a run. It reads and writes the protocol on its standard streams; what it writes to its standard
error is kept for the sentence about its end. It and all it has started are gone when its task is (`tools/supervisor`).
"""

import asyncio
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tenex.core.phases import PHASES, Access
from tenex.core.ports import ExecutionContext
from tenex.log import get_logger
from tenex.prompting.agents import AcpProgram
from tenex.tools.background import OutputRing
from tenex.tools.process import Outcome, Streams, plain_text
from tenex.tools.shared_namespaces import SharedNamespaces
from tenex.tools.shell_runner import Programs, Talk
from tenex.tools.tool import Refusal
from tenex.tools.witness import Witness

from .session_events import LINE_LIMIT, Begin

SAID_BYTES: Final = 4096
"""Of its standard error that are kept: the last lines say why it has ended."""

MCP_ADDRESS: Final = "{mcp}"
"""In a variable of the agent's file: the address of our tools."""

_PLACE: Final = re.compile(r"\{([a-z]+)\}")
"""Of an address; other braces are those of the program, whose settings may be JSON."""

_log = get_logger(__name__)


def may_change(context: ExecutionContext, *, is_expert: bool) -> bool:
    """Whether a program may change files: in the workspace, or in the view of its turn where that is kept apart."""
    return Access.RUN in PHASES[context.phase].access and not is_expert


def is_in_workspace(context: ExecutionContext, *, is_expert: bool) -> bool:
    """Whether what it changes is changed in the workspace itself."""
    return may_change(context, is_expert=is_expert) and not PHASES[context.phase].is_confined


@dataclass(slots=True, eq=False)
class AgentProcess:
    """A program that runs, as a session talks with it (`session_events.Process`)."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    task: "asyncio.Task[Outcome]"
    kept: asyncio.StreamWriter
    """Of the connection that is read, which is closed with it."""
    said: OutputRing = field(default_factory=lambda: OutputRing(SAID_BYTES))

    def stderr_tail(self) -> str:
        """The last lines that it has written beside the protocol; why it was not started, where it was not."""
        if self.task.done() and not self.task.cancelled() and self.task.exception() is not None:
            return str(self.task.exception())
        _, shown = self.said.read(0, SAID_BYTES)
        return plain_text(shown.decode("utf-8", "replace")).strip()

    async def wait(self) -> int:
        """Its exit status, once it has ended with all that it has started; negative where it was ended."""
        await asyncio.wait([self.task])
        if self.task.cancelled() or self.task.exception() is not None:
            return -1
        status = self.task.result().status
        return -1 if status is None else status

    def kill(self) -> None:
        """End it with all that it has started; harmless where it has ended."""
        if not self.task.cancelling():
            self.task.cancel()
        self.stdin.close()
        self.kept.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How the programs of agents are started."""

    programs: Programs

    async def start(
        self,
        program: AcpProgram,
        context: ExecutionContext,
        home: Path,
        addresses: Mapping[str, str],
        more: Mapping[str, str],
        witness: Witness | None,
        *,
        is_expert: bool = False,
    ) -> AgentProcess:
        """Start a program for a run; whether it can run is known once it answers.

        Args:
            program: what is started.
            context: of its run; the network of its turn is made before (`share_network`).
            home: its home folder, which is there.
            addresses: the values of `{openai}` and so on in its variables.
            more: further variables.
            witness: of what it writes, where that is in the workspace.
            is_expert: whether it may change nothing in any phase.

        Raises:
            Refusal: there is no such program.
        """
        name, *arguments = program.command
        found = await asyncio.to_thread(self.programs.project.find, name)
        if found is None:
            raise Refusal(f"there is no program {name}; install it, or add its folder to `workspace.path`")
        theirs_in, ours_in = socket.socketpair()
        theirs_out, ours_out = socket.socketpair()
        streams = Streams(input=theirs_in, output=theirs_out)
        _, stdin = await asyncio.open_connection(sock=ours_in)
        stdout, kept = await asyncio.open_connection(sock=ours_out, limit=LINE_LIMIT)
        said = OutputRing(SAID_BYTES)
        talk = Talk(streams=streams, home=home, variables={**more, **variables(program, addresses)})

        async def run() -> Outcome:
            try:
                return await self.programs.talk(
                    [found, *arguments],
                    context,
                    talk,
                    said.add,
                    witness,
                    can_write=may_change(context, is_expert=is_expert),
                )
            finally:
                streams.close()

        task = asyncio.create_task(run(), name=f"acp agent {context.agent}")
        task.add_done_callback(_log_end)
        return AgentProcess(stdin, stdout, task, kept, said)

    async def share_network(self, context: ExecutionContext) -> SharedNamespaces:
        """Make the network of the turn, in which the program reaches what listens there, and nothing else.

        Raises:
            Refusal: this machine does not permit it, or nothing keeps apart what is changed in this phase.
        """
        if Access.RUN in PHASES[context.phase].access:
            await self.programs.share(context, network=False)
        elif self.programs.networks is not None:
            await self.programs.networks.open(context, self.programs.workspace.root)
        shared = self.programs.shared_with(context)
        if shared is None or not shared.has_network:
            raise Refusal("this machine does not permit it a network of its own; `tenex doctor` says why")
        return shared


def begin_of(program: AcpProgram, root: str, servers: Sequence[Mapping[str, Any]], session: str) -> Begin:
    """What a session of a program begins with, in the workspace `root`, with our tools served at `servers`.

    Some programs wait long for a tool only where their own settings name its server: then it is not handed over.
    """
    is_named = any(MCP_ADDRESS in text for text in program.env.values())
    return Begin(
        cwd=root,
        mcp_servers=() if is_named else servers,
        mode=program.mode,
        model=program.model,
        version=program.version,
        session=session,
    )


def variables(program: AcpProgram, addresses: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program, with addresses in their places; those of the daemon that it names come first."""
    passed = {name: os.environ[name] for name in program.pass_env if name in os.environ}
    written = {
        name: _PLACE.sub(lambda found: addresses.get(found[1], found[0]), text) for name, text in program.env.items()
    }
    return {**passed, **written}


def _log_end(task: "asyncio.Task[Outcome]") -> None:
    fault = None if task.cancelled() else task.exception()
    if fault is not None:
        _log.warning("acp.not_run", error=type(fault).__name__, why=str(fault)[:300])
