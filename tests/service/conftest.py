"""The relay and the folder most tests here begin with, and one folder that has been worked in."""

import asyncio
import copy
import json
import os
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenex.nostr.embedded import embedded_relay

from .kit import TENEX, Folder, running

WORDS = "Create zebra.py that prints xylophone"


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    """rust-nostr's relay in this process, which keeps every event; gives its url."""
    async with embedded_relay() as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path, relay: str) -> Folder:
    """A data folder whose daemon uses that relay."""
    return Folder(tmp_path / "data", relay)


@dataclass(frozen=True, slots=True)
class Finished:
    """A folder whose daemon has held one conversation to its end and stopped, under umask 0."""

    folder: Folder
    name: str
    log: list[str]

    @property
    def events(self) -> set[str]:
        return {json.loads(line)["event"] for line in self.log}


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One conversation about `WORDS`, for tests that only look; who changes something copies it first."""
    data = tmp_path_factory.mktemp("finished") / "data"

    async def hold() -> Finished:
        async with embedded_relay() as url:
            folder = Folder(data, url)
            async with running([*TENEX, "run", "--data", str(data)]) as process:  # a test searches its whole log
                await process.until("runtime.ready")
                name = await folder.write(WORDS)
                await folder.until(name, "ended")
        return Finished(folder, name, process.lines)

    before = os.umask(0)  # the files' own modes have to protect them
    try:
        with ThreadPoolExecutor(1) as thread:  # pytest-asyncio owns the loop of this one
            return thread.submit(asyncio.run, hold()).result()
    finally:
        os.umask(before)


@pytest.fixture
def worked_in(finished: Finished, relay: str, tmp_path: Path) -> Folder:
    """A copy of the folder whose daemon has held a conversation, with a relay that is there."""
    folder = copy.copy(finished.folder)
    folder.data, folder.url, folder.file = tmp_path / "data", relay, tmp_path / "data" / "tenex.toml"
    shutil.copytree(finished.folder.data, folder.data)
    folder.edit(finished.folder.url, relay)
    return folder
