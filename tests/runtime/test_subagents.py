"""Sub-agents called like tools, in the runtime: offered, at work at once, stopped; what users read of them."""

import asyncio

from tenex.core import records as r
from tenex.core.messages import AgentText, ModelRequest, ModelStep, Note
from tests.fakes.runtime import World
from tests.fakes.scenario import reply, route, rules
from tests.fakes.subagents import calls_to, with_subagents
from tests.fakes.virtual import virtual_time

BOTH = reply("I ask around", *calls_to("planner", "helper", message="which colour?"))


def steps_of(request: ModelRequest) -> int:
    return sum(isinstance(entry, ModelStep) for entry in request.entries)


def asks_around(request: ModelRequest) -> ModelStep:
    """The executor asks two sub-agents, and reports their answers."""
    if request.agent == "executor" and not steps_of(request):
        return BOTH
    return reply(f"{request.agent} is done")


def world() -> World:
    """A router that has the executor work once; the executor may call the planner and the helper."""
    made = World(lambda q: route(None, "USER" if q["turns"] else "executor"), asks_around)
    made.rules = with_subagents(rules(), executor=["planner", "helper"])
    return made


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
    ended = {record.run.rpartition(".")[2]: record.outcome for record in one.records(r.RunEnded)}
    assert ended == {"executor": "stopped", "planner": "stopped", "helper": "stopped"}


@virtual_time
async def test_the_thread_holds_what_a_called_agent_asks_and_not_what_it_answers() -> None:
    def asks(request: ModelRequest) -> ModelStep:
        if request.agent == "planner" and not steps_of(request):
            return reply("", ("ask", {"question": "Which colour?"}))
        return asks_around(request)

    one = world()
    one.worker = asks
    async with one.daemon() as daemon:
        daemon.write("build it")
        while not daemon.state().is_parked or daemon.state().outbox:
            await asyncio.sleep(0.1)
        assert one.order == ["Which colour?"]
        daemon.write("green")
        await daemon.until("waiting")
    names = {agent.pubkey: agent.slug for agent in one.rules.roster.values()}
    spoken = [(names.get(event.pubkey, "project"), event.content) for event in one.published.values()]
    assert spoken[:2] == [("planner", "Which colour?"), ("executor", "executor is done")]
    assert [who for who, _ in spoken[2:]] in ([], ["project"])
