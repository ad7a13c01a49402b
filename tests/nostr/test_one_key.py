"""Relays that take one key to a connection, with quotas and a list of kinds: nothing is lost, nothing sent in vain."""

import asyncio
import time
from dataclasses import replace
from typing import Any

from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.timeouts import RelayTimeouts
from tests.kits.room_relay import RoomClient, RoomRelay, Rules, room_relay

from .kit import ALICE, BOB, FAST, NOTES, note, running

CAROL = SecretKey(b"\x21" * 32)
KEYS = {key.public: key for key in (ALICE, BOB, CAROL)}


def pool_of(relay: RoomRelay, timeouts: RelayTimeouts = FAST, **options: Any) -> RelayPool:
    return RelayPool(
        [relay.url],
        on_event=lambda *_: None,
        identity=ALICE,
        more_identities=lambda: KEYS.values(),
        key_of=KEYS.get,
        timeouts=timeouts,
        **options,
    )


async def all_received(pool: RelayPool) -> None:
    """Wait until what was stored is read."""
    while pool.status()[0].received_until is None:
        await asyncio.sleep(0.01)


async def test_each_key_publishes_by_a_connection_of_its_own_where_the_relay_demands_it() -> None:
    async with room_relay(Rules()) as relay, running(pool_of(relay), notes=NOTES) as pool:
        room = relay.make("room", *KEYS)
        now = int(time.time())
        events = [note(f"{n}", by=key, at=now, kind=9, tags=[["h", room]]) for n in range(4) for key in KEYS.values()]
        outcomes = await asyncio.gather(*(pool.publish(event, relay.url) for event in events))
        assert all(outcome.accepted for outcome in outcomes)
        assert sorted(event["id"] for event in relay.accepted(9)) == sorted(event.id for event in events)
        assert {client.key for client in relay.clients} == set(KEYS)
        assert (pool.takes_one_key(relay.url), pool.status()[0].counters["keys"]) == (True, 3)


async def test_that_a_relay_takes_one_key_is_tried_and_not_read_in_its_words() -> None:
    """It takes no second key, in words of its own; the first other key is no member."""
    rules = Rules(keys=frozenset({ALICE.public, CAROL.public}))
    async with room_relay(rules) as relay:
        relay.on_send = lambda _, frame: [[*frame[:3], "blocked: no"] if frame[0] == "OK" and not frame[2] else frame]
        async with running(pool_of(relay), notes=NOTES) as pool:
            room = relay.make("room", *KEYS)
            said = [note(by=key, kind=9, at=int(time.time()), tags=[["h", room]]) for key in KEYS.values()]
            outcomes = await asyncio.gather(*(pool.publish(event, relay.url) for event in said))
            assert [outcome.accepted for outcome in outcomes] == [True, False, True]
            assert outcomes[1].detail == "blocked: no"
            assert pool.takes_one_key(relay.url)
            assert {client.key for client in relay.clients if client.key} == {ALICE.public, CAROL.public}


async def test_a_key_that_is_refused_also_alone_is_refused_and_the_others_go_on_sharing() -> None:
    rules = Rules.plain(auth_first=True, keys=frozenset({ALICE.public, BOB.public}))
    shown: list[str] = []

    def on_frame(_: RoomClient, frame: list[Any]) -> bool:
        if frame[0] == "AUTH":
            shown.append(frame[1]["pubkey"])
        return True

    async with room_relay(rules) as relay:
        relay.on_frame = on_frame
        async with running(pool_of(relay), notes=NOTES) as pool:
            for _ in range(2):
                for key in (ALICE, BOB):
                    assert (await pool.publish(note(by=key, at=int(time.time())), relay.url)).accepted
                for client in list(relay.clients):
                    client.cut()
            assert not pool.takes_one_key(relay.url)
            await pool.publish(note("last", at=int(time.time())), relay.url)
            (client,) = relay.clients
            assert set(client.keys) == {ALICE.public, BOB.public}
        sessions = pool.status()[0].counters["sessions"]
        assert shown.count(CAROL.public) == sessions + 1, "once on each connection, and once alone"


async def test_where_many_keys_may_share_a_connection_they_do() -> None:
    async with room_relay(Rules.plain(auth_first=True)) as relay, running(pool_of(relay), notes=NOTES) as pool:
        events = [note(by=key, at=int(time.time())) for key in KEYS.values()]
        outcomes = await asyncio.gather(*(pool.publish(event, relay.url) for event in events))
        assert all(outcome.accepted for outcome in outcomes)
        (client,) = relay.clients
        assert set(client.keys) == set(KEYS)


async def test_an_event_above_the_quota_is_sent_again_after_the_time_that_the_relay_asks_for() -> None:
    """The relay's answer is a notice and no OK."""
    async with room_relay(Rules(events=(3, 1.0))) as relay, running(pool_of(relay), notes=NOTES) as pool:
        room = relay.make("room", ALICE.public)
        now = int(time.time())
        events = [note(f"{n}", at=now, kind=9, tags=[["h", room]]) for n in range(7)]
        async with asyncio.timeout(30):
            outcomes = await asyncio.gather(*(pool.publish(event, relay.url) for event in events))
        assert relay.notices
        assert all(outcome.accepted for outcome in outcomes)
        assert sorted(event["id"] for event in relay.accepted(9)) == sorted(event.id for event in events)


async def test_a_kind_that_a_relay_does_not_know_is_not_sent_to_it_again() -> None:
    async with room_relay(Rules()) as relay, running(pool_of(relay), notes=NOTES) as pool:
        now = int(time.time())
        answers = [await pool.publish(note(kind=10050, at=now, by=key), relay.url) for key in (ALICE, ALICE, BOB)]
        assert {answer.detail for answer in answers} == {"restricted: unknown event kind"}
        assert not any(answer.accepted for answer in answers)
        assert len([event for event in relay.published if event["kind"] == 10050]) == 1


async def test_a_key_that_is_no_member_of_the_workspace_is_told_so_and_the_others_go_on() -> None:
    rules = Rules(keys=frozenset({ALICE.public, BOB.public}))
    async with room_relay(rules) as relay, running(pool_of(relay), notes=NOTES) as pool:
        room = relay.make("room", *KEYS)
        now = int(time.time())
        said = [note(by=key, kind=9, at=now, tags=[["h", room]]) for key in KEYS.values()]
        outcomes = await asyncio.gather(*(pool.publish(event, relay.url) for event in said))
        assert [outcome.accepted for outcome in outcomes] == [True, True, False]
        assert "restricted: not a relay member" in outcomes[2].detail


async def test_a_key_is_shown_before_many_requests_are_sent_at_the_slow_rate() -> None:
    """The relay hangs up soon on who has not shown one."""
    async with room_relay(Rules()) as relay, running(pool_of(relay), notes=NOTES) as pool:
        rooms = [relay.make(f"room {number}", ALICE.public) for number in range(40)]
        said = note(by=BOB, kind=9, at=int(time.time()), tags=[["h", rooms[0]]])
        assert (await pool.publish(said, relay.url)).accepted
        assert pool.takes_one_key(relay.url)
        await pool.informed(relay.url)
        for room in rooms:
            pool.subscribe_at(relay.url, room, [{"kinds": [9], "#h": [room]}], None)
        await relay.stop()
        relay.frames.clear()
        relay.usage.clear()
        await relay.start()
        async with asyncio.timeout(30):
            while not any(client.key == ALICE.public for client in relay.clients):
                await asyncio.sleep(0.01)
        before = relay.frames.index(next(frame for frame in relay.frames if frame[2] == "AUTH"))
        assert before <= FAST.one_key_frames, "no more than may follow at once"


async def test_a_message_does_not_wait_behind_many_requests_at_the_slow_rate() -> None:
    patient = replace(FAST, one_key_frames=2, one_key_frames_per_second=10.0)
    async with room_relay(Rules()) as relay, running(pool_of(relay, timeouts=patient), notes=NOTES) as pool:
        rooms = [relay.make(f"room {number}", ALICE.public) for number in range(20)]
        said = [note(f"{n}", kind=9, at=int(time.time()), tags=[["h", rooms[0]]]) for n in range(2)]
        other = note(by=BOB, kind=9, at=int(time.time()), tags=[["h", relay.make("other", BOB.public)]])
        assert (await pool.publish(other, relay.url)).accepted
        await all_received(pool)
        for room in rooms:
            pool.subscribe_at(relay.url, room, [{"kinds": [9], "#h": [room]}], None)
        relay.frames.clear()
        assert all([(await pool.publish(event, relay.url)).accepted for event in said])
        before = [word for _, key, word in relay.frames if key == ALICE.public].count("REQ")
        assert before <= len(rooms) // 2


async def test_requests_that_wait_for_their_turn_at_the_slow_rate_are_sent_once() -> None:
    """They wait longer in all than an answer to one is waited for."""
    patient = replace(FAST, one_key_frames=2, one_key_frames_per_second=20.0, probe_timeout=0.3, eose_timeout=0.3)
    async with room_relay(Rules()) as relay, running(pool_of(relay, timeouts=patient), notes=NOTES) as pool:
        rooms = [relay.make(f"room {number}", ALICE.public) for number in range(20)]
        said = note(by=BOB, kind=9, at=int(time.time()), tags=[["h", relay.make("other", BOB.public)]])
        assert (await pool.publish(said, relay.url)).accepted
        await pool.informed(relay.url)
        async with asyncio.timeout(30):
            await all_received(pool)
            relay.frames.clear()
            began = int(time.time()) - 60
            for room in rooms:
                pool.subscribe_at(relay.url, room, [{"kinds": [9], "#h": [room]}], began)
            await all_received(pool)
        asked = [word for _, key, word in relay.frames if key == ALICE.public and word == "REQ"]
        assert len(asked) == 2 * len(rooms), "one for what is new, one for the past"


async def test_a_relay_whose_document_says_that_it_takes_few_subscriptions_is_read_all_the_same() -> None:
    """More of them are open already when the document comes."""
    wanted: dict[str, Any] = {f"more{number}": [{"kinds": [number]}] for number in range(6)}
    async with room_relay(Rules.plain()) as relay:
        pool = pool_of(relay)
        async with running(pool, **wanted):
            while sum(len(client.subscriptions) for client in relay.clients) < len(wanted):
                await asyncio.sleep(0)
            relay.rules = Rules.plain(max_subscriptions=3)
            await pool.informed(relay.url)
            await asyncio.gather(*(pool.fetch([{"kinds": [0]}], 5.0, only=relay.url) for _ in range(5)))
