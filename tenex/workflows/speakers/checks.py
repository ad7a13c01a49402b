"""Checks a graph of speakers as a whole: every fault and every doubt at once, each as a sentence.

A fault keeps a graph from being used. A warning is about a graph that runs, as AG2 would run it, and may not do what
its author meant: a rule that is never taken, a speaker that only a `Handoff` reaches.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.graph import END
from tenex.workflows.speakers.conditions import (
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ContextIn,
    FromSpeaker,
    Not,
    RevertToInitiatorTarget,
    StayTarget,
    TransitionCondition,
    TransitionTarget,
)
from tenex.workflows.speakers.fold import faults_of_participants
from tenex.workflows.speakers.rounds import UNKNOWN_SPEAKER
from tenex.workflows.speakers.transitions import compiled, named_agents, parts

from .rules import SpeakerRules, faults_of_values

MOST_COMPARED: Final = 1_000
"""Rules that are compared with each other, which takes time by their square: more than anybody can read."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check found: a graph with faults cannot be used, one with warnings can."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the graph may be used."""
        return not self.faults


def checked(graph: SpeakerRules, participants: Sequence[str] | None) -> Findings:
    """Check a graph; its speakers only where the participants are given."""
    broken = tuple(faults_of_values(graph))
    if broken:  # the rest needs parts that can be asked
        return Findings(broken)
    given = participants if participants is not None else graph.participants or None
    faults = [*_faults_of_speakers(graph, given)]
    warnings = [*_doubts_of_speakers(graph, given)]
    named = [*named_agents(graph.initial_speaker, graph.transitions, graph.default_target)]
    everybody = [*dict.fromkeys([*(given or ()), *named])]
    bound = None if graph.max_turns is None else max(graph.max_turns, 1)
    rules = compiled(graph.initial_speaker, graph.transitions, graph.default_target, bound, everybody)
    if bound != graph.max_turns:
        warnings.append(f"max_turns is {graph.max_turns}: it ends after the first turn, as with 1.")
    if len(graph.transitions) > MOST_COMPARED:
        warnings.append(f"There are {len(graph.transitions)} rules; above {MOST_COMPARED} they are not compared.")
    else:
        warnings += [*rules.contradictions(by_rules=True), *_doubts_of_rules(graph, everybody)]
    warnings += [f"{doubt} Only a Handoff, a Finish or a limit can help." for doubt in rules.dead_ends(by_rules=True)]
    return Findings(tuple(faults), tuple(warnings))


def _faults_of_speakers(graph: SpeakerRules, participants: Sequence[str] | None) -> Iterator[str]:
    named = [("initial_speaker", graph.initial_speaker), *_agents(graph)]
    yield from (f"{where} is {END}, which is reserved and cannot take part." for where, name in named if name == END)
    if participants is None:
        return
    yield from faults_of_participants([*dict.fromkeys(participants)])
    if graph.initial_speaker not in participants:
        known = ", ".join(participants) or "none"
        yield f"initial_speaker names {graph.initial_speaker!r}, who does not take part. Participants: {known}."


def _doubts_of_speakers(graph: SpeakerRules, participants: Sequence[str] | None) -> Iterator[str]:
    """Rules that name somebody who does not take part: one never fires after them, or ends the workflow."""
    if participants is None:
        return
    known = ", ".join(participants) or "none"
    for where, name in _agents(graph):
        if name not in participants:
            effect = "it never fires" if where.endswith(".when") else f"there it ends with {UNKNOWN_SPEAKER}"
            yield f"{where} names {name!r}, who does not take part: {effect}. Participants: {known}."
    for name, times in Counter(participants).items():
        if times > 1:
            yield f"The participant {name} is listed {times} times; only the first counts."


def _agents(graph: SpeakerRules) -> Iterator[tuple[str, str]]:
    """Everybody whom rules name, with the place."""
    for number, rule in enumerate(graph.transitions):
        for part in parts(rule.when):
            if isinstance(part, FromSpeaker):
                yield f"transitions[{number}].when", part.agent_id
        if isinstance(rule.then, AgentTarget):
            yield f"transitions[{number}].then", rule.then.agent_id
    if isinstance(graph.default_target, AgentTarget):
        yield "default_target", graph.default_target.agent_id


# ---- rules that select their own target for ever --------------------------------------------------------------------


def _doubts_of_rules(graph: SpeakerRules, speakers: Sequence[str]) -> Iterator[str]:
    """A variable keeps its value: a rule on it fires again after its own target, if no rule before it catches that."""
    ordered = sorted(enumerate(graph.transitions), key=lambda item: item[1].priority)
    for place, (number, rule) in enumerate(ordered):
        before = [earlier.when for _, earlier in ordered[:place]]
        for key, value in _assumptions(rule.when):
            caught = [
                target
                for target in _selected(rule.then, speakers)
                if _verdict(rule.when, target, key, value) is not False
                and not any(_verdict(when, target, key, value) for when in before)
            ]
            if caught:
                names = " or ".join(caught)
                yield (
                    f"transitions[{number}] can select {names} for ever: while {key} is {value!r}, it fires again "
                    f"after {names} has spoken. List a rule for {names} before it, or let {names} delete {key}."
                )
                break


def _assumptions(condition: TransitionCondition) -> Iterator[tuple[str, object]]:
    for part in parts(condition):
        if isinstance(part, ContextEquals):
            yield part.key, part.value
        elif isinstance(part, ContextIn):
            yield from ((part.key, value) for value in part.values)


def _selected(target: TransitionTarget, speakers: Sequence[str]) -> Sequence[str]:
    if isinstance(target, AgentTarget):
        return (target.agent_id,)
    return speakers if isinstance(target, StayTarget | RevertToInitiatorTarget) else ()


def _verdict(condition: object, speaker: str, key: str, value: object) -> bool | None:
    """Whether a condition fires after a speaker while a variable has a value; None where that is not enough to know."""
    match condition:
        case Always():
            return True
        case FromSpeaker(agent_id):
            return agent_id == speaker
        case ContextEquals() if condition.key == key:
            return bool(condition.value == value)
        case ContextIn() if condition.key == key:
            return value in condition.values
        case Not():
            inner = _verdict(condition.condition, speaker, key, value)
            return None if inner is None else not inner
        case AllOf() | AnyOf():
            decisive = isinstance(condition, AnyOf)
            verdicts = [_verdict(part, speaker, key, value) for part in condition.conditions]
            return decisive if decisive in verdicts else (None if None in verdicts else not decisive)
        case _:
            return None
