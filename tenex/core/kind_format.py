"""What a kind of conversation shows, and what its journals hold: its registry for those who read journals."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tenex.core.record import Record
from tenex.core.state import KindState


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """What a kind adds to the facts of a conversation."""

    name: str
    """Under which it is shown."""
    view: Mapping[str, Any]
    """Whole, for `conversation.json`."""
    status: Mapping[str, Any] | None
    """Where it is, for `status`; None where that says nothing."""
    where: str = ""
    """The same in a line, as `triage: bob`; "" where the conversation's place says it."""
    does: str = ""
    """What its own work does, in a line; "" where only agents work."""


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
