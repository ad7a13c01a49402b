"""The numbers: what is counted, that tokens and money agree with the conversation, and that labels are bounded."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import ModelCall
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Usage
from tenex.core.signals import ModelFailed
from tenex.telemetry.gauges import Readings
from tenex.telemetry.metrics import Meter
from tests.fakes.scenario import ID, Scenario, diligent, reply, rules, seven_phases

from .kit import feed, go_through

Numbers = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(meter: Meter) -> Numbers:
    """Every sample as a scraper reads it: (name, sorted labels) -> value."""
    families = text_string_to_metric_families(meter.text().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def total(numbers: Numbers, name: str, **labels: str) -> float:
    """The sum of all samples of a name with these labels."""
    return sum(
        value for (known, have), value in numbers.items() if known == name and labels.items() <= dict(have).items()
    )


def counted(scenario: Scenario) -> Numbers:
    meter = Meter(Readings())
    feed(meter, scenario)
    return read(meter)


def priced(conversation: Conversation, call: ModelCall) -> ModelStep | ModelFailed:
    """A diligent agent that is paid for, fails now and then, and is sometimes refused."""
    if conversation.next_seq % 7 == 0:
        return ModelFailed(
            key=call.key, message="filtered", retryable=False, usage=Usage(input_tokens=3, cost_usd=0.001)
        )
    step = diligent(conversation, call)
    assert isinstance(step, ModelStep)
    return dataclasses.replace(step, usage=Usage(input_tokens=101, output_tokens=13, cost_usd=0.0125), model="m:1")


def test_a_whole_cycle_is_counted_and_its_tokens_and_money_are_those_of_the_conversation() -> None:
    scenario = Scenario(seven_phases, priced)
    scenario.user_writes("I want something nice")
    go_through(scenario)
    numbers, usage = counted(scenario), scenario.conversation.usage
    assert scenario.records(r.ModelReprompted), "no call was refused, so this shows less than it should"
    assert total(numbers, "tenex_model_tokens_total", direction="input") == usage.input_tokens
    assert total(numbers, "tenex_model_tokens_total", direction="output") == usage.output_tokens
    assert total(numbers, "tenex_model_calls_total") == usage.calls
    assert total(numbers, "tenex_model_cost_usd_total") == pytest.approx(usage.cost_usd)
    assert total(numbers, "tenex_model_calls_total", outcome="answered", model="m:1") == len(
        scenario.records(r.ModelResponded)
    )
    assert total(numbers, "tenex_model_calls_total", agent="orchestrator", outcome="accepted") == len(
        scenario.records(r.Routed)
    )
    for phase in ("chat", "brainstorm", "plan", "execute", "verification", "chores", "reflection"):
        opened = [turn for turn in scenario.records(r.TurnOpened) if turn.phase == phase]
        assert total(numbers, "tenex_turns_opened_total", phase=phase) == len(opened) >= 1
        assert total(numbers, "tenex_turns_closed_total", phase=phase, outcome="finished") == len(opened)
    assert total(numbers, "tenex_runs_ended_total", outcome="finished") == len(scenario.records(r.RunEnded))
    assert total(numbers, "tenex_tool_calls_total", tool="read_file", ok="true") == 2
    assert total(numbers, "tenex_waits_total", reason="user") == len(scenario.records(r.Waiting))
    assert total(numbers, "tenex_messages_total", kind="message") == len(scenario.records(r.MessageRecorded))
    assert total(numbers, "tenex_cycles_ended_total") == 1
    for stage in ("routed", "reply", "route", "turn", "run", "model", "tool", "ask"):
        assert total(numbers, "tenex_stage_seconds_count", stage=stage) >= 1, stage


def test_times_are_in_seconds() -> None:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("hello")
    while not scenario.records(r.TurnOpened):
        scenario.step()
    scenario.now = Millis(scenario.now + 40_000)
    scenario.settle(1)
    numbers = counted(scenario)
    assert 40 < total(numbers, "tenex_stage_seconds_sum", stage="turn") < 41
    assert total(numbers, "tenex_stage_seconds_bucket", stage="turn", le="30.0") == 0
    assert total(numbers, "tenex_stage_seconds_bucket", stage="turn", le="60.0") == 1


def test_a_hold_is_counted_once_however_often_it_is_tried_and_every_try_counts_as_a_call() -> None:
    failures: list[Any] = [ModelFailed(key=None, message="no", retryable=True)] * 4  # type: ignore[arg-type]
    answers = [*failures, reply("here you are")]
    scenario = Scenario(
        lambda question: {"agents": ["project-manager"] if not question["turns"] else ["USER"], "reason": "x"},
        lambda _c, _call: answers.pop(0),
        config=rules(limits=Limits(retry_delays=(Millis(1), Millis(2)))),
    )
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("retry")
    numbers = counted(scenario)
    assert [record.on_hold for record in scenario.records(r.RetryScheduled)] == [False, False, True, True]
    assert total(numbers, "tenex_model_holds_total") == 1
    assert total(numbers, "tenex_model_retries_total") == 4
    assert total(numbers, "tenex_model_calls_total", outcome="unavailable", agent="project-manager") == 4


def test_refused_answers_of_the_router_are_counted_with_what_they_cost() -> None:
    answers: list[Any] = ["no JSON", {"agents": ["unknown"], "reason": "x"}, {"agents": ["planner"], "reason": "x"}]
    scenario = Scenario(lambda _question: answers.pop(0), diligent)
    scenario.user_writes("hello")
    while answers:
        scenario.step()
    numbers = counted(scenario)
    assert total(numbers, "tenex_router_rejections_total", counted="true") == 2
    assert total(numbers, "tenex_model_tokens_total", agent="orchestrator", direction="input") == 30
    assert total(numbers, "tenex_model_calls_total", outcome="rejected", model="router") == 2


def test_an_unknown_price_differs_from_a_free_model() -> None:
    meter = Meter(Readings())
    steps = [Usage(input_tokens=5), Usage(input_tokens=5, cost_usd=0.0)]
    for seq, usage in enumerate(steps, start=1):
        step = ModelStep(model="m", usage=usage)
        record = r.ModelResponded(seq=seq, at=Millis(1), run="turn-1.x", step=step)  # type: ignore[arg-type]
        meter.on_records(Conversation(id=ID, next_seq=9), [record])
    numbers = read(meter)
    assert total(numbers, "tenex_model_calls_unpriced_total", model="m") == 1
    assert total(numbers, "tenex_model_calls_total") == 2


def test_names_that_others_choose_get_a_bounded_number_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenex.telemetry.metrics.NAMES", 5)
    meter = Meter(Readings())
    for number in range(50):
        step = ModelStep(model=f"model-{number}")
        record = r.ModelResponded(seq=number + 1, at=Millis(1), run=f"turn-1.agent-{number}", step=step)  # type: ignore[arg-type]
        meter.on_records(Conversation(id=ID, next_seq=99), [record])
    numbers = read(meter)
    models = {dict(labels)["model"] for name, labels in numbers if name == "tenex_model_calls_total"}
    assert models == {*(f"model-{number}" for number in range(5)), "other"}
    assert total(numbers, "tenex_model_calls_total", model="other", agent="other") == 45


def test_no_label_bears_a_conversation_a_key_or_an_invented_tool() -> None:
    scenario = Scenario(
        lambda question: {"agents": ["executor"] if not question["turns"] else ["USER"], "reason": "x"},
        lambda _c, call: reply("done") if len(call.entries) > 3 else reply("", ("rm_rf_invented", {})),
    )
    scenario.user_writes("hello, this is private")
    scenario.settle(1)
    meter = Meter(Readings())
    feed(meter, scenario)
    text = meter.text().decode()
    for secret in (ID, "a" * 64, "rm_rf_invented", "private"):
        assert secret not in text
    assert total(read(meter), "tenex_tool_refusals_total") >= 1


def relay(url: str, **more: Any) -> Any:
    about = {"connected": True, "serves": True, "refused": (), "fault": "", "unresponsive_since": None, "counters": {}}
    return SimpleNamespace(url=url, **{**about, **more})


def test_gauges_are_read_at_each_scrape() -> None:
    now, relays, queues = [1_000.0], list[Any](), {"signals": 0}
    meter = Meter(Readings(relays=lambda: relays, queues=lambda: queues, lines_dropped=lambda: 7), now=lambda: now[0])
    relays += [
        relay("ws://good", counters={"events": 3}),
        relay("ws://deaf", serves=False, unresponsive_since=940.0),
        relay("ws://away", connected=False, serves=False, unresponsive_since=1_000.0, fault="refused"),
    ]
    now[0], queues["signals"] = 1_010.0, 4
    numbers = read(meter)
    assert total(numbers, "tenex_relay_unresponsive_seconds", relay="ws://good") == 0
    assert total(numbers, "tenex_relay_unresponsive_seconds", relay="ws://deaf") == 70
    assert total(numbers, "tenex_relay_unresponsive_seconds", relay="ws://away") == 10
    assert total(numbers, "tenex_relay_connected") == 2
    assert total(numbers, "tenex_relay_events_total", relay="ws://good", kind="events") == 3
    assert total(numbers, "tenex_queue_length", queue="signals") == 4
    assert total(numbers, "tenex_log_lines_dropped_total") == 7
    assert total(numbers, "process_resident_memory_bytes") > 1_000_000
    assert total(numbers, "process_open_fds") > 2


def test_conversations_in_memory_are_counted_by_state() -> None:
    scenario = Scenario(
        lambda question: (
            {"agents": ["helper"], "phase": "execute", "reason": "x"}
            if question["phase"] == "chat"
            else {"agents": ["helper"], "reason": "x"}
        ),
        diligent,
    )
    scenario.user_writes("hello")
    active = fold(ID, [record for decision in scenario.journal for record in decision])
    scenario.settle(1)
    assert scenario.conversation.is_parked
    failing = Scenario(
        seven_phases,
        lambda _c, call: ModelFailed(key=call.key, message="no", retryable=True),
        config=rules(limits=Limits(retry_delays=())),
    )
    failing.user_writes("hello")
    failing.settle(1)
    assert failing.records(r.RetryScheduled)[0].on_hold
    actors: list[Any] = [
        SimpleNamespace(conversation=active, is_suspended=False),
        SimpleNamespace(conversation=scenario.conversation, is_suspended=False),
        SimpleNamespace(conversation=failing.conversation, is_suspended=False),
        SimpleNamespace(conversation=None, is_suspended=True),
        SimpleNamespace(conversation=None, is_suspended=False),
    ]
    numbers = read(Meter(Readings(actors=lambda: actors)))
    states = {state: total(numbers, "tenex_conversations", state=state) for state in ("active", "parked", "held")}
    assert states == {"active": 2, "parked": 1, "held": 1}
    assert total(numbers, "tenex_conversations", state="suspended") == 1
    assert total(numbers, "tenex_conversations", state="waiting") == 0
    assert total(numbers, "tenex_runs") == len(scenario.conversation.runs) + len(failing.conversation.runs)


def test_the_disk_may_be_timed_from_any_thread_and_two_meters_share_nothing() -> None:
    one, other = Meter(Readings()), Meter(Readings())
    one.timed("append", 0.002)
    one.timed("flush", 0.001)
    assert total(read(one), "tenex_journal_seconds_count", work="append") == 1
    assert total(read(one), "tenex_journal_seconds_bucket", work="append", le="0.003") == 1
    assert total(read(other), "tenex_journal_seconds_count") == 0


def test_a_number_that_makes_no_sense_costs_no_conversation_and_no_sum() -> None:
    meter = Meter(Readings())
    odd = [
        Usage(input_tokens=-5, cost_usd=float("nan"), cache_read_tokens=-5),
        Usage(output_tokens=-1, cost_usd=-1.0),
        Usage(input_tokens=2, cache_read_tokens=1, cache_write_tokens=1),
    ]
    for seq, usage in enumerate(odd, start=1):
        step = ModelStep(model="m", usage=usage)
        record = r.ModelResponded(seq=seq, at=Millis(1), run="turn-1.x", step=step)  # type: ignore[arg-type]
        meter.on_records(Conversation(id=ID, next_seq=9), [record])
    assert total(read(meter), "tenex_model_tokens_total") == 2
    assert total(read(meter), "tenex_model_cache_tokens_total", work="read") == 1
    assert total(read(meter), "tenex_model_cache_tokens_total", work="write") == 1
    assert total(read(meter), "tenex_model_cost_usd_total") == 0


def test_an_internal_error_is_logged_and_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter(Readings())
    monkeypatch.setattr(meter, "_count", lambda *_: 1 / 0)
    with capture_logs() as logged:
        meter.on_records(Conversation(id=ID, next_seq=9), [r.RouteRequested(seq=1, at=Millis(1), attempt=1)])
    assert [line["event"] for line in logged] == ["meter.failed"]
