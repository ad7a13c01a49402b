"""What each record does to the cycle."""

from typing import Final

from tenex.core import records as r
from tenex.core.inbox.message import Message, Settlement
from tenex.core.messages import NO_USAGE
from tenex.core.phases import Phase
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.totals.costs import COSTS, cost_of
from tenex.core.values import replace
from tenex.core.work.turn import OrchestratorTurn

from .state import LINES_KEPT, READ_FILES, Cycle, of_cycle

CYCLE: Final = Reducers[Cycle]("cycle")


def carried(state: State, record: r.CycleStarted) -> tuple[Message, ...]:
    """The messages of the last cycle with which a new one begins."""
    messages: tuple[Message, ...] = ()
    if state.cycle.number and record.carried is None:
        messages = state.newer_than_last_turn()
    elif state.cycle.number:
        messages = tuple(message for message in state.cycle.messages if message.seq in (record.carried or ()))
    here = state.cycle.number
    return tuple(
        replace(message, cycle=record.cycle, carried_from=message.carried_from or here) for message in messages
    )


def leaves_phase(state: State, record: r.CycleStarted) -> bool:
    """Whether a new cycle begins in another phase than the one it is in."""
    return bool(state.cycle.number) and state.cycle.phase is not record.phase


@CYCLE.on(r.CycleStarted)
def _started(cycle: Cycle, record: r.CycleStarted, before: State) -> Cycle:
    return Cycle(
        number=record.cycle,
        status="active",
        phase=record.phase,
        previous_phase=cycle.phase if leaves_phase(before, record) else cycle.previous_phase,
        messages=carried(before, record),
        turns_since_user=cycle.turns_since_user,
    )


@CYCLE.on(r.PhaseTransition)
def _moved(cycle: Cycle, record: r.PhaseTransition, _: State) -> Cycle:
    return replace(cycle, phase=record.to, previous_phase=record.from_)


# ---- messages of users -----------------------------------------------------------------------------------------------


def message_of(state: State, record: r.MessageRecorded) -> Message:
    """A user's message as it is kept."""
    last = state.work.turn or state.memory.last_turn
    is_after_turn = last is not None and bool(state.work.turn or state.cycle.turns)
    return Message(
        seq=record.seq,
        at=record.at,
        event_id=record.event_id,
        author=record.author,
        name=record.name,
        text=record.text,
        phase=state.cycle.phase,
        role=record.role,
        is_plain=record.by_machine or record.by_program,
        by_machine=record.by_machine,
        context=record.context,
        after_turn=last.turn_id if last is not None and is_after_turn else None,
        cycle=state.cycle.number,
        turn=state.work.turn.turn_id if state.work.turn else None,
        is_first=state.cycle.status == "waiting",
        edits=record.edits or "",
        edited_at=record.created_at if record.edits else 0,
        is_correction=record.is_correction,
    )


@CYCLE.on(r.MessageRecorded)
def _wrote(cycle: Cycle, record: r.MessageRecorded, before: State) -> Cycle:
    messages = of_cycle(cycle.messages, message_of(before, record), first=1)  # what began it stays, however many follow
    if record.is_correction:
        return replace(cycle, messages=messages)
    cycle = replace(cycle.written(), messages=messages)
    is_endless = not before.has_begun_kind and any(kind.is_endless for kind in before.kinds.values())
    if is_endless and before.work.turn is None:
        return replace(cycle, talk_usage=cycle.usage)  # it has no end, so each message begins the count
    return cycle


@CYCLE.on(r.QuestionAnswered, r.AnswerCorrected)
def _answered(cycle: Cycle, record: r.QuestionAnswered | r.AnswerCorrected, _: State) -> Cycle:
    return cycle.answered(record.message)


# ---- status ----------------------------------------------------------------------------------------------------------


@CYCLE.on(r.Waiting)
def _waiting(cycle: Cycle, record: r.Waiting, _: State) -> Cycle:
    return replace(cycle, status="waiting", waiting_for=record.reason)


@CYCLE.on(r.Ended)
def _ended(cycle: Cycle, _record: r.Ended, _: State) -> Cycle:
    return replace(cycle, status="ended", waiting_for="")


@CYCLE.on(r.Continued)
def _continued(cycle: Cycle, _record: r.Continued, _: State) -> Cycle:
    return replace(cycle.written(), usage=NO_USAGE, talk_usage=NO_USAGE)


@CYCLE.on(r.RouteRequested)
def goes_on(cycle: Cycle, _record: r.Record, _: State) -> Cycle:
    """Something is to be done now."""
    return replace(cycle, status="active", waiting_for="")


# ---- turns -----------------------------------------------------------------------------------------------------------


@CYCLE.on(r.TurnOpened)
def _turn_opened(cycle: Cycle, record: r.TurnOpened, _: State) -> Cycle:
    route = (record.phase, *record.agents)
    participants = cycle.participants
    if record.phase is not Phase.REFLECTION:
        participants = (*participants, *(agent for agent in record.agents if agent not in participants))
    return replace(
        cycle,
        status="active",
        waiting_for="",
        turns_since_user=cycle.turns_since_user + 1,
        route_streak=cycle.route_streak + 1 if route == cycle.streak_of else 1,
        streak_of=route,
        participants=participants,
    )


def closed_turn(state: State, turn: OrchestratorTurn, record: r.TurnClosed) -> OrchestratorTurn:
    """The open turn as it is kept once it is closed."""
    working = state.totals.working - turn.worked_before
    return replace(turn, is_completed=True, summary=record.summary, working=working)


@CYCLE.on(r.TurnClosed)
def _turn_closed(cycle: Cycle, record: r.TurnClosed, before: State) -> Cycle:
    turn = before.work.turn
    if turn is None:
        return cycle
    return replace(cycle, turns=of_cycle(cycle.turns, closed_turn(before, turn, record)))


# ---- files and costs -------------------------------------------------------------------------------------------------


@CYCLE.on(r.ToolCallCompleted)
def _call_returned(cycle: Cycle, record: r.ToolCallCompleted, before: State) -> Cycle:
    if record.run not in before.work.runs:
        return cycle
    if record.read:
        others = {path: seen for path, seen in cycle.read_files.items() if path not in record.read}
        cycle = replace(cycle, read_files=dict([*others.items(), *record.read.items()][-READ_FILES:]))
    if record.touched:
        others_lines = {path: lines for path, lines in cycle.lines.items() if path not in record.touched}
        cycle = replace(
            cycle,
            touched=(cycle.touched | frozenset(record.touched)).difference(record.unchanged),
            lines=dict([*others_lines.items(), *record.lines.items()][-LINES_KEPT:]),
        )
        if before.cycle.changed_by(record.touched, record.unchanged) and not is_inspected_later(before):
            cycle = replace(cycle, route_streak=0, streak_of=())
    return cycle


def is_inspected_later(state: State) -> bool:
    """Whether the workspace is compared once the turn is over, so that a write of the same bytes is no change."""
    return state.has_phases and state.cycle.phase is Phase.EXECUTE


def is_all_put_back(state: State, record: r.FilesUndone) -> bool:
    """Whether the files of an `/undo` count as changed no more.

    Where an earlier turn of the cycle changed something, they may be its files too, so nothing changes.
    """
    turns = state.cycle.turns
    return bool(record.restored_tree) and not any(turn.seq <= record.to and turn.has_effect for turn in turns)


@CYCLE.on(r.FilesUndone)
def _undone(cycle: Cycle, record: r.FilesUndone, before: State) -> Cycle:
    if not record.restored_tree:
        return cycle
    lines = {path: lines for path, lines in cycle.lines.items() if path not in record.files}
    cycle = replace(cycle, lines=lines)
    if not is_all_put_back(before, record):
        return cycle
    return replace(cycle, touched=cycle.touched - frozenset(record.files))


def spent(cycle: Cycle, record: r.Record, before: State) -> Cycle:
    """Add what a record cost."""
    usage = cost_of(record)
    if not usage.calls:
        return cycle
    cycle = replace(cycle, usage=cycle.usage + usage)
    return replace(cycle, talk_usage=cycle.talk_usage + usage) if before.is_talk else cycle


for _kind in COSTS:
    if _kind is not r.Routed:
        CYCLE.add(_kind, spent)


def settled_by(state: State, record: r.Routed) -> tuple[Settlement, ...]:
    """Of which messages the router says that nothing of them is left to be done."""
    if record.settled is not None:
        return record.settled
    late = state.requests if record.settles else ()
    return tuple(Settlement(message=message.seq, kind="thanks") for message in late if message.seq <= record.settles)


@CYCLE.on(r.Routed)
def _routed(cycle: Cycle, record: r.Routed, before: State) -> Cycle:
    return spent(cycle.settled(settled_by(before, record)), record, before)


@CYCLE.on(r.MessageWithdrawn)
def _withdrawn(cycle: Cycle, record: r.MessageWithdrawn, _: State) -> Cycle:
    if record.was_read:
        return cycle.blanked(record.message)
    return replace(cycle, messages=tuple(message for message in cycle.messages if message.seq != record.message))
