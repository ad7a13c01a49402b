"""A decision being drafted: records added one by one, each seen by the rules that follow.

The draft applies every record to a fork of the conversation, so a rule reads the state as it will be. The
conversation itself is not touched.
"""

from typing import Any, TypeVar

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.ids import Millis
from tenex.core.records import Record, ToolCallCompleted, ToolCallRejected
from tenex.core.state.run import Call, Run

R = TypeVar("R", bound=Record)


class Transaction:
    """What has been decided so far, and the state it leads to."""

    __slots__ = ("now", "records", "rules", "state")

    def __init__(self, conversation: Conversation, rules: Policy, now: Millis) -> None:
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

    def add_result(self, run: Run, call: Call, *, ok: bool, content: str, **more: Any) -> None:
        """Record the result of a call."""
        self.add(
            ToolCallCompleted, run=run.id, call=call.request.id, tool=call.request.tool, ok=ok, content=content, **more
        )

    def refuse(self, run: Run, call: Call, sentence: str) -> None:
        """Record that a call is refused, with the reason for its model."""
        self.add(ToolCallRejected, run=run.id, call=call.request.id, tool=call.request.tool, sentence=sentence)
