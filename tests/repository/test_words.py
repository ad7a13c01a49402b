"""Words of the project's early vocabulary, replaced by standard terms, do not come back.

A word is listed with the folders and files that are already free of it; extend the rows as more become so.
"""

import re

import pytest

from .tree import ROOT, name_of, named, text_of

PACKAGE = "tenex"
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
ABSENT = {
    r"thaw|thaws|thawed": ("tenex/cli", *PAGES),
    r"storey|storeys": (PACKAGE, *PAGES),
    r"frost": ("tenex/cli", *PAGES),
    r"mend|mends|mended|mending": ("tenex/cli", *PAGES),
    r"anew": ("tenex/cli", *PAGES),
    r"whoever": ("tenex/cli", *PAGES),
    r"colleague": ("tenex/cli", *PAGES),
    r"whisper|whispers|whispered": ("tenex/cli",),
    r"regain|regains|regained|regaining": ("tenex/cli", *PAGES),
    r"looks on": ("tenex/cli", *PAGES),
}
"""Word, as a regular expression -> where it does not occur."""


@pytest.mark.parametrize("word", ABSENT)
def test_a_replaced_word_does_not_come_back(word: str) -> None:
    """The standard term is in docs/glossary.md."""
    pattern = re.compile(rf"(?<![a-z])(?:{word})(?![a-z])")
    paths = [path for place in ABSENT[word] for suffix in (".py", ".md") for path in named(suffix, *place.split("/"))]
    assert paths
    assert not [
        f"{name_of(path)}: {line}" for path in paths for line in text_of(path).split("\n") if _has(pattern, line)
    ]


def _has(pattern: re.Pattern[str], line: str) -> bool:
    """Whether a line has a word, also inside a name such as `is_mended` or `WasMended`."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", line).replace("_", " ").lower()
    return pattern.search(words) is not None


def test_every_module_of_the_glossary_exists() -> None:
    """A path in docs/glossary.md is a file or a folder of the package."""
    paths = re.findall(r"`([\w/]+(?:\.py|/))`", text_of(ROOT / "docs" / "glossary.md"))
    assert paths
    assert not [path for path in paths if not (ROOT / PACKAGE / path).exists()]
