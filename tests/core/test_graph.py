"""One graph for every system: its faults, and rules, conditions on an agent and functions as its routers."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenex.core.conditions import (
    BackToFirst,
    ContextEquals,
    FromSpeaker,
    Predicate,
    RoundRobin,
    Stay,
    Terminate,
    ToolCalled,
)
from tenex.core.graph import END, Choice, Edge, TransitionGraph

# ---- faults -----------------------------------------------------------------------------------------------------


def test_all_kinds_of_faults_are_named_at_once() -> None:
    graph = TransitionGraph(
        nodes=("a", "a", END, "b", "island"),
        initial="nowhere",
        edges=(Edge("a", "b"), Edge("a", "b"), Edge("a", "ghost"), Edge("phantom", "b")),
        terminal=frozenset({"mist"}),
        default="haze",
        max_turns=0,
    )
    found = "\n".join(graph.faults())
    assert "A node is listed twice." in found
    assert "END is reserved" in found
    assert "The initial node nowhere is not a node" in found
    assert "The edge a -> b is listed twice." in found
    assert "names ghost, which is not a node" in found
    assert "names phantom, which is not a node" in found
    assert "The terminal node mist is not a node" in found
    assert "The default haze is not a node" in found
    assert "max_turns is 0" in found
    assert len(graph.faults()) == 9


def test_an_unreachable_node_is_a_fault() -> None:
    graph = TransitionGraph(nodes=("a", "b", "island"), initial="a", edges=(Edge("a", "b"), Edge("island", "a")))
    assert graph.faults() == ("The node island cannot be reached from a.",)


def test_a_default_or_an_edge_from_anywhere_reaches_a_node() -> None:
    by_default = TransitionGraph(nodes=("a", "b"), initial="a", default="b")
    from_any = TransitionGraph(nodes=("a", "b"), initial="a", edges=(Edge(None, "b"),))
    moving = TransitionGraph(nodes=("a", "b"), initial="a", edges=(Edge(None, RoundRobin()),))
    assert by_default.faults() == from_any.faults() == moving.faults() == ()


def test_guarded_edges_between_the_same_nodes_are_no_fault() -> None:
    edges = (Edge("a", "b", FromSpeaker("x")), Edge("a", "b", FromSpeaker("y")))
    assert TransitionGraph(nodes=("a", "b"), initial="a", edges=edges).faults() == ()


def test_the_diagram_shows_every_edge_and_the_end() -> None:
    graph = TransitionGraph(nodes=("a", "b"), initial="a", edges=(Edge("a", "b", label="go"), Edge(None, END)))
    assert graph.mermaid() == "stateDiagram-v2\n    [*] --> a\n    a --> b : go\n    any --> [*]\n"


def test_an_unknown_node_permits_nothing_and_says_so() -> None:
    graph = TransitionGraph(nodes=("a", "b"), initial="a", edges=(Edge("a", "b"),))
    assert graph.permitted("ghost") == ()
    assert graph.check("ghost", "b") == "ghost cannot be followed by b; it may be followed by: nothing."


def test_a_graph_does_not_change() -> None:
    graph = TransitionGraph(nodes=("a",), initial="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.initial = "b"  # type: ignore[misc]


# ---- a workflow of speakers, rules as the router -----------------------------------------------------------------


@dataclass
class Round:
    """What a speaker did when it was its turn: tools it called, variables it set."""

    tools: tuple[str, ...] = ()
    sets: Mapping[str, Any] = field(default_factory=dict)


def converse(graph: TransitionGraph, rounds: Mapping[str, list[Round]], most: int = 20) -> tuple[list[str], str]:
    """Let speakers talk by rules; returns who spoke and the reason of the end."""
    context: dict[str, Any] = {}
    spoken, node = list[str](), graph.initial
    for turns in range(1, most + 1):
        spoken.append(node)
        script = rounds.get(node, [])
        done = script[min(spoken.count(node), len(script)) - 1] if script else Round()
        context.update(done.sets)
        facts = {
            "speaker": node, "tools": done.tools, "context": context, "first": graph.initial, "order": graph.nodes,
        }  # fmt: skip
        choice = graph.first_match(node, facts, turns)
        if choice is None:
            return spoken, "nothing matched"
        if choice.is_end:
            return spoken, choice.reason
        node = choice.node
    return spoken, "the test ended it"


WRITERS = TransitionGraph(
    nodes=("writer", "critic", "editor"),
    initial="writer",
    edges=(
        Edge(None, Terminate("approved"), ContextEquals("approved", value=True), priority=-1),
        Edge(None, "editor", ToolCalled("hand_to_editor")),
        Edge(None, "critic", FromSpeaker("writer")),
        Edge(None, "writer", FromSpeaker("critic")),
        Edge(None, BackToFirst(), FromSpeaker("editor")),
    ),
)


def test_rules_lead_a_conversation_of_speakers_to_its_end() -> None:
    rounds = {
        "writer": [Round()],
        "critic": [Round(), Round(tools=("look", "hand_to_editor"))],
        "editor": [Round(sets={"approved": False}), Round(sets={"approved": True})],
    }
    assert converse(WRITERS, rounds) == (
        ["writer", "critic", "writer", "critic", "editor", "writer", "critic", "editor"], "approved",
    )  # fmt: skip


def test_a_round_robin_gives_everybody_a_turn_and_stops_at_the_bound() -> None:
    graph = TransitionGraph(nodes=("a", "b", "c"), initial="a", edges=(Edge(None, RoundRobin()),), max_turns=7)
    assert converse(graph, {}) == (["a", "b", "c", "a", "b", "c", "a"], "max_turns")


def test_an_end_of_its_own_keeps_its_reason_at_the_bound() -> None:
    graph = TransitionGraph(nodes=("a",), initial="a", edges=(Edge(None, Terminate("done")),), max_turns=1)
    assert converse(graph, {}) == (["a"], "done")


def test_the_lower_priority_number_is_looked_at_first() -> None:
    edges = (Edge(None, "late", priority=5), Edge(None, "early", priority=1))
    graph = TransitionGraph(nodes=("start", "late", "early"), initial="start", edges=edges)
    assert graph.first_match("start", {}) == Choice("early")


def test_ties_keep_the_order_of_the_list() -> None:
    nodes = ("start", *(f"n{i}" for i in range(9)))
    for first in range(9):
        order = [*range(first, 9), *range(first)]
        graph = TransitionGraph(nodes=nodes, initial="start", edges=tuple(Edge(None, f"n{i}") for i in order))
        assert graph.first_match("start", {}) == Choice(f"n{first}")


def test_where_no_edge_is_open_the_default_follows_and_else_nothing() -> None:
    shut = (Edge(None, "b", FromSpeaker("nobody")),)
    plain = TransitionGraph(nodes=("a", "b"), initial="a", edges=shut)
    named = dataclasses.replace(plain, default="b")
    ended = dataclasses.replace(plain, default=Terminate("no rule"))
    stays = dataclasses.replace(plain, default=Stay())
    facts = {"speaker": "a"}
    assert plain.first_match("a", facts) is None
    assert named.first_match("a", facts) == Choice("b")
    assert ended.first_match("a", facts) == Choice(END, "no rule")
    assert stays.first_match("a", facts) == Choice("a")


def test_the_bound_also_ends_a_run_that_only_the_default_keeps_going() -> None:
    graph = TransitionGraph(nodes=("a",), initial="a", default=Stay(), max_turns=3)
    assert converse(graph, {}) == (["a", "a", "a"], "max_turns")
    assert dataclasses.replace(graph, default=Terminate("no rule")).first_match("a", {}, 3) == Choice(END, "no rule")
    assert dataclasses.replace(graph, default=None).first_match("a", {}, 3) == Choice(END, "max_turns")


# ---- an agent's own phases, conditions on the agent --------------------------------------------------------------


@dataclass
class Surgeon:
    """An agent with state, and the phases it moves through by itself."""

    scrubbed: bool = False
    tools_used: list[str] = field(default_factory=list)
    phase: str = "prepare"


SURGERY = TransitionGraph(
    nodes=("prepare", "operate", "close"),
    initial="prepare",
    edges=(
        Edge("prepare", "operate", Predicate(lambda agent: agent.scrubbed)),
        Edge("prepare", "close", Predicate(lambda agent: agent.scrubbed)),  # never: the first true one wins
        Edge("operate", "close", Predicate(lambda agent: "cut" in agent.tools_used)),
    ),
    terminal=frozenset({"close"}),
)


def evaluate(agent: Surgeon) -> None:
    """One evaluation makes one transition at most."""
    choice = SURGERY.first_match(agent.phase, {"agent": agent})
    if choice is not None:
        agent.phase = choice.node


def drive(agent: Surgeon, steps: list[tuple[str, Callable[[Surgeon], None]]]) -> list[tuple[str, str]]:
    """A model call evaluates, and so does each tool call."""
    seen = []
    for name, effect in steps:
        effect(agent)
        evaluate(agent)
        seen.append((name, agent.phase))
    return seen


def scrub(agent: Surgeon) -> None:
    agent.scrubbed = True
    agent.tools_used.append("cut")


def test_an_agents_own_phases_move_once_per_evaluation() -> None:
    agent = Surgeon()
    seen = drive(
        agent,
        [
            ("model", lambda _: None),
            ("tool", scrub),
            ("model", lambda _: None),
            ("model", lambda _: None),
        ],
    )
    assert seen == [("model", "prepare"), ("tool", "operate"), ("model", "close"), ("model", "close")]


def test_permitted_sees_only_the_edges_that_are_open_for_this_agent() -> None:
    assert SURGERY.permitted("prepare", {"agent": Surgeon()}) == ()
    assert SURGERY.permitted("prepare", {"agent": Surgeon(scrubbed=True)}) == ("operate", "close")
    assert not SURGERY.permits("prepare", "operate", {"agent": Surgeon()})


# ---- a typed mission, return values as the router ----------------------------------------------------------------


@dataclass
class Mission:
    """The typed state of the mission."""

    facts: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def research(state: Mission) -> str:
    state.facts.append("water is wet")
    return "Report"


def report(state: Mission) -> str:
    state.log.append(f"{len(state.facts)} facts")
    return END if len(state.facts) > 1 else "Research"


MISSION = TransitionGraph(
    nodes=("Research", "Report"),
    initial="Research",
    edges=(Edge("Research", "Report"), Edge("Report", "Research"), Edge("Report", END)),
)


def run(graph: TransitionGraph, nodes: Mapping[str, Callable[[Mission], str]], state: Mission) -> str | None:
    """Run nodes, each of which returns the next; a sentence if one returns what is not declared."""
    node = graph.initial
    while True:
        chosen = nodes[node](state)
        refused = graph.check(node, chosen)
        if refused is not None:
            return refused
        if chosen == END:
            return None
        node = chosen


def test_a_mission_runs_along_its_declared_edges() -> None:
    state = Mission()
    assert MISSION.faults() == ()
    assert run(MISSION, {"Research": research, "Report": report}, state) is None
    assert state.log == ["1 facts", "2 facts"]


def test_a_return_value_that_is_not_declared_is_refused_with_a_sentence() -> None:
    state = Mission()
    sentence = run(MISSION, {"Research": lambda _: END, "Report": report}, state)
    assert sentence == "Research cannot be followed by END; it may be followed by: Report."
    sentence = run(MISSION, {"Research": research, "Report": lambda _: "Report"}, state)
    assert sentence == "Report cannot be followed by Report; it may be followed by: Research, END."
