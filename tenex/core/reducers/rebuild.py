"""What `JournalRebuilt` and `ConversationImported` do to the state: they end what is open."""

from dataclasses import fields, replace

from tenex.core.phases import QUALITY_PHASES
from tenex.core.records.rebuild import ConversationImported, JournalRebuilt
from tenex.core.state.conversation import SEEN, State
from tenex.core.state.rollback import at_rest

from .phase_metrics import leave_phase


def rebuilt(c: State, record: JournalRebuilt) -> None:
    """Leave nothing in flight, know the received messages, and enter the phase that the source names."""
    _close_work(c, record)
    c.turn_count = max(c.turn_count, record.turns)
    c.seen = dict.fromkeys(list(dict.fromkeys((*record.known_events, *c.seen)))[-SEEN:])
    if record.phase is None:
        return
    if record.phase is not c.phase:
        leave_phase(c, record.at)
        c.phase_from, c.phase = c.phase, record.phase
    c.executed, c.gates_met = bool(record.open_gates), frozenset(QUALITY_PHASES) - frozenset(record.open_gates)


def imported(c: State, record: ConversationImported) -> None:
    """Leave nothing in flight and no relay that another folder's records name.

    What it cost today was spent by another daemon.
    """
    _close_work(c, record)
    c.spending = {}
    c.address = {name: value for name, value in c.address.items() if name != "relays"}
    c.origin = {name: value for name, value in c.origin.items() if name not in ("relays", "hints")}
    if c.workflow is not None:
        c.workflow = replace(c.workflow, watches={})


def _close_work(c: State, record: JournalRebuilt | ConversationImported) -> None:
    rest = at_rest(c, record.at, record.seq)
    for spec in fields(State):
        setattr(c, spec.name, getattr(rest, spec.name))
    c.outbox = {}
