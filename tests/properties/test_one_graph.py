"""One graph, three routers: rules of speakers, an agent's own phases and a mission's nodes take the same way.

The same random edges, each open while a variable has its value, are driven with the same values in turn: the first open
edge of where one is is taken, one a time, and where none is open one stays.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from types import new_class
from typing import Any, Union

from hypothesis import given
from hypothesis import strategies as st

from tenex.core.agent_phases.program import AgentPhaseState, Program
from tenex.core.graph import Edge, Predicate
from tenex.core.graph import TransitionGraph as Compiled
from tenex.core.phases import Phase
from tenex.workflows.agents.definition import ask_now
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, GraphRunResult
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers.conditions import AgentTarget, AllOf, ContextEquals, FromSpeaker, StayTarget
from tenex.workflows.speakers.fold import Folded, change_context, fold
from tenex.workflows.speakers.rounds import Envelope
from tenex.workflows.speakers.transitions import Transition

Arrow = tuple[str, str, int]
"""From, to, and the value at which it is open."""


@dataclass(frozen=True)
class Case:
    """A graph as its edges, and the values that come."""

    nodes: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    values: tuple[int, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Every node can be reached; a pair has one edge, in any place of the list."""
    nodes = tuple("ABCDE"[: draw(st.integers(2, 5))])
    value = st.integers(0, 2)
    tree = [(draw(st.sampled_from(nodes[:place])), node) for place, node in enumerate(nodes) if place]
    pairs = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)).filter(lambda pair: pair[0] != pair[1])
    more = draw(st.lists(pairs, max_size=6))
    arrows = draw(st.permutations([(*pair, draw(value)) for pair in dict.fromkeys([*tree, *more])]))
    return Case(nodes, tuple(arrows), tuple(draw(st.lists(value, max_size=12))))


def by_rules(case: Case) -> list[str]:
    """The speakers of a workflow; who stays is there again."""
    rules = [
        Transition(AllOf([FromSpeaker(source), ContextEquals("v", value)]), AgentTarget(target))
        for source, target, value in case.arrows
    ]
    graph, state = TransitionGraph(case.nodes[0], rules, StayTarget()).begin(case.nodes)
    way = [case.nodes[0]]
    for value in case.values:
        changed = change_context(state, way[-1], {"v": value})
        assert not hasattr(changed, "sentence")
        done = fold(graph, changed, Envelope(way[-1]))
        assert isinstance(done, Folded)
        state = done.state
        way.append(str(state.expected_next_speaker))
    return way


def equals(value: int, values: dict[str, int]) -> bool:
    return values["v"] == value


def by_phases(case: Case) -> list[str]:
    """An agent's own phases; who stays is there again."""
    edges = tuple(Edge(s, t, Predicate(partial(equals, value))) for s, t, value in case.arrows)

    def look(agent_state: AgentPhaseState, conversation: Phase | None) -> dict[str, Any]:
        return dict(agent_state.values)

    program = Program(
        graph=Compiled(case.nodes, case.nodes[0], edges), defaults={"v": None}, schema={"v": {}}, look=look
    )
    agent_state, way = program.begin(ask_now), [case.nodes[0]]
    for value in case.values:
        agent_state = agent_state.changed({"v": value})
        way.append(program.evaluate(agent_state, None, ask_now).target or way[-1])
        agent_state = AgentPhaseState(phase=way[-1], values=agent_state.values)
    return way


@dataclass
class Script:
    """A mission's state: the values that come, and where it was when each had come."""

    values: list[int]
    way: list[str] = field(default_factory=list)


def by_nodes(case: Case, stray: tuple[str, str] | None = None) -> GraphRunResult[Script, str]:
    """A mission with a class for each node; `stray` has one return another, whatever the annotation states."""
    made: dict[str, type[BaseNode[Script, None, str]]] = {}

    def body(name: str) -> Any:
        async def run(self: Any, ctx: GraphRunContext[Script, None]) -> Any:
            if stray is not None and stray[0] == name:
                return made[stray[1]]()
            while len(ctx.state.way) <= len(ctx.state.values):
                value = ctx.state.values[len(ctx.state.way) - 1]
                open_ = (t for s, t, v in case.arrows if s == name and v == value)
                target = next(open_, name)
                ctx.state.way.append(target)
                if target != name:
                    return made[target]()
            return End("over")

        return run

    def add(run: Any, space: dict[str, Any]) -> None:
        space["run"] = run

    for name in case.nodes:
        made[name] = dataclass(new_class(name, (BaseNode[Script, None, str],), {}, partial(add, body(name))))
    for name, node in made.items():
        targets = [made[target] for source, target, _ in case.arrows if source == name]
        node.run.__annotations__["return"] = Union[(*targets, End[str])]
    graph = Graph[Script, None, str](nodes=tuple(made.values()), state_type=Script)
    return asyncio.run(graph.run(made[case.nodes[0]](), state=Script(list(case.values), [case.nodes[0]])))


@given(cases())
def test_the_same_graph_takes_the_same_way_by_rules_by_phases_and_by_nodes(case: Case) -> None:
    way = by_rules(case)
    assert by_phases(case) == way
    result = by_nodes(case)
    assert (result.output, result.state.way) == ("over", way)
    moved = {(here, there) for here, there in pairwise(way) if here != there}
    assert moved <= {(source, target) for source, target, _ in case.arrows}


@given(cases(), st.data())
def test_a_way_that_is_no_edge_is_taken_by_none(case: Case, data: st.DataObject) -> None:
    """Rules and phases cannot name it; a function that does is refused by the same graph."""
    declared = {(source, target) for source, target, _ in case.arrows}
    strays = [(here, there) for here in case.nodes for there in case.nodes if (here, there) not in declared]
    stray = data.draw(st.sampled_from(strays))
    result = by_nodes(case, stray)
    if stray[0] in result.state.way:
        assert (result.outcome, result.kind) == ("failed", "UndeclaredEdge")
        assert f"{stray[0]} cannot be followed by {stray[1]}; it may be followed by: " in result.error
    else:
        assert result.output == "over"
