"""Has an agent use the model that an owner chose in a client of TENEX (kind 24020), until the settings name another.

The choice is durable before it takes effect. There is no answer: the project's status (kind 24010) shows what holds.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from tenex.configuration.build import Configuration
from tenex.core.config import Role
from tenex.core.errors import TenexError
from tenex.core.ids import PublicKey, Slug
from tenex.core.ports import Clock
from tenex.log import get_logger
from tenex.nostr.client_requests import AgentChange, read_agent_change
from tenex.nostr.events import Event
from tenex.store.daemon_journal import DaemonJournal

log = get_logger(__name__)

CLOCKS_DIFFER: Final = 300
"""Seconds from now within which a wish must be dated: relays keep none, so an older one is a copy."""
WAITING: Final = 100
"""Wishes that wait at most; a person chooses one at a time."""


class ModelChoices:
    """Receives wishes for other models and carries them out, one after the other."""

    def __init__(
        self,
        book: DaemonJournal,
        own_keys: Collection[PublicKey],
        clock: Clock,
        *,
        current: Callable[[], Configuration],
        reload: Callable[[], Awaitable[object]],
        publish_status: Callable[[], object],
    ) -> None:
        """Prepare.

        Args:
            book: keeps the choices.
            own_keys: ours; may grow.
            clock: for the dates of wishes.
            current: the configuration in force.
            reload: has the configuration read again, with the choices.
            publish_status: has clients shown what holds.
        """
        self._book = book
        self._own_keys = own_keys
        self._clock = clock
        self._current = current
        self._reload = reload
        self._publish_status = publish_status
        self._waiting: deque[AgentChange] = deque(maxlen=WAITING)
        self._has_some = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Take a genuine event of kind 24020, if it is an owner's and of now."""
        change = read_agent_change(event, self._own_keys)
        if change is None:
            return
        is_owners = self._current().people.role(change.author) is Role.OWNER
        is_of_now = abs(self._clock.now() // 1000 - change.created_at) <= CLOCKS_DIFFER
        log.debug("model_choice.received", event_id=event.id, is_taken=is_owners and is_of_now)
        if is_owners and is_of_now:
            self._waiting.append(change)
            self._has_some.set()

    async def run(self) -> None:
        """Carry out what waits, until cancelled."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            while self._waiting:
                change = self._waiting.popleft()
                try:
                    await self._carry_out(change)
                except TenexError as error:  # the disk, or settings that have been given a fault since they were read
                    log.warning("model_choice.failed", event_id=change.event, reason=str(error))
                self._publish_status()

    async def _carry_out(self, change: AgentChange) -> None:
        current = self._current()
        ours = {current.policy.project.pubkey: current.policy.project.slug, **current.named}
        slug = ours.get(change.agent, Slug(""))
        usual = current.configured_models.get(slug)
        last = self._book.models().get(slug)
        if usual is None or change.model not in current.models or (last and last.created_at >= change.created_at):
            log.warning("model_choice.refused", agent=slug, model=change.model, event_id=change.event)
            return
        model = "" if usual == (change.model,) else change.model
        await self._book.choose_model(slug, model, usual, change.author, change.event, change.created_at)
        await self._reload()
        log.info("model_choice.made", agent=slug, model=change.model, by=change.author[:8])
