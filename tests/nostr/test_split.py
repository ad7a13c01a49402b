"""Long answers as Markdown: each part is valid by itself, and nothing that a reader sees as one is cut."""

import json
import re
import time
from collections.abc import Callable

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tenex.nostr.threading.split import MAX_EVENT_BYTES, split_text

MARKDOWN = MarkdownIt("commonmark").enable("table")
AFTER = "after the end"


def size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def tokens(text: str, kind: str) -> list[Token]:
    return [token for token in MARKDOWN.parse(text) if token.type == kind]


def is_closed(part: str) -> bool:
    """Whether what follows a part is no code of it."""
    return not any(AFTER in token.content for token in tokens(f"{part}\n\n{AFTER}", "fence"))


def code(parts: tuple[str, ...]) -> list[str]:
    """The lines of code that a reader of all parts sees."""
    blocks = (token.content for part in parts for token in tokens(part, "fence"))
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def checked(text: str, room: int = MAX_EVENT_BYTES) -> tuple[str, ...]:
    parts = split_text(text, room)
    assert len(parts) > 1
    assert all(size(part) <= room for part in parts)
    assert all(map(is_closed, parts))
    return parts


LINES = [f"    value_{number} = compute({number}, 'some text')" for number in range(2_000)]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```python", "```"),
        ("```", "```"),
        ("~~~ruby", "~~~"),
        ("````markdown", "````"),
        ("   ```sh title=no", "   ```"),
    ],
)
def test_an_answer_of_80_kb_with_one_block_of_code_is_a_block_in_each_part(opening: str, closing: str) -> None:
    text = "\n".join(["Here it is:", "", opening, *LINES, closing, "", "That is all."])
    assert len(text) > 80_000
    parts = checked(text)
    assert code(parts) == code((text,))
    infos = {token.info for part in parts for token in tokens(part, "fence")}
    assert infos == {opening.strip().strip("`~")}
    assert parts[0].startswith("Here it is:")
    assert parts[-1].endswith("That is all.")


def test_a_block_that_holds_fences_is_closed_by_its_own() -> None:
    inner = "```py\nprint(1)\n```\n~~~\ntext\n~~~\n"
    text = f"See:\n\n````markdown\n{inner * 60}````\n\nThat is all."
    parts = checked(text, 600)
    assert code(parts) == code((text,))
    assert all(part.count("````") == 2 for part in parts[:-1])


@pytest.mark.parametrize(
    ("opening", "before", "closing"),
    [
        ("- ```py", "  ", "  ```"),
        ("* ~~~", "  ", "  ~~~"),
        ("1. ```py", "   ", "   ```"),
        ("12) ```py", "    ", "    ```"),
        ("- a step\n\n  ```py", "  ", "  ```"),
        ("1. a step\n   ```py", "   ", "   ```"),
        ("> ```py", "> ", "> ```"),
        (">```", ">", ">```"),
        ("> > ```py", "> > ", "> > ```"),
        ("> - ```py", ">   ", ">   ```"),
    ],
)
def test_a_block_in_a_list_or_a_quotation_goes_on_as_one(opening: str, before: str, closing: str) -> None:
    lines = [f"{before}line_{number} = {number}" for number in range(200)]
    text = "\n".join([opening, *lines, closing, "", "That is all."])
    parts = checked(text, 800)
    assert [line.strip() for line in code(parts)] == [line.strip() for line in code((text,))]
    assert len(code(parts)) == 200


@pytest.mark.parametrize("around", ["", "  ", "> ", "- "])
@pytest.mark.parametrize(
    ("head", "delimiters", "row"),
    [
        ("| name | value |", "|---|---:|", "| row {} | {} |"),
        ("name | value", ":---|:--:", "row {} | {}"),
        ("| one |", "| --- |", "| {}, {} |"),
    ],
)
def test_a_table_that_goes_on_repeats_its_head(around: str, head: str, delimiters: str, row: str) -> None:
    inner = around.replace("-", " ")
    rows = [inner + row.format(number, number) for number in range(300)]
    text = "\n".join(["The table:", "", around + head, inner + delimiters, *rows, "", "That is all."])
    parts = split_text(text, 900)
    assert all(size(part) <= 900 for part in parts)
    assert len(parts) > 2
    for part in (part for part in parts if "|" in part):
        assert len(tokens(part, "table_open")) == 1
        assert "".join(token.content for token in tokens(part, "inline")).count(head.strip("| ").split(" | ")[0]) >= 1
    assert [number for number in range(300) if f" {number}" not in " ".join(parts)] == []


def test_a_table_in_code_has_no_head() -> None:
    rows = "\n".join(f"| {number} | x |" for number in range(200))
    text = f"```\n| a | b |\n|---|---|\n{rows}\n```\n"
    assert "".join(checked(text, 500)).count("|---|---|") == 1


JOINED = [
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪",
    "👍🏽",
    "é".encode().decode() + "\u0301\u0302\u0323",
    "क्षि",
    "각",
    "1️⃣",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
]


@pytest.mark.parametrize("joined", JOINED)
@pytest.mark.parametrize("before", range(4))
def test_what_is_seen_as_one_character_is_not_cut(joined: str, before: int) -> None:
    parts = split_text("a" * before + joined * 300, 400)
    assert len(parts) > 1
    assert "".join(parts) == "a" * before + joined * 300
    for part in parts:
        assert not part.lstrip("a").replace(joined, "")


WORDS = st.lists(st.text("abc| `~>-*#1.é👍", min_size=1, max_size=12), min_size=1, max_size=12).map(" ".join)
FENCES = st.sampled_from(["```", "```py", "````", "~~~", "~~~~ text", "> ```", "- ```", "  ```", "1. ```"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Paragraphs, blocks of code, tables, and lines that only look like their beginnings."""
    blocks: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["text", "code", "table", "mark"])):
            case "text":
                blocks.append("\n".join(draw(st.lists(WORDS, min_size=1, max_size=5))))
            case "mark":
                blocks.append(draw(FENCES))
            case "code":
                opening = draw(FENCES)
                closing = re.sub(r"[a-z-]|1\.", " ", opening).rstrip()
                blocks.append("\n".join([opening, *draw(st.lists(WORDS, max_size=20)), closing]))
            case "table":
                rows = draw(st.lists(WORDS.map(lambda words: f"| {words} |"), max_size=20))
                blocks.append("\n".join(["| head |", "|---|", *rows]))
    return draw(st.sampled_from(["\n\n", "\n"])).join(blocks)


@example(text="```\n1 1 👍 1111👍 >111 1 11 11 1👍 11é\n```", room=30)
@given(text=documents(), room=st.integers(60, 400))
def test_nothing_is_lost_but_white_space_and_nothing_added_but_fences_and_heads(text: str, room: int) -> None:
    parts = split_text(text, room)
    assert all(size(part) <= room for part in parts)
    rest = iter(regex.sub(r"\s", "", "".join(parts)))
    assert all(char in rest for char in regex.sub(r"\s", "", text)), "every character is there, in order"
    for line in (line.lstrip(" \t>") for part in parts for line in part.splitlines()):
        assert line.strip() in text or re.fullmatch(r"(`{3,}|~{3,})", line), "a part of a line, or the end of a block"


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: "```\n" * (n // 4),
        lambda n: "```",
        lambda n: "`" * n,
        lambda n: "~" * n,
        lambda n: ("```" + "x" * 197 + "\n") * (n // 201),
        lambda n: "|" * n,
        lambda n: "|\n" * (n // 2),
        lambda n: "|-" * (n // 2),
        lambda n: "| a |\n|---|\n" + "| b |\n" * (n // 6),
        lambda n: "|" + " " * n + "|",
        lambda n: "a" * n,
        lambda n: "👨‍👩‍👧‍👦" * (n // 7),
        lambda n: "\u0301" * n,
        lambda n: "> " * (n // 2),
        lambda n: ("> " * 20 + "```\n") * (n // 44),
        lambda n: "\n" * n,
        lambda n: " " * n,
        lambda n: "- ```\n  x\n" * (n // 10),
        lambda n: "1" * n + ". ```",
        lambda n: "\x01" * n,
    ],
)
def test_hostile_text_of_1_mb_takes_time_that_grows_with_it(hostile: Callable[[int], str]) -> None:
    def seconds(size: int) -> float:
        text = hostile(size)
        began = time.process_time()
        split_text(text, MAX_EVENT_BYTES)
        return time.process_time() - began

    def grows_with_it() -> bool:
        return seconds(1_000_000) < max(0.5, 20 * seconds(250_000))

    assert any(grows_with_it() for _ in range(3)), "garbage may be collected in one measurement, not in each"
    assert seconds(1_000_000) < 10
