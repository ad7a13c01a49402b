"""Compares the wanted effects with the running tasks, starts what is missing and cancels the rest.

Level-triggered: it remembers no events, so restart and stop need no code of their own. A task ends in exactly one
signal or is cancelled because its result is no longer wanted. A mission's node keeps running while its steps change: it
gets the newest value of its effect each time.

A step that waits for its turn in a queue has not begun (`core.turns`): at a stop it is cancelled, and starts in the
next process. When its turn comes while nothing may start, it is cancelled too, and started again later.

Early starts. A flush takes as long as a fast model's answer, so what changes nothing does not wait for it: model calls
and tools that only read (`may_start_early`). The order of the actor is

    decide ──► start_early ──► append ─┬─ done ────► confirm_early, then reconcile: all the rest starts
                                       └─ failed ──► cancel_early, then suspend and read the journal again

What leaves the process for good (a publication, a tool that changes something, a node of a mission) and functions of
operators wait for `reconcile`. Until the append is done nothing is decided, so an answer that comes first waits in the
actor's queue. After a failed append it is not known whether the records are durable. If they are not, their numbers
are given to other records, and then the same key means another effect; so each early task has ended before the journal
is read, and of its result only the cost is kept. A conversation that is suspended starts nothing early: each try of a
disk that is full would cost a model call. (ADR 33.)
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any

from tenex.core.effects import Effect, Key, KindEffect, ModelCall, Publish, Route, Timer, Work, may_start_early
from tenex.core.ports import KindTask, ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.core.work.fair_queue import STEP, Step

Task = Callable[[], Coroutine[Any, Any, Signal]] | KindTask
"""Carries one effect out and ends in its signal; never raises."""
_NOT_BEGUN = ToolResult(ok=False, content="The daemon was stopped before this began; nothing was done. Call it again.")
Prepare = Callable[[Effect], Task]
Spawn = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Reconciler:
    """The tasks of one conversation."""

    def __init__(
        self,
        name: str,
        prepare: Prepare,
        post: Callable[[Signal], None],
        spawn: Spawn,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare; nothing starts before `reconcile` or `start_early`, nor while `may_start` gives False."""
        self._name = name
        self._may_start = may_start
        self._prepare = prepare
        self._post = post
        self._spawn = spawn
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._steps: dict[Key, Step] = {}
        self._timers: set[Key] = set()
        self._nodes: dict[Key, KindTask] = {}
        self._finished: set[Key] = set()
        """Tasks whose signal is undecided: they must not start again."""
        self._early: set[Key] = set()
        """Tasks that started for records which are not known to be durable."""
        self.is_draining = False
        """While draining, only publishes start; running steps may finish."""
        self._asks_no_model = False

    def drain(self) -> None:
        """Start no more steps; cancel those that have not begun."""
        self.is_draining = True
        for key in [key for key, step in self._steps.items() if step.is_waiting]:
            self._discard(key).cancel()
            if key.work is Work.TOOL:  # its start is recorded
                self._post(ToolReturned(key=key, result=_NOT_BEGUN))
        for node in self._nodes.values():
            node.rest()

    def ask_no_model(self) -> None:
        """Start no call of a model and no node any more, so that work comes to the next place where messages are read.

        Calls of tools that were begun are carried out: their start is recorded.
        """
        self._asks_no_model = True
        for node in self._nodes.values():
            node.rest()

    def reconcile(self, wanted: Mapping[Key, Effect]) -> None:
        """Start what is missing, cancel what is no longer wanted."""
        for key in [key for key in self._running if key not in wanted]:
            self._discard(key).cancel()
        may_start = self._may_start()
        for key, effect in wanted.items():
            if key not in self._running and may_start and self._is_to_start(effect):
                self._start(effect)
            elif isinstance(effect, KindEffect) and key in self._nodes:
                self._nodes[key].see(effect)

    def start_early(self, wanted: Mapping[Key, Effect]) -> None:
        """Start what is missing and may start before the records that want it are durable."""
        if self.is_draining or not self._may_start():
            return
        for key, effect in wanted.items():
            if key not in self._running and may_start_early(effect) and self._is_to_start(effect):
                self._early.add(key)
                self._start(effect)

    def _is_to_start(self, effect: Effect) -> bool:
        if self.is_draining:
            return isinstance(effect, Publish)
        return not self._asks_no_model or not isinstance(effect, Route | ModelCall | KindEffect)

    def confirm_early(self) -> None:
        """The records are durable: what started early runs on like any other task."""
        self._early.clear()

    async def cancel_early(self) -> frozenset[Key]:
        """Cancel what started early, wait until it has ended, and return the keys: they may get another meaning."""
        keys = frozenset(self._early)
        self._early.clear()
        await _cancel([self._discard(key) for key in keys if key in self._running])
        return keys

    def _start(self, effect: Effect) -> None:
        key = effect.key
        name = f"{self._name} {key.work} {key.seq} {key.part}".rstrip()
        if isinstance(effect, Timer):
            self._timers.add(key)
        task = self._prepare(effect)
        if isinstance(effect, KindEffect) and isinstance(task, KindTask):
            self._nodes[key] = task
        step = self._steps[key] = Step(key.work, partial(self._begin, key))
        self._running[key] = self._spawn(name, self._run(key, task, step))

    async def _run(self, key: Key, task: Task, step: Step) -> None:
        STEP.set(step)
        if not self._may_start():  # no more: the process was stopped before this turn of the event loop
            if self._running.get(key) is asyncio.current_task():
                self._discard(key)
            return
        try:
            signal = await task()
        finally:
            step.end()  # what the step has started may live on, such as a connection, and keeps its context
        if self._running.get(key) is asyncio.current_task():  # else it was cancelled and discarded
            self._finished.add(key)
        self._post(signal)

    def _begin(self, key: Key) -> None:
        """Let the current step begin, whose turn has come; one that may not now is started again when it may.

        Raises:
            asyncio.CancelledError: it may not.
        """
        if self._may_start():
            return
        if self._steps.get(key) is STEP.get():
            self._discard(key)
        raise asyncio.CancelledError

    def acknowledge(self, signal: Signal) -> None:
        """Discard the task that ended in this signal; if its effect is still wanted it starts again."""
        key = getattr(signal, "key", None)
        if key in self._finished:
            self._discard(key)

    def _discard(self, key: Key) -> "asyncio.Task[None]":
        self._timers.discard(key)
        self._finished.discard(key)
        self._nodes.pop(key, None)
        self._steps.pop(key, None)
        return self._running.pop(key)

    @property
    def busy(self) -> int:
        """The number of tasks in flight, without timers and finished ones."""
        return len(self._running) - len(self._timers | self._finished)

    @property
    def working(self) -> int:
        """The number of steps in flight: no timers, no publishes, none that finished, no node between two steps.

        Nor those that wait for their turn.
        """
        waiting = {key for key, step in self._steps.items() if step.is_waiting}
        running = self._running.keys() - self._finished - waiting
        nodes = running & self._nodes.keys()
        steps = (key for key in running - nodes if key.work not in (Work.TIMER, Work.PUBLISH))
        return sum(self._nodes[key].is_busy for key in nodes) + sum(1 for _ in steps)

    def abandon(self) -> None:
        """Cancel every task without waiting for it; `close` waits."""
        for task in self._running.values():
            task.cancel()

    async def close(self) -> None:
        """Cancel every task and wait until all have ended; nothing starts any more, and no one is called back.

        What a step has started may keep its context for long, and with it this object: it must not keep the actor.
        """
        tasks = list(self._running.values())
        self._running.clear()
        self._timers.clear()
        self._nodes.clear()
        self._finished.clear()
        self._early.clear()
        self._steps.clear()
        await _cancel(tasks)
        self._may_start = _never
        self._post = _ignore
        del self._prepare


def _never() -> bool:
    return False


def _ignore(_: Signal) -> None:
    """A task that was cancelled before may still end."""


async def _cancel(tasks: Collection["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
