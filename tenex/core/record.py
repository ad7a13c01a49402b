"""What every fact in a journal has."""

from dataclasses import dataclass
from typing import ClassVar

from tenex.core.ids import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A fact; the base of all others."""

    version: ClassVar[int] = 1
    seq: int
    at: Millis

    @property
    def spender(self) -> str:
        """What of a kind of conversation a cost was paid for; "" where its run says so, or it is the router's."""
        return ""
