"""The records that close a journal of other origin: one that was rebuilt, and one that was imported.

The records before a `JournalRebuilt` are ordinary ones, made from its source. (ADR 12.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenex.core.ids import ConversationId, EventId, Millis, Slug
from tenex.core.messages import Usage
from tenex.core.phases import Phase

from .base import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredPosition:
    """The current cycle's position, from a readable file; None and 0: as in the records before."""

    phase: Phase
    phase_started_at: Millis
    cycle: int = 0
    participants: tuple[Slug, ...] | None = None
    open_gates: tuple[Phase, ...] | None = None
    touched: tuple[str, ...] = ()
    read_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRebuilt(Record):
    """The records before this were rebuilt from `source`; `missing` lists, in sentences, what could not be.

    What they leave open is over: nothing is asked, run or sent because of them. `known_events` are messages already
    received, which are not accepted again; `spent` is the cost of model calls by phase, `turns` the last turn's number.
    """

    source: str
    missing: tuple[str, ...] = ()
    known_events: tuple[EventId, ...] = ()
    spent: Mapping[str, Usage] = field(default_factory=dict)
    turns: int = 0
    position: RecoveredPosition | None = None
    forked_from: tuple[ConversationId, int, str] | None = None
    """The conversation it was forked from, after which of its records, and what that was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationImported(Record):
    """The records before this come from another folder.

    What they leave open is over: nothing is asked, run or sent because of them, and nothing goes to a relay only they
    name.
    """
