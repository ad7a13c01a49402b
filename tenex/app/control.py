"""The requests a running daemon answers over its socket (`service.control`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from tenex.core.conversation import Conversation
from tenex.core.errors import TenexError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.port_values import UndoOutcome
from tenex.core.projection import phase_of
from tenex.core.records import Record
from tenex.core.rollback.whole import RolledBack
from tenex.core.signals import RollBack
from tenex.core.undo import sentences
from tenex.operations.rollback import ForkResult, RollbackResult, RollbackService
from tenex.operations.status import Reporter
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.runtime.lifecycle import Runtime
from tenex.service.control import Handler

from .live_configuration import Reloading
from .watch_stream import WatchStream

ANSWERED: Final = 20.0
"""Seconds a conversation may take to go back: it has to be read, to stop what runs, and to write."""
REASON_LENGTH: Final = 500
"""Characters of a reason: it is part of a message to users."""


class Awaited:
    """Delivers orders to roll back to conversations, and observes when they are durable. An `Observer`."""

    def __init__(self, coordinator: ConversationCoordinator) -> None:
        self._coordinator = coordinator
        self._waiting: dict[tuple[ConversationId, int], asyncio.Future[RolledBack]] = {}

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Complete the requests that wait for one of these."""
        for record in records:
            if isinstance(record, RolledBack):
                waiting = self._waiting.get((conversation.id, record.to))
                if waiting is not None and not waiting.done():
                    waiting.set_result(record)

    @asynccontextmanager
    async def hold(self, conversation: ConversationId) -> AsyncIterator[None]:
        """Have a conversation in memory, where it stays while something happens in it.

        Raises:
            HeldElsewhere: another daemon writes it.
            TenexError: it could not be read within `ANSWERED` seconds.
        """
        try:
            async with asyncio.timeout(ANSWERED):
                await self._coordinator.load(conversation)
        except TimeoutError as fault:
            raise TenexError(
                f"conversation {conversation[:12]} could not be opened within {ANSWERED:g} s, so nothing was changed. "
                "`tenex status` shows what it waits for."
            ) from fault
        yield

    async def __call__(self, conversation: ConversationId, order: RollBack) -> RolledBack:
        """Have a conversation carry out the order.

        Raises:
            TenexError: it did not within `ANSWERED` seconds; it may still.
        """
        key = (conversation, order.to)
        self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            self._coordinator.deliver(conversation, order)
            async with asyncio.timeout(ANSWERED):
                return await self._waiting[key]
        except TimeoutError as fault:
            raise TenexError(
                f"conversation {conversation[:12]} has not gone back within {ANSWERED:g} s; it may when the disk takes "
                "it. `tenex status` shows what it waits for."
            ) from fault
        finally:
            del self._waiting[key]


def orders(
    reporter: Reporter,
    reload: Reloading,
    runtime: Runtime,
    rollbacks: RollbackService,
    back: Awaited,
    branched: Callable[[ForkResult], None],
    watch_stream: WatchStream,
) -> dict[str, Handler]:
    """The handlers by request; `branched` makes a new conversation known to the daemon."""

    async def reload_configuration(_: Mapping[str, Any]) -> dict[str, Any]:
        """`reload`: as SIGHUP; a refused configuration is an error with all its faults."""
        needs_restart = await reload()
        disabled = {**reporter.disabled_agents(), **reporter.disabled()}
        return {
            "needsRestart": needs_restart,
            "disabled": {slug: list(faults) for slug, faults in disabled.items()},
            "leftOut": reporter.left_out(),
        }

    async def stop(_: Mapping[str, Any]) -> dict[str, Any]:
        """`stop`: as SIGTERM; answers before it has stopped."""
        runtime.stop()
        return {}

    async def roll_back(asked: Mapping[str, Any]) -> dict[str, Any]:
        """`rollback`: `id`, `to`, and if wanted `by`, `reason`, `files`, `all_files`."""
        name, to = _which(asked)
        by = str(asked.get("by") or OPERATOR)[:80]
        reason = str(asked.get("reason") or "")[:REASON_LENGTH]
        files = asked.get("files") is True
        all_files = asked.get("all_files") is True
        done = await rollbacks.roll_back(name, to, by, reason, back, files=files, all_files=all_files, hold=back.hold)
        return rollback_json(done)

    async def rollback_files(asked: Mapping[str, Any]) -> dict[str, Any]:
        """`rollback_files`: `id`, `to`, and if wanted `all_files`; lists what `rollback` would put back."""
        name, to = _which(asked)
        return files_json(await rollbacks.files_of(name, to, all_files=asked.get("all_files") is True))

    async def fork(asked: Mapping[str, Any]) -> dict[str, Any]:
        """`fork`: `id`, `to`."""
        made = await rollbacks.fork(*_which(asked))
        branched(made)
        return fork_json(made)

    return {
        "status": reporter.status,
        "conversation": reporter.conversation,
        "reload": reload_configuration,
        "stop": stop,
        "rollback": roll_back,
        "rollback_files": rollback_files,
        "fork": fork,
        "watch": watch_stream.watch,
    }


OPERATOR: Final = "The operator"
"""Who rolled back, as users read it: only those who may use the daemon's files can."""


def rollback_json(done: RollbackResult) -> dict[str, Any]:
    """The result of a rollback."""
    plan = done.plan
    record = done.record
    files = done.files
    return {
        "id": plan.id,
        "title": plan.title,
        "to": record.to,
        "at": record.seq,
        "undone": list(plan.undone),
        "status": record.state.cycle.status,
        "phase": phase_of(record.state),
        "cycle": record.state.cycle.number,
        "files": None if files is None else files_json(files),
        "undo": record.seq - 1,
    }


def files_json(files: UndoOutcome) -> dict[str, Any]:
    """The files that went back or would, and those that stay, with the sentences for users."""
    moment = f"after {files.since}"
    text = sentences.done(files, moment) if files.restored_tree else sentences.listed(files, moment)
    return {
        "changed": list(files.files),
        "left": list(files.left),
        "why": dict(files.left),
        "unclear": list(files.unclear),
        "isAsBefore": files.is_as_before,
        "text": text,
    }


def fork_json(made: ForkResult) -> dict[str, Any]:
    """The result of a fork."""
    state = made.state
    return {
        "id": state.id,
        "title": state.identity.title,
        "phase": phase_of(state),
        "cycle": state.cycle.number,
        "forkedFrom": {"id": made.origin, "seq": made.at},
    }


def _which(asked: Mapping[str, Any]) -> tuple[ConversationId, int]:
    name = asked.get("id")
    seq = asked.get("to")
    if not isinstance(name, str) or type(seq) is not int:
        raise UsageError('the order needs "id", a conversation\'s, and "to", a record\'s number')
    return ConversationId(name), seq
