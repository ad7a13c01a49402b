"""The scanners follow the rules, written a second time over whole texts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.output_states.endings import FenceScanner, MarkScanner, Scanner, text_scanner

FUZZ = settings(max_examples=200, database=None)


def scanned(scanner: Scanner, text: str) -> tuple[str, str] | None:
    """The content and what follows its delimiter; None if it is not closed."""
    content = ""
    for at, character in enumerate(text):
        content += scanner.step(character)
        if scanner.closed:
            return content, text[at + (not scanner.gives_back) :]
    content += scanner.finish()
    return (content, "") if scanner.closed else None


def by_lines(text: str, at_line_start: bool) -> tuple[str, str] | None:
    """A fence of three backticks by the rules: line by line, with the blocks within it counted."""
    lines, in_block, at = text.split("\n"), False, 0
    for number, line in enumerate(lines):
        if number or at_line_start:
            rest = line.lstrip("`")
            if len(line) - len(rest) == 3:
                is_closing = not rest or rest[0] in " \t\r"
                if is_closing and not in_block:
                    return text[: max(at - 1, 0)], text[at + 3 :]
                in_block = not is_closing
        at += len(line) + 1
    return None


@FUZZ
@given(st.text(alphabet="`` \n\na", max_size=30), st.booleans())
def test_a_fence_closes_where_the_rules_require(text: str, at_line_start: bool) -> None:
    assert scanned(FenceScanner("`", 3, at_line_start), text) == by_lines(text, at_line_start)


@FUZZ
@given(st.text(alphabet="ab", min_size=1, max_size=5), st.text(alphabet="abc", max_size=30))
def test_a_mark_closes_at_its_first_occurrence(mark: str, text: str) -> None:
    before, found, after = text.partition(mark)
    assert scanned(MarkScanner(mark), text) == ((before, after) if found else None)


def test_only_a_line_of_backticks_or_tildes_is_a_fence() -> None:
    assert scanned(text_scanner(("```x\n", "\n```")), "```\n") == ("", "\n")
    assert scanned(text_scanner(("~~~~", "\n~~~~")), "~~~~\nx\n~~~~\n") == ("~~~~\nx", "\n")
    for closing in ("```", "\n``", "\n```\n", "</x>", "\n```~", "\n---"):
        assert isinstance(text_scanner(("<", closing)), MarkScanner)
