"""Rollback and fork of stored conversations, with or without a daemon.

    journal -> state after a record -> the files, if wanted -> a RollBack signal to the conversation's actor
                                    -> the folder of a new conversation, whole or not at all

The conversation is opened for writing first, so that nothing is changed where another daemon has it. Then the files are
restored: if the conversation then cannot be rolled back, a second attempt does the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import tenex.workflows  # noqa: F401 registers the kinds of conversation
from tenex.core import records as r
from tenex.core.config import Agent, default_policy
from tenex.core.conversation import Conversation, fold
from tenex.core.dispatch import decide
from tenex.core.effects import Undo
from tenex.core.errors import HeldElsewhere, StoreDamaged, TenexError, UsageError
from tenex.core.identity.state import title_of
from tenex.core.ids import ConversationId, Millis, TurnId
from tenex.core.memory.reducers import blanked
from tenex.core.port_values import UndoOutcome
from tenex.core.ports import Clock, Journal, OutgoingMessage
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import ConversationForked, RolledBack, of_fork, undone
from tenex.core.signals import RollBack
from tenex.core.undo import sentences
from tenex.log import get_logger
from tenex.nostr.compose import NostrSealer
from tenex.runtime.seal import sealed
from tenex.store.archive import plain
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.journal_reader import mark_of
from tenex.store.view import Views
from tenex.tools import rollback as work
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.tool import run_uncancellable
from tenex.tools.workspace import Workspace

TOOL_TIMEOUT: Final = 20.0
"""Seconds to wait until no tool changes the workspace: most take less, and the caller waits for an answer."""
LIST_TIMEOUT: Final = 5.0
"""The same before files are only listed, which a page waits for."""
NAMED: Final = 8
"""Files named in the message to users; the result for the operator names all."""
_FORK: Final = "Fork of "
_NO_WORK: Final = (
    r.AnswerUncounted,
    r.ButtonsClosed,
    r.CostReported,
    r.Delivered,
    r.OutboxExpired,
    r.PicturesUnseen,
    r.ProcessRestarted,
    r.ClockAdjusted,
    r.QuietHoursEnded,
    r.QuietHoursInterrupted,
    r.QuietHoursPostponed,
    r.VerbositySet,
)
"""Records that are no reason for a rollback."""

log = get_logger(__name__)

Apply = Callable[[ConversationId, RollBack], Awaitable[RolledBack]]
"""Handles the signal; returns once the record is durable."""

Hold = Callable[[ConversationId], AbstractAsyncContextManager[None]]
"""Has a conversation open for writing, at least until it rests; raises `HeldElsewhere` where another daemon has it."""

Closing = Callable[[ConversationId, Sequence[r.Record]], r.ConversationImported | None]
"""Gives the record that is missing where a journal was copied from another folder; see `imports.closing_of`."""


EndBackground = Callable[[ConversationId], Awaitable[None]]
"""Ends the background commands of a conversation, and returns once they and what they changed are known."""


async def _none_runs(_: ConversationId) -> None:
    """No background command runs without a daemon."""


def _ours(_: ConversationId, records: Sequence[r.Record]) -> None:
    """No journal comes from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What a rollback would undo."""

    id: ConversationId
    title: str
    to: int
    """The record; the first at or after the wanted one that is not in the middle of opening or closing a turn."""
    last: int
    since: Millis
    """When the first record was written that would be undone."""
    undone: tuple[TurnId, ...]
    messages: int
    """Of users, that would be undone."""
    then: Conversation
    records: Sequence[r.Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """A rollback that was done; `files` is None where they were not restored."""

    plan: RollbackPlan
    record: RolledBack
    files: UndoOutcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkResult:
    """A fork that was made."""

    state: Conversation
    records: Sequence[r.Record]
    at: int
    origin: ConversationId


@dataclass(frozen=True, slots=True)
class RollbackService:
    """Rolls back and forks conversations of one folder, whose lock this process must hold."""

    folder: Conversations
    disk: Disk
    clock: Clock
    sealer: NostrSealer
    project: Agent
    workspace: Workspace
    checkpoints: Callable[[], Checkpoints | None]
    """Gives None where they are off."""
    closing: Closing = _ours
    end_background: EndBackground = _none_runs
    _one: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _open: dict[ConversationId, tuple[Journal, list[r.Record]]] = field(init=False, default_factory=dict)
    """That this process has opened for a rollback; a daemon has its own."""

    async def roll_back(
        self,
        conversation: ConversationId,
        to: int,
        by: str,
        reason: str,
        apply: Apply,
        *,
        files: bool,
        all_files: bool = False,
        hold: Hold | None = None,
    ) -> RollbackResult:
        """Return to a record.

        Args:
            conversation: the one that goes back.
            to: the record.
            by: who wants it, as users read it.
            reason: why, likewise.
            apply: handles the signal.
            files: whether the workspace goes back too.
            all_files: whether with it also goes back what a command or somebody else may have changed.
            hold: of a daemon; None where none runs.

        Raises:
            UsageError: there is no such conversation or record, nothing to undo, or no checkpoint of then.
            StoreDamaged: its journal cannot be read.
            TenexError: another daemon has it, a tool changes the workspace, git failed, or it could not be rolled back.
        """
        async with self._one:
            plan = await plan_of(self.folder, conversation, to, self.closing)
            signal = RollBack(to=plan.to, then=plan.then, by=by, reason=reason)
            checkpoints = self._known_checkpoints() if files else None
            try:
                async with (hold or self._hold)(conversation):
                    if checkpoints is not None:
                        return await self._with_files(plan, signal, checkpoints, apply, is_all=all_files)
                    return RollbackResult(plan=plan, record=await apply(conversation, signal), files=None)
            except HeldElsewhere as fault:
                raise TenexError(
                    f"Nothing was changed: another daemon has the conversation {conversation[:12]} now. Run this with "
                    "the data folder of that one; `tenex status` lists them."
                ) from fault

    async def _with_files(
        self, plan: RollbackPlan, signal: RollBack, checkpoints: Checkpoints, apply: Apply, *, is_all: bool
    ) -> RollbackResult:
        await self._acquire_workspace()
        try:
            await self.end_background(plan.id)
            done = await run_uncancellable(
                lambda: work.roll_back(checkpoints, plan.id, plan.records, plan.to, is_all=is_all)
            )
            text = sentences.done(done, f"after {done.since}", shown=NAMED)
            signal = replace(signal, tree=done.restored_tree, was=done.previous_tree, files=text)
            try:
                record = await apply(plan.id, signal)
            except TenexError as fault:
                raise TenexError(
                    f"The files were restored, but the conversation was not rolled back: {fault} Try again."
                ) from fault
            return RollbackResult(plan=plan, record=record, files=done)
        finally:
            self.workspace.turn.release()

    @asynccontextmanager
    async def _hold(self, conversation: ConversationId) -> AsyncIterator[None]:
        """Have it open for `append`, where no daemon runs.

        Raises:
            StoreError: the journal is damaged, or cannot be opened now.
        """
        journal, records = await self.folder.open(conversation)
        self._open[conversation] = journal, records
        try:
            yield
        finally:
            del self._open[conversation]
            await journal.close()

    async def files_of(self, conversation: ConversationId, to: int, *, all_files: bool = False) -> UndoOutcome:
        """List the files that a rollback to a record would put back, and those that would stay.

        Raises:
            UsageError: there is no such conversation, record or checkpoint.
            TenexError: a tool changes the workspace, or git failed.
        """
        async with self._one:
            plan = await plan_of(self.folder, conversation, to, self.closing)
            checkpoints = self._known_checkpoints()
            await self._acquire_workspace(LIST_TIMEOUT)
            try:
                return await run_uncancellable(
                    lambda: work.list_rollback(checkpoints, conversation, plan.records, plan.to, is_all=all_files)
                )
            finally:
                self.workspace.turn.release()

    async def undo(self, asked: Undo) -> UndoOutcome:
        """List what the last work of a conversation changed in the workspace, or put it back.

        Raises:
            UsageError: no earlier files are known.
            TenexError: a tool changes the workspace, or git failed.
        """
        async with self._one:
            checkpoints = self._known_checkpoints()
            conversation = asked.conversation
            records = plain(await self.folder.read(conversation))
            await self._acquire_workspace()
            try:
                await self.end_background(conversation)
                return await run_uncancellable(
                    lambda: work.undo(
                        checkpoints, conversation, records, asked.scope, asked.to, asked.paths, asked.is_all
                    )
                )
            finally:
                self.workspace.turn.release()

    def _known_checkpoints(self) -> Checkpoints:
        checkpoints = self.checkpoints()
        if checkpoints is None:
            raise UsageError("No earlier files are known: `tools.checkpoints` is off, or git is missing.")
        return checkpoints

    async def fork(self, conversation: ConversationId, at: int) -> ForkResult:
        """Begin a conversation from the state after a record; it is on disk, and its first event is undelivered.

        Raises:
            UsageError: there is no such conversation or record, or its thread is not known.
            StoreDamaged: its journal cannot be read.
            StoreError: the disk did not take the new one; nothing was changed.
        """
        _, then = await _state_of(self.folder, conversation, at, self.closing)
        if not then.identity.address.get("form") or not then.identity.address.get("root"):
            raise UsageError(f"The thread of conversation {conversation[:12]} is not known, so it cannot be forked.")
        taken: Container[ConversationId] = () if self.folder.is_in_files else await self.folder.lengths()
        records = self._records_of_fork(then, self.clock.now(), taken)
        state = fold(records[0].id, records)
        await self.folder.create(state.id, [records])
        await self._show(state)
        return ForkResult(state=state, records=records, at=then.next_seq - 1, origin=conversation)

    async def append(self, conversation: ConversationId, signal: RollBack) -> RolledBack:
        """Handle the signal where no daemon runs; its message is published by the next one.

        Raises:
            StoreError: the journal is damaged, or the disk did not take it.
        """
        journal, records = self._open.get(conversation) or await self.folder.open(conversation)
        try:
            if (closing := self.closing(conversation, records)) is not None:
                await journal.append([[closing]])
                records = [*records, closing]
            state = fold(conversation, records)
            policy = default_policy(roster={}, tools={}, project=self.project)

            def seal(state: Conversation, record: r.Record) -> r.Record:
                return sealed(state, record, self.sealer) if isinstance(record, r.MessageSent) else record

            decision = decide(state, signal, policy, self.clock.now(), seal)
            await journal.append([decision.records])
        finally:
            await journal.close()
        await self._show(decision.after)
        return next(record for record in decision.records if isinstance(record, RolledBack))

    async def _show(self, state: Conversation) -> None:
        try:
            await Views(self.folder, self.disk).show(state)
        except OSError as fault:  # it is done all the same, and the next start writes the view
            log.warning("view.failed", conversation=state.id, reason=str(fault))

    async def _acquire_workspace(self, patience: float | None = None) -> None:
        seconds = TOOL_TIMEOUT if patience is None else patience
        try:
            async with asyncio.timeout(seconds):
                await self.workspace.turn.acquire()
        except TimeoutError as fault:
            raise TenexError(
                f"A tool has used the workspace for {seconds:g} s, so no file was changed. Write `/stop` in its "
                "conversation, or try again when it has ended."
            ) from fault

    def _records_of_fork(
        self, then: Conversation, now: Millis, taken: Container[ConversationId]
    ) -> tuple[ConversationForked, r.MessageSent]:
        title = title_of(
            then.identity.title
            if then.identity.title.startswith(_FORK)
            else f"{_FORK}{then.identity.title or 'Untitled'}"
        )
        seq = then.next_seq - 1
        tags = (("phase", str(then.cycle.phase)),) if then.has_phases else ()
        last = f", after {then.memory.last_turn.turn_id}" if then.memory.last_turn is not None else ""
        text = (
            f"{title}: it continues from record {seq} of that conversation, {then.position}{last}. "
            "Reply here to continue; the other one is unchanged."
        )
        draft = OutgoingMessage(
            speaker=self.project.pubkey,
            text=text,
            tags=tags,
            created_at=now // 1000,
            address=then.identity.address,
            reply_to={},
            name=self.project.name,
        )
        event, address = self.sealer.begin(draft, title, [then.identity.starter])
        # a fork with the same text was made in this second
        while self.folder.path(event.id).exists() or ConversationId(event.id) in taken:
            draft = replace(draft, created_at=draft.created_at + 1)
            event, address = self.sealer.begin(draft, title, [then.identity.starter])
        name = ConversationId(event.id)
        state = of_fork(then, now, id=name, address=address, title=title)
        draft = replace(draft, address=address)
        message = r.MessageSent(
            seq=2,
            at=now,
            speaker=draft.speaker,
            name=self.project.name,
            text=draft.text,
            purpose="notice",
            phase=then.cycle.phase,
            tags=tags,
            events=(event,),
            wraps=self.sealer.wraps(draft, (event,)),
            relays=self.sealer.relays(draft),
        )
        return ConversationForked(seq=1, at=now, id=name, origin=then.id, at_seq=seq, title=title, state=state), message


async def plan_of(
    folder: Conversations, conversation: ConversationId, to: int, closing: Closing = _ours
) -> RollbackPlan:
    """What a rollback to a record would undo; reads only.

    Raises:
        UsageError: there is no such conversation or record, or nothing to undo.
        StoreDamaged: its journal cannot be read.
    """
    records, then = await _state_of(folder, conversation, to, closing)
    to = then.next_seq - 1
    after = [record for record in records if record.seq > to and not isinstance(record, _NO_WORK)]
    if not after:
        raise UsageError(f"There is nothing to undo: conversation {conversation[:12]} is at record {to}.")
    now = await asyncio.to_thread(fold, conversation, records)
    turns = list(undone(now.history, to, now.next_seq)) if now.history is not None else []
    if now.work.turn is not None and now.work.turn.seq > to:
        turns.append(now.work.turn.turn_id)
    return RollbackPlan(
        id=conversation,
        title=now.identity.title,
        to=to,
        last=records[-1].seq,
        since=after[0].at,
        undone=tuple(turns),
        messages=sum(isinstance(record, r.MessageRecorded) for record in after),
        then=then,
        records=records,
    )


async def _state_of(
    folder: Conversations, conversation: ConversationId, at: int, closing: Closing
) -> tuple[Sequence[r.Record], Conversation]:
    mark = mark_of(folder.path(conversation))
    if mark is not None:
        raise StoreDamaged(f"Conversation {conversation[:12]} is quarantined. {mark}")
    records = plain(await folder.read(conversation))
    last = records[-1].seq if records else 0
    if not 1 <= at <= last:
        raise UsageError(
            f"There is no record {at} in conversation {conversation[:12]}: its records are 1 to {last}. "
            f"`tenex conversations replay {conversation[:12]} --each` lists them."
        )
    end = closing(conversation, records)
    ended = records if end is None else [*records, end]
    then = await asyncio.to_thread(state_at, conversation, ended, at)
    for record in records:
        if isinstance(record, r.MessageWithdrawn) and record.message <= at < record.seq:
            then.memory = blanked(then.memory, record.message)  # its author does not want it back
            then.cycle = then.cycle.blanked(record.message)
            then.identity = replace(then.identity, title="" if record.was_title else then.identity.title)
    return records, then
