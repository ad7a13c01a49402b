"""What went wrong between relays and conversations (B15, B16, B18, B29, B30)."""

import json
from random import Random

from tenex.core import records as r
from tenex.core.ids import PublicKey
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.subscriptions import Listener
from tenex.nostr.threading import read_event
from tenex.store.format import CONVERSATION
from tests.fakes.faultrelay import FaultRelay
from tests.fakes.runtime import World, converse, worker
from tests.fakes.scenario import ALICE, WAITS, longest_way, one_turn, reply
from tests.fakes.virtual import virtual_time
from tests.kits.drafts import ADDRESS, draft
from tests.nostr.kit import BOB, FAST, NOW, Received, note, running

STRANGER = PublicKey("9" * 64)


async def test_b15_all_that_was_written_while_we_were_away_is_received() -> None:
    """Subscriptions asked for one event, or for none, and the rest was lost."""
    received = Received()
    async with FaultRelay(clamp=3) as relay:
        missed = [note(at=NOW - 1_000 + number, tags=[["p", BOB.public]]) for number in range(20)]
        relay.stored.extend(to_wire(event) for event in missed)
        pool = RelayPool([relay.url], on_event=received, timeouts=FAST, rng=Random(7), now=lambda: float(NOW))
        Listener(pool, [BOB.public], {}, None, lambda message: None, now=lambda: float(NOW)).start(NOW - 2_000)
        async with running(pool):
            await received.has(*missed)
            live = note(tags=[["p", BOB.public]])
            await relay.spread(to_wire(live))
            await received.has(live)


@virtual_time
async def test_b16_a_stranger_changes_nothing_and_receives_nothing() -> None:
    """Anyone who tagged the project could talk to agents and change their models."""
    world = World(lambda question: WAITS, lambda request: reply("done"))

    async with world.daemon() as daemon:
        assert daemon.write("rm -rf /", author=STRANGER) == "stranger"
        daemon.write("hello")
        await daemon.until("waiting")
        before = daemon.state()
        for text in ("/new", "/stop", "/quick", "hello"):
            assert daemon.write(text, author=STRANGER) == "stranger"
        assert daemon.state() == before
    assert {record.author for record in world.observed if isinstance(record, r.MessageRecorded)} == {ALICE}


@virtual_time
async def test_b18_whatever_is_sent_is_published_and_names_the_project() -> None:
    """Events were built with the address of another kind, and handed to a publisher that was not there."""
    world = World(longest_way, worker)
    await converse(world, "hello", "think", "plan")
    sent = [event.id for record in world.observed if isinstance(record, r.MessageSent) for event in record.events]
    assert sent
    assert set(sent) == set(world.published)
    (event,) = NostrSealer(["wss://relay.example"], project=ADDRESS).seal(draft())
    assert ("a", ADDRESS) in event.tags
    assert ADDRESS.startswith("31933:")


@virtual_time
async def test_b29_a_message_that_names_somebody_unknown_is_not_dropped_once_it_was_taken_in() -> None:
    """A conversation was made of it, and then no one was asked."""
    world = World(one_turn(), lambda q: reply("done"))
    async with world.daemon() as daemon:
        assert daemon.write("build it", mentions=(STRANGER,)) == "admitted"
        await daemon.until("waiting")
    assert any(isinstance(record, r.TurnClosed) for record in world.observed)


def test_b29_a_message_to_others_begins_nothing() -> None:
    """The other half of it: what names none of our keys is no conversation of ours."""
    key, other = SecretKey.generate(), SecretKey.generate()
    event = sign(unsigned_event(key.public, NOW, 1, [["p", other.public]], "hi"), key)
    incoming = read_event(event, [BOB.public], {}, "wss://relay.example", None)
    assert incoming is None or not incoming.starts


@virtual_time
async def test_b30_an_answer_in_a_thread_we_do_not_know_is_an_event_like_any_other() -> None:
    """What replaced the missing root was no event, and its users failed later."""
    key = SecretKey.generate()
    tags = [["e", "d" * 64, "", "root"], ["e", "e" * 64, "", "reply"], ["p", BOB.public]]
    incoming = read_event(sign(unsigned_event(key.public, NOW, 1, tags, "go on"), key), [BOB.public], {}, "", None)
    assert incoming is not None
    world = World(one_turn(then="END"), lambda q: reply("done"))
    async with world.daemon() as daemon:
        daemon.write(incoming.text, conversation=incoming.conversation, address=incoming.address)
        await daemon.until("ended", incoming.conversation)
    lines = CONVERSATION.encode_decisions(world.books[incoming.conversation]).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
