"""Ephemeral events: the tags clients expect, their size, and that they are sent once or dropped."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenex.core.ids import Slug
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.ephemeral import (
    EphemeralPublisher,
    is_public_address,
    operations_event,
    status_event,
    text_event,
    typing_event,
)
from tenex.nostr.events import parse_event, sign, to_wire
from tenex.nostr.threading import SCHEMES
from tenex.nostr.threading.direct import DIRECT, LEGACY
from tenex.nostr.threading.room_threads import ROOM_THREADS, ROOM_TOP
from tenex.nostr.threading.split import clean_text
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import (
    FAST,
    NOW,
    PERSON,
    PLANNER,
    PROJECT,
    RELAY,
    Received,
    connection,
    ids,
    note,
    pool,
    read,
    running,
    written,
)


def asked(kind: int, *tags: list[str]) -> EphemeralPublisher:
    """The planner works on what a person wrote, as the journal gives it back."""
    message = read(written(["p", PROJECT.public], *tags, kind=kind))
    return EphemeralPublisher(speaker=PLANNER.public, address=message.address, origin=message.origin, phase="execute")


def root(who: EphemeralPublisher) -> str:
    return str(who.address["root"])


def test_typing_starts_with_words_and_stops_without() -> None:
    """Kinds 24111 and 24112 on the conversation's root, with the phase, by the agent itself."""
    who = asked(1)
    starts, stops = typing_event(who, "Planner is typing", NOW), typing_event(who, "", NOW)
    assert (starts.kind, starts.pubkey, starts.content) == (24111, PLANNER.public, "Planner is typing")
    assert (stops.kind, stops.content) == (24112, "")
    assert starts.tags == stops.tags == (("e", root(who), RELAY), ("phase", "execute"))


@pytest.mark.parametrize(
    ("published", "number", "content"),
    [("", 1, "Once upon"), ("Once", 2, " upon"), ("", 3, "\n\nOnce upon"), ("Twice", 3, "\n\nOnce upon")],
    ids=["first", "continued", "a text after another", "another text"],
)
def test_in_notes_each_event_holds_the_added_text(published: str, number: int, content: str) -> None:
    """Kind 24135: deltas that a client puts together in the order of `stream-seq`; a new text after a blank line."""
    who = asked(1)
    event = text_event(who, "Once upon", published, number, NOW)
    assert (event.kind, event.content) == (24135, content)
    assert event.tags == (("e", root(who), RELAY), ("phase", "execute"), ("stream-seq", str(number)))


def test_in_threads_each_event_holds_the_text_so_far() -> None:
    """Kind 21111 is cumulative, and names root, agent and its place in the order."""
    who = asked(11, ["title", "Login"])
    event = text_event(who, "Once upon", "Once", 2, NOW)
    assert (event.kind, event.content) == (21111, "Once upon")
    assert event.tags == (
        ("E", root(who), RELAY, PERSON.public),
        ("e", root(who), RELAY),
        ("p", PLANNER.public),
        ("phase", "execute"),
        ("streaming", "true"),
        ("sequence", "2"),
    )


def test_a_note_in_another_thread_has_its_typing_indicator_there() -> None:
    other = "e" * 64
    moved = replace(asked(1), origin=asked(1, ["e", other, "", "root"]).origin)
    assert typing_event(moved, "", NOW).tags[0][1] == other


def test_in_a_group_everything_carries_its_tag() -> None:
    """NIP-29: a group's relay takes nothing without `h`."""
    who = asked(1, ["h", "pirates"])
    for event in (
        typing_event(who, "", NOW),
        text_event(who, "x", "", 1, NOW),
        operations_event(who, [], [], "active", NOW),
    ):
        assert ("h", "pirates") in event.tags


def test_active_agents_are_listed_and_none_means_idle() -> None:
    """Kind 24133: `p` for those at work, `P` for the people; without `p` it is idle."""
    who = asked(1)
    busy = operations_event(who, [PLANNER.public], [PERSON.public], "waiting", NOW)
    assert busy.kind == 24133
    assert busy.tags == (("e", root(who), RELAY), ("P", PERSON.public), ("p", PLANNER.public), ("status", "waiting"))
    assert [tag for tag in operations_event(who, [], [PERSON.public], "ended", NOW).tags if tag[0] == "p"] == []


def test_the_project_names_owner_agents_models_and_tools() -> None:
    """Kind 24010: clients look for it by the owner's `p`, and take the first agent for the one to write to."""
    agents = {Slug("orchestrator"): PROJECT.public, Slug("planner"): PLANNER.public}
    models = {"offline": [Slug("orchestrator"), Slug("planner")]}
    event = status_event(PROJECT.public, [PERSON.public], agents, models, {"read_file": [Slug("planner")]}, NOW)
    assert (event.kind, event.pubkey, event.content) == (24010, PROJECT.public, "")
    assert event.tags == (
        ("p", PERSON.public),
        ("agent", PROJECT.public, "orchestrator"),
        ("agent", PLANNER.public, "planner"),
        ("model", "offline", "orchestrator", "planner"),
        ("tool", "read_file", "planner"),
    )


def test_all_of_it_names_the_event_of_the_project() -> None:
    """Clients of TENEX find by the `a` tag which of their projects it is about."""
    address = f"31933:{PERSON.public}:demo"
    who = replace(asked(1), project=address)
    for event in (
        typing_event(who, "", NOW),
        text_event(who, "x", "", 1, NOW),
        text_event(replace(asked(11), project=address), "x", "", 1, NOW),
        operations_event(who, [], [], "active", NOW),
        status_event(PROJECT.public, [], {}, {}, {}, NOW, address),
    ):
        assert event.tags.count(("a", address)) == 1


def test_only_public_conversations_have_ephemeral_events() -> None:
    forms = [*(scheme.name for scheme in SCHEMES), "", None]
    without = [form for form in forms if not is_public_address({"form": form})]
    assert without == [ROOM_THREADS.name, ROOM_TOP.name, DIRECT.name, LEGACY.name, "", None]


@example("\x00", 70_000, 11)
@example("\ud83d", 70_000, 11)
@example("\u0001", 70_000, 11)
@given(st.text(), st.integers(1, 40_000), st.sampled_from([1, 11]))
def test_no_text_is_too_long_or_too_strange(text: str, times: int, kind: int) -> None:
    signed = sign(text_event(asked(kind), text * times, "", 1, NOW), PLANNER)
    whole = clean_text(text * times)
    assert len(json.dumps(["EVENT", to_wire(signed)], ensure_ascii=False).encode()) <= 64 * 1024
    assert signed.content == whole or (signed.content[0] == "…" and whole.endswith(signed.content[1:]))
    assert parse_event(to_wire(signed)) == signed


async def test_an_offered_event_is_sent_now_or_dropped(received: Received) -> None:
    """What is offered reaches who listens, in order with what is published after it, and is not kept."""
    kinds = [24111, 24135, 24112, 1]
    async with embedded_relay() as url:
        speaker, listener = pool(url), pool(url, on_event=received)
        *events, word = [note(kind=kind) for kind in kinds]
        assert not speaker.offer(events[0], url), "there was no connection"
        listener.subscribe("all", [{"kinds": kinds}], None)
        async with running(speaker), running(listener):
            await listener.listening("all", 5)
            await speaker.connected(5)
            assert not speaker.offer(events[0], "ws://127.0.0.1:1"), "an unknown relay is not connected to"
            for event in events:
                assert speaker.has_room(url)
                assert speaker.offer(event, url)
            assert (await speaker.publish(word, url)).accepted
            await received.has(*events, word)
            assert received.ids == ids([*events, word])
            assert await listener.fetch([{"kinds": kinds}], 5) == [word]


async def test_offered_events_leave_half_of_the_rate_to_messages() -> None:
    async with embedded_relay() as url, running(pool(url)) as relays:
        await relays.connected(5)
        taken = [relays.offer(note(kind=24135), url) for _ in range(600)]
        assert taken[0]
        assert not taken[-1]
        assert sum(taken) <= FAST.frames_per_second / 2 + 1
        async with asyncio.timeout(60):
            assert (await relays.publish(note("words"), url)).accepted


async def test_after_a_refused_offer_no_more_are_sent(fault: FaultRelay) -> None:
    """It may have a limit on them, or want none; what is published goes on."""

    async def refuse(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], event["kind"] == 1, "" if event["kind"] == 1 else "rate-limited: slower")

    fault.on_event = refuse
    async with running(pool(fault.url)) as relays:
        await relays.connected(5)
        assert relays.offer(note(kind=24135), fault.url)
        assert (await relays.publish(note("words"), fault.url)).accepted
        assert not relays.offer(note(kind=24135), fault.url)
        assert (await relays.publish(note("more words"), fault.url)).accepted
    assert [event["kind"] for event in fault.events()] == [24135, 1, 1]


async def test_large_ones_do_not_pile_up() -> None:
    """Words wait behind two of the largest at most; when those have gone there is room again."""
    async with embedded_relay() as url, running(connection(url)) as relay:
        await asyncio.wait_for(relay.connected.wait(), 5)
        large = [note("x" * 60_000, kind=21111, tags=[["sequence", str(n)]]) for n in range(8)]
        assert sum([relay.offer(event) for event in large]) == 2
        async with asyncio.timeout(60):
            assert (await relay.publish(note("words"))).accepted
        assert relay.offer(large[-1])


def test_no_name_makes_a_tag_or_an_activity_longer_than_a_kilobyte() -> None:
    long = "n" * 1_000_000
    who = replace(asked(1), phase=long)
    events = [
        typing_event(who, f"Executor uses {long}", NOW),
        text_event(who, "Once upon", "", 1, NOW),
        operations_event(who, [], [], long, NOW),
        status_event(PROJECT.public, [], {Slug(long): PLANNER.public}, {long: [Slug(long)]}, {long: [Slug(long)]}, NOW),
    ]
    for event in events:
        assert all(len(element) <= 1024 for tag in event.tags for element in (*tag, event.content))
