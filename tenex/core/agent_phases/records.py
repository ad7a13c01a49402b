"""Records of an agent's own phases and state; what a tool changed is in `ToolCallCompleted`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenex.core.ids import RunId, Slug
from tenex.core.record import Record

from .program import AgentPhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStateInitialized(Record):
    """An agent's state is set: at its first run, or where a change of its program made the old state invalid."""

    run: RunId
    agent: Slug
    phase: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStateSet(Record):
    """The caller of an agent without a daemon set its state, between two of its runs."""

    agent: Slug
    state: AgentPhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPhaseChanged(Record):
    """An agent moved to another of its phases. `system` is its prompt there, held as `RunStarted` holds it."""

    run: RunId
    agent: Slug
    source: str
    target: str
    digest: str = ""
    system: str | None = None
    forgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRerendered(Record):
    """State shown in a run's prompt has changed before a model call: `system` is the prompt from now on.

    It is held as `RunStarted` holds it.
    """

    run: RunId
    digest: str = ""
    system: str | None = None
    forgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFailed(Record):
    """A condition of an edge raised, and so is not true; once for each edge of a run.

    `target` is empty where the agent could not be looked at, so that no condition could be asked.
    """

    run: RunId
    agent: Slug
    source: str
    target: str
    error: str
