"""Files that a run attached go with what it says next; none is lost, and none goes twice."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.delivery.files import words_with_files
from tenex.core.effects import Effect, Show, ToolCall
from tenex.core.phases import Phase
from tenex.core.port_values import AttachedFile, ShowOutcome, ToolResult
from tenex.core.signals import ShowReturned, Signal, ToolReturned
from tenex.core.values import replace
from tests.fakes.scenario import WAITS, Router, Scenario, model_by_phase, reply, route, scenario_at, step_until

CHART = AttachedFile(name="chart.png", media_type="image/png", size=3, url="https://b.example/1.png", caption="A chart")
LOST = AttachedFile(name="data.bin", media_type="application/octet-stream", size=3, instead="[data.bin was not sent.]")


class Attaching(Scenario):
    """A scenario in which the tool `check` attaches files."""

    files: tuple[AttachedFile, ...] = (CHART,)

    def perform(self, effect: Effect) -> Signal:
        signal = super().perform(effect)
        if isinstance(effect, ToolCall) and isinstance(signal, ToolReturned) and effect.request.tool == "check":
            return replace(signal, result=ToolResult(ok=True, content="attached", files=self.files))
        if isinstance(effect, Show):
            return ShowReturned(key=effect.key, outcome=ShowOutcome(text="chart.png", files=(CHART,)))
        return signal


def playing(*replies: Any, files: tuple[AttachedFile, ...] = (CHART,)) -> Attaching:
    model = model_by_phase(execute=list(replies))
    scenario = Attaching(Router(route("execute", "executor"), WAITS), model)
    scenario.files = files
    return scenario


def said(scenario: Scenario) -> list[r.MessageSent]:
    return [record for record in scenario.records(r.MessageSent) if record.files]


def test_the_answer_takes_them_along_with_their_addresses_and_the_words_of_those_not_sent() -> None:
    scenario = playing(reply("", ("check", {})), reply("Here it is."), files=(CHART, LOST))
    scenario.converse("Draw it")
    (answer,) = said(scenario)
    assert answer.files == (CHART, LOST)
    assert answer.text.startswith("Here it is.")
    assert answer.text.endswith("\n\nA chart\nhttps://b.example/1.png\n\n[data.bin was not sent.]")
    assert not scenario.conversation.delivery.attached


def test_where_clients_draw_markdown_a_picture_is_one_and_another_file_a_link() -> None:
    paper = AttachedFile(name="a\n]b.pdf", media_type="application/pdf", size=3, url="https://b.example/2.pdf")
    text = words_with_files("Here.", (CHART, paper, LOST), {"markdown": True})
    picture = "![A chart](https://b.example/1.png)"
    assert text == f"Here.\n\n{picture}\n\n[a \\]b.pdf](https://b.example/2.pdf)\n\n[data.bin was not sent.]"


@pytest.mark.parametrize(
    ("name", "media_type", "caption", "label"),
    [
        ("chart.png", "image/png", "A chart", "A chart"),
        ("notes.md", "text/markdown", "What we said", "notes.md: What we said"),
        ("notes.md", "text/markdown", "My notes.md", "My notes.md"),
        ("notes.md", "text/markdown", "", "notes.md"),
    ],
)
def test_a_file_that_clients_do_not_draw_has_its_name_above_its_address(
    name: str, media_type: str, caption: str, label: str
) -> None:
    file = AttachedFile(name=name, media_type=media_type, size=3, url="https://b.example/1", caption=caption)
    assert words_with_files("", [file], {}) == f"{label}\nhttps://b.example/1"


def test_a_question_takes_them_along_and_the_answer_does_not_again() -> None:
    scenario = playing(reply("", ("check", {})), reply("", ("ask", {"question": "Is it right?"})), reply("Then done."))
    scenario.converse("Draw it")
    (question,) = said(scenario)
    assert (question.purpose, question.files) == ("question", (CHART,))
    scenario.converse("yes", reply_to=question.events[0].id if question.events else None)
    assert said(scenario) == [question]


def test_an_answer_without_words_is_sent_for_its_file() -> None:
    scenario = playing(reply("", ("check", {}), ("complete", {"response": "", "summary": ""})), reply("."))
    scenario.converse("Draw it")
    (answer,) = said(scenario)
    assert answer.is_published
    assert "https://b.example/1.png" in answer.text


def test_what_a_stopped_run_attached_goes_with_the_answer_to_stop() -> None:
    scenario = playing(reply("", ("check", {})), reply("", ("check", {})), reply("done"))
    scenario.user_writes("Draw it")
    step_until(scenario, lambda it: bool(it.conversation.delivery.attached))
    scenario.user_writes("/stop")
    (stopped,) = said(scenario)
    assert stopped.text.startswith("Stopped: ")
    assert stopped.text.endswith("https://b.example/1.png")


def test_the_same_file_twice_is_one() -> None:
    scenario = playing(reply("", ("check", {})), reply("", ("check", {})), reply("done"))
    scenario.converse("Draw it")
    (answer,) = said(scenario)
    assert answer.files == (CHART,)


def test_in_direct_messages_an_address_is_no_part_of_the_text() -> None:
    room = {"form": "direct", "room": "r"}
    assert words_with_files("Here.", (CHART, LOST), room) == "Here.\n\n[data.bin was not sent.]"
    assert words_with_files("", (CHART,), room) == ""


@pytest.mark.parametrize("role", [Role.OWNER, Role.MEMBER])
def test_show_sends_what_was_looked_up_once_also_after_a_restart(role: Role) -> None:
    scenario = playing(reply("done"))
    scenario.user_writes("/show chart.png", role=role)
    (request,) = scenario.records(r.FileRequested)
    assert (request.path, request.role) == ("chart.png", role)
    scenario.crash()
    scenario.settle()
    (shown,) = scenario.records(r.FileShown)
    assert shown.request == request.seq
    (message,) = said(scenario)
    assert message.text == "chart.png\n\nA chart\nhttps://b.example/1.png"
    assert not scenario.conversation.delivery.shows


def test_show_is_bounded() -> None:
    scenario = scenario_at(Phase.CHAT)
    for number in range(7):
        scenario.user_writes(f"/show {number}.md")
    assert len(scenario.records(r.FileRequested)) == 5
    assert scenario.records(r.MessageSent)[-1].text.startswith("I am still at the last files.")
    scenario.settle()
    scenario.user_writes(f"/show {'a' * 2_000}")
    assert scenario.records(r.MessageSent)[-1].text.startswith("That path is too long")
    scenario.user_writes("/show `a b.md`")
    assert scenario.records(r.FileRequested)[-1].path == "a b.md"
