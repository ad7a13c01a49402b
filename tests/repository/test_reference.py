"""The generated pages of docs/reference are what the code gives."""

from pathlib import Path

import pytest

from tenex.settings import Settings

from .reference import PAGES, settings
from .tree import name_of, text_of


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_of_the_reference_is_what_the_code_gives(path: Path) -> None:
    """`python -m tests.repository.reference` writes it."""
    assert text_of(path) == PAGES[path]()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_the_page_of_settings_has_each_section(name: str) -> None:
    page = settings()
    assert f"| `{name}` |" in page or f"## `[{name}" in page
