"""The request that is under way: its messages and turns, what was read and changed for it, and what it has cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from tenex.core.ids import Slug
from tenex.core.inbox.message import Message, Settlement
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.values import replace
from tenex.core.work.turn import OrchestratorTurn

CYCLE_MESSAGES = 30
"""Messages of a cycle the router is shown, and turns: more would only push out the newest in its window."""
CYCLE_BLOCK = 10
"""Messages, or turns, that leave the cycle together: between, the router's questions begin with the same ones."""
LINES_KEPT = 500
"""Changed files whose added and removed lines are remembered; users are shown fewer."""
READ_FILES = 500
"""Files read in a cycle that are remembered by name: for users to see, so the newest will do."""

Status = Literal["new", "active", "waiting", "ended"]
T = TypeVar("T")


def of_cycle(items: tuple[T, ...], item: T, first: int = 0) -> tuple[T, ...]:
    """The newest items of a cycle with one more, the `first` of them whatever follows."""
    items = (*items, item)
    if len(items) <= CYCLE_MESSAGES:
        return items
    return (*items[:first], *items[first + CYCLE_BLOCK :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle, from a user's request to its end. A new one is a new value; a rollback restores an earlier one."""

    number: int = 0
    status: Status = "new"
    waiting_for: str = ""
    phase: Phase = Phase.CHAT
    """What agents may do now; `execute` in a kind of conversation without the phases, where code forbids nothing."""
    previous_phase: Phase | None = None
    messages: tuple[Message, ...] = ()
    turns: tuple[OrchestratorTurn, ...] = ()
    participants: tuple[Slug, ...] = ()
    touched: frozenset[str] = frozenset()
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Lines added and removed in some of them since the cycle began, for readers."""
    read_files: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    talk_usage: Usage = NO_USAGE
    """What of it does not count against the limits of a cycle: of talk; with one agent alone of earlier messages."""

    turns_since_user: int = 0
    """Turns since a user last wrote; a new cycle goes on counting, so that no router runs in cycles without a user."""
    route_streak: int = 0
    """How often in a row the same agents were set to work in the same phase, without a change of files."""
    streak_of: tuple[str, ...] = ()

    def written(self) -> "Cycle":
        """A user has written, or lets the work go on: turns are counted again, and nothing is waited for."""
        return replace(self, turns_since_user=0, route_streak=0, streak_of=(), status="active", waiting_for="")

    def changed_by(self, touched: Iterable[str], unchanged: Iterable[str]) -> tuple[str, ...]:
        """Those of the files a call has touched that it changed: not one that the cycle found so, and had left so."""
        kept = frozenset(unchanged) - self.touched
        return tuple(path for path in touched if path not in kept)

    def blanked(self, seq: int) -> "Cycle":
        """Its author has deleted the message `seq`, which agents have read: its place stays, what it said goes."""
        return replace(self, messages=tuple(message.blanked(seq) for message in self.messages))

    def answered(self, seq: int) -> "Cycle":
        """The message `seq` was the answer to a question, so nothing of it is left to be done."""
        messages = (replace(message, is_answer=True) if message.seq == seq else message for message in self.messages)
        return replace(self, messages=tuple(messages))

    def settled(self, settlements: Iterable[Settlement]) -> "Cycle":
        """The router has said of messages why nothing of them is left to be done."""
        by_seq = {settlement.message: settlement for settlement in settlements}
        if not by_seq:
            return self
        messages = (replace(m, settlement=by_seq[m.seq]) if m.seq in by_seq else m for m in self.messages)
        return replace(self, messages=tuple(messages))
