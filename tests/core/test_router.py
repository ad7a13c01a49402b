"""A bad orchestrator: whatever it answers, code holds the rules, nothing crashes, and the user gets an answer."""

import re
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.effects import Route, Timer
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.signals import DayLimitReached, ModelFailed, RouteAnswered
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    plain_model,
    reply,
    route,
    rules,
    scenario_at,
)

DUMMY: Any = None


def refusals(scenario: Scenario) -> list[str]:
    """The sentences of all refusals, in order."""
    return [record.sentence for record in scenario.records(r.RouteRejected)]


def asked_once(scenario: Scenario, answer: Any) -> str:
    """Let the router give one bad answer and then wait; returns the sentence it was refused with."""
    before = len(scenario.records(r.RouteRejected))
    scenario.router = Router(answer, WAITS)
    scenario.settle()
    new = refusals(scenario)[before:]
    assert len(new) == 1, new
    return new[0]


@pytest.mark.parametrize("field", ["agents", "phase", "waive"])
def test_an_endless_name_does_not_flood_the_router_or_the_user(field: str) -> None:
    endless = "nonsense " * 10_000
    answer: dict[str, Any] = {
        "agents": {"agents": [endless], "reason": "x"},
        "phase": route(endless, "executor"),
        "waive": route("execute", "executor", waive=[endless]),
    }[field]
    scenario = Scenario(Router(answer), plain_model).converse("build it")
    assert len(scenario.sent_texts()[-1]) < 1_000
    assert all(len(sentence) < 500 for sentence in refusals(scenario))
    assert all(len(record.answer) <= 2_000 for record in scenario.records(r.RouteRejected))


@pytest.mark.parametrize("written", ["Executor", "EXECUTOR", " executor ", "executor"])
def test_slugs_and_phases_are_read_in_any_case(written: str) -> None:
    scenario = Scenario(Router(route("EXECUTE", written), WAITS), plain_model).converse("build it")
    assert scenario.records(r.TurnOpened)[0].agents == ("executor",)
    assert scenario.phases() == [Phase.EXECUTE]
    assert refusals(scenario) == []


def test_a_slug_in_two_spellings_is_one_agent() -> None:
    scenario = Scenario(
        Router({"agents": ["ProjectManager", "project manager"], "reason": "x"}, WAITS), plain_model
    ).converse("hello")
    assert scenario.records(r.TurnOpened)[0].agents == ("project-manager",)


def test_naming_the_phase_one_is_in_is_staying() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(route("execute", "helper"), WAITS)).settle()
    assert scenario.phases() == [Phase.EXECUTE]
    assert [record.to for record in scenario.records(r.HandedOff)] == [Phase.EXECUTE]
    assert refusals(scenario) == []


@pytest.mark.parametrize("word", ["END", "USER", "end", "User"])
@pytest.mark.parametrize("other", ["executor", "END", "USER"])
@pytest.mark.parametrize("order", [0, 1])
def test_a_reserved_word_beside_others_is_refused(word: str, other: str, order: int) -> None:
    if word.upper() != other:
        agents = [other, word] if order else [word, other]
        assert "must stand alone" in asked_once(scenario_at(Phase.CHAT), route(None, *agents))


@pytest.mark.parametrize("word", ["END", "USER"])
def test_nothing_ends_or_waits_before_the_user_had_an_answer(word: str) -> None:
    scenario = Scenario(Router(route(None, word), route(None, "project-manager"), WAITS), plain_model).converse(
        "hello?"
    )
    assert len(refusals(scenario)) == 1
    assert "answer" in refusals(scenario)[0]
    assert scenario.conversation.turn_count == 1
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
    assert scenario.conversation.status == "waiting"
    assert scenario.conversation.waiting_for == "user"


JARGON = re.compile(r"JSON|object|slug|roster|\bEND\b|\bUSER\b|`agents`|`phase`|gate")
"""Words of the protocol between program and model, which a user need not know."""
GARBAGE = {
    "nothing": "",
    "prose": "I would let the executor do it.",
    "empty agents": '{"agents": [], "reason": "nobody"}',
    "agents as a number": '{"agents": 7}',
    "deep nesting": '{"agents":' * 20_000,
    "ten thousand tokens": "lorem ipsum dolor " * 10_000,
    "many braces": "{}" * 5_000,
    "control characters": "\x00\x01\x1b[31m",
    "lone surrogates": '{"agents": ["\\ud800"], "reason": "\\udfff"}',
    "raw surrogates": "\ud800{\udfff}",
    "not a string": '{"agents": [null]}',
    "huge number": '{"agents": ' + "1" * 9_999 + "}",
    "an array": '[{"agents": ["executor"]}, 5',
    "unknown agent": '{"agents": ["wizard"]}',
    "forbidden way": '{"agents": ["executor"], "phase": "chores"}',
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_three_refusals_lead_to_a_message_and_a_wait_and_the_next_message_works(answer: str) -> None:
    scenario = scenario_at(Phase.CHAT, Router(answer))
    before = scenario.conversation.phase
    scenario.settle()
    if answer.startswith("[{"):  # an object inside an array is found; the answer is a good one
        assert scenario.records(r.RouteRejected) == []
        return
    assert [record.attempt for record in scenario.records(r.RouteRequested)][-3:] == [1, 2, 3]
    assert len(refusals(scenario)) == 3
    assert scenario.conversation.phase is before
    assert (scenario.conversation.status, scenario.conversation.waiting_for) == ("waiting", "fallback")
    expected = scenario.sent_texts()[-1]
    assert expected.startswith(
        "I could not decide how to go on. The orchestrator's model gave 3 decisions that I cannot use;"
    )
    assert not JARGON.search(expected)
    assert ("error", "routing") in scenario.records(r.MessageSent)[-1].tags
    scenario.router = Router(route(None, "project-manager"), WAITS)
    scenario.converse("try again")
    assert scenario.conversation.turn_count == 2
    assert scenario.conversation.waiting_for == "user"


@pytest.mark.parametrize(
    ("phase", "answer", "expected"),
    [
        (Phase.CHAT, "hm", "it did not answer in the form that is asked for."),
        (Phase.CHAT, route(None, "wizard"), "it chose an agent that does not exist, 'wizard'."),
        (Phase.CHAT, route("deploy", "executor"), "it chose a phase that does not exist, 'deploy'."),
        (Phase.CHAT, route("chores", "executor"), "it wanted to go from chat to chores, which is not possible."),
        (Phase.EXECUTE, ENDS, "it wanted to end although verification, chores, reflection is still to do."),
        (Phase.CHAT, {"agents": ["END", "executor"]}, "it named agents and an end of the work at the same time."),
        (Phase.EXECUTE, {**WAITS, "waive": ["plan"]}, "it wanted to skip 'plan', which is no check."),
        (
            Phase.CHAT,
            ModelFailed(key=DUMMY, message="no such model", retryable=False),
            "it gave no usable answer (no such model).",
        ),
    ],
)
def test_the_user_is_notified_in_plain_words_what_the_router_did(phase: Phase, answer: Any, expected: str) -> None:
    scenario = scenario_at(phase, Router(answer)).settle()
    sent = scenario.sent_texts()[-1]
    assert f"the last time {expected}" in sent
    assert not JARGON.search(sent)


def test_each_refusal_is_shown_to_the_router_and_a_new_question_begins_afresh() -> None:
    router = Router("hm", route(None, "wizard"), route("chores", "executor"))
    scenario = scenario_at(Phase.CHAT, router).settle()
    assert [len(question["rejections"]) for question in router.asked] == [0, 1, 2]
    assert router.asked[2]["rejections"] == refusals(scenario)[:2]
    scenario.user_writes("try again")
    scenario.step()
    assert router.asked[-1]["rejections"] == []


def test_a_corrected_name_is_kept_as_a_lesson_and_shown_in_later_questions() -> None:
    router = Router(route(None, "wizard"), route("deployment", "executor"), route(None, "project-manager"), WAITS)
    scenario = scenario_at(Phase.CHAT, router).settle()
    lessons = [record.lesson for record in scenario.records(r.RouterCorrected)]
    assert len(lessons) == 2
    assert lessons[0].startswith("There is no agent 'wizard'.")
    assert lessons[1].startswith("There is no phase 'deployment'.")
    assert all(lesson.endswith("The answer that was accepted: project-manager.") for lesson in lessons)
    assert router.asked[-1]["lessons"] == lessons


def test_a_refusal_that_has_nothing_to_do_with_names_is_no_lesson() -> None:
    scenario = scenario_at(
        Phase.CHAT, Router("hm", route("chores", "executor"), route(None, "project-manager"), WAITS)
    ).settle()
    assert scenario.records(r.RouterCorrected) == []


def test_lessons_are_bounded() -> None:
    answers = [answer for n in range(15) for answer in (route(None, f"wizard{n}"), route(None, "project-manager"))]
    scenario = scenario_at(Phase.CHAT, Router(*answers, WAITS), config=rules(limits=Limits(same_route=99))).settle()
    assert len(scenario.records(r.RouterCorrected)) == 15
    assert len(scenario.conversation.router_lessons) == 10
    assert "wizard14" in scenario.conversation.router_lessons[-1]


def silent() -> Scenario:
    """A scenario whose router has been asked and does not answer."""
    scenario = Scenario(Router(WAITS), plain_model)
    scenario.user_writes("build it")
    return scenario


def warnings(scenario: Scenario) -> list[str]:
    """The notices about a slow router."""
    return [text for text in scenario.sent_texts() if "has not answered" in text]


def test_the_user_learns_within_half_a_minute_that_the_router_has_not_answered() -> None:
    scenario = silent()
    (timer,) = [e for e in scenario.running.values() if isinstance(e, Timer)]
    assert timer.due <= scenario.now + 30_000
    scenario.fire("route-warn")
    assert warnings(scenario) == ["The orchestrator's model has not answered for 25 s. I keep trying; `/stop` ends it."]
    assert scenario.conversation.question is not None, "it is still asked"


def test_a_slow_router_is_reported_once_for_a_question_however_often_it_is_tried() -> None:
    scenario = silent()
    scenario.fire("route-warn")
    for _ in range(3):
        effect = next(e for e in scenario.running.values() if isinstance(e, Route))
        scenario.handle(ModelFailed(key=effect.key, message="timed out", retryable=True))
        scenario.fire("route")
    scenario.settle()
    assert not [e for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "route-warn"]
    assert len(warnings(scenario)) == 1


def test_a_refused_answer_does_not_begin_the_wait_again() -> None:
    scenario = silent()
    due = scenario.conversation.question.warn_at if scenario.conversation.question else 0
    effect = next(e for e in scenario.running.values() if isinstance(e, Route))
    scenario.now = Millis(scenario.now + 20_000)
    scenario.handle(RouteAnswered(key=effect.key, step=reply("hm")))
    assert scenario.conversation.question is not None
    assert scenario.conversation.question.warn_at == due > 0


def _slow(scenario: Scenario) -> list[int]:
    return [e.due for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "route-warn"]


def test_a_hold_until_the_next_day_counts_against_no_answer() -> None:
    scenario = silent()
    effect = next(e for e in scenario.running.values() if isinstance(e, Route))
    until_ = Millis(scenario.now + 3_600_000)
    scenario.handle(
        DayLimitReached(key=effect.key, limit="cost_per_day_usd", sentence="Enough for today.", until=until_)
    )
    assert _slow(scenario) == [], "the user knows why nothing happens"
    scenario.fire("route")
    assert _slow(scenario)[0] > scenario.now + 20_000


def test_who_continues_is_notified_again_of_a_router_that_does_not_answer() -> None:
    scenario = silent()
    scenario.fire("route-warn")
    effect = next(e for e in scenario.running.values() if isinstance(e, Route))
    scenario.handle(ModelFailed(key=effect.key, message="wait", retryable=True, retry_after=600_000))
    assert _slow(scenario) == []
    scenario.user_writes("/continue")
    assert scenario.now + 20_000 < _slow(scenario)[0] <= scenario.now + 30_000
