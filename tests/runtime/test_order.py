"""Events in every order there is: twice, at once, late, of one second, around a stop; each counts once."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import Key, ModelCall
from tenex.core.identity import state as identity
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.signals import ModelAnswered, ModelFailed, Signal
from tenex.core.work.run import CallState
from tenex.runtime import inbox
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import (
    ID,
    Scenario,
    check_invariants,
    one_turn,
    plain_model,
    reply,
    route,
    step_until,
)
from tests.fakes.virtual import virtual_time

AGENTS = ("planner", "executor", "helper")


def wrote(world: World, conversation: str = ID) -> list[str]:
    return [rec.event_id for rec in world.records(r.MessageRecorded, conversation)]


@pytest.mark.parametrize("knows", [True, False], ids=["with an index", "whose index was deleted"])
@pytest.mark.parametrize("pause", [0.0, 0.01, 60.0])
@virtual_time
async def test_the_same_event_from_two_relays_and_after_a_restart_counts_once(pause: float, *, knows: bool) -> None:
    world = World(one_turn(), worker)
    if not knows:
        world.conversation_of = lambda event_id: None  # type: ignore[method-assign]

    async with world.daemon(kill=True) as daemon:
        daemon.write("hello", event_id="e" * 64)
        await asyncio.sleep(pause)
        daemon.write("hello", event_id="e" * 64)
        daemon.write("hello", event_id="e" * 64)
        await asyncio.sleep(pause)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id="e" * 64)
        await daemon.until("waiting")
        daemon.write("hello", event_id="e" * 64)
        await asyncio.sleep(60)
    assert wrote(world) == ["e" * 64]
    assert len([rec for rec in world.observed if isinstance(rec, r.TurnOpened)]) == 1


@virtual_time
async def test_an_event_older_than_all_that_the_state_remembers_is_known_to_the_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = 8
    monkeypatch.setattr(identity, "SEEN", few)
    world = World(lambda q: route(None, "USER"), worker)

    async with world.daemon() as daemon:
        for number in range(few + 4):
            daemon.write(f"message {number}", event_id=f"{number:064d}")
            await asyncio.sleep(1)
        assert f"{3:064d}" not in daemon.state().identity.seen
        assert daemon.write("message 3", event_id=f"{3:064d}") == "duplicate"
    async with world.daemon() as daemon:
        assert daemon.write("message 3", event_id=f"{3:064d}") == "duplicate"
        await asyncio.sleep(60)
    assert len(wrote(world)) == few + 4


@virtual_time
async def test_replies_that_arrive_before_their_root_are_received_with_it() -> None:
    world = World(one_turn(), worker)
    replies = ["a" * 64, "b" * 64]

    async with world.daemon() as daemon:
        assert daemon.write("and tests", event_id=replies[0], reply_to=ID, starts=False) == "elsewhere"
        assert daemon.write("build it", event_id=ID) == "admitted"
        await daemon.until("waiting")
    other = "d" * 64
    async with world.daemon() as daemon:
        assert daemon.write("thanks", event_id=replies[1], reply_to=other, conversation=other) == "admitted"
        assert daemon.write("at once", reply_to=other, conversation=other, starts=False) == "admitted"
        await daemon.until("waiting", other)
    async with world.daemon() as daemon:
        assert daemon.write("build it", event_id=other, conversation=other) == "admitted"
        assert daemon.write("build it", event_id=other, conversation=other) == "duplicate"
        await daemon.until("waiting", other)
    assert wrote(world, other)[::2] == [replies[1], other]
    assert wrote(world) == [ID, replies[0]]


@virtual_time
async def test_of_too_many_replies_before_their_root_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "EARLY", 2)
    world = World(one_turn(), worker)
    replies = [letter * 64 for letter in "def"]
    async with world.daemon() as daemon:
        for reply_id in replies:
            assert daemon.write("and tests", event_id=reply_id, reply_to=ID, starts=False) == "elsewhere"
        assert daemon.write("build it", event_id=ID) == "admitted"
        await daemon.until("waiting")
    assert wrote(world) == [ID, *replies[1:]]


OUTCOMES: dict[str, Callable[[Key], Signal]] = {
    "finished": lambda key: ModelAnswered(key=key, step=reply("done", ("complete", {"response": "done"}))),
    "text": lambda key: ModelAnswered(key=key, step=reply("it is done")),
    "lost": lambda key: ModelFailed(key=key, message="no", retryable=True),
    "failed": lambda key: ModelFailed(key=key, message="refused", retryable=False),
}


def three_at_work() -> Scenario:
    scenario = Scenario(lambda _q: route("execute", *AGENTS), plain_model)
    scenario.user_writes("build it")
    step_until(scenario, lambda p: len([e for e in p.running.values() if isinstance(e, ModelCall)]) == len(AGENTS))
    return scenario


def end_one(scenario: Scenario, agent: str, outcome: str) -> None:
    """Bring an agent's run to its end, however many tries and reminders that takes."""
    kind = OUTCOMES[outcome]
    for _ in range(9):
        run_ = next((known for known in scenario.conversation.work.runs.values() if known.agent == agent), None)
        if run_ is None:
            return
        if run_.retry is not None:
            kind = OUTCOMES["finished"]  # the model can be reached again
            scenario.handle(scenario.perform(next(e for e in scenario.running.values() if e.key.seq == run_.retry.seq)))
        else:
            effect = next(e for e in scenario.running.values() if isinstance(e, ModelCall) and e.run == run_.id)
            scenario.handle(kind(effect.key))
        scenario.reconcile()
    raise AssertionError(f"the run of {agent} does not end")


@pytest.mark.parametrize("outcomes", [*itertools.combinations_with_replacement(OUTCOMES, 3)])
def test_three_agents_end_in_any_order_and_the_turn_is_the_same(outcomes: tuple[str, ...]) -> None:
    found: list[Any] = []
    for order in itertools.permutations(zip(AGENTS, outcomes, strict=True)):
        scenario = three_at_work()
        for agent, outcome in order:
            assert scenario.conversation.work.turn is not None, "the turn closed before all had ended"
            end_one(scenario, agent, outcome)
        check_invariants(scenario)
        found.append(joint(scenario.conversation))
    assert all(state == found[0] for state in found)


def joint(c: Conversation) -> Any:
    last = c.memory.last_turn
    assert last is not None
    assert last.is_completed
    done = sorted((d.agent, d.outcome, d.text, d.verdict, d.error) for d in last.completions)
    words = sorted((message.name, message.text) for message in c.memory.recent)
    asks = c.router.question and (c.router.question.attempt, c.router.question.retry)
    return (
        done,
        words,
        asks,
        c.cycle.status,
        c.cycle.phase,
        c.cycle.participants,
        c.unmet_gates,
        c.work.turn,
        c.totals.usage,
        c.cycle.turns_since_user,
    )


@pytest.mark.parametrize("moment", [0.0, 0.03, 1.0])
@virtual_time
async def test_a_reply_during_shutdown_is_taken_in_after_the_restart_exactly_once(moment: float) -> None:
    def asks(request: ModelRequest) -> ModelStep:
        if not any(isinstance(entry, ModelStep) for entry in request.entries):
            return reply("", ("ask", {"question": "Which colour?"}))
        return reply("done")

    world = World(lambda q: route(None, "USER" if q["turns"] else "executor"), asks)

    async with world.daemon() as daemon:
        daemon.write("hello")
        while not daemon.state().work.is_parked:
            await asyncio.sleep(0.05)
        asked = next(iter(daemon.state().work.asks))
        world.think = 0.5
        daemon.write("think on", conversation="d" * 64)  # keeps the stop busy for a while
        await asyncio.sleep(0.1)
        daemon.runtime.stop()
        await asyncio.sleep(moment)
        daemon.write("blue", event_id="b" * 64, reply_to=asked)
    async with world.daemon() as daemon:
        daemon.write("blue", event_id="b" * 64, reply_to=asked)
        assert daemon.write("blue", event_id="b" * 64, reply_to=asked) == "duplicate"
        await daemon.until("waiting")
    assert wrote(world).count("b" * 64) == 1
    assert [rec.text for rec in world.observed if isinstance(rec, r.QuestionAnswered)] == ["blue"]


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
@virtual_time
async def test_messages_of_one_second_are_all_taken_in_whatever_their_order(order: tuple[int, ...]) -> None:
    world = World(one_turn(), worker)

    async with world.daemon() as daemon:
        now = world.clock.now() // 1000
        for number in order:
            daemon.write(f"part {number}", event_id=f"{number}" * 64, created_at=now)
            await asyncio.sleep(0.03)
        await daemon.until("waiting")
    assert sorted(wrote(world)) == [f"{number}" * 64 for number in range(3)]
    assert [rec.text for rec in world.records(r.MessageRecorded)] == [f"part {number}" for number in order]
    state = fold(ID, world.records())
    assert not any(m.seq > state.memory.answered for m in state.cycle.messages if m.role is not None)


def test_an_answer_that_comes_before_its_question_is_out_is_no_answer_to_it() -> None:
    def asks(conversation: Conversation, call: ModelCall) -> ModelStep:
        steps = conversation.work.runs[call.run].steps
        return reply("", ("ask", {"question": "Which colour?"})) if not steps else reply("done")

    scenario = Scenario(lambda _q: route(None, "executor"), asks)
    scenario.user_writes("build it")
    scenario.user_writes("blue")
    step_until(scenario, lambda p: bool(p.conversation.work.runs) and p.conversation.work.is_parked)
    (run_,) = scenario.conversation.work.runs.values()
    assert [call.state for call in run_.open_calls] == [CallState.PARKED]
    scenario.user_writes("green", addressed=(Slug("executor"),))
    (answered,) = scenario.records(r.QuestionAnswered)
    assert answered.text == "green"
    check_invariants(scenario)
