"""Conversations for the observers of telemetry."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import Metric

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import Millis
from tenex.core.messages import NO_USAGE
from tenex.core.ports import Observer
from tenex.core.signals import ModelFailed, Opened
from tenex.features.metrics.gauges import Gauges
from tests.fakes.scenario import ID, Scenario, diligent, longest_way

REFUSED: Any = ModelFailed(key=None, message="the secret reason", retryable=True)  # type: ignore[arg-type]


def go_through(scenario: Scenario) -> Scenario:
    """Work, answer what is asked, and write again where the user is next, until the cycle ends."""
    for seed in range(10):
        scenario.settle(seed)
        if scenario.conversation.cycle.status == "ended":
            return scenario
        scenario.user_writes("Green, please", reply_to=next(iter(scenario.conversation.work.asks), None))
    raise AssertionError("the cycle does not end")


def whole_conversation() -> Scenario:
    """A cycle through all phases."""
    scenario = Scenario(longest_way, diligent)
    scenario.now = Millis(1_700_000_000_000)
    scenario.user_writes("I want something nice")
    return go_through(scenario)


def restarted(scenario: Scenario, cut: int, later: int) -> Scenario:
    """The same conversation by a process that begins so much later, after so many decisions."""
    again = Scenario(longest_way, diligent)
    again.now, again.count = Millis(scenario.now + later), scenario.count
    again.journal = list(scenario.journal[:cut])
    again.conversation = fold(ID, [record for decision in again.journal for record in decision])
    again.handle(Opened())
    return go_through(again)


def answering(answers: list[Any], agent: str = "project-manager", **settings: Any) -> Scenario:
    """An agent that gives these answers of its model, one after the other, with a retry after each failure."""
    scenario = Scenario(
        lambda question: {"agents": ["USER"] if question["turns"] else [agent], "reason": "x"},
        lambda _conversation, _call: answers.pop(0),
        **settings,
    )
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("retry")
    return scenario


def decisions(
    scenario: Scenario, first: int = 0, last: int | None = None
) -> Iterator[tuple[Conversation, list[r.Record]]]:
    """Each decision of the journal with the state after it."""
    conversation = fold(ID, [record for decision in scenario.journal[:first] for record in decision])
    for decision in scenario.journal[first:last]:
        for record in decision:
            conversation.apply(record)
        yield conversation, list(decision)


def feed(observer: Observer, scenario: Scenario, first: int = 0, last: int | None = None) -> None:
    """Have the observer follow these decisions."""
    for conversation, decision in decisions(scenario, first, last):
        observer.on_records(conversation, decision)


def gauges(
    relays: Sequence[Any] = (),
    actors: Sequence[Any] = (),
    now: float = 0.0,
    more: Callable[[], Iterable[Metric]] = tuple,
) -> Gauges:
    """Gauges of these relays and actors; seven lines of the log were dropped, and four events wait."""
    pool: Any = SimpleNamespace(status=lambda: relays)
    return Gauges(lambda: pool, lambda: actors, lambda: 7, lambda: NO_USAGE, now=lambda: now, more=more)
