"""The middle of a sample."""

import unittest

from samples import mean, median


class Middle(unittest.TestCase):
    """Mean and median."""

    def test_mean(self) -> None:
        """Of values that are all different."""
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_median_of_an_odd_number(self) -> None:
        """The value in the middle."""
        self.assertEqual(median([3, 1, 2]), 2)
