"""Every entry of the catalogues is a test, or a line of README.md that states why it is none."""

import re

from tests.repository.tree import ROOT, named, text_of

README = text_of(ROOT / "tests" / "bugs" / "README.md")
ENTRIES = {f"B{number:02}" for number in range(1, 31)}
MEASURED = {*(f"1.1 {letter}" for letter in "abcdef"), "1.2", *(f"1.3 {letter}" for letter in "abcdefgh"), "1.4"}


def test_every_entry_is_a_test_or_has_a_reason() -> None:
    tested = {
        number.upper()
        for path in (*named(".py", "tests", "bugs"), *named(".py", "tests", "core"))
        for name in re.findall(r"^(?:async )?def test((?:_b\d\d)+)_", text_of(path), re.MULTILINE)
        for number in name.strip("_").split("_")
    }
    reasons = dict(re.findall(r"^\| (B\d\d) \| (.+) \|$", README, re.MULTILINE))
    assert tested | set(reasons) == ENTRIES
    assert not tested & set(reasons), "an entry that has a test needs no reason"


def test_everything_that_was_measured_wrong_with_others_is_a_test_in_the_indexed_place() -> None:
    tested: set[tuple[str, str]] = set()
    for path in named(".py", "tests"):
        where = path.relative_to(ROOT / "tests").as_posix()
        for system, letter, other in re.findall(
            r"^(?:async )?def test_1_(?:([13])_([a-z])|([24]))_", text_of(path), re.MULTILINE
        ):
            tested.add((f"1.{other}" if other else f"1.{system} {letter}", where))
    listed = {
        (entry, where)
        for entry, cell in re.findall(r"^\| (1\.\d(?: [a-z])?) \| [^|]+ \| ([^|]+) \|$", README, re.MULTILINE)
        for where in re.findall(r"`([^`]+)`", cell)
    }
    assert {entry for entry, _ in tested} == MEASURED
    assert listed == tested
