"""What the built-in tools are made of, and the form of the table in which a module of tools lists its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenex.core.ports import ExecutionContext

from .background import BackgroundCommands
from .checkpoints import Checkpoints
from .inbox import Inboxes
from .sandbox import RunPolicy
from .sent_files import LARGEST_FILE, SentFiles
from .serialized_calls import Transactions
from .shell_runner import Programs, ShellRules
from .skills import Skills
from .stores import Lessons, PastMessages
from .tool import Tool
from .turn_views import TurnViews
from .workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDependencies:
    """What the built-in tools are made of.

    Args:
        workspace: the folder they work in.
        lessons: the store of `learn`.
        past_messages: what `search_conversation` searches; None where no conversations are stored, as in a preview.
        check: how `check` may run programs.
        shell: how `shell` may; not at all unless given.
        has_sandbox: bubblewrap works here, so git may be run on the workspace's own repository.
        transactions: those of the registry.
        views: what programs write to in phases that permit no changes; without, the workspace is read-only there.
        scratch: where programs get empty folders; the system's unless given.
        commits: agents may commit in the workspace's repository.
        commit_asks: a person allows each commit.
        check_asks: `check` runs what models wrote with all rights of the daemon's user, so a person is asked.
        skills: what `read_skill` reads.
        background: the programs that go on after a call, those of earlier tools too.
        sent_files: what `attach` sends files by.
        inboxes: the files that people have sent.
    """

    workspace: Workspace
    lessons: Lessons
    past_messages: PastMessages | None = None
    check: RunPolicy = RunPolicy.OFF
    shell: ShellRules = ShellRules()
    has_sandbox: bool = False
    transactions: Transactions | None = None
    views: TurnViews | None = None
    scratch: Path | None = None
    commits: bool = False
    commit_asks: bool = False
    check_asks: bool = False
    skills: Skills = Skills()
    background: BackgroundCommands = field(default_factory=BackgroundCommands)
    sent_files: SentFiles = field(default_factory=lambda: SentFiles(None, most=LARGEST_FILE, never=()))
    inboxes: Inboxes = Inboxes()

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Those of the workspace; None where there are none."""
        return self.transactions.checkpoints if self.transactions is not None else None

    def seen(self, context: ExecutionContext) -> Workspace:
        """The workspace as a call that reads sees it: as the programs of its turn do."""
        return self.views.seen(context) if self.views is not None else self.workspace

    def readable(self, context: ExecutionContext, path: str) -> Workspace:
        """Where a call that reads looks for a path: in what people have sent, else in the workspace as it sees it.

        Raises:
            Refusal: nobody has sent a file.
        """
        inbox = None
        if not Path(path).is_relative_to(self.workspace.root):
            inbox = self.inboxes.workspace(context.conversation_id, path)
        return inbox or self.seen(context)

    @property
    def programs(self) -> Programs | None:
        """How `shell` and `python` run programs; None where they are switched off."""
        if self.shell.policy is RunPolicy.OFF:
            return None
        return Programs(self.workspace, self.shell, self.views, self.scratch, self.inboxes, self.background.networks)


ToolTable = Mapping[str, Callable[[ToolDependencies], Tool | None]]
"""Tools by name, each with what makes it; None where it is switched off."""
