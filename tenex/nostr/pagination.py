"""Pagination of a relay's stored events, newest first, whatever limit the relay puts on a page.

Relays return the newest N matching events without a sign that there are more. So each page ends at the second of the
oldest event seen, that second included, until a page contains nothing new.
"""

from collections.abc import Iterable
from typing import Any, Final

from .filters import Filter

PAGE_LIMIT: Final = 500
"""The most that strfry and most other relays return."""

ALLOWANCE: Final = 50
"""Events a relay may send beyond the requested limit; new ones may arrive in between."""

MAX_UNLIMITED: Final = 5000
"""Events accepted for a filter without a limit; requests for more set a limit and paginate."""

MAX_PAGES: Final = 2000
"""A million events; a relay that sends more is making them up."""


class Pager:
    """The pages of one filter."""

    def __init__(self, wanted: Filter, since: int, limit: int = PAGE_LIMIT) -> None:
        """Page what `wanted` matches back to `since` (seconds)."""
        self._wanted = {key: value for key, value in wanted.items() if key not in ("limit", "since", "until")}
        self._since = max(since, int(wanted.get("since", since)))
        self._until: int | None = wanted.get("until")
        self._limit = limit
        self._seen: set[str] = set()
        self._largest = 0
        self.pages = 0
        self.clamp: int | None = None
        """The page size the relay enforces, once it is known to be below the requested one."""

    def next(self) -> dict[str, Any] | None:
        """The filter of the next page; None when all has been read."""
        if self._until is not None and self._until < self._since:
            return None
        page = {**self._wanted, "since": self._since, "limit": self._limit}
        return page if self._until is None else {**page, "until": self._until}

    def took(self, page: Iterable[tuple[str, int]]) -> None:
        """Take the result of one page: id and date of each event that matches its filter."""
        dates = dict(page)
        self.pages += 1
        if not dates or self.pages >= MAX_PAGES:
            self._stop()
            return
        fresh = dates.keys() - self._seen
        oldest = min(dates.values())
        # only events of the second that is asked for again can come twice
        boundary = {key for key, date in dates.items() if date == oldest}
        self._seen = boundary | self._seen if oldest == self._until else boundary
        if fresh:
            if self.pages > 1 and self._largest < self._limit:
                self.clamp = self._largest  # the page before was short of the limit, and yet there was more
            self._until = oldest
        elif len(dates) < self._largest:
            self._stop()
        else:
            self._until = oldest - 1  # a whole page within one second: its other events are out of reach, go past it
        self._largest = max(self._largest, len(dates))

    def _stop(self) -> None:
        self._until = self._since - 1


def most_events(filters: Iterable[Filter]) -> int:
    """Count the events that one REQ may bring at most."""
    return ALLOWANCE + sum(int(wanted.get("limit", MAX_UNLIMITED)) for wanted in filters)
