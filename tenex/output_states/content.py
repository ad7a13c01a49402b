"""What the content of a state may be, as values: free text within limits, JSON by a schema, a tool call, Python.

`AgentState.state_machine` returns one of these. Each checks a content that has been read whole; where the content ends
in a stream is found by `endings`.
"""

import ast
import json
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tenex.core.errors import ConfigurationError, kind_of

from .json_values import faults, moved, read

JSON_MAX: Final = 262_144
"""Characters of a JSON value: an argument may be a file that is to be written."""

PYTHON_MAX: Final = 20_000
"""Characters of a program: some 500 lines, more than anybody should run unread."""

_DECODER: Final = json.JSONDecoder()


Steps = Mapping[Hashable, Sequence[tuple["StateMachine | str", Hashable]]]
"""What may follow at each node: a machine for the next content, or a text to be written as it is, and the next node."""


_GRAPH: Final = "a dict of nodes, each with a list of (machine or text, next node)"


class StateMachine:
    """What a state's content may be: free text, or a sequence of contents along a graph.

    `StateMachine({0: [(JsonStateMachine(schema), 1)]}, 0, [1])` is the graph as pse_core's users write it; without one
    the content is free text. `identifier` and `delimiters` are those of its state where they are left out. Lengths are
    in characters, without the delimiters and, for JSON, without white space around the value.

    Raises:
        ConfigurationError: no path of the graph leads from the start to an end.
    """

    longest = 1000
    """`char_max` where none is given."""

    def __init__(
        self,
        state_graph: Steps | None = None,
        start_state: Hashable = 0,
        end_states: Iterable[Hashable] | None = None,
        *,
        identifier: str = "",
        delimiters: tuple[str, str] | None = None,
        char_min: int | None = None,
        char_max: int | None = None,
    ) -> None:
        self.identifier = identifier
        self.delimiters = delimiters or ("", "")
        self.state_graph = _steps(state_graph)
        self.start_state = start_state
        self.end_states = frozenset(("$",) if end_states is None else end_states)
        if self.state_graph and not self._reaches_an_end():
            raise ConfigurationError([f"a StateMachine has no path from {start_state!r} to one of its end states"])
        machines = [one for steps in self.state_graph.values() for one, _ in steps if isinstance(one, StateMachine)]
        self.char_min: int = char_min if char_min is not None else machines[0].char_min if len(machines) == 1 else 1
        self.char_max: int = char_max if char_max is not None else sum(one.char_max for one in machines) or self.longest

    def _reaches_an_end(self) -> bool:
        known = {self.start_state}
        queue = [self.start_state]
        for node in queue:
            for _, target in self.state_graph.get(node, ()):
                if target not in known:
                    known.add(target)
                    queue.append(target)
        return bool(known & self.end_states)

    @property
    def sole(self) -> "StateMachine | None":
        """The machine of a graph that consists of one step, where that has no delimiters beside these."""
        steps = [step for steps in self.state_graph.values() for step in steps]
        one = steps[0][0] if len(steps) == 1 else ""
        if isinstance(one, StateMachine) and one.delimiters in (("", ""), self.delimiters):
            return one
        return None

    def check(self, content: str) -> tuple[str, ...]:
        """What is wrong with a content whose length is right, each fault a sentence; never raises."""
        if (one := self.sole) is not None:
            return one.check(content)
        if not self.state_graph or len(content) in self._ends_along(content, 0):
            return ()
        return ("The content does not follow the steps of its state machine.",)

    def ends(self, content: str, start: int) -> Iterator[int]:
        """Where in the text a content that begins at `start` may end, its delimiters included; each place once."""
        opening, closing = self.delimiters
        if not content.startswith(opening, start):
            return
        begin = start + len(opening)
        for end in self._inner_ends(content, begin):
            if content.startswith(closing, end) and not self.check(content[begin:end]):
                yield end + len(closing)

    def _inner_ends(self, content: str, begin: int) -> Iterable[int]:
        if self.state_graph:
            return self._ends_along(content, begin)
        last = min(len(content), begin + self.char_max)
        closing = self.delimiters[1]
        if not closing:
            return range(begin + self.char_min, last + 1)
        end = content.find(closing, begin)  # free text ends with the first closing delimiter
        return (end,) if begin + self.char_min <= end <= last else ()

    def _ends_along(self, content: str, start: int) -> list[int]:
        """Where the steps of the graph may end; each node is tried at each place once, so there is no backtracking."""
        known = {(self.start_state, start)}
        queue = [(self.start_state, start)]
        for node, at in queue:
            for step, target in self.state_graph.get(node, ()):
                if isinstance(step, str):
                    ends: Iterable[int] = (at + len(step),) if content.startswith(step, at) else ()
                else:
                    ends = step.ends(content, at)
                for place in ((target, end) for end in ends):
                    if place not in known:
                        known.add(place)
                        queue.append(place)
        return sorted({at for node, at in known if node in self.end_states})


def _steps(graph: object) -> dict[Hashable, tuple[tuple["StateMachine | str", Hashable], ...]]:
    """The steps of a graph, of user code, which may not check types."""
    if graph is None:
        return {}
    if not isinstance(graph, Mapping):
        raise ConfigurationError([f"The graph of a StateMachine is {kind_of(graph)}; it must be {_GRAPH}."])
    for node, steps in graph.items():
        for step in steps if isinstance(steps, list | tuple) else (None,):
            is_pair = isinstance(step, list | tuple) and len(step) == 2
            if not is_pair or not isinstance(step[0], StateMachine | str):
                raise ConfigurationError(
                    [f"The graph of a StateMachine has no steps at {node!r}; it must be {_GRAPH}."]
                )
    return {node: tuple((step, target) for step, target in steps) for node, steps in graph.items()}


class FencedFreeformStateMachine(StateMachine):
    """Free text between two delimiters."""

    def __init__(
        self,
        identifier: str = "",
        delimiters: tuple[str, str] | None = None,
        char_min: int | None = None,
        char_max: int | None = None,
    ) -> None:
        super().__init__(identifier=identifier, delimiters=delimiters, char_min=char_min, char_max=char_max)


class JsonStateMachine(StateMachine):
    """One JSON object or list of a schema, with white space around it.

    Args:
        schema: a JSON Schema (2020-12) of type object or array.
    """

    longest = JSON_MAX

    def __init__(
        self,
        schema: Mapping[str, Any] | None = None,
        *,
        identifier: str = "",
        delimiters: tuple[str, str] | None = None,
        char_min: int | None = None,
        char_max: int | None = None,
    ) -> None:
        super().__init__(identifier=identifier, delimiters=delimiters, char_min=char_min, char_max=char_max)
        self.schema: Mapping[str, Any] = {} if schema is None else schema

    def _inner_ends(self, content: str, begin: int) -> Iterable[int]:
        try:
            return (_DECODER.raw_decode(content, begin)[1],)
        except (ValueError, RecursionError):
            return ()

    def check(self, content: str) -> tuple[str, ...]:
        """See `StateMachine.check`."""
        value, fault = read(content)
        return (fault,) if fault else self.check_value(value)

    def check_value(self, value: Any) -> tuple[str, ...]:
        """What is wrong with the value itself."""
        found = faults(value, self.schema)
        return (f"The JSON does not fit: {'; '.join(found)}.",) if found else ()


class ToolCallStateMachine(JsonStateMachine):
    """The call of one tool: `{"name": ..., "arguments": {...}}`; `tools` has the schema of each tool's arguments."""

    def __init__(
        self, tools: Mapping[str, Mapping[str, Any]], *, identifier: str = "", delimiters: tuple[str, str] | None = None
    ) -> None:
        # engines follow a reference by names, and not into a list
        calls = {f"tool{index}": call_schema(*one) for index, one in enumerate(tools.items())}
        schema = {
            "anyOf": [{"$ref": f"#/$defs/{key}"} for key in calls],
            "$defs": {key: moved(call, f"#/$defs/{key}") for key, call in calls.items()},
        }
        super().__init__(schema, identifier=identifier, delimiters=delimiters)
        self.tools = tools

    def check_value(self, value: Any) -> tuple[str, ...]:
        """See `JsonStateMachine.check_value`; the arguments are held to the schema of the tool that is named."""
        name = value.get("name") if isinstance(value, Mapping) else None
        if not isinstance(name, str) or not isinstance(value.get("arguments"), Mapping):
            return ('A tool call is an object {"name": TOOL, "arguments": {...}}.',)
        if name not in self.tools:
            return (f"There is no tool {json.dumps(name[:64])}. There are: {', '.join(self.tools) or 'none'}.",)
        found = [*faults(value["arguments"], self.tools[name], "the arguments")]
        found += [f"`{str(key)[:40]}` does not belong beside name and arguments" for key in value.keys() - _CALL_KEYS]
        return (f"The call of {name} does not fit: {'; '.join(found)}.",) if found else ()


_CALL_KEYS: Final = frozenset({"name", "arguments"})


def call_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a call of one tool."""
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": moved(parameters, "#/properties/arguments")},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


class PythonStateMachine(StateMachine):
    """A program that Python can parse; nothing is run."""

    longest = PYTHON_MAX

    def check(self, content: str) -> tuple[str, ...]:
        """See `StateMachine.check`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # strange escapes in a model's strings are no concern of our logs
                ast.parse(content)
        except SyntaxError as error:
            return (f"This is no Python: {error.msg}, line {error.lineno or 1}.",)
        except (ValueError, RecursionError, MemoryError):
            return ("This is no Python that can be read: it is nested too deep or holds a character it must not.",)
        return ()


class EncapsulatedStateMachine(StateMachine):
    """Another machine's content between these delimiters."""

    def __init__(
        self, state_machine: StateMachine, delimiters: tuple[str, str] | None = None, *, identifier: str = ""
    ) -> None:
        super().__init__({0: [(state_machine, 1)]}, 0, [1], identifier=identifier, delimiters=delimiters)


def core_of(machine: StateMachine) -> StateMachine:
    """The machine within, however often it is wrapped."""
    while (inner := machine.sole) is not None:
        machine = inner
    return machine
