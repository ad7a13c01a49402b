"""The router's rules, one question at a time; `test_scripted_conversations` goes the usual way through the phases."""

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
CREATE = "Create hello.py that prints hello"
USER, END = (None, ["USER"]), (None, ["END"])


def ask(*texts: str) -> dict[str, Any]:
    notes = tuple(Note(title="routing", text=text) for text in texts)
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=notes)
    return dict(json.loads(answer_route(request)))


def turns(*wanted: str) -> list[dict[str, Any]]:
    """Turns as `phase:verdict or outcome`."""
    made = []
    for number, word in enumerate(wanted, start=1):
        phase, _, how = word.partition(":")
        done: dict[str, Any] = {"agent": "executor", "outcome": "finished", "text": "done", "summary": ""}
        done["verdict"] = how if how in ("verified", "issues") else None
        if how == "nothing":
            done["summary"] = "Nothing was changed: no idea"
        elif how and not done["verdict"]:
            done["outcome"] = how
        made.append({"turn": f"turn-{number}", "phase": phase, "agents": ["executor"], "completions": [done]})
    return made


def decide(*words: str, texts: list[tuple[str, str | None]] | None = None, **more: Any) -> dict[str, Any]:
    written, done = texts or [(CREATE, None)], turns(*words)
    phase = done[-1]["phase"] if done else "chat"
    question = {
        "phase": phase,
        "permitted": PERMITTED[phase],
        "messages": [{"id": str(at), "from": "Ada", "text": t, "after_turn": a} for at, (t, a) in enumerate(written)],
        "turns": done,
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


def to(phase: str, agent: str = "executor") -> tuple[str, list[str]]:
    return phase, [agent]


BOTH = ["planner", "executor"]
WAIVED = {"waived": ["verification"], "open_gates": ["chores", "reflection"], "permitted": ["chores", "chat"]}
NO = {"rejections": ["There is no agent 'executor'."], "permitted": ["verification"], "open_gates": ["verification"]}
ENDS = {"can_end": True, "waived": ["chores"]}


@pytest.mark.parametrize(
    ("words", "more", "expected"),
    [
        (["execute", "verification"], {}, to("execute")),
        ([], {"permitted": ["plan"]}, to("chat", "project-manager")),
        (["chores"], {"still_to_reflect": BOTH, "open_gates": ["reflection"]}, ("reflection", BOTH)),
        (["execute", "chores", "reflection"], {"open_gates": ["reflection"]}, to("reflection")),
        (["execute:failed"], {}, USER),
        (["execute:stopped"], {}, USER),
        (["plan"], {"permitted": []}, USER),
        (["execute"], WAIVED, to("chores")),
        (["execute"], ENDS, END),
        (["execute", "verification:verified"], ENDS, END),
        (["chores"], ENDS, END),
        (["execute"], NO, to("verification")),
        (["execute"], {**NO, "rejections": ["no", "no"]}, USER),
        (
            ["reflection"],
            {"can_end": True, "open_gates": ["chat"], "rejections": ["END is refused"]},
            to("chat", "project-manager"),
        ),
        ([], {"roster": ROSTER[3:]}, USER),
        ([], {"roster": [*ROSTER[3:], {**ROSTER[2], "slug": "smith"}]}, to("execute", "smith")),
    ],
)
def test_a_closed_turn_has_its_successor(words: list[str], more: dict[str, Any], expected: Any) -> None:
    assert brief(decide(*words, **more)) == expected


@pytest.mark.parametrize(
    ("words", "first", "news", "expected"),
    [
        (["execute:stopped"], CREATE, "continue", to("execute")),
        (["chat"], "hello", CREATE, to("execute")),
        (["brainstorm"], "hello", CREATE, to("execute")),
        (["execute", "verification:verified"], CREATE, "Create b.py that prints b", to("execute")),
        (["execute", "verification:issues"] * 3, CREATE, "continue", to("execute")),
    ],
)
def test_a_newer_message_is_routed_by_its_words(words: list[str], first: str, news: str, expected: Any) -> None:
    assert brief(decide(*words, texts=[(first, None), (news, f"turn-{len(words)}")])) == expected


def test_a_refused_wait_answers_the_message() -> None:
    """The core refuses to wait while a message has had no answer."""
    texts = [("hello", None), ("thanks", "turn-1")]
    refused = decide("execute:stopped", texts=texts, rejections=["USER is refused"])
    assert brief(refused) == to("chat", "project-manager")


@pytest.mark.parametrize("texts", [[], *([t] for t in ("", "null", "[]", "{", "{}", '{"turns": [null]}'))])
def test_an_unreadable_question_leads_to_the_user(texts: list[str]) -> None:
    assert ask(*texts)["agents"] == ["USER"]
