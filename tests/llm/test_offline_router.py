"""The router's rules, one question at a time."""

import json
from typing import Any

import pytest

from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, Note
from tenex.llm.scripted.router import answer_route

from .small_core import ROSTER

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
    said = texts or [("Create hello.py that prints hello", None)]
    phase = turns[-1]["phase"] if turns else "chat"
    question = {
        "phase": phase,
        "permitted": PERMITTED[phase],
        "messages": [{"id": str(at), "from": "Ada", "text": t, "after_turn": a} for at, (t, a) in enumerate(said)],
        "turns": list(turns),
        "open_gates": [],
        "can_end": False,
        "participants": ["executor"],
        "waived": [],
        "roster": ROSTER,
        "rejections": [],
    }
    return ask(json.dumps({**question, **more}))


def brief(answer: dict[str, Any]) -> tuple[str | None, list[str]]:
    return answer.get("phase"), answer["agents"]


@pytest.mark.parametrize(
    ("text", "phase", "agent"),
    [
        ("Create hello.py that prints hello", "execute", "executor"),
        ("Fix the typo in the readme", "execute", "executor"),
        ("Can you add a test for the parser?", "execute", "executor"),
        ("Erstelle hallo.py, das Hallo ausgibt", "execute", "executor"),
        ("Crea un archivo con hola", "execute", "executor"),
        ("Ajoute une fonction add à calc.py", "execute", "executor"),
        ("How should we structure the billing service?", "plan", "planner"),
        ("Design the architecture and create the modules", "plan", "planner"),
        ("Brainstorm with me: what if we build a game?", "brainstorm", "project-manager"),
        ("Could we do this without a server?", "brainstorm", "project-manager"),
        ("Make me happy", "chat", "project-manager"),
        ("What does hello.py do?", "chat", "project-manager"),
        ("hello", "chat", "project-manager"),
        ("", "chat", "project-manager"),
    ],
)
def test_the_first_phase_follows_from_the_words(text: str, phase: str, agent: str) -> None:
    assert brief(decide(texts=[(text, None)])) == (phase, [agent])


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


def test_issues_are_repaired_twice_and_then_told() -> None:
    """The third verdict `issues` goes to the person, with the reason; a new message starts the count again."""
    turns: list[dict[str, Any]] = []
    seen = []
    for number in range(1, 7, 2):
        turns += [turn(number, "execute"), turn(number + 1, "verification", verdict="issues")]
        seen.append(brief(decide(*turns)))
    assert seen == [("execute", ["executor"]), ("execute", ["executor"]), (None, ["USER"])]
    assert "2 rounds" in decide(*turns)["reason"]
    news = [("Create hello.py", None), ("continue", "turn-6")]
    assert brief(decide(*turns, texts=news)) == ("execute", ["executor"])


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_a_failed_turn_is_tried_once_more(outcome: str) -> None:
    once = turn(1, "execute", outcome=outcome)
    assert brief(decide(once)) == ("execute", ["executor"])
    answer = decide(once, turn(2, "execute", outcome=outcome))
    assert brief(answer) == (None, ["USER"])
    assert "executor" in answer["reason"]


def test_stopped_work_waits_for_the_person_and_resumes_at_their_word() -> None:
    stopped = turn(1, "execute", outcome="stopped")
    assert brief(decide(stopped)) == (None, ["USER"])
    texts = [("Create hello.py that prints hello", None), ("continue", "turn-1")]
    assert brief(decide(stopped, texts=texts)) == ("execute", ["executor"])


def test_everyone_who_worked_reflects_and_then_it_ends() -> None:
    people: dict[str, Any] = {"participants": ["planner", "executor", "gone"]}
    assert brief(decide(turn(1, "chores"), **people)) == ("reflection", ["planner", "executor"])
    reflected = turn(2, "reflection")
    assert brief(decide(reflected, can_end=True, **people)) == (None, ["END"])
    missing = decide(reflected, open_gates=["reflection"], **people)
    assert brief(missing) == ("reflection", ["planner"])
    told = decide(reflected, open_gates=["reflection"], still_to_reflect=["executor"], **people)
    assert brief(told) == ("reflection", ["executor"])


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
    assert passed["reason"] == "verification was waived"
    for phase, verdict in (("execute", None), ("verification", "verified"), ("chores", None)):
        assert brief(decide(turn(1, phase, verdict=verdict), can_end=True, waived=["chores"])) == (None, ["END"])


def test_a_rejected_choice_is_not_made_again_and_the_person_is_the_last_resort() -> None:
    """Every answer to one question differs from those refused before it."""
    rejections: list[str] = []
    answers = []
    for _ in range(3):
        answers.append(brief(decide(rejections=rejections)))
        rejections.append("There is no agent 'executor'.")
    assert len({str(answer) for answer in answers}) == 3
    assert answers[0] == ("execute", ["executor"])
    assert answers[-1] == (None, ["USER"])


def test_a_refused_end_goes_to_the_open_gate() -> None:
    more: dict[str, Any] = {"can_end": True, "open_gates": ["chat"], "rejections": ["END is refused"]}
    assert brief(decide(turn(1, "reflection"), **more)) == ("chat", ["project-manager"])


def test_a_refused_wait_answers_the_message() -> None:
    """The core refuses to wait while a message has had no answer."""
    texts = [("hello", None), ("thanks", "turn-1")]
    answer = decide(turn(1, "execute", outcome="stopped"), texts=texts, rejections=["USER is refused"])
    assert answer["agents"] != []


def test_experts_are_never_chosen_and_an_empty_roster_waits() -> None:
    expert = [{"slug": "sage", "kind": "expert"}]
    assert brief(decide(roster=expert)) == (None, ["USER"])
    other = [*expert, {"slug": "smith", "kind": "worker", "phases": ["execute"]}]
    assert brief(decide(roster=other)) == ("execute", ["smith"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        "{",
        '{"phase": 3, "turns": 1}',
        '{"turns": [null]}',
        '{"messages": [{"text": null}]}',
        '{"messages": "x"}',
        '{"roster": {"a": 1}}',
        "[" * 100_000,
        '{"phase": "' + "\ud800" + '"}',
        "\x00",
        '{"turns": [{"completions": [{"outcome": null}]}]}',
        "{}",
        '{"messages": []}',
        '{"messages": [{}]}',
        '{"phase": "Nowhere", "messages": [{"text": "Create x.py"}]}',
        '{"turns": [{}], "phase": "moon"}',
        '{"turns": [{"phase": "reflection"}]}',
        '{"turns": [{"phase": "verification", "completions": [{}]}]}',
        '{"turns": [{"phase": "execute", "completions": [{}]}], "messages": [{"after_turn": 7}]}',
    ],
)
def test_odd_questions_lead_to_the_person(text: str) -> None:
    """Whatever the note holds, the answer is a decision, and without a roster it is to wait."""
    assert ask(text)["agents"] == ["USER"]


def test_a_question_without_a_note_leads_to_the_person() -> None:
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=())
    assert json.loads(answer_route(request))["agents"] == ["USER"]
