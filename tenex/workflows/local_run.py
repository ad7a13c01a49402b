"""Runs one conversation in this process, without a daemon: signal, decide, append, apply, pending.

It uses the daemon's core on a given journal. `LocalMission` runs a mission, `agents.standalone.LocalAgent` an agent,
`speakers.runner.LocalSpeakers` a workflow of speakers.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from tenex.core.config import Policy
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.dispatch import decide
from tenex.core.effects import Effect, Evaluate, Key, NodeRun, Timer
from tenex.core.errors import InternalError, UsageError, words_of
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.core.ports import Clock, Journals, Missions, NodeTask
from tenex.core.records import Record
from tenex.core.signals import ContinueRequested, MissionRequested, Opened, Signal, TimerFired
from tenex.core.state.agent import AgentPhaseState

from .functions import FunctionCalls

Work = Callable[[], Awaitable[Signal]]

CALLER = "the caller"

CANCEL_TIMEOUT = 10.0
"""Seconds a cancelled node may take to clean up; one that takes longer is abandoned."""


class MonotonicClock:
    """Wall-clock time, and waits by the time that passes."""

    def now(self) -> Millis:
        """Milliseconds since the epoch."""
        return Millis(time.time_ns() // 1_000_000)

    async def sleep_until(self, due: Millis) -> None:
        """Return when as much time has passed as `due` is away now."""
        await asyncio.sleep(max(0, due - self.now()) / 1000)


class MemoryJournals:
    """Journals in memory, for runs that no later process continues."""

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
        """Nothing to close."""


class LocalRun(ABC):
    """One conversation, run until nothing is pending."""

    def __init__(self, journals: Journals, rules: Policy, clock: Clock) -> None:
        self._journals = journals
        self._rules = rules
        self._clock = clock
        self._functions = FunctionCalls()
        self._inbox: deque[Signal] = deque()
        self._wakeup = asyncio.Event()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._nodes: dict[Key, NodeTask] = {}
        self.agent_states: Mapping[str, AgentPhaseState] = {}
        """Phase and state of the agents, as journaled."""
        self._ended: set[Key] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        """Cancelled tasks that have not ended."""
        self._fault: Exception | None = None
        """Of work that raised instead of returning a signal."""

    @abstractmethod
    def _start(self, state: Conversation) -> None:
        """Post the signals that start or continue it."""

    @abstractmethod
    def _is_active(self, state: Conversation) -> bool:
        """Whether there is more to wait for."""

    @abstractmethod
    def _prepare(self, effect: Effect, state: Conversation) -> Work:
        """What carries an effect out, given the conversation as it is now; called later, or never."""

    def _fill_in(self, record: Record, _state: Conversation) -> Record:
        """Return the record with what the core leaves open, as it is applied and written."""
        return record

    def post(self, signal: Signal) -> None:
        """Hand a signal in."""
        self._inbox.append(signal)
        self._wakeup.set()

    async def run(self, conversation: ConversationId) -> Conversation:
        """Begin, or go on where the journal ends.

        Raises:
            UsageError: the journal is of something else.
            AppendFailed: the disk did not take a record; run it again to go on.
            InternalError: work raised instead of returning a signal.
        """
        self._fault = None
        journal, records = await self._journals.open(conversation)
        try:
            state = fold(conversation, records)
            self._start(state)
            while self._inbox or state.undecided or self._is_active(state):
                await self._wait_for_signal()
                written = self._decide(state)
                if written:
                    await journal.append(written)
                self.agent_states = dict(state.agent_states)
                self._reconcile(state)
            await self._cancel()
            if self._inbox and (written := self._decide(state)):  # cancelled work reports its cost
                await journal.append(written)
            await self._journals.show(state)
        finally:
            await self._cancel()
            await journal.close()
        return state

    async def _wait_for_signal(self) -> None:
        while not self._inbox and self._fault is None:
            self._wakeup.clear()
            await self._wakeup.wait()
        if self._fault is not None:
            kind = type(self._fault).__name__
            raise InternalError(
                f"Work failed with {kind}: {words_of(self._fault)}. What is journaled stays."
            ) from self._fault

    def _decide(self, state: Conversation) -> list[list[Record]]:
        decisions: list[list[Record]] = []
        now = self._clock.now()
        while self._inbox:
            signal = self._inbox.popleft()
            decision = [self._applied(state, record) for record in decide(state, signal, self._rules, now)]
            if decision:
                decisions.append(decision)
            key = getattr(signal, "key", None)
            if key in self._ended:
                self._forget(key)
        return decisions

    def _applied(self, state: Conversation, record: Record) -> Record:
        sealed = self._fill_in(record, state)
        state.apply(sealed)
        return sealed

    def _reconcile(self, state: Conversation) -> None:
        wanted = pending(state)
        for key in [key for key in self._tasks if key not in wanted]:
            task = self._forget(key)
            task.cancel()
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)
        for key, effect in wanted.items():
            if key not in self._tasks:
                if isinstance(effect, Evaluate):
                    work: Work = partial(self._evaluate, effect, state.fork())
                else:
                    work = self._prepare(effect, state)
                self._tasks[key] = asyncio.create_task(self._carry_out(key, work))
            elif isinstance(effect, NodeRun):
                self._nodes[key].see(effect)

    async def _carry_out(self, key: Key, work: Work) -> None:
        try:
            signal = await work()
        except Exception as error:  # noqa: BLE001 - it is raised where the run is awaited, who would wait for ever else
            self._fault = error
            self._wakeup.set()
            return
        if self._tasks.get(key) is asyncio.current_task():  # else it was released already
            self._ended.add(key)
        self.post(signal)

    async def _evaluate(self, effect: Evaluate, state: Conversation) -> Signal:
        return await self._functions.evaluate(state, effect, self._rules, self._clock.now())

    async def _sleep(self, effect: Timer) -> Signal:
        await self._clock.sleep_until(effect.due)
        return TimerFired(key=effect.key)

    def _forget(self, key: Key) -> "asyncio.Task[None]":
        self._ended.discard(key)
        self._nodes.pop(key, None)
        return self._tasks.pop(key)

    async def _cancel(self) -> None:
        tasks = [*self._tasks.values(), *self._cancelled]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT)


class LocalMission(LocalRun):
    """One mission, run until it has ended or is paused."""

    def __init__(
        self, journals: Journals, missions: Missions, rules: Policy, clock: Clock, asked: MissionRequested
    ) -> None:
        super().__init__(journals, rules, clock)
        self._missions = missions
        self._asked = asked

    async def run(self, conversation: ConversationId) -> Conversation:
        """Begin the mission, or go on with it where its journal ends; a paused one goes on. See `LocalRun.run`."""
        state = await super().run(conversation)
        if state.mission is None:
            raise InternalError(f"the mission {self._asked.workflow} was not begun at {self._asked.node}")
        return state

    def _start(self, state: Conversation) -> None:
        mission = state.mission
        if mission is None:
            self.post(self._asked)
            return
        if mission.workflow != self._asked.workflow:
            raise UsageError(
                f"This journal is of the workflow {mission.workflow}, not of {self._asked.workflow}; give the mission "
                "another name."
            )
        if mission.is_open:
            self.post(Opened())
        if mission.is_paused:
            self.post(ContinueRequested(by=CALLER))

    def _is_active(self, state: Conversation) -> bool:
        return state.mission is not None and state.mission.is_open and not state.mission.is_paused

    def _prepare(self, effect: Effect, _state: Conversation) -> Work:
        match effect:
            case NodeRun():
                self._nodes[effect.key] = node = self._missions.prepare(effect, self.post)
                return node
            case Timer():
                return partial(self._sleep, effect)
        raise InternalError(f"a mission without a daemon cannot run {effect.key.work}")
