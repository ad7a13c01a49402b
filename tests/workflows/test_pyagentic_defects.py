"""What was measured of pyagentic's phases (reference 1.1), by letter; the others are in `test_python_agents`."""

import json
from collections.abc import Iterator
from typing import Any

from tenex.core import records as r
from tenex.core.rollback.decide import state_at
from tenex.core.signals import RollBack
from tenex.store.view_json import render
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import ID, Scenario, one_turn, reply, route


def sets(field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return ("set_state", {"field": field, "value": value})


def test_1_1_a_the_answer_of_its_model_alone_moves_an_agent() -> None:
    there_and_back = program((("planning", "research", None), ("research", "planning", lambda me: 0)))
    config = with_program(there_and_back)
    one = Scenario(one_turn("executor", "execute"), lambda *_: reply("planned"), config=config).converse("research it")
    assert [(move.source, move.target) for move in one.records(r.AgentPhaseChanged)] == [("planning", "research")]


def test_1_1_f_phase_state_and_history_are_on_disk_readable_and_go_back_with_the_conversation() -> None:
    answers: Iterator[Any] = iter(
        [reply("", sets("plan", "p")), reply("done"), reply("", sets("data", [1, 2, 3])), reply("done")]
    )

    def router(question: dict[str, Any]) -> dict[str, Any]:
        is_done = question["turns"] and question["messages"][-1]["after_turn"] != question["turns"][-1]["turn"]
        return route(None, "USER") if is_done else route("execute" if not question["turns"] else None, "executor")

    one = Scenario(router, lambda *_: next(answers), config=with_program(program()))
    one.converse("research it").converse("go on")
    assert one.conversation.memory.agent_states["executor"].phase == "analysis"
    first_turn = one.records(r.TurnClosed)[0].seq
    then = state_at(ID, one.records(), first_turn)
    one.handle(RollBack(to=then.next_seq - 1, then=then, by="alice"))
    one.crash()
    agent_state = one.conversation.memory.agent_states["executor"]
    assert (agent_state.phase, dict(agent_state.values)) == ("research", {"plan": "p", "data": []})
    reported = json.loads(render(one.conversation))["agents"]["executor"]
    assert (reported["phase"], reported["state"]["plan"]) == ("research", "p")
    assert [(move["from"], move["to"]) for move in reported["history"]] == [("planning", "research")]
