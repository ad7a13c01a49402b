"""Who may skip a quality gate, and what it takes: a command, or a clear yes to our question. Words alone never do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import GateRules, Policy, Role
from tenex.core.effects import Work
from tenex.core.ids import PublicKey
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.workflows.phases.waivers import is_clear_yes
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    refusals,
    route,
    rules,
    scenario_at,
)

MEMBERS_MAY = rules(gates=GateRules(members_may_waive=True))
BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


def wishing(scenario: Scenario, *gates: str) -> Scenario:
    """Let the router wish to skip these gates, and then wait."""
    scenario.router = Router({**route("chores", "executor"), "waive": list(gates)}, WAITS)
    scenario.settle()
    scenario.router = Router(WAITS)
    return scenario


def asked(phase: Phase = Phase.EXECUTE, gate: str = "verification", config: Policy | None = None) -> Scenario:
    """A scenario in which the user is being asked whether a gate may be skipped."""
    scenario = wishing(scenario_at(phase, config=config), gate)
    assert scenario.conversation.waiting_for == "waiver"
    return scenario


@pytest.mark.parametrize("text", ["skip verification, I am in a hurry", "überspringe die Tests"])
def test_whatever_a_user_writes_a_wish_of_the_router_is_a_question(text: str) -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE, text=text), "verification", "chores")
    assert scenario.records(r.Waived) == []
    assert scenario.conversation.phase is Phase.EXECUTE
    assert scenario.conversation.waiting_for == "waiver"
    (question,) = scenario.records(r.WaiverRequested)
    assert (question.phases, question.of) == ((Phase.VERIFICATION, Phase.CHORES), ALICE)
    sent = scenario.records(r.MessageSent)[-1]
    assert sent.purpose == "question"
    assert sent.text == (
        "May I skip verification and chores in this cycle? Then no one will have tried whether it works; documentation "
        "and leftovers stay as they are. Answer “yes” to skip them; any other answer keeps them."
    )
    check_idle(scenario)


def test_a_yes_skips_all_that_was_asked_and_the_router_is_asked_again() -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE), *QUALITY_PHASES)
    scenario.router = Router(ENDS)
    scenario.user_writes(" yes \n")
    (waiver,) = scenario.records(r.Waived)
    assert (waiver.phases, waiver.name, waiver.quote) == (QUALITY_PHASES, "alice", "yes")
    assert waiver.message_id == scenario.records(r.MessageRecorded)[-1].event_id
    scenario.settle()
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert any("no one will have tried whether it works" in text for text in scenario.sent_texts())


YES = """yes|Yes!|YES|y|ok|Okay.|sure|yes, please|Yes, thank you|“yes”|`yes`|ja|Ja, bitte|jawohl|sí|¡Sí!|si
Sí, por favor|oui|Oui, merci|sim|sì|はい|はい、お願いします|是|是的，谢谢|да|Да, спасибо|네|tak|evet|👍|👍🏽| yes """
NO = """no|nein|ok wait|OK, stop|Yes, run it please|ok, what would be skipped?|yes?|yes？|yes؟|make it blue first
\ud800|ok, but don't skip it|yes, no, I mean: do not|yes 👎|yes no|yes/no|yes please do it|yes yes yes yes|please|thanks
ok ❌|yesterday it worked|okra|janein|sick"""


def test_a_clear_yes_is_one_in_many_languages_with_nothing_else() -> None:
    assert [word for line in YES.splitlines() for word in line.split("|") if not is_clear_yes(word)] == []
    others = [word for line in NO.splitlines() for word in line.split("|")]
    assert [word for word in (*others, "yes\nbut run them", "> May I skip it?\nyes") if is_clear_yes(word)] == []


@given(st.text())
def test_a_text_with_any_other_word_is_no_clear_yes(text: str) -> None:
    assert not is_clear_yes(f"yes {text} x")
    assert not is_clear_yes(f"{text} yes?")


def test_the_router_may_not_ask_again_for_the_same_gates_before_a_user_has_written() -> None:
    scenario = asked()
    again = {**route("chores", "executor"), "waive": ["verification"]}
    scenario.router = Router(again)
    scenario.converse("no")
    assert len(scenario.records(r.WaiverRequested)) == 1
    assert "did not say yes" in refusals(scenario)[-1]
    assert scenario.conversation.waiting_for == "fallback"
    scenario.converse("on second thought, skip it after all")
    assert len(scenario.records(r.WaiverRequested)) == 2
    scenario.router = Router(again, WAITS)
    scenario.converse("/continue")
    assert len(scenario.records(r.WaiverRequested)) == 2, "a command is no word on it"


def test_a_bare_yes_is_no_new_request_when_the_cycle_ends() -> None:
    scenario = asked(Phase.CHORES, "reflection")
    scenario.router = Router(ENDS)
    scenario.converse("yes, please")
    assert (scenario.conversation.status, scenario.conversation.cycle) == ("ended", 1)
    assert scenario.phases()[-1] is Phase.REFLECTION


def test_quick_waives_all_and_the_waived_phases_are_in_the_history_before_end() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS)).converse("/quick")
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert {record.reason for record in scenario.records(r.PhaseTransition)[1:]} == {"waived by alice"}
    reported = next(text for text in scenario.sent_texts() if text.startswith("As you wish"))
    assert all(f"{gate}: " in reported.lower() for gate in QUALITY_PHASES)


@pytest.mark.parametrize(
    "skipped",
    [(gate,) for gate in QUALITY_PHASES] + [QUALITY_PHASES[:2], QUALITY_PHASES[::2], QUALITY_PHASES[::-1]],
)
def test_what_is_waived_is_passed_through_and_the_rest_stays_to_do(skipped: tuple[Phase, ...]) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    for gate in skipped:
        scenario.user_writes(f"/skip {gate}")
    left = [gate for gate in QUALITY_PHASES if gate not in skipped]
    answers = [answer for gate in left for answer in (ENDS, route(gate, "executor"))]
    scenario.router = Router(*answers, ENDS)
    scenario.settle()
    assert scenario.conversation.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES], "the table holds, whatever is waived"
    assert [record.phase for record in scenario.records(r.TurnOpened)[2:]] == left
    assert [f"open: {', '.join(left[place:])}." in text for place, text in enumerate(refusals(scenario))] == [
        True for _ in left
    ]


@pytest.mark.parametrize("text", ["/skip", "/skip execute", "/skip verification chores"])
def test_skip_states_what_it_takes(text: str) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    scenario.user_writes(text)
    assert scenario.records(r.Waived) == []
    assert scenario.sent_texts()[-1] == "/skip takes one of: verification, chores, reflection."


@pytest.mark.parametrize("text", ["/quick", "/skip verification"])
def test_members_may_skip_where_the_operator_permits_it_and_guests_never(text: str) -> None:
    for config, role, may in ((None, Role.MEMBER, 0), (MEMBERS_MAY, Role.MEMBER, 1), (MEMBERS_MAY, Role.GUEST, 0)):
        scenario = scenario_at(Phase.EXECUTE, config=config)
        scenario.user_writes(text, role=role)
        assert len(scenario.records(r.Waived)) == may
        assert may or scenario.sent_texts()[-1] == "Only an owner may skip a quality gate."


def test_a_waiver_ends_with_its_cycle() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS)).converse("/quick")
    scenario.user_writes("/skip chores")
    assert len(scenario.records(r.Waived)) == 1
    assert scenario.sent_texts()[-1] == (
        "This cycle has ended: there is nothing to skip. Write a request, then send `/skip chores` again."
    )
    scenario.router = Router(route("execute", "executor"), ENDS, WAITS)
    scenario.converse("again")
    assert "open: verification, chores, reflection." in refusals(scenario)[-1]


@pytest.mark.parametrize(
    ("config", "author", "role", "may"),
    [
        (MEMBERS_MAY, BOB, Role.MEMBER, True),
        (MEMBERS_MAY, ALICE, Role.OWNER, True),
        (MEMBERS_MAY, CAROL, Role.MEMBER, False),
        (None, BOB, Role.MEMBER, False),
        (None, ALICE, Role.OWNER, True),
    ],
)
def test_the_member_who_wrote_is_asked_where_members_may_else_an_owner_who_may_agree_in_any_case(
    config: Policy | None, author: PublicKey, role: Role, may: bool
) -> None:
    scenario = scenario_at(Phase.EXECUTE, config=config)
    scenario.user_writes("skip the tests", role=Role.MEMBER, author=BOB)
    wishing(scenario, "verification")
    assert scenario.records(r.WaiverRequested)[0].of == (BOB if config else "")
    assert ("Only an owner can allow it." in scenario.sent_texts()[-1]) is (config is None)
    scenario.user_writes("yes", role=role, author=author)
    assert bool(scenario.records(r.Waived)) is may


@pytest.mark.parametrize("text", ["ok, but don't skip it", "/continue", "/stop"])
def test_anything_but_a_clear_yes_closes_the_question_and_is_read_like_any_message(text: str) -> None:
    scenario = asked()
    scenario.user_writes(text)
    if not text.startswith("/"):
        assert scenario.records(r.WaiverDeclined)[0].name == "alice"
        assert [effect.key.work for effect in scenario.running.values()].count(Work.ROUTE) == 1, "the router goes on"
    scenario.user_writes("yes")
    assert scenario.records(r.Waived) == []


def test_what_is_no_gate_is_refused_and_what_is_waived_or_met_is_not_asked_for() -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE), "verification", "execute")
    assert "is no quality gate" in refusals(scenario)[0]
    assert scenario.records(r.WaiverRequested) == []
    scenario = scenario_at(Phase.VERIFICATION)
    scenario.user_writes("/skip chores")
    wishing(scenario, "chores", "verification")
    assert scenario.records(r.WaiverRequested) == scenario.records(r.RouteRejected) == []
    assert scenario.conversation.phase is Phase.CHORES
