"""The flow in memory and on virtual time: order, overlap, full disks, stops, restarts."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, PeerGroup, Replay
from tenex.core.conversation import Conversation
from tenex.core.errors import InternalError
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.messages import ModelRequest, ModelStep, UserText
from tenex.runtime.inbox import GUESTS_AT_ONCE, QUEUED, Admission
from tenex.store.format import CONVERSATION
from tests.fakes.runtime import World, converse, worker
from tests.fakes.scenario import ALICE, ID, longest_way, one_turn, reply
from tests.fakes.virtual import virtual_time


@virtual_time
async def test_a_conversation_goes_through_all_phases() -> None:
    world = World(longest_way, worker)
    await converse(world, "hello", "think", "plan")
    phases = ["brainstorm", "plan", "execute", "verification", "chores", "reflection"]
    assert [rec.to for rec in world.records(r.PhaseTransition)] == phases
    assert world.most_overlap == 4, "the agents of one turn think at the same time (all four in reflection)"
    assert max(world.calls.values()) == 1
    sent = [event for rec in world.records(r.MessageSent) for event in rec.events]
    assert world.order == [event.content for event in sent], "messages are published in their order"
    stamps = [event.created_at for event in sent]
    assert stamps == sorted(set(stamps))
    assert world.shown, "the readable view was written"


@virtual_time
@pytest.mark.parametrize("number", [json.loads("1e999"), json.loads("-1e999"), float("nan")])
async def test_a_call_with_a_number_that_json_cannot_hold_is_refused_and_not_recorded(number: float) -> None:
    def infinite(request: ModelRequest) -> ModelStep:
        steps = [entry for entry in request.entries if isinstance(entry, ModelStep)]
        if request.phase == "execute" and not steps:
            return reply("", ("read_file", {"path": "a", "from": [{"line": number}]}), ("read_file", {"path": "b"}))
        return worker(request)

    world = World(longest_way, infinite)
    await converse(world, "hello", "think", "plan")
    asked = [call for step in world.records(r.ModelResponded) for call in step.step.calls]
    refused = [call for call in asked if call.fault]
    assert refused
    assert not any(call.arguments for call in refused)
    assert all(call.fault.endswith("Send one that JSON can hold.") for call in refused)
    assert {call.arguments.get("path") for call in asked if call.tool == "read_file"} == {None, "b"}


@virtual_time
async def test_a_model_is_asked_with_the_time_that_its_agent_has_left() -> None:
    world = World(longest_way, worker)
    world.policy = replace(
        world.policy,
        limits=replace(world.policy.limits, default_expectation=Expectation(warn_after=1, close_after=90_000)),
    )
    await converse(world, "hello", "think", "plan")
    times = [request.time_left for request in world.requests if request.purpose == "work"]
    assert times
    assert all(left is not None and 80 < left <= 90 for left in times)
    assert {request.time_left for request in world.requests if request.purpose == "route"} == {None}


@virtual_time
async def test_a_message_sent_while_agents_work_is_seen_before_their_next_model_call() -> None:
    world = World(longest_way, worker)
    world.work = 5.0

    async with world.daemon() as daemon:
        await daemon.write_in_turn("hello", "think", "plan")
        while not world.calls:
            await asyncio.sleep(0.1)
        daemon.write("make it green")
        await daemon.until("ended")
    second = [q for q in world.requests if q.phase == "execute" and any(isinstance(e, ModelStep) for e in q.entries)]
    assert second
    for request in second:
        assert request.entries[-1] == UserText(author="alice", text="make it green", role="owner", key="a" * 64)


@pytest.mark.parametrize("failing", range(1, 24))
@pytest.mark.parametrize("kept", [0, 1])
@virtual_time
async def test_a_failed_append_freezes_and_the_conversation_goes_on_after_it(failing: int, kept: int) -> None:
    world = World(longest_way, worker)
    world.fail_append = lambda number: kept if number == failing else None
    await converse(world, "hello", "think", "plan")
    book = world.records()
    assert [rec.seq for rec in book] == list(range(1, len(book) + 1))
    assert len(world.records(r.MessageRecorded)) == 3
    for call in world.records(r.ToolCallStarted):
        # what only reads may have started before the append failed
        assert world.calls[f"{ID}:{call.seq}"] in ((1, 2) if call.replay is Replay.READ else (1,))


@virtual_time
async def test_strangers_duplicates_floods_and_machines_are_not_admitted() -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        assert daemon.write("let me in", author=PublicKey("b" * 64)) == "stranger"
        assert daemon.write("x" * 300_000) == "too_large"
        assert daemon.write("hello", event_id="1" * 64) == "admitted"
        assert daemon.write("hello", event_id="1" * 64) == "duplicate"
        assert daemon.write("I agree", by_machine=True) == "machine"
        agent = next(iter(world.policy.roster.values()))
        assert daemon.write("What do you think?", by_machine=True, mentions=(agent.pubkey,)) == "admitted"
        await daemon.until("waiting")
        assert not daemon.world.books.get(ConversationId("b" * 64))


@virtual_time
async def test_a_guest_is_admitted_only_with_the_proof_of_work_that_is_asked_for() -> None:
    world = World(longest_way, worker)
    guest = PublicKey("b" * 64)

    async with world.daemon() as daemon:
        owners = frozenset({ALICE})
        for bits, event, verdict in (
            (0, "f" * 64, "admitted"),
            (9, "0080" + "1" * 60, "stranger"),
            (9, "007f" + "1" * 60, "admitted"),
            (256, "2" * 64, "stranger"),
        ):
            daemon.runtime.inbox.change(PeerGroup(owners=owners, is_open=True, guest_work=bits), {})
            assert daemon.write("hello", author=guest, event_id=event, conversation=event) == verdict, event
        assert daemon.write("hello") == "admitted", "owners are asked for none"


@virtual_time
async def test_what_a_program_writes_is_no_command() -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        assert daemon.write("/status", by_program=True) == "admitted"
        await daemon.until("waiting")
        assert [record.text for record in world.records(r.MessageRecorded)] == ["/status"]
        assert not world.records(r.CommandGiven)


@virtual_time
async def test_conversations_do_not_wait_for_each_other() -> None:
    world = World(one_turn(), worker)

    async with world.daemon() as daemon:
        names = [f"{n:064x}" for n in range(100)]
        for name in names:
            daemon.write("hello", conversation=name)
        for name in names:
            await daemon.until("waiting", name)
        assert asyncio.get_running_loop().time() < 1.0


@virtual_time
async def test_work_whose_result_waits_to_be_decided_is_not_begun_again() -> None:
    world = World(longest_way, worker)
    world.append_time, world.think, world.work = 0.5, 0.4, 0.3
    await converse(world, "hello", "think", "plan")
    assert max(world.calls.values()) == 1
    assert max(world.sent.values()) == 1
    steps = sum(isinstance(rec, r.ModelResponded) for rec in world.observed)
    assert len([q for q in world.requests if q.purpose == "work"]) == steps


@virtual_time
async def test_a_settled_conversation_leaves_memory_and_is_read_again_when_somebody_writes() -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        assert daemon.runtime.coordinator.conversation(ID) is not None
        await asyncio.sleep(90)
        assert not list(daemon.runtime.coordinator)
        daemon.write("think")
        state = await daemon.until("waiting")
        assert state.cycle.phase == "brainstorm"
    assert not [rec for rec in world.observed if isinstance(rec, r.ProcessRestarted)], "nothing was unfinished"


@virtual_time
async def test_a_stop_that_comes_while_a_run_is_being_written_ends_the_run_and_not_the_daemon() -> None:
    world = World(longest_way, worker)
    world.append_time, world.think = 0.5, 0.4

    async with world.daemon() as daemon:
        daemon.write("hello")
        await asyncio.sleep(0.8)  # the turn is on its way to the disk, and its agent has not answered
        daemon.write("/stop")
        await daemon.until("waiting")
        daemon.write("go on")
        await daemon.until("waiting")
    assert next(rec.outcome for rec in world.observed if isinstance(rec, r.RunEnded)) == "stopped"


@virtual_time
async def test_a_question_that_cannot_be_rendered_is_refused_like_a_useless_answer() -> None:
    world = World(longest_way, worker)
    route, broken = world.route, iter([True])

    def flaky(conversation: Conversation) -> ModelRequest:
        if next(broken, False):
            raise InternalError("no such template")
        return route(conversation)

    world.route = flaky  # type: ignore[method-assign]
    await converse(world, "hello", "think", "plan")
    assert len([rec for rec in world.observed if isinstance(rec, r.RouteRejected)]) == 1


@virtual_time
async def test_halves_of_surrogate_pairs_in_an_answer_reach_neither_tools_nor_the_journal() -> None:
    def odd(request: ModelRequest) -> ModelStep:
        if not any(isinstance(entry, ModelStep) for entry in request.entries) and request.phase == "execute":
            return reply("half \ud83d", ("write_file", {"path": "a", "content": ["\ud83d", {"\ud83d": "\ud83d"}]}))
        return worker(request)

    world = World(longest_way, odd)
    await converse(world, "hello", "think", "plan")
    answers = repr([rec for rec in world.observed if isinstance(rec, r.ModelResponded)])
    assert "half \ufffd" in answers
    assert "{'\ufffd': '\ufffd'}" in answers


@virtual_time
async def test_lone_surrogates_of_users_and_tools_are_replaced_once_so_a_restart_finds_the_same_state() -> None:
    def odd(request: ModelRequest) -> ModelStep:
        if not any(isinstance(entry, ModelStep) for entry in request.entries) and request.phase == "execute":
            return reply("", ("\udc80tool\ud800", {"\udfff": {"\ud800": ["\udfff"]}}))
        return worker(request)

    world = World(longest_way, odd)
    await converse(world, "half \ud800 a pair, \ud83d\ude00 whole", "think", "plan")
    decisions = world.books[ConversationId(ID)]
    lived = world.records()
    data = CONVERSATION.encode_decisions(decisions)
    assert CONVERSATION.decode_lines(data) == (lived, len(data), None)
    assert b"\\ud" not in data, "no surrogate is left to be escaped"
    texts = [record.text for record in lived if isinstance(record, r.MessageRecorded)]
    assert texts[0] == "half \ufffd a pair, 😀 whole"


@pytest.mark.parametrize("text", ["\u200b", "\ufeff \u2060\n", "\u2066\u2069\u00ad", "\U000e0041"])
@virtual_time
async def test_a_message_of_which_nothing_is_seen_begins_nothing(text: str) -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        assert daemon.write(text) == "empty"


BOB = PublicKey("b" * 64)
"""A member."""


def world_of_bob() -> World:
    world = World(longest_way, worker)
    world.peers = PeerGroup(owners=frozenset({ALICE}), members=frozenset({BOB}))
    return world


@virtual_time
async def test_what_a_member_wrote_while_we_were_away_is_taken_in_turn_by_turn() -> None:
    world = world_of_bob()

    async with world.daemon() as daemon:
        now = world.clock.now() // 1000
        old = [daemon.write(f"old {n}", author=BOB, created_at=now - 86_400 + 30 * n) for n in range(100)]
        assert old == ["admitted"] * 30 + ["queued"] * 70
        assert {daemon.write(f"own {n}") for n in range(100)} == {"admitted"}
        await asyncio.sleep(150)
    texts = [record.text for record in world.observed if isinstance(record, r.MessageRecorded) and record.author == BOB]
    assert texts == [f"old {n}" for n in range(100)]


@virtual_time
async def test_hundreds_of_guests_wait_for_their_turns_and_an_owner_and_a_member_do_not() -> None:
    world = world_of_bob()
    world.peers = replace(world.peers, is_open=True)
    guests = [PublicKey(f"{number:064x}") for number in range(1, 1_101)]

    async with world.daemon() as daemon:
        verdicts = [daemon.write(f"hello {guest[-4:]}", author=guest) for guest in guests]
        assert verdicts == ["admitted"] * GUESTS_AT_ONCE + ["queued"] * QUEUED + ["too_many"] * 70
        assert (daemon.write("/status"), daemon.write("and I", author=BOB)) == ("admitted", "admitted")
        assert {daemon.write(f"more {n}", author=BOB) for n in range(40)} == {"admitted", "queued"}, "of its own"
        await asyncio.sleep(60)
        assert 500 <= daemon.runtime.inbox.counts[Admission.ADMITTED] <= 720
        await asyncio.sleep(60)
    begun = {record.author for record in world.observed if isinstance(record, r.MessageRecorded)} - {ALICE, BOB}
    assert begun == set(guests[: GUESTS_AT_ONCE + QUEUED]), "none of those that were queued is lost"


@virtual_time
async def test_a_tools_name_of_a_megabyte_is_cut_wherever_it_is_published_or_kept() -> None:
    """A run that repeats a call ends with a message that names the tool; it filled seventeen events."""
    name = "x" * 1_000_000
    world = World(one_turn(then="END"), lambda _: reply("", (name, {})))

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("ended")
    texts = [event.content for event in world.published.values()]
    assert any("x" * 100 in text for text in texts), "it is not named at all"
    assert max(map(len, texts)) < 1_000
    assert all(len(repr(record)) < 100_000 for record in world.records())


@virtual_time
async def test_a_message_that_expires_while_its_author_waits_for_a_turn_is_not_carried_out() -> None:
    world = world_of_bob()

    async with world.daemon() as daemon:
        now = world.clock.now() // 1000
        verdicts = [daemon.write(f"note {n}", author=BOB, expires_at=now + 5) for n in range(40)]
        assert verdicts == ["admitted"] * 30 + ["queued"] * 10
        await asyncio.sleep(60)
        assert daemon.runtime.inbox.counts[Admission.EXPIRED] >= 7  # some had their turn in the first five seconds
    assert len(world.records(r.MessageRecorded)) < 40


@virtual_time
async def test_a_message_that_expires_while_the_disk_fails_is_not_carried_out_and_a_recorded_one_is() -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        now = world.clock.now() // 1000
        await daemon.write_in_turn("hello", "think")
        await daemon.until("waiting")
        world.fail_append = lambda _: 0
        daemon.write("late", expires_at=now + 60)
        daemon.sent.clear()  # that one is not to be waited for
        await asyncio.sleep(90)
        world.fail_append = None
        daemon.write("plan", expires_at=now + 100)  # work on what is recorded goes on
        await daemon.until("ended")
    assert [record.text for record in world.records(r.MessageRecorded)] == ["hello", "think", "plan"]


@pytest.mark.parametrize("date", [lambda now, n: now, lambda now, n: n * 60, lambda now, n: now + n * 3600])
@virtual_time
async def test_the_date_of_a_message_buys_its_author_no_extra_rate(date: Callable[[int, int], int]) -> None:
    world = world_of_bob()

    async with world.daemon() as daemon:
        now = world.clock.now() // 1000
        notices = [daemon.write(f"note {n}", author=BOB, created_at=date(now, n)) for n in range(400)]
        assert (notices.count("admitted"), notices.count("queued"), notices.count("too_many")) == (30, 300, 70)
        await asyncio.sleep(61)
        assert 58 <= daemon.runtime.inbox.counts[Admission.ADMITTED] <= 61


@pytest.mark.parametrize(
    ("peers", "name"),
    [
        (PeerGroup(owners=frozenset({BOB})), "owner"),
        (PeerGroup(owners=frozenset({ALICE, BOB})), "owner-bbbbbbbb"),
        (PeerGroup(owners=frozenset({ALICE}), members=frozenset({BOB})), "person-bbbbbbbb"),
    ],
)
@virtual_time
async def test_who_has_no_profile_yet_is_named_by_what_they_are_here(peers: PeerGroup, name: str) -> None:
    world = World(longest_way, worker)
    world.peers = peers
    async with world.daemon() as daemon:
        daemon.write("hello", author=BOB)
        await daemon.until("waiting")
    assert world.records(r.MessageRecorded)[0].name == name
