"""What a workflow of speakers is made of: its state, a round, what a tool may ask for, and variables in context.

The names and fields are AG2's (`ag2.network`); the values are immutable, because records hold them and state is a fold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from tenex.core.work.routes import Finish, Handoff, Route

HANDOFF, FINISH, SET, DELETE = "handoff", "finish", "set_context", "delete_context"
OWN: Final = (HANDOFF, FINISH, SET, DELETE)
"""The tools by which a speaker of a workflow directs it."""

UNKNOWN_SPEAKER: Final = "unknown_speaker"
"""The reason of an end where a rule names someone who does not take part."""
RULE_FAILED: Final = "rule_failed"
"""The reason of an end where a condition or a target raised."""


@dataclass(frozen=True, slots=True)
class Called:
    """One tool call of a round, and what its result asks for, if anything."""

    tool: str
    result: Route | None = None


class Routing(TypedDict, total=False):
    """What a round asks for: `kind` is "text", "handoff" or "finish"; the others are there where they say something."""

    kind: str
    tool: str
    target: str
    reason: str


class EventData(TypedDict):
    """A round in the form that AG2 gives it; `text` and `body` are the same, of a text and of a packet there."""

    text: str
    body: str
    routing: Routing


@dataclass(frozen=True, slots=True)
class Envelope:
    """One closed round of a speaker: what conditions and targets read."""

    sender_id: str
    """The speaker's name: the slug of an agent, or `person`."""
    text: str = ""
    """What the speaker said."""
    calls: tuple[Called, ...] = ()
    """The tool calls, in the order in which the model made them."""
    envelope_id: str = ""
    """The id of the round."""
    routing_tool: str | None = None
    """The call that counts for rules; None until the round is folded, and then "" where none does."""

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

    @property
    def event_data(self) -> EventData:
        """The round as AG2's conditions read it."""
        route = next((call.result for call in self.calls if call.result is not None), None)
        routing = Routing(kind="text")
        if self.tool is not None:
            routing["tool"] = self.tool
        if isinstance(route, Handoff):
            routing |= {"kind": "handoff", "target": route.target, "reason": route.reason}
        elif isinstance(route, Finish):
            routing |= {"kind": "finish", "reason": route.reason}
        return EventData(text=self.text, body=self.text, routing=routing)


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
