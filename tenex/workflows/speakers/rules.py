"""The rules of speakers: AG2's graph as values and as JSON, and compiled."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from itertools import pairwise
from typing import Any, Self

from tenex.core.errors import ConfigurationError, kind_of
from tenex.core.graph import TransitionGraph as CompiledGraph
from tenex.workflows.speakers.conditions import (
    AgentTarget,
    AllOf,
    Always,
    ContextEquals,
    FromSpeaker,
    RoundRobinTarget,
    TerminateTarget,
    ToolCalled,
    TransitionTarget,
)
from tenex.workflows.speakers.config import Compile
from tenex.workflows.speakers.fold import begin
from tenex.workflows.speakers.rounds import WorkflowState
from tenex.workflows.speakers.transitions import Transition, compiled

from .registry import CONDITION, TARGET, TransitionRegistry

KEYS = ("initial_speaker", "transitions", "default_target", "max_turns", "participants")
RULE_KEYS = ("when", "then", "priority")
FACTORIES = ("round_robin", "sequence", "star", "feedback_loop", "triage")
"""A graph may be one of these keys alone, with what the factory takes: a list, or a table of its arguments."""

COMPILED = 64
"""Compiled graphs: of more workflows than a folder holds, each in the versions conversations were opened with."""


@dataclass(frozen=True, slots=True)
class SpeakerRules:
    """Who speaks first, the rules, the target where none fires, and the most turns there may be.

    What users make is its subclass `graph.TransitionGraph`, which can also be checked as a whole and run.
    """

    initial_speaker: str
    transitions: Sequence[Transition] = ()
    default_target: TransitionTarget = field(default_factory=TerminateTarget)
    max_turns: int | None = None
    participants: Sequence[str] = ()
    """Who takes part, in the order of a round robin, where the rules do not name everybody."""

    def __post_init__(self) -> None:
        for name in ("transitions", "participants"):
            given: object = getattr(self, name)
            if isinstance(given, Iterable) and not isinstance(given, str | Mapping):  # else it is a fault, found later
                object.__setattr__(self, name, tuple(given))

    # ---- to use it ---------------------------------------------------------------------------------------------------

    def compile(self, participants: Sequence[str] = ()) -> CompiledGraph:
        """The rules as the one graph, over those who take part, else over all whom the rules name.

        Raises ConfigurationError where a part of the graph is of the wrong kind.
        """
        if faults := [*faults_of_values(self)]:
            raise ConfigurationError(faults)
        return self._compiled(participants)

    def _compiled(self, participants: Sequence[str]) -> CompiledGraph:
        return compiled(self.initial_speaker, self.transitions, self.default_target, self.max_turns, participants)

    def begin(
        self,
        participants: Sequence[str],
        creator_id: str = "",
        context_vars: Mapping[str, Any] | None = None,
    ) -> tuple[CompiledGraph, WorkflowState]:
        """The compiled graph and the state in which the initial speaker is to speak.

        The creator takes part, as the first where not listed. Raises ConfigurationError with every fault.
        """
        order = [creator_id, *participants] if creator_id and creator_id not in participants else list(participants)
        graph = self.compile(order)
        return graph, begin(graph, order, creator_id, context_vars, self.to_dict())

    def mermaid(self, participants: Sequence[str] = ()) -> str:
        """The rules as a Mermaid state diagram."""
        return self.compile(participants).mermaid()

    # ---- to write it down --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The graph as values JSON can hold; raises ConfigurationError where a part cannot be written down."""
        known = TransitionRegistry.default()
        if faults := [*faults_of_values(self)]:
            raise ConfigurationError(faults)
        written = {
            "initial_speaker": self.initial_speaker,
            "transitions": [
                {"when": known.to_dict(rule.when), "then": known.to_dict(rule.then), "priority": rule.priority}
                for rule in self.transitions
            ],
            "default_target": known.to_dict(self.default_target),
            "max_turns": self.max_turns,
        }
        return written | ({"participants": list(self.participants)} if self.participants else {})

    @classmethod
    def from_dict(cls, data: object, registry: TransitionRegistry | None = None) -> Self:
        """Inverse of `to_dict`, and of AG2's; raises ConfigurationError with every fault and where it is."""
        known = registry or TransitionRegistry.default()
        written = _of_factory(data) if isinstance(data, Mapping) else None
        if written is not None:
            name, args, named = written
            factory = getattr(cls, name)
            try:
                signature(factory).bind(*args, **named)
            except TypeError as fault:
                takes = ", ".join(signature(factory).parameters)
                has = "a list" if args else ", ".join(named) or "none"
                raise ConfigurationError([f"{name} takes {takes}, and has {has}."]) from fault
            data = factory(*args, **named).to_dict()
        return cls(**_from_dict(data, known))

    def dumps(self) -> str:
        """The graph as JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)

    @classmethod
    def loads(cls, data: str | Mapping[str, Any]) -> Self:
        """Inverse of `dumps` and of `to_dict`; raises ConfigurationError with every fault and where it is."""
        return cls.from_dict(parsed_json(data) if isinstance(data, str) else data)

    # ---- usual shapes ------------------------------------------------------------------------------------------------

    @classmethod
    def sequence(cls, steps: Sequence[str], *, max_turns: int | None = None) -> Self:
        """One after the other, each once, then the end; `max_turns` ends it before the last of them."""
        names = _names(steps, "sequence", "steps")
        rules = [Transition(FromSpeaker(before), AgentTarget(after)) for before, after in pairwise(names)]
        turns = len(names) if max_turns is None else max_turns
        return cls(names[0], rules, TerminateTarget("sequence_complete"), turns)

    @classmethod
    def round_robin(cls, participants: Sequence[str], *, max_turns: int | None = None) -> Self:
        """Round and round in the order of the participants, until `max_turns`; None: until somebody ends it."""
        names = _names(participants, "round_robin", "participants")
        rules = [Transition(Always(), RoundRobinTarget())]
        return cls(names[0], rules, TerminateTarget("round_robin_complete"), max_turns, names)

    @classmethod
    def star(cls, center: str, spokes: Sequence[str] | Mapping[str, str], *, max_turns: int | None = None) -> Self:
        """The centre asks one at a time and reads the answer; its message without a call is the end.

        `spokes` maps the tool by which the centre asks to whom it asks; of a list, the tools are `ask_<name>`, with `_`
        for `-`.
        """
        if isinstance(spokes, Mapping) and spokes:
            asking = spokes
        else:
            asking = {f"ask_{name.replace('-', '_')}": name for name in _names(spokes, "star", "spokes")}
        rules = [
            *(
                Transition(AllOf([FromSpeaker(center), ToolCalled(tool)]), AgentTarget(to))
                for tool, to in asking.items()
            ),
            *(Transition(FromSpeaker(name), AgentTarget(center)) for name in dict.fromkeys(asking.values())),
        ]
        return cls(center, rules, TerminateTarget("star_complete"), max_turns)

    @classmethod
    def feedback_loop(cls, worker: str, critic: str, *, key: str = "approved", max_turns: int | None = 10) -> Self:
        """The worker's drafts go to the critic and back, until the critic's tools have set `key` to true.

        Ten turns are five drafts: more seldom make it better.
        """
        rules = [
            Transition(AllOf([FromSpeaker(critic), ContextEquals(key, value=True)]), TerminateTarget("approved")),
            Transition(FromSpeaker(worker), AgentTarget(critic)),
            Transition(FromSpeaker(critic), AgentTarget(worker)),
        ]
        return cls(worker, rules, TerminateTarget("feedback_loop_complete"), max_turns)

    @classmethod
    def triage(
        cls,
        triage: str,
        routes: Mapping[str, str],
        *,
        key: str = "route",
        otherwise: str | None = None,
        max_turns: int | None = None,
    ) -> Self:
        """The first speaker's tools set `key`; the specialist whom `routes` gives for its value answers, then the end.

        Without a known value `otherwise` answers, or it ends with the reason `no_route`.
        """
        given: object = routes  # user code may not check types
        if not isinstance(given, Mapping) or not given:
            what = kind_of(given) if given or not isinstance(given, Mapping) else "none"
            raise ConfigurationError([f"triage needs its routes, each value of {key!r} with a name; it has {what}."])
        rest = AgentTarget(otherwise) if otherwise else TerminateTarget("no_route")
        rules = [
            *(
                Transition(AllOf([FromSpeaker(triage), ContextEquals(key, value)]), AgentTarget(name))
                for value, name in routes.items()
            ),
            Transition(FromSpeaker(triage), rest),
        ]
        return cls(triage, rules, TerminateTarget("triage_complete"), max_turns)


def faults_of_values(graph: SpeakerRules) -> Iterator[str]:
    """What a graph is made of that cannot be asked or written down, each as a sentence."""
    registry = TransitionRegistry.default()
    speaker: object = graph.initial_speaker  # user code may not check types
    if not isinstance(speaker, str) or not speaker:
        yield "initial_speaker must be the name of who speaks first."
    names: object = graph.participants
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        yield "participants must be a list of names."
    if graph.max_turns is not None and (isinstance(graph.max_turns, bool) or not isinstance(graph.max_turns, int)):
        yield f"max_turns is {graph.max_turns!r}; it must be 1 or more, or left out."
    yield from registry.faults_of(TARGET, graph.default_target, "default_target")
    rules: object = graph.transitions  # as above
    if not isinstance(rules, tuple):
        yield f"transitions is {kind_of(rules)}; it must be a list of Transition."
        return
    for number, rule in enumerate(rules):
        if not isinstance(rule, Transition):
            yield f"transitions[{number}] is {kind_of(rule)}; it must be a Transition."
            continue
        yield from registry.faults_of(CONDITION, rule.when, f"transitions[{number}].when")
        yield from registry.faults_of(TARGET, rule.then, f"transitions[{number}].then")
        if isinstance(rule.priority, bool) or not isinstance(rule.priority, int):
            yield f"transitions[{number}].priority is {rule.priority!r}; it must be a whole number, lower ones first."


def compiler() -> Compile:
    """What makes graphs of their dicts, by the conditions and targets that are registered now.

    It runs no code of an operator: their conditions and targets are made when they are evaluated.
    """
    known = TransitionRegistry.default().copy(as_data=True)

    @lru_cache(maxsize=COMPILED)
    def compiled_text(text: str, participants: tuple[str, ...]) -> CompiledGraph:
        return SpeakerRules.from_dict(json.loads(text), known)._compiled(participants)

    return lambda data, participants: compiled_text(json.dumps(data, sort_keys=True), participants)


def _names(given: object, factory: str, what: str) -> tuple[str, ...]:
    """The names that a factory takes, of user code, which may not check types."""
    if isinstance(given, str | Mapping | set | frozenset) or not isinstance(given, Iterable):
        raise ConfigurationError([f"{factory} needs its {what} as a list of names, not {kind_of(given)}."])
    names = tuple(given)
    if not names:
        raise ConfigurationError([f"{factory} needs at least one of its {what}, as a list."])
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ConfigurationError([f"{factory}: {what}[{number}] is {_worded(name)}; it must be a name."])
    return names


def _worded(name: object) -> str:
    return "an empty text" if name == "" else kind_of(name)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def _from_dict(data: object, registry: TransitionRegistry) -> dict[str, Any]:
    """The arguments of a `SpeakerRules`; raises ConfigurationError with every fault and where it is."""
    if not isinstance(data, Mapping):
        raise ConfigurationError([f"A graph must be an object with the keys {', '.join(KEYS)}."])
    faults: list[str] = []
    speaker = data.get("initial_speaker")
    rules = data.get("transitions")
    turns = data.get("max_turns")
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


def _of_factory(data: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]] | None:
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
        raise ConfigurationError([f"This is no JSON: {fault.msg} ({place}). Fix it there."]) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(["This JSON is nested too deeply or holds too long a number."]) from fault


def parsed_toml(text: str) -> dict[str, Any]:
    """The dict of a graph written as TOML; raises ConfigurationError with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError([f"This is no TOML: {str(fault).rstrip('.')}. Fix it there."]) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(["This TOML is nested too deeply or holds a number that is too long."]) from fault
