"""Going back and branching off: the records of both, and the state a conversation goes on from.

    RolledBack           what the conversation thinks is as it was after an earlier record; what happened stays a fact
    ConversationForked   another conversation begins as this one was after a record; it shares nothing with it

Each part of the state has one rule, which `gone_back` states: what agents and the router know is restored, what is open
is over, and what was spent, sent and received stays. Both records carry the state itself, so no reader needs the
records it was folded from, which may lie in an older file of the journal, or in another conversation's. (ADR 15.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.cycle.state import of_cycle
from tenex.core.delivery.state import Delivery
from tenex.core.history.state import History, Rollback
from tenex.core.identity.state import ForkOrigin, Identity
from tenex.core.ids import ConversationId, Millis, TurnId
from tenex.core.inbox.message import Message
from tenex.core.messages import NO_USAGE
from tenex.core.record import Record
from tenex.core.state import State
from tenex.core.totals.state import Totals
from tenex.core.values import replace
from tenex.core.work.state import Work
from tenex.core.work.turn import Completion, OrchestratorTurn

CUT_OFF: Final = "the conversation goes on from before this was done"
"""What became of an agent's part in a turn that was open then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(Record):
    """The conversation goes on as it was after record `to`, at rest; the records between stay, and count no more.

    `state` holds the parts that are restored. `restored_tree` is the shadow repository's tree that the workspace was
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


def without_open_work(then: State, at: Millis, seq: int = 1) -> State:
    """That state as one to go on from after record `seq`: nothing is open, and a user is awaited.

    A turn that was open counts as closed: what was done in it is known, the rest as stopped. A cycle that had ended
    stays ended, and where none had begun the user's next message begins the first.
    """
    cycle = replace(then.cycle, turns_since_user=0, route_streak=0, streak_of=())
    is_over = any(kind.is_over for kind in then.kinds.values())
    if then.cycle.status in ("ended", "new") or is_over:
        cycle = replace(cycle, status="ended", waiting_for="")
    else:
        cycle = replace(cycle, status="waiting", waiting_for="user")
    agent_states = {
        name: agent_state for name, agent_state in then.memory.agent_states.items() if name not in then.work.runs
    }
    rest = State(
        identity=then.identity,
        cycle=cycle,
        work=Work(stopped=then.work.stopped),
        delivery=replace(then.delivery, command_origin={}),
        memory=replace(then.memory, agent_states=agent_states),
        totals=then.totals,
        history=then.history,
        router=replace(then.router, question=None, delay_reported=False),
        kinds={name: kind.without_open_work(then, at, seq) for name, kind in then.kinds.items()},
    )
    if then.work.turn is not None:
        _close_turn(rest, then, then.work.turn, at)
    return rest


def _close_turn(rest: State, then: State, turn: OrchestratorTurn, at: Millis) -> None:
    """Count the turn that was open as closed."""
    working = then.totals.working - turn.worked_before
    closed = replace(_closed(turn, at), working=working)
    shown = max([then.memory.answered, *(run.shown for run in then.work.own_runs)])
    rest.cycle = replace(rest.cycle, turns=of_cycle(then.cycle.turns, closed))
    rest.memory = replace(rest.memory, last_turn=closed, answered=shown)
    if then.history is not None:
        rest.history = then.history.closed(closed)


def of_then(then: State, now: State, at: Millis, *, with_files: bool) -> State:
    """What a `RolledBack` to `then` carries: only what goes back, everything else at its default.

    `now` has nothing open. Unless the workspace went back too (`with_files`), what was changed since is still changed.
    """
    rest = without_open_work(then, at, now.next_seq)
    cycle = rest.cycle
    if not with_files:
        touched = then.cycle.touched | now.cycle.touched
        cycle = replace(cycle, touched=touched, lines={**then.cycle.lines, **now.cycle.lines})
    if then.cycle.number == now.cycle.number:  # what was spent on it is spent
        cycle = replace(cycle, usage=now.cycle.usage, talk_usage=now.cycle.talk_usage)
    return State(
        identity=Identity(id=now.id, title=rest.identity.title),
        cycle=cycle,
        memory=replace(rest.memory, systems={}),
        router=replace(rest.router, lessons=()),
        kinds=rest.kinds,
    )


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
    rest = _before(without_open_work(then, at), then.next_seq)
    history = rest.history or History()
    identity = Identity(
        id=id,
        next_seq=2,
        started_at=at,
        updated_at=at,
        title=title,
        starter=then.identity.starter,
        address=dict(address),
        forked_from=ForkOrigin(id=then.id, seq=then.next_seq - 1, title=then.identity.title),
        imported=1 if then.identity.imported else 0,
    )
    return replace(
        rest,
        identity=identity,
        cycle=replace(rest.cycle, usage=NO_USAGE, talk_usage=NO_USAGE),
        work=Work(stopped=1),
        delivery=Delivery(),
        totals=Totals(turn_count=then.totals.turn_count, phase_started_at=at),
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
        kinds={name: kind.forked(then.next_seq) for name, kind in rest.kinds.items()},
    )


def _before(state: State, records: int) -> State:
    """That state with all its sequence numbers that many records earlier: in their order, none that of a later one."""

    def turns(moved: Sequence[OrchestratorTurn]) -> tuple[OrchestratorTurn, ...]:
        return tuple(replace(turn, seq=turn.seq - records) for turn in moved)

    def messages(moved: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(replace(message, seq=message.seq - records) for message in moved)

    memory = state.memory
    last_turn = memory.last_turn
    window = memory.window
    return replace(
        state,
        cycle=replace(state.cycle, messages=messages(state.cycle.messages), turns=turns(state.cycle.turns)),
        memory=replace(
            memory,
            recent=messages(memory.recent),
            earlier=messages(memory.earlier),
            user_decisions=tuple(replace(decision, seq=decision.seq - records) for decision in memory.user_decisions),
            window=replace(window, since=window.since - records, until=window.until - records),
            past=tuple(replace(past, since=past.since - records) for past in memory.past),
            last_turn=last_turn and replace(last_turn, seq=last_turn.seq - records),
            answered=memory.answered - records,
        ),
        router=replace(state.router, asked=state.router.asked - records),
        history=state.history and replace(state.history, turns=turns(state.history.turns)),
    )


def gone_back(now: State, record: RolledBack) -> State:
    """The state after a rollback: each part as `now` has it, as the record carries it, or of both."""
    then = record.state
    totals = now.totals
    if then.cycle.phase is not now.cycle.phase:
        totals = totals.phase_left(now.cycle.phase, record.at)
    return State(
        identity=replace(now.identity, title=then.identity.title),
        cycle=then.cycle,
        work=Work(stopped=record.seq),
        delivery=replace(now.delivery, command_origin={}, attached={}, shows={}),
        memory=replace(then.memory, systems=now.memory.systems),
        totals=totals,
        history=now.history and _noted(now.history, record),
        router=replace(then.router, lessons=now.router.lessons),
        approvals=now.approvals.gone_back(record.to),
        kinds=then.kinds,
    )


def _noted(history: History, record: RolledBack) -> History:
    return history.undone(
        Rollback(
            seq=record.seq,
            at=record.at,
            to=record.to,
            by=record.by,
            reason=record.reason,
            undone=tuple(undone(history, record.to, record.seq)),
        )
    )


def forked(now: State, record: ConversationForked) -> State:
    """The state of a fork, which begins with the record.

    Raises:
        ValueError: it is not the first, or of another conversation.
    """
    if record.seq != 1 or record.id != now.id or record.state.id != now.id:
        raise ValueError(f"a fork is at the beginning of its own journal, not at seq {record.seq} of another")
    return record.state if now.history is not None else replace(record.state, history=None)


def undone(history: History, to: int, before: int) -> Iterator[TurnId]:
    """The turns that count now, and would not after going back to a record; those that were undone before count not.

    Only turns that are remembered.
    """
    rollbacks = [(rollback.seq, rollback.to) for rollback in history.rollbacks]
    now = stretches(rollbacks, before - 1)
    then = stretches(rollbacks, to)
    for turn in history.turns:
        if _is_on(now, turn.seq) and not _is_on(then, turn.seq):
            yield turn.turn_id


def stretches(rollbacks: Sequence[tuple[int, int]], seq: int) -> list[tuple[int, int]]:
    """The stretches of records, each from its first to its last seq, that made the state after a record.

    `rollbacks` are the seq of each, and the record it went back to, oldest first.
    """
    lines: list[tuple[int, int]] = []
    for at, to in reversed(rollbacks):
        if at <= seq:
            lines.append((at, seq))
            seq = to
    return [*lines, (1, seq)]


def _is_on(line: list[tuple[int, int]], seq: int) -> bool:
    return any(first <= seq <= last for first, last in line)


def _closed(turn: OrchestratorTurn, at: Millis) -> OrchestratorTurn:
    stopped = tuple(
        Completion(agent=slug, outcome="stopped", text="", summary="", verdict="", error=CUT_OFF, at=at)
        for slug in turn.agents
        if not turn.has_finished(slug)
    )
    done = (*turn.completions, *stopped)
    words = "\n".join(
        f"{completion.agent}: {completion.summary or completion.text or completion.error}" for completion in done
    )
    return replace(turn, completions=done, is_completed=True, summary=words)
