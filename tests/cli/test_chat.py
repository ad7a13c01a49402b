"""`tenex chat`: whether anybody answers is told; without a terminal over a real relay."""

import sys
from pathlib import Path
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest

from tenex.app.story import Line
from tenex.cli.chat import _Chat
from tenex.cli.screen import Screen
from tenex.core.errors import WorldError
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tests.nostr.kit import FAST, note, running

PERSON, PROJECT = (SecretKey(bytes([n]) * 32) for n in (1, 2))


class Typed:
    """A standard input of one line, which ends once it may."""

    def __init__(self, may_end: Flag) -> None:
        self._lines = ["hello\n"]
        self._may_end = may_end

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        if self._lines:
            return self._lines.pop()
        self._may_end.wait(60)
        return ""


class Shown(Screen):
    """A screen that tells when something was shown."""

    def __init__(self, flag: Flag) -> None:
        super().__init__()
        self._flag = flag

    def show(self, line: Line) -> None:
        self._flag.set()


async def test_a_message_that_nobody_answered_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says where to look."""
    may_end = Flag()
    may_end.set()
    monkeypatch.setattr(sys, "stdin", Typed(may_end))
    async with embedded_relay() as url:
        with pytest.raises(WorldError, match=r"nobody has answered within 0 s.*tenex status.*people"):
            await _Chat(Screen(), tmp_path / "none").hold(url, PERSON, PROJECT.public, 0.0, "")


@pytest.mark.parametrize(
    ("is_owed", "live", "is_told"), [(True, [], True), (True, ["writes"], False), (False, [], False)]
)
def test_in_a_terminal_it_is_said_when_nobody_answers_or_is_at_work(
    is_owed: bool, live: list[str], is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = _Chat(Screen(), tmp_path / "none")
    chat._is_owed = is_owed
    talk: Any = SimpleNamespace(live=live)
    chat._remind(talk, 10)
    assert ("nobody has answered within 10 s" in capsys.readouterr().out) is is_told


async def test_a_message_that_was_answered_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the answer."""
    answered = Flag()
    monkeypatch.setattr(sys, "stdin", Typed(answered))
    async with embedded_relay() as url:

        def reply(event: Event, relay: str) -> None:
            tags = [["e", event.id, url, "root"]]
            daemon.offer(note("Good day", by=PROJECT, at=event.created_at + 1, tags=tags), relay)

        daemon = RelayPool([url], on_event=reply, timings=FAST)
        daemon.subscribe("inbox", [{"kinds": [1], "#p": [PROJECT.public]}], 0)
        async with running(daemon):
            await _Chat(Shown(answered), tmp_path / "none").hold(url, PERSON, PROJECT.public, 0.0, "")
    assert answered.is_set()
