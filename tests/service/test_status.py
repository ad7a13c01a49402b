"""`tenex status`: faults in a running daemon, and a folder without one."""

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import PATIENCE, Folder, daemon, ordered, tenex_here

ASKS = "Create a script that prints hello; ask me which name it should have"
QUICK = "Create hello.py that prints hello"


async def until(folder: Folder, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Ask again and again until it is so."""
    report: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds(report := await folder.facts("status")):
                pass
    except TimeoutError:
        raise AssertionError(json.dumps(report, indent=2)) from None
    return report


async def text(folder: Folder) -> str:
    _, screen, _ = await tenex_here("status", "--data", folder.data)
    return screen


async def test_a_deaf_relay_and_one_that_is_away(tmp_path: Path) -> None:
    async with FaultRelay() as relay:

        async def ignore(_peer: Peer, _name: str, _filters: list[dict[str, Any]]) -> None:
            return

        relay.on_req = ignore
        folder = Folder(tmp_path / "data", relay.url)
        away = "ws://127.0.0.1:9"
        folder.edit(f'"{relay.url}"', f'"{relay.url}", "{away}"')
        async with ordered(folder, is_impatient=True):
            report = await until(folder, lambda report: report["relays"][0]["state"] == "unresponsive")
            screen = await text(folder)
    deaf, absent = report["relays"]
    assert (deaf["url"], deaf["unresponsiveSince"] is not None) == (relay.url, True)
    assert (absent["url"], absent["state"], absent["lastReceived"]) == (away, "away", None)
    assert "refused" in absent["fault"].lower()
    assert all(words in screen for words in ("0 of 2 connected", "UNRESPONSIVE", "AWAY"))


async def test_a_held_model(folder: Folder) -> None:
    folder.edit("", "[limits]\nretry_delays = [0.05]\nhold_for = 600\n")
    async with ordered(folder, model="away"):
        name = await folder.write(QUICK)
        report = await until(folder, lambda report: report["models"]["held"])
        screen = await text(folder)
        (shown,) = report["conversations"]["open"]
        assert (shown["id"], shown["kind"]) == (name, "held")
        assert shown["router"]["state"] == "held"
        assert "connection refused" in shown["router"]["why"]
        assert shown["router"]["nextTry"] > report["at"]
        assert report["models"]["lastFailure"]["who"] == "the orchestrator"
        assert report["conversations"]["counts"] == {"held": 1}
        assert "HELD" in screen
        assert re.search(r"orchestrator held, next try in (9|10) min", screen)
        folder.let_go()
        await folder.write("/continue", to=name)
        await folder.until(name, "ended")
        await until(folder, lambda report: not report["models"]["held"])


async def test_a_parked_run_awake_asleep_and_after_a_restart(folder: Folder) -> None:
    async with daemon(folder):
        name = await folder.write(ASKS)
        await person.until(lambda: folder.state(name).work.is_parked)
        awake = await until(folder, lambda report: report["conversations"]["counts"] == {"parked": 1})
    without = await folder.facts("status", code=1)
    async with daemon(folder):
        again = await until(folder, lambda report: report["conversations"]["counts"] == {"parked": 1})
        screen = await text(folder)
    for report in (awake, without, again):
        (shown,) = report["conversations"]["open"]
        (run,) = shown["runs"]
        assert (shown["id"], shown["kind"], run["agent"], run["state"]) == (name, "parked", "executor", "parked")
        assert "name" in run["questions"][0]
        assert run["since"] == awake["conversations"]["open"][0]["runs"][0]["since"]
    assert "executor has asked" in screen
    assert without["state"] == "stopped"


async def test_a_disk_that_hangs(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    folder.edit("", f"[metrics]\nport = {port}\n")
    async with ordered(folder, may_hang=True) as process:
        await process.until("relay.connected")
        first = await folder.write(QUICK)
        await folder.until(first, "ended")
        (folder.marks / "hang").touch()
        for number in range(3):  # the store has two threads
            await folder.write(f"Create file{number}.py that prints {number}")
        await folder.held()
        report = await until(folder, lambda report: "fault" in report["disk"])
        screen = await text(folder)
        assert report["state"] == "running"
        assert "has not answered for" in report["disk"]["fault"]
        assert report["conversations"]["counts"]["ended"] == 1, "as it was read last"
        assert "has not answered for" in screen
        healthz = await asyncio.to_thread(httpx.get, f"http://127.0.0.1:{port}/healthz", trust_env=False)
        assert (healthz.status_code, "the disk has not answered for" in healthz.text) == (503, True)
        (folder.marks / "hang").unlink()
        well = await until(folder, lambda report: report["conversations"]["counts"] == {"ended": 4})
        assert "fault" not in well["disk"]


async def test_a_daemon_that_is_absent_well_or_hung(folder: Folder) -> None:
    code, screen, _ = await tenex_here("status", "--data", folder.data)
    assert (code, "NOT RUNNING" in screen) == (1, True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder.data / "tenex.sock"))
    code, screen, _ = await tenex_here("status", "--data", folder.data)
    assert (code, "NOT RUNNING" in screen) == (1, True)
    async with daemon(folder) as process:
        name = await folder.write(QUICK)
        await folder.until(name, "ended")
        rests = {"counts": {"ended": 1}, "open": []}
        report = await until(folder, lambda report: rests.items() <= report["conversations"].items())
        screen = await text(folder)
        assert report["state"] == "running"
        assert report["process"]["address"] == folder.project.npub
        configuration = report["configuration"]
        assert (configuration["data"], configuration["file"]) == (str(folder.data), str(folder.file))
        assert configuration["offers"]["agents"]["executor"] == "Executor"
        assert 0 < report["disk"]["freeBytes"] < report["disk"]["totalBytes"]
        (relay,) = report["relays"]
        assert [relay[part] for part in ("url", "state", "unresponsiveSince", "undelivered")] == [
            *(folder.url, "connected", None, 0)
        ]
        for words in (f"pid {report['process']['pid']}", "1 of 1 connected", "conversations  1 ended"):
            assert words in screen
        process.signal(signal.SIGSTOP)
        code, screen, _ = await tenex_here("status", "--data", folder.data, "--patience", "0.5")
        assert code == 1
        assert "NOT ANSWERING: " in screen
        assert "no answer from" in screen
        assert (await folder.facts("status", "--patience", "0.5", code=1))["state"] == "unresponsive"
        (folder.data / "tenex.sock").unlink()
        code, screen, _ = await tenex_here("status", "--data", folder.data, "--patience", "0.5")
        held = f"process {process.pid} has locked {folder.data / 'conversations'} for "
        assert (code, "STARTING: " in screen, held in screen, "Try again in 5 s" in screen) == (1, True, True, True)
        os.utime(folder.data / "conversations" / ".lock", (0, 0))  # as if it had been taken long ago
        code, screen, _ = await tenex_here("status", "--data", folder.data)
        assert (code, "NOT ANSWERING: " in screen, f"{held}20" in screen) == (1, True, True)
        process.signal(signal.SIGCONT)
    assert not (folder.data / "tenex.sock").exists()
