"""What a `JournalRebuilt` and an `ConversationImported` do to the state: they end what is open.

The first also corrects what the recovered records do not hold.
"""

from dataclasses import fields, replace

from tenex.core.ids import PublicKey
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.records.rebuild import ConversationImported, JournalRebuilt, RecoveredPosition
from tenex.core.state.conversation import READ_FILES, SEEN, ForkOrigin, PhaseMetrics, State
from tenex.core.state.rollback import at_rest


def rebuilt(c: State, record: JournalRebuilt) -> None:
    """Leave nothing in flight; know the messages that were seen, and take the position from the source."""
    c.turn, c.runs, c.question = None, {}, None
    c.addressed, c.asks, c.outbox = (), {}, {}
    c.unannounced, c.waiver_asked, c.waiver_asked_of = None, (), PublicKey("")
    c.turn_count = max(c.turn_count, record.turns)
    newest = list(dict.fromkeys((*record.known_events, *c.seen)))[-SEEN:]
    c.seen = dict.fromkeys(newest)
    for name, usage in record.spent.items():  # no one knows how much of it this cycle spent: its limits begin again
        c.usage = c.usage + usage
        if (phase := Phase.parse(name)) is not None:
            past = c.metrics.get(phase, PhaseMetrics())
            c.metrics = {**c.metrics, phase: replace(past, usage=past.usage + usage)}
    if record.position is not None:
        _restore_position(c, record.position)
    if record.forked_from is not None:
        origin, seq, title = record.forked_from
        c.forked_from = ForkOrigin(id=origin, seq=seq, title=title)
    if c.workflow is not None:
        c.workflow = c.workflow.rested(record.seq, record.at)


def imported(c: State, record: ConversationImported) -> None:
    """Leave nothing in flight and no relay that another folder's records name; a user is awaited.

    What it cost today was spent by another daemon.
    """
    rest = at_rest(c, record.at, record.seq)
    for spec in fields(State):
        setattr(c, spec.name, getattr(rest, spec.name))
    c.outbox, c.spending = {}, {}
    c.address = {name: value for name, value in c.address.items() if name != "relays"}
    c.origin = {name: value for name, value in c.origin.items() if name not in ("relays", "hints")}
    if c.workflow is not None:
        c.workflow = replace(c.workflow, watches={})


def _restore_position(c: State, position: RecoveredPosition) -> None:
    c.phase, c.phase_started_at = position.phase, position.phase_started_at
    c.cycle = position.cycle or c.cycle
    if position.participants is not None:
        c.participants = position.participants
    if position.open_gates is not None:
        c.executed = c.executed or bool(position.open_gates)
        c.gates_met = frozenset(QUALITY_PHASES) - frozenset(position.open_gates)
    c.touched, c.read_files = frozenset(position.touched), dict(list(position.read_files.items())[-READ_FILES:])
