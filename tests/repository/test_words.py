"""Words of the project's early vocabulary, replaced by standard terms, do not come back.

A word is listed with the folders and files that are already free of it; extend the rows as more become so.
"""

import re

import pytest

from .tree import ROOT, name_of, named, text_of

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
ABSENT = {
    r"storeys?": ("tenex", *PAGES),
    r"thaw|thaws|thawed|frost|mend|mends|mended|mending|anew|whoever|colleague": ("tenex/cli", *PAGES),
    r"regain|regains|regained|regaining|looks on": ("tenex/cli", *PAGES),
    r"whisper|whispers|whispered": ("tenex/cli",),
}
"""Words, as a regular expression -> where they do not occur."""


@pytest.mark.parametrize("words", ABSENT)
def test_a_replaced_word_does_not_come_back(words: str) -> None:
    """The standard term is in docs/glossary.md."""
    pattern = re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")
    paths = [path for place in ABSENT[words] for suffix in (".py", ".md") for path in named(suffix, *place.split("/"))]
    assert paths
    lines = [(name_of(path), line) for path in paths for line in text_of(path).split("\n")]
    assert not [f"{name}: {line}" for name, line in lines if _has(pattern, line)]


def _has(pattern: re.Pattern[str], line: str) -> bool:
    """Whether a line has a word, also inside a name such as `is_mended` or `WasMended`."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", line).replace("_", " ").lower()
    return pattern.search(words) is not None


def test_every_module_of_the_glossary_exists() -> None:
    """A path in docs/glossary.md is a file or a folder of the package."""
    paths = re.findall(r"`([\w/]+(?:\.py|/))`", text_of(ROOT / "docs" / "glossary.md"))
    assert paths
    assert not [path for path in paths if not (ROOT / "tenex" / path).exists()]
