"""The graph that permits: nodes, guarded edges, where to start and where one may end.

One shape serves every system this program takes in (DESIGN section 1 and 12):

* the seven phases: unguarded edges, and a model that chooses among `permitted(node)`;
* a workflow of speakers: edges from anywhere with conditions, and rules that choose: `first_match`;
* an agent's own phases: edges with conditions on the agent, the first true one in order;
* a typed mission: edges read from annotations, and a function whose return value `check`s against them.

A router never widens what the graph permits: it only picks.

Never: hold state; where a conversation stands is the conversation's to know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

END = "END"
"""The target that ends a graph; never the name of a node."""


class Condition(Protocol):
    """Says whether an edge is open, from facts given by whoever asks. Pure; a missing fact is None."""

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the edge is open."""
        ...


class Target(Protocol):
    """Names the next node from the facts, for edges whose end is not fixed (round robin, back to the first)."""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> "Choice":
        """The node that follows, or an end with a reason."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What a router chose: a node, or END with the reason."""

    node: str
    reason: str = ""

    @property
    def is_end(self) -> bool:
        """Whether the graph ends here."""
        return self.node == END


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one node to another; `source` None means from any node, `when` None means always open.

    Lower `priority` is looked at first; ties keep the order in which the edges are listed.
    """

    source: str | None
    target: str | Target
    when: Condition | None = None
    priority: int = 0
    label: str = ""

    def is_open(self, node: str, facts: Mapping[str, Any]) -> bool:
        """Whether one standing at `node` may take this edge now."""
        return (self.source is None or self.source == node) and (self.when is None or self.when.holds(facts))


@dataclass(frozen=True, slots=True)
class TransitionGraph:
    """Nodes and guarded edges, as data.

    `terminal` are the nodes at which a run may end without an edge to END. `default` is taken where rules find
    no open edge. `max_turns` is a hard bound of a run by rules: there, what would go on ends, also the default.
    """

    nodes: tuple[str, ...]
    initial: str
    edges: tuple[Edge, ...] = ()
    terminal: frozenset[str] = frozenset()
    default: str | Target | None = None
    max_turns: int | None = None
    _from: dict[str, tuple[Edge, ...]] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        ordered = sorted(self.edges, key=lambda edge: edge.priority)
        outgoing = {node: tuple(e for e in ordered if e.source in (None, node)) for node in self.nodes}
        object.__setattr__(self, "_from", outgoing)

    def outgoing(self, node: str) -> tuple[Edge, ...]:
        """The edges from a node, in the order in which rules look at them; none for an unknown node."""
        return self._from.get(node, ())

    def permitted(self, node: str, facts: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """The named nodes one may go to by open edges, each once, in order; a moving target has no name."""
        found: dict[str, None] = {}
        for edge in self.outgoing(node):
            if isinstance(edge.target, str) and edge.target != END and edge.is_open(node, facts or {}):
                found[str(edge.target)] = None
        return tuple(found)

    def permits(self, source: str, target: str, facts: Mapping[str, Any] | None = None) -> bool:
        """Whether an open edge leads from `source` to `target`, END included."""
        if target == END and source in self.terminal:
            return True
        return any(e.target == target and e.is_open(source, facts or {}) for e in self.outgoing(source))

    def first_match(self, node: str, facts: Mapping[str, Any], turns: int = 0) -> Choice | None:
        """Rules as the router: the first open edge, else the default.

        `turns` counts what has been done so far. None means: stay, nothing matched and there is no default.
        """
        target = next((edge.target for edge in self.outgoing(node) if edge.is_open(node, facts)), self.default)
        choice = self._resolve(target, node, facts) if target is not None else None
        if self.max_turns is not None and turns >= self.max_turns and not (choice and choice.is_end):
            return Choice(END, "max_turns")
        return choice

    def check(self, node: str, chosen: str) -> str | None:
        """A function or a model as the router: None if it may go there, else a sentence that says what it may do."""
        if self.permits(node, chosen):
            return None
        allowed = [*self.permitted(node), *([END] if self.permits(node, END) else [])]
        return f"{node} cannot be followed by {chosen}; it may be followed by: {', '.join(allowed) or 'nothing'}."

    def _resolve(self, target: "str | Target", node: str, facts: Mapping[str, Any]) -> Choice:
        return Choice(target) if isinstance(target, str) else target.resolve(node, facts)

    def faults(self) -> tuple[str, ...]:
        """Everything wrong with the graph, each as a sentence; empty if it may be used."""
        return tuple(_faults(self))

    def mermaid(self) -> str:
        """The graph as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        for edge in self.edges:
            source = edge.source or "any"
            target = edge.target if isinstance(edge.target, str) else type(edge.target).__name__
            label = f" : {edge.label}" if edge.label else ""
            lines.append(f"    {source} --> {'[*]' if target == END else target}{label}")
        return "\n".join(lines) + "\n"


def _faults(graph: TransitionGraph) -> Iterable[str]:
    nodes = set(graph.nodes)
    if len(nodes) != len(graph.nodes):
        yield "A node is listed twice."
    if END in nodes:
        yield f"{END} is reserved and cannot be a node."
    if graph.initial not in nodes:
        yield f"The initial node {graph.initial} is not a node of the graph."
    named = [("default", graph.default), *(("terminal node", node) for node in sorted(graph.terminal))]
    for what, name in named:
        if isinstance(name, str) and name != END and name not in nodes:
            yield f"The {what} {name} is not a node of the graph."
    if graph.max_turns is not None and graph.max_turns < 1:
        yield f"max_turns is {graph.max_turns}; it must be 1 or more."
    yield from _faults_of_edges(graph, nodes)
    moving = any(not isinstance(edge.target, str) for edge in graph.edges) or (
        graph.default is not None and not isinstance(graph.default, str)
    )
    if graph.initial in nodes and not moving:  # a moving target may reach any node
        reached = _reachable(graph)
        for node in graph.nodes:
            if node not in reached:
                yield f"The node {node} cannot be reached from {graph.initial}."


def _faults_of_edges(graph: TransitionGraph, nodes: set[str]) -> Iterable[str]:
    seen: set[tuple[str | None, str]] = set()
    for edge in graph.edges:
        for name in (edge.source, edge.target):
            if isinstance(name, str) and name != END and name not in nodes:
                yield f"The edge {edge.source or 'any'} -> {edge.target} names {name}, which is not a node."
        if isinstance(edge.target, str) and edge.when is None:
            if (edge.source, edge.target) in seen:
                yield f"The edge {edge.source or 'any'} -> {edge.target} is listed twice."
            seen.add((edge.source, edge.target))


def _reachable(graph: TransitionGraph) -> set[str]:
    found, frontier = {graph.initial}, [graph.initial]
    while frontier:
        node = frontier.pop()
        targets = [edge.target for edge in graph.outgoing(node)] + [graph.default]
        for target in targets:
            if isinstance(target, str) and target in graph.nodes and target not in found:
                found.add(target)
                frontier.append(target)
    return found
