"""A name that looks the same on disk is meant, whatever form of Unicode it is in: Macs write another than models."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace

from .conftest import Bench, contents, having_read, names_in, put

PAIRS = [
    ("café.txt", "cafe\u0301.txt"),
    ("한글.md", unicodedata.normalize("NFD", "한글.md")),
    ("ệ", "e\u0302\u0323"),  # its marks in an order that no form has
    ("Å", "\u212b"),
]


@pytest.mark.parametrize(("one", "other"), [*PAIRS, *((b, a) for a, b in PAIRS)])
async def test_every_tool_finds_the_file_and_its_folder_and_records_the_name_on_disk(
    tools: Bench, root: Path, one: str, other: str
) -> None:
    assert one != other
    put(root, {f"{one}/{one}": "text\n"})
    asked = f"{other}/{other}"
    shown = f"{one}/{one}"
    assert set((await tools.do("read_file", path=asked)).read) == {shown}
    assert (await tools.do("list_files", path=other)).content == shown
    assert (await tools.do("list_files", pattern=other)).content == shown
    assert (await tools.do("search_files", path=other, pattern="text")).content == f"{shown}:1: text"
    assert (await tools.do("search_files", glob=f"{other}/*", pattern="text")).content == f"{shown}:1: text"

    context = having_read(root, shown)
    edited = await tools.do("edit_file", context, path=asked, edits=[{"old": "text", "new": "changed"}])
    assert edited.touched == (shown,)
    assert (await tools.do("write_file", having_read(root, shown), path=asked, content="again\n")).touched == (shown,)
    assert contents(root) == {shown: "again\n"}
    assert "exists already" in await tools.refused("move_file", path=shown, to=asked)
    moved = await tools.do("move_file", path=asked, to=f"{other}/b")
    assert (moved.touched, contents(root)) == ((shown, f"{one}/b"), {f"{one}/b": "again\n"})
    assert (await tools.do("delete_file", having_read(root, f"{one}/b"), path=f"{other}/b")).ok
    assert names_in(root / one) == []
    assert names_in(root) == [one]


async def test_a_name_that_is_there_letter_for_letter_comes_first(tools: Bench, root: Path) -> None:
    put(root, {"café": "one\n", "cafe\u0301": "two\n"})
    assert (await tools.do("read_file", path="café")).content == "1\tone"
    assert (await tools.do("read_file", path="cafe\u0301")).content == "1\ttwo"


async def test_several_that_look_the_same_are_named_so_that_they_can_be_told_apart(tools: Bench, root: Path) -> None:
    put(root, {"\u1ec7": "one", "e\u0323\u0302": "two"})
    sentence = await tools.refused("read_file", path="e\u0302\u0323")
    assert '"e\\u0323\\u0302", "\\u1ec7"' in sentence
    assert (await tools.do("read_file", path="\u1ec7")).ok


async def test_names_that_are_no_text_are_passed_over(tools: Bench, root: Path) -> None:
    (root / os.fsdecode(b"caf\xe9")).write_text("latin")
    assert "There is no file café" in await tools.refused("read_file", path="café")
    assert (await tools.do("write_file", path="café", content="x")).ok
    assert len(names_in(root)) == 2


def test_nothing_is_looked_up_in_a_folder_outside(workspace: Workspace, root: Path, outside: Path) -> None:
    (outside / "cafe\u0301").mkdir()
    (root / "away").symlink_to(outside)
    with pytest.raises(Refusal, match="away/café/x leads outside"):
        workspace.resolve("away/café/x")


@given(name=st.text(st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="/"), min_size=1))
def test_any_name_is_found_in_each_form(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("any"))
    try:
        place = workspace.resolve(name)
        workspace.update(place, lambda _: b"x", 10)
    except Refusal:  # it is no plain name, or too long
        return
    for form in ("NFC", "NFD"):
        assert workspace.resolve(unicodedata.normalize(form, name)) == place
