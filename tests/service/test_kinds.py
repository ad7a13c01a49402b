"""A kind of conversation of a package: held by a daemon, read by commands, refused by its name where it is gone."""

import json
from pathlib import Path

import pytest

from tests.kits.own_tools import tenex_with
from tests.plugins.conftest import package

from . import person
from .kit import ROOT, TENEX, Folder, running

MODULE = '''
from dataclasses import dataclass, replace
from typing import ClassVar

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.inbox.decide import record_message
from tenex.core.kind import Kind
from tenex.core.record import Record
from tenex.core.reducers import Reducers
from tenex.core.state import KindState


@dataclass(frozen=True, slots=True, kw_only=True)
class Echoed(Record):
    """A message was said again."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(KindState):
    """How often."""

    has_phases: ClassVar[bool] = False
    times: int = 0


ECHO = Reducers("echo")


@ECHO.on(r.ConversationStarted)
def _started(part, record, state):
    return Echo() if record.title.startswith("Echo") else None


@ECHO.on(Echoed)
def _echoed(part, record, state):
    return replace(part, times=part.times + 1)


class EchoKind(Kind):
    """Says again what is written, without any agent."""

    name = "echo"
    state = Echo
    records = (Echoed,)
    reducers = ECHO

    def owns(self, state):
        return isinstance(state.kinds.get("echo"), Echo)

    def on_message(self, transaction, signal, called):
        record_message(transaction, signal)
        transaction.add(Echoed, text=signal.message.text)
        times = transaction.state.kinds["echo"].times
        notify(transaction, f"You said for the {times}. time: {signal.message.text}")
        transaction.add(r.Waiting, reason="user")

    def status(self, transaction):
        return ["It echoes."]


class Greedy(EchoKind):
    """Takes every conversation."""

    name = "greedy"
    reducers = Reducers("greedy")
    records = ()

    def owns(self, state):
        return True


class Other(EchoKind):
    """Its name is another."""


class Phases(EchoKind):
    """Claims a kind that is built in."""

    name = "phases"


NUMBER = 5
'''
ENTRIES = {
    "echo": "EchoKind",
    "greedy": "Greedy",
    "other": "Other",
    "phases": "Phases",
    "number": "NUMBER",
    "missing": "Missing",
}
FAULTS = {
    "greedy": "it owns conversations that have not begun, and so all of them",
    "other": "its name is 'echo', and that of its entry point 'other'",
    "phases": "there is a kind of this name",
    "number": "NUMBER is no subclass of tenex.core.kind.Kind",
    "missing": "has no Missing",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package, as an installer leaves it."""
    place = tmp_path / "site"
    place.mkdir()
    package(place, "echoing", MODULE, ENTRIES, "tenex.kinds")
    return place


async def test_a_kind_of_a_package_holds_conversations_and_is_named_where_it_is_gone(
    folder: Folder, site: Path
) -> None:
    folder.edit("", '[plugins]\nallow = ["echoing"]\n')
    found = {"PYTHONPATH": f"{ROOT}:{site}"}
    line = [*TENEX, "run", "--data", str(folder.data)]

    async def said(text: str) -> None:
        await person.until(lambda: text in (folder.conversation(name) / "conversation.json").read_text())

    async with running(line, **found) as process:
        await process.until("runtime.ready")
        name = await folder.write("Echo this")
        await person.until((folder.conversation(name) / "conversation.json").exists)
        await said("You said for the 1. time: Echo this")
        other = await folder.write("Create hello.py that prints hello")
        left_out = [fault for log in process.logs if log["event"] == "tool.left_out" for fault in [log["fault"]]]
        for entry, sentence in FAULTS.items():
            assert any(f"the kind of conversation {entry}: " in fault and sentence in fault for fault in left_out)
        await folder.until(other, "ended")
    async with running(line, **found) as process:
        await process.until("runtime.ready")
        await folder.write("Again", to=name)
        await said("You said for the 2. time: Again")
    journal = (folder.conversation(name) / "journal.jsonl").read_text()
    assert journal.count('"type":"echo.Echoed"') == 2

    code, shown = await tenex_with(site, "conversations", "show", name, "--data", folder.data)
    assert (code, "You said for the 2. time" in json.dumps(shown)) == (0, True)
    code, checked = await tenex_with(site, "config", "check", "--data", folder.data)
    assert code == 3
    assert sum("the kind of conversation" in fault for fault in checked["faults"]) == len(FAULTS)

    folder.edit('[plugins]\nallow = ["echoing"]\n', "")
    code, verified = await tenex_with(site, "conversations", "verify", "--data", folder.data)
    assert code != 0
    assert "it is of the kind of conversation 'echo', which is not installed here" in json.dumps(verified)
    assert (folder.conversation(name) / "journal.jsonl").read_text() == journal
