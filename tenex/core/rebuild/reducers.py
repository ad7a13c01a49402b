"""What `JournalRebuilt` and `ConversationImported` do to the state: they end what is open.

A rebuilt journal keeps what its own good records say, waivers included. The messages that another source added to
them, a file or relays, approve nothing.

Of an imported one, no record was written here, so any of them may be forged: a waiver, a gate that is met, the state
of a workflow, a system prompt, a cost below zero. Therefore each part begins afresh with the few fields that `brought`
names, and the messages with the mark `IMPORTED`, without authors and with the rights of a guest. What is added to a
part is not brought unless it is named there. (ADR 44.)
"""

from collections.abc import Iterable
from typing import Final

from tenex.core.config import Role
from tenex.core.cycle.state import Cycle
from tenex.core.identity.state import SEEN, Identity
from tenex.core.ids import Millis, PublicKey
from tenex.core.inbox.message import Message
from tenex.core.memory.state import Memory
from tenex.core.phases import Phase
from tenex.core.rollback.whole import without_open_work
from tenex.core.state import State
from tenex.core.totals.state import Totals
from tenex.core.values import replace
from tenex.core.work.state import Work

from .records import ConversationImported, JournalRebuilt

IMPORTED: Final = " (imported)"
"""Ends the name of who is said to have written an imported message."""


def rebuilt(now: State, record: JournalRebuilt) -> State:
    """The state with nothing in flight, which knows the received messages, in the phase that the source names."""
    rest = without_open_work(now, record.at, record.seq)
    events = list(dict.fromkeys((*record.known_events, *now.identity.seen)))
    rest.identity = replace(rest.identity, seen=dict.fromkeys(events[-SEEN:]))
    rest.delivery = replace(rest.delivery, outbox={})
    rest.totals = replace(rest.totals, turn_count=max(now.totals.turn_count, record.turns))
    if record.phase is None:
        return rest
    if record.phase is not now.cycle.phase:
        rest.totals = rest.totals.phase_left(now.cycle.phase, record.at)
        rest.cycle = replace(rest.cycle, previous_phase=now.cycle.phase, phase=record.phase)
    return rest


def imported(now: State, record: ConversationImported) -> State:
    """The state with the messages to be read; nothing else of the records before this one counts."""
    rest = brought(now, record.at, record.seq)
    if record.address:
        rest.identity = replace(rest.identity, address=record.address)
    if record.agent:
        rest.cycle = replace(rest.cycle, phase=Phase.EXECUTE)
    return rest


def brought(now: State, at: Millis, seq: int) -> State:
    """What an import takes over of a state, as of its record `seq`: names, numbers, and what only readers are shown."""
    rest = without_open_work(now, at, seq)
    identity = rest.identity
    cycle = rest.cycle
    phase = now.cycle.phase if now.has_phases else Phase.CHAT
    memory = Memory(answered=seq)
    made = State(
        identity=Identity(
            id=identity.id,
            next_seq=identity.next_seq,
            started_at=identity.started_at,
            updated_at=identity.updated_at,
            title=identity.title,
            seen=identity.seen,
            forked_from=identity.forked_from,
            address={name: value for name, value in identity.address.items() if name != "relays"},
            imported=seq,
        ),
        cycle=Cycle(
            number=cycle.number,
            status=cycle.status,
            waiting_for=cycle.waiting_for,
            phase=phase,
            messages=_marked(cycle.messages),
        ),
        work=Work(stopped=seq),
        memory=memory.with_messages(_marked(rest.memory.recent), _marked(rest.memory.earlier)),
        totals=Totals(turn_count=rest.totals.turn_count, phase_started_at=rest.totals.phase_started_at),
        history=rest.history and rest.history.from_zero(),
    )
    imported_parts = ((name, kind.imported(now, made)) for name, kind in now.kinds.items())
    made.kinds = {name: part for name, part in imported_parts if part is not None}
    return made


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
