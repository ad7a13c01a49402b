"""Files of a conversation on its page: they are listed, and saved as they are, never shown."""

from pathlib import Path

import pytest

from tests.cli.journals import ONE, TWO

from .kit import Served

HOSTILE = b"<script>document.title = 'run'</script>"


def put(data: Path, place: str, content: bytes, conversation: str = ONE) -> None:
    file = data / "conversations" / conversation / place
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


async def test_a_page_lists_files_for_people_and_those_that_they_sent(data: Path, pages: Served) -> None:
    assert (await pages.get(f"/c/{ONE}")).of_class("files") == []
    put(data, "files/report.pdf", b"%PDF")
    put(data, "inbox/receipt 1.jpg", b"x" * 2_000)
    page = await pages.get(f"/c/{ONE}")
    (listed,) = page.of_class("files")
    lines = [line.strip() for line in listed.text.splitlines() if line.strip()]
    assert [line.partition(", 20")[0] for line in lines] == [
        "report.pdf",
        "4 bytes, for people",
        "receipt 1.jpg",
        "2 kB, sent by people",
    ]
    links = [link.attributes["href"] for link in page.all("a", download="")]
    assert links == [
        f"{pages.site.base}/c/{ONE}/files/files/report.pdf",
        f"{pages.site.base}/c/{ONE}/files/inbox/receipt%201.jpg",
    ]
    answer = await pages.client.get(f"{pages.url}{links[1]}")
    assert (answer.status_code, answer.content) == (200, b"x" * 2_000)


async def test_a_file_is_saved_whatever_it_holds_and_is_called(data: Path, pages: Served) -> None:
    put(data, "files/page.html", HOSTILE)
    answer = await pages.client.get(f"{pages.base}/c/{ONE}/files/files/page.html")
    assert answer.content == HOSTILE
    assert answer.headers["content-disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"

    put(data, 'files/a"; filename=b.html', HOSTILE)  # as a server of MCP may call one
    answer = await pages.client.get(f"{pages.base}/c/{ONE}/files/files/a%22%3B%20filename%3Db.html")
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''a%22%3B%20filename%3Db.html"


@pytest.mark.parametrize(
    "path",
    [
        "files/missing.pdf",
        "files/link",
        "files/..%2Fjournal.jsonl",
        "..%2F..%2Fkeys/owner.nsec",
        ".%2E/journal.jsonl",
        "keys/owner.nsec",
        "./journal.jsonl",
    ],
)
async def test_nothing_else_is_given(data: Path, pages: Served, path: str) -> None:
    put(data, "files/report.pdf", b"%PDF")
    (data / "conversations" / ONE / "files" / "link").symlink_to(data / "keys" / "owner.nsec")
    for conversation in (ONE, TWO, "nothing", ".."):
        answer = await pages.client.get(f"{pages.base}/c/{conversation}/files/{path}")
        assert answer.status_code == 404, answer.text
