"""The router's rules, one question at a time; `test_scripted_conversations` goes the usual way through the phases."""

import json
from typing import Any

import pytest

from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, Note
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.llm.scripted.router import answer_route

ROSTER = [
    {"slug": "project-manager", "kind": "worker", "phases": ["chat"]},
    {"slug": "planner", "kind": "worker", "phases": ["plan"]},
    {"slug": "executor", "kind": "worker", "phases": ["execute"]},
    {"slug": "sage", "kind": "expert", "phases": []},
]
CREATE = "Create hello.py that prints hello"


def ask(*texts: str) -> dict[str, Any]:
    notes = tuple(Note(title="routing", text=text) for text in texts)
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=notes)
    return dict(json.loads(answer_route(request)))


def turn(number: int, word: str) -> dict[str, Any]:
    """A turn as `phase:verdict or outcome`."""
    phase, _, how = word.partition(":")
    is_verdict = how in ("verified", "issues")
    done = {"agent": "executor", "text": "done", "summary": "", "verdict": how if is_verdict else None}
    done["outcome"] = "finished" if is_verdict or not how else how
    return {"turn": f"turn-{number}", "phase": phase, "agents": ["executor"], "completions": [done]}


def decide(words: str, first: str = CREATE, news: str = "", **more: Any) -> str:
    """Phase and agents after these turns, with a message at their beginning and perhaps one after the last."""
    done = [turn(number, word) for number, word in enumerate(words.split(), start=1)]
    phase = done[-1]["phase"] if done else "chat"
    history = [{"id": "0", "from": "Ada", "text": first}, *done]
    if news:
        history.append({"id": "1", "from": "Ada", "text": news})
    question = {
        "phase": phase,
        "permitted": PHASE_TRANSITIONS.permitted(Phase(phase)),
        "history": history,
        "open_gates": [],
        "can_end": False,
        "still_to_reflect": ["executor"],
        "waived": [],
        "roster": ROSTER,
        "rejections": [],
    }
    answer = ask(json.dumps({**question, **more}))
    return " ".join([*filter(None, [answer.get("phase")]), *answer["agents"]])


WAIVED = {"waived": ["verification"], "open_gates": ["chores", "reflection"], "permitted": ["chores", "chat"]}
NO = {"rejections": ["There is no agent 'executor'."], "permitted": ["verification"], "open_gates": ["verification"]}
ENDS = {"can_end": True, "waived": ["chores"]}


@pytest.mark.parametrize(
    ("words", "more", "expected"),
    [
        ("execute verification", {}, "execute executor"),
        ("", {"permitted": ["plan"]}, "chat project-manager"),
        (
            "chores",
            {"still_to_reflect": ["planner", "executor"], "open_gates": ["reflection"]},
            "reflection planner executor",
        ),
        ("execute chores reflection", {"open_gates": ["reflection"]}, "reflection executor"),
        ("execute:failed", {}, "USER"),
        ("plan", {"permitted": []}, "USER"),
        ("execute", WAIVED, "chores executor"),
        ("execute", ENDS, "END"),
        ("chores", ENDS, "END"),
        ("execute", NO, "verification executor"),
        ("execute", {**NO, "rejections": ["no", "no"]}, "USER"),
        ("reflection", {**ENDS, "open_gates": ["chat"], "rejections": ["END is refused"]}, "chat project-manager"),
        ("", {"roster": ROSTER[3:]}, "USER"),
        ("", {"roster": [*ROSTER[3:], {**ROSTER[2], "slug": "smith"}]}, "execute smith"),
        ("execute:stopped", {"news": "continue"}, "execute executor"),
        ("brainstorm", {"first": "hello", "news": CREATE}, "execute executor"),
        ("execute verification:verified", {"news": "Create b.py that prints b"}, "execute executor"),
        ("execute verification:issues " * 3, {"news": "continue"}, "execute executor"),
        (
            "execute:stopped",
            {"first": "hello", "news": "thanks", "rejections": ["USER is refused"]},  # the message has had no answer
            "chat project-manager",
        ),
    ],
)
def test_a_closed_turn_and_the_messages_after_it_lead_to_the_next(
    words: str, more: dict[str, Any], expected: str
) -> None:
    assert decide(words, **more) == expected


@pytest.mark.parametrize("texts", [[], *([t] for t in ("", "null", "[]", "{", "{}", '{"history": [null]}'))])
def test_an_unreadable_question_leads_to_the_user(texts: list[str]) -> None:
    assert ask(*texts)["agents"] == ["USER"]


@pytest.mark.parametrize(
    ("news", "is_thanks"),
    [
        ("enough", True),
        ("danke, das reicht", True),
        ("ok, that's enough", True),
        ("danke", True),
        ("ok thanks", True),
        (CREATE, False),
        ("hm", False),
        ("all tests must pass", False),
    ],
)
def test_thanks_and_a_wish_to_end_in_a_gate_ask_for_no_work(news: str, *, is_thanks: bool) -> None:
    done = [
        turn(number, word) for number, word in enumerate(["execute", "verification:verified", "reflection"], start=1)
    ]
    first = {"id": "0", "from": "Ada", "text": CREATE}
    late = {"id": "1", "from": "Ada", "text": news}
    question = {"phase": "reflection", "permitted": ["chat"], "history": [first, *done, late]}
    rest = {"open_gates": [], "can_end": True, "still_to_reflect": [], "waived": [], "roster": ROSTER, "rejections": []}
    decision = ask(json.dumps({**question, **rest}))
    assert decision.get("settles", []) == ([{"words": news, "as": "thanks"}] if is_thanks else [])
