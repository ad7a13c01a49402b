"""What a kind of conversation keeps, and what the kernel asks of it.

The kernel knows the parts that every conversation has. A kind has a part of its own, which lies in `State.kinds` under
the name of the kind, and is None as long as the kind keeps nothing. What each record does to it is said by its
reducers; what only the part itself can answer is asked here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self

from tenex.core.ids import Millis, Slug
from tenex.core.records.base import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """The part of a kind; the defaults are those of a kind that changes nothing about the conversation."""

    has_phases: ClassVar[bool] = True
    """Whether the phases limit what agents may do; else a conversation with this part is in `execute`."""
    watches_runs: ClassVar[bool] = False
    """Whether it watches its turns itself, so that runs have no deadlines of their own."""
    reads_messages: ClassVar[bool] = False
    """Whether a message is given to the kind, and to no agent that works, nor is it a wish for another agent."""
    is_endless: ClassVar[bool] = False
    """Whether its cycle has no end, so that limits of a cycle count from each message."""

    @property
    def is_open(self) -> bool:
        """Whether the kind's own work decides what is next, and not the router."""
        return False

    @property
    def has_begun(self) -> bool:
        """Whether something of the kind has begun here, over or not, which a message cannot begin again."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether what it was for has ended, so that the conversation has."""
        return False

    @property
    def refused_name(self) -> str:
        """What the last message could not begin yet, and the next one may; "" for nothing."""
        return ""

    @property
    def only_agent(self) -> Slug:
        """The agent that answers alone; "" for none."""
        return Slug("")

    @property
    def location_label(self) -> str:
        """Where the conversation is, for lists; "" for the phase."""
        return ""

    def at_rest(self, at: Millis, seq: int) -> Self:
        """It as one to go on from after record `seq`, with nothing open."""
        del at, seq
        return self

    def forked(self) -> Self:
        """It as a fork begins with it, whose records have other numbers."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """What a kind adds to the facts of a conversation."""

    name: str
    """Under which it is shown."""
    view: Mapping[str, Any]
    """Whole, for `conversation.json`."""
    status: Mapping[str, Any] | None
    """Where it is, for `status`; None where that says nothing."""


class KindFormat(NamedTuple):
    """What the journals of a kind hold beside what every journal holds."""

    state: type[KindState] | None
    records: tuple[type[Record], ...]


_FORMATS: Final[dict[str, KindFormat]] = {}

FORMATS: Final[Mapping[str, KindFormat]] = MappingProxyType(_FORMATS)
"""Of the registered kinds, by name."""


def register_format(name: str, state: type[KindState] | None, records: tuple[type[Record], ...]) -> None:
    """Make the part and the records of a kind known."""
    _FORMATS[name] = KindFormat(state, records)
