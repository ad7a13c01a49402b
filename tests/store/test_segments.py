"""The names of a journal's files."""

import os
from pathlib import Path

import pytest

from tenex.store import segments


def test_a_file_has_a_name_by_its_number_and_no_other_file_is_taken_for_one() -> None:
    for number, name in ((1, "journal.jsonl"), (2, "journal-000002.jsonl"), (1_000_000, "journal-1000000.jsonl")):
        assert (segments.name_of(number), segments.number_of(name)) == (name, number)
    for name in (
        "journal-000001.jsonl",
        "journal-2.jsonl",
        "journal-0000002.jsonl",
        "journal.torn-x-1",
        ".journal-000002.jsonl.abcd1234.tmp",
        "journal-000002.jsonl.bak",
        "journal-٠٠٠٠٠٢.jsonl",
    ):
        assert segments.number_of(name) is None, name


def test_all_files_count_and_the_newest_shows_when(tmp_path: Path) -> None:
    folder, found = os.fspath(tmp_path), list[tuple[int, int]]()
    with pytest.raises(FileNotFoundError):
        segments.stat_all(folder)
    for number, size, at in ((1, 5, 5_000), (999_999, 7, 9_000), (2, 4, 1), (1_000_000, 1, 7_000)):
        path = tmp_path / segments.name_of(number)
        path.write_bytes(b"x" * size)
        os.utime(path, ns=(0, at))
        found.append(segments.stat_all(folder))
    assert [found[0], found[-1]] == [(5, 5_000), (17, 7_000)]
    assert segments.numbers(tmp_path) == [1, 2, 999_999, 1_000_000]
    assert segments.current(tmp_path).name == "journal-1000000.jsonl", "not the last by name"
    assert segments.current(tmp_path / "gone").name == "journal.jsonl"
    assert segments.missing([2, 4]) == ["journal.jsonl", "journal-000003.jsonl"]
    assert segments.missing([1, 2, 3]) == segments.missing([]) == []
