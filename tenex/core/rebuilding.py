"""What a `Rebuilt` does to the state: it ends what is open, and puts right what the regained records cannot say.

Never: a rule; the records before it were made to be folded like any others.
"""

from dataclasses import replace

from .ids import PublicKey
from .phases import QUALITY_PHASES, Phase
from .rebuilt import Rebuilt, Standing
from .state import READ_FILES, SEEN, ForkOrigin, PhaseMetrics, State


def rebuilt(c: State, record: Rebuilt) -> None:
    """Leave nothing in flight; know the messages that were seen, and stand where the source says."""
    c.turn, c.runs, c.question = None, {}, None
    c.addressed, c.asks, c.outbox = (), {}, {}
    c.unannounced, c.waiver_asked, c.waiver_asked_of = None, (), PublicKey("")
    c.turn_count = max(c.turn_count, record.turns)
    newest = list(dict.fromkeys((*record.seen, *c.seen)))[-SEEN:]
    c.seen = dict.fromkeys(newest)
    for name, usage in record.spent.items():  # nobody knows how much of it this cycle spent: its limits begin again
        c.usage = c.usage + usage
        if (phase := Phase.parse(name)) is not None:
            past = c.metrics.get(phase, PhaseMetrics())
            c.metrics = {**c.metrics, phase: replace(past, usage=past.usage + usage)}
    if record.standing is not None:
        _stand(c, record.standing)
    if record.forked_from is not None:
        origin, seq, title = record.forked_from
        c.forked_from = ForkOrigin(id=origin, seq=seq, title=title)
    if c.workflow is not None:
        c.workflow = c.workflow.rested(record.seq, record.at)


def _stand(c: State, standing: Standing) -> None:
    c.phase, c.phase_started_at = standing.phase, standing.phase_started_at
    c.cycle = standing.cycle or c.cycle
    if standing.participants is not None:
        c.participants = standing.participants
    if standing.open_gates is not None:
        c.executed = c.executed or bool(standing.open_gates)
        c.gates_met = frozenset(QUALITY_PHASES) - frozenset(standing.open_gates)
    c.touched, c.read_files = frozenset(standing.touched), dict(list(standing.read_files.items())[-READ_FILES:])
