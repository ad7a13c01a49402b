"""Who may skip a quality gate, and what it takes: a command, words of their own, or a yes to our question."""

from itertools import product
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import Work
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.roster import GateRules, Role
from tenex.core.routing import DECISION_SCHEMA
from tests.core.kit import ENDS, WAITS, Script, check_rest, go, plain, standing
from tests.fakes.play import Play, rules, says

# ---- a router that waives -----------------------------------------------------------------------------------------


def waiving(play: Play, phase: str, quote: str, message_id: str | None = None, **more: Any) -> None:
    """Let the router skip a phase with that quote, and then wait."""
    waive = {"phase": phase, "quote": quote, "message_id": message_id or play.all(r.PersonWrote)[-1].event_id}
    play.router = Script({**go("chores", "executor"), "waive": waive, **more}, WAITS)
    play.settle()


def test_a_proven_waiver_is_recorded_told_and_the_phase_is_passed_through() -> None:
    play = standing(Phase.EXECUTE, text="build it, and skip verification please")
    waiving(play, "verification", "skip verification")
    waiver = play.all(r.Waived)[0]
    assert (waiver.phases, waiver.name, waiver.quote) == ((Phase.VERIFICATION,), "alice", "skip verification")
    assert play.phases() == [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES]
    passed = play.all(r.PhaseTransition)[1]
    assert passed.reason == "waived by alice"
    assert [record.phase for record in play.all(r.TurnOpened)] == [Phase.CHAT, Phase.EXECUTE, Phase.CHORES]
    assert any("nobody will have tried whether it works" in text for text in play.said())
    assert play.all(r.WaiverAsked) == []


BAD_WAIVERS: dict[str, dict[str, Any]] = {
    "a quote the person never gave": {"quote": "skip everything"},
    "a quote without a phrase": {"quote": "build it"},
    "a message that does not exist": {"quote": "skip the demo", "message_id": "f" * 64},
    "an empty message id": {"quote": "skip the demo", "message_id": "x"},
    "other letters": {"quote": "Skip The Demo"},
    "a quote of quoted text": {"quote": "skip the rest"},
}


@pytest.mark.parametrize("bad", BAD_WAIVERS.values(), ids=BAD_WAIVERS)
def test_an_unproven_waiver_asks_the_person_and_waits(bad: dict[str, Any]) -> None:
    play = standing(Phase.EXECUTE, text='build it; he said "skip the rest"')
    waiving(play, "verification", bad["quote"], bad.get("message_id"))
    assert play.all(r.Waived) == []
    assert play.conversation.phase is Phase.EXECUTE
    assert play.conversation.waiting_for == "waiver"
    assert play.all(r.WaiverAsked)[0].phases == (Phase.VERIFICATION,)
    assert play.said()[-1].startswith("May I skip verification?")
    assert play.all(r.Said)[-1].purpose == "question"
    check_rest(play)


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
def test_words_of_a_member_or_a_guest_waive_nothing(role: Role) -> None:
    play = standing(Phase.EXECUTE)
    play.person("skip verification", role=role)
    waiving(play, "verification", "skip verification")
    assert play.all(r.Waived) == []
    assert play.conversation.waiting_for == "waiver"


def test_a_waiver_of_a_former_cycle_is_none() -> None:
    play = standing(Phase.CHAT, Script(ENDS), text="this time skip verification")
    old = play.all(r.PersonWrote)[-1].event_id
    play.settle()
    play.router = Script(go("execute", "executor"), WAITS)
    play.person("build another")
    play.settle()
    play.person("go on")
    waiving(play, "verification", "skip verification", old)
    assert play.all(r.Waived) == []
    assert play.conversation.waiting_for == "waiver"


def test_a_quote_of_what_an_agent_said_is_no_waiver() -> None:
    """An agent cannot waive: its words carry no message id a router could name."""
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), lambda *_: says("skip the tests, I say"))
    play.settle()
    play.person("hm")
    waiving(play, "verification", "skip the tests", "")
    waiving(play, "verification", "skip the tests", play.all(r.Said)[-1].events[0].id)
    assert play.all(r.Waived) == []


@pytest.mark.parametrize("phase", ["execute", "chat", "plan", "everything", "\0"])
def test_only_quality_gates_can_be_waived(phase: str) -> None:
    play = standing(Phase.EXECUTE, text="skip everything")
    waiving(play, phase, "skip everything")
    assert play.all(r.Waived) == []
    assert play.all(r.WaiverAsked) == [], "nobody is asked to skip what is no gate"
    assert "is no quality gate" in play.all(r.RouteRejected)[0].sentence


def test_a_waiver_that_stands_needs_no_second_proof() -> None:
    play = standing(Phase.EXECUTE)
    play.person("/skip verification")
    waiving(play, "verification", "the person said so, believe me", "f" * 64)
    assert play.conversation.phase is Phase.CHORES
    assert play.all(r.WaiverAsked) == []
    assert len(play.all(r.Waived)) == 1


# ---- the question, yes or no --------------------------------------------------------------------------------------


def asked(phase: Phase = Phase.EXECUTE, gate: str = "verification") -> Play:
    """A play in which the person is being asked whether a gate may be skipped."""
    play = standing(phase)
    waiving(play, gate, "they surely want it")
    assert play.conversation.waiting_for == "waiver"
    play.router = Script(WAITS)
    return play


@pytest.mark.parametrize(
    "word",
    ["yes", "Yes!", "YES", "y", "ok", "Okay.", "sure", "yes, please", "yes please go ahead", "ja", "Ja, bitte",
     "jawohl",
     "sí", "¡Sí!", "si", "oui", "Oui, merci", "sim", "sì", "はい", "はい、お願いします", "是", "是的，谢谢", "好", "да",
     "Да, конечно", "네", "tak", "evet", "+", "👍", "👍🏽", "✅", " \n yes \n"],
)  # fmt: skip
def test_a_yes_in_many_languages_waives(word: str) -> None:
    play = asked()
    play.person(word)
    waiver = play.all(r.Waived)[0]
    assert waiver.phases == (Phase.VERIFICATION,)
    assert waiver.quote == word.strip()
    assert waiver.message_id == play.all(r.PersonWrote)[-1].event_id


@pytest.mark.parametrize(
    "word", ["no", "No.", "NO!", "n", "nope", "nein", "Nein, danke", "non", "não", "nee", "нет", "いいえ", "不", "不要",
             "아니요", "nie", "-", "👎", "no way"],
)  # fmt: skip
def test_a_no_in_many_languages_does_not(word: str) -> None:
    play = asked()
    play.person(word)
    assert play.all(r.Waived) == []
    assert play.all(r.WaiverDeclined)[0].name == "alice"
    assert [effect.key.work for effect in play.running.values()].count(Work.ROUTE) == 1, "the router goes on"


@pytest.mark.parametrize(
    "text",
    ["what would that mean?", "make it blue first", "ok, but don't skip it", "yes, no, I mean: do not",
     "yesterday it worked",
     "okra", "janein", "sick", "", "\ud800", "/unknown yes"],
)  # fmt: skip
def test_anything_else_is_talk_and_waives_nothing(text: str) -> None:
    play = asked()
    play.person(text)
    assert play.all(r.Waived) == []
    assert play.conversation.question is not None


def test_a_yes_to_something_else_much_later_waives_nothing() -> None:
    """The question lapses as soon as work goes on."""
    play = asked()
    play.router = Script(go(None, "executor"), WAITS)
    play.person("first make it blue")
    play.settle()
    play.person("yes")
    assert play.all(r.Waived) == []


def test_a_yes_to_an_agents_question_waives_nothing() -> None:
    play = asked()
    play.router = Script(go(None, "executor"), WAITS)
    play.worker = lambda conversation, call: (
        says("", ("ask", {"question": "May I use tabs?"})) if not conversation.runs[call.run].steps else says("done")
    )
    play.person("first make it blue")
    play.settle()
    play.person("yes")
    play.settle()
    assert play.all(r.AskAnswered)[0].text == "yes"
    assert play.all(r.Waived) == []


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
@pytest.mark.parametrize("word", ["yes", "no"])
def test_only_those_who_may_waive_answer_the_question(role: Role, word: str) -> None:
    play = asked()
    play.person(word, role=role)
    assert play.all(r.Waived) == play.all(r.WaiverDeclined) == []


def test_a_router_that_was_told_no_is_refused_and_the_person_is_not_nagged() -> None:
    play = asked()
    waive = {"phase": "verification", "quote": "they surely want it", "message_id": "1"}
    play.router = Script({**go("chores", "executor"), "waive": waive})
    play.person("no")
    play.settle()
    assert len(play.all(r.WaiverAsked)) == 1
    assert "said no" in play.all(r.RouteRejected)[-1].sentence
    assert play.conversation.waiting_for == "fallback"


def test_a_bare_yes_is_no_new_request_when_the_cycle_ends() -> None:
    play = asked(Phase.CHORES, "reflection")
    play.router = Script(ENDS)
    play.person("yes, please")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.conversation.cycle == 1
    assert play.phases()[-1] is Phase.REFLECTION


def test_a_yes_with_a_request_in_it_is_not_lost_when_the_cycle_ends() -> None:
    play = asked(Phase.CHORES, "reflection")
    play.router = Script(ENDS, go(None, "project-manager"), WAITS)
    play.person("yes, and then build me a second page with a form")
    play.settle()
    assert play.conversation.cycle == 2
    assert "second page" in play.conversation.messages[0].text


# ---- commands -----------------------------------------------------------------------------------------------------


def test_quick_waives_all_and_the_waived_phases_stand_in_the_history_before_end() -> None:
    play = standing(Phase.EXECUTE, Script(ENDS))
    play.person("/quick")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert {record.reason for record in play.all(r.PhaseTransition)[1:]} == {"waived by alice"}
    told = next(text for text in play.said() if text.startswith("As you wish"))
    assert all(f"{gate}: " in told.lower() for gate in QUALITY_PHASES)


@pytest.mark.parametrize("skipped", [s for n in (1, 2, 3) for s in product(QUALITY_PHASES, repeat=n) if len({*s}) == n])
def test_what_is_waived_is_passed_through_and_the_rest_stays_to_do(skipped: tuple[Phase, ...]) -> None:
    play = standing(Phase.EXECUTE)
    for gate in skipped:
        play.person(f"/skip {gate}")
    left = [gate for gate in QUALITY_PHASES if gate not in skipped]
    answers = [go(gate, *(["executor"])) for gate in left]
    play.router = Script(*answers, ENDS)
    play.settle()
    assert play.conversation.status == "ended"
    assert play.phases() == [Phase.EXECUTE, *QUALITY_PHASES], "the table holds, whatever is waived"
    assert [rec.phase for rec in play.all(r.TurnOpened)[2:]] == left
    assert play.all(r.RouteRejected) == []


@pytest.mark.parametrize("gate", QUALITY_PHASES)
def test_one_waiver_opens_no_other_gate(gate: Phase) -> None:
    play = standing(Phase.EXECUTE)
    play.person(f"/skip {gate}")
    play.router = Script(ENDS, WAITS)
    play.settle()
    left = ", ".join(other for other in QUALITY_PHASES if other is not gate)
    assert f"these gates are open: {left}." in play.all(r.RouteRejected)[0].sentence


@pytest.mark.parametrize("text", ["/skip", "/skip execute", "/skip everything", "/skip verification chores"])
def test_skip_says_what_it_takes(text: str) -> None:
    play = standing(Phase.EXECUTE)
    play.person(text)
    assert play.all(r.Waived) == []
    assert play.said()[-1] == "/skip takes one of: verification, chores, reflection."


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
@pytest.mark.parametrize("text", ["/quick", "/skip verification"])
def test_members_and_guests_may_not_skip(role: Role, text: str) -> None:
    play = standing(Phase.EXECUTE)
    play.person(text, role=role)
    assert play.all(r.Waived) == []
    assert play.said()[-1] == "Only an owner may skip a quality gate."


def test_members_may_skip_where_the_operator_says_so() -> None:
    config = rules(gates=GateRules(waiver_phrases=("skip",), members_may_waive=True))
    play = standing(Phase.EXECUTE, config=config)
    play.person("/quick", role=Role.MEMBER)
    assert len(play.all(r.Waived)) == 1
    play.person("/quick", role=Role.GUEST)
    assert len(play.all(r.Waived)) == 1


def test_a_waiver_ends_with_its_cycle() -> None:
    play = standing(Phase.EXECUTE, Script(ENDS))
    play.person("/quick")
    play.settle()
    play.router = Script(go("execute", "executor"), ENDS, WAITS)
    play.person("again")
    play.settle()
    assert play.all(r.RouteRejected)[-1].sentence.startswith("END is refused")


def test_a_waiver_given_before_anything_was_built_holds_for_the_cycle() -> None:
    play = Play(Script(go("execute", "executor"), ENDS), plain)
    play.person("/quick")
    play.person("build it")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.phases() == [Phase.EXECUTE, *QUALITY_PHASES]


def test_a_new_execute_turn_does_not_take_a_waiver_back() -> None:
    play = standing(Phase.VERIFICATION, Script(go("execute", "executor"), ENDS))
    play.person("/quick")
    play.settle()
    assert play.conversation.status == "ended"
    assert all(PHASE_TRANSITIONS.permits(t.from_, t.to) for t in play.all(r.PhaseTransition))


def test_agents_have_no_way_to_waive() -> None:
    assert not any("waive" in name or "skip" in name for name in rules().tools)
    assert "waive" in DECISION_SCHEMA["properties"]
