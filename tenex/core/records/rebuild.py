"""The records that close a journal of other origin: one that was rebuilt, and one that was imported.

The records before them are ordinary ones. What they leave open is over: nothing is asked, run or sent because of them.
(ADR 12 and 29.)
"""

from dataclasses import dataclass

from tenex.core.ids import EventId
from tenex.core.phases import Phase

from .base import Record


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
    """The records before this come from another folder; nothing goes to a relay only they name."""
