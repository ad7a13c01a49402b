"""A bad orchestrator: whatever it answers, code holds the rules, nothing crashes, and the person gets an answer."""

import re
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.effects import Route, Timer
from tenex.core.ids import Millis
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.signals import DayLimitReached, ModelFailed, RouteAnswered
from tests.fakes.play import Play, rules, says

from .kit import ENDS, WAITS, Script, check_rest, go, plain, standing, until, work

DUMMY: Any = None


def refusals(play: Play) -> list[str]:
    """The sentences of all refusals, in order."""
    return [record.sentence for record in play.all(r.RouteRejected)]


def asked_once(play: Play, answer: Any) -> str:
    """Let the router give one bad answer and then wait; returns the sentence it was refused with."""
    before = len(play.all(r.RouteRejected))
    play.router = Script(answer, WAITS)
    play.settle()
    new = refusals(play)[before:]
    assert len(new) == 1, new
    return new[0]


# ---- names that are none ------------------------------------------------------------------------------------------


def test_an_unknown_agent_is_refused_with_the_roster() -> None:
    play = standing(Phase.CHAT)
    sentence = asked_once(play, go("execute", "executor", "wizard"))
    assert sentence.startswith("There is no agent 'wizard'.")
    assert all(slug in sentence for slug in play.rules.roster)
    assert play.conversation.phase is Phase.CHAT, "no part of a refused decision is carried out"


def test_an_unknown_phase_is_refused_with_the_phases() -> None:
    sentence = asked_once(standing(Phase.CHAT), go("deployment", "executor"))
    assert sentence.startswith("There is no phase 'deployment'.")
    assert all(phase in sentence for phase in Phase)


@pytest.mark.parametrize("field", ["agents", "phase", "waive"])
def test_an_endless_name_does_not_flood_the_router_or_the_person(field: str) -> None:
    endless = "nonsense " * 10_000
    answer: dict[str, Any] = {
        "agents": {"agents": [endless], "reason": "x"},
        "phase": go(endless, "executor"),
        "waive": go("execute", "executor", waive=[endless]),
    }[field]
    play = Play(Script(answer), plain)
    play.person("build it")
    play.settle()
    assert len(play.said()[-1]) < 1_000
    assert all(len(sentence) < 500 for sentence in refusals(play))
    assert all(len(record.answer) <= 2_000 for record in play.all(r.RouteRejected))


@pytest.mark.parametrize("written", ["Executor", "EXECUTOR", " executor ", "executor"])
def test_slugs_and_phases_are_read_in_any_case(written: str) -> None:
    play = Play(Script(go("EXECUTE", written), WAITS), plain)
    play.person("build it")
    play.settle()
    assert play.all(r.TurnOpened)[0].agents == ("executor",)
    assert play.phases() == [Phase.EXECUTE]
    assert refusals(play) == []


def test_a_slug_in_two_spellings_is_one_agent() -> None:
    play = Play(Script({"agents": ["ProjectManager", "project manager"], "reason": "x"}, WAITS), plain)
    play.person("hello")
    play.settle()
    assert play.all(r.TurnOpened)[0].agents == ("project-manager",)


# ---- ways that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in Phase for t in Phase if s is not t])
def test_only_transitions_of_the_table_are_made(source: Phase, target: Phase) -> None:
    play = standing(source)
    if source is Phase.BRAINSTORM:
        play.person("let us go on")  # else it may not be left at all
    who = "executor" if target is not Phase.REFLECTION else next(iter(play.conversation.participants))
    play.router = Script(go(target, who), WAITS)
    play.settle()
    moved = play.phases()[-1:] == [target] and play.all(r.TurnOpened)[-1].phase is target
    assert moved is PHASE_TRANSITIONS.permits(source, target)
    if not moved:
        assert refusals(play)[0].startswith(f"{source} cannot be followed by {target}; it may be followed by: ")
        assert play.conversation.phase is source


def test_naming_the_phase_one_stands_in_is_staying() -> None:
    play = standing(Phase.EXECUTE, Script(go("execute", "helper"), WAITS))
    play.settle()
    assert play.phases() == [Phase.EXECUTE]
    assert [record.to for record in play.all(r.HandedOff)] == [Phase.EXECUTE]
    assert refusals(play) == []


# ---- END and USER -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["END", "USER", "end", "User"])
@pytest.mark.parametrize("order", [0, 1])
def test_a_reserved_word_beside_agents_is_refused(word: str, order: int) -> None:
    agents = ["executor"]
    agents.insert(order, word)
    assert asked_once(standing(Phase.CHAT), go(None, *agents)).startswith(f"{word.upper()} must stand alone")


def test_both_reserved_words_are_refused() -> None:
    assert "must stand alone" in asked_once(standing(Phase.CHAT), go(None, "END", "USER"))


@pytest.mark.parametrize("word", ["END", "USER"])
def test_nothing_ends_or_waits_before_the_person_had_an_answer(word: str) -> None:
    play = Play(Script(go(None, word), go(None, "project-manager"), WAITS), plain)
    play.person("hello?")
    play.settle()
    assert len(refusals(play)) == 1
    assert "answer" in refusals(play)[0]
    assert play.conversation.turn_count == 1
    check_rest(play)


@pytest.mark.parametrize("word", ["END", "USER"])
def test_a_router_that_only_wants_to_be_left_alone_ends_in_the_fallback(word: str) -> None:
    play = Play(Script(go(None, word)), plain)
    play.person("hello?")
    play.settle()
    assert play.conversation.waiting_for == "fallback"
    check_rest(play)


@pytest.mark.parametrize(
    ("phase", "open_"),
    [
        (Phase.EXECUTE, ["verification", "chores", "reflection"]),
        (Phase.VERIFICATION, ["chores", "reflection"]),
        (Phase.CHORES, ["reflection"]),
    ],
)
def test_end_is_refused_while_a_gate_is_open(phase: Phase, open_: list[str]) -> None:
    sentence = asked_once(standing(phase), ENDS)
    assert sentence.startswith("END is refused")
    assert ", ".join(open_) in sentence
    assert "open: " + ", ".join(open_) + "." in sentence


def test_end_is_permitted_when_nothing_was_executed() -> None:
    play = standing(Phase.CHAT, Script(ENDS))
    play.settle()
    assert play.conversation.status == "ended"


def test_user_is_asked_again_uncounted_when_the_person_has_just_written() -> None:
    """The router could not know; five messages while it thinks use up no attempt."""
    play = standing(Phase.CHAT)
    thinking = iter(range(5))

    def slow(question: dict[str, Any]) -> Any:
        if next(thinking, None) is not None:
            play.person("one more thing")
            return WAITS
        return go(None, "project-manager") if len(question["turns"]) == 1 else WAITS

    play.router = slow
    play.settle()
    stale = [record for record in play.all(r.RouteRejected) if not record.counted]
    assert len(stale) == 5
    assert {record.attempt for record in play.all(r.RouteRequested)} == {1}
    assert play.conversation.status == "waiting"
    assert play.conversation.waiting_for == "user"


# ---- the fallback -------------------------------------------------------------------------------------------------

JARGON = re.compile(r"JSON|object|slug|roster|\bEND\b|\bUSER\b|`agents`|`phase`|gate")
"""Words of the protocol between program and model, which a person need not know."""
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
    play = standing(Phase.CHAT, Script(answer))
    before = play.conversation.phase
    play.settle()
    if answer.startswith("[{"):  # an object inside an array is found; the answer is a good one
        assert play.all(r.RouteRejected) == []
        return
    assert [record.attempt for record in play.all(r.RouteRequested)][-3:] == [1, 2, 3]
    assert len(refusals(play)) == 3
    assert play.conversation.phase is before
    assert (play.conversation.status, play.conversation.waiting_for) == ("waiting", "fallback")
    told = play.said()[-1]
    assert told.startswith(
        "I could not decide how to go on. The orchestrator's model gave 3 decisions that I cannot use;"
    )
    assert not JARGON.search(told)
    assert ("error", "routing") in play.all(r.MessageSent)[-1].tags
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person("try again")
    play.settle()
    assert play.conversation.turn_count == 2
    assert play.conversation.waiting_for == "user"


@pytest.mark.parametrize(
    ("phase", "answer", "told"),
    [
        (Phase.CHAT, "hm", "it did not answer in the form that is asked for."),
        (Phase.CHAT, go(None, "wizard"), "it chose an agent that does not exist, 'wizard'."),
        (Phase.CHAT, go("deploy", "executor"), "it chose a phase that does not exist, 'deploy'."),
        (Phase.CHAT, go("chores", "executor"), "it wanted to go from chat to chores, which is not possible."),
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
def test_the_person_is_told_in_plain_words_what_the_router_did(phase: Phase, answer: Any, told: str) -> None:
    play = standing(phase, Script(answer))
    play.settle()
    said = play.said()[-1]
    assert f"the last time {told}" in said
    assert not JARGON.search(said)


def test_each_refusal_is_shown_to_the_router_and_a_new_question_begins_afresh() -> None:
    router = Script("hm", go(None, "wizard"), go("chores", "executor"))
    play = standing(Phase.CHAT, router)
    play.settle()
    assert [len(question["rejections"]) for question in router.asked] == [0, 1, 2]
    assert router.asked[2]["rejections"] == refusals(play)[:2]
    play.person("try again")
    play.step()
    assert router.asked[-1]["rejections"] == []


def test_the_number_of_attempts_is_a_setting() -> None:
    play = standing(Phase.CHAT, Script("hm"), config=rules(limits=Limits(routing_attempts=5)))
    play.settle()
    assert len(refusals(play)) == 5


def test_a_router_whose_model_refuses_is_refused_and_falls_back() -> None:
    play = standing(Phase.CHAT, Script(ModelFailed(key=DUMMY, message="I cannot help with that", retryable=False)))
    play.settle()
    assert len(refusals(play)) == 3
    assert "I cannot help with that" in play.said()[-1]
    assert play.conversation.waiting_for == "fallback"


def test_a_corrected_name_is_kept_as_a_lesson_and_shown_in_later_questions() -> None:
    router = Script(go(None, "wizard"), go("deployment", "executor"), go(None, "project-manager"), WAITS)
    play = standing(Phase.CHAT, router)
    play.settle()
    lessons = [record.lesson for record in play.all(r.RouterCorrected)]
    assert len(lessons) == 2
    assert lessons[0].startswith("There is no agent 'wizard'.")
    assert lessons[1].startswith("There is no phase 'deployment'.")
    assert all(lesson.endswith("The answer that was accepted: project-manager.") for lesson in lessons)
    assert router.asked[-1]["lessons"] == lessons


def test_a_refusal_that_has_nothing_to_do_with_names_is_no_lesson() -> None:
    play = standing(Phase.CHAT, Script("hm", go("chores", "executor"), go(None, "project-manager"), WAITS))
    play.settle()
    assert play.all(r.RouterCorrected) == []


def test_lessons_are_bounded() -> None:
    answers = [answer for n in range(15) for answer in (go(None, f"wizard{n}"), go(None, "project-manager"))]
    play = standing(Phase.CHAT, Script(*answers, WAITS), config=rules(limits=Limits(same_route=99)))
    play.settle()
    assert len(play.all(r.RouterCorrected)) == 15
    assert len(play.conversation.router_lessons) == 10
    assert "wizard14" in play.conversation.router_lessons[-1]


# ---- the rest ----------------------------------------------------------------------------------------------------


def test_everything_a_router_costs_is_counted() -> None:
    play = standing(Phase.CHAT, Script("hm", go(None, "wizard"), WAITS))
    before = play.conversation.usage
    play.settle()
    spent = play.conversation.usage
    assert (spent.calls - before.calls, spent.input_tokens - before.input_tokens) == (3, 30)


def test_the_router_is_never_asked_while_a_turn_is_open() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor", "helper"), WAITS))
    until(play, lambda it: it.conversation.turn is not None)
    play.person("hurry up")
    assert [effect.key.work for effect in work(play)] == ["model", "model"]


# ---- a router that does not answer --------------------------------------------------------------------------------


def silent() -> Play:
    """A play whose router has been asked and does not answer."""
    play = Play(Script(WAITS), plain)
    play.person("build it")
    return play


def warnings(play: Play) -> list[str]:
    """What the person was told about a router that is slow."""
    return [text for text in play.said() if "has not answered" in text]


def test_the_person_hears_within_half_a_minute_that_the_router_has_not_answered() -> None:
    play = silent()
    (timer,) = [e for e in play.running.values() if isinstance(e, Timer)]
    assert timer.due <= play.now + 30_000
    play.fire("route-warn")
    assert warnings(play) == ["The orchestrator's model has not answered for 25 s. I keep trying; `/stop` ends it."]
    assert play.conversation.question is not None, "it is still asked"
    assert play.refold() == play.conversation


def test_a_slow_router_is_reported_once_for_a_question_however_often_it_is_tried() -> None:
    play = silent()
    play.fire("route-warn")
    for _ in range(3):
        route = next(effect for effect in play.running.values() if isinstance(effect, Route))
        play.hear(ModelFailed(key=route.key, message="timed out", retryable=True))
        play.fire("route")
    play.settle()
    assert not [e for e in play.running.values() if isinstance(e, Timer) and e.key.part == "route-warn"]
    assert len(warnings(play)) == 1


def test_a_refused_answer_does_not_begin_the_wait_again() -> None:
    play = silent()
    due = play.conversation.question.warn_at if play.conversation.question else 0
    route = next(effect for effect in play.running.values() if isinstance(effect, Route))
    play.now = Millis(play.now + 20_000)
    play.hear(RouteAnswered(key=route.key, step=says("hm")))
    assert play.conversation.question is not None
    assert play.conversation.question.warn_at == due > 0


def test_the_time_nobody_was_there_counts_against_no_answer() -> None:
    play = silent()
    play.now = Millis(play.now + 3_600_000)
    play.crash()
    (timer,) = [e for e in play.running.values() if isinstance(e, Timer)]
    assert timer.due > play.now + 20_000


def _slow(play: Play) -> list[int]:
    return [e.due for e in play.running.values() if isinstance(e, Timer) and e.key.part == "route-warn"]


def test_a_hold_until_the_next_day_counts_against_no_answer() -> None:
    play = silent()
    route = next(effect for effect in play.running.values() if isinstance(effect, Route))
    until_ = Millis(play.now + 3_600_000)
    play.hear(DayLimitReached(key=route.key, limit="cost_per_day_usd", sentence="Enough for today.", until=until_))
    assert _slow(play) == [], "the person knows why nothing happens"
    play.fire("route")
    assert _slow(play)[0] > play.now + 20_000


def test_who_continues_hears_again_of_a_router_that_does_not_answer() -> None:
    play = silent()
    play.fire("route-warn")
    route = next(effect for effect in play.running.values() if isinstance(effect, Route))
    play.hear(ModelFailed(key=route.key, message="wait", retryable=True, retry_after=600_000))
    assert _slow(play) == []
    play.person("/continue")
    assert play.now + 20_000 < _slow(play)[0] <= play.now + 30_000
    assert play.refold() == play.conversation


def test_a_stop_ends_a_router_that_does_not_answer() -> None:
    play = silent()
    play.fire("route-warn")
    play.person("/stop")
    assert play.said()[-1] == "Stopped: the orchestrator. Write to go on, or `/retry`."
    assert not [e for e in play.running.values() if isinstance(e, (Route, Timer))]
