"""Markdown as plain text: marks go, words and code stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.nostr.threading.plain_text import LONGEST, plain_text

CASES = {
    "headings": ("# One\n\ntext\n## Two ##\nmore", "One\n\ntext\nTwo\nmore"),
    "a heading with a line below": ("One\n===\ntext\n\nTwo\n---", "One\ntext\n\nTwo"),
    "bold and italic": ("**bold**, *italic* and ***both***", "bold, italic and both"),
    "bold in Chinese": ("这是**重点**内容", "这是重点内容"),
    "underscores": ("__init__.py and _private", "__init__.py and _private"),
    "products and patterns": ("2*3*4, *.py and *.txt", "2*3*4, *.py and *.txt"),
    "links": ("See [the docs](https://a.example/b_c?d=%20).", "See the docs (https://a.example/b_c?d=%20)."),
    "a link with a title": ('[docs](https://a.example "The title")', "docs (https://a.example “The title”)"),
    "a link that shows its address": ("[https://a.example](https://a.example)", "https://a.example"),
    "addresses": ("<https://a.example> and <me@a.example>", "https://a.example and me@a.example"),
    "pictures": ("![A cat](https://a.example/cat.png)", "A cat (https://a.example/cat.png)"),
    "a bold link": ("**[docs](a.md)**", "docs (a.md)"),
    "code": ("Run `a * b` and ``c ` d``, **`e`**", "Run `a * b` and ``c ` d``, `e`"),
    "escapes": (r"\*not bold\* C:\_x \. \[a\]", r"*not bold* C:_x \. \[a\]"),
    "entities": ("a &amp; b &lt; **c**", "a &amp; b &lt; c"),
    "lists": ("- **one**\n  - two\n1. *three*\n   goes on", "- one\n  - two\n1. three\n   goes on"),
    "quotations": ("> **a**\n> b\n>> *c*", "> a\n> b\n>> c"),
    "a table": ("| a | **b** |\n|---|:-:|\n| 1 | 2 |\n| x | y | z |", "a | b\n1 | 2\nx | y | z"),
    "a table in a quotation": ("> | a | b |\n> |---|---|\n> | 1 | 2 |", "> a | b\n> 1 | 2"),
    "a rule": ("a\n\n***\n\n**b**", "a\n\n***\n\nb"),
    "references": ("[a][1] **b**\n\n[1]: https://a.example", "[a][1] b\n\n[1]: https://a.example"),
    "HTML": ("<b>a</b> **c**", "<b>a</b> c"),
    "lines": ("**a**  \nb\\\nc\n    d", "a\nb\nc\n    d"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_marks_go_and_words_stay(name: str) -> None:
    markdown, plain = CASES[name]
    assert plain_text(markdown) == plain


CODE = "```python\n# **no heading**\nx = [a](b)  # *\n| a |\n```"


@pytest.mark.parametrize(
    "block", [CODE, "~~~\n# a\n~~~", "    # **indented**\n    *code*", f"> {CODE.replace(chr(10), chr(10) + '> ')}"]
)
def test_blocks_of_code_are_unchanged(block: str) -> None:
    assert plain_text(f"# Title\n\n{block}\n\n**end**") == f"Title\n\n{block}\n\nend"


def test_a_text_that_is_very_long_stays_as_it_is() -> None:
    text = "**a** " * (LONGEST // 6 + 1)
    assert plain_text(text) == text


_PIECES = st.sampled_from(
    [
        *(
            "**",
            "*",
            "_",
            "__",
            "`",
            "``",
            "~~",
            "# ",
            "## ",
            "- ",
            "1. ",
            "> ",
            "\n",
            "\n\n",
            "  \n",
            "\\",
            "|",
            " | ",
        ),
        *(
            "| a | b |\n|---|---|\n| c | d |\n",
            "```\ncode\n```\n",
            "---\n",
            "===\n",
            "[text](https://x.example)",
            "![p](q)",
        ),
        *("<https://y.example>", "\t", "    ", "word", "a", "9", "é", "漢", "](", "[", ")", "(", "!", '"', "<b>"),
    ]
)


@given(pieces=st.lists(_PIECES, max_size=40))
def test_no_letter_and_no_digit_is_lost_or_moved(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert _words(plain_text(text)) == _words(text)


@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_keeps_its_words(text: str) -> None:
    assert _words(plain_text(text)) == _words(text)


@given(pieces=st.lists(_PIECES, max_size=20))
def test_a_block_of_code_behind_any_text_is_unchanged(pieces: list[str]) -> None:
    """Unless the text has opened another block that goes on."""
    before = "".join(piece for piece in pieces if "`" not in piece and not piece.startswith(("    ", "\t")))
    assert plain_text(f"{before}\n\n\nend\n\n{CODE}").endswith(CODE)


def _words(text: str) -> str:
    return "".join(char for char in text if char.isalnum())
