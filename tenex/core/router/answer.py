"""The router's decision: its schema, and how it is read out of a model's text."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from tenex.core.errors import UsageError
from tenex.core.graph import END
from tenex.core.ids import TurnId
from tenex.core.inbox.message import SettledAs
from tenex.core.phases import QUALITY_PHASES, Phase

ANSWER_CHARACTERS = 64_000
"""Of an answer of the router, from its end: a decision has some hundred, and each try at one may read all of them."""
REASON_CHARACTERS = 2_000
"""Of a decision's reason, which users and the next agents read: a model that rambles must not flood them."""
BRACES = 256
"""At which an object may begin in an answer of the router, from its end."""

USER = "USER"
"""Reserved: wait for the user. Like END it is the only target and never a slug."""

DECISION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "agents": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "phase": {"type": "string", "enum": [str(phase) for phase in Phase]},
        "reason": {"type": "string"},
        "asks": {"type": "string", "enum": ["answer", "work"]},
        "waive": {"type": "array", "items": {"type": "string", "enum": [str(phase) for phase in QUALITY_PHASES]}},
        "settles": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "words": {"type": "string"},
                    "as": {"type": "string", "enum": list(get_args(SettledAs))},
                    "turn": {"type": "string"},
                },
                "required": ["words", "as"],
            },
        },
    },
    "required": ["agents", "reason"],
}


LONGEST_REASON: Final = 600
"""Characters of a decision's reason where a server holds it to a schema: a weak model fills any room there is."""
LONGEST_WORDS: Final = 300
"""Characters of each text besides."""
MOST_SETTLED: Final = 4
"""Messages settled by one such decision."""


def schema_of_possible(agents: Collection[str], phases: Collection[str]) -> Mapping[str, Any]:
    """`DECISION_SCHEMA` with only these agents and phases, END and USER, and about a thousand tokens at most.

    It changes from question to question: for servers that compile a schema, and have no part of it in the prompt.
    """
    whole: Mapping[str, Any] = DECISION_SCHEMA["properties"]
    settled: Mapping[str, Any] = whole["settles"]["items"]["properties"]
    text = {"type": "string", "maxLength": LONGEST_WORDS}
    slug = {"type": "string", "enum": [*agents, END, USER]}
    properties = {
        **whole,
        "agents": {**whole["agents"], "items": slug, "maxItems": len(agents) + 1},
        "phase": {"type": "string", "enum": list(phases)},
        "reason": {"type": "string", "maxLength": LONGEST_REASON},
        "waive": {**whole["waive"], "maxItems": len(QUALITY_PHASES)},
        "settles": {
            **whole["settles"],
            "items": {**whole["settles"]["items"], "properties": {**settled, "words": text, "turn": text}},
            "maxItems": MOST_SETTLED,
        },
    }
    return {**DECISION_SCHEMA, "properties": properties}


_SETTLED_AS: Final[tuple[SettledAs, ...]] = get_args(SettledAs)
_FORM: Final = "{agents, phase?, reason, asks?, waive?, settles?}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settles:
    """A message of which the router says that nothing is left to be done: the one that has these words.

    `turn` is the one that carried it out.
    """

    words: str
    kind: SettledAs
    turn: TurnId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPhase:
    """A decision that names what is no phase."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDecision:
    """What the router chose; `phase` None means: stay. `waive` are gates it wishes a user would give up.

    `settles` are the messages that ask for no work beyond this decision. `is_question` is whether the user only asks
    something: then an answer is all that is wanted. Agents may be none where a phase is named: who works there is
    chosen then. Raises UsageError for what can be no decision; whether it is permitted, the graph says.
    """

    agents: tuple[str, ...]
    reason: str
    phase: str | None = None
    waive: tuple[str, ...] = ()
    settles: tuple[Settles, ...] = ()
    is_question: bool = False

    def __post_init__(self) -> None:
        given: object = self.agents  # users' code may not check types
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one.strip() for one in given):
            raise UsageError(f"`agents` of a RoutingDecision is {given!r}; give a list of slugs, END or USER.")
        phase: object = self.phase
        if phase is not None and (not isinstance(phase, str) or Phase.parse(phase) is None):
            raise UsageError(f"`phase` of a RoutingDecision is {phase!r}; give one of {', '.join(Phase)}, or None.")
        if not given and phase is None:
            raise UsageError("A RoutingDecision without a phase needs at least one agent, END or USER in `agents`.")
        object.__setattr__(self, "agents", tuple(given))


def parse(text: str) -> RoutingDecision | UnknownPhase | str:
    """Read a decision out of a model's text: the last complete object in it that is one, in prose or a code fence.

    Models weigh examples before they decide, so the last counts. Returns a sentence on what is wrong where there
    is none. Wrong types that leave no doubt are read: one agent as a string, a phase in capitals.
    """
    read = [_decision(value) for value in _objects(text[-ANSWER_CHARACTERS:])]
    if not read:
        return f"The answer holds no JSON object. Answer with one object: {_FORM}."
    return next((decision for decision in reversed(read) if not isinstance(decision, str)), read[-1])


def _decision(value: Mapping[str, Any]) -> RoutingDecision | UnknownPhase | str:
    within = value.get("arguments", value.get("parameters"))
    if "agents" not in value and isinstance(within, dict):
        value = within  # a decision asked for as a call, and written as one
    agents = value.get("agents")
    if isinstance(agents, str):
        agents = [agents]
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        return "`agents` must be a list of slugs."
    agents = [agent.strip() for agent in agents if agent.strip()]
    if not agents:
        return f'`agents` is empty. Name at least one agent, or ["{END}"], or ["{USER}"] to wait for the person.'
    phase = value.get("phase")
    if phase is not None and not isinstance(phase, str):
        return "`phase` must be a string."
    phase = phase.strip() or None if phase else None
    if phase is not None and Phase.parse(phase) is None:
        return UnknownPhase(name=phase)
    reason = value.get("reason")
    waive = _waived(value.get("waive"))
    if isinstance(waive, str):
        return waive
    settles = _settled(value.get("settles"))
    if isinstance(settles, str):
        return settles
    return RoutingDecision(
        agents=tuple(dict.fromkeys(agents)),
        phase=phase,
        reason=reason.strip()[:REASON_CHARACTERS] if isinstance(reason, str) and reason.strip() else "no reason given",
        waive=waive,
        settles=settles,
        is_question=value.get("asks") == "answer",
    )


def _waived(value: Any) -> tuple[str, ...] | str:
    if not value:
        return ()  # some servers fill in every field of a schema, with nothing
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(gate, str) for gate in values):
        return f"`waive` must be a list of quality gates: {', '.join(QUALITY_PHASES)}."
    return tuple(gate for gate in values if gate.strip())


def _settled(value: Any) -> tuple[Settles, ...] | str:
    if not value:
        return ()
    wrong = f'`settles` must be a list of {{"words", "as"}}, `as` one of: {", ".join(_SETTLED_AS)}.'
    items = [value] if isinstance(value, dict) else value
    if not isinstance(items, list):
        return wrong
    settles = []
    for item in items:
        if not isinstance(item, dict):
            return wrong
        words = item.get("words")
        if not words:
            continue  # filled in with nothing
        kind = next((kind for kind in _SETTLED_AS if kind == item.get("as")), None)
        if not isinstance(words, str) or kind is None:
            return wrong
        turn = item.get("turn")
        name = turn.strip() if isinstance(turn, str) else ""
        settles.append(Settles(words=words, kind=kind, turn=TurnId(name) if name else None))
    return tuple(dict.fromkeys(settles))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text, in order and none within another; those that begin at its last `BRACES` braces."""
    decoder = json.JSONDecoder()
    past = 0
    for start in [brace.start() for brace in re.finditer(r"\{", text)][-BRACES:]:
        if start < past:
            continue
        try:
            value, past = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value
