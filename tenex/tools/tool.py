"""What a tool is to the registry, the schemas of its parameters, and how it refuses a call."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenex.core.config import CallNeed, Replay, ToolRule
from tenex.core.errors import RemoteError
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult

_T = TypeVar("_T")

LARGEST: Final = 10_000_000
"""Of an integer."""

Body = Callable[[Mapping[str, Any], ExecutionContext], Awaitable[ToolResult]]
"""The work of a tool; its arguments are valid by its parameters."""


class Refusal(RemoteError):
    """A call that cannot be carried out; the message goes to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its description for models, where it may be used, and its implementation."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema of type object."""
    access: Access
    replay: Replay
    body: Body
    time_cap: float | None = None
    """Seconds one call may take; None is the registry's default."""
    leaves_changes: bool = True
    """Whether a call with access CHANGE or RUN may leave changes in the workspace."""
    is_contained: bool = False
    """Whether its programs run in a view of the workspace (`turn_views`) where the phase permits no changes."""
    asks: bool = False
    """Whether a person is asked before a call runs, unless a rule of the operator allows it."""
    why: str = ""
    """Why, as in `ToolRule.why`."""
    about: str = ""
    """What its server says of it, as in `ToolRule.about`."""
    definition: str = ""
    """What identifies how it is defined; unless given, a digest of its name, description and parameters."""
    needs: tuple[CallNeed, ...] = ()
    """What a call may ask for beyond that, by an argument of the name."""
    phases: frozenset[Phase] = frozenset()
    """The phases in which it may be used, of those that its access permits; all of them unless given."""
    address: str = ""
    """As in `ToolRule.address`."""
    is_exact: bool = False
    """As in `ToolRule.is_exact`."""

    @property
    def rule(self) -> ToolRule:
        """The core's view of it."""
        return ToolRule(
            name=self.name,
            access=self.access,
            replay=self.replay,
            asks=self.asks,
            needs=self.needs,
            phases=self.phases,
            address=self.address,
            is_exact=self.is_exact,
            why=self.why,
            about=self.about,
            definition=self.definition or digest_of_definition(self.name, self.description, self.parameters),
        )

    @property
    def spec(self) -> ToolSpec:
        """The model's view of it."""
        return ToolSpec(name=self.name, description=self.description, parameters=without_checks(self.parameters))


def digest_of_definition(*parts: Any) -> str:
    """The sha256 of what a tool is defined by."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


_CHECKS: Final = frozenset({
    "additionalProperties", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"
})  # fmt: skip
"""What a call is checked by, and its refusal explains; a model keeps to it anyway."""


def without_checks(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as models are sent it: every request has some hundred tokens fewer."""
    said = {name: value for name, value in schema.items() if name not in _CHECKS and (name, value) != ("required", [])}
    inner = said.get("properties")
    if isinstance(inner, Mapping):
        said["properties"] = {
            name: without_checks(one) if isinstance(one, Mapping) else one for name, one in inner.items()
        }
    items = said.get("items")
    if isinstance(items, Mapping):
        said["items"] = without_checks(items)
    return said


def object_schema(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def string(description: str = "", *, max_length: int | None = None, min_length: int = 0) -> dict[str, Any]:
    """The schema of a string; lengths are in characters. What the name says needs no description."""
    schema: dict[str, Any] = {"type": "string"}
    if description:
        schema["description"] = description
    if min_length:
        schema["minLength"] = min_length
    if max_length is not None:
        schema["maxLength"] = max_length
    return schema


def array(items: Mapping[str, Any], *, most: int) -> dict[str, Any]:
    """The schema of a list of one to `most` items."""
    return {"type": "array", "items": dict(items), "minItems": 1, "maxItems": most}


def integer(description: str) -> dict[str, Any]:
    """The schema of an integer counted from 1."""
    return {"type": "integer", "minimum": 1, "maximum": LARGEST, "description": description}


def boolean(description: str = "") -> dict[str, Any]:
    """The schema of a boolean that is false unless given."""
    return {"type": "boolean", "description": description} if description else {"type": "boolean"}


def with_remarks(body: str, remarks: Iterable[str]) -> str:
    """What a tool shows, with remarks on what it left out."""
    said = " ".join(remarks)
    return f"{body}\n[{said}]" if said else body


def log_fields(context: ExecutionContext) -> dict[str, str]:
    """What a log entry about a call is found by."""
    return {"conversation": context.conversation_id, "agent": context.agent, "call": context.call_id}


def blocking_body(work: Callable[[Mapping[str, Any], ExecutionContext], ToolResult]) -> Body:
    """The body of a tool whose work blocks."""

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        return await asyncio.to_thread(work, arguments, context)

    return body


async def run_uncancellable(work: Callable[[], _T]) -> _T:
    """Run blocking work in a thread and wait for its end even if cancelled; then raise the cancellation."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()
