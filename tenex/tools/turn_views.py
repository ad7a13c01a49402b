"""The views of the turns that may not change the workspace: which way works here, and how long each of them lives.

    first program of a turn ─► a folder of its own ─► a way that works ─► its programs, one at a time ─► the turn ends
                                                            │                                                │
                            tried by running a program in it ┘                            the folder is removed ┘

One program of a view may go on between calls: its resident, a server. It is ended before another program is run there,
because two mounts of one upper folder at once are undefined, and before we change that folder ourselves.

Background commands go on beside others: from the first of them on, all programs of the view use one mount, which the
daemon holds (`shared_namespaces`). They are for phases in which we do not change the folder ourselves.

Nothing of a view outlives the daemon but its folder: the mounts are those of its programs, and these end with the
daemon. The folders of a life before are removed at the start.
"""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId
from tenex.core.ports import ExecutionContext
from tenex.core.records import Record
from tenex.log import get_logger

from . import restore, sandbox
from .process import probe
from .sandbox import SandboxMissing
from .seen_workspace import SeenWorkspace
from .shared_namespaces import CannotShare
from .tool import Refusal, run_uncancellable
from .workspace import HALF_WRITTEN, Workspace
from .workspace_view import Way, WorkspaceView, is_at_most, unmapped

LARGEST_COPY: Final = 1024**3
"""Bytes of a workspace that is copied where there is no overlay: that takes up to ten seconds, once for a turn."""

MOST_COPIED: Final = 100_000
"""Files, likewise."""

TOO_LARGE: Final = "there is no overlay here, and the workspace is too large to be copied"

_log = get_logger(__name__)


class Resident(Protocol):
    """A program that goes on in a view."""

    @property
    def key(self) -> object:
        """What it is; a call finds the one of an equal key again."""

    async def close(self) -> None:
        """Return once it has ended; where that is cancelled, it is called again."""


@dataclass(slots=True, eq=False)
class _Turn:
    """The view of a turn, once it is made."""

    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    view: WorkspaceView | None = None
    resident: Resident | None = None
    beside: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """Those that run programs which go on beside others."""

    async def end_resident(self) -> None:
        """Return once no program runs in the view; the caller has the lock."""
        if self.resident is not None:
            await self.resident.close()
            self.resident = None

    async def end_beside(self) -> None:
        """Return once no program goes on beside others; one that is being ended is not disturbed."""
        for task in self.beside:
            if not task.cancelling():
                task.cancel()
        if self.beside:
            await asyncio.wait(set(self.beside))


class TurnViews:
    """The views of one workspace. Belongs to one event loop; as an `Observer` it removes those of ended turns."""

    def __init__(self, store: Path, workspace: Workspace) -> None:
        """Take the folder in which the views lie, which are its own."""
        self._store = store
        self._workspace = workspace
        self._turns: dict[tuple[ConversationId, str], _Turn] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._foreign: str | None = None
        """A file that an overlay cannot change; "" for none, and None before that was looked at."""

    def clear(self) -> None:
        """Remove what an earlier life has left; blocks."""
        restore.clear_away(self._store)

    @asynccontextmanager
    async def using(self, context: ExecutionContext, *, is_sandboxed: bool = True) -> AsyncIterator[WorkspaceView]:
        """The view of the turn that a call belongs to, for one program; made by the first that asks.

        Raises:
            Refusal: the disk does not take it; or without a sandbox, there is no overlay.
        """
        async with self._of(context, is_sandboxed=is_sandboxed) as (turn, view):
            await turn.end_resident()
            yield view

    @asynccontextmanager
    async def resident(
        self, context: ExecutionContext, key: object, begin: Callable[[WorkspaceView], Resident]
    ) -> AsyncIterator[tuple[WorkspaceView, Resident]]:
        """The view of the turn that a call belongs to, and the program that goes on in it; another one is ended first.

        Args:
            context: of the call.
            key: what the program is.
            begin: begins it, where the one that runs has another key.

        Raises:
            Refusal: the disk does not take the view.
        """
        async with self._of(context, is_sandboxed=True) as (turn, view):
            if turn.resident is None or turn.resident.key != key:
                await turn.end_resident()
                turn.resident = begin(view)
            yield view, turn.resident

    async def share(self, context: ExecutionContext, *, network: bool, is_sandboxed: bool = True) -> WorkspaceView:
        """The view of the turn that a call belongs to, in which several programs may run at once from now on.

        Args:
            context: of the call.
            network: whether its programs reach each other by a network of their own.
            is_sandboxed: whether they run in bubblewrap.

        Raises:
            Refusal: the disk does not take the view, or it takes one program at a time.
        """
        async with self._of(context, is_sandboxed=is_sandboxed) as (turn, view):
            if not view.takes_several:
                await turn.end_resident()
                try:
                    await run_uncancellable(lambda: view.share(network=network, is_sandboxed=is_sandboxed))
                except (CannotShare, OSError) as error:
                    _log.warning("view.not_shared", error=str(error), way=view.way)
                    raise Refusal(
                        "Nothing was started: on this machine only one program at a time can run in this phase. Use "
                        "`shell`."
                    ) from error
            return view

    @asynccontextmanager
    async def beside(self, context: ExecutionContext) -> AsyncIterator[WorkspaceView]:
        """The shared view of the turn that a call belongs to, for a program that goes on; it ends with the view.

        Raises:
            Refusal: the turn has ended.
        """
        turn = self._turns.get((context.conversation_id, context.turn))
        task = asyncio.current_task()
        if turn is None or turn.view is None or task is None:
            raise Refusal("Nothing was started: the turn has ended.")
        turn.beside.add(task)
        try:
            yield turn.view
        finally:
            turn.beside.discard(task)

    async def end_resident(self, context: ExecutionContext) -> None:
        """Return once no program goes on in the view of the turn that a call belongs to."""
        turn = self._turns.get((context.conversation_id, context.turn))
        if turn is not None and turn.resident is not None:
            async with turn.busy:
                await turn.end_resident()

    @asynccontextmanager
    async def _of(self, context: ExecutionContext, *, is_sandboxed: bool) -> AsyncIterator[tuple[_Turn, WorkspaceView]]:
        """The turn of a call, which no other call uses meanwhile, and its view."""
        turn = self._turns.setdefault((context.conversation_id, context.turn), _Turn())
        async with turn.busy:
            view = turn.view
            if view is None:

                def make() -> WorkspaceView:
                    turn.view = self._made(is_sandboxed=is_sandboxed)  # here, so that a cancelled call leaves it known
                    return turn.view

                view = await run_uncancellable(make)
                _log.info("view.opened", way=view.way, conversation=context.conversation_id, turn=context.turn)
            yield turn, view

    @asynccontextmanager
    async def separate(self, *, is_sandboxed: bool = True) -> AsyncIterator[WorkspaceView]:
        """A view that belongs to no turn; it is removed at the end of the block.

        Raises:
            Refusal: the disk does not take it; or without a sandbox, there is no overlay.
        """
        made: list[WorkspaceView] = []
        try:
            await run_uncancellable(lambda: made.append(self._made(is_sandboxed=is_sandboxed)))
            yield made[0]
        finally:
            for view in made:
                await run_uncancellable(view.remove)

    def opened(self, context: ExecutionContext) -> WorkspaceView | None:
        """The view of the turn that a call belongs to, if there is one."""
        turn = self._turns.get((context.conversation_id, context.turn))
        return turn.view if turn is not None else None

    def seen(self, context: ExecutionContext) -> Workspace:
        """The workspace as the programs of a call's turn see it."""
        view = self.opened(context)
        if view is None or view.way is Way.READ_ONLY:
            return self._workspace
        return SeenWorkspace(self._workspace, view)

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Remove the views of turns that are not open any more (`core.ports.Observer`)."""
        del records
        current = conversation.work.turn
        ended = [
            key for key in self._turns if key[0] == conversation.id and (current is None or key[1] != current.turn_id)
        ]
        self._end(ended)

    def end(self, conversation: ConversationId) -> None:
        """Remove the views of a conversation with which another worker goes on."""
        self._end([key for key in self._turns if key[0] == conversation])

    async def settled(self) -> None:
        """Return once the views of ended turns are removed."""
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def close(self) -> None:
        """Remove all of them, as the daemon ends."""
        self._end(list(self._turns))
        await self.settled()

    def _end(self, keys: Iterable[tuple[ConversationId, str]]) -> None:
        for key in keys:
            turn = self._turns.pop(key)
            if turn.view is None and not turn.busy.locked():
                continue
            removing = asyncio.create_task(self._remove(turn), name=f"end of view {key[1]}")
            self._ending.add(removing)
            removing.add_done_callback(self._ending.discard)

    async def _remove(self, turn: _Turn) -> None:
        """Remove a view once its last program is gone."""
        async with turn.busy:
            await turn.end_resident()
            await turn.end_beside()
            if turn.view is None:
                return
            if turn.view.shared is not None:
                turn.view.shared.close()
            await run_uncancellable(turn.view.remove)

    def way(self, *, is_sandboxed: bool = True) -> tuple[Way, tuple[str, ...]]:
        """The first way that works, and why each before it cannot be used; blocks.

        Raises:
            OSError: the disk does not take it.
        """
        faults: list[str] = []
        if self._foreign is None:
            found = unmapped(self._workspace.root)
            self._foreign = str(found) if found is not None else ""
        if self._foreign:
            faults.append(f"the owner or group of {self._foreign} is not the daemon's, and an overlay cannot change it")
        overlays = (Way.OVERLAY, Way.BUBBLEWRAP) if is_sandboxed else (Way.OVERLAY,)
        for way in () if self._foreign else overlays:
            view = self._empty(way)
            try:
                fault = _fault(view, is_sandboxed=is_sandboxed)
            finally:
                view.remove()
            if not fault:
                return way, tuple(faults)
            faults.append(f"{way}: {fault}")
        if is_sandboxed and is_at_most(self._workspace.root, LARGEST_COPY, MOST_COPIED):
            return Way.COPY, tuple(faults)
        return Way.READ_ONLY, (*faults, TOO_LARGE)

    def _made(self, *, is_sandboxed: bool) -> WorkspaceView:
        """Make a view by the first way that works."""
        try:
            way, _ = self.way(is_sandboxed=is_sandboxed)
            if way is not Way.READ_ONLY or is_sandboxed:
                return self._empty(way)
        except (OSError, subprocess.SubprocessError) as error:
            raise Refusal(f"Nothing was run: what programs write here cannot be kept apart ({error}).") from error
        raise Refusal(
            "Nothing was run: without a sandbox and an overlay, nothing keeps what a command changes in this phase "
            "apart from the workspace. Use the tools that read."
        )

    def _empty(self, way: Way) -> WorkspaceView:
        self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
        view = WorkspaceView(root=self._workspace.root, folder=self._store / secrets.token_hex(8), way=way)
        try:
            view.make()
        except BaseException:
            view.remove()
            raise
        return view


def _fault(view: WorkspaceView, *, is_sandboxed: bool) -> str:
    """Why a view cannot be used, found by writing a file in it; "" where that was kept apart."""
    name = f"{HALF_WRITTEN}{secrets.token_hex(8)}"
    command = ["/bin/sh", "-c", f"echo x > {name} && mkdir {name}.d && rm -r {name}.d"]
    environment = sandbox.clean_environment(sandbox.HOME)
    prefix, mount = view.launch()
    try:
        if is_sandboxed:
            command = sandbox.wrapped(view.root, command, environment, can_write=True, mount=mount)
        done = probe([*prefix, *command], cwd=view.root, environment=environment)
    except (OSError, SandboxMissing, subprocess.TimeoutExpired) as error:
        return str(error) or type(error).__name__
    written = view.upper / name
    if done.returncode != 0 or not written.is_file() or (view.root / name).exists():
        return done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit status {done.returncode}"
    written.unlink()
    (view.upper / f"{name}.d").unlink(missing_ok=True)
    return ""
