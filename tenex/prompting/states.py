"""Reads the key `output` of an agent's front matter: by which states its answers are made.

output: true                                       # thinking, scratchpad, inner monologue; then a tool call
output: {plan: [thinking, risks.py:Risks], act: [tool_call, python], min: 1, max: 3}
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml

from .frontmatter import choices, line_of

DEFAULT_PLAN: Final = ("thinking", "scratchpad", "inner_monologue")
DEFAULT_ACT: Final = ("tool_call",)
DEFAULT_MOST: Final = 3
"""Planning states in one answer, as in Proxy Base Agent."""
PYTHON: Final = "python"
"""The state whose programs the tool of the same name runs."""

_KEYS: Final = ("plan", "act", "min", "max")
_INTEGER: Final = "tag:yaml.org,2002:int"
_BOOLEAN: Final = "tag:yaml.org,2002:bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDefinition:
    """The states an agent speaks by, as its file names them: built-in ones, `file.py:Class` or `package.module:Class`.

    An agent written in Python may also give classes.

    `least` None asks for one planning state where there are any.
    """

    plan: tuple[str | type, ...] = DEFAULT_PLAN
    act: tuple[str | type, ...] = DEFAULT_ACT
    least: int | None = None
    most: int = DEFAULT_MOST
    line: int = 1
    """Of the file, for faults that are found later."""


Complain = Callable[[int, str], None]
"""Takes the line of a fault and a sentence about it."""


def read_output(value: yaml.Node, complain: Complain) -> OutputDefinition | None:
    """The definition that a node of YAML is; None where it says `false`, or where something is wrong with it."""
    line = line_of(value)
    if isinstance(value, yaml.ScalarNode) and value.tag == _BOOLEAN:
        return OutputDefinition(line=line) if value.value.lower() in ("true", "yes", "on") else None
    if not isinstance(value, yaml.MappingNode):
        complain(line, f"`output` must be `true`, or a table with {', '.join(_KEYS)}; all of them may be left out.")
        return None
    lists: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, int] = {}
    faults = 0
    for key, part in value.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        fault = ""
        if name in lists or name in numbers:
            fault = f"`output.{name}` stands there twice. Keep one."
        elif name in ("plan", "act"):
            items = part.value if isinstance(part, yaml.SequenceNode) else None
            if items is None or not all(isinstance(item, yaml.ScalarNode) and item.value.strip() for item in items):
                fault = f"`output.{name}` must be a list of states, such as `[thinking, scratchpad]`."
            else:
                lists[name] = tuple(item.value.strip() for item in items)
        elif name in ("min", "max"):
            if not isinstance(part, yaml.ScalarNode) or part.tag != _INTEGER or not part.value.isdecimal():
                fault = f"`output.{name}` must be a whole number, 0 or more."
            else:
                numbers[name] = int(part.value)
        else:
            fault = f"`output` has no key `{name}`. {choices(name, _KEYS)}"
        if fault:
            faults += 1
            complain(line_of(key), fault)
    if faults:
        return None
    plan, most = lists.get("plan", DEFAULT_PLAN), numbers.get("max", DEFAULT_MOST)
    return OutputDefinition(
        plan=plan if most else (),
        act=lists.get("act", DEFAULT_ACT),
        least=numbers.get("min"),
        most=most if plan else 0,
        line=line,
    )
