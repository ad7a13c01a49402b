"""Settings and agents read again while the daemon serves: taken as a whole, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon in this process, and the folder it serves."""

    app: Application
    data: Path
    url: str

    @property
    def file(self) -> Path:
        return self.data / "tenex.toml"

    def add(self, text: str) -> None:
        self.file.write_text(f"{self.file.read_text()}\n{text}\n")


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[Served]:
    async with embedded_relay() as url:
        prepare(data, None, [url])
        async with open_application(load(None, data, env={})) as app, asyncio.TaskGroup() as group:
            ready = asyncio.Event()

            async def is_ready() -> None:
                ready.set()

            group.create_task(app.serve(is_ready))
            await ready.wait()
            yield Served(app, data, url)
            app.runtime.stop()


async def test_a_new_agent_gets_a_key_a_profile_and_messages(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        (served.data / "agents" / "reviewer.md").write_text(REVIEWER)
        assert await served.app.reload() == []
        key = KeyRing(served.data / "keys").get("reviewer")
        assert served.app.rules.roster[Slug("reviewer")].pubkey == key.public
        owner = KeyRing(served.data / "keys").get("owner")
        hello = person.note(owner, "What do you think of it?", ["p", key.public])
        await person.publish(served.url, hello)

        async def profile() -> bool:
            return bool(await person.stored(served.url, kinds=[0], authors=[key.public]))

        async with asyncio.timeout(60):
            while not await profile():
                await asyncio.sleep(0.05)
        await person.until(lambda: (served.data / "conversations" / hello["id"]).exists())


async def test_limits_and_people_hold_from_the_next_message_on_and_paths_from_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        friend = SecretKey.generate()
        served.add('[limits]\nsame_route = 9\n[models.prices."a:b"]\ninput = 1\noutput = 2')
        text = served.file.read_text().replace("[people]", f'[people]\nmembers = ["{friend.npub}"]')
        served.file.write_text(text)
        served.add('[paths]\nworkspace = "elsewhere"')
        assert await served.app.reload() == ["[paths] has changed; that takes effect after a restart."]
        assert served.app.current.now.settings.paths.workspace == "workspace"
        assert served.app.rules.limits.same_route == 9
        hello = person.note(friend, "Hello", ["p", served.app.project.public])
        await person.publish(served.url, hello)
        await person.until(lambda: (served.data / "conversations" / hello["id"]).exists())


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
    async with serving(tmp_path / "data") as served:
        named = f'workflows = ["{package.name}.rounds:graph"]'
        served.file.write_text(f"{named}\n{served.file.read_text()}")
        assert await served.app.reload() == []
        assert await served.app.reload() == []
        (package / "who.py").write_text("FIRST = 'security-expert'\n")
        for _ in range(2):
            assert await served.app.reload() == [
                f"workflows: the package {package.name} has changed; that takes effect after a restart."
            ]
        assert served.app.rules.workflows[Slug("rounds")].participants[0] == "planner"


async def test_the_previous_model_client_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds connections and certificates, about a megabyte; who reloads every minute would run out of memory."""
    closed: list[Model] = []
    close = ModelClient.close

    async def noted(self: ModelClient) -> None:
        await close(self)
        closed.append(self)

    monkeypatch.setattr(ModelClient, "close", noted)
    async with serving(tmp_path / "data") as served:
        first = served.app.current.now.model
        await served.app.reload()
        await person.until(lambda: closed)
        assert closed == [first]
        last = served.app.current.now.model
    assert closed == [first, last]


async def test_a_broken_configuration_is_refused_whole_and_the_old_one_stays(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        before = served.app.current.now
        served.add("[limits]\nsame_route = 9")
        good, agent = served.file.read_text(), served.data / "agents" / "reviewer.md"
        for text in ("[shutdown]\ndeadline = -1", '[models.agents.executor]\nmodel = "unknown:model"', ""):
            served.file.write_text(f"{good}\n{text}\n")
            if not text:
                agent.write_text("You review.")
            with pytest.raises(ConfigurationError) as raised:
                await served.app.reload()
            assert raised.value.faults
        agent.unlink()
        served.file.unlink()
        with pytest.raises(ConfigurationError):
            await served.app.reload()
        assert served.app.current.now is before
