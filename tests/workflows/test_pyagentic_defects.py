"""What was measured of pyagentic's phases (reference 1.1), each defect by its letter, through the whole flow."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelRequest, ModelStep, ToolSpec
from tenex.core.signals import RollBack
from tenex.core.state.agent import Program
from tenex.core.state.rollback import RolledBack
from tenex.store.view_json import render
from tests.fakes.agent_phases import program, with_program
from tests.fakes.runtime import World
from tests.fakes.scenario import reply
from tests.fakes.virtual import run

ID = ConversationId("c" * 64)


def sets(field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return ("set_state", {"field": field, "value": value})


def adds(value: Any) -> tuple[str, dict[str, Any]]:
    return ("append_state", {"field": "data", "value": value})


def world(*steps: ModelStep, of: Program | None = None) -> World:
    """A world whose executor has phases of its own and answers this, one after the other."""
    script = list(steps)

    def worker(request: ModelRequest) -> ModelStep:
        return script.pop(0) if script else reply("done")

    def router(question: dict[str, Any]) -> dict[str, Any]:
        done = question["turns"] and question["messages"][-1]["after_turn"] != question["turns"][-1]["turn"]
        return {"agents": ["USER"] if done else ["executor"], "reason": "x"} | (
            {} if done or question["phase"] == "execute" else {"phase": "execute"}
        )

    one = World(router, worker)
    one.rules = with_program(of or program(), one.rules)
    return one


def held(one: World, then: Callable[[Any], Any] | None = None) -> list[r.Record]:
    """Hold the conversation until its agent has worked; all its records."""

    async def main() -> None:
        async with one.daemon() as daemon:
            daemon.write("research it")
            await daemon.until("waiting")
            if then is not None:
                await then(daemon)

    run(main)
    return records(one)


def records(one: World) -> list[r.Record]:
    return [record for append in one.books[ID] for record in append]


def at(one: World, seq: int | None = None) -> Conversation:
    """The durable state after a record; by default as it is."""
    return fold(ID, [record for record in records(one) if seq is None or record.seq <= seq])


def moves(found: list[r.Record]) -> list[tuple[str, str]]:
    return [(record.source, record.target) for record in found if isinstance(record, r.AgentPhaseChanged)]


def offered(one: World) -> list[list[str]]:
    """The tools each request to the agent offered, of those its phases decide on."""
    of_phases = ("check", "send", "write_file")
    return [
        [tool.name for tool in request.tools if tool.name in of_phases]
        for request in one.requests
        if request.purpose == "work"
    ]


def test_1_1_a_the_answer_of_its_model_alone_moves_an_agent() -> None:
    one = world(reply("planned"), of=program((("planning", "research", None), ("research", "planning", lambda me: 0))))
    assert moves(held(one)) == [("planning", "research")]


def test_1_1_b_every_phase_it_was_in_and_its_tools_are_offered() -> None:
    chain = program(
        (
            ("planning", "research", lambda me: me.plan),
            ("research", "analysis", lambda me: len(me.data) >= 3),
            ("analysis", "done", lambda me: me.plan and len(me.data) >= 4),
        )
    )
    one = world(reply("", sets("plan", "p"), sets("data", [1, 2, 3, 4])), reply(""), of=chain)
    specs = tuple(ToolSpec(name=name, description="", parameters={}) for name in ("check", "send", "write_file"))
    one.specs = lambda phase, agent: specs  # type: ignore[method-assign]
    found = held(one)
    assert moves(found) == [("planning", "research"), ("research", "analysis"), ("analysis", "done")]
    assert offered(one)[:3] == [["check"], ["write_file"], []]
    appends = [append for append in one.books[ID] if moves(list(append))]
    assert [len(moves(list(append))) for append in appends] == [2, 1], "two results, then an answer: a step for each"


def test_1_1_f_phase_state_and_history_are_on_disk_readable_and_go_back_with_the_conversation() -> None:
    one = world(reply("", sets("plan", "p")), reply("done"), reply("", adds(1), adds(2), adds(3)), reply("done"))

    async def then(daemon: Any) -> None:
        daemon.write("go on")
        await daemon.until("waiting")
        assert daemon.state().agent_states["executor"].phase == "analysis"
        then = at(one, next(record.seq for record in records(one) if isinstance(record, r.TurnClosed)))
        daemon.runtime.coordinator.deliver(ID, RollBack(to=then.next_seq - 1, then=then, by="alice"))
        while not any(isinstance(record, RolledBack) for record in records(one)):
            await asyncio.sleep(0.01)

    held(one, then)

    async def again() -> None:
        async with one.daemon() as daemon:
            agent_state = daemon.state().agent_states["executor"]
            assert (agent_state.phase, dict(agent_state.values)) == ("research", {"plan": "p", "data": []})
            reported = json.loads(render(daemon.state()))["agents"]["executor"]
            assert (reported["phase"], reported["state"]["plan"]) == ("research", "p")
            assert [(move["from"], move["to"]) for move in reported["history"]] == [("planning", "research")]

    run(again)


def test_1_1_f_a_process_killed_at_any_append_leaves_the_agent_where_it_was() -> None:
    steps = (reply("", sets("plan", "p"), ("send", {})), reply("", adds(1), adds(2)), reply("", adds(3)))
    whole = world(*steps)
    held(whole)
    appends = len(whole.books[ID])
    for moment in range(2, appends):
        one = world()
        script = {"planning": steps[0], "research": steps[1], "analysis": reply("done")}

        def worker(request: ModelRequest, one: World = one, script: Any = script) -> ModelStep:
            agent_state = at(one).agent_states["executor"]
            if agent_state.phase == "research" and agent_state.values["data"]:
                return steps[2]
            return script[agent_state.phase]  # type: ignore[no-any-return]

        one.worker = worker

        async def main(one: World = one, moment: int = moment) -> None:
            async with one.daemon(kill=True) as daemon:
                daemon.write("research it")
                while len(one.books.get(ID, ())) < moment:
                    await asyncio.sleep(0.001)
            async with one.daemon() as daemon:
                state = await daemon.until("waiting")
                assert [move.target for move in state.agent_states["executor"].history] == ["research", "analysis"]
                assert state.agent_states["executor"].values == {"plan": "p", "data": [1, 2, 3]}

        run(main)
