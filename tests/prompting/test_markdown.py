"""Headings split a text; what only looks like a heading does not."""

import pytest

from tenex.prompting.markdown import sections


def test_each_section_knows_its_heading_line_and_text() -> None:
    before, one, two = sections("hello\n\n# One\ntext\n\n### deeper\nmore\n## Two ##\n", first_line=10)
    assert (before.level, before.heading, before.text) == (0, "", "hello")
    assert (one.level, one.heading, one.line, one.text) == (1, "One", 12, "text\n\n### deeper\nmore")
    assert (two.level, two.heading, two.line, two.text, two.source) == (2, "Two", 17, "", "## Two ##")


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("````sh\n## a\n```\n## b\n~~~~\n## c\n````\n## real\n", ["", "real"]),
        ("``` a ``` b\n## real", ["", "real"]),
        ("~~~\n## a\n## b", [""]),
        ("##tag\n#1\n    ## code\n", [""]),
        ("", [""]),
    ],
)
def test_what_only_looks_like_a_heading_is_text(text: str, headings: list[str]) -> None:
    assert [section.heading for section in sections(text)] == headings
