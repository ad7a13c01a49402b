"""What a conversation remembers of its messages: the window that agents are shown, and what stays in short form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.inbox.message import Message
from tenex.core.messages import Entry
from tenex.core.values import replace
from tenex.core.work.turn import OrchestratorTurn

from .window import PastCycle, in_a_line, weight

RECENT_BYTES = 384 * 1024
"""Bytes of the messages that are kept whole, as a snapshot holds them: some 300 short ones with their answers."""
LEAST_RECENT = 40
"""Messages that are kept whole in any case, and that readers of the conversation see."""
MESSAGE_BYTES = 330
"""Of a message in a snapshot, besides its text."""
EARLIER_BYTES = 96 * 1024
"""Bytes of the messages that are kept in a line, likewise."""
FIRST = 8
"""Messages of users that stay in a line for ever: with the first ones people say who they are and what they want."""
LINE = 400
"""Characters of a message that is kept in a line."""
DECISIONS = 60
"""Decisions of users that are remembered, the newest."""
SYSTEMS = 40
"""System prompts remembered, the lately used: one for each agent and phase of a cycle, and room for changed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDecision:
    """What a user decided, in a line. `is_command`: by a command, which is no message."""

    seq: int
    text: str
    is_command: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the newest run was shown of the conversation; the next one is shown the same, and what came after it.

    So two requests begin with the same bytes. Once it is full, it is chosen again, and a part of it left out.
    """

    entries: tuple[Entry, ...] = ()
    since: int = 0
    """The seq of the message from which on it holds every message, up to `until`."""
    until: int = 0
    size: int = 0
    """Bytes of the entries."""


def size(message: Message) -> int:
    """About the bytes of a message in a snapshot."""
    return MESSAGE_BYTES + weight(message.name) + weight(message.text)


def shortened(recent: Sequence[Message], earlier: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The newest messages in three quarters of the bytes, and those in a line with users' messages that had to go.

    A quarter at once: what is shown of them changes as rarely.
    """
    room = RECENT_BYTES * 3 // 4
    start = len(recent)
    while start and (room >= size(recent[start - 1]) or len(recent) - start < LEAST_RECENT):
        start -= 1
        room -= size(recent[start])
    gone = (replace(m, text=in_a_line(m.text, LINE)) for m in recent[:start] if m.role is not None)
    lines = (*earlier, *gone)
    if sum(map(size, lines)) > EARLIER_BYTES:
        half = EARLIER_BYTES // 2
        kept = len(lines)
        while kept > FIRST and half >= size(lines[kept - 1]):
            kept -= 1
            half -= size(lines[kept])
        lines = (*lines[:FIRST], *lines[kept:])
    return tuple(recent[start:]), lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What stays of the messages and turns, for agents and the router; a rollback restores it."""

    recent: tuple[Message, ...] = ()
    """The newest messages, whole, across cycles."""
    recent_size: int = 0
    """About the bytes of `recent`. This, `earlier`, `user_decisions` and `window` are only shown: no decision may
    depend on them."""
    earlier: tuple[Message, ...] = ()
    """Users' messages before these, each cut to a line: the first ones and the newest."""
    user_decisions: tuple[UserDecision, ...] = ()
    """What users decided: their answers to questions, the gates they gave up, the plans they approved."""
    window: Window = field(default_factory=Window)
    """What the newest run of a turn's own agents was shown of the conversation."""
    past: tuple[PastCycle, ...] = ()
    """What stays of the cycles that are over."""
    last_turn: OrchestratorTurn | None = None
    answered: int = 0
    """The seq of the newest message that an agent was shown before its run ended."""
    agent_states: Mapping[str, AgentPhaseState] = field(default_factory=dict)
    """States of agents in their own phases, by `Run.state_key`."""
    systems: Mapping[str, str] = field(default_factory=dict)
    """System prompts by their digest, the lately used last. A rollback keeps them: later records name them."""

    def with_messages(self, recent: tuple[Message, ...], earlier: tuple[Message, ...]) -> "Memory":
        """The memory with these messages in place of those it has."""
        return replace(self, recent=recent, earlier=earlier, recent_size=sum(map(size, recent)))

    def spare_systems(self, digest: str) -> tuple[str, ...]:
        """The prompts that no one has used for longest, as many as must go if this one is to be remembered too."""
        surplus = 0 if digest in self.systems else len(self.systems) - SYSTEMS + 1
        return tuple(islice(self.systems, max(0, surplus)))
