"""The spread of a sample."""

import unittest

from samples import span, variance


class Spread(unittest.TestCase):
    """Span and variance."""

    def test_span(self) -> None:
        """From the least to the greatest value."""
        self.assertEqual(span([4, 1, 3]), 3)

    def test_variance_of_fractions(self) -> None:
        """It is not rounded."""
        self.assertEqual(variance([0.25, 0.75]), 0.0625)
