"""A decision being drafted: records added one by one, each seen by the rules that follow.

The draft applies every record to a fork of the conversation, so a rule reads the state as it will be. The
conversation itself is not touched.

Never: anything but bookkeeping.
"""

from typing import Any, TypeVar

from .conversation import Conversation
from .ids import Millis
from .records import Record
from .roster import Rules

R = TypeVar("R", bound=Record)


class Draft:
    """What has been decided so far, and the state it leads to."""

    __slots__ = ("now", "records", "rules", "state")

    def __init__(self, conversation: Conversation, rules: Rules, now: Millis) -> None:
        self.state = conversation.fork()
        self.rules = rules
        self.now = now
        self.records: list[Record] = []

    def add(self, kind: type[R], /, **data: Any) -> R:
        """Record a fact."""
        record = kind(seq=self.state.next_seq, at=self.now, **data)
        self.state.apply(record)
        self.records.append(record)
        return record
