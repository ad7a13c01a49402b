"""Sub-agents called like tools, in the runtime: offered, at work at once, stopped, cut off; the thread on a relay."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import get_args

import pytest
from websockets.asyncio.client import connect

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.messages import AgentText, ModelRequest, ModelStep, Note
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import OutgoingMessage, PublishOutcome, UnsignedEvent
from tenex.core.records import Record
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import Event, sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event
from tests.fakes.runtime import World
from tests.fakes.scenario import ID, reply, rules
from tests.fakes.subagents import calls_to, with_subagents
from tests.fakes.virtual import virtual_time
from tests.nostr.kit import real_relay

from .dying import DyingWorld, Moment, Subject, work

BOTH = reply("I ask around", *calls_to("planner", "helper", message="which colour?"))


def steps_of(request: ModelRequest) -> int:
    """How often the run's model has answered."""
    return sum(isinstance(entry, ModelStep) for entry in request.entries)


def asks_around(request: ModelRequest) -> ModelStep:
    """The executor asks two sub-agents, and reports their answers."""
    if request.agent == "executor" and not steps_of(request):
        return BOTH
    return reply(f"{request.agent} is done")


def world() -> World:
    """A router that has the executor work once; the executor may call the planner and the helper."""
    made = World(lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "work"}, asks_around)
    made.rules = with_subagents(rules(), executor=["planner", "helper"])
    return made


def book(of: World) -> list[Record]:
    return [record for decision in of.books[ID] for record in decision]


@virtual_time
async def test_subagents_are_tools_run_in_parallel_and_publish_nothing() -> None:
    one = world()

    async with one.daemon() as daemon:
        daemon.write("build it")
        state = await daemon.until("waiting")
        assert state.usage.calls == len(one.requests), "everybody's calls are counted"
    first, *called, last = [request for request in one.requests if request.purpose == "work"]
    assert [tool.name for tool in first.tools] == ["to_planner", "to_helper"]
    assert [request.agent for request in called] == ["planner", "helper"]
    assert one.most_overlap == 2
    for request in called:
        assert request.tools == ()
        note, words = request.entries
        assert isinstance(note, Note)
        assert words == AgentText(author="Executor", text="which colour?")
    assert [entry.content for entry in last.entries[-2:] if hasattr(entry, "content")] == [
        "planner is done",
        "helper is done",
    ]
    assert one.order == ["executor is done"]


@virtual_time
async def test_a_stop_ends_subagents_without_waiting_for_their_models() -> None:
    one = world()
    one.think = 100.0

    async with one.daemon() as daemon:
        daemon.write("build it")
        while len(one.requests) < 4:
            await asyncio.sleep(1)
        daemon.write("/stop")
        state = await daemon.until("waiting", seconds=50)
        assert state.runs == {}
        assert one.overlap == 0, "no model is called any more"
    ended = {record.run.rpartition(".")[2]: record.outcome for record in book(one) if isinstance(record, r.RunEnded)}
    assert ended == {"executor": "stopped", "planner": "stopped", "helper": "stopped"}


# ---- cut off at every moment of a sub-agent's work ----------------------------------------------------------------


def with_a_subagent(request: ModelRequest) -> ModelStep:
    """In execute the executor has the planner write something first."""
    steps = steps_of(request)
    if request.phase == "execute" and request.agent == "executor" and not steps:
        return reply("", *calls_to("planner"), ("send", {"path": "m"}))
    if request.phase == "execute" and request.agent == "planner" and not steps:
        return reply("", ("write_file", {"path": "p"}))
    return work(request)


def begins(record: Record, _: Conversation) -> bool:
    return isinstance(record, r.RunStarted) and record.parent is not None


def answers_first(record: Record, state: Conversation) -> bool:
    return isinstance(record, r.ModelResponded) and "/" in record.run and state.runs[record.run].steps == 1


def has_written(record: Record, _: Conversation) -> bool:
    return isinstance(record, r.ToolCallCompleted) and "/" in record.run


def is_handed_back(record: Record, _: Conversation) -> bool:
    return isinstance(record, r.ToolCallCompleted) and record.tool == "to_planner"


SUBJECTS = (
    Subject(name="called", intent=begins, effect="planner in execute, step 0", result=answers_first),
    Subject(
        name="tool",
        intent=lambda record, _: isinstance(record, r.ToolCallStarted) and "/" in record.run,
        effect="write_file by planner in execute",
        result=has_written,
    ),
    Subject(name="answer", intent=has_written, effect="planner in execute, step 1", result=is_handed_back),
)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("moment", get_args(Moment))
@virtual_time
async def test_wherever_a_subagent_is_cut_off_it_goes_on_and_nothing_is_done_twice(
    subject: Subject, moment: Moment, tmp_path: Path
) -> None:
    one = DyingWorld(tmp_path, subject, moment)
    one.rules, one.worker = with_subagents(rules(), executor=["planner"]), with_a_subagent

    assert await one.live(), "it never came to that moment"
    assert not await one.live()
    records = book(one)
    state = fold(ID, records)
    assert (state.status, pending(state)) == ("ended", {})
    called = [record for record in records if isinstance(record, r.RunStarted) and record.parent is not None]
    assert [record.agent for record in called] == ["planner"]
    assert sum(is_handed_back(record, state) for record in records) == 1
    executing = next(turn for turn in state.turns if turn.phase is Phase.EXECUTE)
    assert sorted(done.agent for done in executing.completions) == ["executor", "helper", "security"]
    assert one.effects.count(subject.effect) == (2 if moment in ("after effect", "before result") else 1)
    assert one.effects.count("send by executor in execute") <= 1, "it may not be known, and is not done twice"


# ---- on a relay ---------------------------------------------------------------------------------------------------

PERSON, PROJECT = SecretKey(bytes([90]) * 32), SecretKey(bytes([91]) * 32)


class RelayWorld(World):
    """Signs with real keys in the form of notes, and publishes to a real relay."""

    def __init__(self, url: str) -> None:
        made = world()
        super().__init__(made.router, self.asks_one_who_asks)
        self.keys: dict[str, SecretKey] = {
            name: SecretKey(bytes([place]) * 32) for place, name in enumerate(made.rules.roster, 1)
        }
        roster = {name: dataclasses.replace(x, pubkey=self.keys[name].public) for name, x in made.rules.roster.items()}
        self.keys["project"] = PROJECT
        project = dataclasses.replace(made.rules.project, pubkey=PROJECT.public)
        self.rules = dataclasses.replace(made.rules, roster=roster, project=project)
        self.url, self.sealer = url, NostrSealer([url])
        self.think = self.append_time = 0.0

    def asks_one_who_asks(self, request: ModelRequest) -> ModelStep:
        """The planner does not know either, and asks the person."""
        if request.agent == "planner" and not steps_of(request):
            return reply("", ("ask", {"question": "Which colour?"}))
        return asks_around(request)

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """As the daemon does."""
        return self.sealer.seal(draft)

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """To the real one."""
        key = next((key for key in self.keys.values() if key.public == event.pubkey), None)
        self.must(key is not None, "somebody spoke who has no key")
        assert key is not None
        await self.send(sign(event, key))
        return PublishOutcome(accepted=True)

    async def send(self, event: Event) -> None:
        """Bring an event to the relay."""
        async with connect(self.url, proxy=None) as socket:
            await socket.send(json.dumps(["EVENT", to_wire(event)]))
            assert json.loads(await socket.recv())[:3] == ["OK", event.id, True]

    async def thread(self, root: str) -> list[tuple[str, str]]:
        """Its authors and texts, in order."""
        async with connect(self.url, proxy=None) as socket:
            await socket.send(json.dumps(["REQ", "all", {"#e": [root]}]))
            found = []
            while (frame := json.loads(await socket.recv()))[0] == "EVENT":
                found.append(frame[2])
        names = {key.public: name for name, key in self.keys.items()}
        return [(names[event["pubkey"]], event["content"]) for event in sorted(found, key=lambda x: x["created_at"])]


async def test_the_thread_on_a_relay_holds_what_a_called_agent_asks_and_not_what_it_answers() -> None:
    async with asyncio.timeout(60), real_relay() as url:
        one = RelayWorld(url)
        note = sign(unsigned_event(PERSON.public, one.clock.now() // 1000, 1, [["p", PROJECT.public]], "build"), PERSON)
        await one.send(note)
        asked = read_event(note, [PROJECT.public], {}, url, None)
        assert asked is not None
        async with one.daemon() as daemon:
            daemon.write("build it", address=asked.address)
            while not daemon.state().is_parked or daemon.state().outbox:
                await asyncio.sleep(0.01)
            assert await one.thread(note.id) == [("planner", "Which colour?")]
            daemon.write("green")
            await daemon.until("waiting")
        assert await one.thread(note.id) == [
            ("planner", "Which colour?"),
            ("executor", "executor is done"),
            ("project", "I wait for you: work"),
        ]
