"""The real daemon, put together in this process or started as one of its own, on a folder that `tenex init` made."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core.ports import Model
from tenex.feature import extensions_of
from tenex.main import FEATURES
from tenex.nostr.keys import parse_public_key
from tenex.settings import load
from tests.service.kit import PATIENCE, TENEX, running


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
        path = self.data / "conversations" / conversation / "conversation.json"
        view: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
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
    async with reopened(prepared(data, owner, url)) as daemon:
        yield daemon


@asynccontextmanager
async def reopened(daemon: Daemon, wrap_model: Callable[[Model], Model] = lambda model: model) -> AsyncIterator[Daemon]:
    """Put a daemon together in this process on the folder of an earlier one."""
    settings = load(None, daemon.data, env={}, parse_key=parse_public_key)
    async with open_application(settings, wrap_model=wrap_model, extensions=extensions_of(FEATURES)) as app:
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
    daemon = prepared(data, owner, url)
    async with running([*TENEX, "run", "--data", str(data)]):
        yield daemon


def prepared(data: Path, owner: str, url: str) -> Daemon:
    """Make a data folder; no daemon runs on it yet."""
    made = prepare(data, owner, [url])
    agents = {slug: parse_public_key(key) for slug, key in made.agents.items()}
    return Daemon(data=data, project=parse_public_key(made.npub), agents=agents)
