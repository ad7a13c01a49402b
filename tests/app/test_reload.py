"""Settings and agents read again while the daemon serves: taken as a whole, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.ports import Model
from tenex.llm.client import ModelClient
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load
from tenex.workflows.speakers.config import rules_of
from tests.service import person

REVIEWER = """---
name: Reviewer
role: reads code as its next maintainer
kind: expert
use_when: a change deserves a second pair of eyes
in_phases: [verification]
tools: [read_file]
---
You review.
"""


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[tuple[Application, str]]:
    """A daemon in this process, and its relay."""
    async with embedded_relay() as url:
        prepare(data, None, [url])
        async with open_application(load(None, data, env={})) as app, app.serving():
            yield app, url


async def test_what_is_new_holds_from_the_next_message_on(tmp_path: Path) -> None:
    """A new agent has a key, a profile and messages; a new user is heard; a path stays until a restart."""
    data, file = tmp_path, tmp_path / "tenex.toml"
    async with serving(data) as (app, url):
        (data / "agents" / "reviewer.md").write_text(REVIEWER)
        friend = SecretKey.generate()
        text = file.read_text().replace("[people]", f'[people]\nmembers = ["{friend.npub}"]')
        file.write_text(f'{text}\n[limits]\nsame_route = 9\n[paths]\nworkspace = "elsewhere"\n')
        assert await app.reload() == ["[paths] has changed; that takes effect after a restart."]
        assert app.current.now.settings.paths.workspace == "workspace"
        assert app.policy.limits.same_route == 9
        key = KeyRing(data / "keys").get("reviewer")
        assert app.policy.roster[Slug("reviewer")].pubkey == key.public
        hello = person.note(friend, "What do you think of it?", ["p", key.public])
        await person.publish(url, hello)
        await person.until((data / "conversations" / hello["id"]).exists)
        async with asyncio.timeout(60):
            while not await person.stored(url, kinds=[0], authors=[key.public]):
                await asyncio.sleep(0.05)
        address = app.project.public
        KeyRing(data / "keys").replace("project", SecretKey.generate())
        with pytest.raises(ConfigurationError, match="the project's key is another one now"):
            await app.reload()
        assert app.project.public == address


async def test_a_changed_package_is_reported_and_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python imports it once; also where it is the module beside the one that is named."""
    package = tmp_path / "tenex_rounds_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "who.py").write_text("FIRST = 'planner'\n")
    (package / "rounds.py").write_text(
        "from tenex.workflows.speakers import TransitionGraph\n"
        "from .who import FIRST\n"
        "graph = TransitionGraph.sequence([FIRST, 'executor'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with serving(tmp_path / "data") as (app, _):
        file = tmp_path / "data" / "tenex.toml"
        file.write_text(f'workflows = ["{package.name}.rounds:graph"]\n{file.read_text()}')
        assert [await app.reload() for _ in range(2)] == [[], []]
        (package / "who.py").write_text("FIRST = 'security-expert'\n")
        changed = f"workflows: the package {package.name} has changed; that takes effect after a restart."
        assert [await app.reload() for _ in range(2)] == [[changed]] * 2
        assert rules_of(app.policy).workflows[Slug("rounds")].participants[0] == "planner"


async def test_a_broken_configuration_is_refused_whole_and_a_replaced_model_client_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client holds connections and certificates, about a megabyte: reloads would run out of memory."""
    closed: list[Model] = []
    close = ModelClient.close

    async def noted(self: ModelClient) -> None:
        await close(self)
        closed.append(self)

    monkeypatch.setattr(ModelClient, "close", noted)
    file, router = tmp_path / "tenex.toml", tmp_path / "agents" / "orchestrator.md"
    async with serving(tmp_path) as (app, _):
        before, good = app.current.now, file.read_text()
        breaks: list[Any] = [
            lambda: file.write_text(f"{good}\n[limits]\nsame_route = 9\n[shutdown]\ndeadline = -1\n"),
            lambda: file.write_text(f'{good}\n[models.agents.executor]\nmodel = "unknown:model"\n'),
            lambda: router.write_text("You route."),
            file.unlink,
        ]
        for damage in breaks:
            damage()
            with pytest.raises(ConfigurationError) as raised:
                await app.reload()
            assert raised.value.faults
            assert app.current.now is before
            router.unlink(missing_ok=True)
            file.write_text(good)
        assert await app.reload() == []
        await person.until(lambda: closed == [before.model])
        last = app.current.now.model
    assert closed == [before.model, last]
