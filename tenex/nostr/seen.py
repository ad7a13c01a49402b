"""Ids seen lately, in bounded memory; what is older is asked of whoever keeps them for good."""

from typing import Final

GENERATION: Final = 10_000
"""About 1.5 MB for two generations: some minutes of a very busy relay."""


class RecentIds:
    """Two sets that take turns: cheaper to keep than an order of use, and the latest 10,000 are always there."""

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int = GENERATION) -> None:
        self._size = size
        self._new: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._new or event_id in self._old

    def add(self, event_id: str) -> None:
        """Remember an id."""
        self._new.add(event_id)
        if len(self._new) >= self._size:
            self._old, self._new = self._new, set()
