"""Missions in the core: what each signal leads to, whatever comes when; and going on, going back, giving up."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import Limits, Policy, Replay
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.dispatch import decide
from tenex.core.decide.rollback import state_at
from tenex.core.effects import Key, ModelCall, NodeRun, Route, Timer, Work
from tenex.core.graph import END, Edge, TransitionGraph
from tenex.core.ids import ConversationId, Millis
from tenex.core.mission_config import MissionRule, NodeRule
from tenex.core.pending import pending
from tenex.core.signals import (
    ClockJumped,
    ContinueRequested,
    MissionRequested,
    NodeFailed,
    NodeReturned,
    Opened,
    PauseRequested,
    RollBack,
    Signal,
    StepFinished,
    StepRequested,
    TimerFired,
)
from tenex.core.state.mission import Mission
from tenex.core.state.rollback import of_fork
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tests.fakes.scenario import ID, Scenario, diligent, rules, seven_phases

GRAPH = TransitionGraph(
    nodes=("First", "Second", "Mend"),
    initial="First",
    edges=(
        Edge("First", "Second"),
        Edge("First", END),
        Edge("First", "Mend"),
        Edge("Second", "First"),
        Edge("Second", END),
        Edge("Mend", "Second"),
    ),
)
RULE = MissionRule(
    graph=GRAPH,
    nodes={
        "First": NodeRule(phase="first", timeout=60_000, retries=2, on_error="Mend"),
        "Second": NodeRule(phase="second", retries=0),
        "Mend": NodeRule(phase="mend", takes_error=True),
    },
    tracked=frozenset({"current_phase", "phases_completed"}),
)
STATE = {"n": 0, "current_phase": "", "phases_completed": []}


def config(**limits: Any) -> Policy:
    """The usual roster with one mission."""
    return dataclasses.replace(rules(limits=Limits(**limits)), missions={"m": RULE})


class Tale(Scenario):
    """A scenario with a mission in it."""

    def __init__(self, config_: Policy | None = None) -> None:
        super().__init__(seven_phases, diligent, config=config_ or config())

    def begin(self) -> "Tale":
        """Open the mission at its first node."""
        self.handle(MissionRequested(workflow="m", node="First", data={"x": 1}, state=STATE, by="alice"))
        return self

    @property
    def mission(self) -> Mission:
        """The mission."""
        assert self.conversation.mission is not None
        return self.conversation.mission

    @property
    def run(self) -> NodeRun:
        """The node that is wanted."""
        return next(effect for effect in pending(self.conversation).values() if isinstance(effect, NodeRun))

    def ask(self, step: str, replay: Replay = Replay.ONCE) -> list[r.Record]:
        """The node wants a step."""
        return self.handle(StepRequested(node=self.run.key, step=step, replay=replay))

    def done(self, step: str, *, ok: bool = True, result: Any = None, **state: Any) -> list[r.Record]:
        """The step is done."""
        whole = {**self.mission.state, **state}
        return self.handle(StepFinished(node=self.run.key, step=step, ok=ok, result=result, state=whole))

    def returns(self, to: str, result: Any = None, **state: Any) -> list[r.Record]:
        """The node returns."""
        whole = {**self.mission.state, **state}
        return self.handle(NodeReturned(key=self.run.key, to=to, result=result, state=whole))

    def fails(self, who: Any = "author") -> list[r.Record]:
        """The node fails."""
        return self.handle(NodeFailed(key=self.run.key, who=who, kind="ValueError", message="no good"))

    def missions_timers(self) -> dict[str, Timer]:
        """The timers of the mission, by their part."""
        found = (effect for effect in pending(self.conversation).values() if isinstance(effect, Timer))
        return {timer.key.part: timer for timer in found if timer.key.part.startswith("node")}

    def is_paused(self) -> bool:
        """Whether the mission is paused."""
        return self.mission.is_paused

    def status(self) -> str:
        """The conversation's status."""
        return self.conversation.status

    def last_words(self) -> str:
        """What was sent last."""
        return str(self.records(r.MessageSent)[-1].text)


def test_a_mission_goes_from_node_to_node_and_keeps_its_phases() -> None:
    tale = Tale().begin()
    assert tale.mission.state["current_phase"] == "first"
    tale.returns("Second", n=1)
    assert (tale.run.node, tale.run.state["n"], tale.run.state["current_phase"]) == ("Second", 1, "second")
    tale.returns("First")
    tale.returns(END, {"ok": True}, phases_completed=["first", "mine"])
    assert tale.mission.outcome == "finished"
    assert tale.mission.result == {"ok": True}
    assert tale.mission.state["phases_completed"] == ["first", "second", "mine"]
    assert tale.status() == "ended"
    assert not any(isinstance(effect, NodeRun) for effect in pending(tale.conversation).values())


def test_a_mission_that_is_open_is_not_begun_again() -> None:
    tale = Tale().begin()
    assert tale.handle(MissionRequested(workflow="m", node="First", data={}, state=STATE, by="bob")) == []
    for workflow, node in (("other", "First"), ("m", "Ghost")):
        assert Tale().handle(MissionRequested(workflow=workflow, node=node, data={}, state=STATE, by="bob")) == []


def test_only_what_changed_in_the_state_is_recorded() -> None:
    tale = Tale().begin()
    tale.ask("s")
    tale.done("s", n=7)
    assert tale.records(r.StepCompleted)[0].changed == {"n": 7}
    tale.returns("Second", n=7)
    assert tale.records(r.NodeCompleted)[0].changed == {"phases_completed": ["first"]}


def test_an_undeclared_edge_is_the_nodes_failure_and_names_what_is_permitted() -> None:
    tale = Tale().begin()
    tale.returns("Second")
    tale.handle(NodeReturned(key=tale.run.key, to="Mend", state=tale.mission.state))
    assert tale.mission.outcome == "failed"
    assert tale.mission.kind == "UndeclaredEdge"
    assert "Second cannot be followed by Mend; it may be followed by: First, END." in tale.last_words()


def test_a_failure_for_good_takes_the_error_edge_with_the_reason() -> None:
    tale = Tale().begin()
    tale.fails()
    error = {"node": "First", "kind": "ValueError", "message": "no good", "attempts": 1}
    assert (tale.run.node, tale.run.data) == ("Mend", {"error": error})
    assert tale.mission.state["phases_completed"] == []
    tale.fails()
    assert (tale.mission.outcome, tale.mission.message) == ("failed", "Mend: no good")


def test_what_may_pass_is_tried_again_by_the_table_and_then_given_up() -> None:
    tale = Tale().begin()
    waits = []
    for attempt in (1, 2):
        before = tale.run.key
        tale.fails("world")
        assert before not in pending(tale.conversation)
        timer = tale.missions_timers()["node-retry"]
        waits.append(timer.due - tale.now)
        tale.now = timer.due
        tale.handle(TimerFired(key=timer.key))
        assert (tale.run.attempt, tale.run.node) == (attempt, "First")
    assert waits == [1_000, 4_000]
    tale.fails("world")
    assert tale.run.node == "Mend"


def test_a_wait_that_was_asked_for_is_kept() -> None:
    tale = Tale().begin()
    tale.handle(NodeFailed(key=tale.run.key, who="world", kind="Busy", message="later", retry_after=90_000))
    assert tale.missions_timers()["node-retry"].due == tale.now + 90_000


def test_a_steps_result_outlives_a_retry_and_a_failed_one_runs_again() -> None:
    tale = Tale().begin()
    for step, replay, ok in (("a", Replay.ONCE, True), ("b", Replay.READ, False), ("c", Replay.ONCE, False)):
        tale.ask(step, replay)
        tale.done(step, ok=ok, result=1)
    tale.fails("world")
    tale.handle(TimerFired(key=tale.missions_timers()["node-retry"].key))
    assert list(tale.run.steps) == ["a", "c"]


def test_the_deadline_counts_work_and_neither_waits_nor_pauses() -> None:
    tale = Tale().begin()
    first = tale.missions_timers()["node-close"]
    assert first.due == tale.now + 60_000
    tale.fails("world")
    assert "node-close" not in tale.missions_timers()
    tale.now = Millis(tale.now + 500_000)
    tale.handle(TimerFired(key=tale.missions_timers()["node-retry"].key))
    again = tale.missions_timers()["node-close"]
    assert again.due - first.due == pytest.approx(500_000, abs=10)
    assert again.key != first.key, "the old timer waits for the old time"
    tale.handle(PauseRequested(by="bob", reason="lunch"))
    tale.now = Millis(tale.now + 3_600_000)
    tale.handle(ContinueRequested(by="bob"))
    assert tale.missions_timers()["node-close"].due - again.due == pytest.approx(3_600_000, abs=10)


def test_a_deadline_that_fires_ends_the_node_and_what_ran_is_unknown() -> None:
    tale = Tale().begin()
    tale.ask("pay")
    close = tale.missions_timers()["node-close"]
    tale.handle(TimerFired(key=close.key))
    returned = tale.records(r.StepCompleted)[0]
    assert (returned.ok, returned.kind) == (False, "OutcomeUnknown")
    assert (tale.run.node, tale.run.data["error"]["kind"]) == ("Mend", "TimedOut")


def test_time_no_one_was_there_and_a_clock_that_is_set_move_the_deadline() -> None:
    tale = Tale().begin()
    due = tale.missions_timers()["node-close"].due
    tale.handle(ClockJumped(by=3_600_000))
    assert tale.missions_timers()["node-close"].due == due + 3_600_000
    tale.now = Millis(tale.now + 50_000_000)
    tale.handle(Opened())
    assert tale.missions_timers()["node-close"].due > tale.now


def test_time_no_one_was_there_in_a_pause_is_given_back_once() -> None:
    tale = Tale().begin()
    left = tale.missions_timers()["node-close"].due - tale.now
    tale.handle(PauseRequested(by="alice", reason="lunch"))
    tale.now = Millis(tale.now + 50_000_000)
    tale.handle(Opened())
    tale.handle(ContinueRequested(by="alice"))
    assert tale.missions_timers()["node-close"].due - tale.now == pytest.approx(left, abs=10)  # it ticks by the signal


@pytest.mark.parametrize("by", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_in_a_pause_or_a_wait_gives_and_takes_no_time(by: int) -> None:
    tale = Tale().begin()
    left = tale.missions_timers()["node-close"].due - tale.now
    tale.handle(PauseRequested(by="alice", reason="lunch"))
    tale.now = Millis(tale.now + by)
    tale.handle(ClockJumped(by=by))
    tale.handle(ContinueRequested(by="alice"))
    assert tale.missions_timers()["node-close"].due - tale.now == pytest.approx(left, abs=10)  # it ticks by the signal
    tale.fails("world")
    before = tale.missions_timers()["node-retry"].due - tale.now
    tale.now = Millis(tale.now + by)
    tale.handle(ClockJumped(by=by))
    again = tale.missions_timers()["node-retry"]
    assert again.due - tale.now == pytest.approx(before, abs=10)
    tale.now = again.due
    tale.handle(TimerFired(key=again.key))
    assert tale.missions_timers()["node-close"].due - tale.now == pytest.approx(left, abs=20)


def test_a_process_that_goes_on_knows_nothing_of_a_step_that_may_not_run_twice() -> None:
    tale = Tale().begin()
    for step, replay in (("look", Replay.READ), ("put", Replay.IDEMPOTENT), ("pay", Replay.ONCE)):
        tale.ask(step, replay)
    tale.crash()
    steps = tale.run.steps
    assert [(step.id, step.is_done, step.kind) for step in steps.values()] == [
        ("pay", True, "OutcomeUnknown"),
        ("look", False, ""),
        ("put", False, ""),
    ]


def test_a_pause_lets_a_step_return_and_begins_no_other() -> None:
    tale = Tale().begin()
    tale.ask("a")
    tale.handle(PauseRequested(by="bob", reason="lunch"))
    assert tale.run.steps, "the step may return"
    tale.done("a", result=5)
    assert tale.is_paused()
    assert tale.status() == "waiting"
    assert not [effect for effect in pending(tale.conversation).values() if isinstance(effect, NodeRun | Timer)]
    tale.crash()
    assert tale.is_paused(), "a restart is no one's word"
    tale.handle(ContinueRequested(by="bob"))
    assert tale.run.steps["a"].result == 5


def test_a_pause_that_was_asked_for_without_a_reason_is_one() -> None:
    tale = Tale().begin()
    tale.ask("a")
    tale.handle(PauseRequested(by="bob", reason=""))
    tale.done("a")
    assert tale.is_paused()


def test_a_step_asked_for_after_the_pause_was_wanted_makes_it_begin() -> None:
    tale = Tale().begin()
    tale.ask("a", Replay.READ)
    tale.handle(PauseRequested(by="bob", reason="lunch"))
    tale.ask("b")
    assert not tale.is_paused(), "a is still under way"
    tale.done("a")
    assert tale.is_paused()
    assert list(tale.mission.steps) == ["a"]


def test_a_pause_that_was_wanted_is_kept_through_a_crash_and_a_failure() -> None:
    tale = Tale().begin()
    tale.ask("pay")
    tale.handle(PauseRequested(by="bob", reason="lunch"))
    tale.crash()
    assert tale.is_paused(), "what was under way is over"
    for who in ("world", "author"):
        tale = Tale().begin()
        tale.ask("look", Replay.READ)
        tale.handle(PauseRequested(by="bob", reason="lunch"))
        tale.fails(who)
        assert tale.is_paused()
        assert tale.records(r.MissionPaused)[0].by == "bob"


def test_a_pause_of_the_nodes_own_is_passed_when_it_goes_on() -> None:
    tale = Tale().begin()
    tale.handle(PauseRequested(by="node", reason="look at it", node=tale.run.key, step="pause"))
    assert tale.is_paused()
    tale.handle(ContinueRequested(by="bob"))
    assert tale.run.steps["pause"].ok


def test_stop_pauses_continue_goes_on_new_ends_it_and_words_are_kept() -> None:
    tale = Tale().begin()
    tale.ask("pay")
    tale.user_writes("how is it going?")
    assert "is at work in First" in tale.last_words()
    tale.user_writes("/stop")
    assert tale.is_paused()
    assert "Stopped: the mission m" in tale.last_words()
    assert tale.mission.steps["pay"].kind == "OutcomeUnknown"
    tale.user_writes("hello?")
    assert "is paused at First" in tale.last_words()
    assert tale.status() == "waiting"
    assert not any(isinstance(effect, Route | ModelCall) for effect in pending(tale.conversation).values())
    tale.user_writes("/continue")
    assert tale.run.node == "First"
    tale.user_writes("/status")
    assert "is at work in First" in tale.last_words()
    tale.user_writes("/new")
    assert tale.mission.outcome == "stopped"
    assert tale.status() == "ended"
    assert [message.text for message in tale.conversation.recent if message.role] == ["how is it going?", "hello?"]
    tale.converse("something else")
    assert tale.conversation.turns, "the router is asked again once the mission is over"


def test_the_limit_of_nodes_asks_first_and_starts_over_when_continued() -> None:
    tale = Tale(config(nodes_per_mission=3)).begin()
    tale.returns("Second")
    tale.returns("First")
    assert tale.is_paused()
    assert tale.records(r.LimitReached)[0].limit == "nodes_per_mission"
    tale.user_writes("/continue")
    assert tale.run.node == "First", "the node it was about to enter"
    tale.returns("Second")
    assert not tale.is_paused()


def test_a_node_that_takes_too_many_steps_fails() -> None:
    tale = Tale(config(steps_per_node=2)).begin()
    for step in ("a", "b"):
        tale.ask(step)
        tale.done(step)
    tale.ask("c")
    assert tale.run.data["error"]["kind"] == "TooManySteps"


def test_a_node_that_returns_while_a_step_is_under_way_fails() -> None:
    tale = Tale().begin()
    tale.ask("forgotten")
    tale.returns("Second")
    assert tale.run.data["error"]["kind"] == "StepLeftOpen"


def test_a_workflow_that_is_gone_or_lost_the_node_waits_for_it_and_loses_nothing() -> None:
    tale = Tale().begin()
    tale.ask("a")
    tale.done("a", result=1)
    known = tale.rules
    less = dataclasses.replace(RULE, nodes={"Second": RULE.nodes["Second"]})
    for missions in ({}, {"m": less}):
        tale.rules = dataclasses.replace(known, missions=missions)
        tale.crash()
        assert tale.is_paused()
        tale.rules = known
        tale.handle(ContinueRequested(by="bob"))
        assert tale.run.steps["a"].result == 1
    tale.fails("operator")
    assert tale.is_paused()
    tale.handle(ContinueRequested(by="bob"))
    tale.rules = dataclasses.replace(known, missions={"m": less})
    tale.returns("Second")
    assert tale.is_paused(), "a node no one knows any more has no edges to be held against"
    tale.rules = known
    tale.handle(ContinueRequested(by="bob"))
    tale.rules = dataclasses.replace(known, missions={})
    tale.handle(TimerFired(key=tale.missions_timers()["node-close"].key))
    assert tale.is_paused()


def test_a_fork_goes_on_with_keys_of_its_own() -> None:
    tale = Tale().begin()
    for step in ("a", "b"):
        tale.ask(step, Replay.IDEMPOTENT)
    tale.done("a", result=1)
    fork = of_fork(tale.conversation, tale.now, id=ConversationId("f" * 64), address={}, title="beside")
    assert fork.mission is not None
    assert list(fork.mission.steps) == ["a"], "a step under way there would share its number with another here"
    assert fork.mission.is_paused


def test_one_goes_back_to_every_record_and_on_to_the_end_from_there() -> None:
    tale = Tale().begin()
    tale.ask("a")
    tale.done("a", n=1)
    tale.returns("Second", n=2)
    tale.ask("pay")
    tale.done("pay", n=3)
    tale.returns("First")
    tale.fails()
    whole = tale.records()
    keys = {seq for record in whole if (seq := getattr(record, "seq", 0))}
    for to in range(2, len(whole)):
        then = state_at(ID, whole, to)
        again = Tale()
        again.journal, again.conversation = [tuple(whole)], fold(ID, whole)
        if not again.handle(RollBack(to=then.next_seq - 1, then=then, by="bob")):
            continue
        if not then.has_mission:
            continue
        assert again.mission.is_paused
        assert again.mission.node == then.mission.node  # type: ignore[union-attr]
        again.handle(ContinueRequested(by="bob"))
        assert again.run.key.seq not in keys, "a key never means two things"
        assert not any(step.replay is Replay.ONCE for step in again.mission.open_steps)
        assert again.mission.state["n"] == then.mission.state["n"]  # type: ignore[union-attr]
        while again.mission.is_open:
            again.returns("Second" if again.run.node == "Mend" else END)
        assert again.refold() == again.conversation


def test_a_mission_is_bounded_by_a_checkpoint_that_states_all_of_it() -> None:
    tale = Tale().begin()
    tale.ask("a")
    tale.done("a", result={"deep": [1, None, "x"]}, n=4)
    stands = StateSnapshot.of(tale.conversation)
    again = fold(ID, CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[stands]]))[0])
    assert again.mission == tale.conversation.mission


# ---- whatever comes when ---------------------------------------------------------------------------------------------

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
        st.builds(
            NodeFailed,
            key=st.just(key),
            who=st.sampled_from(["world", "author", "operator"]),
            kind=st.just("E"),
            message=st.just("e"),
        ),
        st.builds(PauseRequested, by=st.just("bob"), reason=st.just("r")),
        st.builds(PauseRequested, by=st.just("n"), reason=st.just("r"), node=st.just(key), step=_names),
        st.builds(ContinueRequested, by=st.just("bob")),
        st.just(Opened()),
        st.builds(
            MissionRequested,
            workflow=st.just("m"),
            node=st.just("First"),
            data=st.just({}),
            state=_state,
            by=st.just("x"),
        ),
    ]
    if timers:
        kinds.append(st.builds(TimerFired, key=st.sampled_from(timers)))
    return draw(st.one_of(kinds))


def live(data: st.DataObject) -> None:
    """Live through whatever comes, and be sound all the while."""
    tale = Tale(config(nodes_per_mission=5, steps_per_node=4)).begin()
    for _ in range(data.draw(st.integers(1, 30))):
        before = dict(pending(tale.conversation))
        signal = data.draw(signals(tale.conversation))
        twice = decide(tale.conversation, signal, tale.rules, Millis(tale.now + 1))
        records = tale.handle(signal)
        assert len(twice) == len(records), "deciding is pure"
        ended = getattr(signal, "key", None)
        if ended in before:
            assert ended not in pending(tale.conversation), "a task that ended is not wanted any more"
        elif isinstance(signal, NodeReturned | NodeFailed | StepRequested | StepFinished):
            key = signal.key if isinstance(signal, NodeReturned | NodeFailed) else signal.node
            assert key in before or not records, "what is stale changes nothing"
        mission = tale.mission
        running = [effect for effect in pending(tale.conversation).values() if isinstance(effect, NodeRun)]
        assert len(running) == (mission.wants is not None)
        if mission.is_paused or not mission.is_open:
            assert not running
            assert not tale.missions_timers()
        for record in records:
            if isinstance(record, r.NodeCompleted) and not record.kind:
                assert GRAPH.permits(record.node, record.to), "only declared edges are taken"
    lines = CONVERSATION.encode_decisions(tale.journal)
    kept, _, fault = CONVERSATION.decode_lines(lines)
    assert fault is None
    assert fold(ID, kept) == tale.conversation, "the journal states all of it"


@given(st.data())
@settings(max_examples=15)
def test_whatever_comes_when_the_state_is_sound(data: st.DataObject) -> None:
    live(data)


@pytest.mark.soak
@given(st.data())
@settings(max_examples=800)
def test_whatever_comes_for_long_the_state_is_sound(data: st.DataObject) -> None:
    live(data)
