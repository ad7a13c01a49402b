"""Variables of a workflow as users set them, `name=value`: read, and checked by the workflow's declarations.

A variable is known where the workflow begins with it, a rule looks at it, or it is set. Its values have the kinds of
those that it begins with and that rules compare it with; without any, it may be of any kind.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tenex.core.errors import UsageError
from tenex.core.graph import TransitionGraph
from tenex.core.text.json_values import faults_of_value
from tenex.workflows.speakers.conditions import ContextEquals, ContextIn, ContextThreshold
from tenex.workflows.speakers.transitions import When, parts

Kinds = Mapping[str, frozenset[str]]

_NAME = re.compile(r"(?:^|\s)([A-Za-z_][\w.-]*)=")
_LINE = re.compile(r"^[ \t]*/set[ \t]+(\S.*)$", re.MULTILINE)
_TEXT: Final = "a text"
_EXAMPLE: Final = "Write it as `/set name=value`."


def lines_of(message: str) -> str:
    """What the lines of a message set that begin with `/set`; "" for nothing."""
    return "\n".join(line.rstrip(" \t") for line in _LINE.findall(message))


def kinds_of(graph: TransitionGraph, *contexts: Mapping[str, Any]) -> Kinds:
    """The variables that are known, each with the kinds of value it may have; none for any kind."""
    found: dict[str, set[str]] = {}
    for name, value in (*_of_rules(graph), *(pair for context in contexts for pair in context.items())):
        found.setdefault(name, set()).update({_kind(value)} - {""})
    return {name: frozenset(kinds) for name, kinds in sorted(found.items())}


def _of_rules(graph: TransitionGraph) -> Iterator[tuple[str, Any]]:
    for edge in graph.edges:
        for part in parts(edge.when.condition) if isinstance(edge.when, When) else ():
            key = getattr(part, "key", None)  # a condition of someone's own names a variable as the built-in ones do
            if not isinstance(key, str):
                continue
            match part:
                case ContextEquals():
                    yield key, part.value
                case ContextIn():
                    yield from ((key, value) for value in part.values)
                case ContextThreshold():
                    yield key, part.threshold
                case _:
                    yield key, None


def read(text: str, known: Kinds) -> dict[str, Any]:
    """The values that a text such as `route=security tries=3` sets.

    Raises:
        UsageError: it is not of that form, a variable is not known, or a value is of another kind.
    """
    found = [*_NAME.finditer(text)]
    if not found or text[: found[0].start()].strip():
        raise UsageError(_EXAMPLE)
    ends = [*(match.start() for match in found[1:]), len(text)]
    return {m[1]: _value(m[1], text[m.end() : end].strip(), known) for m, end in zip(found, ends, strict=True)}


def described(known: Kinds, context: Mapping[str, Any]) -> str:
    """The variables there are, with their values, as lines for users."""
    if not known:
        return "This workflow has no variables."
    return "\n".join(f"{name} = {_shown(context.get(name))}{_of(kinds)}" for name, kinds in known.items())


def confirmation(values: Mapping[str, Any]) -> str:
    """What was set, as a sentence."""
    return f"{', '.join(f'{name} = {_shown(value)}' for name, value in values.items())}. It counts from now on."


def _value(name: str, text: str, known: Kinds) -> Any:
    if name not in known:
        there = f"There are: {', '.join(known)}." if known else "It has none."
        raise UsageError(f"There is no variable {name} in this workflow. {there}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    kinds = known[name]
    if _TEXT in kinds and _kind(value) not in (*kinds, ""):
        value = text
    if faults := [*faults_of_value(value, name)]:
        raise UsageError(faults[0])
    if kinds and _kind(value) not in (*kinds, ""):
        raise UsageError(f"{name} must be {' or '.join(sorted(kinds))}, and {_shown(value)} is {_kind(value)}.")
    return value


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return _TEXT
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return ""


def _of(kinds: frozenset[str]) -> str:
    return f" ({' or '.join(sorted(kinds))})" if kinds else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
