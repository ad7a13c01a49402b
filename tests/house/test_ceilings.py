"""Files stay small enough to be read in one go: ceilings on length."""

from statistics import median

from .tree import ROOT, name_of, named, text_of

HIGHEST = 400
"""Lines of a module: split by idea before it comes to this."""

MIDDLE = 200
"""Lines of the median module."""


def _lengths() -> dict[str, int]:
    return {name_of(path): len(text_of(path).splitlines()) for path in named(".py", "tenex")}


def test_no_module_is_longer_than_400_lines() -> None:
    """A module above the ceiling is two ideas in one file."""
    long = {name: lines for name, lines in _lengths().items() if lines > HIGHEST}
    assert not long, f"split these by idea: {long}"


def test_the_median_module_has_fewer_than_200_lines() -> None:
    """A house of many files near the ceiling would keep the letter of the rule only."""
    lengths = _lengths()
    assert len(lengths) > 100, "the package was not found"
    assert median(lengths.values()) < MIDDLE


def test_the_readme_is_short() -> None:
    """Fewer than 200 lines: what does not fit belongs to docs/."""
    assert len(text_of(ROOT / "README.md").splitlines()) < 200


def test_every_decision_record_is_at_most_40_lines() -> None:
    """A decision that needs more than 40 lines has not been understood yet."""
    records = [path for path in named(".md", "docs", "adr") if path.name != "README.md"]
    assert len(records) >= 9
    long = {path.name: lines for path in records if (lines := len(text_of(path).splitlines())) > 40}
    assert not long
