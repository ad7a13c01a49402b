"""The rules of a workflow as guarded edges of the one graph: its nodes are the speakers, a round is the facts.

An edge leads from the one speaker after whom its rule can fire, where the rule names one, else from anyone.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.functions.verdicts import Ask, FunctionQuestion, Verdict, digest
from tenex.core.graph import END, Choice, Edge, TransitionGraph
from tenex.workflows.speakers.conditions import (
    CONDITIONS,
    TARGETS,
    AgentTarget,
    AllOf,
    Always,
    FromSpeaker,
    OwnPart,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
    TransitionTarget,
    UnreadablePartError,
)
from tenex.workflows.speakers.rounds import Envelope, TransitionDecision, WorkflowState

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
    """The facts of a workflow's edges: the state with the round counted in, and the round.

    `ask` gives the verdicts of conditions and targets that are not built in.
    """

    state: WorkflowState
    envelope: Envelope
    ask: Ask

    def verdict(self, what: str, part: TransitionCondition | TransitionTarget) -> Verdict:
        """The verdict of an operator's condition or target, which is given copies.

        Raises:
            UnreadablePartError: its class does not take its arguments any more.
            ConfigurationError: it failed.
        """
        state = self.state
        envelope = self.envelope

        def call() -> Any:
            given = copy.deepcopy(state), copy.deepcopy(envelope)
            if what == "condition":
                return bool(part.evaluate(*given))  # type: ignore[union-attr]
            decision = part.resolve(*given)  # type: ignore[union-attr]
            return {"next": decision.next_speaker, "reason": decision.close_reason}

        facts = asdict(replace(state, graph_data={})), asdict(envelope)
        cls = part.cls if isinstance(part, OwnPart) else type(part)
        verdict = self.ask(
            FunctionQuestion(function=f"{what} {described(part)}", given=digest(facts), code=cls, call=call)
        )
        if verdict.kind == UnreadablePartError.__name__:
            raise UnreadablePartError([verdict.error])
        if verdict.kind:
            error = f"{verdict.kind}: {verdict.error}" if verdict.error else verdict.kind
            raise ConfigurationError([f"The {what} {cls.__name__} failed with {error}; fix its code."])
        return verdict


@dataclass(frozen=True, slots=True)
class When:
    """A rule's condition as a condition of the graph."""

    condition: TransitionCondition

    def holds(self, facts: RoundFacts) -> bool:
        """Whether the condition fires; raises ConfigurationError where an operator's code fails."""
        if all(type(part) in CONDITIONS for part in parts(self.condition)):
            return self.condition.evaluate(facts.state, facts.envelope)
        return bool(facts.verdict("condition", self.condition).value)


@dataclass(frozen=True, slots=True)
class Then:
    """A rule's target as a target of the graph."""

    target: TransitionTarget

    def resolve(self, node: str, facts: RoundFacts) -> Choice:
        """What the target resolves to; raises ConfigurationError where an operator's code fails."""
        if type(self.target) in TARGETS:
            decision = self.target.resolve(facts.state, facts.envelope)
        else:
            value = facts.verdict("target", self.target).value
            decision = TransitionDecision(value["next"], value["reason"])
        speaker = decision.next_speaker
        reason = decision.close_reason
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


def compiled(
    initial_speaker: str,
    transitions: Sequence[Transition],
    default_target: TransitionTarget,
    max_turns: int | None,
    participants: Sequence[str] = (),
) -> TransitionGraph:
    """The rules as a graph over speakers; the nodes are the participants, else everyone whom the rules name."""
    everybody = participants or dict.fromkeys(named_agents(initial_speaker, transitions, default_target))
    return TransitionGraph(
        nodes=tuple(everybody),
        initial=initial_speaker,
        edges=tuple(
            Edge(
                source=speaker_of(rule.when),
                target=_target(rule.then),
                when=None if isinstance(rule.when, Always | FromSpeaker) else When(rule.when),
                priority=rule.priority,
                label=_label(rule),
            )
            for rule in transitions
        ),
        default=_target(default_target),
        max_turns=max_turns,
    )


def _target(target: TransitionTarget) -> str | Then:
    return target.agent_id if isinstance(target, AgentTarget) else Then(target)


def _label(rule: Transition) -> str:
    when = "" if isinstance(rule.when, FromSpeaker) else described(rule.when)
    reason = f"({rule.then.reason})" if isinstance(rule.then, TerminateTarget) else ""
    return " ".join(part for part in (when, reason) if part)


def described(part: TransitionCondition | TransitionTarget) -> str:
    """A condition or a target in one line: its name, and its arguments if it is a dataclass."""
    return " ".join([part.name, *(_worded(value) for value in _arguments(part))])


def _arguments(condition: object) -> list[Any]:
    if isinstance(condition, OwnPart):
        return list(condition.args.values())
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
