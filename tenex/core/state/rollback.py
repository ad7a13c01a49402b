"""Going back and branching off: the records of both, and the state a conversation goes on from.

    RolledBack           what the conversation thinks is as it was after an earlier record; what happened stays a fact
    ConversationForked   another conversation begins as this one was after a record; it shares nothing with it

What a rollback does with a field of `State` is declared at the field: `Restored`, `Reset` or `Kept`. Both records
carry the state itself, so no reader needs the records it was folded from, which may lie in an older file of the
journal, or in another conversation's. (ADR 15.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final

from tenex.core.ids import ConversationId, Millis, TurnId
from tenex.core.messages import NO_USAGE
from tenex.core.records.base import Record
from tenex.core.reducers.phase_metrics import leave_phase

from .conversation import ForkOrigin, State, of_cycle, worked_on
from .history import History, Rollback
from .run import Completion, OrchestratorTurn

CUT_OFF: Final = "the conversation goes on from before this was done"
"""What became of an agent's part in a turn that was open then."""

_FIELDS: Final = {spec.name: spec for spec in fields(State)}


def _declared_as(group: str) -> tuple[str, ...]:
    return tuple(name for name, spec in _FIELDS.items() if group in getattr(spec.type, "__metadata__", ()))


RESTORED: Final = _declared_as("restored")
RESET: Final = _declared_as("reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(Record):
    """The conversation goes on as it was after record `to`, at rest; the records between stay, and count no more.

    `state` holds the fields that are restored. `restored_tree` is the shadow repository's tree that the workspace was
    restored to, `previous_tree` its content before; both are empty where the files stayed as they were.
    """

    to: int
    by: str
    reason: str
    state: State
    restored_tree: str = ""
    previous_tree: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationForked(Record):
    """A conversation begins as `origin` was after its record `at_seq`, at rest."""

    id: ConversationId
    origin: ConversationId
    at_seq: int
    title: str
    """Its own; what the origin is called is in `state.forked_from`."""
    state: State


def at_rest(then: State, at: Millis, seq: int = 1) -> State:
    """That state as one to go on from after record `seq`: nothing is open, and a user is awaited.

    A turn that was open counts as closed: what was done in it is known, the rest as stopped. A cycle that had ended
    stays ended, and where none had begun the user's next message begins the first.
    """
    changes: dict[str, Any] = {name: _default(name) for name in RESET}
    changes["agent_states"] = {name: one for name, one in then.agent_states.items() if name not in then.runs}
    if then.mission is not None:
        changes["mission"] = then.mission.at_rest(at)
    if then.workflow is not None:
        changes["workflow"] = then.workflow.rested(seq, at)
    if then.status in ("ended", "new") or (then.workflow is not None and then.workflow.is_closed):
        changes |= {"status": "ended", "waiting_for": ""}
    else:
        changes |= {"status": "waiting", "waiting_for": "user"}
    if then.turn is not None:
        closed = replace(_closed(then.turn, at), working=then.working - then.turn.worked_before)
        changes |= {"last_turn": closed, "turns": of_cycle(then.turns, closed)}
        shown = max([then.answered, *(run.shown for run in then.own_runs)])
        changes |= {"answered": shown, "worked_on": worked_on(then, shown)}
        if then.history is not None:
            changes["history"] = then.history.closed(closed)
    return State(**{spec.name: changes.get(spec.name, getattr(then, spec.name)) for spec in fields(State)})


def of_then(then: State, now: State, at: Millis, *, with_files: bool) -> State:
    """What a `RolledBack` to `then` carries: only what goes back, everything else at its default.

    `now` has nothing open. Unless the workspace went back too (`with_files`), what was changed since is still changed.
    """
    rest = at_rest(then, at, now.next_seq)
    carried = {spec.name: _default(spec.name) for spec in fields(State) if spec.name != "id"}
    carried |= {name: getattr(rest, name) for name in RESTORED}
    if not with_files:
        carried["touched"] = then.touched | now.touched
        carried["lines"] = {**then.lines, **now.lines}
    if then.cycle == now.cycle:  # what was spent on it is spent
        carried |= {"cycle_usage": now.cycle_usage, "talk_usage": now.talk_usage}
    return State(id=now.id, **carried)


def of_fork(
    then: State,
    at: Millis,
    *,
    id: ConversationId,  # noqa: A002
    address: Mapping[str, Any],
    title: str,
) -> State:
    """The state a fork begins with: of its own the id, the address and all sums; no event is known to it.

    What was in the other one's records comes before every record of its own, which are numbered from 1 again.
    """
    rest = _before(at_rest(then, at), then.next_seq)
    history = rest.history or History()
    return replace(
        rest,
        id=id,
        next_seq=2,
        started_at=at,
        updated_at=at,
        phase_started_at=at,
        title=title,
        address=dict(address),
        origin={},
        first_origin={},
        origin_at=0,
        last_created_at=0,
        seen={},
        outbox={},
        refusals=(),
        usage=NO_USAGE,
        cycle_usage=NO_USAGE,
        talk_usage=NO_USAGE,
        granted=NO_USAGE,
        spending={},
        limit_reported=("", Millis(0)),
        metrics={},
        stopped=1,
        working=0,
        worked_before_phase=0,
        history=replace(
            history.from_zero(),
            transitions_before=0,
            turns_before=0,
            runs_before=0,
            calls_before=0,
            decisions_before=0,
            cycles_before=0,
            rollbacks=(),
        ),
        forked_from=ForkOrigin(id=then.id, seq=then.next_seq - 1, title=then.title),
        imported=1 if then.imported else 0,
        mission=rest.mission and rest.mission.forked(),
    )


def _before(state: State, records: int) -> State:
    """That state with all its sequence numbers that many records earlier: in their order, none that of a later one."""

    def moved(turn: OrchestratorTurn) -> OrchestratorTurn:
        return replace(turn, seq=turn.seq - records)

    return replace(
        state,
        messages=tuple(replace(message, seq=message.seq - records) for message in state.messages),
        recent=tuple(replace(message, seq=message.seq - records) for message in state.recent),
        earlier=tuple(replace(message, seq=message.seq - records) for message in state.earlier),
        user_decisions=tuple(replace(decision, seq=decision.seq - records) for decision in state.user_decisions),
        window=replace(state.window, since=state.window.since - records, until=state.window.until - records),
        turns=tuple(map(moved, state.turns)),
        last_turn=state.last_turn and moved(state.last_turn),
        past=tuple(replace(past, since=past.since - records) for past in state.past),
        answered=state.answered - records,
        worked_on=None if state.worked_on is None else state.worked_on - records,
        router_asked=state.router_asked - records,
        asked_at_rest=state.asked_at_rest - records,
        history=state.history and replace(state.history, turns=tuple(map(moved, state.history.turns))),
    )


def rolled_back(c: State, record: RolledBack) -> None:
    """Take the state from the record; what is `Kept` stays, but for the metrics of a phase that is left.

    `stopped` is the moment of the rollback itself.
    """
    if c.history is not None:
        c.history = c.history.undone(
            Rollback(
                seq=record.seq,
                at=record.at,
                to=record.to,
                by=record.by,
                reason=record.reason,
                undone=tuple(undone(c.history, record.to, record.seq)),
            )
        )
    if record.state.phase is not c.phase:
        leave_phase(c, record.at)
    for name in RESTORED:
        setattr(c, name, getattr(record.state, name))
    for name in RESET:
        setattr(c, name, _default(name))
    c.stopped = record.seq


def forked(c: State, record: ConversationForked) -> None:
    """Begin; only as the first record of a journal.

    Raises:
        ValueError: it is not the first, or of another conversation; nothing has changed.
    """
    if record.seq != 1 or record.id != c.id or record.state.id != c.id:
        raise ValueError(f"a fork is at the beginning of its own journal, not at seq {record.seq} of another")
    for spec in fields(State):
        if spec.name != "history" or c.history is not None:
            setattr(c, spec.name, getattr(record.state, spec.name))


def undone(history: History, to: int, before: int) -> Iterator[TurnId]:
    """The turns that count now, and would not after going back to a record; those that were undone before count not.

    Only turns that are remembered.
    """
    rollbacks = [(rollback.seq, rollback.to) for rollback in history.rollbacks]
    now, then = stretches(rollbacks, before - 1), stretches(rollbacks, to)
    for turn in history.turns:
        if _is_on(now, turn.seq) and not _is_on(then, turn.seq):
            yield turn.turn_id


def stretches(rollbacks: Sequence[tuple[int, int]], seq: int) -> list[tuple[int, int]]:
    """The stretches of records, each from its first to its last seq, that made the state after a record.

    `rollbacks` are the seq of each, and the record it went back to, oldest first.
    """
    found: list[tuple[int, int]] = []
    for at, to in reversed(rollbacks):
        if at <= seq:
            found.append((at, seq))
            seq = to
    return [*found, (1, seq)]


def _is_on(line: list[tuple[int, int]], seq: int) -> bool:
    return any(first <= seq <= last for first, last in line)


def _closed(turn: OrchestratorTurn, at: Millis) -> OrchestratorTurn:
    stopped = tuple(
        Completion(agent=slug, outcome="stopped", text="", summary="", verdict="", error=CUT_OFF, at=at)
        for slug in turn.agents
        if not turn.has_finished(slug)
    )
    done = (*turn.completions, *stopped)
    words = "\n".join(f"{one.agent}: {one.summary or one.text or one.error}" for one in done)
    return replace(turn, completions=done, is_completed=True, summary=words)


def _default(name: str) -> Any:
    spec = _FIELDS[name]
    return spec.default if spec.default_factory is MISSING else spec.default_factory()
