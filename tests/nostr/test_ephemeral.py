"""Ephemeral events: the tags clients expect, their size, and that they are sent once or dropped."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.ids import Slug
from tenex.core.ports import UnsignedEvent
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.ephemeral import (
    EphemeralPublisher,
    is_public_address,
    operations_event,
    status_event,
    text_event,
    typing_event,
)
from tenex.nostr.events import parse_event, sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayConnection
from tenex.nostr.threading import read_event
from tenex.nostr.threading.split import clean_text
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import FAST, Received, note, running

PERSON, PROJECT, EXECUTOR = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3))
RELAY = "ws://127.0.0.1:7447"
AT = 1_800_000_000


def asked(kind: int, *tags: list[str]) -> EphemeralPublisher:
    """The executor works on what a person wrote, as the journal gives it back."""
    event = sign(unsigned_event(PERSON.public, AT, kind, [["p", PROJECT.public], *tags], "?"), PERSON)
    read = read_event(event, [PROJECT.public, EXECUTOR.public], {}, RELAY, None)
    assert read is not None
    address: dict[str, Any] = json.loads(json.dumps(read.address))
    origin: dict[str, Any] = json.loads(json.dumps(read.origin))
    return EphemeralPublisher(speaker=EXECUTOR.public, address=address, origin=origin, phase="execute")


def root(who: EphemeralPublisher) -> str:
    return str(who.address["root"])


def test_typing_starts_with_words_and_stops_without() -> None:
    """Kinds 24111 and 24112 on the conversation's root, with the phase, by the agent itself."""
    who = asked(1)
    starts, stops = typing_event(who, "Executor is typing", AT), typing_event(who, "", AT)
    assert (starts.kind, starts.pubkey, starts.content) == (24111, EXECUTOR.public, "Executor is typing")
    assert (stops.kind, stops.content) == (24112, "")
    assert starts.tags == stops.tags == (("e", root(who), RELAY), ("phase", "execute"))


def test_in_notes_each_event_holds_the_added_text() -> None:
    """Kind 24135: deltas that a client puts together in the order of `stream-seq`."""
    who = asked(1)
    first = text_event(who, "Once", "", 1, AT)
    second = text_event(who, "Once upon", "Once", 2, AT)
    assert (first.kind, first.content, second.content) == (24135, "Once", " upon")
    assert [tag for tag in second.tags if tag[0] in ("e", "stream-seq")] == [
        ("e", root(who), RELAY),
        ("stream-seq", "2"),
    ]


@pytest.mark.parametrize("published", ["", "Twice"])
def test_in_notes_a_new_text_follows_a_blank_line(published: str) -> None:
    assert text_event(asked(1), "Once upon", published, 3, AT).content == "\n\nOnce upon"


def test_in_threads_each_event_holds_the_text_so_far() -> None:
    """Kind 21111 is cumulative, and names root, agent and its place in the order."""
    who = asked(11, ["title", "Login"])
    event = text_event(who, "Once upon", "Once", 2, AT)
    assert (event.kind, event.content) == (21111, "Once upon")
    assert event.tags == (
        ("E", root(who), RELAY, PERSON.public),
        ("e", root(who), RELAY),
        ("p", EXECUTOR.public),
        ("phase", "execute"),
        ("streaming", "true"),
        ("sequence", "2"),
    )


def test_a_note_in_another_thread_has_its_typing_indicator_there() -> None:
    other = "e" * 64
    who = asked(1, ["e", other, "", "root"])
    moved = EphemeralPublisher(speaker=who.speaker, address=asked(1).address, origin=who.origin)
    assert typing_event(moved, "", AT).tags[0][1] == other


def test_in_a_group_everything_carries_its_tag() -> None:
    """NIP-29: a group's relay takes nothing without `h`."""
    who = asked(1, ["h", "pirates"])
    for event in (
        typing_event(who, "", AT),
        text_event(who, "x", "", 1, AT),
        operations_event(who, [], [], "active", AT),
    ):
        assert ("h", "pirates") in event.tags


def test_active_agents_are_listed_and_none_means_idle() -> None:
    """Kind 24133: `p` for those at work, `P` for the people; without `p` it is idle."""
    who = asked(1)
    busy = operations_event(who, [EXECUTOR.public], [PERSON.public], "waiting", AT)
    assert busy.kind == 24133
    assert busy.tags == (("e", root(who), RELAY), ("P", PERSON.public), ("p", EXECUTOR.public), ("status", "waiting"))
    assert [tag for tag in operations_event(who, [], [PERSON.public], "ended", AT).tags if tag[0] == "p"] == []


def test_the_project_names_owner_agents_models_and_tools() -> None:
    """Kind 24010: clients look for it by the owner's `p`, and take the first agent for the one to write to."""
    agents = {Slug("orchestrator"): PROJECT.public, Slug("executor"): EXECUTOR.public}
    models = {"offline": [Slug("orchestrator"), Slug("executor")]}
    event = status_event(PROJECT.public, [PERSON.public], agents, models, {"read_file": [Slug("executor")]}, AT)
    assert (event.kind, event.pubkey, event.content) == (24010, PROJECT.public, "")
    assert event.tags == (
        ("p", PERSON.public),
        ("agent", PROJECT.public, "orchestrator"),
        ("agent", EXECUTOR.public, "executor"),
        ("model", "offline", "orchestrator", "executor"),
        ("tool", "read_file", "executor"),
    )


@pytest.mark.parametrize(("form", "open_to_all"), [("notes", True), ("threads", True), ("direct", False), ("", False)])
def test_only_public_conversations_have_ephemeral_events(form: str, open_to_all: bool) -> None:
    assert is_public_address({"form": form}) is open_to_all
    assert not is_public_address({})


@given(st.text(), st.integers(1, 40_000), st.sampled_from([1, 11]))
def test_no_text_is_too_long_or_too_strange(text: str, times: int, kind: int) -> None:
    event = text_event(asked(kind), text * times, "", 1, AT)
    whole = clean_text(text * times)
    assert wire_bytes(event) <= 64 * 1024
    assert event.content == whole or (event.content[0] == "…" and whole.endswith(event.content[1:]))


@pytest.mark.parametrize("unit", ["\x00", "\ud83d", "\u0001"])
def test_characters_that_cost_much_or_cannot_be_sent(unit: str) -> None:
    event = text_event(asked(11), unit * 70_000, "", 1, AT)
    assert wire_bytes(event) <= 64 * 1024
    assert parse_event(to_wire(sign(event, EXECUTOR))).content == event.content


def wire_bytes(event: UnsignedEvent) -> int:
    return len(json.dumps(["EVENT", to_wire(sign(event, EXECUTOR))], ensure_ascii=False).encode())


async def test_an_offered_event_is_sent_now_or_dropped() -> None:
    """What is offered reaches who listens, in order with what is published after it, and is not kept."""
    async with embedded_relay() as url:
        received = Received()
        speaker, listener = (RelayPool([url], on_event=on, timeouts=FAST) for on in (Received(), received))
        events = [note(kind=24111), note(kind=24135), note(kind=24112)]
        word = note("the words themselves")
        assert not speaker.offer(events[0], url), "there was no connection"
        async with running(speaker), running(listener):
            listener.subscribe("all", [{"kinds": [1, 24111, 24112, 24135]}], None)
            await listener.listening("all", 5)
            await speaker.connected(5)
            assert not speaker.offer(events[0], "ws://127.0.0.1:1"), "an unknown relay is not connected to"
            for event in events:
                assert speaker.has_room(url)
                assert speaker.offer(event, url)
            assert (await speaker.publish(word, url)).accepted
            await received.has(*events, word)
            assert received.ids == [event.id for event in (*events, word)]
            stored = await listener.fetch([{"kinds": [1, 24111, 24112, 24135]}], 5)
    assert [event.id for event in stored] == [word.id]


async def test_offered_events_leave_half_of_the_rate_to_messages() -> None:
    async with embedded_relay() as url:
        pool = RelayPool([url], on_event=Received(), timeouts=FAST)
        async with running(pool):
            await pool.connected(5)
            taken = [pool.offer(note(kind=24135), url) for _ in range(600)]
            assert taken[0]
            assert not taken[-1]
            assert sum(taken) <= FAST.frames_per_second / 2 + 1
            async with asyncio.timeout(60):
                assert (await pool.publish(note("words"), url)).accepted


async def test_after_a_refused_offer_no_more_are_sent(fault: FaultRelay) -> None:
    """It may have a limit on them, or want none; what is published goes on."""

    async def refuse(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], event["kind"] == 1, "" if event["kind"] == 1 else "rate-limited: slower")

    fault.on_event = refuse
    pool = RelayPool([fault.url], on_event=Received(), timeouts=FAST)
    async with running(pool):
        await pool.connected(5)
        assert pool.offer(note(kind=24135), fault.url)
        assert (await pool.publish(note("words"), fault.url)).accepted
        assert not pool.offer(note(kind=24135), fault.url)
        assert (await pool.publish(note("more words"), fault.url)).accepted
    assert [event["kind"] for event in fault.events()] == [24135, 1, 1]


async def test_large_ones_do_not_pile_up() -> None:
    """Words wait behind two of the largest at most; when those have gone there is room again."""
    async with embedded_relay() as url:
        connection = RelayConnection(url, on_event=lambda _event, _relay: None, timeouts=FAST)
        async with running(connection):
            await asyncio.wait_for(connection.connected.wait(), 5)
            large = [note("x" * 60_000, kind=21111, tags=[["sequence", str(n)]]) for n in range(8)]
            assert sum([connection.offer(event) for event in large]) == 2
            async with asyncio.timeout(60):
                assert (await connection.publish(note("words"))).accepted
            assert connection.offer(large[-1])
