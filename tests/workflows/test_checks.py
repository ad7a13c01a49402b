"""`validate` states everything at once: what keeps a graph from being used, and what may not be meant so."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tenex.core.errors import ConfigurationError
from tenex.workflows.speakers import (
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ContextIn,
    FromSpeaker,
    Not,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionCondition,
    TransitionDecision,
    TransitionGraph,
    TransitionTarget,
    WorkflowState,
    register_condition,
    register_target,
)
from tenex.workflows.speakers.checks import Findings
from tenex.workflows.speakers.rounds import Envelope

PAIR = ["ann", "bob"]
ENDS = ", who does not take part: there it ends with unknown_speaker. Participants: ann."


@dataclass(frozen=True)
class Twice:
    inner: TransitionCondition
    times: int = 2
    name: ClassVar[str] = "twice"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        return self.inner.evaluate(state, envelope)


def test_every_fault_is_named_at_once() -> None:
    graph = TransitionGraph(
        "nobody",
        [
            Transition(FromSpeaker("ghost"), AgentTarget("bob")),
            Transition(AnyOf([FromSpeaker("mist"), Always()]), StayTarget()),
            Transition(FromSpeaker("ann"), AgentTarget("bob")),
            Transition(FromSpeaker("ann"), AgentTarget("bob")),
            Transition(ToolCalled("t"), AgentTarget("ann")),
            Transition(ToolCalled("t"), AgentTarget("bob")),
        ],
        AgentTarget("haze"),
        0,
    )
    found = graph.validate(["ann"])
    assert not found.ok
    assert found.faults == (
        "A workflow needs two participants or more; there is ann. List in `participants` whom no rule names.",
        "initial_speaker names 'nobody', who does not take part. Participants: ann.",
    )
    assert found.warnings[:-2] == (
        "transitions[0].when names 'ghost', who does not take part: it never fires. Participants: ann.",
        f"transitions[0].then names 'bob'{ENDS}",
        "transitions[1].when names 'mist', who does not take part: it never fires. Participants: ann.",
        f"transitions[2].then names 'bob'{ENDS}",
        f"transitions[3].then names 'bob'{ENDS}",
        f"transitions[5].then names 'bob'{ENDS}",
        f"default_target names 'haze'{ENDS}",
        "max_turns is 0: it ends after the first turn, as with 1.",
        "The edge ann -> bob is listed twice.",
        (
            "The edges any -> ann (tool_called t) and any -> bob (tool_called t) are ambiguous: same condition and"
            " priority; the first wins."
        ),
    )


def test_parts_that_cannot_be_written_down_are_faults() -> None:
    graph = TransitionGraph(
        "",
        [
            Transition(AllOf([Twice(Always())]), TerminateTarget()),
            Transition(ContextEquals("k", {1}), AgentTarget(5)),  # type: ignore[arg-type]
            Transition("always", TerminateTarget(), 1.5),  # type: ignore[arg-type]
            Transition(ContextIn("k", [math.inf]), Always()),  # type: ignore[arg-type]
        ],
        max_turns=True,
    )
    assert graph.validate().faults == (
        "initial_speaker must be the name of who speaks first.",
        "max_turns is True; it must be 1 or more, or left out.",
        (
            "transitions[0].when.conditions[0]: the condition Twice is not registered as 'twice'; call"
            " register_condition(Twice)."
        ),
        "transitions[1].when.value is a set; only values that JSON can hold are allowed.",
        "transitions[1].then.agent_id is 5; it must be str.",
        "transitions[2].when is no condition but str.",
        "transitions[2].priority is 1.5; it must be a whole number, lower ones first.",
        "transitions[3].when.values[0] is inf, which JSON has no word for.",
        "transitions[3].then is no target but Always.",
    )


ONLY = "Only a Handoff, a Finish or a limit can help."


@pytest.mark.parametrize(
    ("graph", "participants", "warnings"),
    [
        (
            TransitionGraph(
                "ann",
                [
                    Transition(FromSpeaker("ann"), AgentTarget("bob")),
                    Transition(FromSpeaker("cem"), TerminateTarget("x")),
                ],
                AgentTarget("ann"),
            ),
            ["ann", "bob", "cem", "dor"],
            (
                f"The node cem cannot be reached from ann. {ONLY}",
                f"The node dor cannot be reached from ann. {ONLY}",
                f"The graph has no end: no way from ann leads to END, and there is no max_turns. {ONLY}",
            ),
        ),
        (TransitionGraph.round_robin(PAIR, max_turns=4), PAIR, ()),
        (
            TransitionGraph("ann", [Transition(ToolCalled("t"), StayTarget(), 1), Transition(Always(), StayTarget())]),
            ["ann", "bob"],
            (
                (
                    "The edge any -> stay (tool_called t) is never taken: any -> stay (always) comes before it and is"
                    " open whenever it is."
                ),
                f"The node bob cannot be reached from ann. {ONLY}",
                f"The graph has no end: no way from ann leads to END, and there is no max_turns. {ONLY}",
            ),
        ),
        (
            TransitionGraph("ann", [Transition(ToolCalled(f"t{n}"), AgentTarget("bob")) for n in range(1_001)]),
            PAIR,
            ("There are 1001 rules; above 1000 they are not compared.",),
        ),
    ],
)
def test_what_may_not_be_meant_so_is_a_warning(
    graph: TransitionGraph, participants: list[str], warnings: tuple[str, ...]
) -> None:
    assert graph.validate(participants) == Findings(warnings=warnings)


HOT = ContextEquals("hot", value=True)
AFTER_BOB = FromSpeaker("bob")
TO_BOB = AgentTarget("bob")


@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ([(HOT, TO_BOB)], True),
        ([(AllOf([HOT, ToolCalled("t")]), TO_BOB)], True),
        ([(AnyOf([HOT, FromSpeaker("ann")]), TO_BOB)], True),
        ([(ContextIn("hot", [True]), TO_BOB)], True),
        ([(HOT, StayTarget())], True),
        ([(HOT, RevertToInitiatorTarget())], True),
        ([(AFTER_BOB, TerminateTarget(), 1), (HOT, TO_BOB)], True),
        ([(AllOf([AFTER_BOB, ToolCalled("t")]), TerminateTarget()), (HOT, TO_BOB)], True),
        ([(ContextEquals("hot", value=False), TerminateTarget()), (HOT, TO_BOB)], True),
        ([(AFTER_BOB, TerminateTarget()), (HOT, TO_BOB)], False),
        ([(HOT, TO_BOB, 2), (AFTER_BOB, TerminateTarget(), 1)], False),
        ([(AnyOf([AFTER_BOB, ToolCalled("t")]), TerminateTarget()), (HOT, TO_BOB)], False),
        ([(AllOf([AFTER_BOB, HOT]), TerminateTarget()), (HOT, TO_BOB)], False),
        ([(AllOf([HOT, FromSpeaker("ann")]), TO_BOB)], False),
        ([(AllOf([HOT, Not(AFTER_BOB)]), TO_BOB)], False),
        ([(Not(HOT), TO_BOB)], False),
        ([(HOT, RoundRobinTarget())], False),
        ([(HOT, TerminateTarget())], False),
    ],
)
def test_a_rule_on_context_that_can_select_its_own_target_for_ever_is_a_warning(
    rules: list[tuple[Any, ...]], warned: bool
) -> None:
    graph = TransitionGraph("ann", [Transition(*rule) for rule in rules])
    found = [line for line in graph.validate(PAIR).warnings if "for ever" in line]
    assert ["while hot is True, it fires again after" in line for line in found] == [True] * warned


# ---- conditions and targets of one's own are known by their names ----------------------------------------------------


@dataclass(frozen=True)
class Otherwise:
    targets: tuple[TransitionTarget, ...]
    name: ClassVar[str] = "otherwise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        if len(self.targets) > 2:
            raise LookupError("too many")

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        return self.targets[0].resolve(state, envelope)


OWN = TransitionGraph("a", [Transition(Twice(AllOf([Always(), Twice(Always())])), Otherwise((StayTarget(),)))])


@pytest.mark.usefixtures("fresh_default")
def test_a_graph_with_registered_parts_is_written_down_and_read_again() -> None:
    for call in (OWN.to_dict, lambda: OWN.begin(["a", "b"])):
        with pytest.raises(ConfigurationError, match="twice"):
            call()
    assert register_condition(Twice) is Twice
    assert register_target(Otherwise) is Otherwise
    assert TransitionGraph.loads(OWN.dumps()) == OWN
    assert OWN.begin(["a", "b"])[1].expected_next_speaker == "a"

    @register_condition
    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "twice"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            return False

    (fault,) = OWN.validate().faults
    assert fault.startswith("transitions[0].when: the condition Twice is not registered as 'twice'")


@pytest.mark.parametrize("given", [object, 5, type("Nameless", (), {"evaluate": lambda *_: True}), FromSpeaker("a")])
@pytest.mark.usefixtures("fresh_default")
def test_what_is_no_condition_is_not_registered(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no condition: it must be a class with"):
        register_condition(given)
    with pytest.raises(ConfigurationError, match="is no target"):
        register_target(Always)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("when", "then", "fault"),
    [
        ({"name": "always"}, {"name": "otherwise", "args": {"targets": [{"name": "stay"}] * 3}}, "args: too many"),
        ({"name": "twice", "args": {"inner": {"name": "stay"}}}, {}, r"when.args.inner: there is no condition 'stay'"),
        ({"name": "twice", "args": {"inner": {"name": "always"}, "times": True}}, {}, "when.times is True; it must be"),
    ],
)
@pytest.mark.usefixtures("fresh_default")
def test_a_part_of_ones_own_that_cannot_be_read_is_a_fault(when: Any, then: Any, fault: str) -> None:
    register_condition(Twice)
    register_target(Otherwise)
    rule = {"when": when, "then": then or {"name": "stay"}}
    with pytest.raises(ConfigurationError, match=fault):
        TransitionGraph.from_dict({"initial_speaker": "a", "transitions": [rule]})
