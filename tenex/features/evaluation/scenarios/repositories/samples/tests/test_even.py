"""The median of an even number of values, which fails before it is repaired."""

import unittest

from samples import median


class Even(unittest.TestCase):
    """Two values are in the middle."""

    def test_median_of_two(self) -> None:
        """Their mean."""
        self.assertEqual(median([1, 2]), 1.5)
