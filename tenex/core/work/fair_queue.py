"""Turns: who is served next where calls wait for one another, and which steps wait and so have not begun."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from tenex.core.config import Role
from tenex.core.effects import Work

PRIORITY: Final[Mapping[Role, int]] = {Role.OWNER: 0, Role.MEMBER: 1, Role.GUEST: 2}
"""Of calls that wait; 0 is served first."""

GUESTS: Final = PRIORITY[Role.GUEST]

ADVANTAGE: Final = 4
"""Calls of a higher priority that may go before a waiting one, so that neither is starved."""

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves priorities in order (0 first), the users of one priority in turn, and the calls of a user in order.

    A priority that was passed over `ADVANTAGE` times in a row is served next, so that none starves.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[int, str, T]] = []
        """Priority, user and call; users in the order of their turns, the calls of each in the order they came."""
        self._passed: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, item: T, user: str, priority: int) -> None:
        """Queue a call behind this user's other calls and after the next call of every other user."""
        self._calls.append((priority, user, item))

    def discard(self, item: T) -> None:
        """Remove a call if it is still queued."""
        self._calls = [call for call in self._calls if call[2] != item]

    def has_before(self, priority: int) -> bool:
        """Whether a call of a higher priority waits."""
        return any(waiting < priority for waiting, _, _ in self._calls)

    def peek(self, held: int | None = None) -> T | None:
        """The call that is served next; None if there is none, but for those of a priority that is `held`."""
        call = self._next(held)
        return call[2] if call is not None else None

    def pop(self, held: int | None = None) -> T:
        """Remove and return the call that is served next; there must be one."""
        call = self._next(held)
        assert call is not None, "no call waits"
        priority, user, item = call
        others = [call for call in self._calls if call[:2] != (priority, user)]
        own = [call for call in self._calls if call[:2] == (priority, user)]
        self._calls = [*others, *own[1:]]
        self._passed = {
            other: self._passed.get(other, 0) + (other > priority) for other, _, _ in self._calls if other != priority
        }
        return item

    def _next(self, held: int | None) -> tuple[int, str, T] | None:
        waiting = {priority for priority, _, _ in self._calls if priority != held}
        if not waiting:
            return None
        first = min({key for key in waiting if self._passed.get(key, 0) >= ADVANTAGE} or waiting)
        return next(call for call in self._calls if call[0] == first)


def _nothing() -> None:
    """Begin what needs no leave to begin."""


class Step:
    """An effect that is carried out, as the queues see it in which it waits."""

    __slots__ = ("begin", "is_waiting", "work")

    def __init__(self, work: Work, begin: Callable[[], None] = _nothing) -> None:
        self.work = work
        self.begin = begin
        """Called when its turn has come; raises where it may not begin any more."""
        self.is_waiting = False
        """Whether it waits for its turn and has not begun."""

    def end(self) -> None:
        """Hold nothing of what it was begun for: it has ended."""
        self.begin = _nothing


STEP: Final[ContextVar[Step | None]] = ContextVar("step", default=None)
"""The step that the current task carries out."""


@contextmanager
def waiting_for_turn(*works: Work) -> Iterator[None]:
    """Mark the current step as one that has not begun, if it is one of these: a stop does not wait for it.

    At the end of the block it begins, or is cancelled where it may not any more.
    """
    step = STEP.get()
    if step is None or step.work not in works:  # a tool that asks a model has begun
        yield
        return
    step.is_waiting = True
    try:
        yield
    finally:
        step.is_waiting = False
    step.begin()
