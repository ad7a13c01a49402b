"""The real daemon, put together in this process or started as one of its own, on a folder that `tenex init` made."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.nostr.keys import parse_public_key
from tenex.settings import load

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds for what takes less than one on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon as an operator sees it."""

    data: Path
    project: str
    """The key people write to, in hex."""
    agents: Mapping[str, str]
    """The agents' keys in hex, by slug."""
    app: Application | None = None
    """Its parts, where it runs in this process."""

    @property
    def agent_keys(self) -> frozenset[str]:
        return frozenset((self.project, *self.agents.values()))

    @property
    def workspace(self) -> Path:
        return self.data / "workspace"

    def view(self, conversation: str) -> dict[str, Any]:
        """The content of `conversation.json`; empty before it is there."""
        try:
            view: dict[str, Any] = json.loads(
                (self.data / "conversations" / conversation / "conversation.json").read_text()
            )
        except FileNotFoundError:
            return {}
        return view

    async def until(self, conversation: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until the view of a conversation is as asked; the file is all that another process shows."""
        async with asyncio.timeout(PATIENCE):
            while not holds(view := self.view(conversation)):
                await asyncio.sleep(0.02)
        return view

    async def ended(self, conversation: str, cycle: int = 1) -> None:
        """Wait until a cycle has come to END; no event shows it."""
        await self.until(conversation, lambda view: view.get("status") == "ended" and view.get("cycle") == cycle)


Opening = Callable[[Path, str, str], AbstractAsyncContextManager[Daemon]]
"""Opens a daemon: a data folder to make, the relay's url, the owner's npub."""


@asynccontextmanager
async def in_process(data: Path, url: str, owner: str) -> AsyncIterator[Daemon]:
    """Put a daemon together in this process, stop it in stages on leaving."""
    daemon = _prepared(data, owner, url)
    settings = load(None, data, env={}, parse_key=parse_public_key)
    async with open_application(settings) as app:
        serving = asyncio.create_task(app.serve())
        try:
            yield replace(daemon, app=app)
        finally:
            app.runtime.stop()
            done, _ = await asyncio.wait({serving}, timeout=PATIENCE)
            serving.cancel()
        assert done, "it did not stop"
        assert serving.result(), "not everything came to rest"


@asynccontextmanager
async def as_process(data: Path, url: str, owner: str) -> AsyncIterator[Daemon]:
    """Run `tenex run` as an operator does, end it with SIGTERM."""
    daemon = _prepared(data, owner, url)
    log = data.parent / f"{data.name}.log"
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    environment = {**kept, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}  # nothing of the tester's own settings
    command = (sys.executable, "-m", "tenex.cli.main", "run", "--data", str(data))
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=data, env=environment, stdout=stderr, stderr=stderr
        )
    try:
        yield daemon
        assert process.returncode is None, f"the daemon ended by itself:\n{log.read_text()}"
    finally:
        await end(process)
    assert process.returncode == 0, f"the daemon ended with {process.returncode}:\n{log.read_text()}"


def _prepared(data: Path, owner: str, url: str) -> Daemon:
    """A data folder whose phases depend on the messages only: how fast this machine is changes no count."""
    made = prepare(data, owner, [url])
    with (data / "tenex.toml").open("a") as file:
        file.write("\n[limits]\nannounce_after = 600\n")
    agents = {slug: parse_public_key(key) for slug, key in made.agents.items()}
    return Daemon(data=data, project=parse_public_key(made.npub), agents=agents)


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process of ours: SIGTERM, and SIGKILL for one that does not listen."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(60):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
