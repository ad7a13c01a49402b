"""An event that relays refuse for its date is sent with a new one, and never are both there to be read."""

from collections import defaultdict
from random import Random

import pytest

from tenex.core import records as r
from tenex.core.delivery.decide import OUTBOX_EXPIRY
from tenex.core.delivery.state import MOST_REDATED
from tenex.core.effects import Publish
from tenex.core.ids import EventId
from tenex.core.port_values import PublishOutcome
from tenex.core.signals import Published
from tenex.operations.asks import replied_by
from tenex.store.index_row import news_of
from tests.fakes.scenario import RELAY, WAITS, Router, Scenario, model_by_phase, reply, route

OTHER = "ws://other"
TAKEN = PublishOutcome(accepted=True)
FOR_ITS_DATE = PublishOutcome(accepted=False, detail="invalid: event timestamp too far", is_outdated=True)
FOR_GOOD = PublishOutcome(accepted=False, detail="restricted: not a channel member")


def said(*relays: str) -> Scenario:
    """An agent has asked a question, which waits for these relays."""
    asks = reply("", ("ask", {"question": "Which colour?"}))
    scenario = Scenario(Router(route("execute", "executor"), WAITS), model_by_phase(execute=[asks, reply("done")]))
    scenario.relays = relays
    scenario.user_writes("build it")
    while not scenario.records(r.QuestionAsked):
        answer_all(scenario, TAKEN)
        scenario.step()
    return scenario


def waiting(scenario: Scenario) -> list[Publish]:
    return [effect for effect in scenario.running.values() if isinstance(effect, Publish)]


def answer(scenario: Scenario, effect: Publish, outcome: PublishOutcome) -> None:
    scenario.running.pop(effect.key)
    scenario.handle(Published(key=effect.key, outcome=outcome))
    scenario.reconcile()


def answer_all(scenario: Scenario, outcome: PublishOutcome) -> None:
    for effect in waiting(scenario):
        answer(scenario, effect, outcome)


def the_one(scenario: Scenario) -> Publish:
    (effect,) = waiting(scenario)
    return effect


def test_it_has_a_new_id_and_date_and_the_same_words() -> None:
    scenario = said(RELAY)
    old = the_one(scenario)
    scenario.now += 3_600_000  # type: ignore[assignment]
    answer(scenario, old, FOR_ITS_DATE)
    new = the_one(scenario)
    assert new.event.id != old.event.id
    assert new.event.created_at == scenario.now // 1000
    assert (new.event.content, new.event.tags, new.relay) == (old.event.content, old.event.tags, RELAY)
    (record,) = [each for each in scenario.records(r.Delivered) if each.again is not None]
    assert (record.refused, record.again) == (old.event.id, new.event)
    news = news_of([record])
    assert (news.events, news.places) == ((new.event.id,), ((new.event.id, record.message),))
    answer(scenario, new, TAKEN)
    assert waiting(scenario) == []
    (refusal,) = scenario.conversation.delivery.refusals
    assert refusal.is_delivered
    assert scenario.refold() == scenario.conversation


def test_a_reply_to_the_new_event_answers_the_question() -> None:
    scenario = said(RELAY)
    for _ in range(2):
        answer_all(scenario, FOR_ITS_DATE)
    newest = the_one(scenario).event.id
    answer_all(scenario, TAKEN)
    (question,) = scenario.conversation.work.asks
    assert scenario.conversation.delivery.newest_id(EventId(question)) == newest
    message = next(sent for sent in scenario.records(r.MessageSent) if sent.events[0].id == question)
    replied = replied_by(scenario.conversation, message)
    assert replied is not None
    assert replied.event.id == newest, "a page replies to what relays have"
    scenario.user_writes("blue", reply_to=newest)
    (answered,) = scenario.records(r.QuestionAnswered)
    assert answered.text == "blue"


def test_while_a_relay_has_not_answered_or_has_accepted_it_gets_no_new_date() -> None:
    scenario = said(RELAY, OTHER)
    first, second = waiting(scenario)
    answer(scenario, first, FOR_ITS_DATE)
    assert waiting(scenario) == [second], "it may be accepted there"
    answer(scenario, second, TAKEN)
    assert waiting(scenario) == []
    assert not any(record.again for record in scenario.records(r.Delivered))


@pytest.mark.parametrize("outcomes", [(FOR_ITS_DATE, FOR_GOOD), (FOR_GOOD, FOR_ITS_DATE)])
def test_a_relay_that_refused_it_for_another_cause_may_have_it(outcomes: tuple[PublishOutcome, ...]) -> None:
    """It took the event, its OK was lost, and then our key was removed."""
    scenario = said(RELAY, OTHER)
    for effect, outcome in zip(waiting(scenario), outcomes, strict=True):
        answer(scenario, effect, outcome)
    assert waiting(scenario) == []


def test_a_refusal_of_its_date_counts_no_time_in_which_others_would_have_to_answer() -> None:
    scenario = said(RELAY, OTHER)
    first, _ = waiting(scenario)
    answer(scenario, first, FOR_ITS_DATE)
    (row,) = scenario.conversation.delivery.outbox.values()
    assert row.expires_at == 0
    assert row.lost_at > scenario.now + OUTBOX_EXPIRY


def test_the_new_dates_of_a_message_are_bounded() -> None:
    scenario = said(RELAY)
    count = 0
    while waiting(scenario):
        answer_all(scenario, FOR_ITS_DATE)
        count += 1
    assert count == MOST_REDATED + 1


@pytest.mark.parametrize("seed", range(60))
def test_whatever_relays_answer_and_when_processes_end_one_event_of_a_message_can_be_read_at_most(seed: int) -> None:
    dice = Random(seed)
    scenario = said(RELAY, OTHER, "ws://third")
    taken: defaultdict[int, set[tuple[EventId, str]]] = defaultdict(set)
    answers = (TAKEN, *[FOR_ITS_DATE] * 4, FOR_GOOD)
    while effects := waiting(scenario):
        effect = dice.choice(effects)
        copy = (effect.event.id, effect.relay)
        outcome = dice.choice((TAKEN, FOR_GOOD) if copy in taken[effect.key.seq] else answers)
        if outcome.accepted:
            taken[effect.key.seq].add(copy)
        if dice.random() < 0.3:  # the process ends before the answer is recorded, or just after
            scenario.crash_at = (scenario.appends + 1, dice.choice(["before", "after"]))
        answer(scenario, effect, outcome)
    assert all(len({event for event, _ in copies}) <= 1 for copies in taken.values())
    assert scenario.refold() == scenario.conversation
