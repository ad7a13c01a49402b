"""How `shell` and `python` run programs: with what rights and variables, for how long, and what is taken away after.

Inside there is the workspace, the programs of the system, an empty home and /tmp that vanish with the program,
and no network unless the operator permits it. Nothing of ours is in its environment. In phases that change no files
they write to the view of their turn (`turn_views`), and the workspace stays as it is.
"""

import asyncio
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex.core.config import CallNeed, Replay
from tenex.core.ids import ConversationId
from tenex.core.inbox.received_files import PLACE
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox, workspace_scan
from .git_config import folders_elsewhere, why_no_repository
from .git_writes import NO_IDENTITY, WritableRepository, writable_repository
from .inbox import Inboxes
from .process import DiskReserve, decoded, named
from .project_environment import ProjectEnvironment
from .project_needs import hint_for_missing
from .sandbox import RunPolicy
from .shared_namespaces import SharedNamespaces, TurnNetworks
from .tool import Body, Refusal, Tool, run_uncancellable
from .turn_views import TOO_LARGE, TurnViews
from .witness import Witness, with_witness, witness_of
from .workspace import Workspace
from .workspace_view import WorkspaceView
from .write_policy import is_confined

NETWORK: Final = CallNeed(name="network", is_to="use the network, services on this machine included")
WRITE_GIT: Final = CallNeed(name="write_git", is_to="write to the git repository", changes=True)
NO_COMMITS: Final = (
    'Agents do not commit here: `workspace.commit` is "never". Say so in your response; a person commits, or sets it '
    'to "ask".'
)

NOT_THEIR_PORTS: Final = (
    " With the machine's network it cannot reach the ports of background commands; without `network` it can."
)

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

_WITHOUT_NETWORK: Final = {
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
    "PIP_RETRIES": "0",
    "POETRY_REQUESTS_MAX_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "YARN_HTTP_RETRY": "0",
    "npm_config_fetch_retries": "0",
    "npm_config_update_notifier": "false",
}
"""Where there is no network programs do not try again, which takes npm two minutes, nor look for a newer npm."""

_PACKAGE_FOLDERS: Final = {
    "CARGO_HOME": ("cargo", "{folder}"),
    "GOMODCACHE": ("go", "{folder}"),
    "MAVEN_OPTS": ("maven", "-Dmaven.repo.local={folder}"),
    "NUGET_PACKAGES": ("nuget", "{folder}"),
    "YARN_GLOBAL_FOLDER": ("yarn", "{folder}"),
}
"""Of package managers that keep packages outside of the project, by the variable that names the folder, and how."""

_NOT_FOUND: Final = 127
"""The exit status of a shell that does not find a program."""

_NO_REPOSITORY: Final = "fatal: not a git repository"
"""What git prints where it finds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """What the operator permits; `timeout` is in seconds, the most a command may take."""

    policy: RunPolicy = RunPolicy.OFF
    network: bool = False
    network_environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of those that have the network, such as the address of a proxy."""
    commits: bool = False
    """Whether a command may write to a git repository where a person allows it."""
    timeout: float = 120
    reserve: DiskReserve = DiskReserve()
    """What stays free on disk: none runs below it, and one that comes below it is stopped."""
    path: tuple[Path, ...] = ()
    """Folders of programs, besides the workspace's and the system's."""
    folders: tuple[Path, ...] = ()
    """Further folders that are seen, read-only: of skills."""
    packages: Path | None = None
    """Where package managers that install into a home folder keep what they fetch; without the network read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What was not left as a program had left it."""

    workspace: workspace_scan.Settled = field(default_factory=workspace_scan.Settled)
    taken: Sequence[Path] = ()
    """What was taken out of the repository that it might write to."""
    has_identity: bool = True
    """Whether git knew who commits there."""
    repositories: Sequence[Path] = ()
    """The folders of repositories that were there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What a program has that something talks with as long as it runs."""

    streams: process.Streams
    home: Path
    """A folder that it may write to and that stays."""
    variables: Mapping[str, str]
    """Of it alone; they may hold secrets, so they are on no command line."""


@dataclass(frozen=True, slots=True)
class Programs:
    """How the tools that run programs run them."""

    workspace: Workspace
    rules: ShellRules
    views: TurnViews | None = None
    """What they write to where the phase permits no changes; without, the workspace is read-only there."""
    scratch: Path | None = None
    """The folder in which each call gets an empty one of its own; the system's unless given."""
    inboxes: Inboxes = Inboxes()
    """What people have sent, which is seen in the sandbox."""
    networks: TurnNetworks | None = None
    """Those of the turns in which commands go on in the background."""

    @property
    def most(self) -> int:
        """The seconds that a program may take."""
        return max(1, int(self.rules.timeout))

    @property
    def needs(self) -> tuple[CallNeed, ...]:
        """What a command may be given beyond the sandbox."""
        if self.rules.policy is not RunPolicy.SANDBOXED:
            return ()
        write_git = WRITE_GIT if self.rules.commits else replace(WRITE_GIT, refusal=NO_COMMITS)
        return (write_git,) if self.rules.network else (NETWORK, write_git)

    def tool(
        self, name: str, description: str, parameters: Mapping[str, Any], body: Body, needs: tuple[CallNeed, ...] = ()
    ) -> Tool:
        """A tool that runs programs; `needs` is what a call of it may be given beyond the sandbox."""
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
            needs=needs,
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
        is_sandboxed = self.rules.policy is RunPolicy.SANDBOXED
        return ProjectEnvironment(self.workspace.root, self.rules.path, is_sandboxed)

    def variables(self, home: str, *, is_closed: bool = False, write_git: bool = False) -> dict[str, str]:
        """All that a program gets to know by variables.

        Args:
            home: its home folder.
            is_closed: whether it has no network.
            write_git: whether it may write to a repository.
        """
        quiet = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
        names = {"USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh"}
        packages = {
            name: _PACKAGE_FOLDERS[name][1].format(folder=folder)
            for name, folder in self._packages(is_closed=is_closed).items()
        }
        network = _WITHOUT_NETWORK if is_closed else self.rules.network_environment
        locks = {} if write_git else {"GIT_OPTIONAL_LOCKS": "0"}  # else `git status` tries to write
        return {
            **sandbox.clean_environment(home),
            **self.project.variables(),
            **names,
            **quiet,
            **locks,
            **packages,
            **network,
        }

    def _packages(self, *, is_closed: bool) -> dict[str, Path]:
        """The folders of package managers that are there, by the variables that name them.

        Without the network an empty one would only hide what a toolchain of the user has.
        """
        top = self.rules.packages
        if top is None or self.rules.policy is not RunPolicy.SANDBOXED:
            return {}
        folders = {name: top / folder for name, (folder, _) in _PACKAGE_FOLDERS.items() if (top / folder).is_dir()}
        return {name: folder for name, folder in folders.items() if not is_closed or any(folder.iterdir())}

    async def run(
        self,
        command: Sequence[str],
        context: ExecutionContext,
        folder: Path,
        deadline: int,
        *,
        only_reads: bool = False,
        needs: Collection[str] = (),
    ) -> ToolResult:
        """Run a program in a folder of the workspace; where the phase permits no changes, in the view of the turn.

        Args:
            command: the program with its arguments.
            context: of the call.
            folder: where it starts.
            deadline: in seconds.
            only_reads: the workspace is read-only to it in every phase.
            needs: what it has beyond the sandbox, which a person or a rule has allowed; names of `needs`.

        Raises:
            Refusal: too little is free on disk, or the repository cannot be written to.
        """
        witness: Witness | None = None
        settled = Settled()
        network = NETWORK.name in needs
        is_read_only = only_reads
        shared = self.shared_with(context)
        if is_confined(context.phase) and not (only_reads and self._view_of(context) is None):
            outcome, is_read_only = await self._in_view(
                command, context, folder, deadline, only_reads=only_reads, network=network
            )
        elif only_reads:
            outcome = await self._attend(
                command,
                folder,
                deadline,
                can_write=False,
                network=network,
                of=context.conversation_id,
                shared=shared,
            )
        else:
            with witness_of(self.workspace.root) as witness:
                outcome, settled = await self.execute(
                    command,
                    folder,
                    deadline,
                    witness=witness,
                    needs=needs,
                    of=context.conversation_id,
                    shared=shared,
                )
        ended = outcome.ended("The command", deadline)
        if outcome.is_timed_out:
            ended += self._longer(context, deadline)
        if network and shared is not None and outcome.status:
            ended += NOT_THEIR_PORTS
        if is_read_only and not only_reads:
            ended += f" The workspace was read-only to it: {TOO_LARGE}."
        if outcome.status and _NO_REPOSITORY in outcome.output and (why := why_no_repository(self.workspace.root)):
            ended += f" {why}"
        ended += self.remarks(settled)
        if outcome.status == _NOT_FOUND and self.rules.policy is RunPolicy.SANDBOXED:
            entries = list(map(str, self.rules.path))
            ended += await asyncio.to_thread(hint_for_missing, self.project, outcome.output, os.environ, entries)
        ended += await asyncio.to_thread(self.ways_out, outcome, witness, settled, needs, shared)
        result = replace(outcome.result(ended), has_outside_effect=self.reaches_out or network)
        return with_witness(result, witness)

    def shared_with(self, context: ExecutionContext) -> SharedNamespaces | None:
        """What the commands of a call's turn share, where a command has begun to go on in the background."""
        view = self._view_of(context) if is_confined(context.phase) else None
        if view is not None:
            return view.shared
        return self.networks.opened(context) if self.networks is not None else None

    async def share(self, context: ExecutionContext, *, network: bool) -> str:
        """Have the commands of a call's turn reach each other from now on; what cannot be reached, as a sentence.

        Args:
            context: of the call that starts a command in the background.
            network: whether a person or a rule has allowed it the network of the machine.

        Raises:
            Refusal: the phase permits no changes, and only one program at a time can run.
        """
        is_sandboxed = self.rules.policy is RunPolicy.SANDBOXED
        has_own = is_sandboxed and not self.rules.network
        is_shared = True
        if is_confined(context.phase):
            if self.views is None:
                raise Refusal("Nothing was started: nothing keeps apart here what a command changes in this phase.")
            view = await self.views.share(context, network=has_own, is_sandboxed=is_sandboxed)
            is_shared = view.shared is not None and view.shared.has_network
        elif has_own and not network:
            is_shared = self.networks is not None and await self.networks.open(context, self.workspace.root)
        if not has_own:
            return ""
        if network:
            return " Only commands with `network: true` reach its ports."
        return "" if is_shared else " Other commands cannot reach its ports: this machine does not permit that."

    async def run_on(
        self,
        command: Sequence[str],
        context: ExecutionContext,
        folder: Path,
        deadline: float,
        on_output: Callable[[bytes], None],
        witness: Witness | None,
        needs: Collection[str],
    ) -> str:
        """Run a program beside other calls, and return how it ended, as the end of a sentence about it.

        Args:
            command: the program with its arguments.
            context: of the call that starts it, for which `share` was called.
            folder: where it starts.
            deadline: in seconds.
            on_output: receives what it prints.
            witness: of what it writes; None in a view.
            needs: as in `run`.

        Raises:
            Refusal: too little is free on disk, or the turn has ended.
        """
        settled = Settled()
        shared = self.shared_with(context)
        if witness is None:
            assert self.views is not None, "`share` has refused it"
            async with self.views.beside(context) as view:
                outcome = await self._attend(
                    command,
                    folder,
                    deadline,
                    view=view,
                    network=NETWORK.name in needs,
                    of=context.conversation_id,
                    most_output=0,
                    on_output=on_output,
                )
        else:
            outcome, settled = await self.execute(
                command,
                folder,
                deadline,
                witness=witness,
                needs=needs,
                of=context.conversation_id,
                most_output=0,
                on_output=on_output,
                shared=shared,
            )
            witness.look()
        ended = outcome.ended("It", deadline).removeprefix("It ")
        ways_out = await asyncio.to_thread(self.ways_out, outcome, witness, settled, needs, shared)
        return f"{ended}{self.remarks(settled)}{ways_out}"

    async def talk(
        self,
        command: Sequence[str],
        context: ExecutionContext,
        talk: Talk,
        on_output: Callable[[bytes], None],
        witness: Witness | None,
        *,
        can_write: bool,
    ) -> process.Outcome:
        """Run a program to its end that something talks with, beside other calls of its turn.

        Args:
            command: the program with its arguments.
            context: of its run; `share` or `TurnNetworks.open` was called for the turn.
            talk: what it has besides.
            on_output: receives what it writes to its standard error.
            witness: of what it writes; needed where it may write to the workspace.
            can_write: whether it may change the workspace, or the view of its turn in a phase that permits no changes.

        Raises:
            Refusal: there is no sandbox, too little is free on disk, or the turn has ended.
        """
        if self.rules.policy is not RunPolicy.SANDBOXED:
            raise Refusal("Not started: programs of others run in the sandbox only. `tenex doctor` says what it needs.")
        root = self.workspace.root
        of = context.conversation_id
        run = partial(self._attend, command, root, math.inf, of=of, most_output=0, on_output=on_output, talk=talk)
        if not can_write:
            return await run(can_write=False, shared=self.shared_with(context))
        if is_confined(context.phase):
            assert self.views is not None, "`share` has refused it"
            async with self.views.beside(context) as view:
                return await run(view=view)
        outcome, _ = await self.execute(
            command,
            root,
            math.inf,
            witness=witness,
            of=of,
            most_output=0,
            on_output=on_output,
            shared=self.shared_with(context),
            talk=talk,
        )
        if witness is not None:
            witness.look()
        return outcome

    def _longer(self, context: ExecutionContext, deadline: float) -> str:
        """How a command gets more time than it had; it begins with a space."""
        if "shell_start" in context.tools:
            return " For what takes longer, call `shell_start` with it: that goes on after its call."
        if deadline < self.most:
            return f" It may have up to {self.most} s: give `timeout`."
        return ""

    def ways_out(
        self,
        outcome: process.Outcome,
        witness: Witness | None,
        settled: Settled,
        needs: Collection[str],
        shared: SharedNamespaces | None,
    ) -> str:
        """How to ask for what a program that failed has tried and was not given; blocks. It begins with a space.

        Args:
            outcome: of the program.
            witness: of what it wrote; None in a view.
            settled: as `execute` returned it.
            needs: as in `run`.
            shared: what background commands share with it; of a shared network it is not known who tried to leave it.
        """
        if outcome.status == 0 or self.rules.policy is not RunPolicy.SANDBOXED:
            return ""
        said = ""
        if outcome.tried_network:
            has_company = shared is not None and shared.has_network
            tried = "It, or a background command," if has_company else "It"
            said += (
                f" {tried} tried to reach the network and has none. If it needs the network, call `shell` again with "
                "`network: true` and `why`: a person is asked."
            )
        if WRITE_GIT.name in needs:
            said += "" if settled.has_identity else f" {NO_IDENTITY}"
        elif witness is not None and any(map(witness.tried_below, settled.repositories)):
            way = (
                "To commit, call `shell` again with `write_git: true` and `why`, and `cwd` in the repository: a person "
                "is asked."
            )
            said += f" It tried to write to `.git`, which is read-only. {way if self.rules.commits else NO_COMMITS}"
        return said

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
        self,
        command: Sequence[str],
        context: ExecutionContext,
        folder: Path,
        deadline: float,
        *,
        only_reads: bool,
        network: bool,
    ) -> tuple[process.Outcome, bool]:
        """Run a program in the view of its turn; also whether the workspace was read-only to it."""
        is_sandboxed = self.rules.policy is RunPolicy.SANDBOXED
        if self.views is None:
            if not is_sandboxed:
                raise Refusal("Nothing was run: nothing keeps apart here what a command changes in this phase.")
            outcome = await self._attend(
                command, folder, deadline, can_write=False, network=network, of=context.conversation_id
            )
            return outcome, True
        async with self.views.using(context, is_sandboxed=is_sandboxed) as view:
            outcome = await self._attend(
                command,
                folder,
                deadline,
                view=view,
                can_write=not only_reads,
                network=network,
                of=context.conversation_id,
            )
            return outcome, only_reads or not view.can_write

    def remarks(self, settled: Settled) -> str:
        """What was not left as a program had left it, in sentences that each begin with a space."""
        said = ""
        if settled.workspace.removed:
            gone = named(decoded(settled.workspace.removed))
            said += f" Taken away: {gone}. It is renamed, with `.replaced-` and digits at the end."
            said += " Commands make no repositories here and nothing that git runs; a person can."
        if settled.taken:
            gone = named([str(path) for path in settled.taken])
            said += f" Taken out of the repository: {gone}. Commands write nothing there but what a commit consists of."
        if settled.workspace.lost:
            lost = named(decoded(settled.workspace.lost))
            said += f" Lost, and cannot be restored: {lost}; name this in your response."
        return said

    async def execute(
        self,
        command: Sequence[str],
        folder: Path,
        deadline: float,
        *,
        witness: Witness | None = None,
        needs: Collection[str] = (),
        of: ConversationId | None = None,
        most_output: int = MOST_OUTPUT,
        on_output: Callable[[bytes], None] = process.drop,
        shared: SharedNamespaces | None = None,
        talk: Talk | None = None,
    ) -> tuple[process.Outcome, Settled]:
        """Run a program that may change the workspace, and take away what it may not leave behind.

        It sees what people have sent in the conversation `of`.

        Raises:
            Refusal: too little is free on disk, or the repository cannot be written to.
        """
        root = self.workspace.root
        settled = Settled()
        before = await asyncio.to_thread(workspace_scan.take, root)
        repository: WritableRepository | None = None
        if WRITE_GIT.name in needs:
            repository = await asyncio.to_thread(writable_repository, root, folder)
        outcome: process.Outcome | None = None
        try:
            outcome = await self._attend(
                command,
                folder,
                deadline,
                protected=[root / os.fsdecode(path) for path in before.protected()],
                repository=repository,
                network=NETWORK.name in needs,
                witness=witness,
                of=of,
                most_output=most_output,
                on_output=on_output,
                shared=shared,
                talk=talk,
            )
        finally:
            if self.rules.policy is RunPolicy.SANDBOXED:
                was_stopped = outcome is None or outcome.status is None
                seen = witness if was_stopped else None
                settled = await run_uncancellable(partial(_settle, root, before, repository, seen))
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
        repository: WritableRepository | None = None,
        network: bool = False,
        witness: Witness | None = None,
        of: ConversationId | None = None,
        most_output: int = MOST_OUTPUT,
        on_output: Callable[[bytes], None] = process.drop,
        shared: SharedNamespaces | None = None,
        talk: Talk | None = None,
    ) -> process.Outcome:
        """Run a program to its end; `shared` is what it joins, where that is not of its view.

        Raises:
            Refusal: too little is free on disk.
        """
        await asyncio.to_thread(self.rules.reserve.refuse_if_short)
        network = network or self.rules.network
        if view is not None:
            shared = view.shared
        elif network or self.rules.policy is RunPolicy.UNSANDBOXED:
            shared = None
        keeping = shared.used(network=not network) if shared is not None else nullcontext(())
        with keeping as joined:
            async with sandbox.scratch_folder(self.scratch) as own:
                attempts = os.memfd_create("tenex-network", os.MFD_CLOEXEC)
                try:
                    line = partial(
                        self._line,
                        command,
                        folder,
                        own,
                        can_write=can_write,
                        view=view,
                        protected=protected,
                        repository=repository,
                        network=network,
                        witness=witness,
                        of=of,
                        attempts=attempts,
                        shared=shared,
                        talk=talk,
                    )
                    wrapped, environment = await asyncio.to_thread(line)
                    outcome = await process.run(
                        wrapped,
                        cwd=folder,
                        environment=environment,
                        deadline=deadline,
                        most_output=most_output,
                        limits=LIMITS,
                        reserve=self.rules.reserve,
                        umask=self.workspace.umask,
                        on_output=on_output,
                        streams=talk.streams if talk is not None else None,
                        descriptors=[attempts, *joined, *([witness.descriptor] if witness is not None else [])],
                    )
                    return replace(outcome, tried_network=os.fstat(attempts).st_size > 0)
                finally:
                    os.close(attempts)

    def _line(
        self,
        command: Sequence[str],
        folder: Path,
        own: Path,
        *,
        can_write: bool,
        view: WorkspaceView | None,
        protected: Sequence[Path],
        repository: WritableRepository | None,
        network: bool,
        witness: Witness | None,
        of: ConversationId | None,
        attempts: int,
        shared: SharedNamespaces | None,
        talk: Talk | None,
    ) -> tuple[Sequence[str], dict[str, str]]:
        """The command to run, and the environment to run it in."""
        prefix: list[str] = []
        mount: list[str] = []
        if view is not None:
            prefix, mount = view.launch(can_write=can_write, network=network)
        elif shared is not None:
            prefix = shared.joining()
        if self.rules.policy is RunPolicy.UNSANDBOXED:
            return [*prefix, *command], self.variables(str(own))
        named_files = {name: text.format(user=os.getuid(), group=os.getgid()) for name, text in _NAMES.items()}
        if network:
            del named_files["hosts"]
        else:
            named_files["resolv.conf"] = sandbox.NO_RESOLVER
        if repository is not None:
            named_files["gitconfig"] += repository.settings()
        for name, content in named_files.items():
            (own / name).write_text(content, "utf-8")
        root = self.workspace.root
        elsewhere = folders_elsewhere(root)
        received = self.inboxes.of(of) if of is not None and not root.is_relative_to(PLACE) else None
        inbox = {PLACE: received} if received is not None else {}
        opened = [*repository.mounts()] if repository is not None else []
        if network and self.rules.packages is not None:
            for name, _ in _PACKAGE_FOLDERS.values():
                (self.rules.packages / name).mkdir(parents=True, exist_ok=True)
            opened += [("--bind", folder) for folder in self._packages(is_closed=False).values()]
        home = sandbox.HOME if talk is None else str(talk.home)
        environment = self.variables(home, is_closed=not network, write_git=repository is not None)
        if talk is not None:
            opened.append(("--bind", talk.home))
            environment |= {"TMPDIR": "/tmp", **talk.variables}  # noqa: S108 - that of the sandbox
        wrapped = sandbox.wrapped(
            root,
            command,
            environment if talk is None else None,
            cwd=folder,
            can_write=can_write,
            network=network,
            files={f"/etc/{name}": own / name for name in named_files} | inbox,
            folders=[
                *elsewhere,
                *self.project.mounts(),
                *filter(Path.is_dir, self.rules.folders),
                *self._packages(is_closed=not network).values(),
            ],
            private=self.project.private_folders(),
            protected=protected,
            scratch=view.tmp if view is not None else None,
            mount=mount,
            opened=opened,
            witness=witness.descriptor if witness is not None else -1,
            watched=elsewhere,
            attempts=-1 if network else attempts,
            joins=shared is not None and shared.has_network and not network,
        )
        return [*prefix, *wrapped], {} if talk is None else environment


def _settle(
    root: Path, before: workspace_scan.Survey, repository: WritableRepository | None, stopped: Witness | None
) -> Settled:
    """Take away what a command may not leave behind, once all its processes are gone; blocks.

    `stopped` is the witness of a command that did not come to its end.
    """
    taken: list[Path] = []
    if repository is not None:
        if stopped is not None:
            stopped.look()
        taken = repository.settle(stopped.made() if stopped is not None else ())
    has_identity = repository is None or repository.has_identity
    repositories = [*(root / os.fsdecode(path) for path in before.repositories), *folders_elsewhere(root)]
    return Settled(
        workspace=workspace_scan.settle(root, before),
        taken=taken,
        has_identity=has_identity,
        repositories=repositories,
    )
