"""The router's decision: its schema, and how it is read out of a model's text."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
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

LONGEST_REASON: Final = 600
"""Characters of a decision's reason where a server holds it to a schema: a weak model fills any room there is."""
LONGEST_WORDS: Final = 300
"""Characters of each text besides."""
MOST_SETTLED: Final = 4
"""Messages settled by one such decision."""


_SETTLED_AS: Final[tuple[SettledAs, ...]] = get_args(SettledAs)


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


# ---- the fields of the answer: how each is asked for, and how it is read ---------------------------------------------


class _Wrong(Exception):
    """A field cannot be read: with a sentence for the router, or with the phase that is none."""

    def __init__(self, why: UnknownPhase | str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerField:
    """A field of the router's answer. Its schema, its line in the prompt and its value in a decision follow from it."""

    name: str
    schema: Mapping[str, Any]
    form: str
    """How the prompt writes a value."""
    about: str
    """What the prompt says of it."""
    read: Callable[[Any], Any]
    """The value in a decision, of what a model has written or of None; raises `_Wrong`."""
    attribute: str
    """Its name in `RoutingDecision`."""
    is_required: bool = False
    is_recorded: bool = False
    """Whether `Routed` has a field of the attribute's name, with the value that the router gave."""


def _agents(value: Any) -> tuple[str, ...]:
    agents = [value] if isinstance(value, str) else value
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise _Wrong("`agents` must be a list of slugs.")
    slugs = [agent.strip() for agent in agents if agent.strip()]
    if not slugs:
        raise _Wrong(f'`agents` is empty. Name at least one agent, or ["{END}"], or ["{USER}"] to wait for the person.')
    return tuple(dict.fromkeys(slugs))


def _phase(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _Wrong("`phase` must be a string.")
    phase = value.strip() or None if value else None
    if phase is not None and Phase.parse(phase) is None:
        raise _Wrong(UnknownPhase(name=phase))
    return phase


def _reason(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        return "no reason given"
    return value.strip()[:REASON_CHARACTERS]


def _waived(value: Any) -> tuple[str, ...]:
    if not value:
        return ()  # some servers fill in every field of a schema, with nothing
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(gate, str) for gate in values):
        raise _Wrong(f"`waive` must be a list of quality gates: {', '.join(QUALITY_PHASES)}.")
    return tuple(gate for gate in values if gate.strip())


def _settled(value: Any) -> tuple[Settles, ...]:
    if not value:
        return ()
    wrong = _Wrong(f'`settles` must be a list of {{"words", "as"}}, `as` one of: {", ".join(_SETTLED_AS)}.')
    items = [value] if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise wrong
    settles = []
    for item in items:
        if not isinstance(item, dict):
            raise wrong
        words = item.get("words")
        if not words:
            continue  # filled in with nothing
        kind = next((kind for kind in _SETTLED_AS if kind == item.get("as")), None)
        if not isinstance(words, str) or kind is None:
            raise wrong
        turn = item.get("turn")
        name = turn.strip() if isinstance(turn, str) else ""
        settles.append(Settles(words=words, kind=kind, turn=TurnId(name) if name else None))
    return tuple(dict.fromkeys(settles))


FIELDS: Final = (
    AnswerField(
        name="agents",
        schema={"type": "array", "items": {"type": "string"}, "minItems": 1},
        form="[slug, ...]",
        about="at least one. Never answer `agents: []`.",
        read=_agents,
        attribute="agents",
        is_required=True,
    ),
    AnswerField(
        name="phase",
        schema={"type": "string", "enum": [str(phase) for phase in Phase]},
        form="phase",
        about="optional; the phase to enter, one of `permitted`.",
        read=_phase,
        attribute="phase",
    ),
    AnswerField(
        name="reason",
        schema={"type": "string"},
        form="text",
        about="one or two sentences: why these agents, and what they are to do; they read it as their part.",
        read=_reason,
        attribute="reason",
        is_required=True,
        is_recorded=True,
    ),
    AnswerField(
        name="asks",
        schema={"type": "string", "enum": ["answer", "work"]},
        form='"answer"',
        about="optional; only where an answer is all that is wanted.",
        read=lambda value: value == "answer",
        attribute="is_question",
        is_recorded=True,
    ),
    AnswerField(
        name="waive",
        schema={"type": "array", "items": {"type": "string", "enum": [str(phase) for phase in QUALITY_PHASES]}},
        form="[gate, ...]",
        about="optional, as above.",
        read=_waived,
        attribute="waive",
    ),
    AnswerField(
        name="settles",
        schema={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "words": {"type": "string"},
                    "as": {"type": "string", "enum": list(_SETTLED_AS)},
                    "turn": {"type": "string"},
                },
                "required": ["words", "as"],
            },
        },
        form='[{"words": text, "as": kind}, ...]',
        about="optional, as above.",
        read=_settled,
        attribute="settles",
    ),
)

DECISION_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {field.name: field.schema for field in FIELDS},
    "required": [field.name for field in FIELDS if field.is_required],
}


def recorded(decision: RoutingDecision) -> dict[str, Any]:
    """What of a decision is recorded as the router gave it, as fields of `Routed`."""
    return {field.attribute: getattr(decision, field.attribute) for field in FIELDS if field.is_recorded}


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


def parse(text: str) -> RoutingDecision | UnknownPhase | str:
    """Read a decision out of a model's text: the last complete object in it that is one, in prose or a code fence.

    Models weigh examples before they decide, so the last counts. Returns a sentence on what is wrong where there
    is none. Wrong types that leave no doubt are read: one agent as a string, a phase in capitals.
    """
    read = [_decision(value) for value in _objects(text[-ANSWER_CHARACTERS:])]
    if not read:
        return f"The answer holds no JSON object. Answer with one object: {{{_names()}}}."
    return next((decision for decision in reversed(read) if not isinstance(decision, str)), read[-1])


def _names() -> str:
    return ", ".join(field.name if field.is_required else f"{field.name}?" for field in FIELDS)


def _decision(value: Mapping[str, Any]) -> RoutingDecision | UnknownPhase | str:
    within = value.get("arguments", value.get("parameters"))
    if "agents" not in value and isinstance(within, dict):
        value = within  # a decision asked for as a call, and written as one
    try:
        return RoutingDecision(**{field.attribute: field.read(value.get(field.name)) for field in FIELDS})
    except _Wrong as wrong:
        return wrong.why


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
