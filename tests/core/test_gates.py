"""The quality gates: what meets one, what reopens them; who may skip one, and what it takes: words alone never do."""

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.answers.yes_no import is_clear_yes
from tenex.core.config import GateRules, Policy, Role
from tenex.core.conversation import fold
from tenex.core.effects import Work
from tenex.core.ids import PublicKey
from tenex.core.people.permissions import Decision, may_decide
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.signals import ClockJumped
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.workflows.phases import records as p
from tests.fakes.scenario import (
    ALICE,
    ALWAYS,
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    model_by_phase,
    policy,
    refusals,
    remove_agent,
    reply,
    route,
    scenario_at,
    wish,
)
from tests.kits.gates import BREAKS, HOUR, asked_now, wishing


def verdict(word: str, **more: str) -> Any:
    """A verification that ends with this verdict."""
    done = {"response": f"I looked: {word}", "verdict": word, **more}
    return reply("", ("check", {"path": "a"}), ("complete", done))


def gates(scenario: Scenario) -> list[Phase | None]:
    """The gate each turn met by closing."""
    return [record.gate for record in scenario.records(r.TurnClosed)]


def test_verification_with_issues_does_not_lead_to_chores_but_back_to_execute() -> None:
    router = Router(route("verification", "executor"), route("chores", "executor"), route("execute", "executor"), WAITS)
    issues = verdict("issues", issues="the button is dead")
    scenario = scenario_at(Phase.EXECUTE, router, model_by_phase(verification=[issues])).settle()
    assert "only with the verdict `verified`" in refusals(scenario)[0]
    assert scenario.phases()[-2:] == [Phase.VERIFICATION, Phase.EXECUTE]
    assert "the button is dead" in scenario.records(r.TurnOpened)[-1].handoff.summary


@pytest.mark.parametrize(
    ("phase", "executor", "helper", "is_met"),
    [
        (Phase.VERIFICATION, verdict("verified"), verdict("issues"), False),
        (Phase.VERIFICATION, verdict("verified"), BREAKS, True),
        (Phase.VERIFICATION, reply("it looks fine to me"), BREAKS, False),
        (Phase.CHORES, reply("clean"), BREAKS, True),
        (Phase.CHORES, BREAKS, BREAKS, False),
    ],
)
def test_what_two_agents_answer_meets_the_gate_or_leaves_it_open(
    phase: Phase, executor: Any, helper: Any, is_met: bool
) -> None:
    def answer(conversation: object, call: Any) -> Any:
        return helper if "helper" in call.run else executor

    order = [Phase.EXECUTE, *QUALITY_PHASES]
    before, after = order[order.index(phase) - 1], order[order.index(phase) + 1]
    router = Router(route(phase, "executor", "helper"), route(after, "executor"), ENDS, WAITS)
    scenario = scenario_at(before, router, model_by_phase(**{phase: answer})).settle()
    assert (phase in gates(scenario)) is is_met
    assert (scenario.conversation.cycle.phase is phase) is not is_met
    assert len(refusals(scenario)) >= 1
    check_idle(scenario)


def test_a_verdict_outside_verification_means_nothing() -> None:
    built = reply("", ("write_file", {"path": "a"}))
    scenario = scenario_at(
        Phase.CHAT,
        Router(route("execute", "executor"), ENDS, WAITS),
        model_by_phase(execute=[built, verdict("verified")]),
    ).settle()
    assert scenario.records(r.RunEnded)[-1].verdict == ""
    assert gates(scenario)[-1] is None
    assert refusals(scenario)[0].startswith("END is refused")


def reflecting(*agents: str) -> Scenario:
    """A scenario at the end of chores, in which these agents took part."""
    scenario = scenario_at(Phase.CHORES, agents=agents)
    assert scenario.conversation.cycle.participants == agents
    return scenario


def test_no_one_reflects_twice_and_no_one_who_took_no_part() -> None:
    scenario = reflecting("executor", "helper")
    answers = (route("reflection", "planner"), route("reflection", "executor"), route(None, "executor", "helper"))
    scenario.router = Router(*answers, ENDS, route(None, "helper"), route(None, "helper"), ENDS)
    scenario.settle()
    assert "planner cannot reflect now" in refusals(scenario)[0]
    assert refusals(scenario)[1] == (
        "Each participant reflects once; executor cannot reflect now (still to reflect: helper)."
    )
    assert "open: reflection." in refusals(scenario)[2]
    assert "everybody has reflected; answer END" in refusals(scenario)[3]
    assert scenario.conversation.cycle.status == "ended"


def test_a_failed_reflection_counts_and_a_retry_does_not_repeat_it() -> None:
    scenario = reflecting("executor")
    scenario.worker = model_by_phase(reflection=[BREAKS])
    scenario.router = Router(route("reflection", "executor"), WAITS, ENDS)
    scenario.settle()
    assert gates(scenario)[-1] is Phase.REFLECTION
    scenario.converse("/retry")
    assert [record.phase for record in scenario.records(r.TurnOpened)].count(Phase.REFLECTION) == 1
    assert scenario.conversation.cycle.status == "ended"


def test_an_agent_that_leaves_while_the_others_have_reflected_does_not_block_the_end() -> None:
    scenario = reflecting("executor", "helper")
    scenario.router = Router(route("reflection", "executor"), WAITS)
    scenario.settle()
    remove_agent(scenario, "helper")
    router = scenario.router = Router(ENDS, route(None, "project-manager"), WAITS)
    scenario.converse("go on")
    assert (router.asked[0]["open_gates"], router.asked[0]["can_end"]) == ([], True)
    assert len(scenario.records(r.Ended)) == 1
    assert scenario.conversation.cycle.number == 2, "what the user wrote last opens the next cycle"


def test_a_plan_a_user_must_approve_waits_for_them_and_an_answer_given_before_approves_nothing() -> None:
    scenario = scenario_at(Phase.CHAT)
    gate_rules = dataclasses.replace(scenario.policy.gates, plan_approval="person")
    scenario.policy = dataclasses.replace(scenario.policy, gates=gate_rules)
    asks = reply("", ("ask", {"question": "Which database?"}))
    scenario.worker = model_by_phase(plan=[asks, reply("the plan: postgres")])
    scenario.router = Router(route("plan", "planner"), route("execute", "executor"), WAITS)
    scenario.settle()
    scenario.converse("postgres")
    assert "needs the person's approval" in refusals(scenario)[0]
    assert scenario.phases() == [Phase.PLAN]
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("yes")
    assert scenario.phases() == [Phase.PLAN, Phase.EXECUTE]


MEMBERS_MAY = policy(gates=replace(ALWAYS, members_may_waive=True))
BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


def asked(phase: Phase = Phase.EXECUTE, gate: str = "verification", config: Policy | None = None) -> Scenario:
    """A scenario in which the user is being asked whether a gate may be skipped."""
    scenario = wishing(scenario_at(phase, config=config), gate)
    assert scenario.conversation.cycle.waiting_for == "waiver"
    return scenario


@pytest.mark.parametrize("text", ["skip verification, I am in a hurry", "überspringe die Tests"])
def test_whatever_a_user_writes_a_wish_of_the_router_is_a_question(text: str) -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE, text=text), "verification", "chores")
    assert scenario.records(p.Waived) == []
    assert scenario.conversation.cycle.phase is Phase.EXECUTE
    assert scenario.conversation.cycle.waiting_for == "waiver"
    (question,) = scenario.records(p.WaiverRequested)
    assert (question.phases, question.of) == ((Phase.VERIFICATION, Phase.CHORES), ALICE)
    sent = scenario.records(r.MessageSent)[-1]
    assert sent.purpose == "question"
    assert sent.text == (
        f"May I skip verification and chores in this cycle, because of “{text}”? Then no one will have tried whether "
        "it works; documentation and leftovers stay as they are. Answer “yes” or 👍 to skip them; any other answer "
        "keeps them."
    )
    check_idle(scenario)


def test_a_yes_skips_all_that_was_asked_and_the_router_is_asked_again() -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE), *QUALITY_PHASES)
    scenario.router = Router(ENDS)
    scenario.user_writes(" yes \n")
    (waiver,) = scenario.records(p.Waived)
    assert (waiver.phases, waiver.name, waiver.quote) == (QUALITY_PHASES, "alice", "yes")
    assert waiver.message_id == scenario.records(r.MessageRecorded)[-1].event_id
    scenario.settle()
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1), (
        "a bare yes is no new request"
    )
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES]
    assert any("no one will have tried whether it works" in text for text in scenario.sent_texts())


YES = """yes|Yes!|YES|y|ok|Okay.|sure|yes, please|Yes, thank you|“yes”|`yes`|ja|Ja, bitte|jawohl|sí|¡Sí!|si
Sí, por favor|oui|Oui, merci|sim|sì|はい|はい、お願いします|是|是的，谢谢|да|Да, спасибо|네|tak|evet|👍|👍🏽| yes """
YES_IN_PICTURES = ["yes 🙂", "Yes, please! 🙏🏽", "ok👌", "✅", "👍❤\ufe0f", "Ja 🎉"]
NO_YES_IN_PICTURES = ["🙏", "❤\ufe0f", "yes ❌", "✅❌", "yes 🛑", "👌👎", "ok 😡", "yes 🤔"]
NO = """no|nein|ok wait|OK, stop|Yes, run it please|ok, what would be skipped?|yes?|yes？|yes؟|make it blue first
\ud800|ok, but don't skip it|yes, no, I mean: do not|yes 👎|yes no|yes/no|yes please do it|yes yes yes yes|please|thanks
ok ❌|yesterday it worked|okra|janein|sick"""


def test_a_clear_yes_is_one_in_many_languages_with_nothing_else() -> None:
    assert [word for line in YES.splitlines() for word in line.split("|") if not is_clear_yes(word)] == []
    others = [word for line in NO.splitlines() for word in line.split("|")]
    assert [word for word in (*others, "yes\nbut run them", "> May I skip it?\nyes") if is_clear_yes(word)] == []


def test_friendly_pictures_beside_a_yes_leave_it_clear_and_others_do_not() -> None:
    assert [text for text in YES_IN_PICTURES if not is_clear_yes(text)] == []
    assert [text for text in NO_YES_IN_PICTURES if is_clear_yes(text)] == []


@pytest.mark.parametrize("yes", ["\ufeffyes\u200b", "y\u2060es.", "ＹＥＳ", "yes\u2028", "\u2068ok\u2069", "👍\ufe0f"])
def test_a_yes_with_characters_that_nobody_sees_is_a_yes(yes: str) -> None:
    assert is_clear_yes(yes)


@given(st.text())
def test_a_text_with_any_other_word_is_no_clear_yes(text: str) -> None:
    assert not is_clear_yes(f"yes {text} x")
    assert not is_clear_yes(f"{text} yes?")


def test_the_router_may_not_ask_again_for_the_same_gates_before_a_user_has_written() -> None:
    scenario = asked()
    again = wish(route("chores", "executor"), "verification")
    scenario.router = Router(again)
    scenario.converse("no")
    assert len(scenario.records(p.WaiverRequested)) == 1
    assert "did not say yes" in refusals(scenario)[-1]
    assert scenario.conversation.cycle.waiting_for == "fallback"
    scenario.converse("on second thought, skip it after all")
    assert len(scenario.records(p.WaiverRequested)) == 2
    scenario.router = Router(again, WAITS)
    scenario.converse("/continue")
    assert len(scenario.records(p.WaiverRequested)) == 2, "a command is no word on it"


@pytest.mark.parametrize(
    "skipped",
    [(gate,) for gate in QUALITY_PHASES] + [QUALITY_PHASES, QUALITY_PHASES[:2], QUALITY_PHASES[::2]],
)
def test_what_is_waived_is_passed_through_and_the_rest_stays_to_do(skipped: tuple[Phase, ...]) -> None:
    scenario = scenario_at(Phase.EXECUTE)
    for text, more in (("/skip", ""), ("/skip execute", " Nothing was started.")):
        scenario.user_writes(text)
        assert scenario.sent_texts()[-1] == f"/skip takes one of: verification, chores, reflection.{more}"
    for text in ["/quick"] if skipped == QUALITY_PHASES else [f"/skip {gate}" for gate in reversed(skipped)]:
        scenario.user_writes(text)
    given = next(text for text in scenario.sent_texts() if text.startswith("As you wish"))
    assert [f"{gate}: " in given.lower() for gate in QUALITY_PHASES].count(True) == (3 if len(skipped) == 3 else 1)
    left = [gate for gate in QUALITY_PHASES if gate not in skipped]
    answers = [answer for gate in left for answer in (ENDS, route(gate, "executor"))]
    scenario.router = Router(*answers, ENDS)
    scenario.settle()
    assert scenario.conversation.cycle.status == "ended"
    assert scenario.phases() == [Phase.EXECUTE, *QUALITY_PHASES], "the table holds, whatever is waived"
    moved = {record.to: record.reason for record in scenario.records(r.PhaseTransition)}
    assert {gate for gate in QUALITY_PHASES if moved[gate] == "waived by alice"} == set(skipped)
    assert [record.phase for record in scenario.records(r.TurnOpened)[2:]] == left
    assert [f"open: {', '.join(left[place:])}." in text for place, text in enumerate(refusals(scenario))] == [
        True for _ in left
    ]


@pytest.mark.parametrize("text", ["/quick", "/skip verification"])
def test_members_may_skip_where_the_operator_permits_it_and_guests_never(text: str) -> None:
    for config, role, may in ((None, Role.MEMBER, 0), (MEMBERS_MAY, Role.MEMBER, 1), (MEMBERS_MAY, Role.GUEST, 0)):
        scenario = scenario_at(Phase.EXECUTE, config=config)
        scenario.user_writes(text, role=role)
        assert len(scenario.records(p.Waived)) == may
        assert may or scenario.sent_texts()[-1] == "Only an owner may skip a quality gate."


def test_a_waiver_ends_with_its_cycle() -> None:
    scenario = scenario_at(Phase.EXECUTE, Router(ENDS)).converse("/quick")
    scenario.user_writes("/skip chores")
    assert len(scenario.records(p.Waived)) == 1
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
    assert scenario.records(p.WaiverRequested)[0].of == (BOB if config else "")
    assert ("Only an owner can allow it." in scenario.sent_texts()[-1]) is (config is None)
    scenario.user_writes("yes", role=role, author=author)
    assert bool(scenario.records(p.Waived)) is may


@pytest.mark.parametrize("text", ["ok, but don't skip it", "/continue", "/stop"])
def test_anything_but_a_clear_yes_closes_the_question_and_is_read_like_any_message(text: str) -> None:
    scenario = asked()
    scenario.user_writes(text)
    if not text.startswith("/"):
        assert scenario.records(p.WaiverDeclined)[0].name == "alice"
        assert [effect.key.work for effect in scenario.running.values()].count(Work.ROUTE) == 1, "the router goes on"
    scenario.user_writes("yes")
    assert scenario.records(p.Waived) == []


def test_what_is_no_gate_is_refused_and_what_is_waived_or_met_is_not_asked_for() -> None:
    scenario = wishing(scenario_at(Phase.EXECUTE), "verification", "execute")
    assert "is no quality gate" in refusals(scenario)[0]
    assert scenario.records(p.WaiverRequested) == []
    scenario = scenario_at(Phase.VERIFICATION)
    scenario.user_writes("/skip chores")
    wishing(scenario, "chores", "verification")
    assert scenario.records(p.WaiverRequested) == scenario.records(r.RouteRejected) == []
    assert scenario.conversation.cycle.phase is Phase.CHORES


MONTH = 30 * 24 * HOUR


def question_of(scenario: Scenario) -> str:
    return str(next(one.events[0].id for one in reversed(scenario.records(r.MessageSent)) if one.asks == "waiver"))


def test_a_yes_that_replies_to_another_message_waives_nothing() -> None:
    scenario = asked_now()
    other = scenario.records(r.MessageSent)[0].events[0].id
    scenario.user_writes("yes", reply_to=other)
    assert scenario.records(p.Waived) == []
    assert scenario.sent_texts()[-1] == (
        "Your “yes” skips nothing: it replies to another message. To skip verification, send `/skip verification`."
    )
    scenario.user_writes("yes")
    assert scenario.records(p.Waived) == [], "the question is closed"


def test_a_yes_of_a_program_waives_nothing_though_its_signer_is_an_owner() -> None:
    scenario = asked_now()
    scenario.user_writes("yes", reply_to=question_of(scenario), by_program=True)
    scenario.user_writes("/skip verification", by_program=True)
    assert scenario.records(p.Waived) == scenario.records(r.CommandGiven) == []


def test_a_yes_to_an_older_question_about_gates_waives_nothing() -> None:
    scenario = asked_now()
    first = question_of(scenario)
    scenario.router = Router(wish(route("chores", "executor"), "verification"))
    scenario.converse("not now").converse("perhaps later")
    assert question_of(scenario) != first
    scenario.converse("yes", reply_to=first)
    assert scenario.records(p.Waived) == []


@pytest.mark.parametrize(
    ("late", "why"),
    [(HOUR, "is dated before my question"), (MONTH, "is dated before my question"), (-MONTH, "is dated in the future")],
)
def test_a_yes_that_is_dated_before_the_question_or_ahead_waives_nothing(late: int, why: str) -> None:
    for reply_to in (None, question_of(asked_now())):
        scenario = asked_now()
        scenario.user_writes("yes", late=late, reply_to=reply_to)
        assert scenario.records(p.Waived) == []
        assert why in scenario.sent_texts()[-1]


@pytest.mark.parametrize("late", [-50, 0, 50])
def test_a_yes_counts_as_a_reply_to_the_question_or_to_the_thread_by_a_clock_that_differs_a_little(late: int) -> None:
    for reply_to in (None, question_of(asked_now()), asked_now().conversation.id):
        scenario = asked_now()
        scenario.user_writes("yes", late=late, reply_to=reply_to)
        is_before = late > 0 and reply_to != question_of(asked_now())
        assert len(scenario.records(p.Waived)) == (0 if is_before else 1), "without a reply tag its date must say it"


@pytest.mark.parametrize("text", ["no problem", "No worries, go ahead", "kein Problem"])
def test_words_that_may_turn_a_no_round_leave_the_question_about_gates_open(text: str) -> None:
    scenario = asked_now()
    scenario.user_writes(text)
    assert scenario.records(p.Waived) == scenario.records(p.WaiverDeclined) == []
    assert f"I cannot tell what “{text}” says of" in scenario.sent_texts()[-1]
    assert scenario.conversation.cycle.waiting_for == "waiver"
    scenario.user_writes("yes", reply_to=str(scenario.records(r.MessageSent)[-1].events[0].id))
    assert len(scenario.records(p.Waived)) == 1


def test_a_yes_counts_after_the_clock_was_set_back() -> None:
    scenario = asked_now()
    scenario.handle(ClockJumped(by=-9_000 * HOUR))
    scenario.now = type(scenario.now)(scenario.now - 9_000 * HOUR)
    scenario.user_writes("yes")
    assert len(scenario.records(p.Waived)) == 1


def test_the_question_about_gates_is_known_after_a_restart_and_in_a_snapshot() -> None:
    scenario = asked_now()
    question = question_of(scenario)
    scenario.crash()
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    scenario.conversation = fold(scenario.conversation.id, CONVERSATION.decode_lines(data)[0])
    scenario.user_writes("yes", reply_to=question)
    assert len(scenario.records(p.Waived)) == 1


DECISIONS = """command|owner=y began=y asked=n member=n guest=n
waiver|owner=y began=n asked=n member=n guest=n
approval|owner=y began=y asked=n member=n guest=n
answer|owner=y began=y asked=y member=n guest=n"""


@pytest.mark.parametrize("row", DECISIONS.splitlines())
def test_who_may_decide_what(row: str) -> None:
    name, _, cells = row.partition("|")
    state = scenario_at(Phase.CHAT).conversation.fork()
    state.identity = replace(state.identity, starter=BOB)
    people = {
        "owner": (CAROL, Role.OWNER),
        "began": (BOB, Role.MEMBER),
        "asked": (ALICE, Role.GUEST),
        "member": (CAROL, Role.MEMBER),
        "guest": (BOB, Role.GUEST),
    }
    for cell in cells.split():
        who, _, expected = cell.partition("=")
        author, role = people[who]
        may = may_decide(Decision(name), state, GateRules(), author=author, role=role, asked=ALICE)
        assert may is (expected == "y"), (name, who)
    assert not may_decide(Decision(name), state, GateRules(), author=PublicKey(""), role=None, asked=PublicKey(""))
