"""`web.enabled`: the daemon serves the pages in a process of its own, which goes where it goes."""

import os
import signal
import socket
from pathlib import Path

import httpx2

from . import person
from .kit import Folder, daemon, tenex
from .web_kit import free_port, link


def enable(folder: Folder) -> int:
    port = free_port()
    folder.edit("", f"[web]\nenabled = true\nport = {port}\n")
    return port


def is_closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def logged_in(url: str) -> int:
    """Log in by a link, and open the list: its status."""
    base, _, token = url.partition("/login#")
    origin = "/".join(base.split("/")[:3])
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
        assert answer.status_code == 303, answer.text
        return (await client.get(f"{base}/conversations")).status_code


def page_of(daemon_pid: int) -> int:
    """The process of the pages: the child of the supervisor, which is a child of the daemon."""
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(place.name)] = int(fields[1])
    below = {pid for pid, parent in parents.items() if parent == daemon_pid}
    (page,) = [pid for pid, parent in parents.items() if parent in below]
    return page


async def test_the_daemon_serves_the_pages_and_starts_them_again(folder: Folder) -> None:
    port = enable(folder)
    async with daemon(folder) as process:
        log = await process.until("pages.served")
        assert log["address"] == f"http://127.0.0.1:{port}"
        assert "login#" not in process.stderr
        assert await logged_in(await link(folder)) == 200
        first = page_of(process.pid)
        os.kill(first, signal.SIGKILL)
        await process.until("pages.lost")
        await person.until(lambda: process.events().count("pages.served") == 2)
        assert page_of(process.pid) != first
        assert await logged_in(await link(folder)) == 200
        pages = (await folder.facts("status"))["web"]
        assert (pages["state"], pages["starts"], pages["losses"]) == ("running", 2, 1)
        shown = (await tenex("status", "--data", folder.data))[1]
        assert f"at http://127.0.0.1:{port}" in shown
    assert is_closed(port)


async def test_the_pages_end_with_a_daemon_that_is_killed(folder: Folder) -> None:
    port = enable(folder)
    async with daemon(folder) as process:
        await process.until("pages.served")
        assert not is_closed(port)
        await process.die()
        await person.until(lambda: is_closed(port))
    async with daemon(folder) as process:  # what they left behind is in no one's way
        await process.until("pages.served")
        assert await logged_in(await link(folder)) == 200


async def test_pages_that_cannot_be_served_are_named_and_the_daemon_works(folder: Folder) -> None:
    port = enable(folder)
    with socket.create_server(("127.0.0.1", port)):
        async with daemon(folder) as process:
            log = await process.until("pages.lost")
            assert f"127.0.0.1:{port} cannot be used" in log["reason"]
            shown = (await tenex("status", "--data", folder.data))[1]
            assert "NOT SERVED" in shown
            code, _, err = await tenex("web", "--link", "--data", folder.data)
            assert (code, "No pages of" in err) == (1, True)
