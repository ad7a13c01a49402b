"""How far the values of a sample lie apart."""

from collections.abc import Sequence

from .middle import mean


def span(values: Sequence[float]) -> float:
    """The difference between the greatest and the least value."""
    return max(values) - min(values)


def variance(values: Sequence[float]) -> float:
    """The mean of the squared distances from the mean."""
    middle = mean(values)
    return mean([(value - middle) ** 2 for value in values])
