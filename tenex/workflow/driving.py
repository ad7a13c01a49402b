"""Runs one mission in the process that asks for it, without a daemon: signal, decide, append, apply, pending.

It is the daemon's own core on a journal that is given, so what one has begun the other can go on with.

Never: a rule, or a second writer. After a failed append nothing is known of the disk: the run ends, and the next one
reads the journal again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from tenex.core.conversation import Conversation, fold
from tenex.core.decide import decide
from tenex.core.effects import Effect, Key, NodeRun, Timer
from tenex.core.errors import Bug, UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.core.ports import Clock, Journals, Missions, NodeTask
from tenex.core.records import Record
from tenex.core.roster import Rules
from tenex.core.signals import ContinueAsked, MissionAsked, Opened, Signal, TimerFired

CALLER = "the caller"

LAST_WORDS = 10.0
"""Seconds a node that was cancelled may take to let go of what it holds; one that never does is left alone."""


class MonotonicClock:
    """Wall-clock time, and waits by the time that passes."""

    def now(self) -> Millis:
        """Milliseconds since the epoch."""
        return Millis(time.time_ns() // 1_000_000)

    async def sleep_until(self, due: Millis) -> None:
        """Return when as much time has passed as `due` is away now."""
        await asyncio.sleep(max(0, due - self.now()) / 1000)


class MemoryJournals:
    """Journals that live as long as this object, for missions nobody goes on with."""

    def __init__(self) -> None:
        self.records: dict[ConversationId, list[Record]] = {}

    async def open(self, conversation: ConversationId) -> "tuple[MemoryJournal, Sequence[Record]]":
        """The journal, made if missing."""
        records = self.records.setdefault(conversation, [])
        return MemoryJournal(records), list(records)

    async def show(self, conversation: Conversation) -> None:
        """There is nothing to look at."""


class MemoryJournal:
    """A list of records."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""
        return len(self._records) + 1

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Keep the records."""
        self._records.extend(record for decision in decisions for record in decision)

    async def close(self) -> None:
        """There is nothing to let go of."""


class Drive:
    """One mission, driven until it is over or paused."""

    def __init__(self, journals: Journals, missions: Missions, rules: Rules, clock: Clock) -> None:
        self._journals = journals
        self._missions = missions
        self._rules = rules
        self._clock = clock
        self._inbox: deque[Signal] = deque()
        self._bell = asyncio.Event()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._nodes: dict[Key, NodeTask] = {}
        self._ended: set[Key] = set()
        self._dying: set[asyncio.Task[None]] = set()
        """Cancelled, and not yet gone."""

    def post(self, signal: Signal) -> None:
        """Hand a signal in."""
        self._inbox.append(signal)
        self._bell.set()

    async def run(self, conversation: ConversationId, asked: MissionAsked) -> Conversation:
        """Begin the mission, or go on with it where its journal ends; a paused one goes on.

        Raises:
            UsageError: the journal is of another workflow.
            AppendFailed: the disk did not take a record; run it again to go on.
        """
        journal, records = await self._journals.open(conversation)
        try:
            state = fold(conversation, records)
            self._begin(state, asked)
            while self._inbox or (state.mission is not None and state.mission.is_open and not state.mission.is_paused):
                await self._listen()
                written = self._decide(state)
                if written:
                    await journal.append(written)
                self._reconcile(state)
            await self._journals.show(state)
        finally:
            await self._cancel()
            await journal.close()
        if state.mission is None:
            raise Bug(f"the mission {asked.workflow} was not begun at {asked.node}")
        return state

    def _begin(self, state: Conversation, asked: MissionAsked) -> None:
        mission = state.mission
        if mission is None:
            self.post(asked)
            return
        if mission.workflow != asked.workflow:
            raise UsageError(
                f"This journal is of the workflow {mission.workflow}, not of {asked.workflow}; give the mission "
                "another name."
            )
        if mission.is_open:
            self.post(Opened())
        if mission.is_paused:
            self.post(ContinueAsked(by=CALLER))

    async def _listen(self) -> None:
        while not self._inbox:
            self._bell.clear()
            await self._bell.wait()

    def _decide(self, state: Conversation) -> list[list[Record]]:
        decisions: list[list[Record]] = []
        now = self._clock.now()
        while self._inbox:
            signal = self._inbox.popleft()
            decision = decide(state, signal, self._rules, now)
            for record in decision:
                state.apply(record)
            if decision:
                decisions.append(decision)
            key = getattr(signal, "key", None)
            if key in self._ended:
                self._forget(key)
        return decisions

    def _reconcile(self, state: Conversation) -> None:
        wanted = pending(state)
        for key in [key for key in self._tasks if key not in wanted]:
            task = self._forget(key)
            task.cancel()
            self._dying.add(task)
            task.add_done_callback(self._dying.discard)
        for key, effect in wanted.items():
            if key in self._nodes and isinstance(effect, NodeRun):
                self._nodes[key].see(effect)
            elif key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._carry_out(key, self._prepare(key, effect)))

    def _prepare(self, key: Key, effect: Effect) -> "Coroutine[Any, Any, Signal]":
        match effect:
            case NodeRun():
                self._nodes[key] = node = self._missions.prepare(effect, self.post)
                return node()
            case Timer():
                return self._sleep(effect)
        raise Bug(f"a mission without a daemon has nobody for {key.work}")

    async def _carry_out(self, key: Key, work: "Coroutine[Any, Any, Signal]") -> None:
        signal = await work
        if self._tasks.get(key) is asyncio.current_task():  # else it was let go of, and would not hear of it
            self._ended.add(key)
        self.post(signal)

    async def _sleep(self, effect: Timer) -> Signal:
        await self._clock.sleep_until(effect.due)
        return TimerFired(key=effect.key)

    def _forget(self, key: Key) -> "asyncio.Task[None]":
        self._ended.discard(key)
        self._nodes.pop(key, None)
        return self._tasks.pop(key)

    async def _cancel(self) -> None:
        tasks = [*self._tasks.values(), *self._dying]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORDS)
