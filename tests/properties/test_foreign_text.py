"""Every function that reads foreign text ends with any of it; `make bench` measures how its time grows."""

from tests.fakes.forkserver import run
from tests.service.kit import ROOT, environment

SIZE = 5_000
"""Characters of each of the hundred texts; those that once hung have 1 MB."""


def test_every_reader_of_foreign_text_ends_whatever_is_written() -> None:
    """In a process of its own: a search that takes hours would hold this one, and no timeout could end it."""
    done = run(["tests.benchmarks.readers", str(SIZE)], environment(), ROOT, seconds=120)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])
