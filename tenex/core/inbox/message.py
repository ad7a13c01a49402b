"""A message of the conversation as a value."""

from dataclasses import dataclass, field
from typing import Final, Literal

from tenex.core.config import Role
from tenex.core.ids import Millis, PublicKey, TurnId
from tenex.core.phases import Phase
from tenex.core.values import replace

DELETED: Final = "(deleted by its author)"
"""In place of what a user wrote and took back after work on it had begun."""


SettledAs = Literal["thanks", "waiver", "carried_out"]
"""Thanks, which ask for nothing; a wish to leave out quality gates; a request that a turn of a gate carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Why nothing of the message `message` (a seq) is left to be done, by the router's word, which code has checked.

    `words` are the user's own that this rests on; `turn` is the one that carried the message out.
    """

    message: int
    kind: SettledAs
    words: str = ""
    turn: TurnId | None = None


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
    settlement: Settlement | None = None
    """Why nothing of it is left to be done; None where it was no more than answered, or still asks for something."""
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
    carried_from: int = field(default=0, compare=False)
    """The cycle in which it came, where another one began with it; for readers."""
    turn: TurnId | None = None
    is_first: bool = field(default=False, compare=False)
    """Whether work waited before it, so that what it asks for is a piece of work of its own; what follows adds to that.

    Not so in snapshots that were written before it was kept: they are still right.
    """

    edits: str = ""
    """The event whose words it replaces; "" where it is no edit."""
    edited_at: int = field(default=0, compare=False)
    """Seconds, by the author's clock: the date of an edit."""
    is_correction: bool = False
    """Whether work on what it replaces had begun, so that it asks for nothing more."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is left to be done, whatever agents were shown."""
        return self.is_answer or self.is_correction or self.settlement is not None

    def blanked(self, seq: int) -> "Message":
        """The same without its words, if it is the message `seq`."""
        return replace(self, text=DELETED, context="") if self.seq == seq else self
