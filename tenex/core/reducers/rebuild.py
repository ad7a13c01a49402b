"""What `JournalRebuilt` and `ConversationImported` do to the state: they end what is open.

A rebuilt journal keeps what its own good records say, waivers included. The messages that another source added to
them, a file or relays, approve nothing.

Of an imported one, no record was written here, so any of them may be forged: a waiver, a gate that is met, the state
of a workflow, a system prompt, a cost below zero. Therefore the state begins afresh with the few fields named in
`BROUGHT`, and the messages with the mark `IMPORTED`, without authors and with the rights of a guest. A field that is
added to `State` is not brought unless it is named here. (ADR 44.)
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Final

from tenex.core.config import Role
from tenex.core.ids import Millis, PublicKey
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.records.rebuild import ConversationImported, JournalRebuilt
from tenex.core.state.conversation import SEEN, State
from tenex.core.state.memory import size
from tenex.core.state.rollback import at_rest
from tenex.core.state.run import Message

from .phase_metrics import leave_phase

IMPORTED: Final = " (imported)"
"""Ends the name of who is said to have written an imported message."""

BROUGHT: Final = frozenset(
    {
        *("id", "next_seq", "started_at", "updated_at", "phase_started_at"),
        *("title", "cycle", "turn_count", "seen", "history", "forked_from"),
    }
)
"""The fields of `State` that an import takes over as they are: names, numbers, and what only readers are shown."""


def rebuilt(c: State, record: JournalRebuilt) -> None:
    """Leave nothing in flight, know the received messages, and enter the phase that the source names."""
    _replace(c, at_rest(c, record.at, record.seq))
    c.outbox = {}
    c.turn_count = max(c.turn_count, record.turns)
    c.seen = dict.fromkeys(list(dict.fromkeys((*record.known_events, *c.seen)))[-SEEN:])
    if record.phase is None:
        return
    c.wrote_since_entry = False
    if record.phase is not c.phase:
        leave_phase(c, record.at)
        c.phase_from, c.phase = c.phase, record.phase
    c.executed, c.gates_met = bool(record.open_gates), frozenset(QUALITY_PHASES) - frozenset(record.open_gates)


def imported(c: State, record: ConversationImported) -> None:
    """Keep the messages to be read; nothing else of the records before this one counts."""
    rest = brought(c, record.at, record.seq)
    rest.agent = record.agent
    if record.address:
        rest.address = record.address
    if rest.agent:
        rest.phase, rest.executed = Phase.EXECUTE, False
    _replace(c, rest)


def brought(c: State, at: Millis, seq: int) -> State:
    """What an import takes over of a state, as of its record `seq`."""
    rest = at_rest(c, at, seq)
    phase = c.phase if c.has_phases else Phase.CHAT
    is_ended = rest.status == "ended"
    recent = _marked(rest.recent)
    taken = {name: getattr(rest, name) for name in BROUGHT}
    taken["history"] = rest.history and rest.history.from_zero()
    return State(
        **taken,
        address={name: value for name, value in c.address.items() if name != "relays"},
        status=rest.status,
        waiting_for=rest.waiting_for,
        phase=phase,
        executed=not is_ended and (c.executed or phase in (Phase.EXECUTE, *QUALITY_PHASES)),
        messages=_marked(rest.messages),
        recent=recent,
        recent_size=sum(map(size, recent)),
        earlier=_marked(rest.earlier),
        answered=seq,
        stopped=seq,
        imported=seq,
    )


def _marked(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages as an import shows them: who wrote them is what a file says."""
    return tuple(
        replace(
            message,
            name=f"{message.name.removesuffix(IMPORTED)}{IMPORTED}",
            author=PublicKey(""),
            role=None if message.role is None else Role.GUEST,
        )
        for message in messages
    )


def _replace(c: State, by: State) -> None:
    for spec in fields(State):
        setattr(c, spec.name, getattr(by, spec.name))
