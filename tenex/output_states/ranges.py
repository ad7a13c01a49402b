"""Whole numbers between bounds, as the body of a grammar rule."""

from collections.abc import Iterable
from typing import Final

from .rules import either, literal

DIGITS: Final = 19
"""Of every 64-bit number."""


def whole_numbers(low: int | None, high: int | None) -> str:
    """The decimal numbers from `low` to `high`, both included, as JSON writes them; empty if there is none."""
    most = 10**DIGITS - 1
    low, high = max(low if low is not None else -most, -most), min(high if high is not None else most, most)
    options = []
    if high >= 0 and low <= high:
        options += [either(_up(max(low, 0), high))]
    if low <= 0 and low <= high:  # JSON has a minus zero
        options += [f'"-" {either(_up(max(-high, 0), -low))}']
    return either(options) if options else ""


def _up(low: int, high: int) -> Iterable[str]:
    """Numbers without a sign, by their length."""
    for length in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        yield _between(str(least), str(min(high, 10**length - 1)))


def _between(low: str, high: str) -> str:
    """Numbers of one length."""
    if len(low) == 1:
        return _digit(int(low), int(high))
    if low[0] == high[0]:
        return f"{literal(low[0])} {_between(low[1:], high[1:])}"
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    options = []
    if low[1:] != "0" * rest:
        options.append(f"{literal(low[0])} {_between(low[1:], '9' * rest)}")
        first += 1
    tail = []
    if high[1:] != "9" * rest:
        tail.append(f"{literal(high[0])} {_between('0' * rest, high[1:])}")
        last -= 1
    if first <= last:
        options.append(f"{_digit(first, last)} [0-9]{{{rest}}}")
    return either([*options, *tail])


def _digit(low: int, high: int) -> str:
    return literal(str(low)) if low == high else f"[{low}-{high}]"
