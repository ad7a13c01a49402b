"""Compares what should be in flight with what is, and acts on the difference.

A mission's node runs on while its steps come and go: it is shown the newest value of its effect each time.

Level-triggered: it remembers no events, so a restart, a stop and a change of plan need no path of their own. A task
ends in exactly one signal, or is cancelled because nobody wants its result.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tenex.core.effects import Effect, Key, NodeRun, Publish, Timer, Work
from tenex.core.ports import NodeTask
from tenex.core.signals import Signal

Task = Callable[[], Coroutine[Any, Any, Signal]] | NodeTask
"""Carries one effect out and ends in its signal; never raises."""
Prepare = Callable[[Effect], Task]
Spawn = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Reconciler:
    """The tasks of one conversation."""

    def __init__(self, name: str, prepare: Prepare, post: Callable[[Signal], None], spawn: Spawn) -> None:
        self._name = name
        self._prepare = prepare
        self._post = post
        self._spawn = spawn
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._timers: set[Key] = set()
        self._nodes: dict[Key, NodeTask] = {}
        self._ended: set[Key] = set()
        """Tasks whose signal waits to be decided: their work is done, and must not begin again."""
        self.is_draining = False
        """While it drains, only what is to be published is started: steps under way may finish, none begin."""

    def drain(self) -> None:
        """Begin no more steps."""
        self.is_draining = True
        for node in self._nodes.values():
            node.rest()

    def reconcile(self, wanted: Mapping[Key, Effect]) -> None:
        """Start what is missing, cancel what is no longer wanted."""
        for key in [key for key in self._running if key not in wanted]:
            self._forget(key).cancel()
        for key, effect in wanted.items():
            if key not in self._running and (not self.is_draining or isinstance(effect, Publish)):
                name = f"{self._name} {key.work} {key.seq} {key.part}".rstrip()
                if isinstance(effect, Timer):
                    self._timers.add(key)
                task = self._prepare(effect)
                if isinstance(effect, NodeRun) and isinstance(task, NodeTask):
                    self._nodes[key] = task
                self._running[key] = self._spawn(name, self._run(key, task))
            elif isinstance(effect, NodeRun) and key in self._nodes:
                self._nodes[key].see(effect)

    async def _run(self, key: Key, task: Task) -> None:
        signal = await task()
        if self._running.get(key) is asyncio.current_task():  # else it was cancelled, and would not hear of it
            self._ended.add(key)
        self._post(signal)

    def decided(self, signal: Signal) -> None:
        """Let go of the task that ended in this signal; if its work is still wanted it begins again."""
        key = getattr(signal, "key", None)
        if key in self._ended:
            self._forget(key)

    def _forget(self, key: Key) -> "asyncio.Task[None]":
        self._timers.discard(key)
        self._ended.discard(key)
        self._nodes.pop(key, None)
        return self._running.pop(key)

    @property
    def busy(self) -> int:
        """How much is in flight, timers and what has ended not counted."""
        return len(self._running) - len(self._timers | self._ended)

    @property
    def working(self) -> int:
        """How many steps are in flight: what is neither a timer nor on its way to a relay, and has not ended.

        A node between two steps is none: it goes on from there.
        """
        running = self._running.keys() - self._ended
        return sum(
            self._nodes[key].is_busy if key in self._nodes else key.work not in (Work.TIMER, Work.PUBLISH)
            for key in running
        )

    async def cancel(self) -> None:
        """Cancel everything and wait until it has let go."""
        tasks = list(self._running.values())
        self._running.clear()
        self._timers.clear()
        self._nodes.clear()
        self._ended.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
