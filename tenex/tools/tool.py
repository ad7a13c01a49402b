"""What a tool is to the registry, and how a tool says no."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.config import Replay, ToolRule
from tenex.core.errors import RemoteError
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

Body = Callable[[Mapping[str, Any], ExecutionContext], Awaitable[ToolResult]]
"""The work of a tool; its arguments have already been checked against its parameters."""


class Refusal(RemoteError):
    """A model asked for what cannot be done; the message is the sentence it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: how it is described to a model, where it may be used, and what carries it out."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema of type object."""
    access: Access
    replay: Replay
    body: Body
    time_cap: float | None = None
    """Seconds one call may take; None means the registry's own cap."""
    leaves_changes: bool = True
    """Whether a call that changes or runs may leave anything behind in the workspace."""

    @property
    def rule(self) -> ToolRule:
        """What the core needs to know of it."""
        return ToolRule(name=self.name, access=self.access, replay=self.replay)

    @property
    def spec(self) -> ToolSpec:
        """How it is offered to a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)


def takes(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def text(description: str, *, longest: int | None = None, shortest: int = 0) -> dict[str, Any]:
    """The schema of a text; lengths are in characters."""
    schema: dict[str, Any] = {"type": "string", "description": description}
    if shortest:
        schema["minLength"] = shortest
    if longest is not None:
        schema["maxLength"] = longest
    return schema


def count(description: str, *, most: int = 10_000_000) -> dict[str, Any]:
    """The schema of a whole number counted from 1."""
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description}


def flag(description: str) -> dict[str, Any]:
    """The schema of a yes or no that is no unless given."""
    return {"type": "boolean", "description": description}
