"""The past of a relay: the order it is delivered in, who inherits what was not read, and up to where it is covered."""

import asyncio
import itertools
from typing import Any

import pytest

from tenex.nostr import history_buffer
from tenex.nostr.events import to_wire
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayConnection
from tenex.nostr.req import CLOCKS_DIFFER, Subscription, replace_subscriptions
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import (
    ALICE,
    BOB,
    FAST,
    LONG_AGO,
    NOTES,
    NOW,
    Received,
    connection,
    ids,
    note,
    pool,
    running,
    serve_unless,
    until,
)

ADDRESSED = [{"kinds": [1], "#p": [BOB.public]}]


def thread(*roots: str) -> list[dict[str, Any]]:
    return [{"kinds": [1], "#e": [root * 64 for root in roots]}]


def pages(fault: FaultRelay, number: int | None = None) -> list[dict[str, Any]]:
    """The filters of the REQs that asked for something stored."""
    return [frame[2] for frame in fault.reqs(number) if frame[2].get("limit") not in (0, 1)]


async def covered(relay: RelayConnection | RelayPool) -> None:
    """Return once nothing of the relay's past is missing."""
    await until(lambda: received_until(relay) is not None)


def received_until(relay: RelayConnection | RelayPool) -> float | None:
    status = relay.status()
    return (status[0] if isinstance(status, list) else status).received_until


# ---- order ------------------------------------------------------------------------------------------------------


async def test_the_order_holds_across_pages_filters_and_subscriptions(received: Received) -> None:
    """The subscription that is answered first holds what it found until the other has been read too."""
    tags = (["e", "1" * 64], ["p", BOB.public])  # by turns only with the thread's name and with ours
    written = [note(at=NOW - 800 + n, tags=[tags[n % 2]]) for n in range(12)]
    async with FaultRelay(clamp=3) as fault:
        fault.stored += [to_wire(event) for event in written]
        busy = [True]
        serve_unless(fault, lambda wanted: wanted["limit"] and "#e" in wanted and busy[0], "error: busy")
        relay = connection(fault.url, received)
        async with running(relay, LONG_AGO, addressed=ADDRESSED, threads=thread("1")):
            await fault.until(lambda: sum("#p" in page for page in pages(fault)) >= 4)
            assert received.ids == []
            busy[0] = False
            await received.has(*written)
    assert list(dict.fromkeys(received.ids)) == ids(written)


async def test_a_new_reply_waits_for_the_past_and_an_event_of_both_comes_once(
    fault: FaultRelay, received: Received
) -> None:
    held: list[tuple[Peer, str]] = []
    old, both = note(at=NOW - 50), note(at=NOW - 5)
    new = note(at=NOW, tags=[["e", old.id, "", "root"]])

    async def unfinished(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if filters[0]["limit"] == 0 or held:
            await peer.send("EOSE", sub_id)
        else:
            await peer.send("EVENT", sub_id, to_wire(both))
            await peer.send("EVENT", sub_id, to_wire(old))
            held.append((peer, sub_id))

    fault.on_req = unfinished
    async with running(pool(fault.url, on_event=received), LONG_AGO, notes=NOTES) as relays:
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
    async with running(connection(fault.url, received), LONG_AGO, notes=NOTES):
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

        fault.on_req = late
        serve_unless(endless, lambda _: True)
        async with running(pool(fault.url, endless.url, on_event=received), LONG_AGO, notes=NOTES) as relays:
            assert (await relays.publish(answer, fault.url)).accepted
            assert received.ids[:1] == [old.id]
            assert (await relays.publish(answer, endless.url)).accepted


async def test_what_is_sent_after_a_reconnect_waits_for_the_past_again(fault: FaultRelay, received: Received) -> None:
    async with running(pool(fault.url, on_event=received), LONG_AGO, notes=NOTES) as relays:
        await covered(relays)
        await fault.stop()
        fault.stored.append(to_wire(missed := note(at=NOW - 5)))
        sending = [asyncio.create_task(relays.publish(note(at=NOW), fault.url)) for _ in range(3)]
        await fault.start()
        assert all(outcome.accepted for outcome in await asyncio.gather(*sending))
    assert received.ids[:1] == [missed.id]
    assert len(fault.events()) == 3


async def test_events_of_a_relay_that_never_ends_a_page_are_delivered(fault: FaultRelay, received: Received) -> None:
    one, two = note(at=NOW - 50), note(at=NOW - 40)

    async def endless(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        for event in (two, one) if filters[0]["limit"] else ():
            await peer.send("EVENT", sub_id, to_wire(event))

    fault.on_req = endless
    relay = connection(fault.url, received, eose_timeout=0.5, probe_timeout=0.1)
    async with running(relay, LONG_AGO, notes=NOTES):
        await received.has(one, two)
        assert list(dict.fromkeys(received.ids)) == ids([one, two])
        assert received_until(relay) is None


async def test_a_backlog_cut_in_the_middle_is_read_again_and_keeps_its_order(received: Received) -> None:
    """The next connection begins at its beginning, also beyond the overlap of what was received before."""
    async with FaultRelay(clamp=2) as fault:
        written = [note(at=NOW - 5_000_000 + n) for n in range(6)]
        fault.stored += [to_wire(event) for event in written]

        async def cut(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            if peer.number == 1 and len(pages(fault, 1)) == 3:
                peer.drop()
            else:
                await fault.serve_stored(peer, sub_id, filters)

        fault.on_req = cut
        async with running(pool(fault.url, on_event=received), NOW - 6_000_000, notes=NOTES):
            await received.has(*written)
    assert fault.connections == 2
    assert received.ids == ids(written)


# ---- inheritance ------------------------------------------------------------------------------------------------


async def test_the_unread_past_of_a_replaced_subscription_is_read_by_its_successor(fault: FaultRelay) -> None:
    fault.on_req = fault.serve_new_only
    async with running(connection(fault.url), LONG_AGO, threads=thread("1")) as relay:
        await fault.until(lambda: pages(fault))
        relay.subscribe("threads", thread("1", "2"), NOW - 600)
        await fault.until(lambda: len(pages(fault)[-1]["#e"]) == 2)
    assert pages(fault)[-1]["since"] == LONG_AGO


async def test_the_unread_past_is_inherited_while_a_relay_is_away(fault: FaultRelay) -> None:
    await fault.stop()
    async with running(connection(fault.url), LONG_AGO, threads=thread("1")) as relay:
        for last in ("2", "3"):
            relay.subscribe("threads", thread("1", last), NOW - 600)
        await fault.start()
        await fault.until(lambda: pages(fault))
    assert [page["since"] for page in pages(fault)] == [LONG_AGO]


async def test_the_unread_past_is_kept_for_each_relay() -> None:
    """One relay's past was read until it sent its last frame, the other sent nothing: each continues there."""
    clock = [float(NOW)]
    async with FaultRelay() as reported, FaultRelay() as mute:
        mute.on_req = mute.serve_new_only
        relays = pool(reported.url, mute.url, now=lambda: clock[0])
        began = NOW - 5_000_000
        async with running(relays, began, threads=thread("1")):
            await mute.until(lambda: pages(mute))
            await covered(relays)
            clock[0] += 1_000_000
            await reported.stop()
            await until(lambda: not relays.status()[0].connected)
            relays.subscribe("threads", thread("1", "2"), int(clock[0]) - 600)
            await reported.start()
            await reported.until(lambda: any(len(page["#e"]) == 2 for page in pages(reported)))
            await mute.until(lambda: any(len(page["#e"]) == 2 for page in pages(mute)))
    assert pages(reported)[-1]["since"] == NOW - FAST.overlap
    assert pages(mute)[-1]["since"] == began


async def test_after_a_gap_a_successor_looks_back_as_far_as_its_predecessor(fault: FaultRelay) -> None:
    """A message composed offline may be dated long before the thread that joined the REQ last."""
    async with running(connection(fault.url), NOW - 5_000_000, threads=thread("1")) as relay:
        await covered(relay)
        relay.subscribe("threads", thread("1", "2"), NOW - 600)
        await fault.until(lambda: len(pages(fault)) == 2)
        await covered(relay)
        fault.peers[0].drop()
        await fault.until(lambda: pages(fault, 2))
    assert [page["since"] for page in pages(fault)] == [NOW - 5_000_000, NOW - 600, NOW - FAST.overlap]


def subscription(filters: list[dict[str, Any]], since: int | None, covered: float | None = None) -> Subscription:
    return Subscription(name="s", filters=filters, backlog_since=since, asked_at=NOW - 50, covered=covered)


@pytest.mark.parametrize(
    ("former", "own", "since"),
    [
        (subscription(thread("1", "2"), LONG_AGO), NOW - 600, LONG_AGO),
        (subscription(thread("8", "9"), LONG_AGO), NOW - 600, NOW - 600),  # nothing of it is asked for any more
        (subscription(thread("1"), 5, covered=NOW - 700.0), NOW - 600, NOW - 700 - 1000),
        (subscription(thread("1"), NOW - 10), NOW - 600, NOW - 600),
        (subscription(NOTES, LONG_AGO), NOW - 600, LONG_AGO),  # it asked for more, this among it
        (subscription(thread("1"), None), NOW - 600, NOW - 600),
        (subscription(thread("1"), None), None, NOW - 50 - CLOCKS_DIFFER),  # it never opened: from its request
    ],
)
def test_a_successor_begins_at_the_earlier_of_its_own_and_its_inherited_past(
    former: Subscription, own: int | None, since: int
) -> None:
    kept, added = replace_subscriptions([former], "s", [thread("1", "3")], own, NOW, overlap=1000)
    assert kept == []
    assert [successor.backlog_since for successor in added] == [since]


# ---- how far it is covered --------------------------------------------------------------------------------------


async def test_received_until_is_none_until_every_past_is_read(fault: FaultRelay) -> None:
    clock, busy = itertools.count(NOW), [True]
    serve_unless(fault, lambda wanted: wanted["limit"] and "#e" in wanted and busy[0], "error: later")
    relay = connection(fault.url, now=lambda: float(next(clock)))
    relay.subscribe("addressed", ADDRESSED, LONG_AGO)
    relay.subscribe("threads", thread("1"), LONG_AGO)
    assert received_until(relay) is None
    async with running(relay):
        await fault.until(lambda: sum("#e" in page for page in pages(fault)) >= 3)
        assert relay.status().connected
        assert received_until(relay) is None
        busy[0] = False
        await covered(relay)
        until_drop = received_until(relay)
        assert until_drop is not None
        fault.on_req = fault.serve_new_only
        fault.peers[0].drop()
        await fault.until(lambda: len(pages(fault, 2)) == 2)
        away = received_until(relay)  # connected again, and the gap is not read yet
        assert away is not None
        assert until_drop <= away < next(clock)


async def test_a_past_that_is_refused_for_good_is_never_covered(fault: FaultRelay) -> None:
    serve_unless(fault, lambda wanted: wanted["limit"], "restricted: no history")
    async with running(connection(fault.url), LONG_AGO, notes=NOTES) as relay:
        await until(lambda: relay.status().refused)
        assert received_until(relay) is None


async def test_a_gift_wrap_of_a_gap_is_read_however_young_the_subscription_is(
    fault: FaultRelay, received: Received
) -> None:
    """A first start asks for what is new from then on; wraps are dated up to two days back, and others are not."""
    wraps = [{"kinds": [1059], "#p": [ALICE.public]}]
    async with running(connection(fault.url, received), NOW - 60, notes=NOTES, wraps=wraps) as relay:
        await covered(relay)
        in_gap = note(kind=1059, by=BOB, at=NOW - 47 * 3600, tags=[["p", ALICE.public]])
        old, new = note(at=NOW - 20 * 3600), note()
        fault.stored += map(to_wire, (in_gap, old, new))
        fault.peers[0].drop()
        await received.has(in_gap, new)
        assert old.id not in received.ids
