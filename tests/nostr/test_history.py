"""The past of a relay: the order it is delivered in, who inherits what was not read, and up to where it is covered."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tenex.nostr import history_buffer
from tenex.nostr.events import Event, to_wire
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayConnection
from tenex.nostr.req import CLOCKS_DIFFER, Subscription, replace_subscriptions
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import BOB, FAST, NOW, Received, connection, note, real_relay, running

LONG_AGO = NOW - 100_000
PATIENT = replace(FAST, eose_timeout=30.0)
ADDRESSED = [{"kinds": [1], "#p": [BOB.public]}]

OnReq = Callable[[Peer, str, list[dict[str, Any]]], Awaitable[None]]


def thread(*roots: str) -> list[dict[str, Any]]:
    return [{"kinds": [1], "#e": list(roots)}]


def ids(events: Iterable[Event]) -> list[str]:
    return [event.id for event in events]


def pages(fault: FaultRelay, number: int | None = None) -> list[dict[str, Any]]:
    """The filters of the REQs that asked for something stored."""
    return [frame[2] for frame in fault.reqs(number) if frame[2].get("limit") not in (0, 1)]


async def covered(relay: RelayConnection | RelayPool) -> None:
    """Return once nothing of the relay's past is missing."""
    async with asyncio.timeout(60):
        while received_until(relay) is None:
            await asyncio.sleep(0.005)


def received_until(relay: RelayConnection | RelayPool) -> float | None:
    status = relay.status()
    return (status[0] if isinstance(status, list) else status).received_until


# ---- order ------------------------------------------------------------------------------------------------------


async def test_a_real_relays_backlog_comes_in_the_order_it_was_written(received: Received) -> None:
    """A request and the `/stop` after it, both written while we were down."""
    async with real_relay() as url:
        speaker = RelayPool([url], on_event=Received(), timeouts=FAST)
        written = [note(at=NOW - 40 + n, tags=[["p", BOB.public]]) for n in range(5)]
        async with running(speaker):
            for event in (written[2], written[0], written[4], written[1], written[3]):
                assert (await speaker.publish(event, url)).accepted
        listener = RelayPool([url], on_event=received, timeouts=PATIENT, now=lambda: float(NOW))
        listener.subscribe("addressed", ADDRESSED, LONG_AGO)
        async with running(listener):
            await received.has(*written)
    assert received.ids == ids(written)


async def test_the_order_holds_across_pages_filters_and_subscriptions(received: Received) -> None:
    """The subscription that is answered first holds what it found until the other has been read too."""
    root = note(at=NOW - 900)
    written = [
        note(at=NOW - 800 + n, tags=[["p", BOB.public]] if n % 2 else [["e", root.id]]) for n in range(12)
    ]  # by turns with our name in it and only with the thread's
    async with FaultRelay(clamp=3) as fault:
        fault.stored += [to_wire(event) for event in written]
        addressed_is_read = asyncio.Event()

        async def threads_last(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            if filters[0]["limit"] and "#e" in filters[0] and not addressed_is_read.is_set():
                await peer.send("CLOSED", sub_id, "error: busy")
            else:
                await fault.serve_stored(peer, sub_id, filters)

        fault.on_req = threads_last
        relay = connection(fault.url, received, PATIENT)
        relay.subscribe("addressed", ADDRESSED, LONG_AGO)
        relay.subscribe("threads", thread(root.id), LONG_AGO)
        async with running(relay):
            await fault.until(lambda: sum("#p" in page for page in pages(fault)) >= 4)
            assert received.ids == []
            addressed_is_read.set()
            await received.has(*written)
    assert list(dict.fromkeys(received.ids)) == ids(written)


async def test_a_new_reply_waits_for_the_past_and_an_event_of_both_comes_once(
    fault: FaultRelay, received: Received
) -> None:
    held: list[tuple[Peer, str]] = []
    old, both = note(at=NOW - 50), note(at=NOW - 5)
    new = note(at=NOW, tags=[["e", old.id, "", "root"]])

    async def unfinished(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if filters[0]["limit"] == 0:
            await peer.send("EOSE", sub_id)
        elif not held:
            await peer.send("EVENT", sub_id, to_wire(both))
            await peer.send("EVENT", sub_id, to_wire(old))
            held.append((peer, sub_id))
        else:
            await peer.send("EOSE", sub_id)

    fault.on_req = unfinished
    relays = RelayPool([fault.url], on_event=received, timeouts=PATIENT, now=lambda: float(NOW))
    relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relays):
        await fault.until(lambda: held)
        await fault.spread(to_wire(both))
        await fault.spread(to_wire(new))
        peer, sub_id = held[0]
        await peer.send("EOSE", sub_id)
        await received.has(new)
        await covered(relays)
    assert received.ids == ids([old, both, new])


async def test_new_events_wait_once_and_briefly_for_an_endless_past(
    monkeypatch: pytest.MonkeyPatch, fault: FaultRelay, received: Received
) -> None:
    monkeypatch.setattr(history_buffer, "NEW_WAIT", 0.2)
    old, new, later = note(at=NOW - 50), note(at=NOW), note(at=NOW)

    async def without_end(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        await peer.send(*(("EVENT", sub_id, to_wire(old)) if filters[0]["limit"] else ("EOSE", sub_id)))

    fault.on_req = without_end
    relays = RelayPool([fault.url], on_event=received, timeouts=PATIENT, now=lambda: float(NOW))
    relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relays):
        await fault.until(lambda: len(fault.reqs()) == 2)
        await fault.spread(to_wire(new))
        await received.has(old, new)
        monkeypatch.setattr(history_buffer, "NEW_WAIT", 60.0)
        await fault.spread(to_wire(later))
        await received.has(later)
    assert received.ids == ids([old, new, later])


async def test_the_past_is_read_before_anything_is_sent(received: Received) -> None:
    """What people wrote is known before old answers are repeated; a relay that sends no EOSE is not waited for."""
    async with FaultRelay() as fault, FaultRelay() as endless:
        old, answer = note(at=NOW - 50), note(at=NOW)
        fault.stored.append(to_wire(old))

        async def late(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            await asyncio.sleep(0.1)
            await fault.serve_stored(peer, sub_id, filters)

        async def silent(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            pass

        fault.on_req, endless.on_req = late, silent
        relays = RelayPool([fault.url, endless.url], on_event=received, timeouts=FAST, now=lambda: float(NOW))
        relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
        async with running(relays):
            assert (await relays.publish(answer, fault.url)).accepted
            assert received.ids[:1] == [old.id]
            assert (await relays.publish(answer, endless.url)).accepted


async def test_what_is_sent_after_a_reconnect_waits_for_the_past_again(fault: FaultRelay, received: Received) -> None:
    relays = RelayPool([fault.url], on_event=received, timeouts=FAST, now=lambda: float(NOW))
    relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relays):
        await covered(relays)
        await fault.stop()
        fault.stored.append(to_wire(missed := note(at=NOW - 5)))
        sending = asyncio.create_task(relays.publish(note(at=NOW), fault.url))
        await fault.start()
        assert (await sending).accepted
    assert received.ids[:1] == [missed.id]


async def test_events_of_a_relay_that_never_ends_a_page_are_delivered(fault: FaultRelay, received: Received) -> None:
    one, two = note(at=NOW - 50), note(at=NOW - 40)

    async def endless(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        for event in (two, one) if filters[0]["limit"] else ():
            await peer.send("EVENT", sub_id, to_wire(event))

    fault.on_req = endless
    relay = connection(fault.url, received, replace(FAST, eose_timeout=0.5, probe_timeout=0.1))
    relay.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relay):
        await received.has(one, two)
        assert list(dict.fromkeys(received.ids)) == ids([one, two])
        assert received_until(relay) is None


async def test_a_backlog_cut_in_the_middle_keeps_its_order_over_the_next_connection(received: Received) -> None:
    async with FaultRelay(clamp=2) as fault:
        written = [note(at=NOW - 100 + n) for n in range(6)]
        fault.stored += [to_wire(event) for event in written]

        async def cut(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            if peer.number == 1 and len(pages(fault, 1)) == 3:
                peer.drop()
            else:
                await fault.serve_stored(peer, sub_id, filters)

        fault.on_req = cut
        relays = RelayPool([fault.url], on_event=received, timeouts=PATIENT, rng=Random(7), now=lambda: float(NOW))
        relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
        async with running(relays):
            await received.has(*written)
    assert fault.connections == 2
    assert received.ids == ids(written)


async def test_the_look_back_after_a_silence_is_in_order_too(fault: FaultRelay, received: Received) -> None:
    relay = connection(fault.url, received, replace(PATIENT, probe_after=0.3))
    relay.subscribe("notes", [{"kinds": [1]}], None)
    async with running(relay):
        async with asyncio.timeout(60):
            await relay.connected.wait()
            await relay.listening("notes")
        fault.peers[0].subscriptions.clear()  # it forgets us without a word
        missed = [note(at=NOW + n) for n in range(4)]
        fault.stored += [to_wire(event) for event in missed]
        await received.has(*missed)
    assert list(dict.fromkeys(received.ids)) == ids(missed)


# ---- inheritance ------------------------------------------------------------------------------------------------


async def test_the_unread_past_of_a_replaced_subscription_is_read_by_its_successor(fault: FaultRelay) -> None:
    fault.on_req = fault.serve_new_only
    relay = connection(fault.url, Received())
    relay.subscribe("threads", thread("1" * 64), LONG_AGO)
    async with running(relay):
        await fault.until(lambda: pages(fault))
        relay.subscribe("threads", thread("1" * 64, "2" * 64), NOW - 600)
        await fault.until(lambda: pages(fault)[-1]["#e"] == ["1" * 64, "2" * 64])
    assert pages(fault)[-1]["since"] == LONG_AGO


async def test_the_unread_past_is_inherited_while_a_relay_is_away() -> None:
    fault = FaultRelay()
    await fault.start()
    await fault.stop()
    relay = connection(fault.url, Received())
    relay.subscribe("threads", thread("1" * 64), LONG_AGO)
    async with running(relay):
        for last in ("2", "3"):
            relay.subscribe("threads", thread("1" * 64, last * 64), NOW - 600)
        await fault.start()
        await fault.until(lambda: pages(fault))
    await fault.stop()
    assert [page["since"] for page in pages(fault)] == [LONG_AGO]


async def test_the_unread_past_is_kept_for_each_relay() -> None:
    """One relay's past was read and it went away later, the other sent nothing: each successor starts where it must."""
    clock = [float(NOW)]
    async with FaultRelay() as reported, FaultRelay() as mute:
        mute.on_req = mute.serve_new_only
        relays = RelayPool(
            [reported.url, mute.url], on_event=Received(), timeouts=FAST, rng=Random(7), now=lambda: clock[0]
        )
        began = NOW - 5_000_000
        relays.subscribe("threads", thread("1" * 64), began)
        async with running(relays):
            await mute.until(lambda: pages(mute))
            await covered(relays)
            await reported.stop()
            async with asyncio.timeout(60):
                while relays.status()[0].connected:
                    await asyncio.sleep(0.005)
            clock[0] += 1_000_000
            relays.subscribe("threads", thread("1" * 64, "2" * 64), int(clock[0]) - 600)
            await reported.start()
            await reported.until(lambda: any("2" * 64 in page["#e"] for page in pages(reported)))
            await mute.until(lambda: any("2" * 64 in page["#e"] for page in pages(mute)))
    assert pages(reported)[-1]["since"] == NOW - FAST.overlap
    assert pages(mute)[-1]["since"] == began


async def test_after_a_read_past_a_successor_reads_only_its_own(fault: FaultRelay) -> None:
    relay = connection(fault.url, Received())
    relay.subscribe("threads", thread("1" * 64), LONG_AGO)
    async with running(relay):
        await covered(relay)
        relay.subscribe("threads", thread("1" * 64, "2" * 64), NOW - 600)
        await fault.until(lambda: len(pages(fault)) == 2)
    assert [page["since"] for page in pages(fault)] == [LONG_AGO, NOW - 600]


async def test_after_a_gap_a_successor_looks_back_as_far_as_its_predecessor(fault: FaultRelay) -> None:
    """A message composed offline may be dated long before the thread that joined the REQ last."""
    relay = connection(fault.url, Received())
    relay.subscribe("threads", thread("1" * 64), NOW - 5_000_000)
    async with running(relay):
        await covered(relay)
        relay.subscribe("threads", thread("1" * 64, "2" * 64), NOW - 600)
        await fault.until(lambda: len(pages(fault)) == 2)
        await covered(relay)
        fault.peers[0].drop()
        await fault.until(lambda: pages(fault, 2))
    assert pages(fault, 2)[0]["since"] == NOW - FAST.overlap


def subscription(filters: list[dict[str, Any]], since: int | None, covered: float | None = None) -> Subscription:
    return Subscription(name="s", filters=filters, backlog_since=since, asked_at=NOW - 50, covered=covered)


@pytest.mark.parametrize(
    ("former", "since"),
    [
        (subscription(thread("1", "2"), LONG_AGO), LONG_AGO),
        (subscription(thread("8", "9"), LONG_AGO), NOW - 600),  # nothing of it is asked for any more
        (subscription(thread("1"), 5, covered=NOW - 700.0), NOW - 700 - 1000),
        (subscription(thread("1"), NOW - 10), NOW - 600),
        (subscription([{"kinds": [1]}], LONG_AGO), LONG_AGO),  # it asked for more, this among it
        (subscription(thread("1"), None), NOW - 600),
    ],
)
def test_a_successor_begins_at_the_earlier_of_its_own_and_its_inherited_past(former: Subscription, since: int) -> None:
    kept, added = replace_subscriptions([former], "s", [thread("1", "3")], NOW - 600, NOW, overlap=1000)
    assert kept == []
    assert [successor.backlog_since for successor in added] == [since]


def test_a_successor_of_a_req_that_never_opened_reads_from_its_request() -> None:
    former = subscription(thread("1"), None)
    _, added = replace_subscriptions([former], "s", [thread("1", "3")], None, NOW, overlap=1000)
    assert added[0].backlog_since == NOW - 50 - CLOCKS_DIFFER


def test_an_equal_req_stays_and_a_first_one_has_no_inherited_past() -> None:
    former = subscription(thread("1"), LONG_AGO)
    assert replace_subscriptions([former], "s", [thread("1")], NOW, NOW, overlap=0) == ([former], [])
    assert [new.backlog_since for new in replace_subscriptions([], "s", [thread("1")], None, NOW, overlap=0)[1]] == [
        None
    ]
    without = subscription(thread("1"), None)
    assert without.serves(thread("1"), None)
    assert not without.serves(thread("1"), NOW - 600), "its past was never asked for"


# ---- how far it is covered --------------------------------------------------------------------------------------


async def test_received_until_is_none_until_every_past_is_read(fault: FaultRelay) -> None:
    clock = itertools.count(NOW)
    reported = asyncio.Event()

    async def slow(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if filters[0]["limit"] and "#e" in filters[0] and not reported.is_set():
            await peer.send("CLOSED", sub_id, "error: later")
        else:
            await fault.serve_stored(peer, sub_id, filters)

    fault.on_req = slow
    relay = connection(fault.url, Received(), now=lambda: float(next(clock)))
    relay.subscribe("addressed", ADDRESSED, LONG_AGO)
    relay.subscribe("threads", thread("1" * 64), LONG_AGO)
    assert received_until(relay) is None
    async with running(relay):
        await fault.until(lambda: sum("#e" in page for page in pages(fault)) >= 3)
        assert relay.status().connected
        assert received_until(relay) is None
        reported.set()
        await covered(relay)
        until = received_until(relay)
        assert until is not None
        fault.on_req = fault.serve_new_only
        fault.peers[0].drop()
        await fault.until(lambda: len(pages(fault, 2)) == 2)
        away = received_until(relay)  # connected again, and the gap is not read yet
        assert away is not None
        assert until <= away < next(clock)


async def test_a_past_that_is_refused_for_good_is_never_covered(fault: FaultRelay) -> None:
    async def refuse(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if filters[0]["limit"]:
            await peer.send("CLOSED", sub_id, "restricted: no history")
        else:
            await peer.send("EOSE", sub_id)

    fault.on_req = refuse
    relay = connection(fault.url, Received())
    relay.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relay):
        async with asyncio.timeout(60):
            while not relay.status().refused:
                await asyncio.sleep(0.005)
        assert received_until(relay) is None


async def test_what_waits_to_be_delivered_is_not_covered_yet(fault: FaultRelay) -> None:
    gate, received = asyncio.Event(), Received()

    async def slow(event: Event, relay: str) -> None:
        await received(event, relay)
        await gate.wait()

    events = [note(at=NOW - 5), note(at=NOW - 4)]
    fault.stored += [to_wire(event) for event in events]
    relays = RelayPool([fault.url], on_event=slow, timeouts=FAST, now=lambda: float(NOW))
    relays.subscribe("notes", [{"kinds": [1]}], LONG_AGO)
    async with running(relays):
        await received.has(events[0])
        assert received_until(relays) is None
        gate.set()
        await received.has(*events)
        await covered(relays)
