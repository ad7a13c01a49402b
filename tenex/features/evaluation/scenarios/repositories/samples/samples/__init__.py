"""Figures of samples."""

from .middle import mean, median
from .spread import span, variance

__all__ = ["mean", "median", "span", "variance"]
