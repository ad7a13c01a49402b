"""Crashes: every kind of work, cut off at every moment of its life; what was done outside is counted outside."""

from collections import Counter
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.core.config import Replay
from tenex.core.conversation import Conversation, fold
from tenex.core.pending import pending
from tenex.core.records import Record
from tenex.core.work.run import CallState
from tenex.core.work.runs import UNKNOWN
from tests.fakes.scenario import ID
from tests.fakes.virtual import virtual_time

from .dying import (
    MOMENTS,
    ONCE,
    REPEATED,
    TALK,
    DyingWorld,
    Finds,
    Moment,
    Subject,
    begins,
    of,
    permitted,
    returned,
    steps,
)

WAY = ["brainstorm", "plan", "execute", "verification", "chores", "reflection"]


def asked_in(phase: str) -> Finds:
    return of(r.RouteRequested, phase)


def tool(name: str) -> Subject:
    effect = f"{name} by executor in execute"
    return Subject(name=name, intent=permitted(name), effect=effect, result=returned(name))


def announced(record: Record, state: Conversation) -> bool:
    return isinstance(record, r.MessageSent) and record.text == SPOKEN


def delivered(record: Record, state: Conversation) -> bool:
    """A relay has taken what the executor built."""
    spoken = {message.seq for message in state.memory.recent if message.text == SPOKEN}
    return isinstance(record, r.Delivered) and record.message in spoken


SPOKEN = "executor has done execute"

SUBJECTS = [
    Subject(name="router", intent=asked_in("chat"), effect="first route", result=of(r.Routed)),
    Subject(name="model", intent=begins("executor"), effect="executor in execute, step 0", result=steps("executor")),
    *map(tool, ("read_file", "write_file", "send")),
    Subject(
        name="join",
        intent=of(r.TurnOpened, "execute"),
        effect="security in execute, step 0",
        result=of(r.TurnClosed, "execute"),
    ),
    Subject(
        name="transition",
        intent=asked_in("plan"),
        effect="route in plan",
        result=of(r.PhaseTransition, "execute"),
    ),
    Subject(name="end", intent=asked_in("reflection"), effect="route in reflection", result=of(r.Ended)),
    Subject(name="publish", intent=announced, effect=f"publish {SPOKEN}", result=delivered),
]


def seen(subject: Subject, moment: Moment) -> int:
    return (ONCE if subject.name == "send" else REPEATED)[moment]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@virtual_time
async def test_whatever_is_cut_off_wherever_the_conversation_arrives(
    subject: Subject, moment: Moment, tmp_path: Path
) -> None:
    world = DyingWorld(tmp_path, subject, moment)
    survived = await world.die()
    assert not await world.live()
    check(world, survived)
    assert world.effects.count(subject.effect) == seen(subject, moment)


RECOVERY = Subject(name="recovery", intent=lambda *_: False, effect="", result=of(r.ProcessRestarted))


@pytest.mark.parametrize("moment", ["before result", "after result"])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@virtual_time
async def test_a_crash_within_the_recovery_is_one_more_crash(subject: Subject, moment: Moment, tmp_path: Path) -> None:
    world = DyingWorld(tmp_path, subject, "after effect")
    survived = await world.die()
    world.subject, world.moment = RECOVERY, moment
    again = await world.die()
    assert not await world.live()
    assert world.records()[: len(again)] == again
    check(world, survived, lives=3)
    assert world.effects.count(subject.effect) == seen(subject, "after effect")


def check(world: DyingWorld, survived: list[Record], lives: int = 2) -> None:
    """What has to hold after every crash; a call that only reads may run in each life."""
    book = world.records()
    assert book[: len(survived)] == survived
    assert [record.seq for record in book] == list(range(1, len(book) + 1))
    state, then = fold(ID, book), fold(ID, survived)
    assert (state.cycle.status, pending(state)) == ("ended", {})
    assert [record.to for record in book if isinstance(record, r.PhaseTransition)] == WAY
    assert [record.text for record in book if isinstance(record, r.MessageRecorded)] == list(TALK)

    opened = [record for record in book if isinstance(record, r.TurnOpened)]
    assert [record.turn_id for record in book if isinstance(record, r.TurnClosed)] == [x.turn_id for x in opened]
    ended = [(record.run, record.outcome) for record in book if isinstance(record, r.RunEnded)]
    assert Counter(run.split(".")[0] for run, _ in ended) == {x.turn_id: len(x.agents) for x in opened}
    assert {outcome for _, outcome in ended} == {"finished"}

    words = [event for record in book if isinstance(record, r.MessageSent) for event in record.events]
    assert world.published == {event.id: event for event in words}
    assert max(world.sent.values()) <= 2
    assert max(Counter((x.speaker, x.text) for x in book if isinstance(x, r.MessageSent)).values()) == 1

    permitted = {f"{ID}:{x.seq}": x for x in book if isinstance(x, r.ToolCallStarted)}
    returned = {(x.run, x.call) for x in survived if isinstance(x, r.ToolCallCompleted)}
    assert world.calls.keys() <= permitted.keys()
    for key, call in permitted.items():
        result = next(
            x for x in book if isinstance(x, r.ToolCallCompleted) and (x.run, x.call) == (call.run, call.call)
        )
        is_over = call.replay is Replay.ONCE or (call.run, call.call) in returned
        most = 1 if is_over else lives if call.replay is Replay.READ else 2
        assert world.calls[key] <= most
        assert (result.content == UNKNOWN) == (call.replay is Replay.ONCE and key in _open_once(then))


def _open_once(state: Conversation) -> set[str]:
    """The keys of calls that were open at the death and may not be repeated."""
    return {
        f"{ID}:{call.seq}"
        for run in state.work.runs.values()
        for call in run.open_calls
        if call.state is CallState.PERMITTED and call.replay is Replay.ONCE
    }
