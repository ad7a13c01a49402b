"""Every function that reads foreign text ends with any of it; `make bench` measures how its time grows."""

from pathlib import Path

import pytest

from tenex.core.ids import Slug
from tenex.nostr.urls import normalise_url
from tenex.prompting.agents import read_agent
from tenex.prompting.loader import LARGEST, _read
from tests.fakes.forkserver import run
from tests.service.kit import ROOT, environment

SIZE = 2_500
"""Characters of each of the hundred texts; those that once hung have 1 MB."""


def test_every_reader_of_foreign_text_ends_whatever_is_written() -> None:
    """In a process of its own: a search that takes hours would hold this one, and no timeout could end it."""
    done = run(["tests.benchmarks.readers", str(SIZE)], environment(), ROOT, seconds=120)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])


def test_front_matter_that_repeats_itself_by_aliases_is_refused() -> None:
    """Ten lines held ten billion values."""
    lines = ["state:", "  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"  a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    faults: list[str] = []
    text = "\n".join(["---", "name: A", "role: b", "kind: worker", "use_when: c", *lines, "---", ""])
    assert read_agent(Slug("a"), text, "a.md", (), faults) is None
    assert "repeats too much by aliases" in faults[0]


def test_long_front_matter_and_a_large_file_of_a_prompt_are_refused(tmp_path: Path) -> None:
    faults: list[str] = []
    assert read_agent(Slug("a"), "---\n" + "a: b\n" * 10_000 + "---\n", "a.md", (), faults) is None
    file = tmp_path / "a.md"
    file.write_bytes(b"a" * (LARGEST + 1))
    assert _read(file, faults) is None
    assert ["32,000 is the most" in faults[0], "larger than 256 KiB" in faults[-1]] == [True, True]


def test_a_relay_url_of_a_megabyte_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 2,048 characters"):
        normalise_url(f"wss://{'漢' * 1_000_000}")
