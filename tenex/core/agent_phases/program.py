"""An agent's own phases: its graph, its typed state, and which tools and sub-agents each phase offers.

A `Program` is what is configured; an `AgentPhaseState` is where an agent is, and all of it is JSON. Conditions are
asked with what `look` makes of it: the agent itself (Python) or its values (front matter). Those of front matter are
expressions and evaluated here; a function in Python (`Predicate`) is never called here, `ask` gives its verdict. Of the
current phase's edges the first true one is taken, one per evaluation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tenex.core.errors import words_of
from tenex.core.functions.verdicts import Verdict, digest
from tenex.core.graph import Condition, Edge, Predicate, TransitionGraph
from tenex.core.ids import Millis, Slug
from tenex.core.phases import Phase
from tenex.core.values import replace
from tenex.core.work.tool_names import all_of_server

HISTORY: Final = 50
"""Moves of an agent that are remembered, the newest; the journal has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An agent went from one of its phases to another."""

    source: str
    target: str
    at: Millis

    @property
    def trigger(self) -> str:
        """The name of the pair: `planning_to_research`."""
        return f"{self.source}_to_{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPhaseState:
    """The phase, state and history of an agent."""

    phase: str = ""
    """Empty for an agent that has state and no phases."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Its typed state as JSON values, every field of it."""
    history: tuple[Moved, ...] = ()

    def moved(self, move: Moved) -> "AgentPhaseState":
        """The agent changed its phase."""
        return replace(self, phase=move.target, history=(*self.history, move)[-HISTORY:])

    def changed(self, values: Mapping[str, Any]) -> "AgentPhaseState":
        """Fields of its state have new values."""
        return replace(self, values={**self.values, **values})


class Look(Protocol):
    """What a program's conditions are asked with. Pure: a copy, which no condition can change the state by."""

    def __call__(self, agent_state: AgentPhaseState, conversation: Phase | None) -> Any:
        """The agent as it is; `conversation` is the conversation's phase, None outside one."""


class Ask(Protocol):
    """Gives the verdict of a function of the agent; raises `Unanswered` where there is none."""

    def __call__(self, function: str, given: str, code: Any, call: Callable[[], Any]) -> Verdict:
        """As `core.functions.verdicts.FunctionQuestion`, for the run whose agent it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """When a tool or a sub-agent is there: in these phases (empty means all) AND while the condition holds."""

    phases: frozenset[str] = frozenset()
    when: Condition | None = None


ALWAYS: Final = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A sub-agent that is called like a tool."""

    agent: Slug
    description: str
    scope: Scope = ALWAYS
    is_shared: bool = False
    """Whether it keeps its state from call to call; else each call finds it at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What came of asking the edges of a phase: where to go, None to stay; and the edges whose condition raised."""

    target: str | None = None
    failed: tuple[tuple[str, str], ...] = ()
    """The target of each, and the error."""


def _anything(_field: str, _value: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """An agent's own phases and state, as configured. Compared by identity: conditions are functions."""

    graph: TransitionGraph | None
    """None for an agent that has state or links and no phases."""
    defaults: Mapping[str, Any]
    schema: Mapping[str, Mapping[str, Any]]
    """JSON Schema of each field."""
    look: Look
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """Of the tools that are not always there, by name."""
    links: Mapping[str, Link] = field(default_factory=dict)
    """By the name of the tool that calls them."""
    takes: Callable[[str, Any], bool] = _anything
    """Whether a field of a type that no schema can express takes a recorded value."""
    initial: Mapping[str, Any] = field(default_factory=dict)
    """The fields that begin with another value than their default."""
    made: Callable[[], Mapping[str, Any]] | None = None
    """Makes the fields that begin with a new value each time; None where there are none."""
    is_settable: bool = False
    """Whether its model may change its state, by `set_state`."""
    has_triggers: bool = False
    """Whether its model may ask for a change of phase by the name of the pair."""
    shows_state: bool = False
    """Whether its prompt shows more of where it is than its phase, and so is another when its state is."""

    def begin(self, ask: Ask) -> AgentPhaseState:
        """An agent's state before it has done anything; factories that fail leave their fields at the defaults."""
        values = {**self.defaults, **self.initial}
        if self.made is not None:
            values |= ask("factories of its state", "", self.made, self.made).value or {}
        return AgentPhaseState(phase=self.graph.initial if self.graph else "", values=values)

    def evaluate(self, agent_state: AgentPhaseState, conversation: Phase | None, ask: Ask) -> Evaluation:
        """Ask the edges of the current phase, and only those, in order: one step, never more."""
        failed: list[tuple[str, str]] = []

        def is_open(edge: Edge, node: str, _facts: Any) -> bool:
            holds, error = self._holds(edge.when, f"{node}_to_{edge.target}", agent_state, conversation, ask)
            if error:
                failed.append((str(edge.target), error))
            return holds

        if self.graph is None:
            return Evaluation()
        choice = self.graph.first_match(agent_state.phase, is_open=is_open)
        stays = choice is None or choice.is_end or choice.node == agent_state.phase
        return Evaluation(target=None if stays or choice is None else choice.node, failed=tuple(failed))

    def may_move(self, target: str, agent_state: AgentPhaseState, conversation: Phase | None, ask: Ask) -> str | None:
        """Why the agent may not go to a phase from where it is, as the end of a sentence; None if it may."""
        reason = "its condition does not hold"
        for edge in self.graph.outgoing(agent_state.phase) if self.graph is not None else ():
            if edge.target == target:
                name = f"{agent_state.phase}_to_{target}"
                holds, error = self._holds(edge.when, name, agent_state, conversation, ask)
                if holds:
                    return None
                reason = f"its condition failed ({error})" if error else reason
        return reason

    def _holds(
        self, when: Condition | None, name: str, agent_state: AgentPhaseState, conversation: Phase | None, ask: Ask
    ) -> tuple[bool, str]:
        """Whether a condition holds, and the error where it failed: then it is not true."""
        if isinstance(when, Predicate):
            moves = [(move.source, move.target) for move in agent_state.history]
            given = digest((agent_state.phase, agent_state.values, moves, conversation))
            called: Predicate = when
            verdict = ask(name, given, when.test, lambda: called.holds(self.look(agent_state, conversation)))
            return verdict.value is True, f"{verdict.kind}: {verdict.error}"[:200] if verdict.kind else ""
        try:
            return when is None or when.holds(self.look(agent_state, conversation)), ""
        except Exception as error:  # noqa: BLE001  an expression of an operator, of values that may be of any kind
            return False, f"{type(error).__name__}: {words_of(error)}"[:200]

    @property
    def asks_functions(self) -> bool:
        """Whether what it offers depends on functions."""
        scopes = (*self.scopes.values(), *(link.scope for link in self.links.values()))
        return any(isinstance(scope.when, Predicate) for scope in scopes)

    def offers(self, tool: str, agent_state: AgentPhaseState, conversation: Phase | None, ask: Ask) -> bool:
        """Whether a tool or a sub-agent is there now: phases AND condition."""
        return self.withheld(tool, agent_state, conversation, ask) is None

    def withheld(self, tool: str, agent_state: AgentPhaseState, conversation: Phase | None, ask: Ask) -> str | None:
        """Why a tool or a sub-agent is not there now, as the end of a sentence; None if it is."""
        link = self.links.get(tool)
        named = tool if link is not None or tool in self.scopes else all_of_server(tool)
        scope = link.scope if link is not None else self.scopes.get(named, ALWAYS)
        if scope.phases and agent_state.phase not in scope.phases:
            return f"it belongs to {', '.join(sorted(scope.phases))}"
        holds, error = self._holds(scope.when, f"tool {named}", agent_state, conversation, ask)
        if error:
            return f"its condition failed ({error})"
        return None if holds else "its condition does not hold"

    def fitted(self, agent_state: AgentPhaseState | None, ask: Ask) -> AgentPhaseState:
        """The state as one of this program, which may have changed since it was recorded.

        A phase that is gone becomes the initial one; a field that is new, or was of another type, has its default, and
        one that is gone is dropped. The same object where nothing has changed.
        """
        if agent_state is None:
            return self.begin(ask)
        before = agent_state.values
        values = {
            name: before[name] if name in before and self._keeps(name, before[name]) else default
            for name, default in self.defaults.items()
        }
        nodes = self.graph.nodes if self.graph is not None else ("",)
        phase = agent_state.phase if agent_state.phase in nodes else (self.graph.initial if self.graph else "")
        if values == before and phase == agent_state.phase:
            return agent_state
        return replace(agent_state, phase=phase, values=values)

    def _keeps(self, name: str, value: Any) -> bool:
        return fits(value, self.schema.get(name, {})) and self.takes(name, value)


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
}


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON value is of the schema's type; one that names no single type is not looked at."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        return True
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
