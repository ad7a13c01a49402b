"""Reading and searching show text and report what was left out; changes are whole, and seen before they are made."""

import asyncio
import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools import files_read, ignored
from tenex.tools.files_read import LARGEST_FILE, search_files_tool
from tenex.tools.workspace import Workspace, digest

from .conftest import Bench, fails, git, having_read, make_context, names_in, put


async def read(tools: Bench, path: str = "a", **more: Any) -> str:
    result = await tools.do("read_file", path=path, **more)
    assert result.ok
    return result.content


async def test_a_file_is_shown_as_it_is_with_its_hash(tools: Bench, root: Path) -> None:
    put(root, {"a.txt": "eins\r\nzwei ü\n", "empty": ""})
    seen = {"a.txt": hashlib.sha256("eins\r\nzwei ü\n".encode()).hexdigest()}
    assert await tools.do("read_file", path="./a.txt") == ToolResult(ok=True, content="1\teins\r\n2\tzwei ü", read=seen)
    part = await tools.do("read_file", path="a.txt", limit=1)
    assert (part.content, dict(part.read)) == ("1\teins\r\n[Lines 1 to 1 of 2; read on with offset 2.]", seen)
    assert await read(tools, "empty") == "(The file is empty.)"
    assert await read(tools, "a.txt", offset=2) == "2\tzwei ü\n[Lines 2 to 2 of 2; this is the end.]"


async def test_reading_on_by_the_remarks_gives_the_whole_file(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut by size, a file can still be read to its end, and no line is lost or shown twice."""
    monkeypatch.setattr(files_read, "SHOWN_AT_ONCE", 100)
    lines = [f"{n:04} {'é' * (n % 30)}" for n in range(60)]
    put(root, {"a": "\n".join(lines) + "\n"})
    seen: list[str] = []
    while len(seen) < len(lines):
        body = (await read(tools, offset=len(seen) + 1)).rpartition("\n[")[0]
        shown = [line.partition("\t") for line in body.split("\n")]
        assert 0 < len("\n".join(line for *_, line in shown).encode()) <= 100
        assert [number for number, *_ in shown] == [str(len(seen) + n) for n in range(1, len(shown) + 1)]
        seen += [line for *_, line in shown]
    assert seen == lines


async def test_a_long_line_is_cut_between_characters(tools: Bench, root: Path) -> None:
    put(root, {"a": "x" + "é" * 200_000 + "\nnext\n"})
    body, _, remark = (await read(tools)).rpartition("\n[")
    assert len(body.encode()) == len("1\t") + 256 * 1024 - 1
    assert remark == "Line 1 is longer than 256 KiB and was cut. Lines 1 to 1 of 2; read on with offset 2.]"


TREE = {
    "z.py": "import os\nx = f(1)\r\n",
    "a.md": "",
    "src/app.py": "def f(n):\n    return n\n",
    "src/deep/test_x.py": "F(1) is called\n",
    "src/deep/data.json": "",
    ".git/HEAD": "f(1)\n",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": ""}, "a.md src/app.py src/deep/data.json src/deep/test_x.py z.py"),
        ({"path": "src"}, "src/app.py src/deep/data.json src/deep/test_x.py"),
        ({"pattern": "*.py"}, "src/app.py src/deep/test_x.py z.py"),
        ({"pattern": "src/**/*.py"}, "src/app.py src/deep/test_x.py"),
        ({"pattern": "**/test_*"}, "src/deep/test_x.py"),
        ({"path": "src", "pattern": "*.md"}, "No file fits."),
    ],
)
async def test_files_are_listed_sorted_and_by_pattern(
    tools: Bench, root: Path, arguments: dict[str, Any], expected: str
) -> None:
    put(root, TREE)
    assert (await tools.do("list_files", **arguments)).content.replace("\n", " ") == expected


async def test_a_listing_is_bounded_in_order_and_reports_what_it_left_out(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await tools.do("list_files")).content == "There are no files here."
    put(root, dict.fromkeys(("0000caf\udce9", *(f"{n:04}" for n in range(509))), ""))
    *lines, remark = (await tools.do("list_files")).content.split("\n")
    assert lines == ["0000", "0000caf?", *(f"{n:04}" for n in range(1, 499))]
    assert remark == "[10 more are not shown; narrow it down with `path` or `pattern`.]"
    monkeypatch.setattr(files_read, "VISITED", 3)
    assert (await tools.do("list_files")).content == (
        "0000\n0000caf?\n0001\n[Only the first 3 files were looked at; name a folder in `path`.]"
    )


IGNORED = {
    ".gitignore": "/build/\n*.log\n!keep.log\n",
    "src/.gitignore": "made.py\n",
    "build/lib/x.py": "secret\n",
    "a.log": "secret\n",
    "keep.log": "secret\n",
    "src/made.py": "secret\n",
    "src/app.py": "",
    ".venv/lib/y.py": "secret\n",
}


async def test_lists_and_searches_follow_gitignore_and_say_what_they_left_out(tools: Bench, root: Path) -> None:
    put(root, IGNORED)
    remark = (
        "[Left out, as ignored or made by programs: a.log, .venv/, build/, src/made.py; name one in `path` to see it.]"
    )
    assert (await tools.do("list_files")).content == f".gitignore\nkeep.log\nsrc/.gitignore\nsrc/app.py\n{remark}"
    assert (await tools.do("list_files", path="build")).content == "build/lib/x.py"
    assert (await tools.do("list_files", path="build/lib")).content == "build/lib/x.py"
    assert (await tools.do("list_files", path=".venv")).content == ".venv/lib/y.py"
    assert await search(tools, "secret") == ["keep.log:1: secret"]
    assert await search(tools, "secret", path="build") == ["build/lib/x.py:1: secret"]
    assert await search(tools, "nowhere") == ["Nothing was found.", remark]


async def test_without_git_nothing_is_ignored(tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, IGNORED)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "build/lib/x.py" in (await tools.do("list_files")).content


async def test_a_setting_of_git_in_the_workspace_decides_nothing(tools: Bench, root: Path, tmp_path: Path) -> None:
    """The repository's own settings may have been written by an agent; here they would run a program."""
    git(root, "init", "-q")
    ran = tmp_path / "ran"
    git(root, "config", "core.fsmonitor", f"touch {ran}; false")
    put(root, IGNORED)
    assert "build/" in (await tools.do("list_files")).content
    assert not ran.exists()


async def test_an_ignore_file_that_takes_for_ever_is_not_waited_for(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored, "DEADLINE", 0.2)
    put(root, {".gitignore": "*a" * 40 + "b\n", "a" * 200: "x"})
    assert "a" * 200 in (await tools.do("list_files")).content


async def test_a_long_list_has_one_line_for_many_like_files(tools: Bench, root: Path) -> None:
    languages = [f"src/locale/{one}{two}/LC_MESSAGES/app.po" for one in "abcdef" for two in "abcdefghij"]
    modules = [f"src/module_{number:02}.py" for number in range(30)]
    put(root, dict.fromkeys((*languages, *modules, *(f"top_{number:02}.txt" for number in range(20))), ""))
    lines = (await tools.do("list_files")).content.split("\n")
    assert lines == ["src/locale/*/LC_MESSAGES/app.po (60 files)", *modules, *(f"top_{n:02}.txt" for n in range(20))]
    assert (await tools.do("list_files", pattern="*.po")).content.split("\n") == languages
    assert (await tools.do("list_files", path="src/locale")).content.split("\n") == languages  # few enough to be named


# ---- searching -----------------------------------------------------------------------------------------------------


async def search(tools: Bench, pattern: str, **more: Any) -> list[str]:
    result = await tools.do("search_files", pattern=pattern, **more)
    assert result.ok
    return result.content.split("\n")


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["z.py:2: x = f(1)"]),
        ({"ignore_case": True}, ["src/deep/test_x.py:1: F(1) is called", "z.py:2: x = f(1)"]),
        ({"ignore_case": True, "path": "src"}, ["src/deep/test_x.py:1: F(1) is called"]),
        ({"ignore_case": True, "glob": "z*"}, ["z.py:2: x = f(1)"]),
        ({"path": "z.py"}, ["z.py:2: x = f(1)"]),
        ({"path": "src/app.py"}, ["Nothing was found."]),
    ],
)
async def test_lines_are_found_by_text_and_by_expression_alike(
    tools: Bench, root: Path, regex: bool, more: dict[str, Any], expected: list[str]
) -> None:
    put(root, TREE)
    assert await search(tools, r"f\(1\)" if regex else "f(1)", regex=regex, **more) == expected
    assert await search(tools, r"^\s+return \w$", regex=True) == ["src/app.py:2:     return n"]


async def test_a_catastrophic_expression_is_stopped_and_the_loop_never_waits(workspace: Workspace) -> None:
    put(workspace.root, {"a": "a" * 60 + "!\n"})
    tools = Bench([search_files_tool(lambda *_: workspace, deadline=0.5)])
    turns = 0
    task = asyncio.create_task(tools.refused("search_files", pattern="(a|aa)+$", regex=True))
    while not task.done():
        await asyncio.wait([task], timeout=0.01)
        turns += 1
    assert "The expression took too long." in task.result()
    assert turns > 5


@pytest.mark.parametrize("regex", [False, True])
async def test_finds_are_capped_and_long_lines_cut(tools: Bench, root: Path, regex: bool) -> None:
    put(root, {"a": ("x" * 2_000 + "\n") * 250})
    lines = await search(tools, "x", regex=regex)
    assert len(lines) == files_read.MOST_FOUND + 1
    assert lines[0] == "a:1: " + "x" * 300 + " [cut]"
    assert lines[-1] == "[There are more than these 200; narrow it down.]"


async def test_what_is_not_searched_is_counted(tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = b"secret\n" + b"x" * files_read.LARGEST_SEARCHED
    put(root, {"a": "no secret here\n", "bin": b"secret\0", "latin": b"secret\xe9", "big": big})
    (root / "link").symlink_to("../outside/secret.txt")
    assert await search(tools, "secret") == [
        "a:1: no secret here",
        "[4 files were left out: binary, larger than 1 MiB, a link, or not readable.]",
    ]
    monkeypatch.setattr(files_read, "SEARCHED", 20)
    put(root, {"b": "secret\n", "c": "secret\n"})
    lines = await search(tools, "secret")
    assert lines[0] == "a:1: no secret here"
    assert lines[-1].startswith("[There was too much")


async def test_no_folder_stays_open_after_a_file_in_it_was_written_and_read(tools: Bench) -> None:
    async def write_and_read(name: str) -> int:
        await tools.do("write_file", path=f"a/b/c/{name}", content="x")
        assert await read(tools, f"a/b/c/{name}") == "1\tx"
        return len(list(Path("/proc/self/fd").iterdir()))

    before = await write_and_read("first")
    assert await write_and_read("second") <= before


async def test_a_new_file_is_written_with_its_folders(tools: Bench, root: Path) -> None:
    result = await tools.do("write_file", path="./src/app.py", content="print('ü')\n")
    assert (root / "src/app.py").read_text() == "print('ü')\n"
    assert result == ToolResult(
        ok=True,
        content="Created src/app.py (12 bytes).",
        touched=("src/app.py",),
        read={"src/app.py": digest("print('ü')\n".encode())},
    )


@pytest.mark.parametrize("touched", [frozenset(), frozenset({"a"})], ids=["", "written by another agent of the cycle"])
async def test_only_what_was_read_and_is_unchanged_since_is_overwritten(
    tools: Bench, root: Path, touched: frozenset[str]
) -> None:
    put(root, {"a": "mine"})
    unseen, outdated = make_context(touched=touched), having_read(root, "a", touched=touched)
    written = await tools.do("write_file", outdated, path="a", content="a person's")
    assert written.content == "Replaced a (10 bytes)."
    change = [{"old": "person", "new": "friend"}]
    edited = await tools.do("edit_file", make_context(read=written.read), path="a", edits=change)
    assert (edited.content, edited.touched) == ("Changed a in 1 place. It is now:\n1\ta friend's", ("a",))
    assert dict(edited.read) == {"a": digest(b"a friend's")}
    for context, message in ((unseen, "read it first"), (outdated, "has changed since you read it")):
        for tool, more in (
            ("write_file", {"content": "yours"}),
            ("edit_file", {"edits": [{"old": "friend", "new": "x"}]}),
            ("delete_file", {}),
        ):
            assert message in await tools.refused(tool, context, path="a", **more)
    assert (root / "a").read_text() == "a friend's"


async def test_a_write_repeated_after_a_crash_succeeds(tools: Bench, root: Path) -> None:
    """The result was lost, so the context is as it was before: the same call again succeeds and changes nothing."""
    put(root, {"a": "old"})
    for path, context in (("a", having_read(root, "a")), ("b", make_context())):
        first = await tools.do("write_file", context, path=path, content="new")
        inode = (root / path).stat().st_ino
        again = await tools.do("write_file", context, path=path, content="new")
        assert (again.ok, again.touched, dict(again.read)) == (True, first.touched, dict(first.read))
        assert (root / path).stat().st_ino == inode


async def test_two_agents_do_not_overwrite_each_other(tools: Bench, root: Path) -> None:
    put(root, {"a": "base"})
    context = having_read(root, "a")
    writes = (tools.do("write_file", context, path="a", content=f"from {n}") for n in range(6))
    (winner,) = (n for n, result in enumerate(await asyncio.gather(*writes)) if result.ok)
    assert (root / "a").read_text() == f"from {winner}"


@pytest.mark.parametrize(
    ("was", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\ny", b"x\ny\r\n"),  # what is written out is taken at its word
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\nb\n", "a\nb", "x", b"x\n"),
        (b"one\r\ntwo\r\n", "one", "1", b"1\r\ntwo\r\n"),
    ],
)
async def test_an_edit_of_several_lines_has_the_line_ends_of_the_file(
    tools: Bench, root: Path, was: bytes, old: str, new: str, after: bytes
) -> None:
    """A model is shown both kinds alike, and would look for its passage in vain."""
    put(root, {"a": was})
    assert (await tools.do("edit_file", having_read(root, "a"), path="a", edits=[{"old": old, "new": new}])).ok
    assert (root / "a").read_bytes() == after


async def test_every_occurrence_is_changed_if_asked_for(tools: Bench, root: Path) -> None:
    put(root, {"a": "abb"})
    every = [{"old": "b", "new": "", "all": True}]
    result = await tools.do("edit_file", having_read(root, "a"), path="a", edits=every)
    assert result.content == "Changed a in 2 places. It is now:\n1\ta"
    assert (root / "a").read_text() == "a"


async def test_several_edits_of_one_file_are_made_in_one_call_or_none(tools: Bench, root: Path) -> None:
    lines = [f"line {number}" for number in range(1, 31)]
    put(root, {"a": "\n".join(lines) + "\n"})
    edits = [
        {"old": "line 5\n", "new": "five\nand a half\n"},
        {"old": "line 2\n", "new": ""},
        {"old": "five", "new": "FIVE"},
        {"old": "line 29", "new": "last but one"},
    ]
    result = await tools.do("edit_file", having_read(root, "a"), path="a", edits=edits)
    lines[28:29], lines[4:5], lines[1:2] = ["last but one"], ["FIVE", "and a half"], []
    assert (root / "a").read_text() == "\n".join(lines) + "\n"
    shown = result.content.split("\n")
    assert shown[0] == "Changed a in 4 places. It is now:"
    assert shown[1:9] == [f"{number}\t{line}" for number, line in enumerate(lines[:8], 1)]
    assert shown[9:] == ["[...]", *(f"{number}\t{line}" for number, line in enumerate(lines[25:], 26))]

    before = (root / "a").read_bytes()
    wrong = [{"old": "line 1\n", "new": "one\n"}, {"old": "line 2\n", "new": "two\n"}]
    sentence = await tools.refused("edit_file", having_read(root, "a"), path="a", edits=wrong)
    assert "does not contain `old` of edit 2." in sentence
    assert (root / "a").read_bytes() == before


async def test_line_numbers_in_a_passage_are_named_as_the_reason(tools: Bench, root: Path) -> None:
    put(root, {"a": "one\ntwo\n"})
    copied = [{"old": "1\tone\n2\ttwo", "new": "x"}]
    assert "Leave out the line numbers" in await tools.refused(
        "edit_file", having_read(root, "a"), path="a", edits=copied
    )


@pytest.mark.parametrize(
    ("was", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\nz\r\n", b"x\r\ny\nz\r\n"),  # what is written out is taken at its word
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"a\n", "b", b"b\n"),
        (b"a", "b", b"b"),
        (b"a\n", "", b""),
        (b"\xff", "b\n", b"b\n"),
        (None, "b", b"b"),
    ],
)
async def test_a_file_that_is_written_anew_keeps_its_form(
    tools: Bench, root: Path, was: bytes | None, content: str, after: bytes
) -> None:
    context = make_context()
    if was is not None:
        put(root, {"a": was})
        (root / "a").chmod(0o750)
        context = make_context(read={"a": digest(was)})
    result = await tools.do("write_file", context, path="a", content=content)
    assert (root / "a").read_bytes() == after
    assert dict(result.read) == {"a": digest(after)}
    if was is not None:
        assert (root / "a").stat().st_mode & 0o777 == 0o750


async def test_a_file_that_is_changed_through_a_link_keeps_the_link(tools: Bench, root: Path) -> None:
    put(root, {"real/a": "one\n"})
    (root / "link").symlink_to("real/a")
    seen = make_context(read={"real/a": digest(b"one\n")})
    change = [{"old": "one", "new": "two"}]
    result = await tools.do("edit_file", seen, path="link", edits=change)
    assert (result.touched, (root / "link").is_symlink()) == (("real/a",), True)
    assert (root / "real/a").read_text() == "two\n"


FILES = {"a": b"abb", "b": b"b", "nul": b"a\0b", "latin": b"caf\xe9", "utf-16": b"\xff\xfea\0", "folder/x": b""}
LARGEST = "é" * (512 * 1024)
A = {"path": "a"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("read_file", {"path": "nul"}, "binary"),
        ("read_file", {"path": "latin"}, "not UTF-8 text (byte 4)"),
        ("read_file", {"path": "utf-16"}, "binary"),
        ("read_file", {"path": "folder"}, "`list_files`"),
        ("read_file", {"path": "none"}, "There is no file none"),
        ("read_file", {"path": "no/ne"}, "There is no file no/ne"),
        ("read_file", {"path": "."}, "own folder"),
        ("read_file", {"path": "huge"}, "larger than 16384 KiB"),
        ("read_file", A | {"offset": 2}, "a has 1 lines; there is no line 2."),
        ("list_files", {"path": "none"}, "no folder none"),
        ("list_files", {"path": "../outside"}, "`..`"),
        ("search_files", {"path": "none", "pattern": "secret"}, "no folder none"),
        ("search_files", {"path": "../outside", "pattern": "secret"}, "`..`"),
        ("search_files", {"pattern": "f(", "regex": True}, "`pattern` is not a valid regular expression: missing )"),
        ("write_file", {"path": "out/new", "content": "x"}, "outside the workspace"),
        ("write_file", {"path": "../outside/a", "content": "x"}, "`..`"),
        ("write_file", {"path": "folder", "content": "x"}, "folder"),
        ("write_file", {"path": ".git/config", "content": "x"}, "belongs to git"),
        ("write_file", {"path": "a/below", "content": "x"}, "a part of its path is a file"),
        ("write_file", {"path": "new", "content": LARGEST + "x"}, "1024 KiB is the most"),
        ("write_file", {"path": "new", "content": "x\ud800"}, "half of a pair"),
        ("edit_file", A | {"edits": [{"old": "x", "new": "y"}]}, "was not changed: it does not contain `old`. Copy it"),
        ("edit_file", A | {"edits": [{"old": "b", "new": "c"}]}, "it contains `old` 2 times"),
        ("edit_file", A | {"edits": [{"old": "a", "new": "a"}]}, "are the same"),
        ("edit_file", A | {"edits": [{"old": "a", "new": "\ud800"}]}, "half of a pair"),
        ("edit_file", A | {"edits": [{"old": "a", "new": LARGEST}]}, "Split it"),
        ("edit_file", {"path": "none", "edits": [{"old": "a", "new": "b"}]}, "There is no file none"),
        ("edit_file", {"path": "nul", "edits": [{"old": "a", "new": "b"}]}, "binary"),
        ("move_file", {"path": "none", "to": "new"}, "no file none"),
        ("move_file", {"path": "folder", "to": "new"}, "is a folder"),
        ("move_file", {"path": "pipe", "to": "new"}, "neither a file nor a folder"),
        ("move_file", {"path": "../outside/secret.txt", "to": "new"}, "`..`"),
        ("move_file", {"path": "out/secret.txt", "to": "new"}, "outside the workspace"),
        ("move_file", A | {"to": "../new"}, "`..`"),
        ("move_file", A | {"to": "out/new"}, "outside the workspace"),
        ("move_file", A | {"to": ".git"}, "belongs to git"),
        ("move_file", A | {"to": "."}, "own folder"),
        ("move_file", A | {"to": "a/new"}, "a part of its path is a file"),
        ("move_file", A | {"to": "b"}, "exists already"),
        ("move_file", A | {"to": "folder"}, "exists already"),
        ("move_file", A | {"to": "link"}, "exists already"),
        ("move_file", A | {"to": "a"}, "exists already"),
        ("delete_file", {"path": "none"}, "no file none"),
        ("delete_file", {"path": "folder"}, "not empty"),
        ("delete_file", {"path": "."}, "own folder"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_sentence_and_changes_nothing(
    tools: Bench, root: Path, outside: Path, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    put(root, FILES)
    (root / "out").symlink_to(outside)
    (root / "link").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    before = names_in(root)
    assert sentence in await tools.refused(tool, having_read(root, "a", "nul"), **arguments)
    assert names_in(root) == before
    assert {name: (root / name).read_bytes() for name in FILES} == FILES
    assert names_in(outside) == ["secret.txt"]


async def test_as_much_as_permitted_is_written(tools: Bench) -> None:
    assert (await tools.do("write_file", path="a", content=LARGEST)).ok


# ---- chores --------------------------------------------------------------------------------------------------------


async def test_chores_change_only_documentation_and_what_this_cycle_has_changed(tools: Bench, root: Path) -> None:
    """By the real path: a link in a folder of documents does not open the sources."""
    put(root, {"src/other.py": "old", "mine.py": "old", "README.md": "old"})
    (root / "docs-link").symlink_to("src")
    known = having_read(root, "src/other.py", "mine.py", "README.md").read
    context = make_context(Phase.CHORES, read=known, touched=frozenset({"mine.py"}))
    calls: dict[str, dict[str, Any]] = {
        "write_file": {"content": "new"},
        "edit_file": {"edits": [{"old": "old", "new": "new"}]},
        "move_file": {"to": "docs/moved.md"},
        "delete_file": {},
    }
    for path in ("src/other.py", "docs-link/other.py"):
        for tool, more in calls.items():
            found = await tools.refused(tool, context, path=path, **more)
            assert "may not be changed in the chores phase" in found
            assert "mine.py" in found
    assert "chores" in await tools.refused("write_file", context, path="src/new.py", content="new")
    assert "chores" in await tools.refused("move_file", context, path="README.md", to="notes.py")
    for path in ("mine.py", "README.md", "docs/new/page.txt"):
        assert (await tools.do("write_file", context, path=path, content="new")).ok
    assert (await tools.do("move_file", context, path="README.md", to="docs/readme.md")).ok
    assert (await tools.do("move_file", context, path="mine.py", to="renamed.py")).ok
    put(root, {"mine.py": "old"})
    assert (await tools.do("delete_file", context, path="mine.py")).ok
    assert names_in(root) == ["docs", "docs-link", "renamed.py", "src"]
    assert (root / "src/other.py").read_text() == "old"


# ---- moving and deleting -------------------------------------------------------------------------------------------


async def test_a_file_is_moved_with_the_folders_it_needs_and_counts_as_read_under_its_new_name(
    tools: Bench, root: Path
) -> None:
    put(root, {"a": "one", "c": "other"})
    (root / "a").chmod(0o755)
    context = having_read(root, "a", "c")
    put(root, {"c": "changed since"})
    moved = await tools.do("move_file", context, path="a", to="x/y/b")
    assert (moved.content, moved.touched) == ("Moved a to x/y/b.", ("a", "x/y/b"))
    assert names_in(root) == ["c", "x"]
    assert (root / "x/y/b").stat().st_mode & 0o777 == 0o755
    seen = make_context(read={**moved.read, **(await tools.do("move_file", context, path="c", to="d")).read})
    assert (await tools.do("edit_file", seen, path="x/y/b", edits=[{"old": "one", "new": "two"}])).ok
    assert "has changed since you read it" in await tools.refused("write_file", seen, path="d", content="x")


async def test_a_disk_without_second_names_is_moved_on_too(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fails(errno.EPERM))
    put(root, {"a": "a"})
    assert (await tools.do("move_file", path="a", to="b")).ok
    assert names_in(root) == ["b"]


async def test_a_link_is_moved_and_deleted_itself(tools: Bench, root: Path, outside: Path) -> None:
    put(root, {"target": "t"})
    (root / "link").symlink_to("target")
    (root / "away").symlink_to(outside / "secret.txt")
    assert (await tools.do("move_file", path="link", to="other")).ok
    assert (root / "other").readlink() == Path("target")
    for path in ("other", "away"):
        assert (await tools.do("delete_file", path=path)).ok
    assert names_in(root) == ["target"]
    assert (outside / "secret.txt").read_text() == "the secret\n"


async def test_what_was_seen_or_cannot_be_shown_is_deleted(tools: Bench, root: Path) -> None:
    put(root, {"a": "text", "image": b"\0\1\2"})
    with (root / "huge").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    result = await tools.do("delete_file", having_read(root, "a"), path="a")
    assert result == ToolResult(ok=True, content="Deleted a.", touched=("a",))
    for path in ("image", "huge"):
        assert (await tools.do("delete_file", path=path)).ok
    assert names_in(root) == []


async def test_empty_folders_are_deleted(tools: Bench, root: Path) -> None:
    (root / "full/er").mkdir(parents=True)
    assert (await tools.do("delete_file", path="full/er")).content == "Deleted the empty folder full/er."
    assert (await tools.do("delete_file", path="full")).ok
    assert names_in(root) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_a_file_of_another_user_stays_theirs(tools: Bench, root: Path) -> None:
    """A daemon that is root works on a person's files."""
    put(root, {"a": "one\n"})
    os.chown(root / "a", 12345, 23456)
    (root / "a").chmod(0o640)
    edits = [{"old": "one", "new": "two"}]
    assert (await tools.do("edit_file", having_read(root, "a"), path="a", edits=edits)).ok
    about = (root / "a").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (12345, 23456, 0o640)
