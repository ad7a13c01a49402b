"""Missions: what each signal leads to, whatever comes when; begun by a mention, continued, taken back, given up."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import Policy, Replay
from tenex.core.conversation import Conversation, fold
from tenex.core.dispatch import decide
from tenex.core.effects import Key, ModelCall, Route, Timer, Work
from tenex.core.errors import UsageError
from tenex.core.graph import END
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.pending import pending
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import of_fork
from tenex.core.signals import ClockJumped, Opened, RollBack, Signal, TimerFired
from tenex.store.format import CONVERSATION
from tenex.workflows.missions import records as m
from tenex.workflows.missions.config import Beginning, with_missions
from tenex.workflows.missions.decide import ANNOUNCED
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.signals import (
    ContinueRequested,
    NodeFailed,
    NodeReturned,
    PauseRequested,
    StepFinished,
    StepRequested,
)
from tenex.workflows.missions.state import mission_of
from tenex.workflows.speakers import TransitionGraph as Rounds
from tenex.workflows.speakers.state import session_of
from tests.fakes.scenario import ID
from tests.fakes.workflows import TRIO, workflow, workflow_policy
from tests.kits.missions import GRAPH, RULE, STATE, MissionScenario, config, requested

PAUSE, GO_ON = PauseRequested(by="bob", reason="lunch"), ContinueRequested(by="bob")


def test_a_mission_that_is_open_is_not_begun_again_and_none_that_is_not_configured() -> None:
    assert MissionScenario().begin().handle(requested()) == []
    for signal in (requested("other"), requested(node="Ghost")):
        assert MissionScenario().handle(signal) == []


def test_an_undeclared_edge_is_the_nodes_failure_and_names_what_is_permitted() -> None:
    scenario = MissionScenario().begin()
    scenario.returns("Second")
    scenario.handle(NodeReturned(key=scenario.run.key, to="Repair", state=scenario.mission.state))
    assert scenario.mission.outcome == "failed"
    assert scenario.mission.kind == "UndeclaredEdge"
    assert "Second cannot be followed by Repair; it may be followed by: First, END." in scenario.sent_texts()[-1]


def test_a_failure_for_good_takes_the_error_edge_with_the_reason() -> None:
    scenario = MissionScenario().begin()
    scenario.fails()
    error = {"node": "First", "kind": "ValueError", "message": "no good", "attempts": 1}
    assert (scenario.run.node, scenario.run.data) == ("Repair", {"error": error})
    assert scenario.mission.state["phases_completed"] == []
    scenario.fails()
    assert (scenario.mission.outcome, scenario.mission.message) == ("failed", "Repair: no good")


def test_a_transient_failure_is_retried_with_the_configured_delays_and_then_final() -> None:
    scenario = MissionScenario().begin()
    for attempt, delay in ((1, 1_000), (2, 4_000)):
        before = scenario.run.key
        scenario.fails("world")
        assert before not in pending(scenario.conversation)
        assert scenario.left("node-retry") == delay
        scenario.fire("node-retry")
        assert (scenario.run.attempt, scenario.run.node) == (attempt, "First")
    scenario.fails("world")
    assert scenario.run.node == "Repair"


@pytest.mark.parametrize("by", ["/continue", "restart"])
def test_a_node_whose_key_is_refused_waits_for_somebody_and_uses_up_no_try(by: str) -> None:
    scenario = begun()
    scenario.returns("Second")  # which is never tried again
    refused = NodeFailed(
        key=scenario.run.key,
        who="world",
        kind="ModelUnavailable",
        message="no such key: correct it",
        needs_operator=True,
    )
    scenario.handle(refused)
    assert scenario.sent_texts()[-1] == (
        "The mission m cannot go on at Second: no such key: correct it. I hold the work until then; after that, send "
        "`/continue`."
    )
    assert (scenario.mission.outcome, scenario.mission.attempt) == (None, 0)
    assert scenario.left("node-retry") > 50 * 365 * 24 * 3_600_000
    scenario.user_writes("/status")
    assert "held at Second, until `/continue`: no such key" in scenario.sent_texts()[-1]
    if by == "restart":
        scenario.handle(Opened())
    else:
        scenario.user_writes("/continue")
    assert scenario.run.node == "Second"
    scenario.handle(dataclasses.replace(refused, key=scenario.run.key, who="author"))  # of a step that runs once
    assert scenario.sent_texts()[-1].endswith("Once the operator has fixed that, mention @m in a new note.")


def test_the_deadline_counts_work_and_neither_waits_nor_pauses_nor_time_without_a_process() -> None:
    scenario = MissionScenario().begin()
    first = scenario.missions_timers()["node-close"]
    assert first.due == scenario.now + 60_000
    scenario.fails("world")
    assert "node-close" not in scenario.missions_timers()
    scenario.now = Millis(scenario.now + 500_000)
    scenario.fire("node-retry")
    again = scenario.missions_timers()["node-close"]
    assert again.due - first.due == pytest.approx(500_000, abs=10)
    assert again.key != first.key, "the old timer waits for the old time"
    scenario.handle(PAUSE)
    scenario.now = Millis(scenario.now + 3_600_000)
    scenario.handle(Opened())
    scenario.handle(GO_ON)
    assert scenario.missions_timers()["node-close"].due - again.due == pytest.approx(3_600_000, abs=10)
    left = scenario.left()
    scenario.now = Millis(scenario.now + 3_600_000)
    scenario.handle(Opened())
    assert scenario.left() == pytest.approx(left, abs=10)


def test_a_deadline_that_fires_ends_the_node_and_what_ran_is_unknown() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("pay")
    scenario.fire("node-close")
    (returned,) = scenario.records(m.StepCompleted)
    assert (returned.ok, returned.kind) == (False, "OutcomeUnknown")
    assert (scenario.run.node, scenario.run.data["error"]["kind"]) == ("Repair", "TimedOut")


@pytest.mark.parametrize("by", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_in_a_pause_or_a_wait_gives_and_takes_no_time(by: int) -> None:
    scenario = MissionScenario().begin()
    left = scenario.left()
    scenario.handle(PAUSE)
    scenario.now = Millis(scenario.now + by)
    scenario.handle(ClockJumped(by=by))
    scenario.handle(GO_ON)
    assert scenario.left() == pytest.approx(left, abs=10)
    scenario.fails("world")
    before = scenario.left("node-retry")
    scenario.now = Millis(scenario.now + by)
    scenario.handle(ClockJumped(by=by))
    assert scenario.left("node-retry") == pytest.approx(before, abs=10)
    scenario.fire("node-retry")
    assert scenario.left() == pytest.approx(left, abs=20)


def test_a_process_that_goes_on_knows_nothing_of_a_step_that_may_not_run_twice() -> None:
    scenario = MissionScenario().begin()
    for step, replay in (("look", Replay.READ), ("put", Replay.IDEMPOTENT), ("pay", Replay.ONCE)):
        scenario.ask(step, replay)
    scenario.crash()
    pay, *others = scenario.run.steps.values()
    assert (pay.id, pay.is_done, pay.kind) == ("pay", True, "OutcomeUnknown")
    assert [(step.id, step.is_done) for step in others] == [("look", False), ("put", False)]


@pytest.mark.parametrize("reason", ["lunch", ""])
def test_a_pause_lets_a_step_return_and_begins_no_other(reason: str) -> None:
    scenario = MissionScenario().begin()
    scenario.ask("a")
    scenario.handle(PauseRequested(by="bob", reason=reason))
    assert scenario.run.steps, "the step may return"
    scenario.done("a", result=5)
    assert scenario.is_paused()
    assert scenario.status() == "waiting"
    wanted = [effect for effect in pending(scenario.conversation).values() if isinstance(effect, NodeRun | Timer)]
    assert {effect.key.part for effect in wanted} <= {"lost"}, "of what relays have not taken yet"
    scenario.crash()
    assert scenario.is_paused(), "a restart does not continue it"
    scenario.handle(GO_ON)
    assert scenario.run.steps["a"].result == 5


def test_a_step_asked_for_after_the_pause_was_wanted_makes_it_begin_and_one_of_the_nodes_own_is_passed() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("a", Replay.READ)
    scenario.handle(PAUSE)
    scenario.ask("b")
    assert not scenario.is_paused(), "a is still under way"
    scenario.done("a")
    assert scenario.is_paused()
    assert list(scenario.mission.steps) == ["a"]
    scenario.handle(GO_ON)
    scenario.handle(PauseRequested(by="node", reason="look at it", node=scenario.run.key, step="pause"))
    assert scenario.is_paused()
    scenario.handle(GO_ON)
    assert scenario.run.steps["pause"].ok


def test_a_pause_that_was_wanted_is_kept_through_a_crash_and_a_failure() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("pay")
    scenario.handle(PAUSE)
    scenario.crash()
    assert scenario.is_paused(), "what was under way is over"
    for who in ("world", "author"):
        scenario = MissionScenario().begin()
        scenario.ask("look", Replay.READ)
        scenario.handle(PAUSE)
        scenario.fails(who)
        assert scenario.is_paused()
        assert scenario.records(m.MissionPaused)[0].by == "bob"


def test_stop_pauses_continue_resumes_new_ends_it_and_messages_are_kept() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("pay")
    run = scenario.run
    scenario.user_writes("how is it going?")
    assert scenario.run.key == run.key
    assert "is at work in First" in scenario.sent_texts()[-1]
    scenario.user_writes("/quick")
    assert "no quality gates" in scenario.sent_texts()[-1]
    scenario.user_writes("/stop")
    assert scenario.is_paused()
    assert scenario.sent_texts()[-1] == "Stopped: the mission m. `/continue` goes on, `/new` ends it."
    assert scenario.mission.steps["pay"].kind == "OutcomeUnknown"
    scenario.user_writes("hello?")
    assert "is paused at First" in scenario.sent_texts()[-1]
    assert scenario.status() == "waiting"
    assert not any(isinstance(effect, Route | ModelCall) for effect in pending(scenario.conversation).values())
    scenario.user_writes("/continue")
    assert scenario.run.node == "First"
    scenario.user_writes("/status")
    assert "is at work in First" in scenario.sent_texts()[-1]
    scenario.user_writes("/new")
    assert scenario.mission.outcome == "stopped"
    assert scenario.status() == "ended"
    assert [message.text for message in scenario.conversation.memory.recent if message.role] == [
        "how is it going?",
        "hello?",
    ]
    scenario.converse("something else")
    assert scenario.conversation.cycle.turns, "the router is asked again once the mission is over"


def test_the_limit_of_nodes_asks_first_and_counts_from_zero_when_continued() -> None:
    scenario = MissionScenario(config(nodes_per_mission=3)).begin()
    scenario.returns("Second")
    scenario.returns("First")
    assert scenario.is_paused()
    assert scenario.records(r.LimitReached)[0].limit == "nodes_per_mission"
    scenario.user_writes("/continue")
    assert scenario.run.node == "First", "the node it was about to enter"
    scenario.returns("Second")
    assert not scenario.is_paused()


def test_a_node_that_takes_too_many_steps_or_returns_while_one_is_under_way_fails() -> None:
    scenario = MissionScenario(config(steps_per_node=2)).begin()
    for step in ("a", "b"):
        scenario.ask(step)
        scenario.done(step)
    scenario.ask("c")
    assert scenario.run.data["error"]["kind"] == "TooManySteps"
    scenario = MissionScenario().begin()
    scenario.ask("forgotten")
    scenario.returns("Second")
    assert scenario.run.data["error"]["kind"] == "StepLeftOpen"


def test_a_mission_whose_workflow_or_node_is_gone_waits_for_it_and_loses_nothing() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("a")
    scenario.done("a", result=1)
    known = scenario.policy
    less = dataclasses.replace(RULE, nodes={"Second": RULE.nodes["Second"]})
    for missions in ({}, {"m": less}):
        scenario.policy = with_missions(known, missions)
        scenario.crash()
        assert scenario.is_paused()
        scenario.policy = known
        scenario.handle(GO_ON)
        assert scenario.run.steps["a"].result == 1
    scenario.fails("operator")
    assert scenario.is_paused()
    scenario.handle(GO_ON)
    scenario.policy = with_missions(known, {"m": less})
    scenario.returns("Second")
    assert scenario.is_paused(), "a node that is not known any more has no edges to check"
    scenario.policy = known
    scenario.handle(GO_ON)
    scenario.policy = with_missions(known, {})
    scenario.fire("node-close")
    assert scenario.is_paused()


def test_a_fork_goes_on_with_keys_of_its_own() -> None:
    scenario = MissionScenario().begin()
    for step in ("a", "b"):
        scenario.ask(step, Replay.IDEMPOTENT)
    scenario.done("a", result=1)
    fork = of_fork(scenario.conversation, scenario.now, id=ConversationId("f" * 64), address={}, title="beside")
    mission = mission_of(fork)
    assert mission is not None
    assert list(mission.steps) == ["a"], "a step under way there would share its number with another here"
    assert mission.is_paused


def test_a_rollback_to_every_record_continues_to_the_end() -> None:
    scenario = MissionScenario().begin()
    scenario.ask("a")
    scenario.done("a", n=1)
    scenario.returns("Second", n=2)
    scenario.ask("pay")
    scenario.done("pay", n=3)
    scenario.returns("First")
    scenario.fails()
    whole = scenario.records()
    keys = {seq for record in whole if (seq := getattr(record, "seq", 0))}
    for to in range(2, len(whole)):
        then = state_at(ID, whole, to)
        again = MissionScenario()
        again.journal, again.conversation = [tuple(whole)], fold(ID, whole)
        if not again.handle(RollBack(to=then.next_seq - 1, then=then, by="bob")) or not then.has_open_kind:
            continue
        assert again.mission.is_paused
        assert again.mission.node == mission_of(then).node  # type: ignore[union-attr]
        again.handle(ContinueRequested(by="bob"))
        assert again.run.key.seq not in keys, "a key never means two things"
        assert not any(step.replay is Replay.ONCE for step in again.mission.open_steps)
        assert again.mission.state["n"] == mission_of(then).state["n"]  # type: ignore[union-attr]
        while again.mission.is_open:
            again.returns("Second" if again.run.node == "Repair" else END)


SIGNALS: list[Signal] = [PAUSE, GO_ON, Opened(), requested()]
_names = st.sampled_from(["a", "b", "c"])
_state = st.fixed_dictionaries({"n": st.integers(0, 3)}).map(lambda n: {**STATE, **n})


@st.composite
def signals(draw: st.DrawFn, conversation: Conversation) -> Signal:
    """A signal as it may come: of what is wanted, of what was wanted once, or of nothing."""
    wanted = [effect.key for effect in pending(conversation).values() if effect.key.work is Work.NODE]
    timers = [effect.key for effect in pending(conversation).values() if effect.key.work is Work.TIMER]
    stale = Key(Work.NODE, draw(st.integers(1, 40)))
    key = draw(st.sampled_from([*wanted * 4, stale]))
    kinds: list[st.SearchStrategy[Signal]] = [
        st.builds(StepRequested, node=st.just(key), step=_names, replay=st.sampled_from(Replay)),
        st.builds(StepFinished, node=st.just(key), step=_names, ok=st.booleans(), state=_state),
        st.builds(NodeReturned, key=st.just(key), to=st.sampled_from([*GRAPH.nodes, END, "Ghost"]), state=_state),
        st.sampled_from(
            [NodeFailed(key=key, who=who, kind="E", message="e") for who in ("world", "author", "operator")]
        ),
        st.builds(PauseRequested, by=st.just("n"), reason=st.just("r"), node=st.just(key), step=_names),
        *[st.sampled_from(SIGNALS)] * 3,
    ]
    if timers:
        kinds.append(st.builds(TimerFired, key=st.sampled_from(timers)))
    return draw(st.one_of(kinds))


def check_drawn_signals(data: st.DataObject) -> None:
    """Handle drawn signals and check the state after each."""
    scenario = MissionScenario(config(nodes_per_mission=5, steps_per_node=4)).begin()
    for _ in range(data.draw(st.integers(1, 30))):
        before = dict(pending(scenario.conversation))
        signal = data.draw(signals(scenario.conversation))
        twice = decide(scenario.conversation, signal, scenario.policy, Millis(scenario.now + 1)).records
        records = scenario.handle(signal)
        assert len(twice) == len(records), "deciding is pure"
        ended = getattr(signal, "key", None)
        if ended in before:
            assert ended not in pending(scenario.conversation), "a task that ended is not wanted any more"
        elif isinstance(signal, NodeReturned | NodeFailed | StepRequested | StepFinished):
            key = signal.key if isinstance(signal, NodeReturned | NodeFailed) else signal.node
            assert key in before or not records, "what is stale changes nothing"
        mission = scenario.mission
        running = [effect for effect in pending(scenario.conversation).values() if isinstance(effect, NodeRun)]
        assert len(running) == (mission.wants is not None)
        if mission.is_paused or not mission.is_open:
            assert not running
            assert not scenario.missions_timers()
        for record in records:
            if isinstance(record, m.NodeCompleted) and not record.kind:
                assert GRAPH.permits(record.node, record.to), "only declared edges are taken"
    lines = CONVERSATION.encode_decisions(scenario.journal)
    kept, _, fault = CONVERSATION.decode_lines(lines)
    assert fault is None
    assert fold(ID, kept) == scenario.conversation, "the journal holds all of it"


@given(st.data())
@settings(max_examples=15)
def test_any_order_of_signals_keeps_the_state_sound(data: st.DataObject) -> None:
    check_drawn_signals(data)


@pytest.mark.soak
@given(st.data())
@settings(max_examples=800)
def test_any_long_order_of_signals_keeps_the_state_sound(data: st.DataObject) -> None:
    check_drawn_signals(data)


KEY = PublicKey("e" * 64)


def beginning(text: str) -> Beginning:
    """A message that states no more than `@m` is of no use."""
    if text == "@m":
        raise UsageError("Say more.")
    return Beginning(node="First", data={"x": len(text)}, state=STATE)


MINE = dataclasses.replace(RULE, pubkey=KEY, begin=beginning)


def mine(**limits: Any) -> Policy:
    """The usual roster, with one mission that users can begin."""
    return with_missions(config(**limits), {"m": MINE})


def begun(policy: Policy | None = None) -> MissionScenario:
    scenario = MissionScenario(policy or mine())
    scenario.user_writes("@m count", addressed=("m",))
    return scenario


def tags(record: r.MessageSent) -> dict[str, str]:
    return {tag[0]: tag[1] for tag in record.tags}


def test_a_mention_begins_it_and_it_speaks_with_its_own_key() -> None:
    scenario = begun()
    assert (scenario.mission.by, scenario.mission.is_alone, scenario.run.data) == ("alice", True, {"x": 8})
    scenario.returns("Second")
    scenario.returns(END, {"ok": True})
    ended = "The mission m has ended. Its result:\n- ok: yes"
    assert scenario.sent_texts() == ["Now in first", "Now in second", ended]
    assert {record.speaker for record in scenario.records(r.MessageSent)} == {KEY}
    *others, last = [tags(record) for record in scenario.records(r.MessageSent)]
    assert (others, last) == ([{"workflow": "m"}] * 2, {"workflow": "m", "close-reason": "finished"})
    assert (scenario.status(), scenario.records(r.Ended)[-1].reason) == ("ended", "the mission m finished")
    assert not scenario.records(r.RouteRequested), "no model was asked"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "."),
        ("It is built.", ". Its result: It is built."),
        (True, ". Its result: yes"),
        (0.5, ". Its result: 0.5"),
        ([], ". Its result: none"),
        (
            {"all_green": False, "why": "", "files": ["a.py", "b.py"], "more": {"runs": 2, "left": None}},
            (
                ". Its result:\n- all green: no\n- why: none\n- files:\n  - a.py\n  - b.py\n"
                "- more:\n  - runs: 2\n  - left: none"
            ),
        ),
    ],
)
def test_a_person_reads_the_result_in_words(value: Any, words: str) -> None:
    scenario = begun()
    scenario.returns("Second")
    scenario.returns(END, value)
    assert scenario.sent_texts()[-1] == f"The mission m has ended{words}"


@pytest.mark.parametrize(("last", "where"), [(0, "m at First."), (1, "m at Second, finished.")])
def test_who_goes_back_is_notified_where_the_mission_was(last: int, where: str) -> None:
    scenario = begun()
    ends = [scenario.conversation.next_seq - 1]
    scenario.returns("Second")
    scenario.returns(END)
    ends.append(scenario.conversation.next_seq - 1)
    scenario.user_writes("and now?")
    then = state_at(ID, scenario.records(), ends[last])
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="bob"))
    assert f"we are {where} Nothing that a turn did is undone." in scenario.sent_texts()[-1]


@pytest.mark.parametrize("between", ["", "crash", "/new", "/continue"])
def test_what_is_written_after_a_refusal_begins_it_and_no_router_is_asked(between: str) -> None:
    scenario = MissionScenario(mine())
    for _ in range(2):
        scenario.user_writes("@m", addressed=("m",))
        assert scenario.sent_texts()[-1] == "The mission m cannot begin: Say more. Correct it and write it here again."
    if between == "crash":
        scenario.crash()
    elif between:
        scenario.user_writes(between)
        assert scenario.sent_texts()[-1].startswith("The mission m has not begun.")
    scenario.user_writes("count")
    assert (scenario.mission.by, scenario.run.data, scenario.status()) == ("alice", {"x": 5}, "active")
    assert len(scenario.records(m.MissionRefused)) == 2
    assert not scenario.records(r.RouteRequested)
    scenario.returns(END)
    scenario.user_writes("once more")
    assert "To run it again, mention @m in a new note" in scenario.sent_texts()[-1]


def test_pause_lets_the_step_return_continue_goes_on_and_new_ends_it() -> None:
    scenario = begun()
    scenario.ask("a")
    scenario.user_writes("/pause")
    assert "as soon as the step under way has returned" in scenario.sent_texts()[-1]
    scenario.user_writes("/continue")
    assert "is at work" in scenario.sent_texts()[-1]
    scenario.done("a")
    assert scenario.is_paused()
    assert (
        scenario.sent_texts()[-1] == "The mission m is paused at First: alice asks for it. `/continue` lets it go on."
    )
    sent = len(scenario.sent_texts())
    scenario.user_writes("/pause")
    assert scenario.sent_texts()[sent:] == ["The mission m is paused at First: alice asks for it."]
    scenario.user_writes("/continue")
    assert (scenario.is_paused(), scenario.sent_texts()[-1]) == (False, "The mission goes on.")
    sent = len(scenario.sent_texts())
    scenario.user_writes("/pause")
    assert scenario.is_paused(), "with nothing under way it pauses at once"
    assert len(scenario.sent_texts()) == sent + 1, "and no one is notified to wait for it"
    scenario.user_writes("/new")
    assert scenario.sent_texts()[-1] == "The mission m has ended: alice ended it."
    assert tags(scenario.records(r.MessageSent)[-1])["close-reason"] == "stopped"


@pytest.mark.parametrize("text", ["again, please", "@m again", "/continue", "/retry", "/new"])
def test_who_writes_after_the_end_is_notified_how_to_run_it_again(text: str) -> None:
    scenario = begun()
    scenario.returns(END, 1)
    scenario.user_writes(text, addressed=("m",) if "@m" in text else ())
    assert scenario.sent_texts()[-1] == "The mission m has ended (finished). To run it again, mention @m in a new note."
    assert scenario.status() == "ended"
    scenario.user_writes("/status")
    assert scenario.sent_texts()[-1].startswith("The mission m has ended (finished).")
    assert (scenario.records(r.RouteRequested), len(scenario.records(m.MissionOpened))) == ([], 1)


def test_a_mission_and_a_workflow_of_speakers_do_not_begin_each_other() -> None:
    graph = Rounds.sequence(list(TRIO))
    both = dataclasses.replace(workflow_policy(workflow(graph), config=mine()))
    scenario = MissionScenario(both)
    scenario.user_writes("@review @m", addressed=("review", "m"))
    assert session_of(scenario.conversation) is not None
    assert mission_of(scenario.conversation) is None
    other = MissionScenario(both)
    other.user_writes("@m @review", addressed=("m", "review"))
    assert (other.mission.workflow, session_of(other.conversation)) == ("m", None)


@pytest.mark.parametrize(
    ("who", "kind", "remedy"),
    [
        ("author", "ValueError", "The author of its code has to fix that; then mention @m in a new note."),
        ("world", "ConnectionError", "That may pass by itself; to try again, mention @m in a new note."),
        ("author", "OutcomeUnknown", "Somebody has to look at what that step did; then mention @m in a new note."),
    ],
)
def test_a_failure_states_who_has_to_do_what(who: Any, kind: str, remedy: str) -> None:
    scenario = begun()
    scenario.returns("Second")  # which is not tried again, and has no node that follows its failure
    scenario.handle(NodeFailed(key=scenario.run.key, who=who, kind=kind, message="it broke"))
    assert scenario.sent_texts()[-1] == f"The mission m has failed: Second: it broke. {remedy}"
    last = tags(scenario.records(r.MessageSent)[-1])
    assert (last["close-reason"], last["error"]) == ("failed", "mission")


def test_a_mission_whose_node_is_gone_waits_for_the_operator() -> None:
    scenario = begun()
    scenario.policy = with_missions(scenario.policy, {})
    scenario.crash()
    scenario.handle(Opened())
    assert scenario.is_paused()
    assert "Once the operator has fixed that, `/continue` lets it go on." in scenario.sent_texts()[-1]
    scenario.user_writes("/continue")
    assert "no workflow m is configured any more" in scenario.sent_texts()[-1], "and not that it goes on"
    scenario.policy = mine()
    scenario.user_writes("/continue")
    assert (scenario.is_paused(), scenario.run.node) == (False, "First")


def test_a_long_search_is_not_reported_node_by_node() -> None:
    scenario = begun()
    for _ in range(ANNOUNCED):
        scenario.returns("Second")
        scenario.returns("First")
    reported = [record.text for record in scenario.records(r.MessageSent) if record.purpose == "announcement"]
    assert len(reported) == ANNOUNCED
    assert "`/status` shows the current one" in reported[-1]
