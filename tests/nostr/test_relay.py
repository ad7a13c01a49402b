"""One connection through every fault a relay is known for."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tenex.nostr.events import is_genuine, parse_event, to_wire
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import (
    ALICE,
    BOB,
    FAST,
    NOTES,
    NOW,
    Received,
    connection,
    listening,
    note,
    real_relay,
    running,
    settle,
)

LONG_AGO = NOW - 100_000


async def test_live_reqs_come_first_with_no_since_and_nothing_stored(fault: FaultRelay) -> None:
    relay = connection(fault.url, Received())
    relay.subscribe("notes", [{"kinds": [1], "since": 5}], LONG_AGO)
    async with running(relay):
        await fault.until(lambda: len(fault.reqs()) >= 2)
    first, second = fault.reqs()[:2]
    assert first[2] == {"kinds": [1], "limit": 0}
    assert second[2] == {"kinds": [1], "since": LONG_AGO, "limit": 500}
    assert first[1] != second[1]


async def test_after_a_drop_every_req_is_sent_again_under_new_ids_and_the_gap_is_read(
    fault: FaultRelay, received: Received
) -> None:
    relay = connection(fault.url, received)
    relay.subscribe("notes", NOTES, LONG_AGO)
    relay.subscribe("threads", [{"kinds": [11]}], None)
    async with running(relay):
        await settle(relay)
        await settle(relay, "threads")
        before = {frame[1] for frame in fault.reqs()}
        in_gap, backdated = note(), note(at=NOW - 20 * 3600)
        fault.stored += [to_wire(in_gap), to_wire(backdated)]
        fault.peers[0].drop()
        await fault.until(lambda: len(fault.live(2)) == 2)
        await received.has(in_gap, backdated)
        assert not before & {frame[1] for frame in fault.reqs(2)}
        new = note()
        await fault.spread(to_wire(new))
        await received.has(new)


async def test_the_gap_is_read_from_the_last_frame_minus_the_overlap_not_from_the_beginning(fault: FaultRelay) -> None:
    clock = [float(NOW)]
    relay = connection(fault.url, Received(), now=lambda: clock[0])
    relay.subscribe("notes", NOTES, LONG_AGO - 10_000_000)
    async with running(relay):
        await fault.until(lambda: len(fault.reqs(1)) == 2)
        await settle(relay)
        await fault.until(lambda: len([f for _, f in fault.frames if f[0] == "CLOSE"]) == 1)
        clock[0] += 500_000
        fault.peers[0].drop()
        await fault.until(lambda: len(fault.reqs(2)) == 2)
    assert fault.reqs(2)[1][2]["since"] == NOW - FAST.overlap


async def test_an_incomplete_past_is_read_again(fault: FaultRelay) -> None:
    """The link breaks in the middle of the backlog: the next connection begins at its beginning."""
    fault.on_req = fault.serve_new_only
    relay = connection(fault.url, Received())
    relay.subscribe("notes", NOTES, LONG_AGO - 10_000_000)
    async with running(relay):
        await fault.until(lambda: len(fault.reqs(1)) == 2)
        fault.peers[0].drop()
        await fault.until(lambda: len(fault.reqs(2)) == 2)
    assert fault.reqs(2)[1][2]["since"] == LONG_AGO - 10_000_000


async def test_a_relay_that_is_down_at_the_start_is_connected_to_when_it_comes(received: Received) -> None:
    fault = FaultRelay()
    await fault.start()
    await fault.stop()
    relay = connection(fault.url, received)
    relay.subscribe("notes", NOTES, LONG_AGO)
    waiting = note()
    fault.stored.append(to_wire(waiting))
    with structlog.testing.capture_logs() as logs:
        async with running(relay):
            while not any(entry["event"] == "relay.lost" for entry in logs):
                await asyncio.sleep(0.005)
            assert not relay.status().connected
            assert "refused" in relay.status().fault or "Connect" in relay.status().fault
            await fault.start()
            await received.has(waiting)
            assert relay.status().connected
    await fault.stop()


async def test_a_half_open_link_is_noticed_by_ping(fault: FaultRelay) -> None:
    async with listening(
        connection(fault.url, Received(), replace(FAST, ping_interval=0.1, ping_timeout=0.1))
    ) as relay:
        fault.peers[0].freeze()
        await fault.until(lambda: fault.connections == 2)
        await settle(relay)


async def test_a_silent_subscription_is_asked_again_under_a_new_id_and_the_old_one_closed(fault: FaultRelay) -> None:
    relay = connection(fault.url, Received(), replace(FAST, probe_after=0.05))
    relay.subscribe("notes", NOTES, None)
    async with running(relay):
        await fault.until(lambda: len(fault.live(1)) == 3)
        await fault.until(lambda: ["CLOSE", fault.live(1)[0][1]] in [frame for _, frame in fault.frames])
        assert relay.status().connected
        assert relay.status().serves
    assert fault.connections == 1


async def test_what_a_forgotten_subscription_missed_is_found_when_it_is_asked_again(
    fault: FaultRelay, received: Received
) -> None:
    async with listening(connection(fault.url, received, replace(FAST, probe_after=0.3))):
        fault.peers[0].subscriptions.clear()  # it forgets us without a word
        missed = note()
        await fault.spread(to_wire(missed))
        await received.has(missed)


async def test_an_unresponsive_relay_is_reported_and_reconnected(fault: FaultRelay) -> None:
    deaf = [False]

    async def maybe(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if not deaf[0]:
            await peer.send("EOSE", sub_id)

    fault.on_req = maybe
    async with listening(
        connection(fault.url, Received(), replace(FAST, probe_after=0.05, probe_timeout=0.1))
    ) as relay:
        deaf[0] = True
        await fault.until(lambda: fault.connections == 2)
        assert not relay.status().serves
        deaf[0] = False
        await fault.until(lambda: len(fault.live()) >= 4)
        await settle(relay)
        assert relay.status().serves


@pytest.mark.parametrize(
    "reason", ["error: shutting down idle subscription", "rate-limited: slow down", "", "odd words"]
)
async def test_a_passing_closed_is_followed_by_a_new_req(reason: str, fault: FaultRelay, received: Received) -> None:
    async with listening(connection(fault.url, received)) as relay:
        first = fault.live()[0][1]
        fault.peers[0].subscriptions.clear()
        in_gap = note()
        fault.stored.append(to_wire(in_gap))
        await fault.peers[0].send("CLOSED", first, reason)
        await fault.until(lambda: len(fault.live()) == 2)
        assert fault.live()[1][1] != first
        await received.has(in_gap)
        await settle(relay)
        assert relay.status().refused == ()
    assert fault.connections == 1


@pytest.mark.parametrize(
    "reason", ["blocked: you", "restricted: members only", "unsupported: filter", "invalid: filter"]
)
async def test_a_refused_req_is_reported_and_retried_on_the_same_connection(reason: str, fault: FaultRelay) -> None:
    refuses, received, event = [True], Received(), note()

    async def refuse(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        is_refused = refuses[0] and filters[0]["kinds"] == [1]
        await peer.send("CLOSED", sub_id, reason) if is_refused else await fault.serve_stored(peer, sub_id, filters)

    fault.on_req = refuse
    relay = connection(fault.url, received)
    relay.subscribe("notes", NOTES, LONG_AGO)
    relay.subscribe("threads", [{"kinds": [11]}], None)
    async with running(relay):
        await fault.until(lambda: len([frame for frame in fault.live() if frame[2]["kinds"] == [1]]) == 5)
        status = relay.status()
        assert status.refused == (f"notes: {reason}",)
        assert (status.connected, status.serves) == (True, False)
        assert status.unresponsive_since is not None
        refuses[0] = False
        fault.stored.append(to_wire(event))
        await received.has(event)
        await settle(relay)
        status = relay.status()
        assert (status.refused, status.serves, status.unresponsive_since) == ((), True, None)
    assert fault.connections == 1


@pytest.mark.parametrize("refusal", ["CLOSED", "NOTICE", "nothing"])
async def test_the_simple_style_is_used_for_a_relay_that_refuses_the_other(
    refusal: str, fault: FaultRelay, received: Received
) -> None:

    async def simple_only(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if len(filters) == 1 and filters[0]["limit"] > 0:
            await fault.serve_stored(peer, sub_id, filters)
            return
        del peer.subscriptions[sub_id]
        if refusal == "CLOSED":
            await peer.send("CLOSED", sub_id, "error: bad request")
        elif refusal == "NOTICE":
            await peer.send("NOTICE", "bad request")

    fault.on_req = simple_only
    stored = [note(at=NOW - 10 + n) for n in range(3)]
    fault.stored += [to_wire(event) for event in stored]
    relay = connection(fault.url, received, replace(FAST, probe_timeout=0.5))
    relay.subscribe("both", [*NOTES, {"kinds": [11]}], LONG_AGO)
    async with running(relay):
        await received.has(*stored)
        assert list(dict.fromkeys(received.ids)) == [event.id for event in stored], (
            "the past came in the order it was written"
        )
        await settle(relay, "both")
        new = [note(), note(kind=11, at=5)]
        for event in new:
            await fault.spread(to_wire(event))
        await received.has(*new)
        assert relay.status().serves
        fault.peers[0].drop()
        await fault.until(lambda: len(fault.live(2)) == 2)
        assert all(len(frame) == 3 for frame in fault.reqs(2)), "what it takes is known on the next connection"
    assert fault.connections == 2


async def test_a_simple_style_without_effect_is_dropped_on_reconnect(fault: FaultRelay) -> None:
    async def mute(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if peer.number > 1:
            await fault.serve_stored(peer, sub_id, filters)

    fault.on_req = mute
    relay = connection(fault.url, Received(), replace(FAST, probe_timeout=0.5))
    relay.subscribe("both", [*NOTES, {"kinds": [11]}], None)
    async with running(relay):
        await fault.until(lambda: fault.connections == 2 and fault.live(2))
        await settle(relay, "both")
    assert [frame[2]["limit"] for frame in fault.live(2)] == [0]
    assert len(fault.live(2)[0]) == 4


async def test_an_unanswered_req_is_sent_again_and_reported_as_not_served(fault: FaultRelay) -> None:
    answers, received = [False], Received()

    async def maybe(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if answers[0]:
            await fault.serve_stored(peer, sub_id, filters)
        else:
            peer.subscriptions.clear()

    fault.on_req = maybe
    relay = connection(fault.url, received, replace(FAST, probe_after=60.0, probe_timeout=0.3))
    relay.subscribe("notes", NOTES, None)
    async with running(relay):
        await fault.until(lambda: len(fault.live()) == 2)
        assert (relay.status().connected, relay.status().serves) == (True, False)
        answers[0] = True
        await settle(relay)
        event = note()
        await fault.spread(to_wire(event))
        await received.has(event)
        assert relay.status().serves


async def test_one_subscription_without_an_answer_costs_the_others_nothing(fault: FaultRelay) -> None:
    """As on a relay that does not know a tag: the rest is served on the same connection, and this one asked again."""
    answers, received = [False], Received()

    async def partly(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if answers[0] or filters[0]["kinds"] == [1]:
            await fault.serve_stored(peer, sub_id, filters)

    fault.on_req = partly
    relay = connection(fault.url, received, replace(FAST, probe_after=1.0, probe_timeout=0.3))
    relay.subscribe("notes", NOTES, None)
    relay.subscribe("threads", [{"kinds": [11]}], None)
    async with running(relay):
        await fault.until(lambda: len([frame for frame in fault.live() if frame[2]["kinds"] == [11]]) >= 4, 20)
        event = note()
        await fault.spread(to_wire(event))
        await received.has(event)
        assert not relay.status().serves
        answers[0] = True
        await settle(relay, "threads")
        assert relay.status().serves
    assert fault.connections == 1


async def test_a_relay_that_sends_events_without_eose_is_not_taken_for_deaf(
    fault: FaultRelay, received: Received
) -> None:
    async def talkative(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        await peer.send("EVENT", sub_id, to_wire(note()))

    fault.on_req = talkative
    async with listening(connection(fault.url, received, replace(FAST, probe_timeout=0.5))) as relay:
        await asyncio.sleep(1.5)
        assert relay.status().serves
    assert (fault.connections, len(fault.live())) == (1, 1)


async def test_a_subscription_without_room_is_opened_when_another_is_given_up(fault: FaultRelay) -> None:
    fault.document = {"limitation": {"max_subscriptions": 3}}
    relay = connection(fault.url, Received())
    relay.subscribe("first", NOTES, None)
    async with running(relay), asyncio.timeout(30):
        await settle(relay, "first")
        while relay._limits.max_subscriptions != 3:
            await asyncio.sleep(0.01)
        relay.subscribe("second", [{"kinds": [11]}], None)
        assert not relay.status().serves
        relay.unsubscribe("first")
        await settle(relay, "second")
        assert relay.status().serves


async def test_unrequested_events_are_dropped_and_counted(fault: FaultRelay, received: Received) -> None:
    async with listening(connection(fault.url, received)) as relay:
        peer, sub_id, wanted = fault.peers[0], fault.live()[0][1], note()
        await peer.send("EVENT", "somebody-else", to_wire(note()))
        await peer.send("EVENT", sub_id, to_wire(note(kind=7)))
        for text in ("[]", "{}", "nonsense", '["EVENT"]', '["EVENT","x",[]]', "[" * 5000, b"\xff\x00", '["OK"]'):
            await peer.send_text(text)
        await peer.send("NOTICE", "careful\x1b[31m")
        await peer.send("OK", "", False, "invalid: whatever")
        await peer.send("EVENT", sub_id, to_wire(wanted))
        await received.has(wanted)
        counters = relay.status().counters
        assert (counters["unknown_subscription"], counters["unmatched"], counters["malformed"]) == (1, 1, 9)
        assert relay.status().last_received == NOW
    assert received.ids == [wanted.id]
    assert fault.connections == 1


async def test_a_replaced_subscription_opens_a_new_req_and_closes_the_old(
    fault: FaultRelay, received: Received
) -> None:
    async with listening(connection(fault.url, received)) as relay:
        relay.subscribe("notes", [{"kinds": [11]}], None)
        await settle(relay)
        await fault.until(lambda: ["CLOSE", fault.live()[0][1]] in [frame for _, frame in fault.frames])
        thread = note(kind=11)
        await fault.spread(to_wire(thread))
        await received.has(thread)
        relay.unsubscribe("notes")
        await fault.until(lambda: not fault.peers[0].subscriptions)
        relay.unsubscribe("notes")


async def test_the_same_subscription_again_asks_nothing(fault: FaultRelay) -> None:
    async with listening(connection(fault.url, Received()), LONG_AGO) as relay:
        relay.subscribe("notes", NOTES, LONG_AGO + 5)
        relay.subscribe("marker", [{"kinds": [9]}], None)
        await settle(relay, "marker")
    assert [frame[2]["kinds"] for frame in fault.live()] == [[1], [9]]


async def test_eight_live_reqs_may_all_be_replaced_at_once(fault: FaultRelay) -> None:
    """The connection has room for ten: old ones are closed before their successors open."""
    relay = connection(fault.url, Received())
    for n in range(8):
        relay.subscribe(f"s{n}", [{"kinds": [100 + n]}], LONG_AGO)
    with pytest.raises(ValueError, match="8 of 8 are taken"):
        relay.subscribe("s8", NOTES, None)
    async with running(relay):
        for n in range(8):
            await settle(relay, f"s{n}")
        for n in range(8):
            relay.subscribe(f"s{n}", [{"kinds": [200 + n]}], LONG_AGO)
        for n in range(8):
            await settle(relay, f"s{n}")
        open_now = fault.peers[0].subscriptions.values()
        await fault.until(
            lambda: sorted(f[0]["kinds"][0] for f in open_now if not f[0]["limit"]) == list(range(200, 208))
        )


async def test_published_events_are_accepted_and_the_detail_kept(fault: FaultRelay) -> None:
    relay, event = connection(fault.url, Received()), note()
    async with running(relay):
        assert (await relay.publish(event)).accepted
        again = await relay.publish(event)
    assert again.accepted
    assert again.detail == "duplicate: have it"
    assert fault.events() == [to_wire(event)] * 2


@pytest.mark.parametrize("reason", ["rate-limited: slow down", "error: disk", "busy"])
async def test_a_passing_refusal_is_followed_by_the_same_bytes(reason: str, fault: FaultRelay) -> None:
    async def third_time(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], len(fault.events()) == 3, reason)

    fault.on_event = third_time
    relay, event = connection(fault.url, Received()), note()
    async with running(relay):
        async with asyncio.timeout(60):
            assert (await relay.publish(event)).accepted
    assert fault.events() == [to_wire(event)] * 3


@pytest.mark.parametrize("reason", ["pow: 20 bits", "invalid: kind", "blocked: spam", "duplicate: exists"])
async def test_a_final_refusal_is_an_outcome(reason: str, fault: FaultRelay) -> None:
    fault.on_event = lambda peer, event: peer.send("OK", event["id"], False, reason)
    relay = connection(fault.url, Received())
    async with running(relay):
        outcome = await relay.publish(note())
    assert (outcome.accepted, outcome.detail) == (reason.startswith("duplicate"), reason)
    assert len(fault.events()) == 1


async def test_endless_refusal_without_a_known_reason_ends(fault: FaultRelay) -> None:
    fault.on_event = lambda peer, event: peer.send("OK", event["id"], False, "do not like it")
    relay = connection(fault.url, Received())
    async with running(relay), asyncio.timeout(60):
        outcome = await relay.publish(note())
    assert (outcome.accepted, outcome.detail) == (False, "do not like it")


async def test_without_an_ok_the_same_bytes_are_sent_again(fault: FaultRelay) -> None:
    async def forgetful(peer: Peer, event: dict[str, Any]) -> None:
        if len(fault.events()) == 3:
            await peer.send("OK", event["id"], True, "")

    fault.on_event = forgetful
    relay, event = connection(fault.url, Received(), replace(FAST, ok_timeout=0.05)), note()
    async with running(relay):
        async with asyncio.timeout(60):
            assert (await relay.publish(event)).accepted
    assert fault.events() == [to_wire(event)] * 3


async def test_an_ok_for_another_event_is_no_answer(fault: FaultRelay) -> None:
    async def confused(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", "0" * 64, True, "")
        await peer.send("OK", "", False, "invalid: no")
        await peer.send("OK", event["id"], False, "blocked: truly")

    fault.on_event = confused
    relay = connection(fault.url, Received())
    async with running(relay):
        assert (await relay.publish(note())).detail == "blocked: truly"


async def test_unanswered_events_are_sent_again_after_a_reconnect(fault: FaultRelay) -> None:
    async def hang_up_once(peer: Peer, event: dict[str, Any]) -> None:
        if peer.number == 1:
            peer.drop()
        else:
            await fault.accept(peer, event)

    fault.on_event = hang_up_once
    relay, event = connection(fault.url, Received()), note()
    async with running(relay):
        async with asyncio.timeout(60):
            assert (await relay.publish(event)).accepted
    assert fault.events() == [to_wire(event)] * 2


async def test_what_is_published_while_the_relay_is_down_is_delivered_when_it_is_back() -> None:
    fault = FaultRelay()
    await fault.start()
    relay = connection(fault.url, Received())
    async with running(relay):
        async with asyncio.timeout(60):
            await relay.connected.wait()
        await fault.stop()
        events = [note() for _ in range(3)]
        publishing = [asyncio.create_task(relay.publish(event)) for event in events]
        await fault.start()
        async with asyncio.timeout(60):
            assert all(outcome.accepted for outcome in await asyncio.gather(*publishing))
        assert {event["id"] for event in fault.events()} == {event.id for event in events}
    await fault.stop()


async def test_an_event_too_big_for_the_relay_is_refused_and_not_sent_for_ever(fault: FaultRelay) -> None:
    async def too_big(peer: Peer, event: dict[str, Any]) -> None:
        if len(event["content"]) > 1000:
            await peer.socket.close(1009, "message too big")
        elif peer.number > 1:
            await fault.accept(peer, event)

    fault.on_event = too_big
    relay, small, big = connection(fault.url, Received()), note(), note("x" * 2000)
    async with running(relay):
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(relay.publish(small), relay.publish(big))
    assert [outcome.accepted for outcome in outcomes] == [True, False]
    assert "too big" in outcomes[1].detail


async def test_a_cancelled_publish_leaves_the_connection_as_it_was(fault: FaultRelay) -> None:
    accept = fault.on_event
    fault.on_event = lambda peer, event: asyncio.sleep(0)
    relay, event = connection(fault.url, Received()), note()
    async with running(relay):
        publishing = asyncio.create_task(relay.publish(event))
        await fault.until(fault.events)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert relay.busy == 0
        await fault.peers[0].send("OK", event.id, True, "too late")
        fault.on_event = accept
        assert (await relay.publish(event)).accepted
    assert fault.connections == 1


async def test_the_same_event_published_twice_at_once_is_answered_twice(fault: FaultRelay) -> None:
    relay, event = connection(fault.url, Received()), note()
    async with running(relay), asyncio.timeout(60):
        outcomes = await asyncio.gather(relay.publish(event), relay.publish(event))
    assert all(outcome.accepted for outcome in outcomes)


def asks_who(fault: FaultRelay, known: set[int]) -> None:
    """Make the relay ask for AUTH before everything."""

    async def challenge(peer: Peer) -> None:
        await peer.send("AUTH", f"challenge {peer.number}")

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        tags = {tag[0]: tag[1] for tag in event["tags"]}
        parsed = parse_event(event)
        good = (parsed.kind, tags) == (22242, {"relay": fault.url, "challenge": f"challenge {peer.number}"})
        assert is_genuine(parsed)
        known.add(peer.number)
        await peer.send("OK", event["id"], good, "" if good else "invalid: auth")

    async def on_event(peer: Peer, event: dict[str, Any]) -> None:
        if peer.number in known:
            await fault.accept(peer, event)
        else:
            await peer.send("OK", event["id"], False, "auth-required: who are you")

    async def on_req(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if peer.number in known:
            await fault.serve_stored(peer, sub_id, filters)
        else:
            await peer.send("CLOSED", sub_id, "auth-required: who are you")

    fault.on_connect, fault.on_auth, fault.on_event, fault.on_req = challenge, on_auth, on_event, on_req


async def test_auth_is_answered_once_per_connection(fault: FaultRelay, received: Received) -> None:
    asks_who(fault, set())
    stored = note(at=NOW - 5)
    fault.stored.append(to_wire(stored))
    relay = connection(fault.url, received, identity=BOB)
    relay.subscribe("notes", NOTES, LONG_AGO)
    relay.subscribe("threads", [{"kinds": [11]}], None)
    async with running(relay):
        assert (await relay.publish(note())).accepted
        await settle(relay)
        await settle(relay, "threads")
        await received.has(stored)
        fault.peers[0].drop()
        await fault.until(lambda: fault.connections == 2)
        await settle(relay)
    auths = [(number, frame[1]) for number, frame in fault.frames if frame[0] == "AUTH"]
    assert [number for number, _ in auths] == [1, 2]
    assert {event["pubkey"] for _, event in auths} == {BOB.public}


async def test_without_a_key_to_show_it_is_refused_and_visible(fault: FaultRelay) -> None:
    asks_who(fault, set())
    relay = connection(fault.url, Received())
    relay.subscribe("notes", NOTES, None)
    async with running(relay):
        outcome = await relay.publish(note())
        assert not outcome.accepted
        assert "auth-required: who are you (this connection has no key" in outcome.detail
        await relay.publish(note())  # its answer comes after the CLOSED
        assert "notes: auth-required" in relay.status().refused[0]


async def test_auth_that_is_required_without_a_challenge_is_reported(fault: FaultRelay) -> None:
    fault.on_event = lambda peer, event: peer.send("OK", event["id"], False, "auth-required: who are you")
    relay = connection(fault.url, Received(), replace(FAST, auth_timeout=0.1), identity=BOB)
    async with running(relay):
        assert "sent no challenge" in (await relay.publish(note())).detail


async def test_a_refused_auth_is_tried_again_on_the_same_connection_until_it_is_accepted(fault: FaultRelay) -> None:
    """As where our key is admitted while we are connected; events are refused meanwhile."""
    members, received = [False], Received()
    known: set[int] = set()
    asks_who(fault, known)
    accept = fault.on_auth

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        if members[0]:
            await accept(peer, event)
        else:
            await peer.send("OK", event["id"], False, "restricted: not a member")

    fault.on_auth = on_auth
    relay = connection(fault.url, received, replace(FAST, auth_timeout=0.2), identity=BOB)
    relay.subscribe("notes", NOTES, None)
    async with running(relay):
        outcome = await relay.publish(note())
        assert "restricted: not a member" in outcome.detail
        await fault.until(lambda: len(fault.live()) == 4)
        assert "not a member" in relay.status().refused[0]
        assert len([frame for _, frame in fault.frames if frame[0] == "AUTH"]) < len(fault.live())
        members[0] = True
        await settle(relay)
        assert relay.status().serves
    assert fault.connections == 1


async def test_limits_a_relay_publishes_are_kept(fault: FaultRelay) -> None:
    fault.document = {"limitation": {"max_limit": 50, "max_message_length": 5000, "max_subscriptions": 4}}
    relay = connection(fault.url, Received())
    for n in range(3):
        relay.subscribe(f"s{n}", [{"kinds": [100 + n]}], LONG_AGO)
    async with running(relay):
        outcome = await relay.publish(note("x" * 6000))
        while outcome.accepted:  # the document came after the first event
            outcome = await relay.publish(note("x" * 6000))
        assert "5000 bytes" in outcome.detail
        fault.peers[0].drop()
        await fault.until(lambda: [f for f in fault.reqs(2) if f[2]["limit"] == 50])
        assert len(relay.status().refused) == 1
        assert "allows 4" in relay.status().refused[0]


async def test_frames_are_paced(fault: FaultRelay) -> None:
    """Forty events at 100 a second with a bucket of 100 go at once; the next hundred take a second."""
    relay = connection(fault.url, Received(), replace(FAST, frames_per_second=50.0, ok_timeout=20.0))
    async with running(relay):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*(relay.publish(note()) for _ in range(75)))
        assert loop.time() - began >= 0.45


async def test_a_real_relay_serves_and_takes(received: Received) -> None:
    async with real_relay() as url:
        relay = connection(url, received)
        stored = [note(at=NOW - n) for n in range(5)]
        async with running(relay):
            for event in stored:
                assert (await relay.publish(event)).accepted
            assert (await relay.publish(stored[0])).accepted
            relay.subscribe("notes", NOTES, LONG_AGO)
            await received.has(*stored)
            await settle(relay)
            new = note()
            assert (await relay.publish(new)).accepted
            await received.has(new)
            refused = await relay.publish(note().model_copy(update={"sig": ALICE.sign_digest(b"0" * 32)}))
            assert not refused.accepted


async def test_the_backlog_is_paged_through_a_real_relays_clamp(received: Received) -> None:
    """nostr-sdk's relay gives 500 whatever is asked."""
    async with real_relay() as url:
        relay = connection(url, received)
        stored = [note(at=NOW - n // 3) for n in range(1210)]
        async with running(relay):
            await asyncio.gather(*(relay.publish(event) for event in stored))
            relay.subscribe("notes", NOTES, LONG_AGO)
            await received.until(lambda: len(set(received.ids)) == 1210, within=20)


async def test_auth_with_a_real_relay(received: Received) -> None:
    async with real_relay(nip42=True) as url:
        relay = connection(url, received, identity=ALICE, now=lambda: float(__import__("time").time()))
        relay.subscribe("notes", NOTES, LONG_AGO)
        async with running(relay):
            await settle(relay)
            event = note()
            async with asyncio.timeout(60):
                assert (await relay.publish(event)).accepted
            await received.has(event)
