"""The terminal's client and typing indicators, over a real relay."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from tenex.cli.shared.nostr_client import INDICATORS, Activity, ChatClient, connected_client
from tenex.core.ports import PublishOutcome
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.ephemeral import EphemeralPublisher, operations_event, text_event, typing_event
from tenex.nostr.events import Event
from tenex.nostr.events import sign as signed
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import Identity, profile_events
from tests.fakes.faultrelay import FaultRelay
from tests.nostr.kit import FAST, Received, note, running

PERSON, PROJECT, EXECUTOR, STRANGER = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))
AGENTS = [EXECUTOR.public]


def speaker(key: SecretKey, root: str | None = "a" * 64) -> EphemeralPublisher:
    return EphemeralPublisher(speaker=key.public, address={"form": "notes", "root": str(root)})


@pytest.fixture
def talk() -> ChatClient:
    """A client that is not connected."""
    return ChatClient("ws://127.0.0.1:1", PERSON, PROJECT.public, agents=AGENTS, indicators=True)


async def test_text_is_shown_while_it_is_written_until_it_stops_or_its_message_comes(talk: ChatClient) -> None:
    who = speaker(EXECUTOR)
    typing = typing_event(who, "Executor is typing", 1)
    for event in (typing, text_event(who, "Once", "", 1, 1), text_event(who, "Once upon", "Once", 2, 1)):
        talk._on_event(signed(event, EXECUTOR), "")
    assert [(live.doing, live.text) for live in talk.activities] == [("Executor is typing", "Once upon")]
    talk._on_event(signed(typing_event(who, "", 2), EXECUTOR), "")
    assert talk.activities == []
    talk._on_event(signed(typing, EXECUTOR), "")
    talk._on_event(note("Once upon a time", by=EXECUTOR, tags=[["e", "a" * 64, "", "root"]]), "")
    assert talk.activities == []


async def test_the_same_words_from_two_clients_in_one_second_are_two_conversations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a script writes twice, or a program that was killed is started again."""
    clock = SimpleNamespace(time=lambda: 1_800_000_000.5, monotonic=time.monotonic)
    monkeypatch.setattr("tenex.cli.shared.nostr_client.time", clock)
    roots: set[str | None] = set()
    async with FaultRelay() as relay:
        for _ in range(2):
            async with connected_client(relay.url, PERSON, PROJECT.public) as talk:
                assert (await talk.send("Create hello.py")).accepted
                roots.add(talk.root)
        await relay.until(lambda: any("#e" in wanted for request in relay.reqs() for wanted in request[2:]))
        asked = {kind for request in relay.reqs() for wanted in request[2:] for kind in wanted.get("kinds", ())}
    assert len(roots) == 2
    assert asked.isdisjoint(INDICATORS)  # the relay is asked for them only with `indicators`


async def test_bytes_of_a_terminal_that_are_no_text_are_replaced(
    talk: ChatClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Event] = []

    async def publish(event: Event, _url: str) -> PublishOutcome:
        sent.append(event)
        return PublishOutcome(accepted=True)

    monkeypatch.setattr(talk._pool, "publish", publish)
    await talk.send("hi \udcff there")
    assert [event.content for event in sent] == ["hi \ufffd there"]


async def test_agents_are_known_by_the_project_s_profile_only() -> None:
    """A stranger who calls itself an agent, in its profile and by the tags of agents, stays one."""
    identity = Identity(pubkey=PROJECT.public, name="Demo", agents=((EXECUTOR.public, "Executor"),))
    (introduced, *_) = profile_events([identity], [], 1_700_000_000, {})
    claims = note("{}", by=STRANGER, kind=0, tags=[["agent", STRANGER.public, "Executor"]])
    received: list[tuple[str, bool]] = []
    async with embedded_relay() as url:
        daemon = RelayPool([url], on_event=Received(), timeouts=FAST)
        async with running(daemon), asyncio.timeout(60):
            await daemon.connected(5)
            assert (await daemon.publish(signed(introduced, PROJECT), url)).accepted
            assert (await daemon.publish(claims, url)).accepted
            async with connected_client(url, PERSON, PROJECT.public) as talk:
                talk.on_message = lambda one: received.append((one.line.text, one.line.tone == "stranger"))
                await talk.send("hello")
                tags = [["e", str(talk.root), url, "root"], ["phase", "execute"]]
                for key, text in ((EXECUTOR, "at your service"), (STRANGER, "give me your key"), (PROJECT, "over")):
                    assert (await daemon.publish(note(text, by=key, tags=tags), url)).accepted
                while len(received) < 3:
                    await asyncio.sleep(0.01)
    assert sorted(received) == [("at your service", False), ("give me your key", True), ("over", False)]


async def test_the_next_line_never_answers_a_stranger(talk: ChatClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Event] = []

    async def publish(event: Event, _url: str) -> PublishOutcome:
        sent.append(event)
        return PublishOutcome(accepted=True)

    monkeypatch.setattr(talk._pool, "publish", publish)
    await talk.send("hello")
    tags = [["e", str(talk.root), "", "root"]]
    asked, called = note("Which name?", by=EXECUTOR, tags=tags), note("Name it x", by=STRANGER, tags=tags)
    typing = signed(typing_event(speaker(STRANGER, talk.root), "Executor is typing", 1), STRANGER)
    for event in (asked, typing, called):
        talk._on_event(event, "")
    assert talk.activities == []
    await talk.send("greeter.py")
    (_, answer) = sent
    assert [tag[1] for tag in answer.tags if tag[0] == "e"] == [talk.root, asked.id]
    assert [tag[1] for tag in answer.tags if tag[0] == "p"] == [EXECUTOR.public]


def test_status_events_count_only_from_the_project(talk: ChatClient) -> None:
    received: list[Activity] = []
    talk.on_activity = received.append
    for key, agents, status in ((PROJECT, AGENTS, "active"), (PROJECT, [], "ended"), (EXECUTOR, [], "waiting")):
        talk._on_event(signed(operations_event(speaker(key), agents, [PERSON.public], status, 1), key), "")
    assert [(one.status, len(one.names)) for one in received] == [("active", 1), ("ended", 0)]
