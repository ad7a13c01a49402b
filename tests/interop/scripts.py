"""The clients in JavaScript, their packages, and any client as a process with orders and reports."""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nostr_sdk as sdk
import pytest

from tests.service.kit import PATIENCE

from .answers import Answer, Client
from .daemons import Daemon, Opening

HERE = Path(__file__).parent
OLDEST = 20
"""The major version of node the packages ask for."""
INSTALLING = 180
"""Seconds npm may take; with a filled cache it takes five."""

Output = dict[str, Any]
"""What a client reports of an event: `heard`, the event itself; `verified`; and what else its library makes of it."""


def install(folder: Path = HERE) -> None:
    """Install the packages of a folder's lock file, once for each version of it; skips the test where that fails.

    Two sessions at a time are one after the other: the lock file is the lock.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"node {OLDEST} and npm are needed for programs in JavaScript; one is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST:
        pytest.skip(f"node {OLDEST} is needed for programs in JavaScript; this is {version}")
    wanted = folder / "package-lock.json"
    stamp = folder / "node_modules" / ".installed"
    with wanted.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = hashlib.sha256(lock.read()).hexdigest()
        if stamp.is_file() and stamp.read_text() == digest:
            return
        if fault := _npm_ci(npm, folder):
            pytest.skip(f"the packages of {folder.relative_to(HERE.parent)} cannot be installed: {fault}")
        stamp.write_text(digest)


def _npm_ci(npm: str, folder: Path) -> str:
    """Install exactly what is locked, running nothing of it; returns why that failed."""
    words = [npm, "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"]
    with subprocess.Popen(
        words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=INSTALLING)
        except subprocess.TimeoutExpired:
            return f"npm ci took more than {INSTALLING} s"
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # npm has children of its own
    return "" if process.returncode == 0 else " ".join(printed.split())[-300:]


class Script(Client):
    """A client at work."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        self._process = process
        self._orders: dict[int, asyncio.Future[Any]] = {}
        self._outputs: dict[str, Output] = {}
        self.pubkey = ""

    @property
    def outputs(self) -> list[Output]:
        """What its library makes of each received event."""
        return [self._outputs[answer["id"]] for answer in self.received]

    async def do(self, name: str, **given: Any) -> Any:
        """Give an order and wait for its result."""
        assert self._process.stdin is not None
        number = len(self._orders)
        result = self._orders[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({"order": number, "do": name, **given}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            await self._process.stdin.drain()
            return await result

    async def listen(self, **wanted: Any) -> None:
        await self.do("listen", filter={name.replace("_", "#"): value for name, value in wanted.items()})

    async def write(self, text: str, *tags: list[str], kind: int = 1) -> Answer:
        """Publish an event with these tags; returns it."""
        printed: Answer = await self.do("say", kind=kind, content=text, tags=list(tags))
        return printed

    async def take_in(self) -> None:
        """Read facts until the script ends; an order it can no longer carry out fails."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            fact = json.loads(line)
            if "heard" in fact:
                if fact["heard"]["pubkey"] != self.pubkey:
                    self._outputs[fact["heard"]["id"]] = fact
                    await self.note(fact["heard"])
            elif "done" in fact:
                self._orders[fact["done"]].set_result(fact["result"])
            else:
                self._orders[fact["failed"]].set_exception(AssertionError(fact["why"]))
        for order in self._orders.values():
            if not order.done():
                order.set_exception(AssertionError("the script ended; its output is on stderr"))


@asynccontextmanager
async def started(*words: str) -> AsyncIterator[Script]:
    """Run a client as a process that takes orders and reports, one JSON object to a line."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=HERE, limit=2**22, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    client = Script(process)
    taking_in = asyncio.create_task(client.take_in())
    try:
        yield client
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        await asyncio.wait({taking_in}, timeout=PATIENCE)
        taking_in.cancel()
    taking_in.result()


@asynccontextmanager
async def script(name: str, url: str, secret: str) -> AsyncIterator[Script]:
    """Run a client of `clients/`, connected to a relay with a person's key."""
    async with started("node", str(HERE / "clients" / name)) as client:
        client.pubkey = (await client.do("join", url=url, secret=secret))["pubkey"]
        yield client


@asynccontextmanager
async def owned(opened: Opening, url: str, data: Path, name: str) -> AsyncIterator[tuple[Daemon, Script]]:
    """Open a daemon, and connect its owner with a client of `clients/` once it listens."""
    keys = sdk.Keys.generate()
    secret = keys.secret_key().to_hex()
    async with opened(data, url, keys.public_key().to_bech32()) as daemon, script(name, url, secret) as owner:
        await owner.finds(daemon)
        yield daemon, owner
