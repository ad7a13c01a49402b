"""How `shell` and `python` run programs: with what rights and variables, for how long, and what is taken away after.

Inside there is the workspace, the programs of the system, an empty home and /tmp that vanish with the program,
and no network unless the operator permits it. Nothing of ours is in its environment. In phases that change no files
they write to the view of their turn (`turn_views`), and the workspace stays as it is.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox, workspace_scan
from .git_config import folders_elsewhere, why_no_repository
from .process import DiskReserve, decoded, named
from .project_environment import ProjectEnvironment
from .sandbox import RunPolicy
from .tool import Body, Refusal, Tool, run_uncancellable
from .turn_views import TOO_LARGE, TurnViews
from .witness import Witness, with_witness, witness_of
from .workspace import Workspace
from .workspace_view import WorkspaceView
from .write_policy import is_confined

MOST_OUTPUT: Final = 32 * 1024
"""Bytes shown: the beginning and the end of a long log show what happened."""

LIMITS: Final = process.ProcessLimits(file=512 * 1024**2, address_space=0, data=4 * 1024**3)
"""For builds: a linked program has 200 MB, and Node and Java reserve far more addresses than they use."""

_NAMES: Final = {
    "passwd": "agent:x:{user}:{group}:agent:/tmp/home:/bin/sh\n",
    "group": "agent:x:{group}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "gitconfig": "[safe]\n\tdirectory = *\n",
}
"""What programs ask of /etc: a name for their user, where `localhost` is, and whose repositories git may read."""

_NO_REPOSITORY: Final = "fatal: not a git repository"
"""What git prints where it finds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """What the operator permits; `timeout` is in seconds, the most a command may take."""

    policy: RunPolicy = RunPolicy.OFF
    network: bool = False
    timeout: float = 120
    reserve: DiskReserve = DiskReserve()
    """What stays free on disk: none runs below it, and one that comes below it is stopped."""
    path: tuple[Path, ...] = ()
    """Folders of programs, besides the workspace's and the system's."""
    folders: tuple[Path, ...] = ()
    """Further folders that are seen, read-only: of skills."""


@dataclass(frozen=True, slots=True)
class Programs:
    """How the tools that run programs run them."""

    workspace: Workspace
    rules: ShellRules
    views: TurnViews | None = None
    """What they write to where the phase permits no changes; without, the workspace is read-only there."""
    scratch: Path | None = None
    """The folder in which each call gets an empty one of its own; the system's unless given."""

    @property
    def most(self) -> int:
        """The seconds that a program may take."""
        return max(1, int(self.rules.timeout))

    def tool(self, name: str, description: str, parameters: Mapping[str, Any], body: Body) -> Tool:
        """A tool that runs programs."""
        return Tool(
            name=name,
            description=description,
            parameters=parameters,
            access=Access.RUN,
            replay=Replay.ONCE,
            body=body,
            time_cap=self.most + process.GRACE + 5,  # its own deadline comes first, with a better message
            is_contained=True,
            asks=self.reaches_out,
            why=self.why,
        )

    def folder(self, name: str | None) -> Path:
        """The folder of the workspace in which a program starts; blocks.

        Raises:
            Refusal: there is none of that name, or it lies outside.
        """
        folder = self.workspace.resolve(name or ".")
        if not folder.is_dir():
            shown = self.workspace.relative(folder)
            raise Refusal(f"There is no folder {shown} to start in; `list_files` shows what there is.")
        return folder

    @property
    def reaches_out(self) -> bool:
        """Whether a program may do something outside the workspace: it has a network, or all rights of the user."""
        return self.rules.network or self.rules.policy is RunPolicy.UNSANDBOXED

    @property
    def why(self) -> str:
        """Why a person is asked, as in `ToolRule.why`."""
        if self.rules.policy is RunPolicy.UNSANDBOXED:
            return "it runs without a sandbox, with all your rights"
        return "it can reach the network" if self.rules.network else ""

    @property
    def project(self) -> ProjectEnvironment:
        """What they find in the workspace."""
        return ProjectEnvironment(self.workspace.root, self.rules.path)

    def variables(self, home: str) -> dict[str, str]:
        """All that a program gets to know by variables; `home` is its home folder."""
        quiet = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
        names = {"USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh"}
        return {**sandbox.clean_environment(home), **self.project.variables(), **names, **quiet}

    async def run(
        self,
        command: Sequence[str],
        context: ExecutionContext,
        folder: Path,
        deadline: int,
        *,
        only_reads: bool = False,
    ) -> ToolResult:
        """Run a program in a folder of the workspace; where the phase permits no changes, in the view of the turn.

        Args:
            command: the program with its arguments.
            context: of the call.
            folder: where it starts.
            deadline: in seconds.
            only_reads: the workspace is read-only to it in every phase.
        """
        witness: Witness | None = None
        settled = workspace_scan.Settled()
        is_read_only = only_reads
        if is_confined(context.phase) and not (only_reads and self._view_of(context) is None):
            outcome, is_read_only = await self._in_view(command, context, folder, deadline, only_reads=only_reads)
        elif only_reads:
            outcome = await self._attend(command, folder, deadline, can_write=False)
        else:
            with witness_of(self.workspace.root) as witness:
                outcome, settled = await self.execute(command, folder, deadline, witness=witness)
        ended = outcome.ended("The command", deadline)
        if is_read_only and not only_reads:
            ended += f" The workspace was read-only to it: {TOO_LARGE}."
        if outcome.status and _NO_REPOSITORY in outcome.output and (why := why_no_repository(self.workspace.root)):
            ended += f" {why}"
        ended += self.remarks(settled)
        result = replace(outcome.result(ended), has_outside_effect=self.reaches_out)
        return with_witness(result, witness)

    async def run_in(
        self, command: Sequence[str], view: WorkspaceView, deadline: float, *, most_output: int = MOST_OUTPUT
    ) -> process.Outcome:
        """Run a program at the top of the workspace, in a view that nothing else uses meanwhile.

        Raises:
            Refusal: too little is free on disk.
        """
        return await self._attend(command, self.workspace.root, deadline, view=view, most_output=most_output)

    def _view_of(self, context: ExecutionContext) -> WorkspaceView | None:
        return self.views.opened(context) if self.views is not None else None

    async def _in_view(
        self, command: Sequence[str], context: ExecutionContext, folder: Path, deadline: float, *, only_reads: bool
    ) -> tuple[process.Outcome, bool]:
        """Run a program in the view of its turn; also whether the workspace was read-only to it."""
        is_sandboxed = self.rules.policy is RunPolicy.SANDBOXED
        if self.views is None:
            if not is_sandboxed:
                raise Refusal("Nothing was run: nothing keeps apart here what a command changes in this phase.")
            return await self._attend(command, folder, deadline, can_write=False), True
        async with self.views.using(context, is_sandboxed=is_sandboxed) as view:
            outcome = await self._attend(command, folder, deadline, view=view, can_write=not only_reads)
            return outcome, only_reads or not view.can_write

    def remarks(self, settled: workspace_scan.Settled) -> str:
        """What was not left as a program had left it, in sentences that each begin with a space."""
        said = ""
        if settled.removed:
            gone = named(decoded(settled.removed))
            said += f" Taken away: {gone}. It is renamed, with `.replaced-` and digits at the end."
            said += " Commands make no repositories here and nothing that git runs; a person can."
        if settled.lost:
            said += f" Lost, and cannot be restored: {named(decoded(settled.lost))}; name this in your response."
        return said

    async def execute(
        self,
        command: Sequence[str],
        folder: Path,
        deadline: float,
        *,
        witness: Witness | None = None,
        most_output: int = MOST_OUTPUT,
        on_output: Callable[[bytes], None] = process.drop,
    ) -> tuple[process.Outcome, workspace_scan.Settled]:
        """Run a program that may change the workspace, and take away what it may not leave behind.

        Raises:
            Refusal: too little is free on disk.
        """
        root = self.workspace.root
        settled = workspace_scan.Settled()
        before = await asyncio.to_thread(workspace_scan.take, root)
        try:
            outcome = await self._attend(
                command,
                folder,
                deadline,
                protected=[root / os.fsdecode(path) for path in before.protected()],
                witness=witness,
                most_output=most_output,
                on_output=on_output,
            )
        finally:
            if self.rules.policy is RunPolicy.SANDBOXED:
                settled = await run_uncancellable(partial(workspace_scan.settle, root, before))
        return outcome, settled

    async def _attend(
        self,
        command: Sequence[str],
        folder: Path,
        deadline: float,
        *,
        can_write: bool = True,
        view: WorkspaceView | None = None,
        protected: Sequence[Path] = (),
        witness: Witness | None = None,
        most_output: int = MOST_OUTPUT,
        on_output: Callable[[bytes], None] = process.drop,
    ) -> process.Outcome:
        """Run a program to its end.

        Raises:
            Refusal: too little is free on disk.
        """
        await asyncio.to_thread(self.rules.reserve.refuse_if_short)
        async with sandbox.scratch_folder(self.scratch) as own:
            line = partial(
                self._line, command, folder, own, can_write=can_write, view=view, protected=protected, witness=witness
            )
            wrapped, environment = await asyncio.to_thread(line)
            return await process.run(
                wrapped,
                cwd=folder,
                environment=environment,
                deadline=deadline,
                most_output=most_output,
                limits=LIMITS,
                reserve=self.rules.reserve,
                umask=self.workspace.umask,
                on_output=on_output,
                descriptors=[witness.descriptor] if witness is not None else [],
            )

    def _line(
        self,
        command: Sequence[str],
        folder: Path,
        own: Path,
        *,
        can_write: bool,
        view: WorkspaceView | None,
        protected: Sequence[Path],
        witness: Witness | None,
    ) -> tuple[Sequence[str], dict[str, str]]:
        """The command to run, and the environment to run it in."""
        prefix, mount = view.launch(can_write=can_write) if view is not None else ([], [])
        if self.rules.policy is RunPolicy.UNSANDBOXED:
            return [*prefix, *command], self.variables(str(own))
        for name, content in _NAMES.items():
            (own / name).write_text(content.format(user=os.getuid(), group=os.getgid()))
        root = self.workspace.root
        wrapped = sandbox.wrapped(
            root,
            command,
            self.variables(sandbox.HOME),
            cwd=folder,
            can_write=can_write,
            network=self.rules.network,
            files={f"/etc/{name}": own / name for name in _NAMES},
            folders=[*folders_elsewhere(root), *self.project.mounts(), *filter(Path.is_dir, self.rules.folders)],
            protected=protected,
            scratch=view.tmp if view is not None else None,
            mount=mount,
            witness=witness.descriptor if witness is not None else -1,
        )
        return [*prefix, *wrapped], {}
