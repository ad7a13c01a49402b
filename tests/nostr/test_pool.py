"""Several relays as one."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tenex.core.errors import RelayUnavailable
from tenex.core.ports import PublishOutcome
from tenex.core.signals import InboundMessage
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import Event, to_wire
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.pool import RecentIds
from tenex.nostr.subscriptions import Listener
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import ALICE, BOB, FAST, NOTES, NOW, Received, closes, ids, note, pool, running, serve_unless, until


def forged(event: Event) -> dict[str, object]:
    """The right id with an invalid signature."""
    return to_wire(event) | {"sig": BOB.sign_digest(b"0" * 32)}


async def test_an_event_from_several_relays_is_delivered_once_also_after_an_outage(received: Received) -> None:
    async with FaultRelay() as one, FaultRelay() as two:
        relays = pool(one.url, two.url, on_event=received)
        async with running(relays, NOW - 1000, notes=NOTES):
            await one.until(one.live)
            await two.until(two.live)
            twice = note()
            await one.spread(to_wire(twice))
            await two.spread(to_wire(twice))
            await received.has(twice)
            await one.stop()
            through_two, in_gap = note(), note()
            await two.spread(to_wire(through_two))
            await received.has(through_two)
            one.stored += [to_wire(in_gap), to_wire(through_two)]
            await one.start()
            await received.has(in_gap)
            await until(lambda: sum(status.counters.get("doubles", 0) for status in relays.status()) >= 2)
    assert sorted(received.ids) == sorted(ids([twice, through_two, in_gap]))


async def test_a_forged_copy_does_not_keep_the_genuine_one_out(received: Received) -> None:
    async with FaultRelay() as liar, FaultRelay() as honest:
        relays = pool(liar.url, honest.url, on_event=received)
        async with running(relays, notes=NOTES):
            await liar.until(liar.live)
            await honest.until(honest.live)
            event, marker = note(), note()
            sent = [forged(event), to_wire(event) | {"content": "other words"}, forged(marker), to_wire(marker)]
            for raw in sent:
                await liar.spread(raw)
            await received.has(marker)  # a genuine event counts, also from a relay that has sent a forged copy
            assert received.ids == [marker.id]
            await honest.spread(to_wire(event))
            await received.has(event)
            strikes = {status.url: status.strikes for status in relays.status()}
    assert strikes == {liar.url: 3, honest.url: 0}
    assert dict(received.events)[event.id] == honest.url


async def test_an_event_of_an_earlier_process_is_not_delivered_again(fault: FaultRelay, received: Received) -> None:
    old, new = note(), note()
    asked: list[str] = []

    def is_seen(event_id: str) -> bool:
        asked.append(event_id)
        return event_id == old.id

    malformed = [to_wire(note()) | {"id": name} for name in ("", "x" * 64, new.id + "\n", "' or 1=1")]
    fault.stored += [to_wire(old), *malformed, to_wire(new)]
    async with running(pool(fault.url, on_event=received, is_seen=is_seen), NOW - 1000, notes=NOTES):
        await received.has(new)
    assert received.ids == [new.id]
    assert set(asked) == {old.id, new.id}, "only valid ids are looked up"


async def test_events_of_strangers_are_dropped_unverified_and_delivered_once_admitted(
    fault: FaultRelay, received: Received
) -> None:
    """Nothing of it is remembered, so it is not lost when its author is admitted."""
    known, asked = {ALICE.public}, list[str]()

    def is_seen(event_id: str) -> bool:
        asked.append(event_id)
        return False

    relays = pool(fault.url, on_event=received, is_seen=is_seen, is_wanted=lambda author: author in known)
    async with running(relays, notes=NOTES):
        await relays.listening("notes", 10)
        strange, ours = note(by=BOB), note()
        stolen = to_wire(strange) | {"pubkey": ALICE.public}  # in the name of somebody known
        for raw in (to_wire(strange), stolen, to_wire(ours)):
            await fault.spread(raw)
        await received.has(ours)
        assert strange.id not in received.ids
        assert asked == [ours.id]
        status = relays.status()[0]
        assert (status.counters["unwanted"], status.strikes) == (1, 1)
        known.add(BOB.public)
        await fault.spread(to_wire(strange))
        await received.has(strange)


@pytest.mark.parametrize("is_open", [False, True])
async def test_long_notes_full_of_keys_by_a_stranger_do_not_delay_the_owner(is_open: bool, fault: FaultRelay) -> None:
    """Also where strangers may talk: 300 notes of 60 KB, each naming 860 people."""
    came, last = asyncio.Event(), note("/status", tags=[["p", BOB.public]])
    stranger, others = SecretKey.generate(), " ".join(npub(SecretKey.generate().public) for _ in range(20))

    def receive(message: InboundMessage) -> None:
        if message.event_id == last.id:
            came.set()

    relays = pool(
        fault.url,
        on_event=lambda event, relay: listener.on_event(event, relay),
        is_wanted=lambda author: is_open or author == ALICE.public,
    )
    listener = Listener(relays, [BOB.public], {"agent": BOB.public}, None, receive, now=lambda: float(NOW))
    listener.start(None)
    async with running(relays):
        await relays.listening("addressed", 10)
        sub_id = fault.live()[0][1]
        notes = [note(f"{n} {others * 43}", by=stranger, tags=[["p", BOB.public]]) for n in range(300)]
        frames = [json.dumps(["EVENT", sub_id, to_wire(event)]) for event in (*notes, last)]
        began = time.process_time()
        for frame in frames:
            await fault.peers[0].send_text(frame)
        await asyncio.wait_for(came.wait(), 30)
        assert time.process_time() - began < 5, "of the processor: two on a busy machine, the relay's part is in it"


async def test_a_handler_that_fails_loses_one_event_and_logs_no_text(fault: FaultRelay, received: Received) -> None:
    def picky(event: Event, relay: str) -> None:
        if event.content.startswith("bad"):
            raise RuntimeError(event.content)
        received(event, relay)

    relays = pool(fault.url, on_event=picky)
    relays.subscribe("notes", NOTES, None)
    with structlog.testing.capture_logs() as logs:
        async with running(relays):
            await fault.until(fault.live)
            good = note("good")
            await fault.spread(to_wire(note("bad and private")))
            await fault.spread(to_wire(good))
            await received.has(good)
            assert relays.status()[0].counters["failed"] == 1
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert [entry["event"] for entry in errors] == ["event.delivery_failed"]
    assert "private" not in str(errors)


async def test_fetch_gives_stored_events_of_all_relays_newest_first_and_returns_early(received: Received) -> None:
    async with FaultRelay() as one, FaultRelay() as two:
        events = [note(at=NOW - n) for n in range(4)]
        one.stored += [to_wire(event) for event in events[:3]]
        two.stored += [to_wire(event) for event in events[2:]] + [forged(note())]
        async with running(pool(one.url, two.url, on_event=received)) as relays:
            await one.until(lambda: one.connections and two.connections)
            loop = asyncio.get_running_loop()
            began = loop.time()
            while len(found := await relays.fetch(NOTES, timeout=5)) < 4:  # until both are connected
                assert loop.time() - began < 5
            assert loop.time() - began < 4
            assert found == events
            assert received.ids == []
            relays.subscribe("notes", NOTES, NOW - 1000)
            await received.has(*events)  # fetching did not mark them as seen


async def test_fetch_gives_what_came_when_a_relay_is_silent() -> None:
    async with FaultRelay() as good, FaultRelay() as silent:
        event = note()
        good.stored.append(to_wire(event))
        serve_unless(silent, lambda _: True)
        async with running(pool(good.url, silent.url)) as relays:
            await good.until(lambda: good.peers)
            await silent.until(lambda: silent.peers)
            assert await relays.fetch(NOTES, timeout=2.0) == [event]
            await silent.until(lambda: closes(silent))


async def test_fetch_asks_further_relays_and_none_at_a_private_address_that_others_have_named() -> None:
    async with FaultRelay() as own, FaultRelay() as other:
        event = note()
        other.stored.append(to_wire(event))
        async with running(pool(own.url)) as relays:
            await own.until(lambda: own.peers)
            assert await relays.fetch(NOTES, timeout=5, others=[other.url, own.url]) == [event]
        connections = other.connections
        async with running(pool(own.url, others_must_be_public=True)) as relays:
            await own.until(lambda: len(own.peers) > 0)
            assert await relays.fetch(NOTES, timeout=0.5, others=[other.url]) == []
        assert other.connections == connections


async def test_a_req_the_relay_closes_right_after_its_eose_is_complete(fault: FaultRelay) -> None:
    """nostr-sdk's relay does so with a REQ for ids, for nothing more can come."""
    event = note()

    async def serve_and_close(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        await peer.send("EVENT", sub_id, to_wire(event))
        await asyncio.gather(peer.send("EOSE", sub_id), peer.send("CLOSED", sub_id, ""))

    fault.on_req = serve_and_close
    async with running(pool(fault.url)) as relays:
        assert await relays.fetch([{"ids": [event.id]}], timeout=5) == [event]
        assert len(fault.reqs()) == 1


async def test_many_fetches_at_once_share_the_connections_room(fault: FaultRelay) -> None:
    event = note()
    fault.stored.append(to_wire(event))
    relays = pool(fault.url)
    for n in range(8):
        relays.subscribe(f"s{n}", [{"kinds": [100 + n]}], NOW - 10)
    async with running(relays):
        results = await asyncio.gather(*(relays.fetch(NOTES, timeout=5) for _ in range(20)))
    assert results == [[event]] * 20


async def test_fetch_without_any_relay_gives_nothing_in_time(fault: FaultRelay) -> None:
    await fault.stop()
    async with running(pool(fault.url)) as relays:
        assert await relays.fetch(NOTES, timeout=0.2) == []
        with pytest.raises(RelayUnavailable, match=r"no relay is connected after 0\.2 s"):
            await relays.connected(0.2)


async def test_an_event_goes_to_a_relay_outside_the_pool_which_is_disconnected_when_idle() -> None:
    clock = [float(NOW)]
    async with FaultRelay() as own, FaultRelay() as guest:
        relays = pool(own.url, timeouts=replace(FAST, idle_after=0.2), now=lambda: clock[0])
        relays.subscribe("notes", NOTES, None)
        event = note()
        publishing = asyncio.create_task(relays.publish(event, guest.url.upper().replace("WS:", "ws:") + "/"))
        await asyncio.sleep(0)  # it waits until the pool runs
        async with running(relays):
            assert (await publishing).accepted
            assert guest.stored == [to_wire(event)]
            assert guest.reqs() == []
            assert (await relays.publish(note(), guest.url + "/")).accepted
            assert [status.url for status in relays.status()] == [own.url, guest.url], "however it is spelled"
            assert len(guest.peers) == 1
            clock[0] += 1
            await guest.until(lambda: not guest.peers)
            assert {status.url for status in relays.status()} == {own.url}
            assert not relays.has_room(guest.url), "it is no longer known"
            assert (await relays.publish(event, guest.url)).detail.startswith("duplicate")


async def test_an_event_may_go_to_another_relay_at_any_moment_while_the_pool_stops(fault: FaultRelay) -> None:
    """A connection can no longer be made then, so the event stays in the outbox."""
    relays = pool(fault.url)
    client = asyncio.create_task(relays.run())
    await relays.connected(10)
    client.cancel()
    publishing: list[asyncio.Task[PublishOutcome]] = []
    while not client.done():
        publishing.append(asyncio.create_task(relays.publish(note("hi"), f"ws://127.0.0.1:{len(publishing) + 1}")))
        await asyncio.sleep(0)
    assert client.cancelled()
    assert len(publishing) > 1
    for task in publishing:
        task.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*publishing, return_exceptions=True)
    )


async def test_a_relay_has_one_canonical_url_and_what_is_none_is_refused() -> None:
    relays = pool("WSS://Relay.Example:443/", "wss://relay.example", "ws://relay.example:8080/x")
    assert [status.url for status in relays.status()] == ["wss://relay.example", "ws://relay.example:8080/x"]
    with pytest.raises(ValueError, match="must begin with wss:// or ws://"):
        pool("https://relay.example")
    with pytest.raises(ValueError, match="must begin with"):
        await relays.publish(note(), "relay.example")


async def test_listening_returns_when_served_or_raises_the_reason(fault: FaultRelay) -> None:
    async with running(pool(fault.url), notes=NOTES) as relays:
        await relays.listening("notes", 5)
        with pytest.raises(ValueError, match="no subscription"):
            await relays.listening("ghost", 5)
        serve_unless(fault, lambda _: True, "blocked: not you")
        relays.subscribe("more", [{"kinds": [7]}], None)
        with pytest.raises(RelayUnavailable, match="blocked: not you"):
            await relays.listening("more", 0.3)


async def test_real_relays_carry_a_message_from_one_pool_to_another(received: Received) -> None:
    async with embedded_relay() as one, embedded_relay() as two:
        listener, speaker = pool(one, two, on_event=received), pool(one, two)
        async with running(listener, NOW - 1000, notes=[{"kinds": [1], "#p": [BOB.public]}]), running(speaker):
            await listener.listening("notes", 5)
            event, other = note(tags=[["p", BOB.public]]), note()
            for url in (one, two):
                assert (await speaker.publish(event, url)).accepted
                assert (await speaker.publish(other, url)).accepted
            assert (await speaker.publish(other, one)).accepted, "a duplicate is success"
            invalid = note().model_copy(update={"sig": ALICE.sign_digest(b"0" * 32)})
            assert not (await speaker.publish(invalid, one)).accepted
            await received.has(event)
            found = await speaker.fetch([{"ids": [event.id, other.id]}], timeout=5)
            assert found == sorted([event, other], key=lambda each: each.id)
            assert received.ids == [event.id]


async def test_a_wrong_clock_is_logged_once_and_reported_until_it_is_set() -> None:
    off = [3 * 3600.0]
    async with FaultRelay() as one, FaultRelay() as two:
        relays = pool(one.url, two.url, now=lambda: time.time() + off[0])
        relays.subscribe("notes", NOTES, None)
        with structlog.testing.capture_logs() as logs:
            async with running(relays):
                await until(lambda: all(status.serves for status in relays.status()))
                assert relays.clock_ahead == pytest.approx(off[0], abs=60)
                one.peers[0].drop()
                await one.until(lambda: one.connections == 2)
                off[0] = 0.0
                assert relays.clock_ahead is None
                two.peers[0].drop()
                await until(lambda: any(entry["event"] == "clock.right" for entry in logs))
    (reported,) = [entry for entry in logs if entry["event"] == "clock.wrong"]
    assert reported["ahead_seconds"] == pytest.approx(3 * 3600, abs=60)
    assert "timedatectl" in reported["fix"]


def test_recent_ids_keep_the_latest_in_bounded_memory() -> None:
    recent = RecentIds(size=10)
    for n in range(95):
        recent.add(str(n))
        assert all(str(k) in recent for k in range(max(0, n - 9), n + 1))
    assert sum(str(n) in recent for n in range(95)) <= 20
