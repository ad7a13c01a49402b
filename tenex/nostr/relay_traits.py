"""What a relay has shown of itself by its answers, for as long as the process runs; all its connections share it."""

import re
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tenex.core.ids import PublicKey

from .events import Event
from .turn_costs import TURN_COST

EVENTS_WITH_EPHEMERAL: Final = 30
"""Events of a key in a minute up to which ephemeral ones are among them: Buzz takes 60, and messages need the rest."""
_MINUTE: Final = 60.0

_UNKNOWN_KIND: Final = re.compile(r"(?:restricted|blocked|unsupported|invalid): unknown event kind\b", re.IGNORECASE)


@dataclass(slots=True)
class RelayTraits:
    """What is known of one relay."""

    takes_one_key: bool = False
    """Whether it takes one AUTH (NIP-42) to a connection, so that each of our keys needs a connection of its own."""
    refused_keys: dict[PublicKey, str] = field(default_factory=dict)
    """Our keys that it refuses at AUTH, also on a connection of their own, with its answer."""
    refused_kinds: dict[int, str] = field(default_factory=dict)
    """The kinds of events that it does not take, with its answer: they are not sent to it again."""
    refused_costs: dict[PublicKey, str] = field(default_factory=dict)
    """Our keys of which it takes no report of a cost, with its answer, until they show themselves by another AUTH."""
    sent_at: defaultdict[PublicKey, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    """When events were sent in the last minute, by the key of the connection, on the loop's clock."""
    learnt: list[Callable[[], object]] = field(default_factory=list)
    """Called once, when it is seen that the relay takes one key to a connection."""

    def note_answer(self, text: str, kind: int) -> None:
        """Learn from the refusal of an event of a kind."""
        if _UNKNOWN_KIND.match(text):
            self.refused_kinds[kind] = text

    def note_refusal(self, event: Event, text: str) -> None:
        """Learn from the final refusal of an event: as no one waits for a report of a cost, it is not sent again."""
        if event.kind == TURN_COST:
            self.refused_costs[event.pubkey] = text

    def note_authenticated(self, key: PublicKey) -> None:
        """Note that the relay knows a key of ours, and whose it is, by another AUTH."""
        self.refused_costs.pop(key, None)
        self.refused_keys.pop(key, None)

    def refusal(self, event: Event) -> str | None:
        """What the relay has answered to such an event, and would again; None if it may take this one."""
        is_cost = event.kind == TURN_COST
        return self.refused_kinds.get(event.kind) or (self.refused_costs.get(event.pubkey) if is_cost else None)

    def note_sent(self, key: PublicKey, now: float) -> None:
        """Count an event that a connection of one key sends."""
        self.sent_at[key].append(now)
        self._forget_old(key, now)

    def may_send_ephemeral(self, key: PublicKey, now: float) -> bool:
        """Whether an ephemeral event of a key leaves enough of its quota to messages."""
        self._forget_old(key, now)
        return len(self.sent_at[key]) < EVENTS_WITH_EPHEMERAL

    def _forget_old(self, key: PublicKey, now: float) -> None:
        sent = self.sent_at[key]
        while sent and sent[0] <= now - _MINUTE:
            sent.popleft()

    def note_one_key(self) -> None:
        """Note that a connection to it has one key."""
        if self.takes_one_key:
            return
        self.takes_one_key = True
        for call in self.learnt:
            call()
