"""The numbers: what is counted, that tokens and money agree with the conversation, and that labels are bounded."""

import dataclasses
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import ModelCall
from tenex.core.identity.state import Identity
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Usage
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.signals import ModelFailed
from tenex.telemetry.metrics import Meter
from tenex.workflows.missions.records import MissionUsageRecorded
from tests.fakes.scenario import ID, Scenario, diligent, longest_way, policy, reply

from .kit import REFUSED, answering, feed, gauges, go_through


class Numbers:
    """Every sample as a scraper reads it."""

    def __init__(self, meter: Meter) -> None:
        families = text_string_to_metric_families(meter.text().decode())
        self.samples = [sample for family in families for sample in family.samples]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of a name, `tenex_` left out, with these labels."""
        return sum(
            one.value
            for one in self.samples
            if one.name.removeprefix("tenex_") == name and labels.items() <= one.labels.items()
        )


def counted(scenario: Scenario) -> Numbers:
    meter = Meter()
    feed(meter, scenario)
    return Numbers(meter)


def with_answers(*answers: ModelStep) -> Numbers:
    """The numbers after these answers of models."""
    meter = Meter()
    for number, step in enumerate(answers):
        record = r.ModelResponded(seq=number + 1, at=Millis(1), run=f"turn-1.agent-{number}", step=step)  # type: ignore[arg-type]
        meter.on_records(Conversation(identity=Identity(id=ID, next_seq=99)), [record])
    return Numbers(meter)


def priced(conversation: Conversation, call: ModelCall) -> ModelStep | ModelFailed:
    """A diligent agent that is paid for, fails now and then, and is sometimes refused."""
    if conversation.next_seq % 7 == 0:
        usage = Usage(input_tokens=3, cost_usd=0.001)
        return ModelFailed(key=call.key, message="filtered", retryable=False, usage=usage)
    step = diligent(conversation, call)
    assert isinstance(step, ModelStep)
    return dataclasses.replace(step, usage=Usage(input_tokens=101, output_tokens=13, cost_usd=0.0125), model="m:1")


def test_a_whole_cycle_is_counted_and_its_tokens_and_money_are_those_of_the_conversation() -> None:
    scenario = Scenario(longest_way, priced)
    scenario.user_writes("I want something nice")
    go_through(scenario)
    total, usage = counted(scenario).total, scenario.conversation.totals.usage
    assert scenario.records(r.ModelReprompted), "no call was refused, so this shows less than it should"
    assert total("model_tokens_total", direction="input") == usage.input_tokens
    assert total("model_tokens_total", direction="output") == usage.output_tokens
    assert total("model_calls_total") == usage.calls
    assert total("model_cost_usd_total") == pytest.approx(usage.cost_usd)
    assert total("model_calls_total", outcome="answered", model="m:1") == len(scenario.records(r.ModelResponded))
    routed = total("model_calls_total", agent="orchestrator", outcome="accepted")
    assert routed == len(scenario.records(r.Routed))
    turns = Counter(turn.phase for turn in scenario.records(r.TurnOpened))
    assert turns.keys() >= {Phase.CHAT, Phase.EXECUTE, *QUALITY_PHASES}
    for phase in Phase:
        assert total("turns_opened_total", phase=phase) == turns[phase]
        assert total("turns_closed_total", phase=phase, outcome="finished") == turns[phase]
    assert total("runs_ended_total", outcome="finished") == len(scenario.records(r.RunEnded))
    assert total("tool_calls_total", tool="read_file", ok="true") == 2
    assert total("waits_total", reason="user") == len(scenario.records(r.Waiting))
    assert total("messages_total", kind="message") == len(scenario.records(r.MessageRecorded))
    assert total("cycles_ended_total") == 1
    for stage in ("routed", "reply", "route", "turn", "run", "model", "tool", "ask"):
        assert total("stage_seconds_count", stage=stage) >= 1, stage


def test_models_that_a_mission_asked_are_counted_as_its_own() -> None:
    meter = Meter()
    usage = Usage(calls=2, input_tokens=70, output_tokens=5, cost_usd=0.5)
    record = MissionUsageRecorded(seq=1, at=Millis(1), workflow="triage", model="m:1", usage=usage)
    meter.on_records(Conversation(identity=Identity(id=ID, next_seq=2)), [record])
    total = Numbers(meter).total
    assert total("model_calls_total", agent="triage", model="m:1", outcome="answered") == 2
    assert total("model_cost_usd_total", agent="triage") == 0.5


def test_times_are_in_seconds() -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes("hello")
    while not scenario.records(r.TurnOpened):
        scenario.step()
    scenario.now = Millis(scenario.now + 40_000)
    scenario.settle(1)
    total = counted(scenario).total
    assert 40 < total("stage_seconds_sum", stage="turn") < 41
    assert [total("stage_seconds_bucket", stage="turn", le=le) for le in ("30.0", "60.0")] == [0, 1]


def test_a_hold_is_counted_once_however_often_it_is_tried_and_every_try_counts_as_a_call() -> None:
    limits = Limits(retry_delays=(Millis(1), Millis(2)))
    scenario = answering([*[REFUSED] * 4, reply("here you are")], config=policy(limits=limits))
    total = counted(scenario).total
    assert [record.on_hold for record in scenario.records(r.RetryScheduled)] == [False, False, True, True]
    assert (total("model_holds_total"), total("model_retries_total")) == (1, 4)
    assert total("model_calls_total", outcome="unavailable", agent="project-manager") == 4


def test_refused_answers_of_the_router_are_counted_with_what_they_cost() -> None:
    answers: list[Any] = ["no JSON", {"agents": ["unknown"], "reason": "x"}, {"agents": ["planner"], "reason": "x"}]
    scenario = Scenario(lambda _question: answers.pop(0), diligent)
    scenario.user_writes("hello")
    while answers:
        scenario.step()
    total = counted(scenario).total
    assert total("router_rejections_total", counted="true") == 2
    assert total("model_tokens_total", agent="orchestrator", direction="input") == 30
    assert total("model_calls_total", outcome="rejected", model="router") == 2


def test_an_unknown_price_differs_from_a_free_model_and_an_odd_number_costs_no_sum() -> None:
    usages = (
        Usage(input_tokens=5),
        Usage(input_tokens=5, cost_usd=0.0),
        Usage(input_tokens=-5, cost_usd=float("nan"), cache_read_tokens=-5),
        Usage(output_tokens=-1, cost_usd=-1.0),
        Usage(input_tokens=2, cost_usd=0.0, cache_read_tokens=1, cache_write_tokens=1),
    )
    total = with_answers(*(ModelStep(model="m", usage=usage) for usage in usages[:2])).total
    assert (total("model_calls_unpriced_total", model="m"), total("model_calls_total")) == (1, 2)
    total = with_answers(*(ModelStep(model="m", usage=usage) for usage in usages)).total
    assert (total("model_tokens_total"), total("model_cost_usd_total")) == (12, 0)
    assert [total("model_cache_tokens_total", work=work) for work in ("read", "write")] == [1, 1]


def test_names_that_others_choose_get_a_bounded_number_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenex.telemetry.metrics.NAMES", 5)
    numbers = with_answers(*(ModelStep(model=f"model-{number}") for number in range(50)))
    models = {one.labels["model"] for one in numbers.samples if one.name == "tenex_model_calls_total"}
    assert models == {*(f"model-{number}" for number in range(5)), "other"}
    assert numbers.total("model_calls_total", model="other", agent="other") == 45


def test_no_label_bears_a_conversation_a_key_or_an_invented_tool() -> None:
    scenario = answering([reply("", ("rm_rf_invented", {})), reply("private")])
    meter = Meter()
    feed(meter, scenario)
    text = meter.text().decode()
    assert not [secret for secret in (ID, "a" * 64, "rm_rf_invented", "private") if secret in text]
    assert Numbers(meter).total("tool_refusals_total") == 1


def test_gauges_are_read_at_each_scrape() -> None:
    relays: list[Any] = []
    meter = Meter(gauges(relays, now=1_010.0))
    for url, connected, since, counters in (
        ("ws://good", True, None, {"events": 3}),
        ("ws://deaf", True, 940.0, {}),
        ("ws://away", False, 1_000.0, {}),
    ):
        relays.append(SimpleNamespace(url=url, connected=connected, unresponsive_since=since, counters=counters))
    total = Numbers(meter).total
    assert [total("relay_unresponsive_seconds", relay=one.url) for one in relays] == [0, 70, 10]
    assert total("relay_connected") == 2
    assert total("relay_events_total", relay="ws://good", kind="events") == 3
    assert total("log_lines_dropped_total") == 7
    assert total("process_resident_memory_bytes") > 1_000_000
    assert total("process_open_fds") > 2


def test_conversations_in_memory_are_counted_by_state() -> None:
    routes = [{"agents": ["helper"], "phase": "execute", "reason": "x"}, {"agents": ["helper"], "reason": "x"}]
    parked = Scenario(lambda question: routes[question["phase"] != "chat"], diligent)
    parked.user_writes("hello")
    active = fold(ID, [record for decision in parked.journal for record in decision])
    parked.settle(1)
    assert parked.conversation.work.is_parked
    held = Scenario(longest_way, lambda _c, _call: REFUSED, config=policy(limits=Limits(retry_delays=())))
    held.user_writes("hello")
    held.settle(1)
    assert held.records(r.RetryScheduled)[0].on_hold
    found = (active, parked.conversation, held.conversation, None)
    actors: list[Any] = [SimpleNamespace(conversation=one, is_suspended=False, waiting=1) for one in found]
    actors.append(SimpleNamespace(conversation=None, is_suspended=True, waiting=1))
    total = Numbers(Meter(gauges(actors=actors))).total
    states = {"active": 2, "parked": 1, "held": 1, "suspended": 1, "waiting": 0}
    assert {state: total("conversations", state=state) for state in states} == states
    assert total("queued_signals") == 5
    assert total("runs") == len(parked.conversation.work.runs) + len(held.conversation.work.runs)


def test_the_disk_may_be_timed_and_two_meters_share_nothing() -> None:
    one, other = Meter(), Meter()
    one.timed("append", 0.002)
    one.timed("flush", 0.001)
    assert Numbers(one).total("journal_seconds_count", work="append") == 1
    assert Numbers(one).total("journal_seconds_bucket", work="append", le="0.003") == 1
    assert Numbers(other).total("journal_seconds_count") == 0


def test_a_store_that_several_daemons_share_is_counted_and_one_of_files_has_no_such_numbers() -> None:
    meter = Meter()
    before = {sample.name for sample in Numbers(meter).samples}
    happened = meter.of_store()
    happened("lease_lost", 0.0)
    happened("append_conflict", 0.0)
    happened("takeover", 21.5)
    numbers = Numbers(meter)
    names = ("lease_lost_total", "append_conflicts_total", "takeover_seconds_count", "takeover_seconds_sum")
    assert [numbers.total(name) for name in names] == [1, 1, 1, 21.5]
    assert before.isdisjoint(f"tenex_{name}" for name in names)


def test_an_internal_error_is_logged_and_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter()
    monkeypatch.setattr(meter, "_count", lambda *_: 1 / 0)
    with capture_logs() as logged:
        meter.on_records(
            Conversation(identity=Identity(id=ID, next_seq=9)), [r.RouteRequested(seq=1, at=Millis(1), attempt=1)]
        )
    assert [line["event"] for line in logged] == ["meter.failed"]
