"""Conversations for the observers of telemetry."""

from tenex.core.conversation import fold
from tenex.core.ids import Millis
from tenex.core.ports import Observer
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases


def go_through(scenario: Scenario) -> Scenario:
    """Work, answer what is asked, and write again where the user is next, until the cycle ends."""
    for seed in range(10):
        scenario.settle(seed)
        if scenario.conversation.status == "ended":
            return scenario
        scenario.user_writes("Green, please", reply_to=next(iter(scenario.conversation.asks), None))
    raise AssertionError("the cycle does not end")


def whole_conversation() -> Scenario:
    """A cycle through all phases."""
    scenario = Scenario(seven_phases, diligent)
    scenario.now = Millis(1_700_000_000_000)
    scenario.user_writes("I want something nice")
    return go_through(scenario)


def feed(observer: Observer, scenario: Scenario, first: int = 0, last: int | None = None) -> None:
    """Have the observer follow these decisions, each with the state after it."""
    conversation = fold(ID, [record for decision in scenario.journal[:first] for record in decision])
    for decision in scenario.journal[first:last]:
        for record in decision:
            conversation.apply(record)
        observer.on_records(conversation, decision)
