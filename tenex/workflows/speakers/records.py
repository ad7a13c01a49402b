"""Records of a workflow of speakers. A round's steps are those of any run (`run`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tenex.core.ids import PublicKey, Slug
from tenex.core.record import Record
from tenex.core.work.records import Outcome
from tenex.workflows.speakers.config import View, Within


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOpened(Record):
    """The conversation is a workflow's; all `participants` are invited.

    `person` is the human who takes that part, "" where there is none. `routing_tools` are the tools that exist only
    because a rule names them, each with those after whom such a rule can fire.
    """

    workflow: Slug
    name: str
    pubkey: PublicKey
    graph: Mapping[str, Any]
    participants: tuple[Slug, ...]
    creator: Slug
    person: PublicKey
    initial: Slug
    context: Mapping[str, Any]
    expectations: Mapping[str, Within]
    view: View
    routing_tools: Mapping[str, tuple[Slug, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InviteAcknowledged(Record):
    """An invited participant is present: an agent of the roster at once, a human by writing."""

    participant: Slug


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSet(Record):
    """Variables were deleted, then set, for all later rounds. In JSON `set_` is `set`."""

    by: Slug
    set_: Mapping[str, Any]
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClosed(Record):
    """A speaker's round ended, in the append that holds its message; `next` speaks now, "" for none.

    `tool` is the call that decided and `handoff` whom it named; `sentences` are what was refused, or must be fixed.
    """

    speaker: Slug
    turn_count: int
    next: Slug
    outcome: Outcome = "finished"
    close_reason: str = ""
    tool: str = ""
    handoff: str = ""
    reason: str = ""
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationMissed(Record):
    """What was expected did not come in time; users are notified, or the workflow closes. Each is missed once."""

    expectation: str
    action: Literal["warn", "close"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowClosed(Record):
    """The workflow is over; `summary` is the last speaker's."""

    reason: str
    by: str = ""
    summary: str = ""
