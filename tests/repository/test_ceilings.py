"""Documents stay short enough to be read in one go."""

from .tree import ROOT, named, text_of


def test_the_readme_is_short() -> None:
    """Fewer than 150 lines: what does not fit belongs to docs/."""
    assert len(text_of(ROOT / "README.md").splitlines()) < 150


def test_every_decision_record_is_at_most_40_lines() -> None:
    """A decision that needs more than 40 lines has not been understood yet."""
    records = [path for path in named(".md", "docs", "adr") if path.name != "README.md"]
    assert len(records) >= 9
    long = {path.name: lines for path in records if (lines := len(text_of(path).splitlines())) > 40}
    assert not long
