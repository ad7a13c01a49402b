"""A queue that is fair between people: the order in which waiting calls are served."""

from collections import Counter, OrderedDict, deque
from typing import Final, Generic, TypeVar

ADVANTAGE: Final = 4
"""Calls of a higher priority that may go before a waiting one: an owner hardly notices a crowd, and a crowd goes on."""

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves priorities in order (0 first), the people of one priority in turn, and the calls of a person in order.

    A priority that was passed over `ADVANTAGE` times in a row is served next, so no call waits for ever.
    """

    def __init__(self) -> None:
        self._people: dict[int, OrderedDict[str, deque[T]]] = {}
        self._passed: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(len(calls) for people in self._people.values() for calls in people.values())

    def add(self, item: T, person: str, priority: int) -> None:
        """Let a call wait, behind this person's other calls and after the next call of everyone else who waits."""
        self._people.setdefault(priority, OrderedDict()).setdefault(person, deque()).append(item)

    def discard(self, item: T, person: str, priority: int) -> None:
        """Take a call out, if it still waits."""
        calls = self._people.get(priority, OrderedDict()).get(person)
        if calls is not None and item in calls:
            calls.remove(item)
            self._tidy(priority, person)

    def peek(self) -> T | None:
        """The call that is served next; None where none waits."""
        if not self._people:
            return None
        return next(iter(next(iter(self._people[self._next()].values()))))

    def pop(self) -> T:
        """Take out the call that is served next.

        Raises:
            IndexError: none waits.
        """
        if not self._people:
            raise IndexError("pop from an empty queue")
        priority = self._next()
        person, calls = next(iter(self._people[priority].items()))
        item = calls.popleft()
        self._people[priority].move_to_end(person)
        self._passed[priority] = 0
        self._passed.update(other for other in self._people if other > priority)
        self._tidy(priority, person)
        return item

    def _next(self) -> int:
        starved = [priority for priority in self._people if self._passed[priority] >= ADVANTAGE]
        return min(starved or self._people)

    def _tidy(self, priority: int, person: str) -> None:
        people = self._people[priority]
        if not people[person]:
            del people[person]
        if not people:
            del self._people[priority], self._passed[priority]
