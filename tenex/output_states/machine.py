"""The graph of an agent's output: plan in a loop, take one action, done.

It is a `TransitionGraph` of the core like every other: the graph permits, and the router is the stream of tokens. The
parser follows it, the grammars are written from it, the prompt lists its states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from tenex.core.errors import ConfigurationError, kind_of
from tenex.core.graph import Edge, TransitionGraph

from .content import JsonStateMachine, StateMachine, ToolCallStateMachine, core_of
from .endings import WHITE
from .json_values import schema_fault
from .states import AgentState

PLAN: Final = "plan"
TAKE_ACTION: Final = "take_action"
DONE: Final = "done"

MOST_LOOPS: Final = 100
"""Planning states in one output; more is a machine that never acts, and a grammar too large to send."""


@dataclass(frozen=True, slots=True)
class LoopsWithin:
    """Open while the planning states that have been written are `least` or more, and fewer than `below`."""

    least: int
    below: int

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """See `core.graph.Condition`."""
        return self.least <= int(facts.get("loops") or 0) < self.below


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """A machine at one moment: what one output is held to. Tools that change later do not change it."""

    graph: TransitionGraph
    contents: Mapping[str, StateMachine]
    """By identifier, in the order in which the prompt lists them."""
    planning: frozenset[str]
    least: int
    most: int

    def role(self, state: str) -> Literal["plan", "action"]:
        """Whether a state plans, and is private, or acts."""
        return "plan" if state in self.planning else "action"

    def permits(self, node: str, state: str, loops: int) -> bool:
        """Whether a state may begin at this position of the output: in one step, or by way of `take_action`."""
        facts = {"loops": loops}
        return self.graph.permits(node, state, facts) or (
            self.graph.permits(node, TAKE_ACTION, facts) and self.graph.permits(TAKE_ACTION, state, facts)
        )

    def after(self, state: str) -> str:
        """The node of the output after a state has closed."""
        return PLAN if state in self.planning else DONE


class AgentStateMachine:
    """The states of one agent, and how they follow each other.

    A tool call without tools is left out. Without `min_planning_loops` an answer has one planning state at least.

    Raises:
        ConfigurationError: the states cannot be distinguished, or nothing can be written; it names every fault.
    """

    def __init__(
        self,
        planning_states: Sequence[AgentState],
        action_states: Sequence[AgentState],
        max_planning_loops: int = 3,
        min_planning_loops: int | None = None,
    ) -> None:
        wrong = [*_faults_of_kinds({"planning_states": planning_states, "action_states": action_states})]
        wrong += _faults_of_numbers(max_planning_loops=max_planning_loops, min_planning_loops=min_planning_loops)
        if wrong:
            raise ConfigurationError(wrong)
        self.planning_states = tuple(planning_states) if max_planning_loops else ()
        self.action_states = tuple(action_states)
        self.max_planning_loops = max_planning_loops if planning_states else 0
        least = int(bool(planning_states)) if min_planning_loops is None else min_planning_loops
        self.min_planning_loops = least
        faults = self.faults()
        if faults:
            raise ConfigurationError(faults)

    @property
    def states(self) -> dict[str, AgentState]:
        """Every state that can be reached now, by identifier; a tool call without tools cannot."""
        return {state.identifier: state for state, _ in self._reachable()}

    def _reachable(self) -> list[tuple[AgentState, StateMachine]]:
        """Each state with what it may hold, asked once: tools may change between two questions."""
        asked = [(state, machine_of(state)) for state in (*self.planning_states, *self.action_states)]
        return [(state, machine) for state, machine in asked if _is_possible(core_of(machine))]

    @property
    def graph(self) -> TransitionGraph:
        """The states as a graph; its one fact is `loops`, the planning states written so far."""
        return self.plan().graph

    def plan(self) -> OutputPlan:
        """The machine at this moment, with the tools there are now."""
        contents = {state.identifier: machine for state, machine in self._reachable()}
        planning = [state.identifier for state in self.planning_states]
        acting = [name for name in contents if name not in planning]
        below = f"fewer than {self.max_planning_loops} plans"
        edges = [Edge(PLAN, name, LoopsWithin(0, self.max_planning_loops), label=below) for name in planning]
        edges += [Edge(name, PLAN) for name in planning]
        enough = f"{self.min_planning_loops} plans or more"
        edges.append(Edge(PLAN, TAKE_ACTION, LoopsWithin(self.min_planning_loops, MOST_LOOPS + 1), label=enough))
        edges += [Edge(TAKE_ACTION, name) for name in acting]
        edges += [Edge(name, DONE) for name in acting]
        graph = TransitionGraph(
            nodes=(PLAN, *planning, TAKE_ACTION, *acting, DONE),
            initial=PLAN,
            edges=tuple(edges),
            terminal=frozenset({DONE}),
        )
        least = self.min_planning_loops
        most = self.max_planning_loops
        return OutputPlan(graph, MappingProxyType(contents), frozenset(planning), least, most)

    def system_prompt(self) -> str:
        """Return the description of the output for the model: the order of states, then every reachable state."""
        return f"{_order(self)}\n\n" + "\n\n".join(str(state) for state in self.states.values())

    def faults(self) -> tuple[str, ...]:
        """Everything wrong with the machine, each a sentence; empty if it may be used."""
        found = _loop_faults(self.min_planning_loops, self.max_planning_loops)
        states = (*self.planning_states, *self.action_states)
        names = [state.identifier for state in states]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                found.append(f"Two states are called {name}; identifiers must be unique.")
            if not name or name in (PLAN, TAKE_ACTION, DONE, "END"):
                found.append(f"A state cannot be called {name!r}; the name is empty or reserved.")
        for state in states:
            found += _state_faults(state)
        for one in states:
            for other in states:
                if one is not other and other.delimiters[0].startswith(one.delimiters[0]):
                    found.append(
                        f"{other.identifier} opens with {other.delimiters[0]!r}, which begins like {one.identifier}:"
                        " they cannot be distinguished. Change one of them."
                    )
        if not self.action_states:
            found.append("There is no action state, so that nothing could ever be done.")
        return tuple(dict.fromkeys(found))


def _faults_of_numbers(**numbers: object) -> list[str]:
    wrong = {name: value for name, value in numbers.items() if value is not None and type(value) is not int}
    return [f"{name} is {value!r}; it must be a whole number." for name, value in wrong.items()]


def _faults_of_kinds(lists: Mapping[str, object]) -> Iterator[str]:
    """What is no state; users' code may not check types."""
    for name, states in lists.items():
        if not isinstance(states, list | tuple):
            yield f"{name} is {kind_of(states)}; it must be a list of states."
            continue
        for number, state in enumerate(states):
            if isinstance(state, type):
                yield f"{name}[{number}] is {kind_of(state)}; give an instance of it: {state.__name__}()."
            elif not isinstance(state, AgentState):
                yield f"{name}[{number}] is {kind_of(state)}; it must be an AgentState."
            else:
                yield from _faults_of_attributes(state)


def _faults_of_attributes(state: AgentState) -> Iterator[str]:
    name = type(state).__name__
    if not hasattr(state, "identifier"):
        yield f"{name}.__init__ does not call super().__init__(...); call it there."
        return
    texts = ("identifier", "readable_name", "color", "emoji")
    for attribute, value in ((one, getattr(state, one)) for one in texts):
        if not isinstance(value, str):
            yield f"{name}: `{attribute}` is {value!r}; it must be a text."
    pair: object = state.delimiters
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(one, str) for one in pair):
        yield f"{name}: `delimiters` is {pair!r}; it must be two texts, before and after the content."
    for attribute, kind, what in (("state_machine", StateMachine, "a StateMachine"), ("state_prompt", str, "a text")):
        try:
            value = getattr(state, attribute)
        except Exception as fault:  # noqa: BLE001 - user code may fail in any way
            yield f"{name}: its {attribute} failed: {type(fault).__name__}: {fault}."
            continue
        if not isinstance(value, kind):
            yield f"{name}: its {attribute} is {kind_of(value)}; it must be {what}."


def machine_of(state: AgentState) -> StateMachine:
    """The machine of a state, with the state's delimiters where it names none."""
    machine = state.state_machine
    if machine.delimiters == ("", ""):
        steps = [step for steps in machine.state_graph.values() for step, _ in steps]
        fenced = steps[0] if len(steps) == 1 and isinstance(steps[0], StateMachine) else machine
        machine.delimiters = state.delimiters if fenced.delimiters == ("", "") else fenced.delimiters
    return machine


def _is_possible(machine: StateMachine) -> bool:
    """Whether anything can be written: a call without tools cannot."""
    return not isinstance(machine, ToolCallStateMachine) or bool(machine.tools)


def _loop_faults(least: int, most: int) -> list[str]:
    if not 0 <= least <= most:
        return [f"min_planning_loops is {least} and max_planning_loops {most}; 0 <= min <= max must hold."]
    return [f"max_planning_loops is {most}; {MOST_LOOPS} is the most."] if most > MOST_LOOPS else []


def _state_faults(state: AgentState) -> list[str]:
    name = state.identifier
    (opening, closing) = state.delimiters
    machine = machine_of(state)
    found: list[str] = []
    if not opening or opening[0] in WHITE:
        found.append(f"{name}: the opening delimiter {opening!r} must begin with something to be seen.")
    if not closing.strip(WHITE):
        found.append(f"{name}: the closing delimiter {closing!r} must hold something to be seen.")
    if any("\ud800" <= character <= "\udfff" for character in opening + closing):
        found.append(f"{name}: a delimiter holds half of a surrogate pair, which nothing can write.")
    if machine.identifier not in ("", name):
        found.append(f"{name}: its state_machine has the identifier {machine.identifier}; they must be the same.")
    if tuple(machine.delimiters) != (opening, closing):
        found.append(f"{name}: its state_machine has the delimiters {machine.delimiters!r}, not its own.")
    if not 0 <= machine.char_min <= machine.char_max or machine.char_max < 1:
        found.append(f"{name}: char_min is {machine.char_min} and char_max {machine.char_max}; 0 <= min <= max.")
    return found + [f"{name}: {fault}" for fault in schema_faults(core_of(machine))]


def schema_faults(machine: StateMachine) -> list[str]:
    """What is wrong with the schemas a content is held to."""
    schemas: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = []
    if isinstance(machine, ToolCallStateMachine):
        schemas = [(tool, parameters, ("object",)) for tool, parameters in machine.tools.items()]
    elif isinstance(machine, JsonStateMachine):
        schemas = [("the value", machine.schema, ("object", "array"))]
    found = []
    for what, schema, kinds in schemas:
        if schema.get("type") not in kinds:
            found.append(f"the schema of {what} must be of type {' or '.join(kinds)}, so that one sees where it ends.")
        elif fault := schema_fault(schema):
            found.append(f"the schema of {what} is no JSON Schema: {fault}")
    return found


def _order(machine: AgentStateMachine) -> str:
    least = machine.min_planning_loops
    most = machine.max_planning_loops
    planning = ", ".join(state.readable_name for state in machine.planning_states)
    acting = " or ".join(state.readable_name for state in machine.states.values() if state in machine.action_states)
    loops = f"{least}" if least == most else f"{least} to {most}"
    first = f"first plan: {loops} of {planning}, in any order; then " if most else ""
    return (
        f"Your answer consists of states: {first}take exactly one action: {acting or 'none is possible now'}."
        " Open and close every state with its delimiters, letter for letter. Leave a line break between states, and"
        " write nothing outside of them."
    )
