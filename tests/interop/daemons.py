"""The real daemon, put together in this process or started as one of its own, on a folder that `tenex init` made."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenex.app import Application, open_application
from tenex.cli.init import InitResult, prepare
from tenex.nostr.keys import parse_public_key
from tenex.settings import load

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds for what takes less than one on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon as an operator sees it."""

    url: str
    data: Path
    project: str
    """The key people write to, in hex."""
    agents: Mapping[str, str]
    """The agents' keys in hex, by slug."""
    app: Application | None
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
    made = _prepared(data, owner, url)
    settings = load(None, data, env={}, parse_key=parse_public_key)
    async with open_application(settings) as app:
        serving = asyncio.create_task(app.serve())
        try:
            yield _daemon(url, data, made.npub, made.agents, app)
        finally:
            app.runtime.stop()
            done, _ = await asyncio.wait({serving}, timeout=PATIENCE)
            serving.cancel()
        assert done, "it did not stop"
        assert serving.result(), "not everything came to rest"


@asynccontextmanager
async def as_process(data: Path, url: str, owner: str) -> AsyncIterator[Daemon]:
    """Run `tenex run` as an operator does, end it with SIGTERM."""
    made = _prepared(data, owner, url)
    log = data.parent / f"{data.name}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *_command("run", "--data", str(data)), cwd=data, env=_environment(), stdout=stderr, stderr=stderr
        )
    try:
        yield _daemon(url, data, made.npub, made.agents, None)
        assert process.returncode is None, f"the daemon ended by itself:\n{log.read_text()}"
    finally:
        await end(process)
    assert process.returncode == 0, f"the daemon ended with {process.returncode}:\n{log.read_text()}"


def _prepared(data: Path, owner: str, url: str) -> InitResult:
    """A data folder whose phases depend on the messages only: how fast this machine is changes no count."""
    made = prepare(data, owner, [url])
    with (data / "tenex.toml").open("a") as file:
        file.write("\n[limits]\nannounce_after = 600\n")
    return made


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


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tenex.cli.main", *words]


def _environment() -> dict[str, str]:
    """Only what a program needs, and nothing of the tester's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}


def _daemon(url: str, data: Path, project: str, agents: Mapping[str, str], app: Application | None) -> Daemon:
    return Daemon(
        url=url,
        data=data,
        project=parse_public_key(project),
        agents={slug: parse_public_key(key) for slug, key in agents.items()},
        app=app,
    )
