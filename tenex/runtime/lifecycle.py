"""The lifecycle of the runtime: start, serve, stop in stages.

    1  refuse new work          2  finish running steps and publish, within a deadline
    3  append and close         4  cancel the services

Unfinished work stays pending on disk; the next start continues it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from tenex.core.ids import ConversationId
from tenex.log import get_logger

from .coordinator import ConversationCoordinator
from .inbox import Inbox

log = get_logger(__name__)

Service = Callable[[], Coroutine[Any, Any, None]]


class TaskFactory:
    """Creates every task of the runtime: named, and in a TaskGroup."""

    def __init__(self) -> None:
        self.group: asyncio.TaskGroup | None = None

    def __call__(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task."""
        assert self.group is not None, "the runtime is not serving"
        return self.group.create_task(work, name=name)


class Runtime:
    """Serves until stopped."""

    def __init__(
        self, spawn: TaskFactory, coordinator: ConversationCoordinator, inbox: Inbox, *, shutdown_deadline: float = 20.0
    ) -> None:
        self._spawn = spawn
        self.coordinator = coordinator
        self.inbox = inbox
        self._deadline = shutdown_deadline
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Start to stop; a second call does nothing."""
        self._stopping.set()

    async def serve(
        self,
        services: Mapping[str, Service],
        unfinished: Iterable[ConversationId] = (),
        ready: Callable[[], Awaitable[None]] | None = None,
        stopping: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Resume unfinished conversations, serve, and stop in stages; returns whether all steps finished in time.

        `stopping` is called when no conversation works any more, and the services still run.
        """
        async with asyncio.TaskGroup() as group:
            self._spawn.group = group
            services = {"inbox": self.inbox.run, **services}
            running = [group.create_task(service(), name=name) for name, service in services.items()]
            resumed = self.coordinator.resume(unfinished)
            log.info("runtime.ready", resumed=resumed)
            if ready is not None:
                await ready()
            await self._stopping.wait()
            log.info("runtime.stopping", deadline=self._deadline)
            self.inbox.is_closed = True
            rested = await self.coordinator.drain(self._deadline)
            if stopping is not None:
                await stopping()
            for task in running:
                task.cancel()
        log.info("runtime.stopped", rested=rested)
        return rested
