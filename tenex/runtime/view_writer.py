"""Writes the readable view of one conversation: soon after something notable, and only of what the disk holds."""

import asyncio
from collections.abc import Sequence
from typing import Final

from tenacity import AsyncRetrying, retry_if_result, wait_exponential

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.errors import AppendFailed
from tenex.core.ids import ConversationId, Millis
from tenex.core.ports import Clock, Journals
from tenex.core.rollback.whole import RolledBack
from tenex.log import get_logger

from .reconciler import Spawn

log = get_logger(__name__)

SHOW_DELAY = 0.2
"""Seconds from a notable record to the readable view: replacing a file flushes the file system's journal, which would
delay appends. No user opens the file sooner."""
SHOW_PACE = 0.01
"""Extra seconds for each other view that is due: a view takes 2 ms of CPU, so views take at most a fifth of a core."""
SHOW_EVERY = 1_000
"""ms between two views while nothing notable happens."""
SHOWN = (r.TurnClosed, r.Waiting, r.Ended, RolledBack)
"""Records after which the readable view is written."""
SHOW_AGAIN: Final = AsyncRetrying(
    retry=retry_if_result(lambda is_written: not is_written), wait=wait_exponential(multiplier=1, max=30)
)
"""A view that could not be written is tried again after 1 s, later after up to 30 s."""


class ViewWriter:
    """Schedules and writes one conversation's view. The actor says when its state is what the disk holds."""

    def __init__(
        self,
        conversation: ConversationId,
        journals: Journals,
        clock: Clock,
        spawn: Spawn,
        due: set[ConversationId],
    ) -> None:
        """Prepare; nothing is written before `write_soon` or `write_now`.

        Args:
            conversation: whose view it is.
            journals: what writes it.
            clock: the wall clock.
            spawn: starts a task.
            due: the conversations of this process whose views are scheduled, shared by all writers.
        """
        self._conversation = conversation
        self._journals = journals
        self._clock = clock
        self._spawn = spawn
        self._due = due
        self._task: asyncio.Task[None] | None = None
        self._scheduled_at = Millis(0)
        self._written_seq = 0
        self._writing = asyncio.Lock()
        """Held while the view is written."""
        self._durable_state: Conversation | None = None
        """The state while the journal on disk holds exactly that; None otherwise."""
        self._is_durable = asyncio.Event()
        """Set while there is a durable state."""

    def mark_durable(self, state: Conversation) -> None:
        """The journal on disk holds exactly this state: a scheduled view may be written of it."""
        self._durable_state = state
        self._is_durable.set()

    def mark_not_durable(self) -> None:
        """The state is no longer known to be what the disk holds: a scheduled view waits."""
        self._durable_state = None
        self._is_durable.clear()

    def records_appended(self, records: Sequence[r.Record]) -> None:
        """Schedule the view if one of these new records is notable, or if none was scheduled for `SHOW_EVERY`."""
        now = self._clock.now()
        is_recent = 0 <= now - self._scheduled_at < SHOW_EVERY
        if not is_recent or any(isinstance(record, SHOWN) for record in records):
            self._scheduled_at = now
            self.write_soon()

    def write_soon(self) -> None:
        """Write the view soon; changes until then are included."""
        if self._task is None or self._task.done():
            self._task = self._spawn(f"{self._conversation[:8]} view", self._write_later())

    async def write_now(self, state: Conversation) -> bool:
        """Write the view in place of the scheduled one; False if it could not be written."""
        if self._task is not None:
            async with self._writing:  # a cancelled write may or may not have been made
                self._task.cancel()
            await asyncio.wait([self._task])
        return state.next_seq <= 1 or await self._write(state)

    async def close(self) -> None:
        """Cancel the scheduled view, wait until its task has ended, and keep no state."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.mark_not_durable()

    async def _write_later(self) -> None:
        wait = SHOW_DELAY + SHOW_PACE * len(self._due)
        self._due.add(self._conversation)
        try:
            await asyncio.sleep(wait)
        finally:
            self._due.discard(self._conversation)
        await SHOW_AGAIN.copy()(self._write_when_durable)

    async def _write_when_durable(self) -> bool:
        while self._durable_state is None:
            await self._is_durable.wait()
        return await self._write(self._durable_state)

    async def _write(self, state: Conversation) -> bool:
        async with self._writing:
            # a view of the same records is not written again: a process that dies at it would leave half a file beside
            # a view that is up to date, and a start opens, and cleans, only what is not
            seq = state.next_seq
            if seq == self._written_seq:
                return True
            try:
                await self._journals.show(state)
            except (OSError, AppendFailed) as error:  # only the view: the journal holds every record
                log.warning("view.failed", conversation=self._conversation, reason=str(error))
                return False
            self._written_seq = seq
            return True
