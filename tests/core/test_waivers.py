"""Who may skip a quality gate, and what it takes: a command, or a clear yes to our question. Words alone never do."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import GateRules, Role
from tenex.core.effects import Work
from tenex.core.ids import PublicKey
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.routing import DECISION_SCHEMA
from tenex.workflows.phases.waivers import is_clear_yes
from tests.fakes.play import ALICE, Play, rules, says

from .kit import ENDS, WAITS, Script, check_rest, go, plain, standing

MEMBERS_MAY = rules(gates=GateRules(members_may_waive=True))
BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


def wishing(play: Play, *gates: str) -> None:
    """Let the router wish to skip these gates, and then wait."""
    play.router = Script({**go("chores", "executor"), "waive": list(gates)}, WAITS)
    play.settle()


# ---- words never waive --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "skip verification, I am in a hurry",
        "Write a parser that can skip blank lines",
        "A calendar; leave out the weekends",
        "users don't need to log in",
        "If you skip the header, say so",
        "I forbid you to skip the tests",
        "I don´t want you to skip it",
        "'skip\nit'",
        "überspringe die Tests",
    ],
)
def test_whatever_a_person_writes_a_wish_of_the_router_is_a_question(text: str) -> None:
    play = standing(Phase.EXECUTE, text=text)
    wishing(play, "verification", "chores")
    assert play.all(r.Waived) == []
    assert play.conversation.phase is Phase.EXECUTE
    assert play.conversation.waiting_for == "waiver"
    (asked,) = play.all(r.WaiverRequested)
    assert (asked.phases, asked.of) == ((Phase.VERIFICATION, Phase.CHORES), ALICE)
    question = play.all(r.MessageSent)[-1]
    assert question.purpose == "question"
    assert question.text == (
        "May I skip verification and chores in this cycle? Then no one will have tried whether it works; documentation "
        "and leftovers stay as they are. Answer “yes” to skip them; any other answer keeps them."
    )
    check_rest(play)


def test_a_yes_skips_all_that_was_asked_and_the_router_is_asked_again() -> None:
    play = standing(Phase.EXECUTE)
    wishing(play, *QUALITY_PHASES)
    play.router = Script(ENDS)
    play.person("yes")
    (waiver,) = play.all(r.Waived)
    assert (waiver.phases, waiver.name, waiver.quote) == (QUALITY_PHASES, "alice", "yes")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert any("no one will have tried whether it works" in text for text in play.said())


@pytest.mark.parametrize("phase", ["execute", "chat", "plan", "everything", "\0"])
def test_only_quality_gates_can_be_waived(phase: str) -> None:
    play = standing(Phase.EXECUTE)
    wishing(play, "verification", phase)
    assert play.all(r.Waived) == play.all(r.WaiverRequested) == [], "nobody is asked to skip what is no gate"
    assert "is no quality gate" in play.all(r.RouteRejected)[0].sentence


def test_what_is_waived_or_met_is_not_asked_for() -> None:
    play = standing(Phase.VERIFICATION)
    play.person("/skip chores")
    wishing(play, "chores", "verification")
    assert play.all(r.WaiverRequested) == play.all(r.RouteRejected) == []
    assert play.conversation.phase is Phase.CHORES


# ---- the question -------------------------------------------------------------------------------------------------


def asked(phase: Phase = Phase.EXECUTE, gate: str = "verification") -> Play:
    """A play in which the person is being asked whether a gate may be skipped."""
    play = standing(phase)
    wishing(play, gate)
    assert play.conversation.waiting_for == "waiver"
    play.router = Script(WAITS)
    return play


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "Yes!",
        "YES",
        "y",
        "ok",
        "Okay.",
        "sure",
        "yes, please",
        "Yes, thank you",
        "“yes”",
        "`yes`",
        "ja",
        "Ja, bitte",
        "jawohl",
        "sí",
        "¡Sí!",
        "si",
        "Sí, por favor",
        "oui",
        "Oui, merci",
        "sim",
        "sì",
        "はい",
        "はい、お願いします",
        "是",
        "是的，谢谢",
        "да",
        "Да, спасибо",
        "네",
        "tak",
        "evet",
        "👍",
        "👍🏽",
        " \n yes \n",
    ],
)
def test_a_clear_yes_waives(word: str) -> None:
    play = asked()
    play.person(word)
    waiver = play.all(r.Waived)[0]
    assert waiver.phases == (Phase.VERIFICATION,)
    assert waiver.quote == word.strip()
    assert waiver.message_id == play.all(r.MessageRecorded)[-1].event_id


OTHER_ANSWERS = [
    "no",
    "nein",
    "ok wait",
    "OK, stop",
    "Yes, run it please",
    "ok, what would be skipped?",
    "yes?",
    "yes？",
    "yes؟",
    "what would that mean?",
    "make it blue first",
    "ok, but don't skip it",
    "yes, no, I mean: do not",
    "yes 👎",
    "yes no",
    "yes/no",
    "yes please do it",
    "yes yes yes yes",
    "please",
    "thanks",
    "yesterday it worked",
    "okra",
    "janein",
    "sick",
    "yes\nbut run them",
    "> May I skip it?\nyes",
    "ok ❌",
    "\ud800",
]


@pytest.mark.parametrize("text", OTHER_ANSWERS)
def test_anything_but_a_clear_yes_keeps_the_gates_and_is_read_like_any_message(text: str) -> None:
    play = asked()
    play.person(text)
    assert play.all(r.Waived) == []
    assert play.all(r.WaiverDeclined)[0].name == "alice"
    assert [effect.key.work for effect in play.running.values()].count(Work.ROUTE) == 1, "the router goes on"
    play.person("yes")
    assert play.all(r.Waived) == [], "the question is closed"


@given(st.text())
def test_a_text_with_any_other_word_is_no_clear_yes(text: str) -> None:
    assert not is_clear_yes(f"yes {text} x")
    assert not is_clear_yes(f"{text} yes?")


@pytest.mark.parametrize("command", ["/continue", "/stop"])
def test_a_command_that_moves_on_closes_the_question(command: str) -> None:
    play = asked()
    play.person(command)
    play.person("yes")
    assert play.all(r.Waived) == []


def test_a_yes_to_something_else_much_later_waives_nothing() -> None:
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
    assert play.all(r.QuestionAnswered)[0].text == "yes"
    assert play.all(r.Waived) == []


def test_the_question_survives_a_restart() -> None:
    play = asked()
    play.crash()
    play.person("yes")
    assert len(play.all(r.Waived)) == 1
    assert play.refold() == play.conversation


# ---- who may say yes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
def test_a_yes_of_somebody_else_is_not_the_owners(role: Role) -> None:
    for config in (rules(), MEMBERS_MAY):
        play = standing(Phase.EXECUTE, config=config)
        wishing(play, "verification")
        play.person("yes", role=role, author=BOB)
        assert play.all(r.Waived) == []


def test_a_member_who_was_asked_may_say_yes_and_so_may_an_owner_but_no_other_member() -> None:
    for author, role, may in ((BOB, Role.MEMBER, True), (ALICE, Role.OWNER, True), (CAROL, Role.MEMBER, False)):
        play = standing(Phase.EXECUTE, config=MEMBERS_MAY)
        play.person("skip the tests", role=Role.MEMBER, author=BOB)
        wishing(play, "verification")
        assert play.all(r.WaiverRequested)[0].of == BOB
        play.person("yes", role=role, author=author)
        assert bool(play.all(r.Waived)) is may


def test_where_the_writer_may_not_waive_an_owner_is_asked() -> None:
    play = standing(Phase.EXECUTE)
    play.person("skip the tests", role=Role.MEMBER, author=BOB)
    wishing(play, "verification")
    assert play.all(r.WaiverRequested)[0].of == ""
    assert "Only an owner can allow it." in play.said()[-1]
    play.person("yes", role=Role.OWNER)
    assert len(play.all(r.Waived)) == 1


# ---- once ---------------------------------------------------------------------------------------------------------


def test_the_router_may_not_ask_again_for_the_same_gates_before_a_person_has_written() -> None:
    play = asked()
    play.router = Script({**go("chores", "executor"), "waive": ["verification"]})
    play.person("no")
    play.settle()
    assert len(play.all(r.WaiverRequested)) == 1
    assert "did not say yes" in play.all(r.RouteRejected)[-1].sentence
    assert play.conversation.waiting_for == "fallback"
    play.person("on second thought, skip it after all")
    play.settle()
    assert len(play.all(r.WaiverRequested)) == 2


def test_continue_does_not_put_the_same_question_again() -> None:
    play = asked()
    play.router = Script({**go("chores", "executor"), "waive": ["verification"]}, WAITS)
    play.person("/continue")
    play.settle()
    assert len(play.all(r.WaiverRequested)) == 1


def test_a_bare_yes_is_no_new_request_when_the_cycle_ends() -> None:
    play = asked(Phase.CHORES, "reflection")
    play.router = Script(ENDS)
    play.person("yes, please")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.conversation.cycle == 1
    assert play.phases()[-1] is Phase.REFLECTION


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
    play = standing(Phase.EXECUTE, config=MEMBERS_MAY)
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


@pytest.mark.parametrize("command", ["/quick", "/skip chores"])
def test_after_the_end_the_person_is_told_when_to_skip(command: str) -> None:
    play = standing(Phase.EXECUTE, Script(ENDS))
    play.person("/quick")
    play.settle()
    play.person(command)
    assert len(play.all(r.Waived)) == 1
    assert play.said()[-1] == (
        f"This cycle has ended: there is nothing to skip. Write a request, then send `{command}` again."
    )


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
