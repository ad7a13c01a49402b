"""Questions with buttons: which have them, when they end, and what follows where a relay refuses them."""

import pytest

from tenex.core import records as r
from tenex.core.delivery.buttons import LONGEST, numbered
from tenex.core.effects import Key, Work
from tenex.core.ids import Millis
from tenex.core.port_values import PublishOutcome
from tenex.core.signals import Published
from tests.fakes.scenario import (
    RELAY,
    WAITS,
    Router,
    Scenario,
    check_invariants,
    model_by_phase,
    reply,
    route,
    step_until,
)


def asking(options: list[str]) -> Scenario:
    """A scenario in a room with buttons, whose agent has asked a person."""
    script = [reply("", ("ask", {"question": "Which colour?", "options": options})), reply("done")]
    scenario = Scenario(Router(route("execute", "executor"), WAITS), model_by_phase(execute=script))
    scenario.has_buttons = True
    scenario.user_writes("paint it")
    step_until(scenario, lambda it: bool(it.records(r.QuestionAsked)))
    return scenario


def question(scenario: Scenario) -> r.MessageSent:
    sent: list[r.MessageSent] = scenario.records(r.MessageSent)
    return [record for record in sent if record.purpose == "question"][-1]


def refuse(scenario: Scenario, sent: r.MessageSent) -> None:
    key = Key(Work.PUBLISH, sent.seq, f"0 {RELAY}")
    scenario.handle(Published(key=key, outcome=PublishOutcome(accepted=False, detail="restricted: no")))


def test_each_choice_is_a_button_for_as_long_as_relays_take_them() -> None:
    scenario = asking(["red", "blue"])
    buttons = question(scenario).buttons
    assert buttons is not None
    assert [(button.picture, button.label) for button in buttons.each] == [("1️⃣", "red"), ("2️⃣", "blue")]
    assert buttons.closes_at == question(scenario).at + LONGEST
    assert numbered([], Millis(0)) is None
    assert numbered(["x"] * 11, Millis(0)) is None


@pytest.mark.parametrize("end", ["answer", "stop"])
def test_buttons_end_once_whatever_ends_the_question(end: str) -> None:
    scenario = asking(["red", "blue"])
    asked = question(scenario)
    assert scenario.records(r.ButtonsClosed) == []
    if end == "answer":
        scenario.user_writes("blue", reply_to=str(asked.events[0].id))
    else:
        scenario.user_writes("/stop")
    (closed,) = scenario.records(r.ButtonsClosed)
    assert (closed.message, closed.event, closed.is_refused) == (asked.seq, asked.events[0].id, False)
    scenario.crash()
    scenario.settle()
    assert len(scenario.records(r.ButtonsClosed)) == 1
    assert scenario.refold() == scenario.conversation
    check_invariants(scenario)


def test_what_a_relay_refuses_with_buttons_is_asked_once_more_without_them() -> None:
    scenario = asking(["red", "blue"])
    first = question(scenario)
    refuse(scenario, first)
    (closed,) = scenario.records(r.ButtonsClosed)
    assert closed.is_refused
    again = question(scenario)
    assert (again.text, again.call, again.buttons) == (first.text, first.call, None)
    scenario.crash()
    refuse(scenario, again)
    assert question(scenario) == again, "a plain message is not repeated"
    scenario.user_writes("2", reply_to=str(again.events[0].id))
    assert [record.text for record in scenario.records(r.QuestionAnswered)] == ["blue"]
    assert len(scenario.records(r.ButtonsClosed)) == 1
    check_invariants(scenario)
