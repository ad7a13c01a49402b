"""What a daemon does with what it sees of the others: index it, take it over, share limits with them, or leave it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tenex.app.workers import FULL, WorkerWatch
from tenex.core.ids import ConversationId
from tenex.store.conversations import Change

ONE = ConversationId("1" * 64)
TWO = ConversationId("2" * 64)


class Others:
    """The store, the index and the coordinator of a daemon."""

    def __init__(self) -> None:
        self.changed = [
            Change(id=ONE, bytes=10, is_free=True),
            Change(id=TWO, bytes=20, is_free=False),
        ]
        self.drains = False
        self.daemons = 1
        self.is_full: list[bool] = []
        self.read: list[ConversationId] = []
        self.handed_over = 0
        self.taken: list[ConversationId] = []
        self.shared: list[int] = []
        self.followed = 0

    def watch(self) -> WorkerWatch:
        parts: Any = self
        return WorkerWatch(parts, parts, parts, lambda _: None, self.shared.append, self.follow)

    async def follow(self) -> None:
        self.followed += 1

    async def changes(self, *, is_full: bool) -> list[Change]:
        self.is_full.append(is_full)
        return self.changed

    async def refresh(self, _: object, lengths: Mapping[ConversationId, int]) -> tuple[list[Any], set[ConversationId]]:
        self.read += lengths
        return [], set(lengths)

    def has_event(self, _: str) -> bool:
        return False

    def __contains__(self, _: ConversationId) -> bool:
        return False

    def hand_over(self) -> None:
        self.handed_over += 1

    def take_over(
        self, free: Iterable[ConversationId], unfinished: Collection[ConversationId], _: Callable[[str], bool]
    ) -> list[ConversationId]:
        self.taken += [name for name in free if name in unfinished]
        return []


async def test_what_is_free_and_unfinished_is_taken_over_and_read_once_while_it_does_not_change() -> None:
    others = Others()
    watch = others.watch()
    for _ in range(2):
        await watch.look()
    assert (others.read, others.taken) == ([ONE, TWO], [ONE, ONE])
    others.changed = [Change(id=ONE, bytes=11, is_free=True)]
    await watch.look()
    assert others.read == [ONE, TWO, ONE]


async def test_a_drained_daemon_takes_nothing_and_looks_at_everything_when_it_is_back() -> None:
    others = Others()
    watch = others.watch()
    others.drains = True
    for _ in range(2):
        await watch.look()
    assert (others.handed_over, others.taken, others.is_full) == (2, [], [False, False])
    others.drains = False
    for _ in range(2):
        await watch.look()
    assert (others.handed_over, others.taken, others.is_full[2:]) == (2, [ONE, ONE], [True, False])


async def test_everything_is_looked_at_now_and_then() -> None:
    others = Others()
    watch = others.watch()
    for _ in range(2 * FULL + 2):
        await watch.look()
    assert others.is_full.index(True) == FULL
    assert others.is_full.count(True) == 2


async def test_the_limits_of_providers_are_shared_again_when_a_daemon_comes_or_goes() -> None:
    others = Others()
    watch = others.watch()
    for daemons in (1, 1, 3, 3, 2):
        others.daemons = daemons
        await watch.look()
    assert others.shared == [3, 2]
