"""The limits of a day: what they hold, whom they hold, and when the work goes on. On virtual time."""

import asyncio
import dataclasses
from typing import Any

from tenex.core import records as r
from tenex.core.config import Limits, PeerGroup, Role
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Quote, Usage
from tenex.core.signals import InboundMessage, MessageReceived
from tenex.core.totals.costs import DAY as DAY_MS
from tenex.core.totals.costs import cost_of
from tests.fakes.runtime import Daemon, World
from tests.fakes.scenario import ALICE, one_turn, policy, reply
from tests.fakes.virtual import virtual_time
from tests.kits.counting_missions import Stage

MEL = PublicKey("e" * 64)
ANN = PublicKey("f" * 64)
MANY = 300
NIGHT = 6_400.0
"""Virtual seconds from the beginning of a world to 00:00 UTC, and a little."""


def world(usage: Usage | None = None, **limits: Any) -> World:
    """A world of an owner, a member and guests in which every answer of an agent takes this."""

    def answer(request: ModelRequest) -> Any:
        return dataclasses.replace(reply("done"), usage=usage or Usage(input_tokens=600, output_tokens=400))

    made = World(one_turn(), answer)
    made.peers = PeerGroup(owners=frozenset({ALICE}), members=frozenset({MEL, ANN}), is_open=True)
    made.policy = policy(limits=Limits(**limits))
    made.ids = 100_000  # the events that a test names have lower numbers
    return made


def name(number: int) -> str:
    return f"{number:064x}"


def begin(daemon: Daemon, *numbers: int, author: PublicKey = MEL, role: Role = Role.MEMBER) -> None:
    """A person begins conversations; how many messages a minute they may write is not what is tested here."""
    for number in numbers:
        message = InboundMessage(
            event_id=EventId(name(number)),
            author=author,
            text="do it",
            created_at=1,
            starts=True,
            conversation=ConversationId(name(number)),
            address={"form": "notes"},
        )
        signal = MessageReceived(message=message, role=role, name="mel")
        daemon.runtime.coordinator.deliver(message.conversation, signal)


def used(world: World, author: PublicKey | None = None) -> Usage:
    """The usage in the journals, of all conversations or of those in which an author wrote."""

    def is_meant(name: str) -> bool:
        return author is None or any(one.author == author for one in world.records(r.MessageRecorded, name))

    records = [record for name in world.books if is_meant(name) for record in world.records(conversation=name)]
    return sum(map(cost_of, records), NO_USAGE)


def tokens(world: World, author: PublicKey | None = None) -> int:
    return used(world, author).tokens


def messages_with(world: World, part: str) -> list[str]:
    return [text for text in world.order if part in text]


@virtual_time
async def test_three_hundred_conversations_begun_at_once_cost_no_more_than_the_limit_of_a_day() -> None:
    there = world(tokens_per_member_day=50_000)

    async with there.daemon() as daemon:
        begin(daemon, *range(MANY))
        await asyncio.sleep(1_000)
        assert 40_000 < tokens(there) <= 50_000
        held = messages_with(there, "Today's limit for a member")
        assert len(held) > 200
        assert "limits.tokens_per_member_day" in held[0]
        assert "2023-11-15 00:00 UTC" in held[0]
        assert all(len(book) for book in there.books.values())
        before = len(there.requests)
        await asyncio.sleep(1_000)
        assert len(there.requests) == before, "what is limited costs nothing"
        await asyncio.sleep(NIGHT)
        assert 80_000 < tokens(there) <= 100_000, "the next day has as much again"


@virtual_time
async def test_money_is_limited_like_tokens() -> None:
    there = world(Usage(input_tokens=10, output_tokens=10, cost_usd=0.75), cost_per_member_day_usd=10.0)
    there.quote = lambda _: Quote(least=Usage(cost_usd=0.1), most=Usage(cost_usd=2.0))

    async with there.daemon() as daemon:
        begin(daemon, *range(40))
        await asyncio.sleep(1_000)
    assert used(there).cost_usd == 9.75
    assert messages_with(there, "has no room for the next call: $9.75 of $10.00 used.")


@virtual_time
async def test_one_members_limit_is_not_anothers_and_a_limit_of_everyone_holds_owners_too() -> None:
    """Guests share one, however many keys they make."""
    there = world(tokens_per_member_day=5_000, tokens_per_guests_day=3_000, tokens_per_day=20_000)

    async with there.daemon() as daemon:
        guests = [PublicKey(name(900 + number)) for number in range(10)]
        for number, guest in enumerate(guests, 300):
            begin(daemon, number, author=guest, role=Role.GUEST)
        await asyncio.sleep(500)
        assert 2_000 <= tokens(there) <= 3_000
        assert messages_with(there, "Today's limit for guests")
        begin(daemon, *range(20))
        begin(daemon, *range(100, 120), author=ANN)
        await asyncio.sleep(500)
        assert len(messages_with(there, "for a member")) > 20
        for author in (MEL, ANN):
            assert 4_000 <= tokens(there, author) <= 5_000
        begin(daemon, *range(200, 220), author=ALICE, role=Role.OWNER)
        await asyncio.sleep(500)
        assert tokens(there, ALICE) > 5_000
        assert tokens(there) <= 20_000
        assert messages_with(there, "for everyone together")


@virtual_time
async def test_calls_name_their_user_and_priority() -> None:
    there = world()

    async with there.daemon() as daemon:
        begin(daemon, 1)
        begin(daemon, 2, author=ALICE, role=Role.OWNER)
        begin(daemon, 3, author=PublicKey(name(900)), role=Role.GUEST)
        await asyncio.sleep(60)
    asked = {(request.person, request.priority, request.purpose) for request in there.requests}
    people = [(ALICE, 0), (MEL, 1), (PublicKey(name(900)), 2)]
    assert asked == {(*person, purpose) for person in people for purpose in ("route", "work")}


@virtual_time
async def test_a_call_that_is_stopped_has_cost_what_it_had_cost() -> None:
    there = world(tokens_per_member_day=1_000)
    there.think, there.cut_off = 100.0, Usage(input_tokens=300)

    async with there.daemon() as daemon:
        for number in range(10):
            begin(daemon, number)
            await asyncio.sleep(1)
            daemon.write("/stop", conversation=name(number), author=MEL, reply_to=name(number))
            await asyncio.sleep(1)
    assert 900 <= tokens(there) <= 1_000
    assert sum(isinstance(one, r.ModelCallCancelled) for one in there.observed) == 3
    assert messages_with(there, "Today's limit for a member")


@virtual_time
async def test_a_restart_remembers_what_the_day_has_cost() -> None:
    there = world(tokens_per_member_day=5_000)

    for life in range(4):
        async with there.daemon(kill=True) as daemon:
            begin(daemon, *range(10 * life, 10 * life + 5))
            await asyncio.sleep(60)
    async with there.daemon() as daemon:
        await asyncio.sleep(60)
    assert 4_000 <= tokens(there) <= 6_000, "the first call after a start is not known to be as large as those before"
    for book in there.books.values():
        assert sum(isinstance(record, r.LimitReached) for decision in book for record in decision) <= 1, "reported once"


@virtual_time
async def test_a_higher_limit_lets_the_work_go_on_after_a_reload_and_after_a_restart() -> None:
    there = world(tokens_per_member_day=1_500)

    async with there.daemon() as daemon:
        begin(daemon, 1, 2)
        await asyncio.sleep(60)
        assert tokens(there) < 1_500
        there.policy = policy(limits=Limits(tokens_per_member_day=2_500))
        daemon.runtime.coordinator.retry_held()
        await daemon.until("waiting", name(1))
        await daemon.until("waiting", name(2))
        begin(daemon, 3)
        await asyncio.sleep(60)
        assert daemon.state(name(3)).cycle.status == "active"
    there.policy = policy(limits=Limits(tokens_per_member_day=0))
    async with there.daemon() as daemon:
        await daemon.until("waiting", name(3))
    assert there.clock.epoch % DAY_MS + 1_000_000 < DAY_MS, "all of this was in one day"


@virtual_time
async def test_continue_is_refused_and_status_names_the_limit() -> None:
    there = world(tokens_per_member_day=1)

    async with there.daemon() as daemon:
        begin(daemon, 1)
        await asyncio.sleep(60)
        for text in ("/continue", "/retry", "/status"):
            daemon.write(text, conversation=name(1), author=MEL, reply_to=name(1))
            await asyncio.sleep(60)
            daemon.write(text, conversation=name(1), author=ALICE, reply_to=name(1))
            await asyncio.sleep(60)
        assert daemon.state(name(1)).cycle.status == "active"
        daemon.write("/stop", conversation=name(1), author=MEL, reply_to=name(1))
        await daemon.until("waiting", name(1))
    assert tokens(there) == 0
    assert len(messages_with(there, "`/continue` does not lift the limit of a day. Today's limit for a member")) == 4
    assert len([text for text in there.order if text.startswith("Today's limit")]) == 1, "reported once"
    assert len(messages_with(there, "The orchestrator is limited.")) == 2
    assert not messages_with(there, "has not answered"), "nor does the router's model count as slow"


@virtual_time
async def test_work_that_was_held_in_the_middle_of_a_turn_goes_on_there_the_next_day() -> None:
    there = world(tokens_per_owner_day=2_500)

    def looks(request: ModelRequest) -> ModelStep:
        count = len(request.entries)
        step = reply("", ("read_file", {"path": f"{count}"})) if count < 13 else reply("done")
        return dataclasses.replace(step, usage=Usage(input_tokens=900, output_tokens=100))

    there.worker = looks

    async with there.daemon() as daemon:
        daemon.write("look")
        await asyncio.sleep(60)
        state = daemon.state()
        (held,) = state.work.runs.values()
        assert held.retry is not None
        assert (held.retry.limit, held.retry.due) == ("tokens_per_owner_day", state.totals.limit_reported[1])
        assert not held.is_held, "its model can be reached"
    async with there.daemon() as daemon:  # a restart on the same day changes nothing
        await asyncio.sleep(60)
        assert len(messages_with(there, "Today's limit")) == 1
        await asyncio.sleep(2 * 86_400)
        assert daemon.state().cycle.status == "waiting"
    notices = messages_with(there, "Today's limit")
    assert len(notices) == len(set(notices)) == 2, "once a day"


@virtual_time
async def test_a_mission_whose_node_may_not_begin_goes_on_the_next_day() -> None:
    stage = Stage()
    there = stage.world
    there.policy = dataclasses.replace(there.policy, limits=Limits(tokens_per_owner_day=1_000))
    there.peers = PeerGroup(owners=frozenset({ALICE, there.policy.project.pubkey}))

    async with there.daemon() as daemon:
        spent = {there.clock.now() // DAY_MS: {there.policy.project.pubkey: Usage(input_tokens=1_000)}}
        there.daily.load(ConversationId("d" * 64), spent)
        stage.begin(daemon)
        await asyncio.sleep(60)
        assert len(messages_with(there, "Today's limit for an owner is used up")) == 1
        daemon.write("/continue")
        await asyncio.sleep(60)
        assert messages_with(there, "`/continue` does not lift the limit of a day.")
        assert not stage.done
        await asyncio.sleep(NIGHT)
        await daemon.until("ended")
        assert stage.done == [0, 1, 2, 3, 4, 5]


@virtual_time
async def test_a_cycle_counts_for_the_person_whose_message_began_it() -> None:
    there = world()

    async with there.daemon() as daemon:
        daemon.write("first")
        await daemon.until("waiting")
        daemon.write("I have a request too", author=MEL, reply_to=name(1))
        await daemon.until("waiting")
        alone = daemon.state().totals.spending
        assert [set(people) for people in alone.values()] == [{ALICE}]
        daemon.write("/new")
        daemon.write("now for me", author=MEL, reply_to=name(1))
        await daemon.until("waiting")
        (people,) = daemon.state().totals.spending.values()
        assert set(people) == {ALICE, MEL}
        assert sum(usage.tokens for usage in people.values()) == daemon.state().totals.usage.tokens
