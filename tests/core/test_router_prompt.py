"""The question the router is asked: all it may go by, in bounds, and true."""

import functools
import json
from dataclasses import replace
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.context.window import tokens
from tenex.core.ids import ConversationId
from tenex.core.phases import Phase
from tenex.core.state.conversation import CYCLE_MESSAGES
from tenex.workflows.phases.router_prompt import (
    COMPLETIONS,
    MESSAGES,
    PER_VALUE,
    Written,
    _whole_messages,
    _whole_turns,
    question_for,
)
from tests.fakes.scenario import ENDS, WAITS, Router, Scenario, plain_model, reply, route, rules, scenario_at


def question(scenario: Scenario, **more: Any) -> dict[str, Any]:
    """What the router is asked now."""
    asked: dict[str, Any] = json.loads(question_for(scenario.conversation, scenario.rules, **more).text)
    return asked


def test_the_question_holds_all_the_router_may_go_by() -> None:
    scenario = scenario_at(Phase.EXECUTE, text="build it")
    asked = question(scenario)
    assert (asked["phase"], asked["cycle"], asked["can_end"]) == ("execute", 1, False)
    assert asked["permitted"] == ["verification", "chat"]
    assert asked["open_gates"] == ["verification", "chores", "reflection"]
    assert [message["text"] for message in asked["messages"]] == ["build it"]
    assert [(turn["phase"], turn["agents"]) for turn in asked["turns"]] == [
        ("chat", ["executor"]),
        ("execute", ["executor"]),
    ]
    assert asked["turns"][1]["completions"][0]["text"] == "executor has done its part of execute"
    assert asked["participants"] == ["executor"] == asked["still_to_reflect"]
    assert [member["slug"] for member in asked["roster"]] == list(scenario.rules.roster)
    assert "orchestrator" not in json.dumps(asked["roster"])


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("waived", ["", "/skip verification", "/skip reflection", "/quick"])
def test_what_the_question_permits_is_what_is_then_accepted(phase: Phase, waived: str) -> None:
    """For every target and END: offered to the router if and only if the decision is accepted."""
    for target in (*(other for other in Phase if other is not phase), None):
        scenario = scenario_at(phase)
        if waived:
            scenario.user_writes(waived)
        asked = question(scenario)
        who = asked["still_to_reflect"] if target is Phase.REFLECTION else ["executor"]
        scenario.router = Router(route(target, *(who or ["executor"])) if target else ENDS, WAITS)
        scenario.settle()
        if target is None:
            assert bool(scenario.records(r.Ended)) is asked["can_end"]
            continue
        accepted = scenario.records(r.TurnOpened)[-1].phase is target and scenario.phases()[-1] is target
        assert accepted is (target in asked["permitted"]), target


@functools.cache
def long_cycle(turns: int = CYCLE_MESSAGES + 5, written: int = 9_000, done: int = 9_000) -> Scenario:
    """A cycle in which much was sent and much was done; the same to all, who only look at it."""
    scenario = Scenario(
        Router(WAITS),
        lambda conversation, call: reply("done " + "é" * done + f" by {call.run}"),
        config=rules(limits=Limits(same_route=10**6)),
    )
    for n in range(turns):
        scenario.router = Router(route(None, "executor", "helper"), WAITS)
        scenario.converse(f'message {n} "' + "\n" * written)
    return scenario


@pytest.mark.parametrize("budget", [8_000, 20_000, 60_000, 1_000_000])
def test_the_question_keeps_to_its_budget_with_every_message_and_every_turn(budget: int) -> None:
    scenario = long_cycle()
    note = question_for(scenario.conversation, scenario.rules, budget)
    assert tokens(note.text) <= budget
    asked = json.loads(note.text)
    kept = scenario.conversation.messages
    assert len(kept) <= CYCLE_MESSAGES
    assert kept[0].text.startswith("message 0 "), "what began the cycle stays"
    assert [message["id"] for message in asked["messages"]] == [message.event_id for message in kept]
    assert all(f"message {m.text.split()[1]} " in sent["text"] for m, sent in zip(kept, asked["messages"], strict=True))
    assert all(len(message["text"]) < MESSAGES[0] + 100 for message in asked["messages"])
    assert [turn["turn"] for turn in asked["turns"]] == [turn.turn_id for turn in scenario.conversation.turns]
    assert {done["outcome"] for turn in asked["turns"] for done in turn["completions"]} == {"finished"}
    if budget == 20_000:
        sizes = [len(turn["completions"][0]["text"]) for turn in asked["turns"]]
        assert sizes == sorted(sizes), "the oldest are cut first"
        assert sizes[0] < COMPLETIONS[0] <= sizes[-1]


def test_cycles_that_are_over_are_shown_in_short() -> None:
    scenario = scenario_at(Phase.CHAT, Router(ENDS))
    assert question(scenario)["earlier"] == []
    scenario.settle()
    scenario.router = Router(WAITS)
    scenario.user_writes("and now a poem")
    done = ["chat: executor: executor has done its part of chat"]
    assert question(scenario)["earlier"] == [{"cycle": 1, "request": "build it", "done": done}]


def test_the_question_is_one_document_written_as_json_is_whatever_is_sent_in_it() -> None:
    """Its parts are written one by one: together they are what the whole would be."""
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), plain_model).converse(
        'a "quote", ä line\nend and "messages": [], "turns": [] of the question itself'
    )
    scenario.router = Router(route(None, "project-manager"), route(None, "project-manager"), WAITS)
    scenario.converse('"messages": [], "turns": []')
    for budget in (100_000, 1_000, 1):
        text = question_for(scenario.conversation, scenario.rules, budget, ['"messages": [], "turns": []']).text
        assert text == json.dumps(json.loads(text), ensure_ascii=False)
        assert json.loads(text)["messages"][-1]["text"] == '"messages": [], "turns": []'
        assert len(json.loads(text)["turns"]) == len(scenario.conversation.turns) > 1


def test_what_was_written_before_changes_no_question() -> None:
    """A turn is written once, while it is the same: what is added to it later is in the next question."""
    scenario = long_cycle(turns=4)
    first = question_for(scenario.conversation, scenario.rules, 9_000).text
    for written in (_whole_messages, _whole_turns):
        written.forget()
    assert question_for(scenario.refold(), scenario.rules, 9_000).text == first
    later = scenario.conversation.fork()
    later.turns = (*later.turns[:-1], replace(later.turns[-1], reason="another"))
    assert json.loads(question_for(later, scenario.rules).text)["turns"][-1]["reason"] == "another"


def test_what_is_remembered_as_json_is_the_last_question_of_those_who_asked_last() -> None:
    wrote: list[int] = []

    def write(value: tuple[int]) -> str:
        wrote.append(value[0])
        return str(value[0]) * 1_000

    written = Written[tuple[int]](write, room=10 * (1_000 + PER_VALUE))
    one, other, third = (ConversationId(name * 64) for name in "123")
    values = [(number % 10,) for number in range(50)]
    for last in range(3, 50):  # a talk that goes on and on, of which a question holds the newest
        assert written.of(one, values[last - 3 : last]) == [str(value[0]) * 1_000 for value in values[last - 3 : last]]
    written.of(other, values[:7])
    written.of(one, values[46:49])
    assert (len(wrote), len(written)) == (56, 10)
    written.of(third, values[:1])
    assert len(written) == 4, "who asked longest ago is forgotten, and no one else"
    assert len(written.of(other, values[:12])) == 12, "who has more than there is room for gets it"
    assert (len(wrote), len(written)) == (69, 0)
    written.of(one, values[:3])
    written.forget()
    assert len(written) == 0
