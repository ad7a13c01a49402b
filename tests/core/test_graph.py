"""One graph for every system: its faults, and rules, conditions and functions as its routers; the phases."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import pytest

from tenex.core.config import Agent, AgentKind
from tenex.core.graph import END, Choice, Edge, Predicate, TransitionGraph
from tenex.core.people.permissions import may_use
from tenex.core.phases import PHASE_TRANSITIONS, PHASES, Phase, way
from tests.fakes.scenario import TOOLS, agent
from tests.properties.model import WAYS


@dataclass(frozen=True)
class FactIs:
    """Open where the facts state that this is so; equal ones are equal."""

    key: str
    value: Any = True

    def holds(self, facts: Mapping[str, Any]) -> bool:
        return bool(facts.get(self.key) == self.value)


@dataclass(frozen=True)
class Round:
    """Who is next in the facts' order."""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> Choice:
        order = facts["order"]
        return Choice(order[(order.index(node) + 1) % len(order)])

    def reaches(self, node: str, nodes: Sequence[str]) -> Iterable[str]:
        return nodes


@dataclass(frozen=True)
class Same:
    """The same node again."""

    def resolve(self, node: str, facts: Any) -> Choice:
        return Choice(node)

    def reaches(self, node: str, nodes: Sequence[str]) -> Iterable[str]:
        return (node,)


def test_all_kinds_of_faults_are_named_at_once() -> None:
    graph = TransitionGraph(
        nodes=("a", "a", END, "b", "island"),
        initial="nowhere",
        edges=(Edge("a", "b"), Edge("a", "b"), Edge("a", "ghost"), Edge("phantom", "b")),
        terminal=frozenset({"mist"}),
        default="haze",
        max_turns=0,
    )
    assert graph.faults() == (
        "A node is listed twice.",
        "END is reserved and cannot be a node.",
        "The initial node nowhere is not a node of the graph.",
        "The default haze is not a node of the graph.",
        "The terminal node mist is not a node of the graph.",
        "max_turns is 0; it must be 1 or more.",
        "The edge a -> ghost names ghost, which is not a node.",
        "The edge phantom -> b names phantom, which is not a node.",
        "The edge a -> b is listed twice.",
    )


def test_a_node_without_a_way_to_an_end_is_a_fault() -> None:
    edges = (Edge("a", "b"), Edge("a", "trap"), Edge("trap", "pit"), Edge("pit", "trap"), Edge("b", END))
    graph = TransitionGraph(nodes=("a", "b", "trap", "pit"), initial="a", edges=edges)
    assert graph.faults() == (
        "No way leads from the node trap to an end, and there is no max_turns.",
        "No way leads from the node pit to an end, and there is no max_turns.",
    )
    assert dataclasses.replace(graph, max_turns=9).faults() == ()
    assert dataclasses.replace(graph, terminal=frozenset({"pit"})).faults() == ()
    assert dataclasses.replace(graph, default=END).faults() == ()
    policy = dataclasses.replace(graph, edges=(Edge("a", "b"), Edge("b", "a"), Edge("b", "trap", FactIs("x"))))
    assert dataclasses.replace(policy, nodes=("a", "b", "trap"), default=END).dead_ends() == ()
    assert dataclasses.replace(policy, nodes=("a", "b", "trap"), default=END).dead_ends(by_rules=True) == (
        "The node trap cannot be reached from a.",
        "The graph has no end: no way from a leads to END, and there is no max_turns.",
    )


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ((Edge("a", "b", FactIs("x")), Edge("a", "c", FactIs("x"))), "The edges a -> b and a -> c are ambiguous: same"),
        ((Edge("a", "b"), Edge("a", "c")), "The edges a -> b and a -> c are ambiguous: same condition and priority"),
        ((Edge("a", "c", FactIs("x"), 1), Edge("a", "b", FactIs("x"))), "The edge a -> c is never taken: a -> b comes"),
        ((Edge("a", "c", FactIs("x")), Edge(None, "b", None, -1)), "The edge a -> c is never taken: any -> b comes"),
        ((Edge("a", "b", FactIs("x")), Edge("a", "b", FactIs("y"))), ""),
        ((Edge("a", "b"), Edge("b", "a"), Edge(None, END)), ""),
    ],
)
def test_what_rules_never_take_is_a_fault_for_them_alone(edges: tuple[Edge, ...], fault: str) -> None:
    graph = TransitionGraph(nodes=("a", "b", "c"), initial="a", edges=edges, terminal=frozenset("abc"))
    found = graph.contradictions(by_rules=True)
    assert len(found) == bool(fault)
    assert all(sentence.startswith(fault) for sentence in found)
    assert graph.contradictions() == (), "a model or a function may choose either"


def test_the_diagram_escapes_what_mermaid_would_read_as_syntax() -> None:
    names = ("project-manager", "end", "any", "s1", 'x" as y\n[*] --> z', "größe", "state")
    edges = tuple(Edge(name, END, label='a:b;%%{"init"}%%\n-->#1') for name in names)
    drawn = TransitionGraph(nodes=names, initial="end", edges=edges).mermaid()
    lines = drawn.splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert lines[1] == '    state "project-manager" as s0'
    assert lines[5] == '    state "x#34; as y#10;#91;*#93; --#62; z" as s4'.replace("*", "#42;")
    assert lines[8] == "    [*] --> s1"
    assert len(lines) == 1 + 7 + 1 + 7, "no name or label makes a line of its own"
    assert all(line.count(":") == line.count("-->") == line.count("%") + 1 == 1 for line in lines[9:])


def test_facts_are_whatever_conditions_are_written_for() -> None:
    edges = (Edge("a", "b", Predicate(lambda number: number > 2)),)
    graph = TransitionGraph(nodes=("a", "b"), initial="a", edges=edges)
    assert (graph.first_match("a", 3), graph.first_match("a", 2)) == (Choice("b"), None)
    assert (graph.permitted("a", 3), graph.permitted("a", 2), graph.permitted("ghost")) == (("b",), (), ())
    assert not graph.permits("a", "b", 2)
    assert graph.check("a", "b", 3) is None
    assert graph.check("a", "b", 2) == "a cannot be followed by b; it may be followed by: nothing."


def test_an_unreachable_node_is_a_fault_unless_a_default_an_edge_from_anywhere_or_a_moving_target_reaches_it() -> None:
    plain = TransitionGraph(nodes=("a", "b"), initial="a", terminal=frozenset({"a", "b"}))
    assert plain.faults() == ("The node b cannot be reached from a.",)
    assert dataclasses.replace(plain, edges=(Edge(None, Same()),)).faults() == plain.faults()
    for more in ({"default": "b"}, {"edges": (Edge(None, "b"),)}, {"edges": (Edge(None, Round()),)}):
        assert dataclasses.replace(plain, **more).faults() == ()


def test_the_table_permits_exactly_its_edges() -> None:
    assert {str(phase) for phase in Phase} == set(WAYS) == set(PHASE_TRANSITIONS.nodes)
    assert PHASE_TRANSITIONS.initial is Phase.CHAT
    assert PHASE_TRANSITIONS.faults() == ()
    assert {phase: set(targets) for phase, targets in PHASE_TRANSITIONS.items()} == WAYS
    assert all(PHASE_TRANSITIONS.permits(phase, END) for phase in WAYS), "the gates, not the table, decide about END"
    assert len(PHASE_TRANSITIONS) == len(Phase)
    with pytest.raises(KeyError, match="shipping"):
        PHASE_TRANSITIONS["shipping"]


def test_every_phase_has_its_row_and_an_icon_of_its_own() -> None:
    assert list(PHASES) == list(Phase)
    assert len({facts.icon for facts in PHASES.values()}) == len(Phase)


@pytest.mark.parametrize(("source", "target"), [*product(Phase, Phase)])
def test_there_is_a_permitted_way_from_each_phase_to_each(source: Phase, target: Phase) -> None:
    found = way(source, target)
    assert all(there in WAYS[here] for here, there in pairwise((source, *found)))
    assert (found[-1:] or (source,)) == (target,)
    assert len({source, *found}) == 1 + len(found), "no phase twice"


def test_the_way_is_a_shortest_one() -> None:
    assert len(way(Phase.PLAN, Phase.BRAINSTORM)) == len(way(Phase.CHORES, Phase.PLAN)) == 3


@pytest.mark.parametrize(
    ("word", "phase"),
    [(" EXECUTE ", Phase.EXECUTE), *((word, None) for word in ("", "executed", "END", "chat,plan", "\0", "\ud800"))],
)
def test_a_phase_is_read_in_any_case(word: str, phase: Phase | None) -> None:
    assert Phase.parse(word) is phase


USES = {
    Phase.CHAT: {"complete", "ask"},
    Phase.BRAINSTORM: {"complete", "ask", "read_file"},
    Phase.PLAN: {"complete", "ask", "read_file"},
    Phase.EXECUTE: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.VERIFICATION: {"complete", "ask", "read_file", "check"},
    Phase.CHORES: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.REFLECTION: {"complete", "learn"},
}


@pytest.mark.parametrize("phase", Phase)
def test_each_agent_uses_what_its_phase_its_kind_and_its_definition_permit(phase: Phase) -> None:
    def used(who: Agent) -> set[str]:
        return {name for name, tool in TOOLS.items() if may_use(tool, phase, who)}

    assert used(agent("executor")) == USES[phase]
    assert used(agent("security", AgentKind.EXPERT)) == USES[phase] - {"write_file", "send", "check"}
    assert used(agent("orchestrator", AgentKind.ORCHESTRATOR)) == set()
    assert used(agent("reader", tools=("read_file",))) == USES[phase] & {"read_file", "complete", "ask", "learn"}
