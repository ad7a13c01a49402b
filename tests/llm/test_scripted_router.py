"""The router's rules, one question at a time."""

import json
from typing import Any

import pytest

from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, Note
from tenex.llm.scripted.router import answer_route

ROSTER = [
    {"slug": "project-manager", "kind": "worker", "phases": ["chat"]},
    {"slug": "planner", "kind": "worker", "phases": ["plan"]},
    {"slug": "executor", "kind": "worker", "phases": ["execute"]},
    {"slug": "sage", "kind": "expert", "phases": []},
]
PERMITTED = {
    "chat": ["execute", "plan", "brainstorm"],
    "brainstorm": ["chat", "plan", "execute"],
    "plan": ["execute"],
    "execute": ["verification", "chat"],
    "verification": ["chores", "execute", "chat"],
    "chores": ["reflection"],
    "reflection": ["chat"],
}


def ask(text: str) -> dict[str, Any]:
    note = Note(title="routing", text=text)
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=(note,))
    return dict(json.loads(answer_route(request)))


def turn(number: int, phase: str, *, outcome: str = "finished", **completion: Any) -> dict[str, Any]:
    done = {"agent": "executor", "outcome": outcome, "text": "done", "summary": "", "verdict": None, **completion}
    return {"turn": f"turn-{number}", "phase": phase, "agents": [done["agent"]], "reason": "", "completions": [done]}


def decide(*turns: dict[str, Any], texts: list[tuple[str, str | None]] | None = None, **more: Any) -> dict[str, Any]:
    written = texts or [("Create hello.py that prints hello", None)]
    phase = turns[-1]["phase"] if turns else "chat"
    question = {
        "phase": phase,
        "permitted": PERMITTED[phase],
        "messages": [{"id": str(at), "from": "Ada", "text": t, "after_turn": a} for at, (t, a) in enumerate(written)],
        "turns": list(turns),
        "open_gates": [],
        "can_end": False,
        "still_to_reflect": ["executor"],
        "waived": [],
        "roster": ROSTER,
        "rejections": [],
    }
    return ask(json.dumps({**question, **more}))


def brief(answer: dict[str, Any]) -> tuple[str | None, list[str]]:
    return answer.get("phase"), answer["agents"]


def test_the_first_phase_follows_from_the_words() -> None:
    assert brief(decide()) == ("execute", ["executor"])
    assert brief(decide(texts=[("Design the billing service", None)])) == ("plan", ["planner"])
    assert brief(decide(texts=[("Could we do without?", None)])) == ("brainstorm", ["project-manager"])
    assert brief(decide(texts=[("thanks for that", None)])) == ("chat", ["project-manager"])


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([turn(1, "plan")], ("execute", ["executor"])),
        ([turn(1, "execute")], ("verification", ["executor"])),
        ([turn(1, "execute", summary="Nothing was changed: no idea")], (None, ["USER"])),
        ([turn(1, "execute"), turn(2, "verification", verdict="verified")], ("chores", ["executor"])),
        ([turn(1, "execute"), turn(2, "verification", verdict="issues")], ("execute", ["executor"])),
        ([turn(1, "execute"), turn(2, "verification")], (None, ["USER"])),
        ([turn(1, "chores")], ("reflection", ["executor"])),
        ([turn(1, "chat")], (None, ["USER"])),
        ([turn(1, "brainstorm")], (None, ["USER"])),
    ],
)
def test_a_closed_turn_has_its_successor(turns: list[dict[str, Any]], expected: tuple[str | None, list[str]]) -> None:
    assert brief(decide(*turns)) == expected


def test_issues_are_repaired_twice_and_then_reported() -> None:
    """The third verdict `issues` goes to the user, with the reason; a new message starts the count again."""
    turns: list[dict[str, Any]] = []
    seen = []
    for number in range(1, 7, 2):
        turns += [turn(number, "execute"), turn(number + 1, "verification", verdict="issues")]
        seen.append(brief(decide(*turns)))
    assert seen == [("execute", ["executor"]), ("execute", ["executor"]), (None, ["USER"])]
    assert "2 repairs" in decide(*turns)["reason"]
    news = [("Create hello.py", None), ("continue", "turn-6")]
    assert brief(decide(*turns, texts=news)) == ("execute", ["executor"])


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_a_failed_turn_is_tried_once_more(outcome: str) -> None:
    once = turn(1, "execute", outcome=outcome)
    assert brief(decide(once)) == ("execute", ["executor"])
    assert brief(decide(once, turn(2, "execute", outcome=outcome))) == (None, ["USER"])


def test_stopped_work_waits_for_the_user_and_resumes_when_asked_to() -> None:
    stopped = turn(1, "execute", outcome="stopped")
    assert brief(decide(stopped)) == (None, ["USER"])
    texts = [("Create hello.py that prints hello", None), ("continue", "turn-1")]
    assert brief(decide(stopped, texts=texts)) == ("execute", ["executor"])


def test_everyone_who_worked_reflects_and_then_it_ends() -> None:
    both = ["planner", "executor"]
    assert brief(decide(turn(1, "chores"), still_to_reflect=both)) == ("reflection", both)
    reflected = turn(2, "reflection")
    assert brief(decide(reflected, can_end=True)) == (None, ["END"])
    missing = decide(reflected, open_gates=["reflection"], still_to_reflect=["executor"])
    assert brief(missing) == ("reflection", ["executor"])


@pytest.mark.parametrize("phase", ["chat", "brainstorm"])
def test_a_newer_message_is_routed_by_its_words(phase: str) -> None:
    texts = [("hello", None), ("Create hello.py that prints hello", "turn-1")]
    assert brief(decide(turn(1, phase), texts=texts)) == ("execute", ["executor"])


def test_a_phase_that_is_not_permitted_is_not_chosen() -> None:
    """From chat with only plan permitted, an action stays in chat."""
    assert brief(decide(permitted=["plan"])) == ("chat", ["project-manager"])
    assert brief(decide(turn(1, "plan"), permitted=[])) == (None, ["USER"])


def test_what_is_asked_during_tests_is_built_before_chores() -> None:
    texts = [("Create a.py that prints a", None), ("Create b.py that prints b", "turn-2")]
    turns = [turn(1, "execute"), turn(2, "verification", verdict="verified")]
    assert brief(decide(*turns, texts=texts)) == ("execute", ["executor"])


def test_a_waived_verification_is_passed_by() -> None:
    more: dict[str, Any] = {
        "waived": ["verification"],
        "open_gates": ["chores", "reflection"],
        "permitted": ["chores", "chat"],
    }
    passed = decide(turn(1, "execute"), **more)
    assert brief(passed) == ("chores", ["executor"])
    for phase, verdict in (("execute", None), ("verification", "verified"), ("chores", None)):
        assert brief(decide(turn(1, phase, verdict=verdict), can_end=True, waived=["chores"])) == (None, ["END"])


def test_after_rejections_the_user_is_the_last_resort() -> None:
    rejections = ["There is no agent 'executor'."]
    more: dict[str, Any] = {"permitted": ["verification"], "open_gates": ["verification"]}
    assert brief(decide(turn(1, "execute"), rejections=rejections, **more)) == ("verification", ["executor"])
    assert brief(decide(turn(1, "execute"), rejections=rejections * 2, **more)) == (None, ["USER"])


def test_a_refused_end_goes_to_the_open_gate() -> None:
    more: dict[str, Any] = {"can_end": True, "open_gates": ["chat"], "rejections": ["END is refused"]}
    assert brief(decide(turn(1, "reflection"), **more)) == ("chat", ["project-manager"])


def test_a_refused_wait_answers_the_message() -> None:
    """The core refuses to wait while a message has had no answer."""
    texts = [("hello", None), ("thanks", "turn-1")]
    answer = decide(turn(1, "execute", outcome="stopped"), texts=texts, rejections=["USER is refused"])
    assert answer["agents"] != []


def test_experts_are_never_chosen_and_an_empty_roster_waits() -> None:
    expert = [{"slug": "sage", "kind": "expert", "phases": []}]
    assert brief(decide(roster=expert)) == (None, ["USER"])
    other = [*expert, {"slug": "smith", "kind": "worker", "phases": ["execute"]}]
    assert brief(decide(roster=other)) == ("execute", ["smith"])


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "{}", '{"turns": [null]}', '{"rejections": [], "turns": 1}'])
def test_an_unreadable_question_leads_to_the_user(text: str) -> None:
    assert ask(text)["agents"] == ["USER"]


def test_a_question_without_a_note_leads_to_the_user() -> None:
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=())
    assert json.loads(answer_route(request))["agents"] == ["USER"]
