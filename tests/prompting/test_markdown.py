"""Headings split a text; what only looks like a heading does not."""

from tenex.prompting.markdown import sections


def test_each_section_knows_its_heading_line_and_text() -> None:
    before, one, two = sections("hello\n\n# One\ntext\n\n### deeper\nmore\n## Two ##\n", first_line=10)
    assert (before.level, before.heading, before.text) == (0, "", "hello")
    assert (one.level, one.heading, one.line, one.text) == (1, "One", 12, "text\n\n### deeper\nmore")
    assert (two.level, two.heading, two.line, two.text) == (2, "Two", 17, "")


def test_source_keeps_the_heading_as_it_was_written() -> None:
    assert sections("##  Two ##\ntext\n")[1].source == "##  Two ##\ntext"


def test_a_heading_inside_a_code_fence_is_text() -> None:
    """A longer fence is not closed by a shorter one, nor by the other kind."""
    text = "````sh\n## a\n```\n## b\n~~~~\n## c\n````\n## real\n"
    assert [section.heading for section in sections(text)] == ["", "real"]


def test_inline_code_with_three_backticks_opens_no_fence() -> None:
    assert [section.heading for section in sections("``` a ``` b\n## real")] == ["", "real"]


def test_an_open_fence_reaches_to_the_end() -> None:
    assert len(sections("~~~\n## a\n## b")) == 1


def test_a_hash_without_a_space_is_no_heading() -> None:
    assert len(sections("##tag\n#1\n    ## code\n")) == 1


def test_an_empty_text_is_one_empty_section() -> None:
    (only,) = sections("")
    assert only.text == ""
