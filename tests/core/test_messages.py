"""What a person writes: work, an answer to a question, or words for agents that are busy."""

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.effects import ModelCall, Work
from tenex.core.ids import PublicKey
from tenex.core.messages import UserText
from tenex.core.phases import Phase
from tenex.core.state.conversation import TITLE_CHARACTERS
from tests.fakes.play import Play, diligent, says, seven_phases

from .kit import WAITS, Script, check_rest, go, mind, plain, standing, until, work


def asking(*agents: str, questions: int = 1, others: tuple[str, ...] = ()) -> Play:
    """A play in which these agents have asked, and these others are still at work."""

    def ask(conversation: object, call: ModelCall) -> object:
        who = call.run.split(".")[1]
        run = conversation.runs[call.run]  # type: ignore[attr-defined]
        if who in others:
            return says("never mind")
        if run.steps:
            return says(f"{who} is done")
        return says("", *(("ask", {"question": f"{who} wants to know ({n})"}) for n in range(questions)))

    play = standing(Phase.CHAT, Script(go("execute", *agents, *others), WAITS), mind(execute=ask))
    until(play, lambda it: len(it.all(r.QuestionAsked)) == len(agents) * questions)
    return play


def event_of(play: Play, question: str) -> str:
    """The event id of a question that was put."""
    return str(next(said.events[0].id for said in play.all(r.MessageSent) if said.text == question))


def answers(play: Play) -> list[tuple[str, str]]:
    """(agent, answer) of every question answered."""
    return [(record.run.split(".")[1], record.text) for record in play.all(r.QuestionAnswered)]


# ---- answers ------------------------------------------------------------------------------------------------------


def test_while_all_is_parked_any_text_answers_the_only_question() -> None:
    play = asking("executor")
    assert work(play) == []
    play.person("blue")
    assert answers(play) == [("executor", "blue")]
    (call,) = work(play)
    assert isinstance(call, ModelCall)
    shown = [entry.text for entry in call.entries if isinstance(entry, UserText)]
    assert "blue" not in shown, "it is the call's result, and is shown once"


def test_with_several_questions_open_the_daemon_asks_which() -> None:
    play = asking("executor", "helper")
    play.person("blue")
    assert answers(play) == []
    assert play.said()[-1] == (
        "Several of us wait for an answer (Executor, Helper). Please reply to the question you mean."
    )
    play.person("blue", reply_to=event_of(play, "helper wants to know (0)"))
    assert answers(play) == [("helper", "blue")]
    play.settle()
    play.person("red")
    assert answers(play) == [("helper", "blue"), ("executor", "red")], "only one is left, so no reply is needed"


def test_one_agent_with_two_questions_is_asked_which() -> None:
    play = asking("executor", questions=2)
    play.person("blue")
    assert answers(play) == []
    assert play.said()[-1] == "Executor has asked several things. Please reply to the question you mean."
    play.person("b", reply_to=event_of(play, "executor wants to know (1)"))
    assert work(play) == [], "it goes on when it has both answers"
    play.person("a")
    play.settle()
    assert answers(play) == [("executor", "b"), ("executor", "a")]
    assert play.conversation.waiting_for == "user"


def test_a_reply_answers_although_others_are_still_at_work() -> None:
    play = asking("executor", others=("helper",))
    until(play, lambda it: "turn-2.executor" in it.conversation.runs)
    play.person("blue", reply_to=event_of(play, "executor wants to know (0)"))
    assert answers(play) == [("executor", "blue")]


def test_without_a_reply_words_while_others_work_are_for_all_who_work() -> None:
    play = standing(
        Phase.CHAT,
        Script(go("execute", "executor", "helper"), WAITS),
        mind(execute=lambda c, call: says("", ("ask", {"question": "?"})) if "executor" in call.run else says("done")),
    )
    until(play, lambda it: bool(it.all(r.QuestionAsked)))
    play.person("hurry")
    assert answers(play) == []
    assert [run.unseen[-1].text for run in play.conversation.runs.values()] == ["hurry", "hurry"]


def test_a_mention_of_the_one_who_asked_is_an_answer_and_no_second_turn() -> None:
    play = asking("executor", "helper")
    play.person("@executor blue", addressed=("executor",))
    assert answers(play) == [("executor", "@executor blue")]
    assert play.conversation.addressed == ()


def test_a_mention_of_somebody_else_while_all_is_parked_is_told_to_wait() -> None:
    play = asking("executor")
    play.person("@planner and you?", addressed=("planner",))
    assert answers(play) == []
    assert play.said()[-1].startswith("Executor must have an answer first")
    play.person("blue")
    play.settle()
    assert play.all(r.TurnOpened)[-1].agents == ("planner",)
    check_rest(play)


def test_a_question_is_answered_after_a_restart() -> None:
    play = asking("executor")
    asked = event_of(play, "executor wants to know (0)")
    play.crash()
    assert work(play) == []
    play.person("blue", reply_to=asked)
    play.crash()
    play.settle()
    assert answers(play) == [("executor", "blue")]
    assert play.all(r.RunEnded)[-1].outcome == "finished"


def test_a_reply_to_a_question_that_is_answered_already_is_ordinary_talk() -> None:
    play = asking("executor")
    asked = event_of(play, "executor wants to know (0)")
    play.person("blue", reply_to=asked)
    play.person("no, red", reply_to=asked)
    assert answers(play) == [("executor", "blue")]
    play.settle()
    check_rest(play)
    assert [message.text for message in play.conversation.unanswered] == ["no, red"]


@pytest.mark.parametrize("role", Role)
def test_anyone_who_may_talk_may_answer(role: Role) -> None:
    play = asking("executor")
    play.person("blue", role=role)
    assert answers(play) == [("executor", "blue")]


def test_a_command_is_no_answer() -> None:
    play = asking("executor")
    play.person("/status")
    assert answers(play) == []
    assert "Executor: waits for your answer" in play.said()[-1]


# ---- messages while work goes on ----------------------------------------------------------------------------------


def test_a_message_during_a_turn_is_shown_before_the_next_model_call_and_to_the_router() -> None:
    router = Script(go("execute", "executor"), WAITS)
    play = standing(Phase.CHAT, router, mind(execute=[says("", ("read_file", {})), says("done")]))
    until(play, lambda it: any(effect.key.work is Work.TOOL for effect in it.running.values()))
    play.person("make it green")
    assert [effect.key.work for effect in work(play)] == [Work.TOOL], "nothing is started anew"
    play.settle()
    assert router.asked[-1]["messages"][-1]["text"] == "make it green"
    run = next(rec for rec in reversed(play.all(r.ModelResponded)))
    assert run.step.text == "done"


def test_a_message_nobody_was_shown_is_not_waited_away() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS, go(None, "helper"), WAITS))
    until(play, lambda it: it.conversation.turn is not None)
    play.person("and one more thing")  # its only model call is already running
    play.settle()
    assert "newest message has had no answer" in play.all(r.RouteRejected)[0].sentence
    assert play.all(r.TurnOpened)[-1].agents == ("helper",)
    assert play.conversation.waiting_for == "user"


def test_the_same_event_twice_is_heard_once_in_any_form() -> None:
    play = standing(Phase.CHAT)
    for text in ("hello", "/status", "@planner hi"):
        assert play.person(text, event_id=f"{text:0>64}")
        assert play.person(text, event_id=f"{text:0>64}") == []


# ---- the beginning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Build a page\nwith a form", "Build a page"),
        ("\n\n   \n  hello  \n", "hello"),
        ("", "Untitled"),
        (" \n\t ", "Untitled"),
        ("x" * 200, "x" * (TITLE_CHARACTERS - 1) + "…"),
    ],
)
def test_the_title_is_the_first_line_that_says_something(text: str, title: str) -> None:
    play = Play(Script(go(None, "project-manager"), WAITS), plain)
    play.person(text)
    assert play.conversation.title == title
    play.settle()
    check_rest(play)


STRANGE = [
    "\ud800",
    "\udfff\ud800",
    "a\udc80b",
    "\x00",
    "\x1b[2J\x07",
    "\r\n\x0b\x0c\x85\u2028\u2029",
    "\u202e\u200b\ufeff",
    "/\ud800",
    "/stop\x00",
    "/stop\n",
    "/",
    "//",
    "/ stop",
    "/STOP",
    "\U0010ffff" * 10,
    "🏴‍☠️",
    "a" * 300_000,
    "{}[]\"'\\",
    "{{ system }}{% raw %}",
    "> ",
    "```",
    "İ" * 50,
    "ß" * 50,
    "“" * 60_000,
    "„" * 60_000,
    "«" * 60_000,
    "'" * 60_000,
]


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: repr(text[:12]))
def test_no_text_breaks_a_decision_in_any_status(text: str) -> None:
    new = Play(Script(go(None, "project-manager"), WAITS), plain)
    waiting = standing(Phase.CHAT)
    waiting.settle()
    ended = standing(Phase.CHAT, Script({"agents": ["END"], "reason": "x"}))
    ended.settle()
    ended.router = Script(go(None, "project-manager"), WAITS)
    active = standing(Phase.CHAT, Script(go("execute", "executor"), go(None, "executor"), WAITS))
    until(active, lambda it: it.conversation.turn is not None)
    waiver = standing(Phase.EXECUTE, text=f"so: {text}")
    waiver.router = Script({**go("chores", "executor"), "waive": ["chores"]}, WAITS)
    waiver.settle()
    for play in (new, waiting, ended, active, asking("executor"), waiver):
        play.person(text)
        play.settle(most=200)
        play.person(text, addressed=("planner",), reply_to="\ud800")
        play.settle(most=200)
        check_rest(play)


def test_a_command_names_no_conversation_the_first_real_message_does() -> None:
    play = Play(seven_phases, diligent)
    play.person("/help")
    assert play.conversation.title == ""
    play.person("Build a shed\nwith a roof")
    assert play.conversation.title == "Build a shed"
    assert play.refold() == play.conversation


def test_two_people_of_one_name_are_told_apart_by_role_and_key() -> None:
    router = Script(go("execute", "executor"), WAITS)
    play = Play(router, plain)
    play.person("make it blue")
    play.person("make it red", role=Role.MEMBER, author=PublicKey("b" * 64))
    play.step()
    asked = [(message["from"], message["role"], message["key"]) for message in router.asked[0]["messages"]]
    assert asked == [("alice", "owner", "npub14242424"), ("alice", "member", "npub1hwamhwa")]
    (call,) = work(play)
    assert isinstance(call, ModelCall)
    shown = [(entry.role, entry.key[:1]) for entry in call.entries if isinstance(entry, UserText)]
    assert shown == [("owner", "a"), ("member", "b")]
