"""Ranges of whole numbers are right to the last digit."""

from functools import cache

import pytest

from tenex.output_states.ranges import whole_numbers

from .kit import Engine


@cache
def engine(low: int | None, high: int | None) -> Engine:
    return Engine.of_gbnf(f"root ::= {whole_numbers(low, high)}\n")


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (1, 1), (0, 9), (1, 1000), (17, 23), (99, 101), (-3, 1207), (-250, -17), (-1, 0), (0, 1), (305, 305)],
)
def test_every_number_around_a_range_is_told_right(low: int, high: int) -> None:
    near = {*range(low - 12, low + 130), *range(high - 130, high + 12), -low, -high, 0, 10 * high, high // 2}
    for number in near:
        assert engine(low, high).accepts(str(number)) == (low <= number <= high), number
    assert engine(low, high).accepts("-0") == (low <= 0 <= high)
    assert not engine(low, high).accepts("007")


def test_an_open_range_takes_19_digits() -> None:
    assert engine(None, None).accepts("9" * 19)
    assert engine(None, None).accepts("-" + "9" * 19)
    assert not engine(None, None).accepts("1" + "0" * 19)
    assert engine(1000, None).accepts("1000")
    assert not engine(1000, None).accepts("999")
    assert not engine(None, -5).accepts("-4")
    assert engine(None, -5).accepts("-50")


def test_an_empty_range_has_no_body() -> None:
    assert whole_numbers(3, 2) == ""
    assert whole_numbers(0, -1) == ""
