"""A graph of speakers as values JSON can hold, in AG2's form, and back with every fault named."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tenex.core.errors import ConfigurationError
from tenex.core.workflow.conditions import Always, TerminateTarget
from tenex.core.workflow.transitions import Transition

from .registry import CONDITION, TARGET, TransitionRegistry

if TYPE_CHECKING:
    from .graph import TransitionGraph

KEYS = ("initial_speaker", "transitions", "default_target", "max_turns", "participants")
RULE_KEYS = ("when", "then", "priority")
FACTORIES = ("round_robin", "sequence", "star", "feedback_loop", "triage")
"""A graph may be one of these keys alone, with what the factory takes: a list, or a table of its arguments."""


def to_dict(graph: "TransitionGraph", registry: TransitionRegistry) -> dict[str, Any]:
    """The graph as AG2 writes it; raises ConfigurationError where a part cannot be written down."""
    faults = [*registry.faults_of(TARGET, graph.default_target, "default_target")]
    for number, rule in enumerate(graph.transitions):
        faults += registry.faults_of(CONDITION, rule.when, f"transitions[{number}].when")
        faults += registry.faults_of(TARGET, rule.then, f"transitions[{number}].then")
    if faults:
        raise ConfigurationError(faults)
    written = {
        "initial_speaker": graph.initial_speaker,
        "transitions": [
            {"when": registry.to_dict(rule.when), "then": registry.to_dict(rule.then), "priority": rule.priority}
            for rule in graph.transitions
        ],
        "default_target": registry.to_dict(graph.default_target),
        "max_turns": graph.max_turns,
    }
    return written | ({"participants": list(graph.participants)} if graph.participants else {})


def from_dict(data: object, registry: TransitionRegistry) -> dict[str, Any]:
    """The arguments of a `TransitionGraph`; raises ConfigurationError with every fault and where it is."""
    if not isinstance(data, Mapping):
        raise ConfigurationError([f"A graph must be an object with the keys {', '.join(KEYS)}."])
    faults: list[str] = []
    speaker, rules, turns = data.get("initial_speaker"), data.get("transitions"), data.get("max_turns")
    if not isinstance(speaker, str) or not speaker:
        faults.append("initial_speaker must be the name of who speaks first.")
    if turns is not None and (not isinstance(turns, int) or isinstance(turns, bool)):
        faults.append(f"max_turns is {turns!r}; it must be a whole number, or left out.")
    if rules is None:
        rules = []
    if not isinstance(rules, list | tuple):
        faults.append("transitions must be a list of rules.")
        rules = []
    names = data.get("participants") or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        faults.append("participants must be a list of names.")
    read = [_rule(rule, f"transitions[{number}]", registry, faults) for number, rule in enumerate(rules)]
    default = data.get("default_target")
    target = TerminateTarget() if default is None else registry.read(TARGET, default, "default_target", faults)
    if faults:
        raise ConfigurationError(faults)
    return {
        "initial_speaker": speaker,
        "transitions": read,
        "default_target": target,
        "max_turns": turns,
        "participants": tuple(names),
    }


def ignored(data: Mapping[str, Any]) -> list[str]:
    """The keys that mean nothing, each place as a sentence: AG2 passes over them too."""
    if any(key in data for key in FACTORIES):
        return []
    rules = data.get("transitions") or ()
    places: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [("The graph", data, KEYS)]
    places += _parts("default_target", data.get("default_target"))
    for number, rule in enumerate(rules):
        places.append((f"transitions[{number}]", rule, RULE_KEYS))
        for key in ("when", "then"):
            places += _parts(f"transitions[{number}].{key}", rule.get(key))
    return [
        f"{where} has unknown keys, which do nothing: {', '.join(unknown)}. Known are {', '.join(known)}."
        for where, part, known in places
        if (unknown := sorted(str(key) for key in part if key not in known))
    ]


def _parts(where: str, part: Any) -> Iterator[tuple[str, Mapping[str, Any], tuple[str, ...]]]:
    """A condition or a target as a dict, and those within it."""
    if not isinstance(part, Mapping) or "name" not in part:
        return
    yield where, part, ("name", "args")
    for key, value in (part.get("args") or {}).items():
        for inner in value if isinstance(value, list | tuple) else (value,):
            yield from _parts(f"{where}.args.{key}", inner)


def of_factory(data: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]] | None:
    """The factory that a graph is written by, and its arguments; None for a graph of rules.

    Raises:
        ConfigurationError: there is more beside it than `max_turns`.
    """
    named = [key for key in FACTORIES if key in data]
    if not named:
        return None
    others = sorted(str(key) for key, value in data.items() if key not in (named[0], "max_turns") and value is not None)
    if others:
        raise ConfigurationError([f"{named[0]} is a whole graph; beside it there may be max_turns, not {others[0]}."])
    given = data[named[0]]
    turns = {} if data.get("max_turns") is None else {"max_turns": data["max_turns"]}
    return (named[0], [], {**given, **turns}) if isinstance(given, Mapping) else (named[0], [given], turns)


def _rule(data: object, where: str, registry: TransitionRegistry, faults: list[str]) -> Transition:
    if not isinstance(data, Mapping):
        faults.append(f"{where} must be an object with the keys {', '.join(RULE_KEYS)}.")
        return Transition(Always(), TerminateTarget())  # any: the fault ends the reading
    priority = data.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        faults.append(f"{where}.priority is {priority!r}; it must be a whole number, lower ones first.")
        priority = 0
    when = registry.read(CONDITION, data.get("when"), f"{where}.when", faults)
    then = registry.read(TARGET, data.get("then"), f"{where}.then", faults)
    return Transition(when, then, priority)


def parsed_json(text: str) -> Any:
    """The values of a JSON text; raises ConfigurationError with line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise ConfigurationError([f"This is no JSON: {fault.msg} ({place}). Mend it there."]) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(["This JSON is nested too deeply or holds too long a number."]) from fault
