"""What has begun in a conversation and not ended yet, with when it began."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.costs import run_agent
from tenex.core.ids import CallId, ConversationId, Millis, RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.state.run import Call, CallState, OrchestratorTurn


class Mark(NamedTuple):
    """When something began, and the record that began it."""

    seq: int
    at: Millis


class OpenCall(NamedTuple):
    """A call that runs, or a question that waits for a person."""

    at: Millis
    tool: str
    """Empty where it calls a colleague: the record that ends it names it."""
    is_ask: bool = False


@dataclass(slots=True)
class OpenRun:
    """An agent at work."""

    agent: Slug
    part_of: str
    """The turn; or the call by which a colleague called it."""
    began: Millis
    wanted: Mark | None
    asked: set[CallId] = field(default_factory=set)
    """The calls of the step at hand that have no result yet: after the last one the model is wanted."""
    calls: dict[CallId, OpenCall] = field(default_factory=dict)
    usage: Usage = NO_USAGE


@dataclass(slots=True)
class OpenTurn:
    """A turn, and how those of its runs ended that have."""

    id: str
    began: Millis
    phase: Phase
    outcomes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Underway:
    """What has begun in one conversation."""

    id: ConversationId
    cycle: int
    phase: Phase
    turn: OpenTurn | None = None
    runs: dict[RunId, OpenRun] = field(default_factory=dict)
    question: Mark | None = None
    unrouted: Mark | None = None
    unanswered: Mark | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open."""
        return self.turn is None and self.question is None and self.unrouted is None and self.unanswered is None


def begun_before(c: Conversation, records: Sequence[r.Record]) -> Underway:
    """What these records may end though they did not begin it: an earlier process did, or we had forgotten it.

    `c` is as the records have left it, so a call or a question that they themselves end is not found again.
    """
    first = records[0].seq if records else c.next_seq
    came_from = next((record.from_ for record in records if isinstance(record, r.PhaseTransition)), c.phase)
    new_cycle = next((record.cycle for record in records if isinstance(record, r.CycleStarted)), c.cycle + 1)
    known = Underway(id=c.id, cycle=new_cycle - 1, phase=came_from)
    closed = {record.turn_id for record in records if isinstance(record, r.TurnClosed)}
    ending = c.last_turn if c.last_turn is not None and c.last_turn.turn_id in closed else None
    turn = ending or c.turn
    if turn is not None and turn.seq < first:
        runs = list(_runs_of(c, turn, records))
        past = [done.outcome for done in turn.completions if f"{turn.turn_id}.{done.agent}" not in runs]
        known.turn = OpenTurn(turn.turn_id, turn.timestamp, turn.phase, [*past])
        known.runs = {run: _run_begun_before(c, run, turn) for run in runs}
    if c.question is not None and c.question.retry is None and c.question.seq < first:
        known.question = Mark(c.question.seq, c.updated_at)
    return known


def _runs_of(c: Conversation, turn: OrchestratorTurn, records: Sequence[r.Record]) -> Iterator[RunId]:
    ending = {record.run for record in records if isinstance(record, r.RunEnded)}
    for slug in turn.agents:
        run = RunId(f"{turn.turn_id}.{slug}")
        if run in ending or not turn.has_finished(slug):
            yield run
    yield from (run for run in (*c.runs, *sorted(ending)) if run.startswith(f"{turn.turn_id}/"))


def _run_begun_before(c: Conversation, name: RunId, turn: OrchestratorTurn) -> OpenRun:
    run = c.runs.get(name)
    if run is None:
        part_of = "" if "/" in name else turn.turn_id  # whoever called it, that cannot be told any more
        return OpenRun(run_agent(name), part_of, turn.timestamp, None)
    wanted = Mark(run.wants, c.updated_at) if run.wants is not None else None
    calls = {
        call.request.id: _call_begun_before(call, since=c.updated_at, parked_at=run.parked_at)
        for call in run.open_calls
        if call.has_begun
    }
    asked = {call.request.id for call in run.open_calls}
    part_of = turn.turn_id if run.parent is None else f"{run.parent} {run.call}"
    return OpenRun(run.agent, part_of, turn.timestamp, wanted, asked, calls, run.usage)


def _call_begun_before(call: Call, *, since: Millis, parked_at: Millis | None) -> OpenCall:
    if call.state is CallState.PARKED:
        return OpenCall(since if parked_at is None else parked_at, call.request.tool, is_ask=True)
    return OpenCall(since, call.request.tool)
