"""Copies conversations from one store to another, byte for byte; a second run goes on where the first one ended."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tenex.core.errors import AppendFailed, StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.store.contents import compare, digest
from tenex.store.conversations import Conversations

Outcome = Literal["copied", "same", "newer there"]


@dataclass(slots=True)
class Copied:
    """What became of each conversation."""

    outcomes: dict[ConversationId, Outcome] = field(default_factory=dict)
    faults: dict[ConversationId, str] = field(default_factory=dict)
    """Those that were not copied, each with the sentence why."""

    def count(self, outcome: Outcome) -> int:
        """How many have it."""
        return sum(other == outcome for other in self.outcomes.values())


async def copy_all(
    source: Conversations,
    target: Conversations,
    shown: Callable[[Sequence[ConversationId]], Iterable[ConversationId]] = iter,
) -> Copied:
    """Copy every conversation; one that cannot be copied does not stop the others."""
    done = Copied()
    for name in shown(sorted(await source.lengths())):
        try:
            done.outcomes[name] = await copy_one(source, target, name)
        except (StoreError, AppendFailed) as fault:
            done.faults[name] = str(fault)
    return done


async def copy_one(source: Conversations, target: Conversations, conversation: ConversationId) -> Outcome:
    """Copy one conversation, and compare what the target then holds with it by its checksum.

    Raises:
        StoreError: the target holds something else, or one of the two cannot be read.
        AppendFailed: a worker writes it.
    """
    wanted = await source.contents(conversation)
    there = await target.contents(conversation)
    standing = compare(there, wanted)
    if standing == "same":
        return "same"
    if standing == "ahead":
        return "newer there"
    if standing == "other":
        raise StoreError(f"{conversation[:12]} is there with other records; nothing was changed. Look which is right.")
    await target.put(conversation, there, wanted)
    if digest(await target.contents(conversation)) != digest(wanted):
        raise StoreDamaged(f"{conversation[:12]} does not read back as it was copied. Look at the target's disk.")
    return "copied"
