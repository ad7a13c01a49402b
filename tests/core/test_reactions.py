"""Reactions that stand for a reply or a command: a stop sign, a choice, a yes or no."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import new_conversation
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.inbox.commands import stops_wait
from tenex.core.inbox.reactions import asks_yes_or_no
from tenex.core.inbox.uncounted import MOST_A_DAY
from tenex.core.people.trust import chat_of
from tenex.core.phases import Phase
from tenex.core.signals import InboundMessage, MessageReceived
from tenex.core.totals.costs import DAY
from tenex.runtime.notices import Notices
from tenex.workflows.phases import records as p
from tests.fakes.scenario import (
    ALICE,
    ALWAYS,
    ID,
    WAITS,
    Router,
    Scenario,
    check_invariants,
    model_by_phase,
    policy,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.gates import wishing

BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


def react(scenario: Scenario, picture: str, to: str, late: int = 0, **more: Any) -> list[r.Record]:
    scenario.count += 1
    who: dict[str, Any] = {"author": ALICE, "role": Role.OWNER, "name": "alice", **more}
    message = InboundMessage(
        event_id=EventId(f"{scenario.count:064d}"),
        author=who["author"],
        text=picture,
        created_at=scenario.now // 1000 - late,
        conversation=ConversationId(ID),
        starts=False,
        references=(EventId(to),),
        reply_to=EventId(to),
        is_reaction=True,
        origin={"relays": ["ws://relay"]},
    )
    return scenario.handle(MessageReceived(message=message, role=who["role"], name=who["name"]))


def asking(question: str = "Which colour?", options: list[str] | None = None) -> Scenario:
    """A scenario whose agent has asked a person."""
    arguments = {"question": question, **({"options": options} if options is not None else {})}
    script = [reply("", ("ask", arguments)), reply("done")]
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=script))
    step_until(scenario, lambda it: bool(it.records(r.QuestionAsked)))
    while scenario.step():
        pass
    return scenario


def question(scenario: Scenario) -> str:
    sent = [record for record in scenario.records(r.MessageSent) if record.purpose == "question"]
    return str(sent[-1].events[0].id)


def answers(scenario: Scenario) -> list[str]:
    return [record.text for record in scenario.records(r.QuestionAnswered)]


def request(scenario: Scenario) -> str:
    """The message that began the work."""
    return str(scenario.records(r.MessageRecorded)[0].event_id)


# ---- choices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("picture", "choice"), [("1️⃣", "red"), ("2️⃣", "blue"), ("2⃣", "blue")])
def test_the_picture_of_a_number_chooses(picture: str, choice: str) -> None:
    scenario = asking(options=["red", "blue"])
    sent = [record for record in scenario.records(r.MessageSent) if record.purpose == "question"]
    how = "Reply or react with a number, or reply in words."
    assert sent[-1].text == f"Which colour?\n1️⃣ red\n2️⃣ blue\n{how}"
    react(scenario, picture, question(scenario))
    assert answers(scenario) == [choice]
    check_invariants(scenario)


def test_of_more_than_ten_choices_none_has_a_picture_and_each_has_its_number() -> None:
    scenario = asking(options=[f"colour {letter}" for letter in "abcdefghijk"])
    sent = [record for record in scenario.records(r.MessageSent) if record.purpose == "question"]
    assert sent[-1].text.startswith("Which colour?\n1. colour a\n2. colour b")
    assert sent[-1].text.endswith("\n11. colour k\nReply with a number, or reply in words.")
    scenario.user_writes("11", reply_to=question(scenario))
    assert answers(scenario) == ["colour k"]


@pytest.mark.parametrize("text", ["Dark Blue", " “dark  blue”! ", "2", "2.", "2️⃣", "@executor dark blue", "@executor 2"])
def test_a_reply_that_is_exactly_a_choice_is_that_choice(text: str) -> None:
    scenario = asking(options=["red", "dark blue"])
    scenario.user_writes(text, reply_to=question(scenario))
    assert answers(scenario) == ["dark blue"]
    written = scenario.records(r.MessageRecorded)[-1]
    assert written.text == text, "the journal keeps what was written"


@pytest.mark.parametrize("text", ["dark blue, please", "3", "0", "blue", "red or dark blue"])
def test_any_other_reply_is_read_by_the_agent_as_it_was_written(text: str) -> None:
    scenario = asking(options=["red", "dark blue"])
    scenario.user_writes(text, reply_to=question(scenario))
    assert answers(scenario) == [text]


@pytest.mark.parametrize(
    ("text", "options", "picture", "answer"),
    [
        ("Shall I delete it?", None, "👍", "👍"),
        ("Shall I delete it?", None, "👎🏽", "👎"),
        ("It is there. May I go on?", None, "✅", "👍"),
        ("Delete it?", ["Yes", "No"], "👍", "Yes"),
        ("Delete it?", ["Yes", "No"], "-", "No"),
    ],
)
def test_a_thumb_answers_what_is_answered_by_yes_or_no(
    text: str, options: list[str] | None, picture: str, answer: str
) -> None:
    scenario = asking(text, options)
    react(scenario, picture, question(scenario))
    assert answers(scenario) == [answer]


@pytest.mark.parametrize(
    ("text", "options", "picture"),
    [
        ("Which colour?", None, "👍"),
        ("Shall it be red or blue?", None, "👍"),
        ("Which colour?", ["red", "blue"], "👍"),
        ("Which colour?", ["red", "blue"], "3️⃣"),
        ("Which colour?", None, "1️⃣"),
        ("Shall I delete it?", None, "❤️"),
        ("Shall I delete it?", None, "👀"),
    ],
)
def test_any_other_picture_is_thanks(text: str, options: list[str] | None, picture: str) -> None:
    scenario = asking(text, options)
    assert react(scenario, picture, question(scenario)) == []
    assert answers(scenario) == []


def test_a_picture_of_who_was_not_asked_or_to_another_message_answers_nothing() -> None:
    scenario = asking("Shall I delete it?")
    react(scenario, "👍", question(scenario), author=BOB, role=Role.MEMBER, name="bob")
    assert react(scenario, "👍", request(scenario)) == []
    assert answers(scenario) == []
    react(scenario, "👍", question(scenario))
    assert answers(scenario) == ["👍"]
    assert react(scenario, "👎", question(scenario)) == [], "it has been answered"


def test_yes_or_no_is_seen_by_the_first_word_of_the_last_sentence() -> None:
    assert asks_yes_or_no("I am done.\nShould I commit?")
    assert not any(map(asks_yes_or_no, ("", "Commit it", "How should I?", "Candy?", "Is it a or b?", "May I? Why?")))


# ---- decisions -------------------------------------------------------------------------------------------------------


def plans(question: dict[str, Any]) -> dict[str, Any]:
    if question["phase"] == "chat":
        return route("plan", "planner")
    if question["phase"] == "plan":
        return route("execute", "executor") if "execute" in question["permitted"] else WAITS
    return WAITS


def test_a_thumb_on_the_plan_approves_it_and_only_for_who_may() -> None:
    scenario = Scenario(
        plans, model_by_phase(), config=policy(gates=dataclasses.replace(ALWAYS, plan_approval="person"))
    )
    scenario.now = type(scenario.now)(36_000_000_000)
    scenario.converse("design it")
    plan = next(one for one in reversed(scenario.records(r.MessageSent)) if one.purpose == "completion")
    shown = str(plan.events[0].id)
    react(scenario, "👍", shown, author=BOB, role=Role.MEMBER, name="bob")
    only = "Only an owner can decide that, or the member who began this conversation."
    assert scenario.sent_texts()[-1] == only
    assert scenario.records(p.PlanApproved) == []
    assert react(scenario, "❤️", shown) == []
    react(scenario, "👍", shown)
    assert len(scenario.records(p.PlanApproved)) == 1
    assert react(scenario, "👍", shown) == [], "a second thumb is thanks"


@pytest.mark.parametrize(
    ("members_may", "who", "may"),
    [(True, BOB, True), (True, ALICE, True), (True, CAROL, False), (False, BOB, False), (False, ALICE, True)],
)
def test_a_thumb_on_the_question_about_checks_counts_as_a_yes_of_the_same_person(
    members_may: bool, who: PublicKey, may: bool
) -> None:
    rules = dataclasses.replace(ALWAYS, members_may_waive=members_may)
    scenario = scenario_at(Phase.EXECUTE, config=policy(gates=rules))
    scenario.user_writes("skip the tests", role=Role.MEMBER, author=BOB, name="bob")
    wishing(scenario, "verification")
    role = Role.OWNER if who == ALICE else Role.MEMBER
    react(scenario, "👍", question(scenario), author=who, role=role, name="somebody")
    assert bool(scenario.records(p.Waived)) is may
    assert len(scenario.records(r.AnswerUncounted)) == (not may)
    assert may or scenario.sent_texts()[-1].startswith("Only an owner")


# ---- who may not decide ----------------------------------------------------------------------------------------------


def test_who_may_not_answer_is_informed_once_for_each_question_also_after_a_restart() -> None:
    scenario = asking("Shall I delete it?")
    asked = question(scenario)
    bob: dict[str, Any] = {"author": BOB, "role": Role.GUEST, "name": "bob"}
    assert react(scenario, "❤️", asked, **bob) == [], "thanks need no notice"
    react(scenario, "👍", asked, **bob)
    notice = scenario.records(r.MessageSent)[-1]
    assert notice.text == "Executor asked alice or an owner, so your reaction is no answer."
    assert notice.notifies == (BOB,)
    assert ("p", BOB) in notice.tags
    assert react(scenario, "👎", asked, **bob) == []
    scenario.crash()
    assert react(scenario, "👍", asked, **bob) == []
    react(scenario, "👍", asked, author=CAROL, role=Role.GUEST, name="carol")
    assert len(scenario.records(r.AnswerUncounted)) == 2
    react(scenario, "👍", asked)
    assert answers(scenario) == ["👍"], "it still waits for who was asked"
    check_invariants(scenario)


def test_a_room_full_of_guests_gets_fifty_such_notices_a_day() -> None:
    scenario = asking("Shall I delete it?")
    asked = question(scenario)
    for number in range(MOST_A_DAY + 5):
        author = PublicKey(f"{number:064x}")
        react(scenario, "👍", asked, author=author, role=Role.GUEST, name=f"guest {number}")
    assert len(scenario.records(r.AnswerUncounted)) == MOST_A_DAY
    late = PublicKey("d" * 64)
    scenario.now = type(scenario.now)(scenario.now + DAY)
    react(scenario, "👍", asked, author=late, role=Role.GUEST, name="late")
    assert scenario.records(r.AnswerUncounted)[-1].author == late


def test_many_conversations_of_one_room_get_no_more_of_them_together() -> None:
    notices = Notices()
    bob: dict[str, Any] = {"author": BOB, "role": Role.GUEST, "name": "bob"}
    for number in range(MOST_A_DAY + 5):
        scenario = asking("Shall I delete it?")
        scenario.policy = dataclasses.replace(scenario.policy, notices_in_a_day=notices.in_a_day)
        react(scenario, "👍", question(scenario), **bob)
        notices.on_records(scenario.conversation, scenario.records(r.AnswerUncounted))
        assert len(scenario.records(r.AnswerUncounted)) == (number < MOST_A_DAY)
    now = scenario.now
    assert notices.in_a_day(chat_of(scenario.conversation.identity.address), now) == MOST_A_DAY
    assert notices.in_a_day("group kitchen wss://relay.example", now) == 0
    assert notices.in_a_day(chat_of(scenario.conversation.identity.address), Millis(now + DAY)) == 0


# ---- stop signs ------------------------------------------------------------------------------------------------------


def at_work() -> Scenario:
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[reply("done")])
    )
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    return scenario


@pytest.mark.parametrize("picture", ["🛑", "✋", "✋🏿"])
def test_a_stop_sign_on_the_request_stops_the_work(picture: str) -> None:
    scenario = at_work()
    react(scenario, picture, request(scenario))
    assert scenario.conversation.work.turn is None
    assert [record.command for record in scenario.records(r.CommandGiven)] == ["stop"]
    assert len(scenario.records(r.Stopped)) == 1
    assert scenario.sent_texts()[-1].startswith("Stopped: ")
    check_invariants(scenario)


def test_a_stop_sign_on_a_question_stops_too() -> None:
    scenario = asking("Shall I delete it?")
    react(scenario, "🛑", question(scenario))
    assert answers(scenario) == []
    assert len(scenario.records(r.Stopped)) == 1


def test_a_stop_sign_of_who_may_not_stop_or_of_before_is_none() -> None:
    scenario = at_work()
    scenario.now = type(scenario.now)(scenario.now + 3_600_000)
    assert react(scenario, "🛑", request(scenario), author=BOB, role=Role.MEMBER, name="bob") == []
    assert react(scenario, "🛑", request(scenario), author=BOB, role=Role.GUEST, name="bob") == []
    assert react(scenario, "🛑", request(scenario), late=7_200) == []
    assert scenario.conversation.work.turn is not None


def test_where_nothing_runs_a_stop_sign_says_nothing() -> None:
    scenario = at_work()
    while scenario.step():
        pass
    assert react(scenario, "🛑", request(scenario)) == []


# ---- what a message with files waits for


def received(text: str, author: PublicKey = ALICE, role: Role = Role.OWNER, **more: Any) -> MessageReceived:
    message = InboundMessage(
        event_id=EventId("e" * 64),
        author=author,
        text=text,
        created_at=0,
        conversation=ConversationId(ID),
        starts=False,
        **more,
    )
    return MessageReceived(message=message, role=role, name="someone")


@pytest.mark.parametrize(
    ("later", "is_stop"),
    [
        (received("/stop"), True),
        (received("@project /Stop."), True),
        (received("🛑", is_reaction=True), True),
        (received("/stop", BOB, Role.MEMBER), True),
        (received("/stop", CAROL, Role.MEMBER), False),
        (received("/stop", CAROL, Role.GUEST), False),
        (received("/stop", by_machine=True), False),
        (dataclasses.replace(received("/stop"), is_plain=True), False),
        (received("🛑"), False),
        (received("👍", is_reaction=True), False),
        (received("/status"), False),
        (received("Stop it, please."), False),
    ],
)
def test_who_stops_the_work_ends_the_wait_for_files_of_messages_before(
    later: MessageReceived, *, is_stop: bool
) -> None:
    state = new_conversation(ConversationId(ID))
    assert (
        stops_wait(state, policy().gates, later, received("See https://a.example/a.pdf", BOB, Role.MEMBER)) is is_stop
    )
