"""What the router and the agents are shown: everything once, in order, within bounds."""

import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import ModelCall
from tenex.core.phases import Phase
from tenex.core.roster import Limits
from tenex.core.state import CYCLE_MESSAGES, RECENT
from tenex.core.steps import AgentText, Entry, Note, PersonText, cut
from tenex.core.transcript import MESSAGE_CHARACTERS, TOTAL_CHARACTERS, question_for
from tests.core.kit import ENDS, WAITS, Script, go, mind, plain, standing, until, work
from tests.fakes.play import Play, rules, says


def shown(play: Play) -> tuple[Entry, ...]:
    """What the agent that has just been set to work is shown."""
    until(play, lambda it: it.conversation.turn is not None)
    call = next(effect for effect in work(play) if isinstance(effect, ModelCall))
    return call.entries


def question(play: Play) -> dict[str, Any]:
    """What the router is asked now."""
    asked: dict[str, Any] = json.loads(question_for(play.conversation, play.rules).text)
    return asked


def test_an_agent_is_shown_what_was_said_once_and_in_order() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor", "helper"), WAITS), agents=("project-manager",))
    entries = shown(play)
    assert [type(entry).__name__ for entry in entries] == ["PersonText", "AgentText", "Note", "Note"]
    assert entries[0] == PersonText(author="alice", text="build it")
    assert entries[1] == AgentText(author="Project-Manager", text="project-manager has done its part of chat")
    hand, part = entries[2:]
    assert isinstance(hand, Note)
    assert isinstance(part, Note)
    assert hand.text.startswith("From chat to execute: on to execute\n\nWhat has been done:\nproject-manager: ")
    assert part.text == "on to execute. helper work on it at the same time."


def test_files_of_the_cycle_are_named_to_the_next_agent() -> None:
    play = standing(
        Phase.CHAT, Script(go("execute", "executor"), go("verification", "helper"), WAITS),
        mind(execute=[says("", ("write_file", {"path": "b"}), ("write_file", {"path": "a"})), says("built")]),
    )  # fmt: skip
    until(play, lambda it: it.conversation.phase is Phase.VERIFICATION)
    part = shown(play)[-1]
    assert isinstance(part, Note)
    assert part.text.endswith("Files changed in this cycle: a, b")


def test_what_belongs_to_an_earlier_cycle_is_marked_as_done() -> None:
    play = standing(Phase.CHAT, Script(ENDS))
    play.settle()
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person("and now a poem")
    titles = [entry.title if isinstance(entry, Note) else getattr(entry, "text", "") for entry in shown(play)]
    assert titles[2:4] == ["A new request", "and now a poem"]


def test_a_message_too_long_to_show_is_cut_in_the_middle() -> None:
    play = Play(Script(go(None, "project-manager"), WAITS), plain)
    play.person("begin" + "x" * 500_000 + "end")
    first = shown(play)[0]
    assert isinstance(first, PersonText)
    assert first.text.startswith("begin")
    assert first.text.endswith("end")
    assert len(first.text) < MESSAGE_CHARACTERS + 100
    assert "characters left out" in first.text


def test_all_messages_together_are_bounded_and_the_request_is_always_there() -> None:
    play = Play(Script(go(None, "project-manager"), WAITS), plain, config=rules(limits=Limits(same_route=99)))
    play.person("the request")
    for n in range(RECENT + 25):
        play.person(f"message {n} " + "x" * 20_000)
    entries = shown(play)
    texts = [str(getattr(entry, "text", "")) for entry in entries]
    assert "the request" in texts
    assert sum(map(len, texts)) < TOTAL_CHARACTERS + 5_000
    assert any(text.startswith(f"message {RECENT + 24} ") for text in texts), "the newest is there"
    assert any(isinstance(entry, Note) and entry.title == "Earlier" for entry in entries)
    assert not any(isinstance(entry, Note) and entry.title == "A new request" for entry in entries)


@pytest.mark.parametrize(("length", "limit"), [(10, 10), (11, 10), (1_000, 10), (0, 10), (7, 0)])
def test_cut_keeps_both_ends(length: int, limit: int) -> None:
    text = "".join(chr(65 + n % 26) for n in range(length))
    short = cut(text, limit)
    if length <= limit:
        assert short == text
    else:
        half = limit // 2
        assert short.startswith(text[:half])
        assert short.endswith(text[length - half :])
        assert f"{length - 2 * half} characters left out" in short


# ---- the router's question ----------------------------------------------------------------------------------------


def test_the_question_holds_all_the_router_may_go_by() -> None:
    play = standing(Phase.EXECUTE, text="build it")
    asked = question(play)
    assert (asked["phase"], asked["cycle"], asked["can_end"]) == ("execute", 1, False)
    assert asked["permitted"] == ["verification", "chat"]
    assert asked["open_gates"] == ["verification", "chores", "reflection"]
    assert [message["text"] for message in asked["messages"]] == ["build it"]
    assert [(turn["phase"], turn["agents"]) for turn in asked["turns"]] == [
        ("chat", ["executor"]),
        ("execute", ["executor"]),
    ]
    assert asked["turns"][1]["completions"][0]["text"] == "executor has done its part of execute"
    assert asked["participants"] == ["executor"] == asked["still_to_reflect"]
    assert [member["slug"] for member in asked["roster"]] == list(play.rules.roster)
    assert "orchestrator" not in json.dumps(asked["roster"])


@pytest.mark.parametrize("phase", Phase)
def test_what_the_question_permits_is_what_is_then_accepted(phase: Phase) -> None:
    """For every target: offered to the router if and only if the decision is accepted."""
    for waived in ("", "/skip verification", "/quick"):
        for target in Phase:
            if target is phase:
                continue
            play = standing(phase)
            if waived:
                play.person(waived)
            asked = question(play)
            who = asked["still_to_reflect"] if target is Phase.REFLECTION else ["executor"]
            play.router = Script(go(target, *(who or ["executor"])), WAITS)
            play.settle()
            accepted = play.all(r.TurnOpened)[-1].phase is target and play.phases()[-1] is target
            assert accepted is (target in asked["permitted"]), (phase, target, waived)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("waived", ["", "/skip verification", "/skip reflection", "/quick"])
def test_can_end_is_what_is_then_accepted(phase: Phase, waived: str) -> None:
    play = standing(phase)
    if waived:
        play.person(waived)
    can_end = question(play)["can_end"]
    play.router = Script(ENDS, WAITS)
    play.settle()
    assert bool(play.all(r.Ended)) is can_end


def test_the_question_is_bounded_in_a_cycle_without_end() -> None:
    play = Play(Script(go(None, "project-manager"), WAITS), plain, config=rules(limits=Limits(same_route=10**6)))
    for n in range(CYCLE_MESSAGES + 20):
        play.router = Script(go(None, "project-manager"), WAITS)
        play.person(f"message {n} " + "x" * 30_000)
        play.settle()
    asked = question(play)
    assert len(asked["messages"]) == CYCLE_MESSAGES == len(asked["turns"])
    assert asked["messages"][0]["text"].startswith("message 0 "), "what began the cycle stays"
    assert asked["messages"][-1]["text"].startswith(f"message {CYCLE_MESSAGES + 19} ")
    assert all(len(message["text"]) < MESSAGE_CHARACTERS + 100 for message in asked["messages"])
