"""The approval of a plan by a user: who may give it, what counts, and what anything else leads to."""

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase
from tenex.core.signals import RollBack
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_invariants,
    model_by_phase,
    policy,
    refusals,
    reply,
    route,
    step_until,
    wish,
)
from tests.kits.approvals import HOUR, PERSON, planned, plans

BOB = PublicKey("b" * 64)


def is_approved(scenario: Scenario) -> bool:
    check_invariants(scenario)
    has_record = bool(scenario.records(p.PlanApproved))
    assert has_record is (Phase.EXECUTE in scenario.phases())
    return has_record


def plan_message(scenario: Scenario) -> r.MessageSent:
    sent: list[r.MessageSent] = scenario.records(r.MessageSent)
    return next(one for one in reversed(sent) if one.purpose == "completion")


def turns_in_plan(scenario: Scenario) -> int:
    return sum(turn.phase is Phase.PLAN for turn in scenario.records(r.TurnOpened))


def test_the_message_that_presents_the_plan_says_how_to_approve_it() -> None:
    presented = plan_message(planned()).text
    assert presented == (
        "planner has done its part of plan\n\n"
        "Reply “yes” or 👍, or send `/approve`, to approve this plan. Any other answer, or `/reject REASON`, "
        "changes it."
    )
    for role in (Role.GUEST, Role.MEMBER):
        theirs = planned(role=role, author=BOB)
        assert ("Only an owner" in plan_message(theirs).text) is (role is Role.GUEST)
    without = Scenario(plans, model_by_phase()).converse("design it")
    assert "/approve" not in "".join(without.sent_texts())


@pytest.mark.parametrize("by_rule", [True, False])
@pytest.mark.parametrize("text", ["yes", "Ja, bitte", "/approve", "👍"])
def test_an_owner_approves_by_a_command_or_a_clear_yes(text: str, *, by_rule: bool) -> None:
    scenario = planned(by_rule=by_rule).converse(text)
    assert is_approved(scenario)
    (approval,) = scenario.records(p.PlanApproved)
    assert (approval.name, approval.turn_id) == ("alice", scenario.records(r.TurnOpened)[0].turn_id)


@pytest.mark.parametrize("text", ["yes", "/approve"])
def test_a_program_approves_no_plan_though_its_signer_is_an_owner(text: str) -> None:
    scenario = planned().converse(text, by_program=True)
    assert not is_approved(scenario)
    assert scenario.records(p.PlanApproved) == []


@pytest.mark.parametrize("text", ["yes", "/approve"])
def test_a_member_approves_the_plan_of_a_conversation_they_began_and_no_other(text: str) -> None:
    assert is_approved(planned(role=Role.MEMBER, author=BOB).converse(text, role=Role.MEMBER, author=BOB))
    assert not is_approved(planned().converse(text, role=Role.MEMBER, author=BOB))


TEXTS = ["No! I do not approve.", "hello", "yes", "/approve", "ok", "/reject it is bad"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("role", [Role.GUEST, Role.MEMBER])
@pytest.mark.parametrize("replies", [True, False])
def test_what_others_write_approves_nothing(text: str, role: Role, *, replies: bool) -> None:
    scenario = planned()
    question = plan_message(scenario).events[0].id if replies else None
    scenario.converse(text, role=role, author=BOB, name="bob", reply_to=question)
    assert not is_approved(scenario)
    assert not phases_of(scenario.conversation).approved_turn
    if text.startswith("/"):
        assert "is for an owner, or the member who began" in scenario.sent_texts()[-1]
        assert turns_in_plan(scenario) == 1


@pytest.mark.parametrize(
    "text", ["No! I do not approve.", "hello", "yes, but use postgres", "what about backups?", "no"]
)
@pytest.mark.parametrize("by_rule", [True, False])
def test_anything_else_of_a_permitted_user_goes_to_those_who_made_the_plan(text: str, *, by_rule: bool) -> None:
    scenario = planned(by_rule=by_rule).converse(text)
    assert not is_approved(scenario)
    assert turns_in_plan(scenario) == 2
    assert scenario.records(r.TurnOpened)[-1].agents == ("planner",)
    assert text in [message.text for message in scenario.conversation.cycle.messages]
    assert scenario.conversation.cycle.waiting_for == "user"
    assert is_approved(scenario.converse("/approve")), "the new plan waits for its own approval"


def test_a_rejection_is_a_message_to_those_who_made_the_plan() -> None:
    scenario = planned()
    scenario.user_writes("/reject")
    assert scenario.sent_texts()[-1] == "Write what the plan lacks: `/reject REASON`."
    assert turns_in_plan(scenario) == 1
    scenario.converse("/reject yes")
    assert not is_approved(scenario), "a word after it is no yes"
    assert turns_in_plan(scenario) == 2
    scenario.converse("/reject use postgres")
    assert scenario.conversation.cycle.messages[-1].text == "use postgres"
    shown = scenario.records(r.RunStarted)[-1]
    assert scenario.conversation.cycle.messages[-1].seq in [getattr(entry, "seq", 0) for entry in shown.entries]
    assert not is_approved(scenario)


@pytest.mark.parametrize("text", ["/approve", "yes"])
@pytest.mark.parametrize(("late", "why"), [(HOUR, "before my question"), (-30 * 24 * HOUR, "in the future")])
def test_an_approval_that_is_dated_wrong_gets_a_sentence_and_nothing_else(text: str, late: int, why: str) -> None:
    scenario = planned()
    scenario.converse(text, late=late)
    assert why in scenario.sent_texts()[-1]
    assert not is_approved(scenario)
    assert turns_in_plan(scenario) == 1
    assert scenario.conversation.cycle.status == "waiting"
    assert is_approved(scenario.converse(text))


def test_an_approval_is_accepted_from_a_clock_that_differs_a_little() -> None:
    for text in ("yes", "/approve"):
        assert is_approved(planned().converse(text, late=-50))
        assert not is_approved(planned().converse(text, late=1))
        scenario = planned()
        assert is_approved(scenario.converse(text, late=50, reply_to=plan_message(scenario).events[0].id))


@pytest.mark.parametrize("text", ["no problem", "No worries, go ahead", "нет проблем", "kein Problem", "sem problema"])
def test_words_that_may_turn_a_no_round_neither_approve_nor_change_a_plan(text: str) -> None:
    scenario = planned().converse(text)
    assert f"I cannot tell whether “{text}” approves the plan" in scenario.sent_texts()[-1]
    assert (is_approved(scenario), turns_in_plan(scenario)) == (False, 1)
    assert scenario.conversation.cycle.waiting_for == "user"
    assert is_approved(scenario.converse("approved"))


def test_a_yes_counts_as_a_reply_to_the_plan_or_to_the_thread_and_to_nothing_else() -> None:
    places: list[str | None] = [None, plan_message(planned()).events[0].id, planned().conversation.id]
    for place in places:
        assert is_approved(planned().converse("yes", reply_to=place))
    scenario = planned()
    first = plan_message(scenario).events[0].id
    scenario.converse("use postgres")
    for other in (str(first), "9" * 64):
        scenario.converse("yes", reply_to=other)
        assert "it replies to another message" in scenario.sent_texts()[-1]
        assert not is_approved(scenario)
        assert scenario.conversation.cycle.waiting_for == "user"
    assert is_approved(scenario.converse("yes", reply_to=plan_message(scenario).events[0].id))


def test_a_plan_that_is_changed_after_its_approval_needs_another() -> None:
    scenario = planned()
    scenario.router = lambda question: route(None, "planner")
    scenario.user_writes("/approve")
    scenario.step()
    step_until(scenario, lambda it: it.conversation.router.question is not None)
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.settle()
    assert "needs the person's approval" in refusals(scenario)[-1]
    assert Phase.EXECUTE not in scenario.phases()
    scenario.router = plans
    scenario.converse("/approve")
    assert Phase.EXECUTE in scenario.phases()


def test_an_approve_as_a_reply_to_a_plan_that_was_changed_since_approves_nothing() -> None:
    """A guest had it changed, and the owner has read only the first one."""
    scenario = planned()
    first = plan_message(scenario).events[0].id
    scenario.router = Router(route(None, "planner"), plans)
    scenario.converse("add a back door", role=Role.GUEST, author=BOB, name="bob")
    assert turns_in_plan(scenario) == 2
    scenario.crash()
    scenario.converse("/approve", reply_to=first)
    assert scenario.sent_texts()[-1].startswith("Nothing is approved: it replies to an earlier plan.")
    assert not is_approved(scenario)
    notice = scenario.records(r.MessageSent)[-1].events[0].id
    assert is_approved(scenario.converse("/approve", reply_to=notice))


def test_an_approved_plan_is_carried_out_and_the_router_may_neither_wait_nor_end() -> None:
    scenario = planned()
    scenario.router = Router(WAITS, ENDS, plans)
    scenario.converse("/approve")
    assert [sentence for sentence in refusals(scenario) if "is approved and not carried out" in sentence] != []
    assert is_approved(scenario)


def test_an_approval_while_the_router_is_being_asked_is_read_by_it() -> None:
    scenario = planned()
    scenario.user_writes("hello", role=Role.GUEST, author=BOB, name="bob")
    assert scenario.conversation.router.question is not None
    scenario.converse("/approve")
    assert is_approved(scenario)


def test_where_nothing_waits_for_approval_the_commands_say_so() -> None:
    new = Scenario(plans, model_by_phase(), config=policy(gates=PERSON))
    making = planned()
    making.user_writes("use postgres")
    approved = planned()
    approved.router = Router(WAITS)
    approved.user_writes("/approve")
    for scenario, answer in (
        (new, "No plan waits for your approval."),
        (making, "The plan is still being made. Decide when you have read it."),
        (approved, "The plan is approved already."),
    ):
        for text in ("/approve", "/reject no"):
            scenario.user_writes(text)
            assert scenario.sent_texts()[-1] == answer
    for text in ("/approve but use postgres", "/approve yes"):
        scenario = planned().converse(text)
        assert "takes nothing after it" in scenario.sent_texts()[-1]
        assert not is_approved(scenario)


def test_where_the_router_leaves_the_plan_by_itself_no_user_approves_it() -> None:
    router = Router(route("plan", "planner"), WAITS)
    for text in ("/approve", "yes"):
        scenario = Scenario(router, model_by_phase()).converse("design it").converse(text)
        assert scenario.conversation.cycle.phase is Phase.PLAN
        assert scenario.records(p.PlanApproved) == []
        assert ("No plan waits for your approval." in scenario.sent_texts()) is (text == "/approve")
        router = Router(route("plan", "planner"), WAITS)


def test_where_the_setting_is_gone_an_approved_plan_need_not_be_carried_out() -> None:
    scenario = planned()
    scenario.router = Router(WAITS)
    scenario.user_writes("/approve")
    scenario.policy = policy()
    scenario.settle()
    assert refusals(scenario) == []
    assert scenario.conversation.cycle.waiting_for == "user"


def test_a_failed_planner_leaves_nothing_to_approve() -> None:
    scenario = Scenario(plans, model_by_phase(plan=[reply("")]), config=policy(gates=PERSON)).converse("design it")
    scenario.converse("/approve")
    assert scenario.sent_texts()[-1] == "No plan waits for your approval."


def test_a_yes_where_a_waiver_is_asked_too_answers_only_the_question_it_replies_to() -> None:
    scenario = planned()
    scenario.router = Router(wish(WAITS, "verification", words="hello"), WAITS)
    scenario.converse("hello", role=Role.GUEST, author=BOB, name="bob")
    assert scenario.conversation.cycle.waiting_for == "waiver"
    waiver = scenario.records(r.MessageSent)[-1].events[0].id
    scenario.converse("yes")
    assert "several questions are open" in scenario.sent_texts()[-1]
    assert not is_approved(scenario)
    assert scenario.records(p.Waived) == []
    again = planned()
    again.router = Router(wish(WAITS, "verification", words="hello"), WAITS)
    again.converse("hello", role=Role.GUEST, author=BOB, name="bob").converse("yes", reply_to=waiver)
    assert len(again.records(p.Waived)) == 1
    assert not is_approved(again)


def test_a_restart_and_a_rollback_keep_what_is_approved() -> None:
    scenario = planned()
    scenario.crash()
    waiting = scenario.refold()
    scenario.router = Router(WAITS)
    scenario.user_writes("yes")
    assert phases_of(scenario.conversation).approved_turn
    scenario.crash()
    assert phases_of(scenario.conversation).approved_turn
    scenario.handle(RollBack(by="the operator", reason="", to=waiting.next_seq - 1, then=waiting))
    assert not phases_of(scenario.conversation).approved_turn, "it was not approved then"
    scenario.router = plans
    assert Phase.EXECUTE in scenario.converse("yes").phases()


def test_an_approval_is_a_decision_that_agents_read() -> None:
    scenario = planned().converse("/approve")
    (decision,) = scenario.conversation.memory.user_decisions
    assert (decision.text, decision.is_command) == ("alice approved the plan", True)
