"""The middle of a sample."""

from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """The sum of the values, divided by their number."""
    return sum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """The value in the middle of the sorted values; of two, their mean."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
