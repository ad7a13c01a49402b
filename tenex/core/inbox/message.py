"""A message of the conversation as a value."""

from dataclasses import dataclass, field
from typing import Final

from tenex.core.config import Role
from tenex.core.ids import Millis, PublicKey, TurnId
from tenex.core.phases import Phase
from tenex.core.values import replace

DELETED: Final = "(deleted by its author)"
"""In place of what a user wrote and took back after work on it had begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the conversation, as the router and the agents are shown it."""

    seq: int
    at: Millis
    event_id: str
    author: PublicKey
    name: str
    text: str
    phase: Phase
    role: Role | None = None
    """Of the user who wrote it; None for one of ours."""
    after_turn: TurnId | None = None
    """The last turn opened before it was written."""
    is_answer: bool = False
    """Whether it answered a question of ours, and so has been dealt with."""
    is_plain: bool = False
    """Whether a program or an agent elsewhere wrote it: it decides nothing."""
    by_machine: bool = False
    """Whether an agent elsewhere did."""
    sent_as: str = ""
    """The event id of one of ours. Snapshots written before it was kept lack it, so no rule may depend on it."""
    context: str = ""
    """What it replies to or quotes, in words for models; "" for nothing that they are not shown anyway."""
    cycle: int = 0
    """For readers, as `turn`, the turn that was open."""
    turn: TurnId | None = None
    is_first: bool = field(default=False, compare=False)
    """Whether work waited before it, so that what it asks for is a piece of work of its own; what follows adds to that.

    Not so in snapshots that were written before it was kept: they are still right.
    """

    def blanked(self, seq: int) -> "Message":
        """The same without its words, if it is the message `seq`."""
        return replace(self, text=DELETED, context="") if self.seq == seq else self
