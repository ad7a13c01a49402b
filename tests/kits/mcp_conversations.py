"""A person who talks over a real relay to an agent that uses an MCP server."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.feature import Feature, tools_of
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import SecretKey
from tenex.settings import load
from tests.service import person

HISTORIAN = """---
name: Historian
role: knows what was done
kind: worker
use_when: a question is about the past
tools: ["{tools}"]
---
You look things up.
"""
WAITS = {"agents": ["USER"], "reason": "the person has the word"}


class Scripted:
    """A model that routes and calls as scripted, and reports the results."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        self.routes: list[dict[str, Any]] = []
        self.requests: list[ModelRequest] = []

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once."""
        if request.purpose == "route":
            return ModelStep(text=json.dumps(self.routes.pop(0) if self.routes else WAITS))
        self.requests.append(request)
        results = [entry for entry in request.entries if isinstance(entry, CallResult)]
        if len(results) < len(self.calls):
            tool, arguments = self.calls[len(results)]
            return ModelStep(calls=(CallRequest(id=CallId(f"c{len(results)}"), tool=tool, arguments=arguments),))
        said = {"response": f"I got: {results[-1].content[:300]}", "summary": "looked it up"}
        return ModelStep(calls=(CallRequest(id=CallId("end"), tool="complete", arguments=said),))


class Recorded:
    """An observer that keeps all records."""

    def __init__(self) -> None:
        self.records: list[r.Record] = []

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        self.records += records

    def of(self, kind: Any) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


class Talk:
    """A person who talks to a daemon."""

    def __init__(self, app: Application, url: str, friend: SecretKey, model: Scripted, seen: Recorded) -> None:
        self.app, self.url, self.friend, self.model, self.seen = app, url, friend, model, seen
        self.root = ""

    async def write(self, text: str) -> None:
        """Write a message in the thread."""
        thread = [["e", self.root, "", "root"]] if self.root else []
        note = person.note(self.friend, text, *thread, ["p", self.app.project.public])
        self.root = self.root or note["id"]
        await person.publish(self.url, note)

    async def write_reply(self, text: str, to: str) -> None:
        """Reply to a message in the thread."""
        thread = [["e", self.root, "", "root"], ["e", to, "", "reply"]]
        await person.publish(self.url, person.note(self.friend, text, *thread, ["p", self.app.project.public]))

    async def say(self, text: str, phase: str) -> str:
        """Write a message, which is routed to the historian in a phase; returns the answer."""
        self.model.routes.append({"phase": phase, "agents": ["historian"], "reason": "it asks for it"})
        before = len(self.seen.of(r.RunEnded))
        await self.write(text)
        await person.until(lambda: len(self.seen.of(r.RunEnded)) > before)
        return str(self.seen.of(r.RunEnded)[-1].text)


@asynccontextmanager
async def talking(
    data: Path, tools: str, settings: str, model: Scripted, features: Sequence[Feature] = ()
) -> AsyncIterator[Talk]:
    friend, seen = SecretKey.generate(), Recorded()
    async with embedded_relay() as url:
        prepare(data, None, [url])
        (data / "agents" / "historian.md").write_text(HISTORIAN.format(tools=tools))
        file = data / "tenex.toml"
        text = file.read_text().replace("[people]", f'[people]\nmembers = ["{friend.npub}"]')
        file.write_text(f"{text}\n[conversations]\nroute_by_rule = false\n{settings}")
        read = load(None, data, env={}, features=tools_of(features) or None)
        async with (
            open_application(read, model=model, observers=[seen]) as app,
            app.serving(),
        ):
            yield Talk(app, url, friend, model, seen)


def make_repository(root: Path) -> None:
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "The first"]):
        subprocess.run(["git", "-C", str(root), *who, *words], check=True, env=alone)
