"""The graph that permits: nodes, guarded edges, where to start and where one may end.

One shape serves every system this program takes in:

* the phases: unguarded edges, and a model that chooses among `permitted(node)`;
* a workflow of speakers: edges from anywhere with conditions, and rules that choose: `first_match`;
* an agent's own phases: edges with conditions on the agent, the first true one in order;
* a typed mission: edges read from annotations, and a function whose return value `check`s against them.

A router never widens what the graph permits: it only picks. Facts are whatever conditions and targets are written
for; the graph only hands them on.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

END = "END"
"""The target that ends a graph; never the name of a node."""


class Condition(Protocol):
    """Returns whether an edge is open, from facts that the caller gives. Pure."""

    def holds(self, facts: Any) -> bool:
        """Whether the edge is open."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """Open when a function of the facts is true: for an agent's own phases, of the agent."""

    test: Callable[[Any], Any]

    def holds(self, facts: Any) -> bool:
        """Whether the function holds of the facts."""
        return bool(self.test(facts))


class Target(Protocol):
    """Names the next node from the facts, for edges whose end is not fixed (round robin, back to the first).

    `str()` of it is in diagrams.
    """

    def resolve(self, node: str, facts: Any) -> "Choice":
        """The node that follows, or an end with a reason."""

    def reaches(self, node: str, nodes: Sequence[str]) -> Iterable[str]:
        """All it may name when asked at `node`, END included: what `faults` and the diagram go by."""


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

    def is_open(self, node: str, facts: Any) -> bool:
        """Whether this edge may be taken from `node` now."""
        return (self.source is None or self.source == node) and (self.when is None or self.when.holds(facts))

    def __str__(self) -> str:
        return f"{self.source or 'any'} -> {self.target}{f' ({self.label})' if self.label else ''}"


@dataclass(frozen=True, slots=True)
class TransitionGraph(Mapping[str, tuple[str, ...]]):
    """Nodes and guarded edges, as data; as a mapping, the named nodes that edges lead to from each node.

    `terminal` are the nodes at which a run may end without an edge to END. `default` is taken where rules find
    no open edge. `max_turns` is a hard bound of a run by rules: there, what would go on ends, also the default.
    Facts that are not given are an empty mapping.
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

    def __getitem__(self, node: str) -> tuple[str, ...]:
        named = (edge.target for edge in self._from[node] if isinstance(edge.target, str) and edge.target != END)
        return tuple(dict.fromkeys(named))

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def outgoing(self, node: str) -> tuple[Edge, ...]:
        """The edges from a node, in the order in which rules look at them; none for an unknown node."""
        return self._from.get(node, ())

    def permitted(self, node: str, facts: Any = None) -> tuple[str, ...]:
        """The named nodes one may go to by open edges, each once, in order; a moving target has no name."""
        targets: dict[str, None] = {}
        for edge in self.outgoing(node):
            if isinstance(edge.target, str) and edge.target != END and edge.is_open(node, _given(facts)):
                targets[str(edge.target)] = None
        return tuple(targets)

    def permits(self, source: str, target: str, facts: Any = None) -> bool:
        """Whether an open edge leads from `source` to `target`, END included."""
        if target == END and source in self.terminal:
            return True
        edges = self.outgoing(source)
        return any(edge.target == target and edge.is_open(source, _given(facts)) for edge in edges)

    def first_match(
        self, node: str, facts: Any = None, turns: int = 0, *, is_open: Callable[[Edge, str, Any], bool] = Edge.is_open
    ) -> Choice | None:
        """Rules as the router: the first open edge, else the default.

        `turns` counts what has been done so far; `is_open` asks an edge, for those whose conditions may raise. None
        means: stay, nothing matched and there is no default.
        """
        facts = _given(facts)
        target = next((edge.target for edge in self.outgoing(node) if is_open(edge, node, facts)), self.default)
        choice: Choice | None = None
        if isinstance(target, str):
            choice = Choice(target)
        elif target is not None:
            choice = target.resolve(node, facts)
        return self.bounded(choice, turns)

    def bounded(self, choice: Choice | None, turns: int) -> Choice | None:
        """The choice, or the end where `turns` have used up `max_turns`; an end of its own keeps its reason."""
        if self.max_turns is not None and turns >= self.max_turns and not (choice and choice.is_end):
            return Choice(END, "max_turns")
        return choice

    def check(self, node: str, chosen: str, facts: Any = None) -> str | None:
        """A function or a model as the router: None if it may go there, else a sentence on what it may do."""
        if self.permits(node, chosen, facts):
            return None
        allowed = [*self.permitted(node, facts), *([END] if self.permits(node, END, facts) else [])]
        return f"{node} cannot be followed by {chosen}; it may be followed by: {', '.join(allowed) or 'nothing'}."

    def faults(self, *, by_rules: bool = False) -> tuple[str, ...]:
        """Everything wrong with the graph, each as a sentence; empty if it may be used.

        `by_rules`: the first open edge is taken, so an edge that can never be the first is a fault too. Any other
        router may choose it.
        """
        return (*self.contradictions(by_rules=by_rules), *self.dead_ends(by_rules=by_rules))

    def contradictions(self, *, by_rules: bool = False) -> tuple[str, ...]:
        """The faults that need no walk: names of no node, numbers out of range, edges in each other's way."""
        return (*_faults_of_names(self), *_faults_of_pairs(self, by_rules=by_rules))

    def dead_ends(self, *, by_rules: bool = False) -> tuple[str, ...]:
        """The nodes no way leads to, and those from which none leads to an end; none without an initial node."""
        return tuple(_faults_of_ways(self, by_rules=by_rules)) if self.initial in self.nodes else ()

    def mermaid(self) -> str:
        """The graph as a Mermaid state diagram; a name that Mermaid would misread is drawn as another one's label."""
        return _mermaid(self)


def _given(facts: Any) -> Any:
    return {} if facts is None else facts


# ---- faults ---------------------------------------------------------------------------------------------------------


def _faults_of_names(graph: TransitionGraph) -> Iterator[str]:
    nodes = set(graph.nodes)
    if len(nodes) != len(graph.nodes):
        yield "A node is listed twice."
    if END in nodes:
        yield f"{END} is reserved and cannot be a node."
    if graph.initial not in nodes:
        yield f"The initial node {graph.initial} is not a node of the graph."

    def is_unknown(name: object) -> bool:
        return isinstance(name, str) and name != END and name not in nodes

    named = [("default", graph.default), *(("terminal node", node) for node in sorted(graph.terminal))]
    for what, name in named:
        if is_unknown(name):
            yield f"The {what} {name} is not a node of the graph."
    if graph.max_turns is not None and graph.max_turns < 1:
        yield f"max_turns is {graph.max_turns}; it must be 1 or more."

    for edge in graph.edges:
        for name in (edge.source, edge.target):
            if is_unknown(name):
                yield f"The edge {edge} names {name}, which is not a node."


def _faults_of_pairs(graph: TransitionGraph, *, by_rules: bool) -> Iterator[str]:
    """Edges of which one is in the other's way."""
    ordered = sorted(graph.edges, key=lambda edge: edge.priority)
    for place, later in enumerate(ordered):
        for earlier in ordered[:place]:
            if earlier.source not in (None, later.source):
                continue
            same = earlier.source == later.source and earlier.when == later.when
            if same and earlier.target == later.target:
                yield f"The edge {later} is listed twice."
            elif by_rules and same and earlier.priority == later.priority:
                yield f"The edges {earlier} and {later} are ambiguous: same condition and priority; the first wins."
            elif by_rules and (same or earlier.when is None):
                yield f"The edge {later} is never taken: {earlier} comes before it and is open whenever it is."
            else:
                continue
            break


def _faults_of_ways(graph: TransitionGraph, *, by_rules: bool) -> Iterator[str]:
    ways = {node: frozenset(_next(graph, node, by_rules=by_rules)) for node in graph.nodes}
    reached = _closure({graph.initial}, ways)
    yield from (
        f"The node {node} cannot be reached from {graph.initial}." for node in graph.nodes if node not in reached
    )
    if graph.max_turns is not None:
        return

    back: dict[str, set[str]] = {}
    for node, targets in ways.items():
        for target in targets:
            back.setdefault(target, set()).add(node)

    ending = _closure({END, *graph.terminal}, back)
    stuck = [node for node in graph.nodes if node in reached and node not in ending]
    if len(stuck) == len(reached & set(graph.nodes)):
        yield f"The graph has no end: no way from {graph.initial} leads to {END}, and there is no max_turns."
    else:
        yield from (f"No way leads from the node {node} to an end, and there is no max_turns." for node in stuck)


def _next(graph: TransitionGraph, node: str, *, by_rules: bool) -> Iterator[str]:
    targets: list[str | Target | None] = []
    for edge in graph.outgoing(node):
        targets.append(edge.target)
        if by_rules and edge.when is None:
            break  # always open: neither what comes after it nor the default is ever taken
    else:
        targets.append(graph.default)

    for target in targets:
        if isinstance(target, str):
            yield target
        elif target is not None:
            yield from target.reaches(node, graph.nodes)


def _closure(start: Iterable[str], ways: Mapping[str, Iterable[str]]) -> set[str]:
    reached = set(start)
    frontier = list(start)
    while frontier:
        for target in ways.get(frontier.pop(), ()):
            if target not in reached:
                reached.add(target)
                frontier.append(target)
    return reached


# ---- the diagram ----------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"(?!s\d+$)[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = re.compile(
    "accdescr|acctitle|any|as|class|classdef|click|default|direction|end|fork|hide|href|note|root|scale|state|"
    "statediagram|style",
    re.IGNORECASE,
)
"""Words that mean something to Mermaid or to us at the place of a name."""


def _mermaid(graph: TransitionGraph) -> str:
    targets = (*(edge.target for edge in graph.edges), graph.default)
    moving = [str(target) for target in targets if not isinstance(target, str | None) and not _ends(graph, target)]
    keys = [*((node, True) for node in graph.nodes), *((target, False) for target in moving)]
    names: dict[tuple[str, bool], str] = {}
    lines = []
    for number, key in enumerate(dict.fromkeys(keys)):
        name, is_node = key
        plain = is_node and _PLAIN.fullmatch(name) and not _KEYWORDS.fullmatch(name)
        names[key] = name if plain else f"s{number}"
        if not plain:
            lines.append(f'    state "{_escaped(name)}" as s{number}')

    def drawn(target: str | Target) -> str:
        if target == END or (not isinstance(target, str) and _ends(graph, target)):
            return "[*]"
        return names.get((str(target), isinstance(target, str)), "unknown")

    lines.append(f"    [*] --> {drawn(graph.initial)}")
    for edge in graph.edges:
        source = "any" if edge.source is None else drawn(edge.source)
        label = f" : {_escaped(edge.label)}" if edge.label else ""
        lines.append(f"    {source} --> {drawn(edge.target)}{label}")

    if graph.default is not None:
        reason = f" ({graph.default})" if not isinstance(graph.default, str) and _ends(graph, graph.default) else ""
        lines.append(f"    any --> {drawn(graph.default)} : {_escaped(f'otherwise{reason}')}")
    return "\n".join(["stateDiagram-v2", *lines]) + "\n"


def _ends(graph: TransitionGraph, target: Target) -> bool:
    return set(target.reaches(graph.initial, graph.nodes)) == {END}


def _escaped(text: str) -> str:
    """Text that Mermaid shows as it is: everything it could read as syntax is written by its code point."""
    safe = (c if c.isalnum() or c in " _-.,=()'" else f"#{ord(c)};" for c in text)
    return "".join(safe).strip()
