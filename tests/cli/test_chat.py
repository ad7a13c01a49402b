"""`tenex chat`: answers, and what is shown without one; over a real relay."""

import asyncio
import sys
from pathlib import Path
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest

from tenex.cli.chat import Chat, _agents
from tenex.cli.shared.console import Screen
from tenex.cli.shared.nostr_client import Activity, ReceivedMessage
from tenex.core.errors import TransientError
from tenex.core.ports import PublishOutcome
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import Event
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.operations.transcript import Line
from tests.nostr.kit import FAST, note, running

PERSON, PROJECT = (SecretKey(bytes([n]) * 32) for n in (1, 2))
STATUS = {"status": "active", "phase": "execute"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    return Chat(Screen(), tmp_path / "none")


@pytest.fixture
def may_end(monkeypatch: pytest.MonkeyPatch) -> Flag:
    """A standard input of one line ends once this is set."""
    flag, lines = Flag(), ["hello\n"]

    def readline() -> str:
        if lines:
            return lines.pop()
        flag.wait(60)
        return ""

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, readline=readline))
    return flag


async def test_a_message_without_an_answer_is_an_error_that_names_where_to_look(chat: Chat, may_end: Flag) -> None:
    may_end.set()
    async with embedded_relay() as url:
        with pytest.raises(TransientError, match=r"No answer within 0 s.*tenex status.*people"):
            await chat.run(url, PERSON, PROJECT.public, 0.0, "")


async def test_without_a_terminal_it_waits_while_agents_are_at_work(
    chat: Chat, may_end: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended after some seconds, though the daemon was at work."""
    may_end.set()
    monkeypatch.setattr("tenex.cli.chat.LOOK", 0.01)
    looks = [["Executor"]] * 5

    class Talk:
        @property
        def activities(self) -> list[str]:
            return looks.pop() if looks else []

        async def send(self, text: str) -> PublishOutcome:
            return PublishOutcome(accepted=True)

    talk: Any = Talk()
    await chat._pipe(talk, 0.02)
    assert not looks


async def test_any_answer_is_one(chat: Chat, may_end: Flag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "show", lambda _, line: may_end.set())
    async with embedded_relay() as url:

        def reply(event: Event, relay: str) -> None:
            tags = [["e", event.id, url, "root"]]
            daemon.offer(note("Good day", by=PROJECT, at=event.created_at + 1, tags=tags), relay)

        daemon = RelayPool([url], on_event=reply, timeouts=FAST)
        daemon.subscribe("inbox", [{"kinds": [1], "#p": [PROJECT.public]}], 0)
        async with running(daemon):
            await chat.run(url, PERSON, PROJECT.public, 0.0, "")
    assert may_end.is_set()


async def test_what_a_continued_conversation_already_had_is_no_answer(
    chat: Chat, may_end: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screen, "show", lambda _, line: may_end.set() if line.text == "Good day" else None)
    async with embedded_relay() as url:
        asked = note("hello", by=PERSON, tags=[["p", PROJECT.public]])
        answered = note("Good day", by=PROJECT, tags=[["e", asked.id, url, "root"]])
        async with running(RelayPool([url], on_event=lambda event, relay: None, timeouts=FAST)) as relays:
            for event in (asked, answered):
                assert (await relays.publish(event, url)).accepted
        with pytest.raises(TransientError, match="No answer within"):
            await chat.run(url, PERSON, PROJECT.public, 0.0, asked.id)
    assert may_end.is_set()


@pytest.mark.parametrize(
    ("awaits", "live", "is_shown"), [(True, [], True), (True, ["writes"], False), (False, [], False)]
)
def test_a_terminal_shows_that_no_agent_answers_or_works(
    chat: Chat, capsys: Captured, awaits: bool, live: list[str], is_shown: bool
) -> None:
    chat._awaits_answer = awaits
    talk: Any = SimpleNamespace(activities=live)
    chat._remind(talk, 10)
    assert ("No answer within 10 s" in capsys.readouterr().out) is is_shown


def test_the_last_status_of_a_daemon_is_not_shown_once_it_has_gone(chat: Chat) -> None:
    chat._on_activity(Activity("ended", ()))
    chat._on_gone()  # a daemon elsewhere: only the relay shows whether it is there
    assert "has ended" in chat._toolbar("ws://relay")
    chat._on_lines([], STATUS)
    chat._on_gone()
    assert chat._toolbar("ws://relay") == "ws://relay · write to begin"


async def test_messages_of_the_relay_wait_for_the_report_of_what_came_before(chat: Chat, capsys: Captured) -> None:
    chat._on_lines([Line("phase", "chat → execute")], STATUS)
    chat._on_message(ReceivedMessage(Line("agent", "Executor", "It is done", 0, "e1"), "execute"))
    words = Line("agent", "Executor", "It is done", 0, "e1")
    chat._on_lines([Line("tool", "executor · write_file()"), words, Line("end", "END")], STATUS)
    shown = capsys.readouterr().out
    places = [shown.index(part) for part in ("chat → execute", "write_file", "It is done", "END")]
    assert places == sorted(places)
    assert shown.count("It is done") == 1


async def test_messages_that_the_daemon_does_not_report_are_shown_soon(
    chat: Chat, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.cli.chat.REPORT_DELAY", 0.0)
    chat._on_lines([Line("phase", "chat → execute")], STATUS)
    chat._on_message(ReceivedMessage(Line("agent", "Executor", "The disk is full", 0, "e1"), "execute"))
    last_word = Line("agent", "tenex", "Done.", 0, "e2")
    chat._on_message(ReceivedMessage(last_word, "reflection", "chores"))
    await asyncio.sleep(0.01)
    out = capsys.readouterr().out
    assert "The disk is full" in out
    assert out.count("Done.") == 1


def test_the_agents_of_the_folder_are_known_but_for_a_key_that_is_broken(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    keys = {name: ring.get_or_create(name).public for name in ("owner", "project", "executor", "planner")}
    (tmp_path / "planner.nsec").write_text("nonsense")
    assert set(_agents(KeyRing(tmp_path), keys["project"])) == {keys["project"], keys["executor"]}
    assert _agents(KeyRing(tmp_path), PROJECT.public) == []
