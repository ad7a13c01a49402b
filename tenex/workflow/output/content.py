"""What the content of a state may be, as values: free text within limits, JSON by a schema, a tool call, Python.

`AgentState.state_machine` returns one of these. Each knows how to check a content that has been read whole; where the
content ends is told by `endings`.

Never: read a stream; the parser does.
"""

import ast
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.graph import Edge, TransitionGraph

from .endings import Ending, ending_of
from .jsontext import faults, moved, read

JSON_MAX: Final = 262_144
"""Characters of a JSON value: an argument may be a file that is to be written."""

PYTHON_MAX: Final = 20_000
"""Characters of a program: some 500 lines, more than anybody should run unread."""


@dataclass(slots=True)
class StateMachine:
    """What a state's content may be; `identifier` is that of its state, and may be set after the fact.

    Lengths are in characters, without the delimiters and, for JSON, without white space around the value.
    """

    identifier: str = ""
    delimiters: tuple[str, str] = ("", "")
    char_min: int = 1
    char_max: int = 1000

    @property
    def graph(self) -> TransitionGraph:
        """The machine as a graph of its own: it opens, holds content, closes."""
        kind = type(self).__name__
        edges = (Edge("open", kind), Edge(kind, kind, label="character"), Edge(kind, "close"))
        return TransitionGraph(("open", kind, "close"), "open", edges, terminal=frozenset({"close"}))

    @property
    def ending(self) -> Ending:
        """Where the content ends."""
        return ending_of(self.delimiters)

    def check(self, content: str) -> tuple[str, ...]:  # noqa: ARG002  free text is right as it is
        """What is wrong with a content whose length is right, each fault a sentence; never raises."""
        return ()


@dataclass(slots=True)
class FencedFreeformStateMachine(StateMachine):
    """Free text between two delimiters."""


@dataclass(slots=True)
class JsonStateMachine(StateMachine):
    """One JSON object or list of a schema, with white space around it."""

    char_max: int = JSON_MAX
    schema: Mapping[str, Any] = field(default_factory=dict)
    """A JSON Schema (2020-12) of type object or array."""

    def check(self, content: str) -> tuple[str, ...]:
        """See `StateMachine.check`."""
        value, fault = read(content)
        return (fault,) if fault else self.check_value(value)

    def check_value(self, value: Any) -> tuple[str, ...]:
        """What is wrong with the value itself."""
        found = faults(value, self.schema)
        return (f"The JSON does not fit: {'; '.join(found)}.",) if found else ()


@dataclass(slots=True)
class ToolCallStateMachine(JsonStateMachine):
    """The call of one tool: `{"name": ..., "arguments": {...}}`; `tools` has the schema of each tool's arguments."""

    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        calls = (call_schema(name, parameters) for name, parameters in self.tools.items())
        self.schema = {"anyOf": [moved(call, f"#/anyOf/{index}") for index, call in enumerate(calls)]}

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


@dataclass(slots=True)
class PythonStateMachine(StateMachine):
    """A program that Python can parse; nothing is run."""

    char_max: int = PYTHON_MAX

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


@dataclass(slots=True)
class EncapsulatedStateMachine(StateMachine):
    """Another machine's content between these delimiters."""

    inner: StateMachine = field(default_factory=StateMachine)

    def __post_init__(self) -> None:
        self.char_min, self.char_max = self.inner.char_min, self.inner.char_max

    def check(self, content: str) -> tuple[str, ...]:
        """See `StateMachine.check`."""
        return self.inner.check(content)


def core_of(machine: StateMachine) -> StateMachine:
    """The machine within, however often it is wrapped."""
    while isinstance(machine, EncapsulatedStateMachine):
        machine = machine.inner
    return machine
