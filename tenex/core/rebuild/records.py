"""The records that close a journal of other origin: one that was rebuilt, and one that was imported.

The records before them are ordinary ones. What they leave open is over: nothing is asked, run or sent because of them.
(ADR 12, 29 and 44.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenex.core.ids import EventId, Slug
from tenex.core.phases import Phase
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRebuilt(Record):
    """The journal was rebuilt from its good records and from `source`; `missing` lists what is lost, in sentences.

    `known_events` are messages already received, which are not accepted again; `turns` is the number of the last turn.
    Where `phase` is not None it is the current phase according to `source`, with `open_gates`.
    """

    source: str
    missing: tuple[str, ...] = ()
    known_events: tuple[EventId, ...] = ()
    turns: int = 0
    phase: Phase | None = None
    open_gates: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationImported(Record):
    """The records before this were not written here: of them the messages are kept to be read, and decide nothing."""

    agent: Slug = Slug("")
    """The agent that answers alone, by the settings of this folder; "" for none."""
    address: Mapping[str, Any] = field(default_factory=dict)
    """Where answers go: the thread of the conversation's own id."""
