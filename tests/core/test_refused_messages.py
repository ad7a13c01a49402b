"""What relays refuse of one key in a room is sent there by another, once, and answered as the first."""

from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.effects import Publish
from tenex.core.ids import PublicKey
from tenex.core.port_values import PublishOutcome
from tenex.core.signals import Opened, Published
from tests.fakes.scenario import RELAY, WAITS, Router, Scenario, model_by_phase, reply, route

NO_MEMBER = PublishOutcome(accepted=False, detail="restricted: not a channel member")
TOO_LONG = PublishOutcome(accepted=False, detail="invalid: content exceeds maximum size")
TAKEN = PublishOutcome(accepted=True)


def asked_in(address: dict[str, object]) -> Scenario:
    """An agent has asked a question; nothing that it sent is answered."""
    asks = reply("", ("ask", {"question": "Which colour?"}))
    again = reply("", ("ask", {"question": "Is light blue right?"}))
    scenario = Scenario(
        Router(route("execute", "executor"), WAITS), model_by_phase(execute=[asks, again, reply("done")])
    )
    scenario.address = address
    scenario.user_writes("build it")
    while not scenario.records(r.QuestionAsked):
        effects = [effect for effect in scenario.running.values() if not isinstance(effect, Publish)]
        effect = effects[0]
        scenario.running.pop(effect.key)
        scenario.handle(scenario.perform(effect))
        scenario.reconcile()
    for publish in waiting(scenario):
        if publish.event.content != "Which colour?":
            answer(scenario, publish, TAKEN)
    return scenario


ROOM: dict[str, object] = {"form": "room threads", "group": "room", "relays": [RELAY]}


def waiting(scenario: Scenario) -> list[Publish]:
    return [effect for effect in scenario.running.values() if isinstance(effect, Publish)]


def answer(scenario: Scenario, effect: Publish, outcome: PublishOutcome) -> None:
    scenario.running.pop(effect.key)
    scenario.handle(Published(key=effect.key, outcome=outcome))
    scenario.reconcile()


def the_one(scenario: Scenario) -> Publish:
    (effect,) = waiting(scenario)
    return effect


def test_the_project_says_why_and_what_to_do_and_passes_the_words_on() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), NO_MEMBER)
    event = the_one(scenario).event
    assert event.pubkey == scenario.policy.project.pubkey
    assert event.content == (
        "Executor cannot write here (“restricted: not a channel member”). "
        "Add Executor to the members; until then Orchestrator passes on its messages.\n\nExecutor:\n\nWhich colour?"
    )
    scenario.handle(Opened())
    scenario.reconcile()
    assert the_one(scenario).event == event
    answer(scenario, the_one(scenario), TAKEN)
    assert waiting(scenario) == []
    assert scenario.refold() == scenario.conversation


def test_a_reply_to_what_was_passed_on_answers_the_question() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), NO_MEMBER)
    passed_on = the_one(scenario).event.id
    answer(scenario, the_one(scenario), TAKEN)
    scenario.user_writes("blue", reply_to=passed_on)
    (answered,) = scenario.records(r.QuestionAnswered)
    assert answered.text == "blue"


def test_the_cause_is_said_once() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), NO_MEMBER)
    answer(scenario, the_one(scenario), TAKEN)
    scenario.user_writes("blue", reply_to=scenario.records(r.MessageSent)[-1].events[0].id)
    while not (said := [effect for effect in waiting(scenario) if effect.event.content == "Is light blue right?"]):
        assert scenario.step()
    answer(scenario, said[0], NO_MEMBER)
    texts = [record.text for record in scenario.records(r.MessageSent) if record.in_place_of]
    assert texts[1:] == ["Executor:\n\nIs light blue right?"]


def test_it_goes_out_by_the_key_that_may_write_there() -> None:
    scenario = asked_in(ROOM)
    member = scenario.policy.roster["planner"].pubkey  # type: ignore[index]
    answer(scenario, the_one(scenario), replace(NO_MEMBER, fallback=member))
    assert the_one(scenario).event.pubkey == member


def test_what_the_message_itself_is_refused_for_is_said_without_it() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), TOO_LONG)
    content = the_one(scenario).event.content
    assert "invalid: content exceeds maximum size" in content
    assert "Which colour?" not in content
    assert f"tenex conversations show {scenario.conversation.id}" in content


def test_what_no_member_list_is_the_cause_of_names_no_remedy() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), PublishOutcome(accepted=False, detail="the key is no longer in the key folder"))
    cause = "Executor cannot write here (“the key is no longer in the key folder”)."
    assert the_one(scenario).event.content == f"{cause}\n\nExecutor:\n\nWhich colour?"


def test_a_second_refusal_is_final() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), NO_MEMBER)
    answer(scenario, the_one(scenario), NO_MEMBER)
    assert waiting(scenario) == []
    assert [refusal.name for refusal in scenario.conversation.delivery.refusals] == ["Executor", "Orchestrator"]


@pytest.mark.parametrize("address", [{"form": "notes"}, {"form": "direct", "room": "b" * 64}])
def test_outside_of_rooms_a_refusal_is_final(address: dict[str, object]) -> None:
    scenario = asked_in(address)
    answer(scenario, the_one(scenario), NO_MEMBER)
    assert waiting(scenario) == []


def test_where_no_other_key_is_known_nothing_is_sent() -> None:
    scenario = asked_in(ROOM)
    answer(scenario, the_one(scenario), replace(NO_MEMBER, fallback=PublicKey("f" * 64)))
    assert waiting(scenario) == []


def test_a_message_that_another_relay_took_is_not_repeated() -> None:
    scenario = asked_in(ROOM)
    scenario.relays = (RELAY, "ws://other")
    scenario.user_writes("/status")
    first, second, *_ = [effect for effect in waiting(scenario) if effect.event.content != "Which colour?"]
    before = len(waiting(scenario))
    answer(scenario, first, TAKEN)
    answer(scenario, second, NO_MEMBER)
    assert len(waiting(scenario)) == before - 2
