"""What changes while a page is open reaches it, in order and once, also after the connection was lost."""

import asyncio
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.nostr.embedded import embedded_relay
from tenex.web import live, rendering, server, site
from tenex.web.story import Entry
from tests.cli.journals import ONE, TWO, Decisions
from tests.kits.live_pages import opened, split
from tests.service.kit import Folder, daemon
from tests.service.person import until

from .kit import Page, Served, append, served

TABS = 50


async def raw_tab(pages: Served, path: str, buffer: int = 0) -> socket.socket:
    """The socket of a tab that has asked for its stream and has read nothing; `buffer` is what it can take unread."""
    tab = socket.socket()
    tab.setblocking(False)
    if buffer:
        tab.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    host = pages.url.removeprefix("http://")
    name, _, port = host.partition(":")
    cookies = "; ".join(f"{key}={value}" for key, value in pages.client.cookies.items())
    request = f"GET {pages.site.base}{path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookies}\r\n\r\n"
    loop = asyncio.get_running_loop()
    await loop.sock_connect(tab, (name, int(port)))
    await loop.sock_sendall(tab, request.encode())
    return tab


async def until_text(tab: socket.socket, words: bytes) -> bytes:
    """What the tab reads until these words."""
    text = b""
    async with asyncio.timeout(60):
        while words not in text:
            text += await asyncio.get_running_loop().sock_recv(tab, 1 << 16)
    return text


def reset(tab: socket.socket) -> None:
    """Close it as a browser that was killed does: the server sees the connection reset."""
    if tab.fileno() >= 0:
        tab.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        tab.close()


@pytest.fixture
def before_and_after(data: Path) -> tuple[Decisions, Decisions]:
    """The second conversation as it is on disk, and how it goes on."""
    return split(TWO)


async def test_what_is_appended_reaches_the_page_with_its_seq(
    pages: Served, before_and_after: tuple[Decisions, Decisions]
) -> None:
    before, after = before_and_after
    page = await pages.get(f"/c/{TWO}")
    address = page.all("body")[0].attributes["data-stream"].removeprefix(pages.site.base)
    last = before[-1][-1].seq
    assert address == f"/c/{TWO}/events?after={last}"
    async with opened(pages, address) as stream:
        await stream.until("daemon")  # the journal is followed
        await append(pages.data, TWO, *after)
        first = await stream.until("entry")
        head = await stream.until("head")
    assert "blue" in first.data
    assert head.id == after[-1][-1].seq
    assert 'id="head"' in head.data
    whole = await pages.get(f"/c/{TWO}")
    shown = [seq for seq in whole.seqs if seq > last]
    assert stream.ids() == shown
    assert Page(f"<ol>{first.data}</ol>").of_class("entry")[0].text.strip() in whole.all("ol", id="story")[0].text
    assert 'id="work-line"' in head.data
    async with opened(pages, address, last=shown[0]) as again:  # a browser that was away, and has seen the first
        await again.until("daemon")
        assert again.ids() == [seq for seq in shown if seq > shown[0]]


async def test_an_append_in_two_pieces_is_one_event(
    pages: Served, before_and_after: tuple[Decisions, Decisions]
) -> None:
    """A decision is shown once its last line is there."""
    path = pages.data / "conversations" / TWO / "journal.jsonl"
    old = path.read_bytes()
    await append(pages.data, TWO, before_and_after[1][0])
    new = path.read_bytes()
    path.write_bytes(old)
    async with opened(pages, f"/c/{TWO}/events?after={before_and_after[0][-1][-1].seq}") as stream:
        await stream.until("daemon")
        with path.open("ab") as file:
            file.write(new[len(old) : -20])
        assert not stream.ids()
        with path.open("ab") as file:
            file.write(new[-20:])
        assert "blue" in (await stream.until("entry")).data


async def test_a_tab_that_missed_more_than_is_kept_loads_again(pages: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "KEPT", 3)
    async with opened(pages, f"/c/{TWO}/events?after=1") as stream:
        await stream.until("reload")


async def test_lists_are_informed_of_changes_and_whether_a_daemon_runs(
    pages: Served, before_and_after: tuple[Decisions, Decisions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_AT_ALL", 0.05)
    async with opened(pages, "/events") as stream:
        assert (await stream.until("daemon")).data == "stopped"
        await append(pages.data, TWO, *before_and_after[1])
        await stream.until("changed")
    page = await pages.get("/conversations?part=1")
    assert not page.all("body")
    (row,) = page.all("li", id=f"c-{TWO}")
    assert "waiting" not in row.text.split()


async def test_the_stream_of_a_conversation_that_is_not_there_says_so(pages: Served) -> None:
    async with opened(pages, f"/c/{'9' * 64}/events") as stream:
        assert "no conversation" in (await stream.until("fault")).data
    answer = await pages.client.get(f"{pages.base}/c/nothing/events")
    assert answer.status_code == 404


async def test_a_tab_that_reads_too_slowly_loads_again(
    pages: Served, before_and_after: tuple[Decisions, Decisions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEPT", 8)
    monkeypatch.setattr(live, "LOOK", 0.02)
    before, after = before_and_after
    last = before[-1][-1].seq
    slow = pages.site.streams.of_conversation(TWO, last)
    while b"event: daemon" not in await anext(slow):
        pass
    async with opened(pages, f"/c/{TWO}/events?after={last}") as quick:
        for decision in after[:6]:
            await append(pages.data, TWO, decision)
            await quick.until_seq(decision[-1].seq)
    assert len(quick.ids()) > live.KEPT
    assert await anext(slow) == live.event("reload")
    await slow.aclose()


async def test_tabs_that_open_together_share_what_is_read_and_made(
    pages: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[ConversationId] = []
    made: list[int] = []
    folder = pages.site.source.folder
    read_file = folder.read_file

    async def count_reads(name: ConversationId, holding: int) -> list[Record]:
        reads.append(name)
        return await read_file(name, holding)

    def count_entries(entry: Entry, values: Mapping[str, Any]) -> str:
        made.append(entry.seq)
        return rendering.entry_html(entry, values)

    monkeypatch.setattr(folder, "read_file", count_reads)
    monkeypatch.setattr(site, "entry_html", count_entries)
    await asyncio.gather(*(pages.get(f"/c/{ONE}") for _ in range(TABS)))
    assert len(reads) == 1
    reads.clear()
    tabs = [await raw_tab(pages, f"/c/{ONE}/events?after=1") for _ in range(TABS)]
    texts = await asyncio.gather(*(until_text(tab, b"event: head") for tab in tabs))
    for tab in tabs:
        tab.close()
    assert len(reads) == 1
    assert len(made) > TABS
    assert all(text.count(b"event: entry") == len(made) for text in texts)


async def test_a_tab_that_is_closed_while_it_is_written_to_ends_its_stream_and_is_not_logged(
    pages: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The event loop logs each write to a connection that it has lost, from the fifth on."""
    tab: socket.socket

    def reset_first(entry: Entry, values: Mapping[str, Any]) -> str:
        reset(tab)
        return rendering.entry_html(entry, values)

    monkeypatch.setattr(live, "STREAMS", 1)
    monkeypatch.setattr(site, "entry_html", reset_first)
    tab = await raw_tab(pages, f"/c/{ONE}/events?after=1")
    await until(lambda: tab.fileno() < 0)
    await until(lambda: not pages.site.streams.is_full)
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a connection whose client never reads")
async def test_a_tab_that_reads_nothing_is_let_go(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STREAMS", 1)
    monkeypatch.setattr(server, "STALLED", 1)
    async with served(data) as pages:
        tab = await raw_tab(pages, f"/c/{ONE}/events?after=1", buffer=2_048)
        await until(lambda: pages.site.streams.is_full)
        await until(lambda: not pages.site.streams.is_full)
        reset(tab)


async def test_more_streams_than_are_served_are_refused(pages: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STREAMS", 0)
    for path in ("/events", f"/c/{ONE}/events"):
        assert (await pages.client.get(f"{pages.base}{path}")).status_code == 503


async def test_nothing_is_followed_once_no_tab_shows_it(data: Path) -> None:
    async with served(data) as pages:
        for _ in range(2):
            async with opened(pages, f"/c/{TWO}/events") as stream:
                await stream.until("daemon")
        names = {task.get_name() for task in asyncio.all_tasks()}
    assert len([name for name in names if name == "story"]) <= 1
    assert "story" not in {task.get_name() for task in asyncio.all_tasks()}


def test_no_text_can_forge_an_event() -> None:
    made = live.event("entry", "one\n\nevent: reload\ndata: x\r\rid: 9\u2028data: y", 3).decode()
    heads = [line.partition(":")[0] for line in made.splitlines() if line and not line.startswith("data:")]
    assert heads == ["id", "event"]


async def test_a_daemon_that_is_killed_is_reported_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that no daemon runs, and goes on by itself with the one that is started next."""
    monkeypatch.setattr(live, "DAEMON", 0.1)
    monkeypatch.setattr(live, "LOOK_AT_ALL", 0.05)
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        async with daemon(folder) as process:
            name = ConversationId(await folder.write("Create zebra.py that prints xylophone"))
            await folder.until(name, "ended")
            async with served(folder.data) as pages, opened(pages, f"/c/{name}/events") as stream:
                await stream.until_data("daemon", "running")
                await process.die()
                await stream.until_data("daemon", "stopped")
                async with daemon(folder):
                    await stream.until_data("daemon", "running")
                    await folder.write("Now print yellow", to=name)
                    await until(lambda: "yellow" in str(folder.records(name)))
                    last = int(folder.records(name)[-1].seq)
                    await stream.until_seq(last)
                    whole = await pages.get(f"/c/{name}")
        seen = [seq for seq in stream.ids() if seq is not None and seq <= last]
        assert len(seen) > 20
        assert seen == [seq for seq in whole.seqs if seen[0] <= seq <= last]
