"""Edits of files whose line ends are mixed: the passage is found, and every line keeps the end it has."""

import asyncio
import re
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.tools.line_ends import MOST_COMPARED, as_models_write, passages, with_line_ends

from .conftest import Bench, having_read, put


async def edited(tools: Bench, root: Path, was: bytes, *edits: dict[str, str | bool]) -> bytes:
    put(root, {"a": was})
    result = await tools.do("edit_file", having_read(root, "a"), path="a", edits=list(edits))
    assert result.ok, result.content
    return (root / "a").read_bytes()


@pytest.mark.parametrize(
    ("was", "old", "new", "after"),
    [
        # found over both kinds, and each line keeps its own
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "A\nB\nC\n", b"A\nB\r\nC\n"),
        (b"a\r\nb\r\n\nc", "b\n\nc", "B\n\nC", b"a\r\nB\r\n\nC"),
        # a new line takes the end of the line before it, and those behind it keep theirs
        (b"a\nb\r\nc\n", "b\n", "b\nnew\n", b"a\nb\r\nnew\r\nc\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nx\nb\nc\ny\nd\n", b"a\r\nx\r\nb\nc\r\ny\r\nd\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc\n", "x\na\nb\nc\n", b"x\r\na\r\nb\nc\r\n"),
        # lines go
        (b"a\r\nb\nc\r\nd\n", "b\nc\n", "", b"a\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nc\n", b"a\r\nc\r\nd\n"),
        # a passage within one line has the end of that line
        (b"a b\r\nc\n", "b", "b\nx", b"a b\r\nx\r\nc\n"),
        (b"c\r\na b\n", "b", "b\nx", b"c\r\na b\nx\n"),
        # without a final line end: that of the line before
        (b"a\nb\r\nc", "c", "c\nd", b"a\nb\r\nc\r\nd"),
        (b"a\r\nb\nc", "c", "c\nd\n", b"a\r\nb\nc\nd\n"),
        # a passage that begins or ends with a line end has all of it
        (b"a\r\nb\nc\r\n", "\nb\n", "\nB\n", b"a\r\nB\nc\r\n"),
        (b"a\r\nb\nc\r\n", "a\n", "", b"b\nc\r\n"),
        (b"a\r\n\r\nb\n", "a\n\n", "a\n", b"a\r\nb\n"),
        # a lone CR is a character
        (b"a\rb\r\nc\n", "b\nc", "x\ny", b"a\rx\r\ny\n"),
        (b"a\rb\nc\r\n", "a\rb\nc", "x\ny", b"x\ny\r\n"),
        (b"a\r\r\nb\n", "b", "x", b"a\r\r\nx\n"),
        # the byte order mark stays
        (b"\xef\xbb\xbfa\r\nb\n", "a\nb", "x\ny", b"\xef\xbb\xbfx\r\ny\n"),
        # what is written out is taken at its word, if it is there
        (b"a\r\nb\na\n", "a\r\n", "x\n", b"x\nb\na\n"),
        (b"a\nb\r\n", "b", "x\r\ny\nz", b"a\nx\r\ny\nz\r\n"),
        (b"a\nb\r\n", "a\r\nb\n", "x\r\ny\n", b"x\ny\r\n"),
    ],
)
async def test_a_passage_is_found_and_what_is_put_in_has_its_line_ends(
    tools: Bench, root: Path, was: bytes, old: str, new: str, after: bytes
) -> None:
    assert await edited(tools, root, was, {"old": old, "new": new}) == after


async def test_every_occurrence_keeps_its_own(tools: Bench, root: Path) -> None:
    change: dict[str, str | bool] = {"old": "a\nb\n", "new": "x\ny\nz\n", "all": True}
    was = b"a\r\nb\r\n-\na\nb\n-\na\r\nb\n"
    assert await edited(tools, root, was, change) == b"x\r\ny\r\nz\r\n-\nx\ny\nz\n-\nx\r\ny\nz\n"


async def test_several_edits_each_find_what_those_before_left(tools: Bench, root: Path) -> None:
    edits: list[dict[str, str | bool]] = [
        {"old": "a\nb", "new": "a\nnew\nb"},
        {"old": "new\nb\n", "new": "NEW\nB\n"},
        {"old": "c", "new": "C"},
    ]
    assert await edited(tools, root, b"a\r\nb\nc\r\n", *edits) == b"a\r\nNEW\r\nB\nC\r\n"


async def test_the_places_that_are_shown_move_by_what_each_occurrence_grew(tools: Bench, root: Path) -> None:
    put(root, {"a": "".join(f"x\r\n{'=' * 8}\n" * 8) + "end\n"})
    edits = [{"old": "end", "new": "END"}, {"old": "x\n", "new": "y\nz\n", "all": True}]
    result = await tools.do("edit_file", having_read(root, "a"), path="a", edits=edits)
    assert result.content.splitlines()[0] == "Changed a in 9 places. It is now:"
    assert result.content.endswith("\n25\tEND")


async def test_two_passages_that_differ_in_line_ends_only_are_not_one(tools: Bench, root: Path) -> None:
    put(root, {"a": b"a\r\nb\r\n-\na\nb\n"})
    sentence = await tools.refused("edit_file", having_read(root, "a"), path="a", edits=[{"old": "a\nb", "new": "x"}])
    assert "2 times" in sentence
    sentence = await tools.refused(
        "edit_file", having_read(root, "a"), path="a", edits=[{"old": "-\r\na\r\nb", "new": "-\na\nb"}]
    )
    assert "are the same" in sentence


@pytest.mark.parametrize(
    ("was", "content", "after"),
    [
        (b"a\r\nb\nc\r\n", "a\nx\nb\nC\n", b"a\r\nx\r\nb\nC\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc", b"a\r\nb\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb\nc", "a\nb\nc\n", b"\xef\xbb\xbfa\r\nb\nc\n"),
        (b"a\rb\r\nc\r\n", "x\ny\nz\n", b"x\r\ny\r\nz\r\n"),
        (b"a\r\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),  # what is written out is taken at its word
    ],
)
async def test_a_file_that_is_written_anew_keeps_the_ends_of_its_lines(
    tools: Bench, root: Path, was: bytes, content: str, after: bytes
) -> None:
    put(root, {"a": was})
    context = having_read(root, "a")
    assert (await tools.do("write_file", context, path="a", content=content)).ok
    assert (root / "a").read_bytes() == after
    assert (await tools.do("write_file", context, path="a", content=content)).ok, "the same again changes nothing"
    assert (root / "a").read_bytes() == after


LINES = st.lists(st.tuples(st.sampled_from(["", "a", "b", "ab", "a\r", " "]), st.sampled_from(["\n", "\r\n"])))
TEXTS = st.builds(lambda lines, rest: "".join(map("".join, lines)) + rest, LINES, st.sampled_from(["", "a", "end"]))
WRITTEN = st.lists(st.sampled_from(["", "a", "b", "ab", "x"])).map("\n".join)


@given(text=TEXTS, new=WRITTEN, data=st.data())
def test_nothing_outside_a_passage_changes_and_a_line_that_stays_keeps_its_end(
    text: str, new: str, data: st.DataObject
) -> None:
    whole = as_models_write(text)
    start = data.draw(st.integers(0, len(whole)))
    old = whole[start : data.draw(st.integers(start, len(whole)))]
    if not old or "\r" in old:
        return
    for first, last in passages(text, old):
        assert as_models_write(text[first:last]) == old
        put_in = with_line_ends(new, text, first, last)
        assert as_models_write(put_in) == new, "only line ends differ from what was asked for"
        assert with_line_ends(old, text, first, last) == text[first:last]
        if "\r\n" not in text:
            assert put_in == new
        if not re.search(r"(?<!\r)\n", text) and "\n" in text:
            assert "\n" not in put_in.replace("\r\n", ""), "a file with CRLF only keeps that"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=TEXTS, new=WRITTEN, data=st.data())
def test_an_edit_leaves_every_byte_outside_its_passage(
    tools: Bench, root: Path, text: str, new: str, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    old = as_models_write(text[first:last])
    is_between = text[first - 1 : first + 1] != "\r\n" and text[last - 1 : last + 1] != "\r\n"
    if not old or "\r" in old or old == new or not is_between or len(list(passages(text, old))) != 1:
        return
    after = asyncio.run(edited(tools, root, text.encode(), {"old": old, "new": new})).decode()
    assert after.startswith(text[:first])
    assert after.removeprefix(text[:first]).endswith(text[last:])
    assert len(after) >= len(text) - (last - first)


@given(lines=st.lists(st.tuples(st.booleans(), st.sampled_from(["\n", "\r\n"])), min_size=1))
def test_lines_put_between_others_leave_these_as_they_are(lines: list[tuple[bool, str]]) -> None:
    """Each line is another, some get a neighbour: taken away again, the text is what it was."""
    text = "".join(f"{number}{end}" for number, (_, end) in enumerate(lines))
    new = "".join(f"{number}\n" + "new\n" * is_more for number, (is_more, _) in enumerate(lines))
    assert re.sub("new\r?\n", "", with_line_ends(new, text, 0, len(text))) == text


def test_a_long_text_is_compared_in_little_time() -> None:
    numbers = count()
    text = "".join(f"{next(numbers) % 7}{end}" for end in ("\n", "\r\n") * (2 * MOST_COMPARED))
    lines = as_models_write(text).split("\n")
    lines[0] = "first"
    lines[-2] = "last"
    new = with_line_ends("\n".join(lines), text, 0, len(text))
    assert new[5:-6] == text[1:-3]
