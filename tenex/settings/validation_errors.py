"""Validation errors of settings as sentences: source, setting, what is wrong with it, what is allowed."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from .sections import Settings

_WANTED: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text in quotes",
    "list": "a list in square brackets",
    "dict": "a table",
    "model": "a table",
}
_KINDS: Mapping[type, str] = {
    bool: "a yes or no",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
    type(None): "nothing",
}
_NOW_CHECKS: Mapping[str, str] = {f"workspace.{name}": f"checks.{name}" for name in ("test", "lint", "build")}
"""Settings that were replaced by tables of `[checks]`."""
_RULE = re.compile(r"approve\[(\d+)\](.*)")


def sentences(fault: ValidationError, where: Callable[[str], str]) -> list[str]:
    """One sentence for each of pydantic's errors; `where` names the source of a dotted setting."""
    return [f"{where(name)}: {_named(name)}: {text}" for name, text in map(_explain, map(dict, fault.errors()))]


def _named(name: str) -> str:
    """A setting as it is shown: a rule of `[[approve]]` by the number that it has everywhere, from 1."""
    rule = _RULE.fullmatch(name)
    if rule is None:
        return name
    part = rule[2].removeprefix(".")
    return f"rule {int(rule[1]) + 1} of [[approve]]" + (f", {part}" if part else "")


def known_below(parts: Sequence[str]) -> tuple[str, ...]:
    """The names allowed in a table, by the table's dotted parts; empty if any name is, or there is no such table."""
    model: Any = Settings
    names_follow = False
    for part in parts:
        if names_follow:  # the keys of a table such as models.agents are chosen by the operator
            names_follow = False
            continue
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        names_follow = get_origin(annotation) is dict
        model = next((t for t in _inner(annotation) if isinstance(t, type) and issubclass(t, BaseModel)), None)
        if model is None:
            return ()
    return () if names_follow else tuple(model.model_fields)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or else the names that are allowed."""
    names = list(known)
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"allowed here: {', '.join(names)}" if names else "remove it"


def _hint(table: Sequence[str], name: str) -> str:
    """The setting of that name elsewhere, if there is one, or else the closest name."""
    if name in Settings.model_fields:
        return f"`{name}` belongs at the top, above all [tables]"
    places = [found for found in _all(Settings) if found.rpartition(".")[2] == name]
    return f"did you mean `{places[0]}`?" if len(places) == 1 else suggestion(name, known_below(table))


def _all(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{above}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _all(field.annotation, f"{above}{name}.")


def dotted(location: Sequence[str | int]) -> str:
    """`("people", "owners", 0)` becomes `people.owners[0]`."""
    out = ""
    for part in location:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def _inner(annotation: Any) -> Iterable[Any]:
    yield annotation
    for argument in get_args(annotation):
        yield from _inner(argument)


def _explain(error: dict[str, Any]) -> tuple[str, str]:
    location = list(error["loc"])
    kind: str = error["type"]
    given = error.get("input")
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "extra_forbidden":
        *table, name = (str(part) for part in location)
        if dotted(location) in _NOW_CHECKS:
            return dotted(location), _as_check(_NOW_CHECKS[dotted(location)], given)
        return dotted(location), f"there is no such setting; {_hint(table, name)}"
    shown = "the value" if location[0] == "people" else _show(given)
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return dotted(location), f"{shown} is not allowed; it must be one of: {allowed}"
    if kind == "missing":
        return dotted(location), "it is missing, and this table needs it"
    if kind == "value_error":
        return dotted(location), str(context["error"])
    bound = _bound(kind, context)
    if bound:
        return dotted(location), f"{shown} is out of bounds; it must be {bound}"
    wanted = _WANTED.get(kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float"))
    if wanted:
        return dotted(location), f"{shown} is {_KINDS.get(type(given), 'a date or time')}; it must be {wanted}"
    return dotted(location), f"{shown} is wrong: {error['msg']}"


def _as_check(table: str, steps: object) -> str:
    """What to write instead of a command that was a list of arguments, or a list of such lists."""
    if not steps or not isinstance(steps, list):
        return f"there is no such setting; remove it, a command is the `run` of [{table}] now"
    lines = steps if isinstance(steps[0], list) else [steps]
    run = " && ".join(shlex.join(map(str, words)) for words in lines if isinstance(words, list))
    return f"it is a check now; remove it, and write `[{table}]` and below it `run = {json.dumps(run)}`"


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "greater_than_equal":
            return f"at least {context['ge']:,}"
        case "less_than_equal":
            return f"at most {context['le']:,}"
        case "finite_number":
            return "a finite number"
        case "too_short":
            return f"a list of at least {context['min_length']}"
        case "too_long":
            return f"a list of at most {context['max_length']}"
        case _:
            return ""


def _show(given: object) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, (list, dict)):
        return "the value"
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."  # the rest has to fit into a terminal line too
