"""The router: all it may go by; whatever it answers, code holds the rules and the user gets an answer."""

import functools
import json
import re
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.cycle.state import CYCLE_MESSAGES
from tenex.core.effects import Key, Route, Timer, Work
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.memory.window import tokens
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.router.answer import (
    DECISION_SCHEMA,
    FIELDS,
    REASON_CHARACTERS,
    RoutingDecision,
    Settles,
    UnknownPhase,
    parse,
)
from tenex.core.signals import DayLimitReached, ModelFailed, RouteAnswered
from tenex.workflows.phases.router_prompt import (
    COMPLETIONS,
    MESSAGES,
    PER_VALUE,
    Written,
    _whole_messages,
    _whole_turns,
    question_for,
)
from tests.fakes.routing import read_question
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    plain_model,
    policy,
    refusals,
    reply,
    route,
    scenario_at,
    step_until,
)

BREAKS = ModelFailed(key=Key(Work.ROUTE, 0), message="no such model", retryable=False)


@pytest.mark.parametrize(
    "answer",
    [
        {"agents": ["nonsense " * 10_000], "reason": "x"},
        route("nonsense " * 10_000, "executor"),
        route("execute", "executor", waive=["nonsense " * 10_000]),
    ],
    ids=["agents", "phase", "waive"],
)
def test_an_endless_name_does_not_flood_the_router_or_the_user(answer: dict[str, Any]) -> None:
    scenario = Scenario(Router(answer), plain_model).converse("build it")
    assert len(scenario.sent_texts()[-1]) < 1_000
    assert all(len(sentence) < 500 for sentence in refusals(scenario))
    assert all(len(record.answer) <= 2_000 for record in scenario.records(r.RouteRejected))


def test_names_are_read_in_any_spelling_and_staying_is_no_transition() -> None:
    first, second = route("EXECUTE", " Project Manager ", "ProjectManager"), route("execute", "helper")
    scenario = Scenario(Router(first, second, WAITS), plain_model).converse("build it")
    assert [record.agents for record in scenario.records(r.TurnOpened)] == [("project-manager",), ("helper",)]
    assert scenario.phases() == [Phase.EXECUTE]
    assert [record.to for record in scenario.records(r.HandedOff)] == [Phase.EXECUTE]
    assert refusals(scenario) == []


@pytest.mark.parametrize("agents", [("END", "executor"), ("executor", "User"), ("USER", "end")])
def test_a_reserved_word_beside_others_is_refused(agents: tuple[str, str]) -> None:
    assert "must stand alone" in refusals(scenario_at(Phase.CHAT, Router(route(None, *agents), WAITS)).settle())[0]


@pytest.mark.parametrize("word", ["END", "USER"])
def test_nothing_ends_or_waits_before_the_user_had_an_answer(word: str) -> None:
    scenario = Scenario(Router(route(None, word), route(None, "project-manager"), WAITS), plain_model).converse(
        "hello?"
    )
    assert len(refusals(scenario)) == 1
    assert "answer" in refusals(scenario)[0]
    assert scenario.conversation.totals.turn_count == 1
    check_idle(scenario)


def test_user_is_asked_again_uncounted_when_the_user_has_just_written() -> None:
    """The router could not know; five messages while it thinks use up no attempt."""
    scenario = scenario_at(Phase.CHAT)
    thinking = iter(range(5))

    def slow(question: dict[str, Any]) -> Any:
        if next(thinking, None) is not None:
            scenario.user_writes("one more thing")
            return WAITS
        return route(None, "project-manager") if len(question["turns"]) == 1 else WAITS

    scenario.router = slow
    scenario.settle()
    stale = [record for record in scenario.records(r.RouteRejected) if not record.counted]
    assert len(stale) == 5
    assert {record.attempt for record in scenario.records(r.RouteRequested)} == {1}
    assert scenario.conversation.cycle.status == "waiting"
    assert scenario.conversation.cycle.waiting_for == "user"


JARGON = re.compile(r"JSON|object|slug|roster|\bEND\b|\bUSER\b|`agents`|`phase`|gate")
"""Words of the protocol between program and model, which a user need not know."""


@pytest.mark.parametrize(
    ("phase", "answer", "expected"),
    [
        (Phase.CHAT, "", "it did not answer in the form that is asked for."),
        (Phase.CHAT, "lorem ipsum dolor " * 10_000, "it did not answer in the form that is asked for."),
        (Phase.CHAT, route(None, "wizard"), "it chose an agent that does not exist, 'wizard'."),
        (Phase.CHAT, '{"agents": ["\\ud800"], "reason": "\\udfff"}', "it chose an agent that does not exist, "),
        (Phase.CHAT, route("deploy", "executor"), "it chose a phase that does not exist, 'deploy'."),
        (Phase.CHAT, route("chores", "executor"), "it wanted to go from chat to chores, which is not possible."),
        (Phase.EXECUTE, ENDS, "it wanted to end although verification, chores, reflection is still to do."),
        (Phase.CHAT, {"agents": ["END", "executor"]}, "it named agents and an end of the work at the same time."),
        (Phase.EXECUTE, {**WAITS, "waive": ["plan"]}, "it wanted to skip 'plan', which is no check."),
        (Phase.CHAT, BREAKS, "it gave no usable answer (no such model)."),
        (Phase.CHAT, {"agents": []}, "it did not"),
    ],
)
def test_b02_three_refusals_lead_to_plain_words_and_a_wait_and_the_next_message_works(
    phase: Phase, answer: Any, expected: str
) -> None:
    """Agents of a rejected decision ran as if the phase had changed."""
    router = Router(answer)
    scenario = scenario_at(phase, router)
    turns = scenario.conversation.totals.turn_count
    scenario.settle()
    assert scenario.conversation.totals.turn_count == turns
    assert [record.attempt for record in scenario.records(r.RouteRequested)][-3:] == [1, 2, 3]
    assert [question["rejections"] for question in router.asked] == [refusals(scenario)[:n] for n in range(3)]
    assert scenario.conversation.cycle.phase is phase
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.waiting_for) == ("waiting", "fallback")
    sent = scenario.sent_texts()[-1]
    assert sent.startswith("I could not decide how to go on. The orchestrator's model gave 3 decisions that I cannot")
    assert f"the last time {expected}" in sent
    assert not JARGON.search(sent)
    assert ("error", "routing") in scenario.records(r.MessageSent)[-1].tags
    router = scenario.router = Router(route(None, "project-manager"), WAITS)
    scenario.converse("try again")
    assert router.asked[0]["rejections"] == []
    assert (scenario.conversation.totals.turn_count, scenario.conversation.cycle.waiting_for) == (turns + 1, "user")


def test_b08_a_corrected_name_is_kept_as_a_lesson_and_shown_in_later_questions_and_no_other_refusal_is() -> None:
    """A corrected decision opened no turn, knew no END, and what was to be learned of it was only logged."""
    answers = ["hm", route("chores", "executor"), route(None, "project-manager")]
    for number in range(10):
        answers += [route(None, f"wizard{number}"), route(f"deploy{number}", "executor"), route(None, "planner")]
    router = Router(*answers, WAITS)
    scenario = scenario_at(Phase.CHAT, router, config=policy(limits=Limits(same_route=99))).settle()
    lessons = [record.lesson for record in scenario.records(r.RouterCorrected)]
    assert len(lessons) == 20
    assert lessons[0].startswith("There is no agent 'wizard0'")
    assert lessons[1].startswith("There is no phase 'deploy0'")
    assert all(lesson.endswith("The answer that was accepted: planner.") for lesson in lessons)
    assert all(slug in lessons[0] for slug in scenario.policy.roster)
    assert all(phase in lessons[1] for phase in Phase)
    assert router.asked[-1]["lessons"] == lessons[-10:], "the newest"
    opened = [record.agents for record in scenario.records(r.TurnOpened)]
    assert opened[1:] == [("project-manager",), *[("planner",)] * 10]
    corrected = scenario_at(Phase.CHAT, Router(route("execute", "wizard"), ENDS)).settle()
    assert corrected.conversation.cycle.status == "ended"


def silent() -> tuple[Scenario, Key]:
    """A scenario whose router has been asked and does not answer."""
    scenario = Scenario(Router(WAITS), plain_model)
    scenario.user_writes("build it")
    return scenario, next(key for key, effect in scenario.running.items() if isinstance(effect, Route))


def slow(scenario: Scenario) -> list[int]:
    """When the user learns that there is no answer yet."""
    return [e.due for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "route-warn"]


def test_a_slow_router_is_reported_within_half_a_minute_and_once_for_a_question() -> None:
    scenario, _ = silent()
    assert slow(scenario)[0] <= scenario.now + 30_000
    scenario.fire("route-warn")
    for _ in range(3):
        effect = next(e for e in scenario.running.values() if isinstance(e, Route))
        scenario.handle(ModelFailed(key=effect.key, message="timed out", retryable=True))
        scenario.fire("route")
    scenario.settle()
    assert slow(scenario) == []
    reported = [text for text in scenario.sent_texts() if "has not answered" in text]
    assert reported == ["The orchestrator's model has not answered for 25 s. I keep trying; `/stop` ends it."]


def test_a_router_that_is_always_slow_is_reported_once_for_a_message() -> None:
    """A model that takes half a minute gave a message for each question of a cycle."""
    scenario = Scenario(Router(route("plan", "planner"), route("execute", "executor"), WAITS), plain_model)
    scenario.user_writes("hello")
    scenario.fire("route-warn")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.PLAN)
    step_until(scenario, lambda it: it.conversation.router.question is not None)
    assert slow(scenario) == []
    scenario.settle()
    scenario.router = Router(WAITS)
    scenario.user_writes("and now?")
    assert slow(scenario) != []


def test_the_time_no_one_was_there_and_a_hold_until_the_next_day_count_against_no_answer() -> None:
    scenario, key = silent()
    scenario.now = Millis(scenario.now + 3_600_000)
    scenario.crash()
    due = slow(scenario)
    assert due[0] > scenario.now + 20_000
    scenario.handle(RouteAnswered(key=key, step=reply("hm")))
    assert slow(scenario) == due, "a refused answer does not begin the wait again"
    (key,) = (effect.key for effect in in_flight(scenario))
    until = Millis(scenario.now + 3_600_000)
    scenario.handle(DayLimitReached(key=key, limit="cost_per_day_usd", sentence="Enough for today.", until=until))
    assert slow(scenario) == [], "the user knows why nothing happens"
    scenario.fire("route")
    assert slow(scenario)[0] > scenario.now + 20_000


def test_who_continues_is_notified_again_of_a_router_that_does_not_answer() -> None:
    scenario, key = silent()
    scenario.fire("route-warn")
    scenario.handle(ModelFailed(key=key, message="wait", retryable=True, retry_after=600_000))
    assert slow(scenario) == []
    scenario.user_writes("/continue")
    assert scenario.now + 20_000 < slow(scenario)[0] <= scenario.now + 30_000


GOOD = {"agents": ["executor"], "phase": "execute", "reason": "clear enough"}
OBJECT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        f"\n  {json.dumps(GOOD, indent=2)}  \n",
        f"I think the executor should go on.\n\n```json\n{OBJECT}\n```\n\nThat is my decision.",
        f'<tool_call>{{"name": "decision", "arguments": {OBJECT}}}</tool_call>',
        f"<thinking>{{not json}} and {{1: 2}}</thinking>{OBJECT}",
        f"{json.dumps({**GOOD, 'agents': ['planner']})}{OBJECT}",
        f'For instance {{"agents": ["planner"], "reason": "r"}}.\n{OBJECT}\nNot {{"agents": []}}',
        f'{OBJECT} and then {{"agents": ["planner"], "rea',
        '{"agents": ["planner"], "reason": "x"} ' + "{} " * 1000 + OBJECT,
        "{" * 20 + OBJECT,
        f"\ufeff{OBJECT}",
    ],
)
def test_an_object_is_found_whatever_text_is_around_it(text: str) -> None:
    assert parse(text) == RoutingDecision(agents=("executor",), phase="execute", reason="clear enough")


NONSENSE = ["", "executor", "null", "}{", OBJECT[:-1], "```json\n```", "{" * 100_000, '{"a":' * 50_000, "{\ud800}"]


@pytest.mark.parametrize("text", [*NONSENSE, '{"agents": ' + "9" * 10_000 + "}"], ids=lambda text: repr(text[:20]))
def test_nonsense_gives_a_sentence_that_states_what_to_answer(text: str) -> None:
    sentence = parse(text)
    assert isinstance(sentence, str)
    assert "agents" in sentence


GATES = "`waive` must be a list of quality gates: verification, chores, reflection."
SETTLES = '`settles` must be a list of {"words", "as"}, `as` one of: thanks, waiver, carried_out.'


@pytest.mark.parametrize(
    ("field", "values", "sentence"),
    [
        ("agents", [None, 7, {"slug": "executor"}, [7], [["executor"]], [None], True], "must be a list of slugs"),
        ("agents", [[], [""], ["  ", "\n"], ""], '`agents` is empty. Name at least one agent, or ["END"], or ["USER"]'),
        ("phase", [3, ["execute"], {"to": "execute"}, True], "`phase` must be a string."),
        ("waive", [7, True, [7], {"phase": "chores"}], GATES),
        ("settles", [7, "thanks", [7], [{"words": 7}], [{"words": "x"}], [{"words": "x", "as": "done"}]], SETTLES),
    ],
)
def test_b05_a_field_of_a_wrong_type_is_refused(field: str, values: list[Any], sentence: str) -> None:
    """The prompt demanded an empty list of agents, the schema forbade it, and the user read an error."""
    assert DECISION_SCHEMA["properties"]["agents"]["minItems"] == 1
    for value in values:
        answer = parse(json.dumps({**GOOD, field: value}))
        assert isinstance(answer, str)
        assert sentence in answer


THANKS = {"words": "ok", "as": "thanks"}


@pytest.mark.parametrize(
    ("field", "values", "read"),
    [
        ("agents", ["executor", ["executor", " executor "]], ("executor",)),
        ("phase", [None, "", "  "], None),
        ("reason", [None, 7, "", " \n", ["because"]], "no reason given"),
        ("reason", ["b" * (REASON_CHARACTERS + 1)], "b" * REASON_CHARACTERS),
        ("waive", ["chores", ["chores"]], ("chores",)),
        ("waive", [None, {}, [], "", [""]], ()),  # servers that hold an answer to a schema fill in every field
        ("settles", [None, {}, [], "", [{}], [{"words": "", "as": "thanks", "turn": ""}]], ()),
        ("settles", [THANKS, [THANKS], [THANKS, THANKS]], (Settles(words="ok", kind="thanks"),)),
    ],
)
def test_what_leaves_no_doubt_is_read(field: str, values: list[Any], read: Any) -> None:
    for value in values:
        assert getattr(parse(json.dumps({**GOOD, field: value})), field) == read


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


_fields = ("agents", "phase", "reason", "waive", "settles")


@given(st.text() | st.fixed_dictionaries({}, optional=dict.fromkeys(_fields, _json)))
def test_anything_at_all_is_a_decision_or_a_sentence(answer: Any) -> None:
    verdict = parse(answer if isinstance(answer, str) else f"so: {json.dumps(answer)}")
    if isinstance(verdict, RoutingDecision):
        assert verdict.agents
        assert all(verdict.agents)
        assert verdict.reason
    elif isinstance(verdict, UnknownPhase):
        assert Phase.parse(verdict.name) is None
    else:
        assert verdict.endswith(".")


def question(scenario: Scenario, **more: Any) -> dict[str, Any]:
    """What the router is asked now."""
    return read_question(question_for(scenario.conversation, scenario.policy, **more).text)


def test_the_question_holds_all_the_router_may_go_by() -> None:
    scenario = scenario_at(Phase.EXECUTE, text="build it")
    asked = question(scenario)
    assert (asked["phase"], asked["cycle"], asked["can_end"]) == ("execute", 1, False)
    assert asked["permitted"] == list(PHASE_TRANSITIONS.permitted(Phase.EXECUTE))
    assert asked["open_gates"] == ["verification", "chores", "reflection"]
    assert [message["text"] for message in asked["messages"]] == ["build it"]
    assert [(turn["phase"], turn["agents"]) for turn in asked["turns"]] == [
        ("chat", ["executor"]),
        ("execute", ["executor"]),
    ]
    assert asked["turns"][1]["completions"][0]["text"] == "executor has done its part of execute"
    assert asked["participants"] == ["executor"] == asked["still_to_reflect"]
    assert [member["slug"] for member in asked["roster"]] == list(scenario.policy.roster)
    assert "orchestrator" not in json.dumps(asked["roster"])


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("waived", ["", "/skip verification", "/skip reflection", "/quick"])
def test_b01_what_the_question_permits_is_what_is_then_accepted(phase: Phase, waived: str) -> None:
    """For every target and END; the function that had to ask the table always returned true, or nothing called it."""
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
    config = policy(limits=Limits(same_route=10**6))
    scenario = Scenario(Router(), lambda _, call: reply("done " + "é" * done + f" by {call.run}"), config=config)
    for n in range(turns):
        scenario.router = Router(route(None, "executor", "helper"), WAITS)
        scenario.converse(f'message {n} "' + "\n" * written)
    return scenario


@pytest.mark.parametrize("budget", [8_000, 20_000, 60_000, 1_000_000])
def test_b06_the_question_keeps_to_its_budget_with_every_message_and_every_turn(budget: int) -> None:
    """The router saw the first message only, so what a user added was never routed."""
    scenario = long_cycle()
    note = question_for(scenario.conversation, scenario.policy, budget)
    assert tokens(note.text) <= budget
    asked = read_question(note.text)
    kept = scenario.conversation.cycle.messages
    assert len(kept) <= CYCLE_MESSAGES
    assert kept[0].text.startswith("message 0 "), "what began the cycle stays"
    assert len(asked["messages"]) == len(kept)
    assert all(f"message {m.text.split()[1]} " in sent["text"] for m, sent in zip(kept, asked["messages"], strict=True))
    assert all(len(message["text"]) < MESSAGES[0] + 100 for message in asked["messages"])
    assert [turn["turn"] for turn in asked["turns"]] == [turn.turn_id for turn in scenario.conversation.cycle.turns]
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
        'a "quote", ä line\nend and "history": [] of the question itself'
    )
    scenario.router = Router(route(None, "project-manager"), route(None, "project-manager"), WAITS)
    scenario.converse('"history": []')
    for budget in (100_000, 1_000, 1):
        text = question_for(scenario.conversation, scenario.policy, budget, ['"history": []']).text
        assert text == json.dumps(json.loads(text), ensure_ascii=False)
        assert read_question(text)["messages"][-1]["text"] == '"history": []'
        assert len(read_question(text)["turns"]) == len(scenario.conversation.cycle.turns) > 1


def test_a_question_begins_with_the_one_before_up_to_its_end() -> None:
    """A list of messages before one of turns ended what both share, and providers cache, at the first turn."""
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), plain_model)
    texts = []
    for number in range(5):
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.converse(f"message {number}")
        texts.append(question_for(scenario.conversation, scenario.policy).text)
    for before, after in pairwise(texts):
        grown, _, _ = before.partition('], "cycle"')
        assert after.startswith(grown)
    history = json.loads(texts[-1])["history"]
    assert [item.get("text", item.get("turn")) for item in history[:4]] == [
        "message 0",
        "turn-1",
        "message 1",
        "turn-2",
    ]


def test_what_was_written_before_changes_no_question() -> None:
    """A turn is written once, while it is the same: what is added to it later is in the next question."""
    scenario = long_cycle(turns=4)
    first = question_for(scenario.conversation, scenario.policy, 9_000).text
    for written in (_whole_messages, _whole_turns):
        written.clear()
    assert question_for(scenario.refold(), scenario.policy, 9_000).text == first
    later = scenario.conversation.fork()
    turns = (*later.cycle.turns[:-1], replace(later.cycle.turns[-1], reason="another"))
    later.cycle = replace(later.cycle, turns=turns)
    assert read_question(question_for(later, scenario.policy).text)["turns"][-1]["reason"] == "another"


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
    written.clear()
    assert len(written) == 0


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"agents": [], "phase": "deploy"}, "`phase` of a RoutingDecision is 'deploy'; give one of chat, brainstorm,"),
        ({"agents": ["planner"], "phase": 3}, "`phase` of a RoutingDecision is 3"),
        ({"agents": []}, "needs at least one agent, END or USER"),
        ({"agents": "planner"}, "`agents` of a RoutingDecision is 'planner'; give a list of slugs"),
        ({"agents": [" "]}, r"`agents` of a RoutingDecision is \[' '\]"),
    ],
)
def test_what_can_be_no_decision_is_refused_when_it_is_made(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        RoutingDecision(**parts, reason="x")


def test_a_decision_is_made_of_a_list_and_of_a_phase_in_capitals() -> None:
    decision = RoutingDecision(agents=["planner"], phase="PLAN", reason="x")  # type: ignore[arg-type]
    assert decision.agents == ("planner",)
    assert Phase("PLAN") is Phase("Plan") is Phase.PLAN
    with pytest.raises(ValueError, match="deploy"):
        Phase("deploy")


def test_each_field_of_the_answer_is_one_of_the_decision_and_a_recorded_one_of_its_record() -> None:
    of_decision = {field.name for field in fields(RoutingDecision)}
    assert {field.attribute for field in FIELDS} == of_decision
    of_record = {field.name for field in fields(r.Routed)}
    assert {field.attribute for field in FIELDS if field.is_recorded} <= of_record
