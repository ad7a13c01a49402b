"""Runs one conversation in this process, without a daemon: the daemon's actor on a given journal.

`missions.graph.Graph` runs a mission, `agents.standalone.LocalAgent` an agent, `speakers.runner.LocalSpeakers` a
workflow, `operations.phase_run.run_phases` the seven phases.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Limits, PeerGroup, Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import InternalError, UsageError, kind_of, words_of
from tenex.core.ids import ConversationId
from tenex.core.memory.window import CONTEXT_TOKENS
from tenex.core.ports import (
    Checks,
    Clock,
    Journals,
    KindRunner,
    Model,
    Notice,
    Observer,
    OutgoingMessage,
    Prompter,
    Tools,
)
from tenex.core.records import Record
from tenex.core.signals import Opened, Signal
from tenex.runtime.actor import ActorDependencies, ConversationActor
from tenex.runtime.daily_limits import DailyLimits
from tenex.runtime.executors import Executors, NoChecks
from tenex.runtime.outbox import Outbox
from tenex.runtime.undeliverable import Undeliverable

CALLER = "the caller"

CANCEL_TIMEOUT = 10.0
"""Seconds a cancelled node may take to clean up; one that takes longer is abandoned."""

_ZERO: dict[str, Any] = {limit.name: 0 for limit in fields(Limits) if "_day" in limit.name}
NO_DAILY_LIMITS: Final = Limits(**_ZERO)
"""A process that runs one conversation does not know what others have cost today."""


_PORTS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "journal": (
        ("open", "show"),
        "which is no journal; open a folder as one: `async with tenex.mission_folder(path) as journal:`",
    ),
    "clock": (("now", "sleep_until"), "which is no clock; leave it out"),
    "model": (
        ("step",),
        "which has no `async def step(request, on_text)`; give what `tenex.get_model` returns for openai:gpt-5-mini",
    ),
}
"""The methods of what a run is given, and a sentence about a value that lacks one or is a class."""


def check_given(
    *, journal: object = None, clock: object = None, model: object = None, limits: object = None, **texts: object
) -> None:
    """Check the arguments of a run that were given: users' code may not check types.

    Raises:
        UsageError: with every fault.
    """
    faults: list[str] = []
    for name, value in (("journal", journal), ("clock", clock), ("model", model)):
        methods, instead = _PORTS[name]
        has_them = all(callable(getattr(value, method, None)) for method in methods)
        if value is not None and (isinstance(value, type) or not has_them):
            faults.append(f"`{name}` is {kind_of(value)}, {instead}.")
    if isinstance(limits, Limits):
        faults += _faults_of_limits(limits)
    elif limits is not None:
        faults.append(f"`limits` is {kind_of(limits)}; give tenex.Limits(...).")
    for name, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value):
            faults.append(f"`{name}` is {value!r}; give a text that is not empty, or leave it out.")
    if faults:
        raise UsageError(" ".join(faults))


def check_message(message: object) -> None:
    """Check what is said to an agent or a workflow; raises UsageError."""
    if message is not None and not isinstance(message, str):
        raise UsageError(f"The message is {kind_of(message)}; give a text, or None to go on.")
    if isinstance(message, str) and not message.strip():
        raise UsageError("The message is empty; give a text, or None to go on.")


def _faults_of_limits(limits: Limits) -> Iterable[str]:
    for limit in fields(limits):
        value = getattr(limits, limit.name)
        default = limit.default
        kinds = int | float if isinstance(default, float) else int
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if isinstance(default, int | float) and not (is_number and value >= 0):
            whole = "" if isinstance(default, float) else "whole "
            yield f"`limits.{limit.name}` is {value!r}; it must be a {whole}number, 0 or more."


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

    @property
    def may_start(self) -> bool:
        """Always: no one else has it."""
        return True

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Keep the records."""
        self._records.extend(record for decision in decisions for record in decision)

    async def close(self) -> None:
        """Nothing to close."""


class Absent:
    """The ports that a local run does not use: no message has an event, and what wants another port fails."""

    def seal(self, _draft: OutgoingMessage) -> tuple[()]:
        """No event: nothing is published."""
        return ()

    relays = others = seal

    def wraps(self, _draft: OutgoingMessage, _events: object) -> tuple[()]:
        """None, as there are no events."""
        return ()

    def has_buttons(self, _draft: OutgoingMessage) -> bool:
        """They are shown to no one."""
        return False

    def open_notices(self) -> Iterable[Notice]:
        """None."""
        return ()

    def __getattr__(self, name: str) -> Any:
        raise InternalError(f"a run without a daemon has no `{name}`")


class LocalRun(ConversationActor):
    """One conversation, run by its caller until nothing is left to wait for; errors are raised, not retried."""

    def __init__(
        self,
        conversation: ConversationId,
        journals: Journals,
        policy: Policy,
        clock: Clock,
        *,
        model: Model | None = None,
        tools: Tools | None = None,
        prompter: Prompter | None = None,
        missions: KindRunner | None = None,
        budget: Callable[[], int] = lambda: CONTEXT_TOKENS,
        people: PeerGroup | None = None,
        checks: Checks | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        absent: Any = Absent()
        # no one reads here what is asked
        policy = replace(policy, approvals=replace(policy.approvals, unattended=True))
        group = people or PeerGroup()
        executors = Executors(
            clock=clock,
            model=model or absent,
            tools=tools or absent,
            prompter=prompter or absent,
            outbox=Outbox(absent),
            daily=DailyLimits(clock, lambda: NO_DAILY_LIMITS, lambda: group),
            policy=lambda: policy,
            budget=budget,
            kind_runner=missions,
            checks=checks or NoChecks(),
        )
        deps = ActorDependencies(
            journals=journals,
            executors=executors,
            sealer=absent,
            notices=absent,
            prompter=prompter or absent,
            clock=clock,
            policy=lambda: policy,
            observers=observers,
            spawn=self._spawn,
            idle=None,
        )
        undeliverable = Undeliverable(absent, absent, executors.outbox, lambda: policy, self._spawn)
        super().__init__(conversation, deps, undeliverable, lambda _: None)
        self._rules = policy
        self._clock = clock
        self.agent_states: Mapping[str, AgentPhaseState] = {}
        """Phase and state of the agents, as journaled."""
        self._tasks: set[asyncio.Task[None]] = set()
        """All that have not ended, cancelled ones too."""
        self._faults: list[BaseException] = []
        """Of tasks that raised instead of posting a signal."""

    @abstractmethod
    def _begin(self, state: Conversation) -> Iterable[Signal]:
        """The signals that start or continue it."""

    @abstractmethod
    def _is_active(self, state: Conversation) -> bool:
        """Whether there is more to wait for."""

    async def run_to_rest(self) -> Conversation:
        """Begin, or go on where the journal ends.

        Raises:
            UsageError: the journal is of something else.
            AppendFailed: the disk did not take a record; run it again to go on.
            InternalError: a task raised.
        """
        self._faults.clear()
        try:
            await self._open()
            assert self._state is not None
            state = self._state
            for signal in self._begin(state):
                self.post(signal)
            while self._signals or state.work.undecided or self._is_active(state):
                await self._step()
                state = self._state
                self.agent_states = dict(state.memory.agent_states)
                for fault in self._faults:
                    error = f"{type(fault).__name__}: {words_of(fault)}"
                    raise InternalError(f"Work failed with {error}. What is journaled stays.") from fault
            await self._cancel()
            # cancelled work reports its cost
            state, decisions = self._decide(state, tuple(self._signals))
            await self._append(state, decisions, {})
            await self._view.write_now(state)
        finally:
            await self._cancel()
            await self._close()
            self._signals = deque([Opened()])
        return state

    async def _cancel(self) -> None:
        self._reconciler.reconcile({})
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_TIMEOUT)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._faults.append(fault)
            self._wakeup.set()
