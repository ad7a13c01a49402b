"""Reading backwards through every clamp."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.nostr.pagination import Pager

Stored = list[tuple[str, int]]


def read(stored: Stored, clamp: int, since: int = 0, limit: int = 500) -> tuple[set[str], Pager]:
    """Page a relay that gives the newest `clamp` of what matches."""
    pager, found = Pager({"kinds": [1]}, since, limit), set()
    while (page := pager.next()) is not None:
        assert pager.pages < 1500
        fit = [event for event in stored if page["since"] <= event[1] <= page.get("until", 10**9)]
        fit.sort(key=lambda event: (-event[1], event[0]))
        served = fit[: min(clamp, page["limit"])]
        found |= {key for key, _ in served}
        pager.took(served)
    return found, pager


def dated(dates: Iterable[int]) -> Stored:
    return [(f"{index:04}", date) for index, date in enumerate(dates)]


@pytest.mark.parametrize("clamp", [2, 3, 7, 100, 500, 1000])
def test_everything_is_found_through_any_clamp(clamp: int) -> None:
    stored = dated(range(1, 1234))
    found, pager = read(stored, clamp)
    assert len(found) == 1233
    assert pager.clamp == (clamp if clamp < 500 else None)


def test_nothing_stored_costs_one_page_and_a_short_page_one_more_to_be_sure() -> None:
    assert [read(dated(dates), 500)[1].pages for dates in ([], [5, 6, 7])] == [1, 2]


def test_what_is_older_than_asked_for_is_not_asked_for() -> None:
    found, _ = read(dated(range(100)), 7, since=40)
    assert found == {f"{index:04}" for index in range(40, 100)}


def test_a_full_page_within_one_second_is_passed_by() -> None:
    """Its other events cannot be had by any filter; what is older can."""
    stored = dated([9] * 10 + [5] * 2)
    found, _ = read(stored, 4)
    assert {key for key, date in stored if date == 5} <= found


@given(dates=st.lists(st.integers(0, 60), max_size=80), clamp=st.integers(1, 20))
def test_ties_of_less_than_a_page_lose_nothing(dates: list[int], clamp: int) -> None:
    stored = dated(dates)
    found, _ = read(stored, clamp)
    missing = {date for key, date in stored if key not in found}
    assert all(sum(1 for other in dates if other == date) >= clamp for date in missing)


def test_a_filter_keeps_its_own_until_and_loses_its_limit() -> None:
    pager = Pager({"kinds": [1], "limit": 3, "until": 50, "since": 20}, 10)
    assert pager.next() == {"kinds": [1], "since": 20, "until": 50, "limit": 500}
