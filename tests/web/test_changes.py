"""What a cycle has changed, as its page shows it: whole, coloured, harmless, and with the calls that made it."""

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from tenex.core.ids import ConversationId
from tenex.nostr.embedded import embedded_relay
from tenex.tools.line_origins import PathChange
from tenex.web import changes
from tenex.web.changes import coloured, files_of
from tenex.web.rendering import clean_text
from tests.programs import needs_git
from tests.service.kit import Folder, daemon
from tests.service.person import until

from .hostile import CORPUS
from .kit import served

SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
HEADER = "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n"


def changed(body: str, *, path: str = "a.py", header: str = HEADER, **origins: dict[int, int]) -> PathChange:
    return PathChange(path=path, patch=f"{header}{body}", made=origins.get("made", {}), gone=origins.get("gone", {}))


def text_of(html: Markup) -> str:
    return str(html.striptags()) if "<" in html else str(html.unescape())


def test_lines_are_numbered_paired_and_belong_to_calls() -> None:
    body = "@@ -1,4 +1,5 @@ def f():\n one\n-two\n+TWO\n+too\n three\n"
    body += "@@ -20,2 +21,1 @@\n x\n-y\n\\ No newline at end of file\n"
    (file,) = files_of([changed(body, made={2: 7, 3: 9}, gone={2: 7, 21: 0})])
    first, second = file.hunks
    assert (file.added, file.removed, file.kind, first.heading) == (2, 2, "changed", "def f():")
    assert [group.is_same for group in first.groups] == [True, False, True]
    change = first.groups[1]
    assert [(line.number, text_of(line.html)) for line in change.was] == [(2, "two")]
    assert [(line.number, text_of(line.html)) for line in change.now] == [(2, "TWO"), (3, "too")]
    assert (first.calls, second.calls) == ([7, 9], [0])
    assert second.groups[1].was[0].number == 21


@pytest.mark.parametrize("name", ["a.py", "a.js", "a.html", "a.unknown", "Makefile", "a.rs"])
def test_colours_change_no_text_and_let_none_become_markup(name: str) -> None:
    lines = [line for text in CORPUS for line in text.split("\n")][:300]
    clean = [clean_text(line).replace("\n", " ") for line in lines]
    made = coloured(name, clean)
    assert len(made) == len(clean)
    for line, html in zip(clean, made, strict=True):
        assert set(re.findall(r"<[^>]*>", html)) <= {"</span>", *(f'<span class="{style}">' for style in "ckmsf")}
        assert Markup(re.sub(r"</?span[^>]*>", "", html)).unescape() == line
    assert any("<span" in html for html in coloured("a.py", ["def f(): return 1"]))


def test_a_secret_is_replaced_before_it_is_cut_into_colours() -> None:
    body = f"@@ -0,0 +1 @@\n+key = {SECRET}; other = sk-abcdefghijklmnop0123\n"
    (file,) = files_of([changed(body)])
    html = file.hunks[0].groups[0].now[0].html
    assert "[redacted]" in re.sub(r"<[^>]*>", "", html)
    assert "abcdefghijklmnop0123" not in html


def test_what_is_too_long_or_no_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_LINES", 5)
    long = changed("@@ -0,0 +1,9 @@\n" + "+x\n" * 9)
    short = changed("@@ -0,0 +1 @@\n+x\n")
    none = changed("Binary files a/a and b/a differ\n")
    files = files_of([long, short, none])
    assert [bool(file.note) for file in files] == [True, False, True]
    assert [len(file.hunks) for file in files] == [0, 1, 0]
    assert files[0].added == 9


@needs_git
async def test_a_line_leads_to_its_call_and_undo_lists_before_it_does(tmp_path: Path) -> None:
    """With a real daemon: each button sends what a person would write."""
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        async with daemon(folder), served(folder.data) as pages:
            name = ConversationId(await folder.write("Create zebra.py that prints xylophone"))
            await folder.until(name, "ended")
            page = await pages.get(f"/c/{name}/changes")
            (file,) = page.of_class("changed")
            assert "xylophone" in file.text
            link = next(e for e in page.all("a") if "write_file" in e.text)
            story = await pages.get(link.attributes["href"].removeprefix(pages.site.base))
            assert link.attributes["href"].rpartition("#")[2] in {e.attributes.get("id") for e in story.elements}

            fields = {**await pages.form(f"/c/{name}/changes", f"/c/{name}/reply/0"), "text": "/undo cycle"}
            answer = await pages.post(f"/c/{name}/reply/0", fields)
            assert answer.headers["location"].startswith(f"{pages.site.base}/c/{name}/changes?sent=")
            await until(lambda: "FilesUndone" in {type(record).__name__ for record in folder.records(name)})
            page = await pages.get(f"/c/{name}/changes")
            assert "1 file changed since before" in page.of_class("undo")[0].text
            assert (folder.workspace / "zebra.py").exists()

            fields = {**await pages.form(f"/c/{name}/changes", f"/c/{name}/reply/0"), "text": "/undo yes"}
            assert (await pages.post(f"/c/{name}/reply/0", fields)).status_code == 303
            await until(lambda: not (folder.workspace / "zebra.py").exists())
            assert (await pages.post(f"/c/{name}/reply/0", fields)).status_code == 403, "a form counts once"
