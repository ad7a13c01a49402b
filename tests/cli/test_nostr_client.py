"""The terminal's client and typing indicators, over a real relay."""

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from tenex.cli.activity import ActivityView
from tenex.cli.nostr_client import Activity, ChatClient, connected_client
from tenex.core.ports import PublishOutcome
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.ephemeral import EphemeralPublisher, operations_event, text_event, typing_event
from tenex.nostr.events import Event
from tenex.nostr.events import sign as signed
from tenex.nostr.filters import Filter
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import Identity, profile_events
from tests.nostr.kit import FAST, Received, note, running

PERSON, PROJECT, EXECUTOR, STRANGER = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))
AGENTS = [EXECUTOR.public]


async def until(talk: ChatClient, holds: Callable[[list[ActivityView]], object]) -> list[ActivityView]:
    """Wait until the live lines are as asked; they are looked at, as the screen does."""
    async with asyncio.timeout(60):
        while not holds(talk.activities):
            await asyncio.sleep(0.01)
    return talk.activities


async def test_text_is_shown_while_it_is_written() -> None:
    """Typing, text, and then the message in their place."""
    async with embedded_relay() as url:
        daemon = RelayPool([url], on_event=Received(), timeouts=FAST)
        async with (
            running(daemon),
            connected_client(url, PERSON, PROJECT.public, agents=AGENTS, indicators=True) as talk,
        ):
            await daemon.connected(5)
            assert (await talk.send("Write me a tale")).accepted
            assert talk.root is not None
            who = EphemeralPublisher(speaker=EXECUTOR.public, address={"form": "notes", "root": talk.root})
            at = 1_800_000_000
            async with asyncio.timeout(60):  # until the subscription is there nothing arrives, and nothing is lost
                while not talk.activities:
                    at += 1
                    daemon.offer(signed(typing_event(who, "Executor is typing", at), EXECUTOR), url)
                    await asyncio.sleep(0.02)
            daemon.offer(signed(text_event(who, "Once", "", 1, at), EXECUTOR), url)
            daemon.offer(signed(text_event(who, "Once upon", "Once", 2, at), EXECUTOR), url)
            (live,) = await until(talk, lambda lives: lives and lives[0].text == "Once upon")
            assert live.doing == "Executor is typing"
            received: list[str] = []
            talk.on_message(lambda message: received.append(message.text))
            answer = note("Once upon a time", by=EXECUTOR, tags=[["e", talk.root, url, "root"]])
            assert (await daemon.publish(answer, url)).accepted
            await until(talk, lambda lives: not lives)
            assert received == ["Once upon a time"]


async def test_the_same_words_from_two_clients_in_one_second_are_two_conversations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a script writes twice, or a program that was killed is started again."""
    monkeypatch.setattr(
        "tenex.cli.nostr_client.time", SimpleNamespace(time=lambda: 1_800_000_000.5, monotonic=time.monotonic)
    )
    roots = []
    async with embedded_relay() as url:
        for _ in range(2):
            async with connected_client(url, PERSON, PROJECT.public) as talk:
                assert (await talk.send("Create hello.py")).accepted
                roots.append(talk.root)
    assert len(set(roots)) == 2


async def test_typing_that_stops_is_not_shown_any_more() -> None:
    """Without a message in the end."""
    talk = ChatClient("ws://127.0.0.1:1", PERSON, PROJECT.public, agents=AGENTS, indicators=True)
    who = EphemeralPublisher(speaker=EXECUTOR.public, address={"form": "notes", "root": "a" * 64})
    talk._on_event(signed(typing_event(who, "Executor is typing", 1), EXECUTOR), "")
    assert [live.doing for live in talk.activities] == ["Executor is typing"]
    talk._on_event(signed(typing_event(who, "", 2), EXECUTOR), "")
    assert talk.activities == []


async def test_without_indicators_the_relay_is_not_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe there is nowhere to show them, so the relay is not asked for them."""
    async with embedded_relay() as url, connected_client(url, PERSON, PROJECT.public) as talk:
        asked: list[str] = []
        subscribe = talk._pool.subscribe

        def noted(name: str, filters: Sequence[Filter], backlog_since: int | None) -> None:
            asked.append(name)
            subscribe(name, filters, backlog_since)

        monkeypatch.setattr(talk._pool, "subscribe", noted)
        await talk.send("hello")
        assert asked == ["thread"]


async def test_agents_are_known_by_the_project_s_profile_only() -> None:
    """A stranger who calls itself an agent, in its profile and by the tags of agents, stays one."""
    (introduced, *_) = profile_events(
        [Identity(pubkey=PROJECT.public, name="Demo", agents=((EXECUTOR.public, "Executor"),))], [], 1_700_000_000, {}
    )
    claims = note("{}", by=STRANGER, kind=0, tags=[["agent", STRANGER.public, "Executor"]])
    received: list[tuple[str, bool]] = []
    async with embedded_relay() as url:
        daemon = RelayPool([url], on_event=Received(), timeouts=FAST)
        async with running(daemon):
            await daemon.connected(5)
            assert (await daemon.publish(signed(introduced, PROJECT), url)).accepted
            assert (await daemon.publish(claims, url)).accepted
            async with connected_client(url, PERSON, PROJECT.public) as talk:
                talk.on_message(lambda one: received.append((one.text, one.is_stranger)))
                await talk.send("hello")
                assert talk.root is not None
                tags = [["e", talk.root, url, "root"], ["phase", "execute"]]
                for key, text in ((EXECUTOR, "at your service"), (STRANGER, "give me your key"), (PROJECT, "over")):
                    assert (await daemon.publish(note(text, by=key, tags=tags), url)).accepted
                async with asyncio.timeout(60):
                    while len(received) < 3:
                        await asyncio.sleep(0.01)
    assert sorted(received) == [("at your service", False), ("give me your key", True), ("over", False)]


async def test_the_next_line_never_answers_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the stranger mentioned, or taken for an agent."""
    talk = ChatClient("ws://127.0.0.1:1", PERSON, PROJECT.public, agents=AGENTS, indicators=True)
    sent: list[Event] = []

    async def publish(event: Event, _url: str) -> PublishOutcome:
        sent.append(event)
        return PublishOutcome(accepted=True)

    monkeypatch.setattr(talk._pool, "publish", publish)
    await talk.send("hello")
    tags = [["e", str(talk.root), "", "root"]]
    asked, called = note("Which name?", by=EXECUTOR, tags=tags), note("Name it x", by=STRANGER, tags=tags)
    who = EphemeralPublisher(speaker=STRANGER.public, address={"form": "notes", "root": str(talk.root)})
    for event in (asked, signed(typing_event(who, "Executor is typing", 1), STRANGER), called):
        talk._on_event(event, "")
    assert talk.activities == []
    await talk.send("greeter.py")
    (_, answer) = sent
    assert [tag[1] for tag in answer.tags if tag[0] == "e"] == [talk.root, asked.id]
    assert [tag[1] for tag in answer.tags if tag[0] == "p"] == [EXECUTOR.public]


def test_status_events_count_only_from_the_project() -> None:
    talk = ChatClient("ws://127.0.0.1:1", PERSON, PROJECT.public, agents=AGENTS, indicators=True)
    received: list[Activity] = []
    talk.on_activity(received.append)
    who = EphemeralPublisher(speaker=PROJECT.public, address={"form": "notes", "root": "a" * 64})
    talk._on_event(signed(operations_event(who, AGENTS, [PERSON.public], 1, "active"), PROJECT), "")
    talk._on_event(signed(operations_event(who, [], [PERSON.public], 2, "ended"), PROJECT), "")
    forged = EphemeralPublisher(speaker=EXECUTOR.public, address={"form": "notes", "root": "a" * 64})
    talk._on_event(signed(operations_event(forged, [], [PERSON.public], 3, "waiting"), EXECUTOR), "")
    assert [(one.status, len(one.names)) for one in received] == [("active", 1), ("ended", 0)]
