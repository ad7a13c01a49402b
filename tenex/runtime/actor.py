"""One conversation's actor: the only writer of its journal.

    signals -> decide, seal, apply -> append (durable) -> notify observers -> reconcile
                               meanwhile: start model calls and tools that only read

All records of one decision are one append. The next decision, what is published and every effect that changes something
wait for it; model calls and tools that only read do not. After a failed append the content of the file is unknown, so
these are cancelled and the actor is suspended: it shows no state, keeps its signals, and starts no effect before it has
read the journal again.

Where several workers share a store, an actor whose conversation another one may write cancels all work and ends; its
messages wait in `undeliverable`, for the case that this worker writes the conversation again. One that needs what only
another worker has starts nothing, ends when what runs has ended, and is opened there. One for which only another worker
has received a message asks no model again, and ends likewise: agents read a message before a model is asked.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

from tenex.core import records as r
from tenex.core.backoff import Backoff
from tenex.core.config import Policy, Role
from tenex.core.conversation import Conversation, fold
from tenex.core.dispatch import cost_of_call, decide, unwanted_cost
from tenex.core.effects import Effect, Key
from tenex.core.errors import AppendFailed, HeldElsewhere, StoreError, StoreOtherVersion
from tenex.core.ids import ConversationId, Millis
from tenex.core.inbox.commands import stops_wait
from tenex.core.inbox.decide import begins_within_a_thread, quotations_wanted
from tenex.core.inbox.received_files import NamedFile, ReceivedFile, with_transcripts
from tenex.core.pending import pending
from tenex.core.ports import Clock, Files, Journal, Journals, Notices, Observer, Prompter, Quotations, Sealer
from tenex.core.signals import (
    ClockJumped,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    Published,
    RouteAnswered,
    Signal,
    without_result,
)
from tenex.core.text.foreign import well_formed_value
from tenex.log import get_logger

from .clock import ClockWatch
from .executors import Executors
from .reconciler import Reconciler, Spawn, Task
from .seal import seal
from .undeliverable import DeliveryFailure, Undeliverable, failure_of, notices
from .view_writer import ViewWriter

log = get_logger(__name__)

BATCH = 64
"""Signals decided in one append at most: enough to share an fdatasync, few enough to keep replies flowing."""
DELIVERY_FLUSH = 0.05
"""Seconds the record of a delivery may wait for another append to ride on: what several relays acknowledge shares one
append, and a process that lives for less than a second does not send the same again in every life."""
REOPEN_BACKOFF = (0.5, 30.0)
"""Seconds before a suspended conversation is reopened: first, and at most; each wait doubles."""
NOTIFY_AFTER = 3_000
"""ms of suspension after which waiting users are notified: most disks that fail once take the next write."""
MAX_FAILURES = 3
"""Internal errors a signal may cause before it is dropped."""
STOPPED_LOADING = "a command to stop came before they were loaded; they have to be sent again"
STOPPED_DAEMON = "the daemon stopped while they were loaded; they have to be sent again"
IDLE = 30.0
"""Seconds without work after which an idle conversation leaves memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorDependencies:
    """What all actors of a process share; the composition root builds it once."""

    journals: Journals
    executors: Executors
    sealer: Sealer
    notices: Notices
    prompter: Prompter
    clock: Clock
    policy: Callable[[], Policy]
    observers: Sequence[Observer]
    spawn: Spawn
    idle: float | None = IDLE
    """None: an actor never ends by itself."""
    quotations: Quotations | None = None
    """Where the words of other notes are found; None: they are not looked up."""
    files: Files | None = None
    """What loads the files that messages name; None: they are not loaded."""
    take_message: Callable[[MessageReceived, ConversationId], Awaitable[bool]] | None = None
    """Whether a message is this conversation's, where several workers choose one for it: else it is handed on there."""
    is_for_another: Callable[[Conversation], bool] | None = None
    """Whether another worker has to go on, where several share a store: it has what the conversation needs."""
    left: Callable[[ConversationId], None] = lambda _: None
    """Called when another worker goes on with a conversation: what follows its records here is to end."""
    released: Callable[[ConversationId], None] = lambda _: None
    """Called when a conversation has left memory: what is kept of it to save work is to be dropped."""
    views_due: set[ConversationId] = field(default_factory=set)
    """Conversations whose readable view is scheduled."""


class ConversationActor:
    """Runs one conversation, from reading its journal until it is idle or stopped."""

    def __init__(
        self,
        conversation: ConversationId,
        deps: ActorDependencies,
        undeliverable: Undeliverable,
        retire: Callable[["ConversationActor"], None],
    ) -> None:
        self.id = conversation
        self._deps = deps
        self._undeliverable = undeliverable
        self._retire = retire
        self._signals: deque[Signal] = deque([Opened()])
        self._wakeup = asyncio.Event()
        self._state: Conversation | None = None
        self._journal: Journal | None = None
        self._deferred: list[list[r.Record]] = []
        self._inflight: list[tuple[Signal, r.Record]] = []
        """Signals being appended, with the last record of each."""
        self._unobserved: list[r.Record] = []
        """Records of an append whose result is unknown: no observer has received them."""
        self._reconciler = Reconciler(conversation[:8], self._prepare, self.post, deps.spawn, self._may_start)
        self._watch = ClockWatch(deps.clock)
        self._view = ViewWriter(conversation, deps.journals, deps.clock, deps.spawn, deps.views_due)
        self._seal = partial(seal, sealer=deps.sealer, prompter=deps.prompter)
        self._stopping = asyncio.Event()
        self._is_lost = False
        """Another worker may write the conversation."""
        self._may_start_again = False
        """Effects are to be started that could not start for a while."""
        self._reopening = Backoff(*REOPEN_BACKOFF)
        self._reopens_in = 0.0
        """Seconds, after an error."""
        self._batch = BATCH
        """Signals that are decided in one append at most."""
        self._loading: list[tuple[MessageReceived, asyncio.Event]] = []
        """Messages whose files are being loaded, each with what ends the wait for them."""
        self._failures = 0
        """Internal errors in a row."""
        self.opened = asyncio.Event()
        """Set once its journal has been read, or it has ended."""
        self.is_held_elsewhere = False
        """It has ended because another worker writes the conversation, or is to."""
        self.is_leaving = False
        """Another worker is to go on once nothing runs here."""
        self.is_suspended = False
        self.suspended_since = Millis(0)
        self.suspended_why = ""
        """The error that suspended it."""

    @property
    def conversation(self) -> Conversation | None:
        """The state; None before it has been read and while suspended."""
        return None if self.is_suspended else self._state

    @property
    def waiting(self) -> int:
        """The number of signals that are not decided."""
        return len(self._signals)

    @property
    def queued(self) -> Iterator[Signal]:
        """The signals that are not decided, in order."""
        return iter(self._signals)

    @property
    def is_quiet(self) -> bool:
        """Whether no effect is in flight and no signal waits."""
        return not self._signals and self._reconciler.busy == 0

    @property
    def is_resting(self) -> bool:
        """Whether no step is in flight or undecided; publishes may be."""
        return self._reconciler.working == 0 and all(isinstance(signal, Published) for signal in self._signals)

    @property
    def _is_stopping(self) -> bool:
        return self._stopping.is_set()

    def post(self, signal: Signal) -> None:
        """Queue a signal; signals are decided in order of arrival.

        Everything that a conversation knows comes in here, so here lone surrogates are replaced: what is decided now is
        what will be read of the journal.
        """
        signal = well_formed_value(signal)
        self._signals.append(signal)
        for waiting, unwanted in self._loading:
            if self._stops(signal, waiting):
                unwanted.set()
        self._wakeup.set()

    def drain(self) -> None:
        """Start no more steps; finish running ones and publish."""
        self._reconciler.drain()

    def leave(self) -> None:
        """Come to rest before a model is asked again: another worker has a message for the conversation."""
        self.is_leaving = True
        self._reconciler.ask_no_model()

    def stop(self) -> None:
        """Decide the queued signals, append, cancel every task, and end."""
        self._stopping.set()
        self._wakeup.set()

    def lose(self) -> None:
        """Cancel every effect at once and end: another worker may write the conversation from now on."""
        self._is_lost = True
        self._reconciler.abandon()
        self._deps.left(self.id)
        self._wakeup.set()

    def reconsider(self) -> None:
        """Start the effects that could not start for a while."""
        self._may_start_again = True
        self._wakeup.set()

    async def run(self) -> None:
        """Run until idle or stopped; reopen the journal after an error."""
        try:
            while not await self._run_until_error():
                if self._is_stopping:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._reopens_in):
                        await self._stopping.wait()
        except HeldElsewhere as error:
            self.is_held_elsewhere = True
            log.info("conversation.held_elsewhere", conversation=self.id, reason=str(error))
            self._deps.left(self.id)
        except StoreError as error:
            log.error("conversation.quarantined", conversation=self.id, reason=str(error))
            is_foreign = isinstance(error, StoreOtherVersion)
            failure = DeliveryFailure.OTHER_VERSION if is_foreign else DeliveryFailure.DAMAGED
            self._undeliverable.notify(notices(self.id, failure, self._signals))
        finally:
            self.opened.set()
            self._undeliverable.store(self.id, self._signals)
            self._retire(self)
            await self._close()
            for signal in self._signals:  # what a call has cost that is dropped is no one's use any more
                self._release(signal)

    async def _run_until_error(self) -> bool:
        """Read the journal and process signals; False if the journal must be reopened."""
        try:
            await self._open()
            while not await self._step():
                pass
        except HeldElsewhere:
            raise
        except AppendFailed as error:
            self._reopens_in = self._reopening.next()
            log.error("conversation.suspended", conversation=self.id, reason=str(error), again_in=self._reopens_in)
            self._suspend(str(error))
            if self._deps.clock.now() - self.suspended_since >= NOTIFY_AFTER and not self._is_stopping:
                self._undeliverable.notify(notices(self.id, failure_of(error), self._signals, self._state))
        except StoreError:
            raise
        except Exception as error:  # an internal error in one conversation must not end the others
            self._reopens_in = self._reopening.next()
            log.exception("conversation.failed", conversation=self.id, again_in=self._reopens_in)
            why = f"an internal error: {type(error).__name__}"
            self._suspend(why)
            self._failed(why)
        else:
            return True
        return False

    def _suspend(self, why: str) -> None:
        if not self.suspended_since:  # else reading worked and writing failed again: the same suspension
            self.suspended_since = self._deps.clock.now()
        self.is_suspended = True
        self.suspended_why = why
        self._deferred = []  # deliveries that are not recorded are repeated: relays drop the duplicate
        self._view.mark_not_durable()

    def _recovered(self) -> None:
        """A batch was decided without an error: the opposite of `_suspend` and `_failed`."""
        self._reopening.reset()
        self._batch = BATCH
        self._failures = 0
        self.suspended_since = Millis(0)
        self._undeliverable.clear(self.id)

    def _failed(self, why: str) -> None:
        """After an internal error, decide signals one by one, and drop one that fails `MAX_FAILURES` times.

        A signal that carries a task's result is first replaced by one without the result. If that fails too the task
        does not start again before the next process: it would fail each time, and cost money each time.
        """
        self._batch = 1
        self._failures += 1
        if self._failures < MAX_FAILURES or not self._signals or isinstance(self._signals[0], Opened):
            return

        self._failures = 0
        signal = self._signals.popleft()
        instead = without_result(signal, why)
        if instead is not None:
            self._signals.appendleft(instead)
            # the records of the signal may be durable, and then its cost is recorded
            self._inflight = [(instead if appended is signal else appended, last) for appended, last in self._inflight]
        else:
            self._undeliverable.drop(signal)
            self._release(signal)
            self._undeliverable.notify(notices(self.id, DeliveryFailure.FAULT, [signal], self._state))
        what = "signal.dropped" if instead is None else "signal.result_dropped"
        log.error(what, conversation=self.id, signal=type(signal).__name__)

    async def _open(self) -> None:
        if self._journal is not None:
            await self._journal.close()

        journal, records = await self._deps.journals.open(self.id)
        self._journal = journal
        self._state = fold(self.id, records)
        self.is_suspended = False
        self.opened.set()
        self._reconcile_after_failed_append(self._state, records)

        # no effect starts before these are decided: timers would use the time of another clock
        waits = any(isinstance(signal, Opened | ClockJumped) for signal in self._signals)
        if not self._look_at_clock() and not waits:
            self._reconciler.reconcile(pending(self._state))
        if records:  # the process that wrote the last of them may have ended before it wrote the view
            self._view.write_soon()

    def _reconcile_after_failed_append(self, state: Conversation, records: Sequence[r.Record]) -> None:
        """Acknowledge signals whose records are durable although their append failed, and notify the observers.

        A clock step or the cost of a late answer would be counted twice if it were decided again.
        """
        is_unknown = bool(self._inflight or self._unobserved)
        durable = {record.seq: record for record in records} if is_unknown else {}
        for signal, last in self._inflight:
            if durable.get(last.seq) == last and signal in self._signals:  # else another process wrote there
                self._signals.remove(signal)
                self._acknowledge(signal)
        missed = [record for record in self._unobserved if durable.get(record.seq) == record]
        self._inflight = []
        self._unobserved = []
        if missed:
            self._notify_observers(state, missed)

    async def _close(self) -> None:
        await self._reconciler.close()
        await self._view.close()
        if self._journal is not None:
            await self._journal.close()

    async def _step(self) -> bool:
        """Decide the queued signals; True if the actor may end."""
        assert self._state is not None
        if self._is_lost:
            raise HeldElsewhere("the lease on this conversation has run out or was taken over")
        if self._may_start_again:
            self._may_start_again = False
            self._reconciler.reconcile(pending(self._state))
        self._look_at_clock()
        if not self._signals:
            return await self._wait_for_signal()
        count = await self._take_messages()
        await self._look_up_context(self._state)
        batch = list(islice(self._signals, count))
        self._view.mark_not_durable()
        self._state, decisions = self._decide(self._state, batch)
        wanted = pending(self._state)
        is_delivery = all(isinstance(signal, Published) for signal in batch)
        may_wait = is_delivery and all(map(_may_wait, chain.from_iterable(decisions)))
        if self._is_stopping or not may_wait:
            await self._append(self._state, [*self._deferred, *decisions], wanted)
            self._deferred.clear()
        else:  # deliveries ride on another append
            self._deferred.extend(decisions)
        self._recovered()
        for signal in batch:  # after the append: if it fails they are decided again
            self._signals.popleft()
            self._acknowledge(signal)
        self._inflight = []
        if not self._look_at_clock():  # else timers would start with the old clock
            self._reconciler.reconcile(wanted)
        return False

    async def _take_messages(self) -> int:
        """Drop messages that another conversation has taken, whose worker saw their thread or room differently.

        Returns:
            How many signals may be decided: what arrives from now on is not taken yet.
        """
        take = self._deps.take_message
        if take is None:
            return self._batch
        signals = list(islice(self._signals, self._batch))
        count = len(signals)
        for signal in signals:
            if isinstance(signal, MessageReceived) and not await take(signal, self.id):
                log.info("message.taken_elsewhere", conversation=self.id, event_id=signal.message.event_id)
                self._signals.remove(signal)
                count -= 1
        return count

    async def _look_up_context(self, state: Conversation) -> None:
        """Add to the next messages what they reply to or quote, and their files; so they wait, and keep their order.

        They wait at the same time, and no command to stop waits for files: it ends the loading for messages before it.
        """
        waiting = [
            (position, signal)
            for position, signal in enumerate(islice(self._signals, self._batch))
            if isinstance(signal, MessageReceived) and self._needs_context(state, signal)
        ]
        if not waiting:
            return

        tasks: dict[int, asyncio.Task[Signal]] = {}
        async with asyncio.TaskGroup() as group:
            for position, signal in waiting:
                later = list(islice(self._signals, position + 1, None)) if signal.message.files else []
                tasks[position] = group.create_task(self._with_context(state, signal, later), name="context")
        for position, task in tasks.items():
            self._signals[position] = task.result()

    def _finder_for(self, signal: MessageReceived) -> Quotations | None:
        """What looks up the words around a message; None where that is done, or the daemon stops."""
        is_done = signal.quotations is not None or self._is_stopping
        return None if is_done else self._deps.quotations

    def _needs_context(self, state: Conversation, signal: MessageReceived) -> bool:
        message = signal.message
        if message.files:
            return True
        is_looked_up = self._finder_for(signal) is not None
        return is_looked_up and bool(quotations_wanted(state, message) or begins_within_a_thread(state, message))

    async def _with_context(self, state: Conversation, signal: MessageReceived, later: Sequence[Signal]) -> Signal:
        """The message with what it replies to or quotes, the thread that it calls us into, and its files loaded.

        `later` are the signals after it, where it has files.
        """
        message = signal.message
        find = self._finder_for(signal)
        wanted = quotations_wanted(state, message) if find is not None else ()
        is_called_in = find is not None and begins_within_a_thread(state, message)

        async with asyncio.TaskGroup() as group:
            loading = group.create_task(self._load_files(signal, later), name="files")
            if find is not None:
                quoted = group.create_task(find.find(wanted, message, self.id), name="quotations")
            if find is not None and is_called_in:
                asks_hinted = signal.role is not Role.GUEST
                thread = group.create_task(find.thread(message, self.id, asks_hinted=asks_hinted), name="thread")

        files = (*signal.files, *loading.result())
        text = with_transcripts(message.text, loading.result())
        changed = replace(signal, message=replace(message, text=text, files=()), files=files)
        if find is not None:
            changed = replace(changed, quotations=quoted.result())
        if find is not None and is_called_in:
            changed = replace(changed, thread=thread.result())
        return well_formed_value(changed)

    async def _load_files(self, signal: MessageReceived, later: Sequence[Signal]) -> tuple[ReceivedFile, ...]:
        """What becomes of the files of a message: guests' are not loaded, as anybody could have any server asked."""
        files = signal.message.files
        loader = self._deps.files
        refusal = ""
        if signal.role is Role.GUEST or signal.message.by_machine:
            refusal = "files of guests and agents elsewhere are not loaded"
        elif loader is None:
            refusal = "this daemon does not read files"
        elif any(self._stops(other, signal) for other in later):
            refusal = STOPPED_LOADING
        if not files or loader is None or refusal:
            return tuple(_not_loaded(file, refusal) for file in files)

        unwanted = asyncio.Event()
        self._loading.append((signal, unwanted))
        loading = asyncio.create_task(loader.load(files, self.id), name="files of a message")
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        command = asyncio.create_task(unwanted.wait(), name="command to stop")
        try:
            await asyncio.wait({loading, stopping, command}, return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                return loading.result()
            refusal = STOPPED_LOADING if unwanted.is_set() else STOPPED_DAEMON
            return tuple(_not_loaded(file, refusal) for file in files)
        finally:
            self._loading.remove((signal, unwanted))
            for task in (loading, stopping, command):
                task.cancel()
            await asyncio.gather(loading, stopping, command, return_exceptions=True)

    def _stops(self, later: Signal, waiting: MessageReceived) -> bool:
        """Whether a signal stops the work, which also ends the loading of files for an earlier message."""
        if self._state is None or not isinstance(later, MessageReceived):
            return False
        return stops_wait(self._state, self._deps.policy().gates, later, waiting)

    def _acknowledge(self, signal: Signal) -> None:
        """Discard the task that ended in this signal: its records are durable."""
        self._reconciler.acknowledge(signal)
        self._release(signal)

    def _release(self, signal: Signal) -> None:
        if isinstance(signal, RouteAnswered | ModelAnswered | ModelFailed):
            self._deps.executors.daily.release(self.id, signal.key)

    def _look_at_clock(self) -> bool:
        """Whether the clock was set: that is decided before any other signal, and `Opened` detects it itself."""
        by = self._watch.step()
        if by and not any(isinstance(signal, Opened) for signal in self._signals):
            self._signals.appendleft(ClockJumped(by=by))
        return bool(by)

    async def _wait_for_signal(self) -> bool:
        assert self._state is not None
        self._wakeup.clear()
        if not self._deferred:
            self._view.mark_durable(self._state)
        if self._is_stopping:
            await self._flush(self._state)
            await self._view.write_now(self._state)
            return True
        if self._is_for_another() and not self._reconciler.busy:
            await self._flush(self._state)
            await self._view.write_now(self._state)
            raise HeldElsewhere("another worker has the workspace, which an agent needs now")
        try:
            async with asyncio.timeout(DELIVERY_FLUSH if self._deferred else self._deps.idle):
                await self._wakeup.wait()
        except TimeoutError:
            if not self._deferred:
                return await self._idle(self._state)
            await self._flush(self._state)
            self._view.write_soon()
        return False

    def _decide(self, state: Conversation, batch: Sequence[Signal]) -> tuple[Conversation, list[list[r.Record]]]:
        """The state after these signals, and the records of each that led to some."""
        policy = self._deps.policy()
        now = self._deps.clock.now()
        decisions: list[list[r.Record]] = []
        for signal in batch:
            if isinstance(signal, MessageReceived) and signal.message.has_expired(now):  # while the disk failed
                continue
            # each signal is decided once, so the cost of a late answer is recorded once
            decision = decide(state, unwanted_cost(state, signal) or signal, policy, now, self._seal)
            if decision.records:
                state = decision.after
                decisions.append(decision.records)
                self._inflight.append((signal, decision.records[-1]))
        return state, decisions

    async def _append(
        self, state: Conversation, decisions: Sequence[Sequence[r.Record]], wanted: Mapping[Key, Effect]
    ) -> None:
        if not decisions:
            return
        assert self._journal is not None
        written = [record for decision in decisions for record in decision]
        self._unobserved = written
        try:
            if not self.suspended_since:  # each try of a disk that fails would cost a model call
                self._reconciler.start_early(wanted)
            await self._journal.append(decisions)
        except Exception:
            await self._cancel_early()
            raise
        self._reconciler.confirm_early()
        self._unobserved = []
        self._notify_observers(state, written)

    async def _cancel_early(self) -> None:
        """Cancel what started early; of its results only the cost is kept, since the records may not be durable."""
        keys = await self._reconciler.cancel_early()
        signals = list(self._signals) if keys else []
        for signal in signals:
            self._signals.popleft()
            kept: Signal | None = signal
            if getattr(signal, "key", None) in keys:
                self._release(signal)
                kept = cost_of_call(signal)
            if kept is not None:
                self._signals.append(kept)

    def _notify_observers(self, state: Conversation, written: Sequence[r.Record]) -> None:
        _log_notable(self.id, written)
        for observer in self._deps.observers:
            observer.on_records(state, written)
        self._view.records_appended(written)

    async def _flush(self, state: Conversation) -> None:
        deferred = self._deferred
        self._deferred = []
        await self._append(state, deferred, {})

    async def _idle(self, state: Conversation) -> bool:
        """Leave memory if no effect is pending; True if the actor may end."""
        if self._signals or pending(state):
            return False
        is_written = await self._view.write_now(state)
        if not is_written or self._signals:  # a view that failed is written after the next idle period
            return False
        self._retire(self)  # no await since the check above, so no signal is lost: a new actor takes the next one
        return True

    def _may_start(self) -> bool:
        is_held = not self._is_lost and self._journal is not None and self._journal.may_start
        return is_held and not self._is_for_another()

    def _is_for_another(self) -> bool:
        ask = self._deps.is_for_another
        return ask is not None and self._state is not None and ask(self._state)

    def _prepare(self, effect: Effect) -> Task:
        assert self._state is not None
        return self._deps.executors.prepare(self._state, effect, self.post)


def _may_wait(record: r.Record) -> bool:
    """Whether a record may be appended with the next ones: if it is lost, the same comes again and nothing follows."""
    return isinstance(record, r.Delivered) and record.again is None


def _not_loaded(file: NamedFile, why: str) -> ReceivedFile:
    return ReceivedFile(address=file.address, name=file.name, media_type=file.media_type, fault=why)


def _log_notable(conversation: ConversationId, records: Sequence[r.Record]) -> None:
    for record in records:
        match record:
            case r.AgentPhaseChanged(agent=agent, source=source, target=target):
                log.info("agent.moved", conversation=conversation, agent=agent, source=source, target=target)
            case r.Delivered(accepted=False, relay=relay, detail=reason):
                log.warning("event.refused", conversation=conversation, relay=relay, reason=reason)
            case r.OutboxExpired(relays=relays, accepted=accepted, lost=lost):
                log.warning(
                    "event.given_up",
                    conversation=conversation,
                    relays=relays,
                    reached=f"{accepted} of {accepted + len(relays)} relays",
                    lost=lost,
                )
            case r.ConditionFailed(agent=agent, source=source, target=target, error=error):
                log.warning(
                    "condition.failed",
                    conversation=conversation,
                    agent=agent,
                    source=source,
                    target=target,
                    error=error.partition(":")[0],
                )
