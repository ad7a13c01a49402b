"""One connection through every fault a relay is known for."""

import asyncio
import time
from typing import Any

import nostr_sdk
import pytest
import structlog

from tenex.nostr.embedded import callback_loop
from tenex.nostr.events import is_genuine, parse_event, to_wire
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import (
    ALICE,
    BOB,
    FAST,
    LONG_AGO,
    NOTES,
    NOW,
    THREADS,
    Received,
    auths,
    closes,
    connection,
    ids,
    listening,
    note,
    pool,
    running,
    serve_unless,
    settle,
    until,
)


async def test_live_reqs_come_first_with_no_since_and_nothing_stored(fault: FaultRelay) -> None:
    async with running(connection(fault.url), LONG_AGO, notes=[{"kinds": [1], "since": 5}]):
        await fault.until(lambda: len(fault.reqs()) >= 2)
    first, second = fault.reqs()[:2]
    assert first[2] == {"kinds": [1], "limit": 0}
    assert second[2] == {"kinds": [1], "since": LONG_AGO, "limit": 500}
    assert first[1] != second[1]


async def test_after_a_drop_every_req_is_sent_again_under_new_ids_and_the_gap_is_read(
    fault: FaultRelay, received: Received
) -> None:
    async with listening(connection(fault.url, received), LONG_AGO, notes=NOTES, threads=THREADS):
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


async def test_a_relay_that_is_down_at_the_start_is_connected_to_when_it_comes(
    fault: FaultRelay, received: Received
) -> None:
    await fault.stop()
    relay, waiting = connection(fault.url, received), note()
    relay.subscribe("notes", NOTES, LONG_AGO)
    fault.stored.append(to_wire(waiting))
    with structlog.testing.capture_logs() as logs:
        async with running(relay):
            await until(lambda: any(entry["event"] == "relay.lost" for entry in logs))
            assert not relay.status().connected
            assert "refused" in relay.status().fault or "Connect" in relay.status().fault
            await fault.start()
            await received.has(waiting)
            assert relay.status().connected


async def test_a_half_open_link_is_noticed_by_ping(fault: FaultRelay) -> None:
    async with listening(connection(fault.url, ping_interval=0.1, ping_timeout=0.1)) as relay:
        fault.peers[0].freeze()
        await fault.until(lambda: fault.connections == 2)
        await settle(relay, "notes")


async def test_a_silent_subscription_is_asked_again_and_what_it_missed_is_read_in_order(
    fault: FaultRelay, received: Received
) -> None:
    async with listening(connection(fault.url, received, probe_after=0.3)) as relay:
        fault.peers[0].subscriptions.clear()  # it forgets us without a word
        missed = [note(at=NOW + n) for n in range(4)]
        fault.stored += [to_wire(event) for event in missed]
        await received.has(*missed)
        await fault.until(lambda: len(fault.live()) >= 3)
        first, second, *_ = [frame[1] for frame in fault.live()]
        assert first != second
        await fault.until(lambda: {first, second} <= set(closes(fault)))
        assert relay.status().serves
    assert list(dict.fromkeys(received.ids)) == ids(missed)
    assert fault.connections == 1


async def test_an_unresponsive_relay_is_reported_and_reconnected(fault: FaultRelay) -> None:
    deaf = [False]
    serve_unless(fault, lambda _: deaf[0])
    async with listening(connection(fault.url, probe_after=0.05, probe_timeout=0.1)) as relay:
        deaf[0] = True
        await fault.until(lambda: fault.connections == 2)
        assert not relay.status().serves
        deaf[0] = False
        await fault.until(lambda: len(fault.live()) >= 4)
        await settle(relay, "notes")
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
        await settle(relay, "notes")
        assert relay.status().refused == ()
    assert fault.connections == 1


@pytest.mark.parametrize(
    "reason", ["blocked: you", "restricted: members only", "unsupported: filter", "invalid: filter"]
)
async def test_a_refused_req_is_reported_and_retried_on_the_same_connection(
    reason: str, fault: FaultRelay, received: Received
) -> None:
    refuses, event = [True], note()
    serve_unless(fault, lambda wanted: refuses[0] and wanted["kinds"] == [1], reason)
    relay = connection(fault.url, received)
    relay.subscribe("notes", NOTES, LONG_AGO)
    async with running(relay, threads=THREADS):
        await fault.until(lambda: len([frame for frame in fault.live() if frame[2]["kinds"] == [1]]) == 5)
        status = relay.status()
        assert status.refused == (f"notes: {reason}",)
        assert (status.connected, status.serves) == (True, False)
        assert status.unresponsive_since is not None
        refuses[0] = False
        fault.stored.append(to_wire(event))
        await received.has(event)
        await settle(relay, "notes")
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
    relay = connection(fault.url, received, eose_timeout=1.0, probe_timeout=0.5)
    async with listening(relay, LONG_AGO, both=NOTES + THREADS):
        await received.has(*stored)
        assert list(dict.fromkeys(received.ids)) == ids(stored), "the past came in the order it was written"
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
    serve_unless(fault, lambda _: fault.connections == 1)
    async with listening(connection(fault.url, probe_timeout=0.5), both=NOTES + THREADS):
        assert fault.connections == 2
    assert [frame[2]["limit"] for frame in fault.live(2)] == [0]
    assert len(fault.live(2)[0]) == 4


async def test_one_subscription_without_an_answer_costs_the_others_nothing(
    fault: FaultRelay, received: Received
) -> None:
    """As on a relay that does not know a tag: the rest is served on the same connection, and this one asked again."""
    answers = [False]
    serve_unless(fault, lambda wanted: not answers[0] and wanted["kinds"] == [11])
    relay = connection(fault.url, received, probe_after=1.0, probe_timeout=0.3)
    relay.subscribe("threads", THREADS, None)
    async with listening(relay):
        await fault.until(lambda: len([frame for frame in fault.live() if frame[2]["kinds"] == [11]]) >= 4, 20)
        event = note()
        await fault.spread(to_wire(event))
        await received.has(event)
        assert (relay.status().connected, relay.status().serves) == (True, False)
        answers[0] = True
        await settle(relay, "threads")
        assert relay.status().serves
    assert fault.connections == 1


async def test_a_relay_that_sends_events_without_eose_is_not_taken_for_deaf(fault: FaultRelay) -> None:
    fault.on_req = lambda peer, sub_id, filters: peer.send("EVENT", sub_id, to_wire(note()))
    async with listening(connection(fault.url, probe_timeout=0.5)) as relay:
        await asyncio.sleep(1.5)
        assert relay.status().serves
    assert (fault.connections, len(fault.live())) == (1, 1)


async def test_a_subscription_without_room_is_opened_when_another_needs_less(fault: FaultRelay) -> None:
    fault.document = {"limitation": {"max_subscriptions": 4}}
    async with listening(connection(fault.url), first=[*NOTES, {"kinds": [4]}]) as relay:
        await until(lambda: relay._limits.max_subscriptions == 4)
        relay.subscribe("second", THREADS, None)
        assert not relay.status().serves
        relay.subscribe("first", NOTES, None)
        await settle(relay, "second")
        assert relay.status().serves
        with pytest.raises(ValueError, match="'third' has no filters"):
            relay.subscribe("third", [], None)


async def test_the_same_subscription_again_asks_nothing_unless_its_past_was_never_asked_for(fault: FaultRelay) -> None:
    async with listening(connection(fault.url), LONG_AGO) as relay:
        relay.subscribe("notes", NOTES, LONG_AGO + 5)
        relay.subscribe("threads", THREADS, None)
        await settle(relay, "threads")
        assert [frame[2]["kinds"] for frame in fault.live()] == [[1], [11]]
        assert all(frame[2]["kinds"] == [1] for frame in fault.reqs() if "since" in frame[2])
        relay.subscribe("threads", THREADS, LONG_AGO)
        await fault.until(lambda: [11] in [frame[2]["kinds"] for frame in fault.reqs() if "since" in frame[2]])


async def test_a_subscription_may_change_at_any_moment_while_the_client_stops(fault: FaultRelay) -> None:
    """Its task can no longer be started then, and nothing is raised or left behind."""
    relay = connection(fault.url)
    relay.subscribe("notes", NOTES, None)
    client = asyncio.create_task(relay.run())
    await settle(relay, "notes")
    client.cancel()
    number = 0
    while not client.done():
        number += 1
        relay.subscribe("notes", [{"kinds": [number]}], None)
        await asyncio.sleep(0)
    assert client.cancelled()
    assert number > 1


async def test_eight_live_reqs_may_all_be_replaced_at_once(fault: FaultRelay) -> None:
    """The connection has room for ten: old ones are closed before their successors open."""
    names = [f"s{n}" for n in range(8)]
    relay = connection(fault.url)
    for kind, name in enumerate(names, 100):
        relay.subscribe(name, [{"kinds": [kind]}], LONG_AGO)
    with pytest.raises(ValueError, match="8 of 8 are taken"):
        relay.subscribe("s8", NOTES, None)
    async with running(relay):
        await settle(relay, *names)
        for kind, name in enumerate(names, 200):
            relay.subscribe(name, [{"kinds": [kind]}], LONG_AGO)
        await settle(relay, *names)
        open_now = fault.peers[0].subscriptions.values()
        await fault.until(
            lambda: sorted(f[0]["kinds"][0] for f in open_now if not f[0]["limit"]) == list(range(200, 208))
        )


@pytest.mark.parametrize("answer", ["rate-limited: slow down", "error: disk", "busy", "no OK", "hang up"])
async def test_the_same_bytes_are_sent_until_they_are_accepted(answer: str, fault: FaultRelay) -> None:
    async def third_time(peer: Peer, event: dict[str, Any]) -> None:
        if len(fault.events()) == 3:
            await fault.accept(peer, event)
        elif answer == "hang up":
            peer.drop()
        elif answer != "no OK":
            await peer.send("OK", event["id"], False, answer)

    fault.on_event = third_time
    relay, event = connection(fault.url, ok_timeout=0.05 if answer == "no OK" else FAST.ok_timeout), note()
    async with running(relay), asyncio.timeout(60):
        assert (await relay.publish(event)).accepted
    assert fault.events() == [to_wire(event)] * 3


async def test_a_relay_that_gives_no_answer_is_given_twice_the_time_with_each_try_up_to_a_limit(
    fault: FaultRelay,
) -> None:
    async def sixth_time(peer: Peer, event: dict[str, Any]) -> None:
        if len(fault.events()) >= 6:
            await fault.accept(peer, event)

    fault.on_event = sixth_time
    relay = connection(fault.url, ok_timeout=0.01, redo_most=0.06)
    with structlog.testing.capture_logs() as logs:
        async with running(relay), asyncio.timeout(60):
            assert (await relay.publish(note())).accepted
    waited = [entry["waited"] for entry in logs if entry["event"] == "relay.no_ok"]
    assert waited[:5] == [0.01, 0.02, 0.04, 0.06, 0.06]


@pytest.mark.parametrize(
    ("reason", "tries"),
    [
        ("pow: 20 bits", 1),
        ("invalid: kind", 1),
        ("blocked: spam", 1),
        ("duplicate: exists", 1),
        ("I do not like it", 8),
    ],
)
async def test_a_final_or_endless_refusal_is_an_outcome(reason: str, tries: int, fault: FaultRelay) -> None:
    async def refuse(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", "0" * 64, True, "")  # an OK for another event is no answer
        await peer.send("OK", event["id"], False, reason)

    fault.on_event = refuse
    async with running(connection(fault.url)) as relay, asyncio.timeout(60):
        outcome = await relay.publish(note())
    assert (outcome.accepted, outcome.detail) == (reason.startswith("duplicate"), reason)
    assert len(fault.events()) == tries


async def test_an_event_too_big_for_the_relay_is_refused_and_not_sent_for_ever(fault: FaultRelay) -> None:
    async def too_big(peer: Peer, event: dict[str, Any]) -> None:
        if len(event["content"]) > 1000:
            await peer.socket.close(1009, "message too big")
        elif peer.number > 1:
            await fault.accept(peer, event)

    fault.on_event = too_big
    relay, small, big = connection(fault.url), note(), note("x" * 2000)
    async with running(relay), asyncio.timeout(60):
        outcomes = await asyncio.gather(relay.publish(small), relay.publish(big))
    assert [outcome.accepted for outcome in outcomes] == [True, False]
    assert "too big" in outcomes[1].detail


async def test_a_cancelled_publish_leaves_the_connection_as_it_was(fault: FaultRelay) -> None:
    accept = fault.on_event
    fault.on_event = lambda peer, event: asyncio.sleep(0)
    relay, event = connection(fault.url), note()
    async with running(relay):
        publishing = asyncio.create_task(relay.publish(event))
        await fault.until(fault.events)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert relay.busy == 0
        await fault.peers[0].send("OK", event.id, True, "too late")
        fault.on_event = accept
        both = await asyncio.gather(relay.publish(event), relay.publish(event))
        assert all(outcome.accepted for outcome in both), "published twice at once, it is answered twice"
    assert fault.connections == 1


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

    fault.on_connect, fault.on_auth, fault.on_event = challenge, on_auth, on_event
    serve_unless(fault, lambda _: fault.connections not in known, "auth-required: who are you")


async def test_auth_is_answered_once_per_connection(fault: FaultRelay, received: Received) -> None:
    asks_who(fault, set())
    stored = note(at=NOW - 5)
    fault.stored.append(to_wire(stored))
    relay = connection(fault.url, received, identity=BOB)
    async with listening(relay, LONG_AGO, notes=NOTES, threads=THREADS):
        assert (await relay.publish(note())).accepted
        await received.has(stored)
        fault.peers[0].drop()
        await fault.until(lambda: fault.connections == 2)
        await settle(relay, "notes")
    assert [number for number, _ in auths(fault)] == [1, 2]
    assert {event["pubkey"] for _, event in auths(fault)} == {BOB.public}


async def test_a_relay_that_gives_private_messages_to_their_readers_alone_is_shown_every_key(
    fault: FaultRelay, received: Received
) -> None:
    shown: set[str] = set()

    async def challenge(peer: Peer) -> None:
        await peer.send("AUTH", "who are you")

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        assert is_genuine(parse_event(event))
        shown.add(event["pubkey"])
        await peer.send("OK", event["id"], True, "")

    fault.on_connect, fault.on_auth = challenge, on_auth
    serve_unless(fault, lambda wanted: not shown.issuperset(wanted["#p"]), "auth-required: only to their readers")
    wrap = note(at=NOW - 5, kind=1059, tags=[["p", ALICE.public]])
    fault.stored.append(to_wire(wrap))
    readers = pool(fault.url, on_event=received, identity=BOB, more_identities=lambda: [BOB, ALICE])
    async with running(readers, LONG_AGO, direct=[{"kinds": [1059], "#p": [ALICE.public, BOB.public]}]):
        await received.has(wrap)
    keys = [event["pubkey"] for _, event in auths(fault)]
    assert keys == [BOB.public, ALICE.public, BOB.public], "the first again, for relays that know but the last"


async def test_without_a_key_to_show_it_is_refused_and_visible(fault: FaultRelay) -> None:
    asks_who(fault, set())
    async with running(connection(fault.url), notes=NOTES) as relay:
        outcome = await relay.publish(note())
        assert not outcome.accepted
        assert "auth-required: who are you (this connection has no key" in outcome.detail
        await relay.publish(note())  # its answer comes after the CLOSED
        assert "notes: auth-required" in relay.status().refused[0]


async def test_auth_that_is_required_without_a_challenge_is_reported(fault: FaultRelay) -> None:
    fault.on_event = lambda peer, event: peer.send("OK", event["id"], False, "auth-required: who are you")
    async with running(connection(fault.url, auth_timeout=0.1, identity=BOB)) as relay:
        assert "sent no challenge" in (await relay.publish(note())).detail


async def _challenge(peer: Peer) -> None:
    await peer.send("AUTH", "challenge")


@pytest.mark.parametrize("answer", [None, "auth-required: verification failed", "error: busy"])
async def test_an_event_waits_where_auth_fails_for_a_reason_that_passes(fault: FaultRelay, answer: str | None) -> None:
    refused: list[str] = []

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        if refused:
            await peer.send("OK", event["id"], True, "")
            return
        refused.append(event["id"])
        if answer is not None:
            await peer.send("OK", event["id"], False, answer)

    async def on_event(peer: Peer, event: dict[str, Any]) -> None:
        if len(auths(fault)) > 1:
            await fault.accept(peer, event)
        else:
            await peer.send("OK", event["id"], False, "auth-required: who are you")

    fault.on_connect, fault.on_auth, fault.on_event = _challenge, on_auth, on_event
    async with running(connection(fault.url, auth_timeout=0.2, identity=BOB)) as relay, asyncio.timeout(20):
        assert (await relay.publish(note())).accepted


async def test_an_event_is_refused_where_auth_fails_for_good(fault: FaultRelay) -> None:
    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], False, "restricted: not a relay member")

    fault.on_connect, fault.on_auth = _challenge, on_auth
    fault.on_event = lambda peer, event: peer.send("OK", event["id"], False, "auth-required: who are you")
    async with running(connection(fault.url, identity=BOB)) as relay, asyncio.timeout(5):
        outcome = await relay.publish(note())
    assert (outcome.accepted, "not a relay member" in outcome.detail) == (False, True)
    assert len(auths(fault)) == 1


async def test_a_refused_auth_is_tried_again_on_the_same_connection_until_it_is_accepted(fault: FaultRelay) -> None:
    """As where our key is admitted while we are connected; events are refused meanwhile."""
    members = [False]
    asks_who(fault, set())
    accept = fault.on_auth

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        if members[0]:
            await accept(peer, event)
        else:
            await peer.send("OK", event["id"], False, "restricted: not a member")

    fault.on_auth = on_auth
    async with running(connection(fault.url, auth_timeout=0.2, identity=BOB), notes=NOTES) as relay:
        outcome = await relay.publish(note())
        assert "restricted: not a member" in outcome.detail
        await fault.until(lambda: len(fault.live()) == 4)
        assert "not a member" in relay.status().refused[0]
        assert len(auths(fault)) < len(fault.live())
        members[0] = True
        await settle(relay, "notes")
        assert relay.status().serves
    assert fault.connections == 1


async def test_limits_a_relay_publishes_are_kept(fault: FaultRelay) -> None:
    fault.document = {"limitation": {"max_limit": 50, "max_message_length": 5000, "max_subscriptions": 4}}
    relay = connection(fault.url)
    for n in range(3):
        relay.subscribe(f"s{n}", [{"kinds": [100 + n]}], LONG_AGO)
    async with running(relay), asyncio.timeout(60):
        outcome = await relay.publish(note("x" * 6000))
        while outcome.accepted:  # the document came after the first event
            outcome = await relay.publish(note("x" * 6000))
        assert "5000 bytes" in outcome.detail
        fault.peers[0].drop()
        await fault.until(lambda: [f for f in fault.reqs(2) if f[2]["limit"] == 50])
        assert len(relay.status().refused) == 1
        assert "allows 4" in relay.status().refused[0]


async def test_auth_with_a_real_relay(received: Received) -> None:
    nip42 = nostr_sdk.LocalRelayBuilderNip42(mode=nostr_sdk.LocalRelayBuilderNip42Mode.BOTH)
    with callback_loop():
        real = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").nip42(nip42).build()
        await real.run()
        relay = connection(str(await real.url()), received, identity=ALICE, now=time.time)
        async with listening(relay, LONG_AGO), asyncio.timeout(60):
            event = note()
            assert (await relay.publish(event)).accepted
            await received.has(event)
        real.shutdown()
