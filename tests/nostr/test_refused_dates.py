"""A relay that refuses an event which is not of now is asked whether it has it: an OK may have been lost."""

import time
from typing import Any

import pytest

from tenex.nostr.pool import RelayPool
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.kits.room_relay import Rules, room_relay

from .kit import ALICE, FAST, note, running

RULES = Rules(auth_first=False, one_key=False)
TOO_OLD = "invalid: event timestamp too far from server time"


def pool_of(url: str) -> RelayPool:
    return RelayPool([url], on_event=lambda *_: None, identity=ALICE, timeouts=FAST)


@pytest.mark.parametrize("age", [0, 3600])
async def test_only_an_event_that_is_not_of_now_may_have_been_refused_for_its_date(age: int) -> None:
    async with room_relay(RULES) as relay, running(pool_of(relay.url)) as pool:
        relay.now = lambda: time.time() + (0 if age else 3600)  # of now by our clock, and refused all the same
        room = relay.make("room", ALICE.public)
        event = note(kind=9, at=int(time.time()) - age, tags=[["h", room]])
        outcome = await pool.publish(event, relay.url)
    assert (outcome.accepted, outcome.detail, outcome.is_outdated) == (False, TOO_OLD, bool(age))


async def test_an_event_that_the_relay_has_was_accepted_whatever_it_answers_now() -> None:
    async with room_relay(RULES) as relay, running(pool_of(relay.url)) as pool:
        room = relay.make("room", ALICE.public)
        event = note(kind=9, at=int(time.time()) - 600, tags=[["h", room]])
        assert (await pool.publish(event, relay.url)).accepted
        relay.now = lambda: time.time() + 3600
        outcome = await pool.publish(event, relay.url)
        assert [(why, each["id"]) for each, _, why in relay.answers if why] == [(TOO_OLD, event.id)]
    assert (outcome.accepted, outcome.is_outdated) == (True, False)


@pytest.mark.parametrize("why", ["restricted: not a channel member", "pow: 20 bits"])
async def test_a_refusal_that_names_another_cause_is_none_of_the_date(why: str) -> None:
    async with FaultRelay() as fault:
        async with running(pool_of(fault.url)) as pool:

            async def refuse(peer: Peer, event: dict[str, Any]) -> None:
                await peer.send("OK", event["id"], False, why)

            fault.on_event = refuse
            outcome = await pool.publish(note(at=1000), fault.url)
        assert (outcome.accepted, outcome.is_outdated) == (False, False)
        assert not [frame for frame in fault.reqs() if any("ids" in wanted for wanted in frame[2:])]


async def test_where_the_relay_does_not_say_whether_it_has_it_the_refusal_is_final() -> None:
    async with FaultRelay() as fault:
        async with running(pool_of(fault.url)) as pool:

            async def refuse(peer: Peer, event: dict[str, Any]) -> None:
                await peer.send("OK", event["id"], False, TOO_OLD)

            async def closed(peer: Peer, name: str, filters: list[dict[str, Any]]) -> None:
                await peer.send("CLOSED", name, "restricted: nothing is shown to you")

            fault.on_event = refuse
            fault.on_req = closed
            outcome = await pool.publish(note(at=1000), fault.url)
        assert (outcome.accepted, outcome.is_outdated) == (False, False)


async def test_a_connection_that_is_lost_during_the_question_is_no_answer() -> None:
    async with FaultRelay() as fault, running(pool_of(fault.url)) as pool:
        asked: list[str] = []

        async def refuse(peer: Peer, event: dict[str, Any]) -> None:
            await peer.send("OK", event["id"], False, TOO_OLD)

        async def drop_first(peer: Peer, name: str, filters: list[dict[str, Any]]) -> None:
            asked.append(name)
            if len(asked) == 1:
                peer.drop()
            else:
                await fault.serve_stored(peer, name, filters)

        fault.on_event = refuse
        fault.on_req = drop_first
        outcome = await pool.publish(note(at=1000), fault.url)
    assert (outcome.accepted, outcome.is_outdated) == (False, True)
    assert len(asked) == 2
