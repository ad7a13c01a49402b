"""The rules of a workflow as guarded edges of the one graph: its nodes are the speakers, a round is the facts.

An edge leads from the one speaker after whom its rule can fire, where the rule names one, else from anyone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.graph import END, Choice, Edge, TransitionGraph

from .conditions import (
    CONDITIONS,
    TARGETS,
    AgentTarget,
    AllOf,
    Always,
    FromSpeaker,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
    TransitionTarget,
)
from .rounds import Envelope, WorkflowState

TERMINATED = "workflow_terminated"
"""The reason of an end by a target that gives none."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One rule: when the condition fires, the target is who is next. Lower `priority` is looked at first."""

    when: TransitionCondition
    then: TransitionTarget
    priority: int = 0


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """The facts of a workflow's edges: the state with the round counted in, and the round."""

    state: WorkflowState
    envelope: Envelope


Ask = Callable[..., Any]
"""Calls a function of a rule with what follows it: where it may fail to return, with a bound of time."""


def _directly(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@dataclass(frozen=True, slots=True)
class When:
    """A rule's condition as a condition of the graph."""

    condition: TransitionCondition
    ask: Ask = _directly

    def holds(self, facts: RoundFacts) -> bool:
        """Whether the condition fires; raises ConfigurationError where its code fails."""
        try:
            return bool(self.ask(self.condition.evaluate, facts.state, facts.envelope))
        except Exception as fault:  # the code of the author of the graph: it must not end more than its own workflow
            raise ConfigurationError([_failed("condition", self.condition, fault)]) from fault


@dataclass(frozen=True, slots=True)
class Then:
    """A rule's target as a target of the graph."""

    target: TransitionTarget
    ask: Ask = _directly

    def resolve(self, node: str, facts: RoundFacts) -> Choice:
        """What the target resolves to; raises ConfigurationError where its code fails."""
        try:
            decision = self.ask(self.target.resolve, facts.state, facts.envelope)
            speaker, reason = decision.next_speaker, decision.close_reason
        except Exception as fault:  # as above
            raise ConfigurationError([_failed("target", self.target, fault)]) from fault
        return Choice(END, str(reason or TERMINATED)) if speaker is None else Choice(speaker)

    def reaches(self, node: str, nodes: Sequence[str]) -> Iterable[str]:
        """No one but the speaker for `stay`, only the end for `terminate`, else anyone; a custom target may end."""
        match self.target:
            case TerminateTarget():
                return (END,)
            case StayTarget():
                return (node,)
            case RoundRobinTarget() | RevertToInitiatorTarget():
                return nodes
            case _:
                return (*nodes, END)

    def __str__(self) -> str:
        return self.target.reason if isinstance(self.target, TerminateTarget) else self.target.name


def _failed(what: str, rule: object, fault: Exception) -> str:
    return f"The {what} {type(rule).__name__} failed with {type(fault).__name__}; fix its code."


def compiled(
    initial_speaker: str,
    transitions: Sequence[Transition],
    default_target: TransitionTarget,
    max_turns: int | None,
    participants: Sequence[str] = (),
    ask: Ask = _directly,
) -> TransitionGraph:
    """The rules as a graph over speakers; the nodes are the participants, else everyone whom the rules name.

    `ask` calls the functions of conditions and targets that are not built in.
    """
    everybody = participants or dict.fromkeys(named_agents(initial_speaker, transitions, default_target))
    return TransitionGraph(
        nodes=tuple(everybody),
        initial=initial_speaker,
        edges=tuple(_edge(rule, ask) for rule in transitions),
        default=_target(default_target, ask),
        max_turns=max_turns,
    )


def _edge(rule: Transition, ask: Ask) -> Edge:
    bare = isinstance(rule.when, Always | FromSpeaker)
    own = any(type(part) not in CONDITIONS for part in parts(rule.when))
    return Edge(
        source=speaker_of(rule.when),
        target=_target(rule.then, ask),
        when=None if bare else When(rule.when, ask if own else _directly),
        priority=rule.priority,
        label=_label(rule),
    )


def _target(target: TransitionTarget, ask: Ask) -> str | Then:
    if isinstance(target, AgentTarget):
        return target.agent_id
    return Then(target, _directly if type(target) in TARGETS else ask)


def _label(rule: Transition) -> str:
    when = "" if isinstance(rule.when, FromSpeaker) else described(rule.when)
    reason = f"({rule.then.reason})" if isinstance(rule.then, TerminateTarget) else ""
    return " ".join(part for part in (when, reason) if part)


def described(condition: TransitionCondition) -> str:
    """A condition in one line: its name, and its arguments if it is a dataclass."""
    return " ".join([condition.name, *(_worded(value) for value in _arguments(condition))])


def _arguments(condition: object) -> list[Any]:
    if isinstance(condition, type) or not is_dataclass(condition):
        return []
    return [getattr(condition, field.name) for field in fields(condition)]


def _worded(value: Any) -> str:
    if hasattr(value, "evaluate"):
        return f"({described(value)})"
    if isinstance(value, tuple | list):
        return ", ".join(_worded(part) for part in value)
    return value if isinstance(value, str) else repr(value)


def speaker_of(condition: TransitionCondition) -> str | None:
    """The one speaker after whom a condition can fire, if it is known; None means: after anyone."""
    if isinstance(condition, FromSpeaker):
        return condition.agent_id
    if isinstance(condition, AllOf):
        return next((found for part in condition.conditions if (found := speaker_of(part)) is not None), None)
    return None


def parts(condition: object) -> Iterator[object]:
    """A condition and all conditions within its fields, at any depth."""
    yield condition
    for value in _arguments(condition):
        for part in value if isinstance(value, tuple | list) else (value,):
            if hasattr(part, "evaluate"):
                yield from parts(part)


def named_agents(
    initial_speaker: str, transitions: Sequence[Transition], default_target: TransitionTarget
) -> Iterator[str]:
    """Everyone whom the rules name, in the order in which they do."""
    yield initial_speaker
    for rule in transitions:
        yield from (part.agent_id for part in parts(rule.when) if isinstance(part, FromSpeaker))
        if isinstance(rule.then, AgentTarget):
            yield rule.then.agent_id
    if isinstance(default_target, AgentTarget):
        yield default_target.agent_id


def named_tools(graph: TransitionGraph) -> frozenset[str]:
    """The tools that a rule of the graph names, also within another condition."""
    conditions = (edge.when.condition for edge in graph.edges if isinstance(edge.when, When))
    return frozenset(
        part.tool_name for condition in conditions for part in parts(condition) if isinstance(part, ToolCalled)
    )
