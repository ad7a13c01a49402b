"""Several daemons over one store: follows what the others append, and takes over what they leave.

A worker that is drained takes nothing, and leaves to the others what comes to rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import ConversationId
from tenex.log import get_logger
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.store.conversations import Change, SharedConversations
from tenex.store.index import Index
from tenex.store.index_row import Row

log = get_logger(__name__)

FULL: Final = 300
"""Every so many looks all conversations are looked at: what was free when no one could take it is taken then."""
EVERY: Final = 1.0
"""Seconds between two looks. No one waits for them: each daemon receives messages from the relays by itself."""


class WorkerWatch:
    """Looks at the store from time to time."""

    def __init__(
        self,
        store: SharedConversations,
        index: Index,
        coordinator: ConversationCoordinator,
        on_row: Callable[[Row], None],
        on_daemons: Callable[[int], None],
        follow: Callable[[], Awaitable[None]],
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
            every: seconds between two looks.
        """
        self._store = store
        self._index = index
        self._coordinator = coordinator
        self._on_row = on_row
        self._on_daemons = on_daemons
        self._follow = follow
        self._daemons = 1
        self._looks = 0
        """Since all were looked at."""
        self._every = every
        self._seen: dict[ConversationId, int] = {}
        """Of the last look: the bytes of each conversation that had changed."""
        self._unfinished: set[ConversationId] = set()
        """Of these, those in which work is pending."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except (StoreError, AppendFailed) as fault:
                log.warning("workers.unknown", reason=str(fault))
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Index what others have appended, and open what is free and unfinished; or leave that to others.

        Raises:
            StoreError: the store cannot be used now.
            AppendFailed: likewise, when lessons are read.
        """
        await self._follow()
        is_full = self._looks >= FULL and not self._store.drains
        changes = await self._store.changes(is_full=is_full)
        self._looks = 0 if is_full else self._looks + 1
        changes = [change for change in changes if change.id not in self._coordinator]
        await self._refresh(changes)
        if self._store.daemons != self._daemons:
            self._daemons = self._store.daemons
            self._on_daemons(self._daemons)
            log.info("limits.shared", daemons=self._daemons)
        if self._store.drains:
            self._coordinator.hand_over()
            self._looks = FULL  # once it takes conversations again
            return
        free = [change.id for change in changes if change.is_free]
        taken = self._coordinator.take_over(free, self._unfinished, self._index.has_event)
        for conversation in taken:
            log.info("conversation.taken_over", conversation=conversation)

    async def _refresh(self, changes: Sequence[Change]) -> None:
        names = {change.id for change in changes}
        self._unfinished &= names
        lengths = {change.id: change.bytes for change in changes if change.bytes}
        new = {name: length for name, length in lengths.items() if self._seen.get(name) != length}
        self._seen = lengths
        if not new:
            return
        rows, unfinished = await self._index.refresh(self._store, new)
        self._unfinished = (self._unfinished - new.keys()) | unfinished
        for row in rows:
            self._on_row(row)
