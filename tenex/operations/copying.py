"""Copies conversations from one store to another, byte for byte; a second run goes on where the first one ended."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tenex.core.errors import AppendFailed, StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.log import get_logger
from tenex.runtime.clock import SystemClock
from tenex.store.contents import compare, digest
from tenex.store.conversations import Conversations
from tenex.store.daemon_journal import DaemonJournal, DaemonRecords

log = get_logger(__name__)

Outcome = Literal["copied", "same", "newer there"]


@dataclass(slots=True)
class Copied:
    """What became of each conversation."""

    outcomes: dict[ConversationId, Outcome] = field(default_factory=dict)
    faults: dict[ConversationId, str] = field(default_factory=dict)
    """Those that were not copied, each with the sentence why."""
    lessons: int = 0
    """How many the target did not have."""

    def count(self, outcome: Outcome) -> int:
        """How many have it."""
        return sum(other == outcome for other in self.outcomes.values())


async def copy_all(
    source: Conversations,
    target: Conversations,
    shown: Callable[[Sequence[ConversationId]], Iterable[ConversationId]] = iter,
) -> Copied:
    """Copy every conversation, and what agents have learned; one that cannot be copied does not stop the others.

    Raises:
        StoreError: a store cannot be used now, so neither could the others be copied.
    """
    done = Copied()
    for name in shown(sorted(await source.lengths())):
        try:
            done.outcomes[name] = await copy_one(source, target, name)
        except (StoreError, AppendFailed) as fault:
            if isinstance(fault, StoreError) and fault.retryable:
                raise
            done.faults[name] = str(fault)
    lessons = await DaemonJournal.open(target.daemon_records(), SystemClock())
    try:
        done.lessons = await adopt_lessons(source.daemon_records(), lessons)
    finally:
        await lessons.close()
    return done


async def adopt_lessons(source: DaemonRecords, target: DaemonJournal) -> int:
    """Add to a daemon's journal the lessons and profiles of another one that it never had; returns how many lessons.

    A source that cannot be read is logged, and adds nothing; what cannot be written is added the next time.
    """
    book = DaemonJournal(source, SystemClock())
    try:
        await book.load()
        return await target.adopt(book)
    except (OSError, StoreError, AppendFailed) as fault:
        log.error("daemon_journal.not_adopted", reason=str(fault))
        return 0


async def copy_one(source: Conversations, target: Conversations, conversation: ConversationId) -> Outcome:
    """Copy one conversation, and compare what the target then holds with it by its checksum.

    Raises:
        StoreError: the target holds something else, or one of the two cannot be read.
        AppendFailed: a worker writes it.
    """
    wanted = await source.contents(conversation)
    there = await target.contents(conversation)
    standing = compare(there, wanted)
    if standing == "same" or not any((*there, *wanted)):  # a write was cut short before its first record
        return "same"
    if standing == "ahead":
        return "newer there"
    if standing == "other":
        raise StoreError(f"{conversation[:12]} is there with other records; nothing was changed. Look which is right.")
    await target.put(conversation, there, wanted)
    if digest(await target.contents(conversation)) != digest(wanted):
        raise StoreDamaged(f"{conversation[:12]} does not read back as it was copied. Look at the target's disk.")
    return "copied"
