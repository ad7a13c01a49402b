"""Every entry of the catalogue is a test here, or a line of README.md that says why it is none."""

import re

from tests.house.tree import ROOT

HERE = ROOT / "tests" / "bugs"
ENTRIES = {f"B{number:02}" for number in range(1, 31)}


def test_every_entry_is_a_test_or_has_a_reason() -> None:
    tested = {
        number
        for path in HERE.glob("test_*.py")
        for name in re.findall(r"^(?:async )?def test((?:_B\d\d)+)_", path.read_text(), re.MULTILINE)
        for number in name.strip("_").split("_")
    }
    reasons = dict(re.findall(r"^\| (B\d\d) \| (.+) \|$", (HERE / "README.md").read_text(), re.MULTILINE))
    assert tested | set(reasons) == ENTRIES
    assert not tested & set(reasons), "an entry that has a test needs no reason"
