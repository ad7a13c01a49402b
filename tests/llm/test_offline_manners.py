"""Small talk with the offline model: it is answered, and makes no work."""

import dataclasses
from pathlib import Path

import pytest

from tenex.llm.scripted.manners import Manner, manner_of

from .test_offline_in_the_core import OfflinePlay

REQUEST = "Create hello.py that prints hello"


@pytest.fixture
def play(tmp_path: Path) -> OfflinePlay:
    return OfflinePlay(tmp_path)


@pytest.mark.parametrize(
    ("text", "manner"),
    [
        ("hi", Manner.GREETING),
        ("Hello there!", Manner.GREETING),
        ("Guten Tag", Manner.GREETING),
        ("no", Manner.REFUSAL),
        ("No, thanks.", Manner.REFUSAL),
        ("not now", Manner.REFUSAL),
        ("never mind", Manner.REFUSAL),
        ("thanks", Manner.THANKS),
        ("Thank you so much :)", Manner.THANKS),
        ("great, thanks!", Manner.THANKS),
        ("bye", Manner.FAREWELL),
        ("thanks, bye", Manner.FAREWELL),
        ("¡Adiós!", Manner.FAREWELL),
        ("what did you do?", Manner.ABOUT),
        ("So what have you done so far?", Manner.ABOUT),
        ("", None),
        ("hm", None),
        ("ok", None),
        ("yes please", None),
        ("no, make it red", None),
        ("that is not good", None),
        ("what did you do to my file a.txt?", None),
        ("hi, create a.txt with x", None),
        ("say hi", None),
        ("no " * 20, None),
    ],
)
def test_only_a_message_that_is_nothing_else_is_small_talk(text: str, manner: Manner | None) -> None:
    assert manner_of(text) is manner


@pytest.mark.parametrize("first", [(), (REQUEST,)])
@pytest.mark.parametrize(
    ("text", "answer"), [("hi", "Hello."), ("no", "All right"), ("thanks", "You are welcome"), ("bye", "Goodbye")]
)
def test_small_talk_is_answered_in_a_sentence_and_nothing_is_made(
    play: OfflinePlay, first: tuple[str, ...], text: str, answer: str
) -> None:
    """At the beginning, and after the end of some work."""
    for request in first:
        play.person(request)
        play.settle()
    before = len(play.phases())
    play.person(text)
    play.settle()
    assert play.said()[-1].startswith(answer)
    assert play.conversation.status == "waiting"
    assert play.conversation.phase == "chat"
    assert "execute" not in [str(phase) for phase in play.phases()[before:]]
    assert play.refusals() == []


def test_what_was_done_is_told_in_the_words_of_those_who_did_it(play: OfflinePlay) -> None:
    for text in ("What did you do?", REQUEST, "hi", "What did you do?"):
        play.person(text)
        play.settle()
    first, last = [text for text in play.said() if "done here" in text or "made here" in text]
    assert "Nothing has been made here yet" in first
    assert "Created `hello.py`" in last
    assert "Hello." not in last


@pytest.mark.parametrize("text", ["yes", "ok", "hm"])
def test_what_was_made_is_not_offered_again(play: OfflinePlay, text: str) -> None:
    for each in (REQUEST, "hi", text):
        play.person(each)
        play.settle()
    assert "which file shall i make" in play.said()[-1].lower()
    assert play.conversation.phase == "chat"


def test_a_no_to_a_plan_builds_nothing_and_a_yes_still_does(play: OfflinePlay) -> None:
    play.rules = dataclasses.replace(play.rules, gates=dataclasses.replace(play.rules.gates, plan_approval="person"))
    play.person("Plan the work: create hello.py that prints hello")
    play.settle()
    play.person("no")
    play.settle()
    assert not (play.root / "hello.py").exists()
    assert play.said()[-1].startswith("All right")
    play.person("yes")
    play.settle()
    assert (play.root / "hello.py").exists()
