"""Several daemons over one store: follows what the others append, and takes over what they leave.

A worker that is drained takes nothing, and leaves to the others what comes to rest. A message that only one worker has
received, for a conversation of another one, makes that one hand the conversation over. Agents use files at one worker
alone, which has the workspace: the others leave to it every conversation in which an agent is about to.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import KindEffect
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import ConversationId
from tenex.core.kind import all_kinds
from tenex.core.people.permissions import uses_workspace
from tenex.log import get_logger
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.store.conversations import Change
from tenex.store.index import Index
from tenex.store.index_row import Row

if TYPE_CHECKING:
    from tenex.store.postgres.conversations import PostgresConversations

log = get_logger(__name__)

FULL: Final = 300
"""Every so many looks all conversations are looked at: what was free when no one could take it is taken then."""
LEFT: Final = 20.0
"""Seconds for which a conversation is left to the worker with the workspace, before it is looked at again."""
PATIENT: Final = 3
"""Looks for which messages wait for the daemon that has their conversation: it has received them too, as a rule."""
EVERY: Final = 1.0
"""Seconds between two looks. Few wait for them: each daemon receives messages from the relays by itself."""


class WorkspaceShare:
    """Decides which conversations are for the worker that has the workspace."""

    def __init__(self, store: "PostgresConversations", policy: Callable[[], Policy], now: Callable[[], float]) -> None:
        """Leave nothing yet; `now` gives seconds."""
        self._store = store
        self._policy = policy
        self._now = now
        self._left: dict[ConversationId, float] = {}
        """When each was last seen to be for another worker."""

    @property
    def is_here(self) -> bool:
        """Whether this worker has the workspace."""
        return self._store.leases.has_workspace

    def is_for_another(self, conversation: Conversation) -> bool:
        """Whether an agent is about to use files, which it may not do here."""
        is_for_another = not self.is_here and needs_workspace(conversation, self._policy())
        if is_for_another:
            self._left[conversation.id] = self._now()
        return is_for_another

    def is_left(self, conversation: ConversationId) -> bool:
        """Whether it was seen to be for another worker just now."""
        since = self._now() - LEFT
        self._left = {name: at for name, at in self._left.items() if at > since}
        return not self.is_here and conversation in self._left


def needs_workspace(conversation: Conversation, policy: Policy) -> bool:
    """Whether something that is under way may use files or run programs: an agent's turn, a node, or `/undo`."""
    undo = conversation.work.undo
    if undo is not None and undo.is_open:
        return True
    for run in conversation.work.runs.values():
        agent = policy.roster.get(run.agent)
        if agent is None or uses_workspace(agent, run.phase, policy):
            return True
    return any(isinstance(effect, KindEffect) for kind in all_kinds() for effect in kind.effects(conversation))


class WorkerWatch:
    """Looks at the store from time to time."""

    def __init__(
        self,
        store: "PostgresConversations",
        index: Index,
        coordinator: ConversationCoordinator,
        on_row: Callable[[Row], None],
        on_daemons: Callable[[int], None],
        follow: Callable[[], Awaitable[None]],
        workspace: WorkspaceShare,
        every: float = EVERY,
    ) -> None:
        """Look at nothing yet.

        Args:
            store: shared with the other daemons.
            index: kept current with it.
            coordinator: opens what is taken over.
            on_row: called with each row that another daemon has changed.
            on_daemons: called with how many daemons there are, when that has changed.
            follow: reads what others have learned, before anything is taken over.
            workspace: names what is for another worker.
            every: seconds between two looks.
        """
        self._store = store
        self._index = index
        self._coordinator = coordinator
        self._on_row = on_row
        self._on_daemons = on_daemons
        self._follow = follow
        self._workspace = workspace
        self._had_workspace = workspace.is_here
        self._daemons = 1
        self._looks = 0
        """Since all were looked at."""
        self._every = every
        self._seen: dict[ConversationId, int] = {}
        """Of the last look: the bytes of each conversation that had changed."""
        self._unfinished: set[ConversationId] = set()
        """Of these, those in which work is pending."""
        self._waiting: dict[ConversationId, int] = {}
        """Conversations whose messages wait here, and at how many looks they did."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except (StoreError, AppendFailed) as fault:
                log.warning("workers.unknown", reason=str(fault))
            except Exception:  # an internal error must not end the watch, and with it the daemon
                log.exception("workers.failed")
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Index what others have appended, and open what is free and unfinished; or leave that to others.

        Raises:
            StoreError: the store cannot be used now.
            AppendFailed: likewise, when lessons are read.
        """
        await self._follow()
        if self._workspace.is_here and not self._had_workspace:
            self._looks = FULL  # what others have left is for this worker now
        self._had_workspace = self._workspace.is_here
        is_full = self._looks >= FULL and not self._store.leases.drains
        changes = await self._store.changes(is_full=is_full)
        self._looks = 0 if is_full else self._looks + 1
        self._coordinator.hand_over_wanted(change.id for change in changes if change.is_wanted)
        changes = [change for change in changes if change.id not in self._coordinator]
        await self._refresh(changes)
        undelivered = self._coordinator.undelivered(self._index.has_event)  # others may have recorded what waits here
        if self._store.leases.daemons != self._daemons:
            self._daemons = self._store.leases.daemons
            self._on_daemons(self._daemons)
            log.info("limits.shared", daemons=self._daemons)
        if self._store.leases.drains:
            self._coordinator.hand_over()
            self._looks = FULL  # once it takes conversations again
            return
        free = [change.id for change in changes if change.is_free]
        free = [name for name in free if name in undelivered or not self._workspace.is_left(name)]
        for conversation in self._coordinator.take_over(free, self._unfinished):
            log.info("conversation.taken_over", conversation=conversation)
        await self._want(undelivered)

    async def _want(self, undelivered: Collection[ConversationId]) -> None:
        """Ask for conversations of others whose messages have waited here for several looks."""
        self._waiting = {name: self._waiting.get(name, 0) + 1 for name in undelivered}
        wanted = [name for name, looks in self._waiting.items() if looks > PATIENT and name not in self._coordinator]
        for conversation in await self._store.want(wanted) if wanted else ():
            log.info("conversation.wanted", conversation=conversation)

    async def _refresh(self, changes: Sequence[Change]) -> None:
        names = {change.id for change in changes}
        self._unfinished &= names
        lengths = {change.id: change.bytes for change in changes if change.bytes}
        new = {name: length for name, length in lengths.items() if self._seen.get(name) != length}
        rows, unfinished = await self._index.refresh(self._store, new) if new else ([], set())
        self._seen = lengths  # not before: what could not be read is read at the next look
        self._unfinished = (self._unfinished - new.keys()) | unfinished
        for row in rows:
            self._on_row(row)
