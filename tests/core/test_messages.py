"""What a user writes: work, an answer to a question, or words for agents that are busy."""

from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.effects import ModelCall
from tenex.core.ids import PublicKey
from tenex.core.messages import UserText
from tenex.core.phases import Phase
from tenex.core.state.conversation import TITLE_CHARACTERS, title_of
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    check_idle,
    diligent,
    in_flight,
    model_by_phase,
    plain_model,
    reply,
    route,
    rules,
    scenario_at,
    seven_phases,
    step_until,
)


def asking(*agents: str, questions: int = 1) -> Scenario:
    """A scenario in which these agents have asked."""

    def ask(conversation: object, call: ModelCall) -> object:
        who = call.run.split(".")[1]
        run = conversation.runs[call.run]  # type: ignore[attr-defined]
        if run.steps:
            return reply(f"{who} is done")
        return reply("", *(("ask", {"question": f"{who} wants to know ({n})"}) for n in range(questions)))

    scenario = scenario_at(Phase.CHAT, Router(route("execute", *agents), WAITS), model_by_phase(execute=ask))
    step_until(scenario, lambda it: len(it.records(r.QuestionAsked)) == len(agents) * questions)
    return scenario


def event_of(scenario: Scenario, question: str) -> str:
    """The event id of a question that was put."""
    return str(next(sent.events[0].id for sent in scenario.records(r.MessageSent) if sent.text == question))


def answers(scenario: Scenario) -> list[tuple[str, str]]:
    """(agent, answer) of every question answered."""
    return [(record.run.split(".")[1], record.text) for record in scenario.records(r.QuestionAnswered)]


def test_with_several_questions_open_the_daemon_asks_which() -> None:
    scenario = asking("executor", "helper")
    scenario.user_writes("blue")
    assert answers(scenario) == []
    assert scenario.sent_texts()[-1] == (
        "Several of us wait for an answer (Executor, Helper). Please reply to the question you mean."
    )
    scenario.user_writes("blue", reply_to=event_of(scenario, "helper wants to know (0)"))
    assert answers(scenario) == [("helper", "blue")]
    scenario.settle()
    scenario.user_writes("red")
    assert answers(scenario) == [("helper", "blue"), ("executor", "red")], "only one is left, so no reply is needed"
    one = asking("executor", questions=2)
    one.user_writes("blue")
    assert one.sent_texts()[-1] == "Executor has asked several things. Please reply to the question you mean."
    one.user_writes("b", reply_to=event_of(one, "executor wants to know (1)"))
    assert in_flight(one) == [], "it goes on when it has both answers"
    one.converse("a")
    assert answers(one) == [("executor", "b"), ("executor", "a")]


def test_a_message_no_one_was_shown_is_not_waited_away() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS, route(None, "helper"), WAITS))
    step_until(scenario, lambda it: it.conversation.turn is not None)
    scenario.user_writes("and one more thing")  # its only model call is already running
    scenario.settle()
    assert "newest message has had no answer" in scenario.records(r.RouteRejected)[0].sentence
    assert scenario.records(r.TurnOpened)[-1].agents == ("helper",)
    assert scenario.conversation.waiting_for == "user"


def test_the_same_event_twice_is_received_once_in_any_form() -> None:
    scenario = scenario_at(Phase.CHAT)
    for text in ("hello", "/status", "@planner hi"):
        assert scenario.user_writes(text, event_id=f"{text:0>64}")
        assert scenario.user_writes(text, event_id=f"{text:0>64}") == []


PROJECT_KEY = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
PROJECT_NPUB = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
PROJECT_NPROFILE = (
    "nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhxue69uhhytnc9e3k7mgpz4mhxue69uhkg6nzv9ejuumpv"
    "34kytnrdaksjlyr9p"
)
"""A key in the forms of NIP-19; the nprofile is the NIP's own example."""


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n   \n  Build a page\nwith a form\n", "Build a page"),
        (" \n\t ", "Untitled"),
        ("x" * 200, "x" * (TITLE_CHARACTERS - 1) + "…"),
        ("/help", ""),
    ],
)
def test_the_title_is_the_first_line_that_is_not_empty_and_no_command(text: str, title: str) -> None:
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), plain_model)
    scenario.user_writes(text)
    assert scenario.conversation.title == title
    scenario.user_writes("Build a shed\nwith a roof")
    assert scenario.conversation.title == (title or "Build a shed")


@pytest.mark.parametrize(
    ("written", "recorded"),
    [
        ("nostr:{npub}, build it", "build it"),
        ("build it\n@{npub} nostr:{nprofile}", "build it"),
        ("Hello {npub}, build it", "Hello Orchestrator, build it"),
        ("nostr:{nprofile} @executor build it", "@executor build it"),
        ("nostr:{npub}", "nostr:{npub}"),
        ("{other} wants this", "{other} wants this"),
    ],
)
def test_the_projects_own_mention_is_left_out_of_the_request(written: str, recorded: str) -> None:
    project = replace(rules().project, pubkey=PublicKey(PROJECT_KEY))
    scenario = Scenario(seven_phases, diligent, config=replace(rules(), project=project))
    names = {"npub": PROJECT_NPUB, "nprofile": PROJECT_NPROFILE, "other": f"npub1{'q' * 58}"}
    scenario.user_writes(written.format(**names))
    (message,) = scenario.records(r.MessageRecorded)
    assert message.text == recorded.format(**names)
    assert scenario.conversation.title == title_of(message.text)


def test_two_users_of_one_name_are_distinguished_by_role_and_key() -> None:
    router = Router(route("execute", "executor"), WAITS)
    scenario = Scenario(router, plain_model)
    scenario.user_writes("make it blue")
    scenario.user_writes("make it red", role=Role.MEMBER, author=PublicKey("b" * 64))
    scenario.step()
    asked = [(message["from"], message["role"], message["key"]) for message in router.asked[0]["messages"]]
    assert asked == [("alice", "owner", "npub14242424"), ("alice", "member", "npub1hwamhwa")]
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    shown = [(entry.role, entry.key[:1]) for entry in call.entries if isinstance(entry, UserText)]
    assert shown == [("owner", "a"), ("member", "b")]


@pytest.mark.parametrize("text", ["\ud800", "\x00", "/stop\x00", "a" * 300_000, "“" * 60_000, "'" * 60_000])
def test_no_text_breaks_a_decision(text: str) -> None:
    waiver = scenario_at(Phase.EXECUTE, text=f"so: {text}")
    waiver.router = Router({**route("chores", "executor"), "waive": ["chores"]}, WAITS)
    for scenario in (Scenario(Router(WAITS), plain_model), asking("executor"), waiver.settle()):
        scenario.converse(text)
        scenario.converse(text, addressed=("planner",), reply_to="\ud800")
        check_idle(scenario)


def test_while_all_is_parked_any_text_answers_the_only_question_and_a_later_reply_to_it_is_ordinary_talk() -> None:
    scenario = asking("executor")
    assert in_flight(scenario) == []
    scenario.user_writes("blue")
    assert answers(scenario) == [("executor", "blue")]
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    shown = [entry.text for entry in call.entries if isinstance(entry, UserText)]
    assert "blue" not in shown, "it is the call's result, and is shown once"
    scenario.user_writes("no, red", reply_to=event_of(scenario, "executor wants to know (0)"))
    assert answers(scenario) == [("executor", "blue")]
    check_idle(scenario.settle())
    assert [message.text for message in scenario.conversation.unanswered] == ["no, red"]


def test_a_mention_of_the_one_who_asked_is_an_answer_and_one_of_somebody_else_has_to_wait() -> None:
    scenario = asking("executor", "helper")
    scenario.user_writes("@executor blue", addressed=("executor",))
    assert answers(scenario) == [("executor", "@executor blue")]
    assert scenario.conversation.addressed == ()
    scenario.settle()
    scenario.user_writes("@planner and you?", addressed=("planner",))
    assert len(answers(scenario)) == 1
    assert scenario.sent_texts()[-1].startswith("Helper must have an answer first")
    scenario.converse("red")
    assert scenario.records(r.TurnOpened)[-1].agents == ("planner",)
    check_idle(scenario)
