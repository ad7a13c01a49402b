"""One conversation's actor: the only writer of its journal.

    signals -> decide, seal, apply -> append (durable) -> observers hear -> reconcile

All records of one decision are one append. After a failed append nothing is known about the disk, so the actor
freezes: it forgets its state, keeps the signals it was given, and starts nothing before it has read the journal again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import structlog

from tenex.core import records as r
from tenex.core.context.prompt_lookup import prompted
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.dispatch import decide, unwanted_cost
from tenex.core.effects import Effect
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.core.ports import Journal, OutgoingMessage
from tenex.core.signals import (
    ClockJumped,
    ModelAnswered,
    ModelFailed,
    Opened,
    Published,
    RouteAnswered,
    Signal,
    without_result,
)
from tenex.core.state.rollback import RolledBack

from .clock import ClockWatch
from .dependencies import ActorDependencies
from .observations import remark
from .reconciler import Reconciler, Task
from .undeliverable import DeliveryFailure, Undeliverable, notices

log = structlog.get_logger(__name__)

BATCH = 64
"""Signals decided in one append at most: enough to share an fdatasync, few enough to keep replies flowing."""
DELIVERY_FLUSH = 0.05
"""Seconds the record of a delivery may wait for another append to ride on: what several relays acknowledge shares one
append, and a process that lives for less than a second does not send the same again in every life."""
THAW = (0.5, 30.0)
"""Seconds before a frozen conversation is read again: first, and at most."""
TOLD_AFTER = 3_000
"""ms of frost after which whoever waits is told: most disks that fail once take the next write."""
FAILURES = 3
"""Times a signal may meet a fault of ours before it is given up."""
SHOW_DELAY = 0.2
"""Seconds from a notable record to the readable view: replacing a file flushes the disk's own journal, and a reply
that waits for its append would wait for that too. A person cannot open the file sooner."""
SHOW_PACE = 0.01
"""Seconds it takes longer for each other view that is due: a view takes 2 ms of a processor, so however many
conversations are busy, a fifth of one goes into views. What a conversation comes to meanwhile is in the same view."""
SHOW_EVERY = 1_000
"""ms between two views while nothing notable happens."""
SHOWN = (r.TurnClosed, r.Waiting, r.Ended, RolledBack)
"""The records after which the readable view is written."""
SHOW_AGAIN = (1.0, 30.0)
"""Seconds until a view that could not be written is tried again: first, and at most; each wait doubles."""
LEAD = 60
"""Seconds our events may be dated ahead, so that relays do not refuse them (some do beyond 15 min)."""


class ConversationActor:
    """Reads one conversation from disk and lives with it until it has nothing to do."""

    def __init__(
        self,
        conversation: ConversationId,
        around: ActorDependencies,
        owed: Undeliverable,
        retire: Callable[["ConversationActor"], None],
    ) -> None:
        self.id = conversation
        self._around = around
        self._owed = owed
        self._retire = retire
        self._inbox: deque[Signal] = deque([Opened()])
        self._bell = asyncio.Event()
        self._state: Conversation | None = None
        self._journal: Journal | None = None
        self._deferred: list[list[r.Record]] = []
        self._doubtful: list[tuple[Signal, r.Record]] = []
        """Signals being written down, with the last record of each."""
        self._unheard: list[r.Record] = []
        """The records of an append of which nothing is known."""
        self._reconciler = Reconciler(conversation[:8], self._prepare, self.post, around.spawn)
        self._watch = ClockWatch(around.clock)
        self._showing: asyncio.Task[None] | None = None
        self._shown_at = Millis(0)
        self._stopping = asyncio.Event()
        self._level = asyncio.Event()
        """Set while the state is exactly what the disk has; a look at it in every pause of even the busiest talk."""
        self._thaw, self._batch, self._failures = THAW[0], BATCH, 0
        self.is_suspended = False
        self.suspended_since = Millis(0)
        self.suspended_why = ""
        """What the disk, or a fault of ours, said when it froze."""

    @property
    def conversation(self) -> Conversation | None:
        """The state as far as it is known; None before it has been read, and while frozen."""
        return self._state

    @property
    def waiting(self) -> int:
        """Signals that wait to be decided."""
        return len(self._inbox)

    @property
    def undecided(self) -> Iterator[Signal]:
        """The signals that wait to be decided, in order."""
        return iter(self._inbox)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight or waiting to be decided."""
        return not self._inbox and self._reconciler.busy == 0

    @property
    def is_resting(self) -> bool:
        """Whether no step is in flight or waiting to be decided; words may be on their way to relays."""
        return self._reconciler.working == 0 and all(isinstance(signal, Published) for signal in self._inbox)

    @property
    def _is_stopping(self) -> bool:
        return self._stopping.is_set()

    def post(self, signal: Signal) -> None:
        """Hand a signal in; it is decided in the order in which it came."""
        self._inbox.append(signal)
        self._bell.set()

    def drain(self) -> None:
        """Begin no more steps; finish those under way and publish what was said."""
        self._reconciler.drain()

    def stop(self) -> None:
        """Decide what has come in, write, let go of everything, and end."""
        self._stopping.set()
        self._bell.set()

    async def run(self) -> None:
        """Live until there is nothing to do, or until stopped."""
        try:
            while not await self._live():
                if self._is_stopping:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._thaw):
                        await self._stopping.wait()
                self._thaw = min(self._thaw * 2, THAW[1])
        except StoreError as error:
            log.error("conversation.quarantined", conversation=self.id, reason=str(error))
            self._owed.tell(notices(self.id, DeliveryFailure.DAMAGED, self._inbox))
        finally:
            self._owed.keep(self.id, self._inbox)
            self._retire(self)
            await self._let_go()

    async def _live(self) -> bool:
        """Read the journal and live on it; False when it must be read again."""
        try:
            await self._open()
            while not await self._turn_over():
                pass
        except AppendFailed as error:
            log.error("conversation.suspended", conversation=self.id, reason=str(error), again_in=self._thaw)
            self._freeze(str(error))
            if self._around.clock.now() - self.suspended_since >= TOLD_AFTER and not self._is_stopping:
                self._owed.tell(notices(self.id, DeliveryFailure.DISK, self._inbox, self._state))
        except StoreError:
            raise
        except Exception as error:  # a fault of ours in one conversation must not end the others
            log.exception("conversation.failed", conversation=self.id, again_in=self._thaw)
            self._freeze(why := f"a fault of the program: {type(error).__name__}")
            self._failed(why)
        else:
            return True
        return False

    def _freeze(self, why: str) -> None:
        """Start nothing until the journal has been read again."""
        if not self.suspended_since:  # reading worked, and writing has failed again: it is the same frost
            self.suspended_since = self._around.clock.now()
        # deliveries that cannot be written down are made again: relays drop the duplicate
        self.is_suspended, self.suspended_why, self._deferred = True, why, []
        self._level.clear()

    def _failed(self, why: str) -> None:
        """After a fault of ours: signals come one by one, and one that fails again and again is given up.

        Where it ended a task, that has ended all the same: first without its result, and if that cannot be taken in
        either it is not begun again before the next start. Else it would fail so for ever, and cost each time.
        """
        self._batch, self._failures = 1, self._failures + 1
        if self._failures < FAILURES or not self._inbox or isinstance(self._inbox[0], Opened):
            return
        signal, self._failures = self._inbox.popleft(), 0
        instead = without_result(signal, why)
        if instead is not None:
            self._inbox.appendleft(instead)
            # the records of the signal may be durable all the same, and then its cost is recorded
            self._doubtful = [(instead if known is signal else known, last) for known, last in self._doubtful]
        else:
            self._owed.put_aside(signal)
            self._release(signal)
            self._owed.tell(notices(self.id, DeliveryFailure.FAULT, [signal], self._state))
        what = "signal.given_up" if instead is None else "signal.without_result"
        log.error(what, conversation=self.id, signal=type(signal).__name__)

    async def _open(self) -> None:
        if self._journal is not None:
            await self._journal.close()
        journal, records = await self._around.journals.open(self.id)
        self._journal, self._state, self.is_suspended = journal, fold(self.id, records), False
        self._take_for_written(self._state, records)
        # before these are decided nothing may start: timers would begin with what another clock said
        waits = any(isinstance(signal, Opened | ClockJumped) for signal in self._inbox)
        if not self._look_at_clock() and not waits:
            self._reconciler.reconcile(pending(self._state))
        if records:  # the process that wrote the last of them may not have come to showing it
            self._show_soon()

    def _take_for_written(self, state: Conversation, records: Sequence[r.Record]) -> None:
        """An append may have failed after the disk took it, or a part: what it took is heard of, and not decided again.

        Most signals would say nothing new, but a step of the clock or the cost of a late answer would count twice.
        """
        there = {record.seq: record for record in records} if self._doubtful or self._unheard else {}
        for signal, last in self._doubtful:
            if there.get(last.seq) == last and signal in self._inbox:  # else another process wrote there
                self._inbox.remove(signal)
                self._decided(signal)
        missed, self._doubtful = [record for record in self._unheard if there.get(record.seq) == record], []
        self._unheard = []
        if missed:
            self._tell(state, missed)

    async def _let_go(self) -> None:
        await self._reconciler.cancel()
        if self._showing is not None:
            self._showing.cancel()
            await asyncio.wait([self._showing])
        if self._journal is not None:
            await self._journal.close()

    async def _turn_over(self) -> bool:
        """Decide on what has come in; True when the actor may end."""
        assert self._state is not None
        self._look_at_clock()
        if not self._inbox:
            return await self._wait()
        batch = list(islice(self._inbox, self._batch))
        self._level.clear()
        decisions = self._decide(self._state, batch)
        if all(isinstance(signal, Published) for signal in batch) and not self._is_stopping:
            self._deferred.extend(decisions)
        else:
            await self._append(self._state, [*self._deferred, *decisions])
            self._deferred.clear()
        self._thaw, self._batch, self._failures = THAW[0], BATCH, 0
        self.suspended_since = Millis(0)
        self._owed.passed(self.id)
        for signal in batch:  # only now: had the append failed, they would be decided again
            self._inbox.popleft()
            self._decided(signal)
        self._doubtful = []
        if not self._look_at_clock():  # else timers would begin with what the old clock said
            self._reconciler.reconcile(pending(self._state))
        return False

    def _decided(self, signal: Signal) -> None:
        """Let go of the task that ended in this signal: what follows from it is durable."""
        self._reconciler.decided(signal)
        self._release(signal)

    def _release(self, signal: Signal) -> None:
        if isinstance(signal, RouteAnswered | ModelAnswered | ModelFailed):
            self._around.stages.daily.release(self.id, signal.key)

    def _look_at_clock(self) -> bool:
        """Whether the clock was set, which is decided on before anything else; `Opened` sees that by itself."""
        by = self._watch.step()
        if by and not any(isinstance(signal, Opened) for signal in self._inbox):
            self._inbox.appendleft(ClockJumped(by=by))
        return bool(by)

    async def _wait(self) -> bool:
        assert self._state is not None
        self._bell.clear()
        if not self._deferred:
            self._level.set()
        if self._is_stopping:
            await self._flush(self._state)
            await self._show(self._state)
            return True
        try:
            async with asyncio.timeout(DELIVERY_FLUSH if self._deferred else self._around.idle):
                await self._bell.wait()
        except TimeoutError:
            if not self._deferred:
                return await self._rest(self._state)
            await self._flush(self._state)
            self._show_soon()
        return False

    def _decide(self, state: Conversation, batch: Sequence[Signal]) -> list[list[r.Record]]:
        rules, now = self._around.rules(), self._around.clock.now()
        decisions: list[list[r.Record]] = []
        for signal in batch:
            decision: list[r.Record] = []
            # each signal is decided on once, so what a late answer cost is not recorded twice
            for record in decide(state, unwanted_cost(state, signal) or signal, rules, now):
                sealed = self._seal(state, record)
                state.apply(sealed)
                decision.append(sealed)
            if decision:
                decisions.append(decision)
                self._doubtful.append((signal, decision[-1]))
        return decisions

    def _seal(self, state: Conversation, record: r.Record) -> r.Record:
        """Fix what leaves the core open: the events of what is said, an agent's prompt."""
        match record:
            case r.MessageSent():
                draft = OutgoingMessage(
                    speaker=record.speaker,
                    text=record.text,
                    tags=record.tags,
                    created_at=dated(state, record),
                    address=state.address,
                    reply_to=state.origin,
                )
                sealer = self._around.sealer
                return replace(
                    record, events=sealer.seal(draft), relays=sealer.relays(draft), others=sealer.others(draft)
                )
            case r.RunStarted() | r.AgentPhaseChanged() | r.PromptRerendered():
                return prompted(state, record, self._around.prompter.work)
        return record

    async def _append(self, state: Conversation, decisions: Sequence[Sequence[r.Record]]) -> None:
        if not decisions:
            return
        assert self._journal is not None
        self._unheard = written = [record for decision in decisions for record in decision]
        await self._journal.append(decisions)
        self._unheard = []
        self._tell(state, written)

    def _tell(self, state: Conversation, written: Sequence[r.Record]) -> None:
        remark(self.id, written)
        for observer in self._around.observers:
            observer.on_records(state, written)
        now = self._around.clock.now()
        if not 0 <= now - self._shown_at < SHOW_EVERY or any(isinstance(record, SHOWN) for record in written):
            self._shown_at = now
            self._show_soon()

    async def _flush(self, state: Conversation) -> None:
        waiting, self._deferred = self._deferred, []
        await self._append(state, waiting)

    def _show_soon(self) -> None:
        """Have the readable view written a moment later, beside the work; what changes until then is in it."""
        if self._showing is None or self._showing.done():
            self._showing = self._around.spawn(f"{self.id[:8]} view", self._show_later())

    async def _show_later(self) -> None:
        due = self._around.views_due
        wait = SHOW_DELAY + SHOW_PACE * len(due)
        due.add(self.id)
        try:
            await asyncio.sleep(wait)
        finally:
            due.discard(self.id)
        again, most = SHOW_AGAIN
        while not await self._write_level():
            await asyncio.sleep(again)
            again = min(again * 2, most)

    async def _write_level(self) -> bool:
        while not self._level.is_set():
            await self._level.wait()
        assert self._state is not None
        return await self._write_view(self._state)

    async def _show(self, state: Conversation) -> bool:
        """Write the view now; False if it could not be written."""
        if self._showing is not None:
            self._showing.cancel()
            await asyncio.wait([self._showing])
        return state.next_seq <= 1 or await self._write_view(state)

    async def _write_view(self, state: Conversation) -> bool:
        try:
            await self._around.journals.show(state)
        except (OSError, AppendFailed) as error:  # it is only a view: the journal is the truth
            log.warning("view.failed", conversation=self.id, reason=str(error))
            return False
        return True

    async def _rest(self, state: Conversation) -> bool:
        """Nothing has come in for a while: leave memory if nothing is wanted."""
        if self._inbox or pending(state):
            return False
        if not await self._show(state) or self._inbox:  # a view that failed is tried again after the next rest
            return False
        self._retire(self)  # from here on a new actor takes what comes: no await since the last look
        return True

    def _prepare(self, effect: Effect) -> Task:
        assert self._state is not None
        return self._around.stages.prepare(self._state, effect, self.post)


def dated(state: Conversation, record: r.MessageSent) -> int:
    """After our last word here and after what it answers, but never far ahead: clients order by this.

    What is further ahead was dated by a clock that has been set back since, or by a person's that is wrong. It is left
    aside: held to the bound, all that is said in one second would have one time, and no order.
    """
    now = record.at // 1000
    last, origin = (at if at <= now + LEAD else 0 for at in (state.last_created_at, state.origin_at))
    return min(max(now, last + 1, origin), now + LEAD)
