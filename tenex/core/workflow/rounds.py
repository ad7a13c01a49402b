"""What a workflow of speakers is made of: its state, a round, what a tool may ask for, and variables in context.

The names and fields are AG2's (`ag2.network`); the values are immutable, because records hold them and state is a fold.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

HANDOFF, FINISH, SET, DELETE = "handoff", "finish", "set_context", "delete_context"
OWN: Final = (HANDOFF, FINISH, SET, DELETE)
"""The tools by which a speaker of a workflow directs it."""

DEEPEST = 32
"""Levels of lists and objects in one variable: no one writes more by hand, and a value that holds itself ends here."""
LONGEST = 4_096
"""Bits of a whole number: readers of JSON bound its digits, Python itself at 4,300."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """A tool's result that names the next speaker at run time."""

    target: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """A tool's result that ends the workflow; `reason` is the reason of the end, `summary` is for who reads it."""

    summary: str = ""
    reason: str = "finished"


Route = Handoff | Finish
"""What a tool's result may ask for."""


@dataclass(frozen=True, slots=True)
class Called:
    """One tool call of a round, and what its result asks for, if anything."""

    tool: str
    result: Route | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """One closed round of a speaker: its text, and its tool calls in the order in which the model emitted them.

    `routing_tool` is the call that counts for rules; None until the round is folded, and then "" where none does.
    """

    sender_id: str
    text: str = ""
    calls: tuple[Called, ...] = ()
    envelope_id: str = ""
    routing_tool: str | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools called, in order."""
        return tuple(call.tool for call in self.calls)

    @property
    def tool(self) -> str | None:
        """The one tool rules look at: the routing tool, or the first one called while that is not decided."""
        if self.routing_tool is None:
            return next(iter(self.tools), None)
        return self.routing_tool or None

    @property
    def handoff(self) -> Handoff | None:
        """The first handoff asked for."""
        return next((call.result for call in self.calls if isinstance(call.result, Handoff)), None)

    @property
    def finish(self) -> Finish | None:
        """The first end asked for."""
        return next((call.result for call in self.calls if isinstance(call.result, Finish)), None)


@dataclass(frozen=True, slots=True)
class TransitionDecision:
    """Who speaks next; `next_speaker` None ends the workflow for `close_reason`."""

    next_speaker: str | None
    close_reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """Where a workflow is between two rounds; `expected_next_speaker` None means that it has ended.

    `participant_order` is the order of a round robin, `creator_id` opened the workflow, `graph_data` is the graph as a
    dict, `context_vars` are values JSON can hold.
    """

    participant_order: tuple[str, ...] = ()
    expected_next_speaker: str | None = None
    last_speaker_id: str | None = None
    last_envelope_id: str | None = None
    turn_count: int = 0
    pending_close_reason: str = ""
    creator_id: str = ""
    graph_data: Mapping[str, Any] = field(default_factory=dict)
    context_vars: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """What was not done, as a sentence for who asked for it; nothing has changed."""

    sentence: str


def plain(value: Any) -> Any:
    """The value with containers of its own, as JSON would give it back: tuples are lists. For what has no faults."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def faults_of_value(value: Any, where: str, depth: int = 0) -> Iterator[str]:
    """Why JSON in UTF-8 cannot hold a value, each reason as a sentence that begins with `where`."""
    if depth > DEEPEST:
        yield f"{where} is nested more than {DEEPEST} levels deep."
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(key, str):
                yield from faults_of_value(key, f"a key of {where}", depth + 1)
                yield from faults_of_value(part, f"{where}.{key}", depth + 1)
            else:
                yield f"{where} has a key that is no string but {type(key).__name__}."
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from faults_of_value(part, f"{where}[{place}]", depth + 1)
    else:
        yield from _faults_of_scalar(value, where)


def _faults_of_scalar(value: Any, where: str) -> Iterator[str]:
    match value:
        case None:
            pass
        case str():
            if not _is_text(value):
                yield f"{where} holds half of a surrogate pair, which is no text."
        case int():
            if value.bit_length() > LONGEST:
                yield f"{where} is a number of more than {LONGEST} bits, which other programs cannot read."
        case float():
            if not math.isfinite(value):
                yield f"{where} is {value}, which JSON has no word for."
        case _:
            yield f"{where} is a {type(value).__name__}; only values that JSON can hold are allowed."


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
