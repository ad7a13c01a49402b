"""`tenex web` as a command: what it prints, where it listens, how it ends, and what it needs."""

import asyncio
import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tenex.cli.init import prepare
from tenex.features.mcp_serve.server import listening_socket
from tenex.web.server import at_port
from tests.cli.journals import ONE
from tests.kits.commands import Tenex
from tests.kits.pages import MENU
from tests.service.kit import environment

from .kit import Page, printed
from .server_kit import ended, started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_prints_a_link_serves_and_ends_at_once_with_open_streams(data: Path, number: int) -> None:
    process, link = await started(data, "--port", "0")
    base, _, token = link.partition("/login#")
    origin = "/".join(base.split("/")[:3])
    assert origin.startswith("http://127.0.0.1:")
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
        assert answer.status_code == 303
        page = Page((await client.get(f"{base}/conversations")).text)
        assert page.all("a", class_="title")
        async with client.stream("GET", f"{base}/events") as stream:
            assert stream.status_code == 200
            assert await ended(process, number) == 0


async def test_it_listens_at_a_socket_of_this_user_alone_and_removes_it(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    process, link = await started(data, "--socket", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    transport = httpx2.AsyncHTTPTransport(uds=str(path))
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        base = "http://localhost/" + link.split("/")[3]
        token = link.partition("#")[2]
        answer = await client.post(f"{base}/login", data={"token": token}, headers={"origin": "https://localhost"})
        assert answer.status_code == 303
        assert "secure" in answer.headers["set-cookie"].lower()
    process.kill()
    await process.wait()
    process, _ = await started(data, "--socket", str(path))  # what a killed one left is replaced
    assert await ended(process, signal.SIGTERM) == 0
    assert not path.exists()


def test_what_is_in_the_way_is_named(data: Path, tenex: Tenex, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        err = tenex(f"web --port {port}", "--data", data, code=3).err
    assert f"web.port: 127.0.0.1:{port} cannot be used" in err
    file = tmp_path / "file"
    file.write_text("keep me")
    assert "no socket can be made there" in tenex("web --socket", file, "--data", data, code=3).err
    assert file.read_text() == "keep me"
    assert "not both" in tenex("web --port 1 --socket x", "--data", data, code=2).err


@pytest.mark.parametrize("listen", [at_port, listening_socket])
def test_no_answer_waits_for_the_other_side_to_confirm_its_beginning(listen: Callable[[int], socket.socket]) -> None:
    with listen(0) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_without_the_extra_a_sentence_says_what_to_install(
    data: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = util.find_spec
    monkeypatch.setattr("tenex.cli.web.find_spec", lambda name: None if name == "uvicorn" else find(name))
    err = tenex("web", "--data", data, code=2).err
    assert "not installed. Run: " in err
    assert "tenexd[web]" in err


def test_a_conversation_is_exported_as_a_page(data: Path, tenex: Tenex, tmp_path: Path) -> None:
    file = tmp_path / "story.html"
    out, err = tenex(f"conversations export {ONE[:6]} --html --out", file, "--data", data)
    assert out == ""
    assert "Open it in a browser." in err
    page = Page(file.read_text("utf-8"))
    assert len(page.of_class("entry")) > 50
    assert not page.all("script")
    printed = tenex(f"conversations export {ONE} --out", tmp_path / "x.gz", "--json", "--data", data).out
    assert json.loads(printed)["id"] == ONE


def test_the_export_needs_no_server(tmp_path: Path) -> None:
    """The extra is for serving: a page is written without it."""
    code = "import sys; import tenex.web.export; print(*sorted({'starlette', 'uvicorn'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""


async def test_it_needs_no_daemon_and_no_conversation(tmp_path: Path) -> None:
    empty: Any = tmp_path / "empty"
    prepare(empty, None, ["ws://127.0.0.1:1"])
    process, link = await started(empty, "--port", "0")
    base, _, token = link.partition("/login#")
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        origin = "/".join(base.split("/")[:3])
        await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
        for page in MENU:
            answer = await client.get(f"{base}{page.path}")
            assert answer.status_code == 200, (page.path, answer.text)
    assert await ended(process, signal.SIGTERM) == 0


async def test_a_link_is_asked_of_pages_that_are_served_and_printed_by_none_that_are_quiet(
    data: Path, tenex: Tenex
) -> None:
    assert "No pages of" in (await asyncio.to_thread(tenex, "web --link", "--data", data, code=1)).err
    process, address = await started(data, "--port", "0", "--quiet")
    assert address.startswith("http://127.0.0.1:")
    assert address.count("/") == 2
    other, second = await started(data, "--port", "0")  # of the same folder: both are good
    links = [(await printed(tenex, "web --link", "--data", data)).strip(), second]
    assert links[0].startswith(f"{address}/")
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        for link in links:
            base, _, token = link.partition("/login#")
            origin = "/".join(base.split("/")[:3])
            answer = await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
            assert answer.status_code == 303
            assert (await client.get(f"{base}/")).status_code == 200
    socket_path = data / "tenex-web.sock"
    assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
    assert await ended(process, signal.SIGTERM) == 0
    assert not socket_path.exists()
    assert await ended(other, signal.SIGTERM) == 0
