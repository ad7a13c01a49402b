"""A graph of speakers as values JSON can hold, in AG2's form, and back with every fault named.

Never: open a file.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tenex.core.conditions import Always, TerminateTarget
from tenex.core.errors import ConfigurationError
from tenex.core.rules import Transition

from .registry import CONDITION, TARGET, TransitionRegistry

if TYPE_CHECKING:
    from .graph import TransitionGraph

KEYS = ("initial_speaker", "transitions", "default_target", "max_turns")
RULE_KEYS = ("when", "then", "priority")
MOST_RULES = 1_000
"""More than anybody can read; checking compares every rule with every other."""


def to_dict(graph: "TransitionGraph", registry: TransitionRegistry) -> dict[str, Any]:
    """The graph as AG2 writes it; raises ConfigurationError where a part cannot be written down."""
    faults = [*registry.faults_of(TARGET, graph.default_target, "default_target")]
    for number, rule in enumerate(graph.transitions):
        faults += registry.faults_of(CONDITION, rule.when, f"transitions[{number}].when")
        faults += registry.faults_of(TARGET, rule.then, f"transitions[{number}].then")
    if faults:
        raise ConfigurationError(faults)
    return {
        "initial_speaker": graph.initial_speaker,
        "transitions": [
            {"when": registry.to_dict(rule.when), "then": registry.to_dict(rule.then), "priority": rule.priority}
            for rule in graph.transitions
        ],
        "default_target": registry.to_dict(graph.default_target),
        "max_turns": graph.max_turns,
    }


def from_dict(data: object, registry: TransitionRegistry) -> dict[str, Any]:
    """The arguments of a `TransitionGraph`; raises ConfigurationError with every fault and where it is."""
    if not isinstance(data, Mapping):
        raise ConfigurationError([f"A graph must be an object with the keys {', '.join(KEYS)}."])
    faults = _unknown(data, KEYS, "The graph")
    speaker, rules, turns = data.get("initial_speaker"), data.get("transitions"), data.get("max_turns")
    if not isinstance(speaker, str) or not speaker:
        faults.append("initial_speaker must be the name of who speaks first.")
    if turns is not None and (not isinstance(turns, int) or isinstance(turns, bool) or turns < 1):
        faults.append(f"max_turns is {turns!r}; it must be 1 or more, or left out.")
    if rules is None:
        rules = []
    if not isinstance(rules, list | tuple) or len(rules) > MOST_RULES:
        faults.append(f"transitions must be a list of at most {MOST_RULES} rules.")
        rules = []
    read = [_rule(rule, f"transitions[{number}]", registry, faults) for number, rule in enumerate(rules)]
    default = data.get("default_target")
    target = TerminateTarget() if default is None else registry.read(TARGET, default, "default_target", faults)
    if faults:
        raise ConfigurationError(faults)
    return {"initial_speaker": speaker, "transitions": read, "default_target": target, "max_turns": turns}


def _rule(data: object, where: str, registry: TransitionRegistry, faults: list[str]) -> Transition:
    if not isinstance(data, Mapping):
        faults.append(f"{where} must be an object with the keys {', '.join(RULE_KEYS)}.")
        return Transition(Always(), TerminateTarget())  # any: the fault ends the reading
    faults += _unknown(data, RULE_KEYS, where)
    priority = data.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        faults.append(f"{where}.priority is {priority!r}; it must be a whole number, lower ones first.")
        priority = 0
    when = registry.read(CONDITION, data.get("when"), f"{where}.when", faults)
    then = registry.read(TARGET, data.get("then"), f"{where}.then", faults)
    return Transition(when, then, priority)


def _unknown(data: Mapping[Any, Any], known: tuple[str, ...], where: str) -> list[str]:
    unknown = ", ".join(sorted(str(key) for key in data if key not in known))
    return [f"{where} has unknown keys: {unknown}. Known are {', '.join(known)}."] if unknown else []


def parsed_json(text: str) -> Any:
    """The values of a JSON text; raises ConfigurationError with line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise ConfigurationError([f"This is no JSON: {fault.msg} ({place}). Mend it there."]) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(["This JSON is nested too deeply or holds too long a number."]) from fault
