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
from tenex.workflows.phases.waivers import is_clear_yes
from tests.fakes.scenario import (
    ALICE,
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

MEMBERS_MAY = rules(gates=GateRules(members_may_waive=True))
BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


def wishing(scenario: Scenario, *gates: str) -> None:
    """Let the router wish to skip these gates, and then wait."""
    scenario.router = Router({**route("chores", "executor"), "waive": list(gates)}, WAITS)
    scenario.settle()


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
def test_whatever_a_user_writes_a_wish_of_the_router_is_a_question(text: str) -> None:
    scenario = scenario_at(Phase.EXECUTE, text=text)
    wishing(scenario, "verification", "chores")
    assert scenario.records(r.Waived) == []
    assert scenario.conversation.phase is Phase.EXECUTE
    assert scenario.conversation.waiting_for == "waiver"
    (asked,) = scenario.records(r.WaiverRequested)
    assert (asked.phases, asked.of) == ((Phase.VERIFICATION, Phase.CHORES), ALICE)
    question = scenario.records(r.MessageSent)[-1]
    assert question.purpose == "question"
    assert question.text == (
        "May I skip verification and chores in this cycle? Then no one will have tried whether it works; documentation "
        "and leftovers stay as they are. Answer “yes” to skip them; any other answer keeps them."
    )
    check_idle(scenario)


def test_a_yes_skips_all_that_was_asked_and_the_router_is_asked_again() -> None:
    scenario = scenario_at(Phase.EXECUTE)
    wishing(scenario, *QUALITY_PHASES)
    scenario.router = Router(ENDS)
    scenario.user_writes("yes")
    (waiver,) = scenario.records(r.Waived)
    assert (waiver.phases, waiver.name, waiver.quote) == (QUALITY_PHASES, "alice", "yes")
    scenario.settle()
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert any("no one will have tried whether it works" in text for text in scenario.sent_texts())


@pytest.mark.parametrize("phase", ["execute", "chat", "plan", "everything", "\0"])
def test_only_quality_gates_can_be_waived(phase: str) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    wishing(scenario, "verification", phase)
    assert scenario.records(r.Waived) == scenario.records(r.WaiverRequested) == [], (
        "no one is asked to skip what is no gate"
    )
    assert "is no quality gate" in scenario.records(r.RouteRejected)[0].sentence


def test_what_is_waived_or_met_is_not_asked_for() -> None:
    scenario = scenario_at(Phase.VERIFICATION)
    scenario.user_writes("/skip chores")
    wishing(scenario, "chores", "verification")
    assert scenario.records(r.WaiverRequested) == scenario.records(r.RouteRejected) == []
    assert scenario.conversation.phase is Phase.CHORES


# ---- the question -------------------------------------------------------------------------------------------------


def asked(phase: Phase = Phase.EXECUTE, gate: str = "verification") -> Scenario:
    """A scenario in which the user is being asked whether a gate may be skipped."""
    scenario = scenario_at(phase)
    wishing(scenario, gate)
    assert scenario.conversation.waiting_for == "waiver"
    scenario.router = Router(WAITS)
    return scenario


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
    scenario = asked()
    scenario.user_writes(word)
    waiver = scenario.records(r.Waived)[0]
    assert waiver.phases == (Phase.VERIFICATION,)
    assert waiver.quote == word.strip()
    assert waiver.message_id == scenario.records(r.MessageRecorded)[-1].event_id


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
    scenario = asked()
    scenario.user_writes(text)
    assert scenario.records(r.Waived) == []
    assert scenario.records(r.WaiverDeclined)[0].name == "alice"
    assert [effect.key.work for effect in scenario.running.values()].count(Work.ROUTE) == 1, "the router goes on"
    scenario.user_writes("yes")
    assert scenario.records(r.Waived) == [], "the question is closed"


@given(st.text())
def test_a_text_with_any_other_word_is_no_clear_yes(text: str) -> None:
    assert not is_clear_yes(f"yes {text} x")
    assert not is_clear_yes(f"{text} yes?")


@pytest.mark.parametrize("command", ["/continue", "/stop"])
def test_a_command_that_moves_on_closes_the_question(command: str) -> None:
    scenario = asked()
    scenario.user_writes(command)
    scenario.user_writes("yes")
    assert scenario.records(r.Waived) == []


def test_a_yes_to_an_agents_question_waives_nothing() -> None:
    scenario = asked()
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.worker = lambda conversation, call: (
        reply("", ("ask", {"question": "May I use tabs?"})) if not conversation.runs[call.run].steps else reply("done")
    )
    scenario.converse("first make it blue")
    scenario.converse("yes")
    assert scenario.records(r.QuestionAnswered)[0].text == "yes"
    assert scenario.records(r.Waived) == []


def test_the_question_survives_a_restart() -> None:
    scenario = asked()
    scenario.crash()
    scenario.user_writes("yes")
    assert len(scenario.records(r.Waived)) == 1


# ---- who may agree ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
def test_a_yes_of_somebody_else_is_not_the_owners(role: Role) -> None:
    for config in (rules(), MEMBERS_MAY):
        scenario = scenario_at(Phase.EXECUTE, config=config)
        wishing(scenario, "verification")
        scenario.user_writes("yes", role=role, author=BOB)
        assert scenario.records(r.Waived) == []


def test_a_member_who_was_asked_may_agree_and_so_may_an_owner_but_no_other_member() -> None:
    for author, role, may in ((BOB, Role.MEMBER, True), (ALICE, Role.OWNER, True), (CAROL, Role.MEMBER, False)):
        scenario = scenario_at(Phase.EXECUTE, config=MEMBERS_MAY)
        scenario.user_writes("skip the tests", role=Role.MEMBER, author=BOB)
        wishing(scenario, "verification")
        assert scenario.records(r.WaiverRequested)[0].of == BOB
        scenario.user_writes("yes", role=role, author=author)
        assert bool(scenario.records(r.Waived)) is may


def test_where_the_writer_may_not_waive_an_owner_is_asked() -> None:
    scenario = scenario_at(Phase.EXECUTE)
    scenario.user_writes("skip the tests", role=Role.MEMBER, author=BOB)
    wishing(scenario, "verification")
    assert scenario.records(r.WaiverRequested)[0].of == ""
    assert "Only an owner can allow it." in scenario.sent_texts()[-1]
    scenario.user_writes("yes", role=Role.OWNER)
    assert len(scenario.records(r.Waived)) == 1


# ---- once ---------------------------------------------------------------------------------------------------------


def test_the_router_may_not_ask_again_for_the_same_gates_before_a_user_has_written() -> None:
    scenario = asked()
    scenario.router = Router({**route("chores", "executor"), "waive": ["verification"]})
    scenario.converse("no")
    assert len(scenario.records(r.WaiverRequested)) == 1
    assert "did not say yes" in scenario.records(r.RouteRejected)[-1].sentence
    assert scenario.conversation.waiting_for == "fallback"
    scenario.converse("on second thought, skip it after all")
    assert len(scenario.records(r.WaiverRequested)) == 2


def test_continue_does_not_put_the_same_question_again() -> None:
    scenario = asked()
    scenario.router = Router({**route("chores", "executor"), "waive": ["verification"]}, WAITS)
    scenario.converse("/continue")
    assert len(scenario.records(r.WaiverRequested)) == 1


def test_a_bare_yes_is_no_new_request_when_the_cycle_ends() -> None:
    scenario = asked(Phase.CHORES, "reflection")
    scenario.router = Router(ENDS)
    scenario.converse("yes, please")
    assert scenario.conversation.status == "ended"
    assert scenario.conversation.cycle == 1
    assert scenario.phases()[-1] is Phase.REFLECTION


# ---- commands -----------------------------------------------------------------------------------------------------


def test_quick_waives_all_and_the_waived_phases_are_in_the_history_before_end() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS))
    scenario.converse("/quick")
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert {record.reason for record in scenario.records(r.PhaseTransition)[1:]} == {"waived by alice"}
    reported = next(text for text in scenario.sent_texts() if text.startswith("As you wish"))
    assert all(f"{gate}: " in reported.lower() for gate in QUALITY_PHASES)


@pytest.mark.parametrize("skipped", [s for n in (1, 2, 3) for s in product(QUALITY_PHASES, repeat=n) if len({*s}) == n])
def test_what_is_waived_is_passed_through_and_the_rest_stays_to_do(skipped: tuple[Phase, ...]) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    for gate in skipped:
        scenario.user_writes(f"/skip {gate}")
    left = [gate for gate in QUALITY_PHASES if gate not in skipped]
    answers = [route(gate, *(["executor"])) for gate in left]
    scenario.router = Router(*answers, ENDS)
    scenario.settle()
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES], "the table holds, whatever is waived"
    assert [rec.phase for rec in scenario.records(r.TurnOpened)[2:]] == left
    assert scenario.records(r.RouteRejected) == []


@pytest.mark.parametrize("gate", QUALITY_PHASES)
def test_one_waiver_opens_no_other_gate(gate: Phase) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    scenario.user_writes(f"/skip {gate}")
    scenario.router = Router(ENDS, WAITS)
    scenario.settle()
    left = ", ".join(other for other in QUALITY_PHASES if other is not gate)
    assert f"these gates are open: {left}." in scenario.records(r.RouteRejected)[0].sentence


@pytest.mark.parametrize("text", ["/skip", "/skip execute", "/skip everything", "/skip verification chores"])
def test_skip_states_what_it_takes(text: str) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    scenario.user_writes(text)
    assert scenario.records(r.Waived) == []
    assert scenario.sent_texts()[-1] == "/skip takes one of: verification, chores, reflection."


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
@pytest.mark.parametrize("text", ["/quick", "/skip verification"])
def test_members_and_guests_may_not_skip(role: Role, text: str) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    scenario.user_writes(text, role=role)
    assert scenario.records(r.Waived) == []
    assert scenario.sent_texts()[-1] == "Only an owner may skip a quality gate."


def test_members_may_skip_where_the_operator_permits_it() -> None:
    scenario = scenario_at(Phase.EXECUTE, config=MEMBERS_MAY)
    scenario.user_writes("/quick", role=Role.MEMBER)
    assert len(scenario.records(r.Waived)) == 1
    scenario.user_writes("/quick", role=Role.GUEST)
    assert len(scenario.records(r.Waived)) == 1


def test_a_waiver_ends_with_its_cycle() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS))
    scenario.converse("/quick")
    scenario.router = Router(route("execute", "executor"), ENDS, WAITS)
    scenario.converse("again")
    assert scenario.records(r.RouteRejected)[-1].sentence.startswith("END is refused")


@pytest.mark.parametrize("command", ["/quick", "/skip chores"])
def test_after_the_end_the_user_is_notified_when_to_skip(command: str) -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS))
    scenario.converse("/quick")
    scenario.user_writes(command)
    assert len(scenario.records(r.Waived)) == 1
    assert scenario.sent_texts()[-1] == (
        f"This cycle has ended: there is nothing to skip. Write a request, then send `{command}` again."
    )


def test_a_waiver_given_before_anything_was_built_holds_for_the_cycle() -> None:
    scenario = Scenario(Router(route("execute", "executor"), ENDS), plain_model)
    scenario.user_writes("/quick")
    scenario.converse("build it")
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]


def test_a_new_execute_turn_does_not_take_a_waiver_back() -> None:
    scenario = scenario_at(Phase.VERIFICATION, Router(route("execute", "executor"), ENDS))
    scenario.converse("/quick")
    assert scenario.conversation.status == "ended"
    assert all(PHASE_TRANSITIONS.permits(t.from_, t.to) for t in scenario.records(r.PhaseTransition))
