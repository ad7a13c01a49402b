"""A rollback: what is open is stopped, the record, and one message with the new position."""

from collections.abc import Sequence

from tenex.core.conversation import Conversation, new_conversation
from tenex.core.cycle.records import CycleStarted
from tenex.core.delivery.outgoing import notify
from tenex.core.ids import ConversationId, TurnId
from tenex.core.inbox.commands import stop
from tenex.core.kind import all_kinds, kind_of_conversation
from tenex.core.rebuild.reducers import brought
from tenex.core.record import Record
from tenex.core.records import ConversationImported
from tenex.core.signals import RollBack
from tenex.core.state import State, parts_of
from tenex.core.transaction import Transaction
from tenex.core.work.records import RunEnded

from .whole import RolledBack, of_then, undone

NAMED = 12
"""Turns named in the message: beyond that only how many they are."""


def state_at(conversation: ConversationId, records: Sequence[Record], to: int) -> Conversation:
    """Where a conversation was after a record, or as soon as the turn it opens or closes was open or closed.

    A turn is opened and closed by several records of one decision, which was never kept by half; so is a run's last
    message sent and the run ended, and what a kind of conversation names (`Kind.continues`, `Kind.is_between`).
    `records` are all there are, from seq 1. Of those before an import the state has what the import takes over.
    """
    state = new_conversation(conversation)
    for record in records:
        is_whole = (
            (state.work.turn is None or state.work.runs) and not _is_between(state) and not _goes_on(state, record)
        )
        if record.seq > to and is_whole:
            break
        state.apply(record)
    following = (record for record in records if record.seq >= state.next_seq)
    if any(isinstance(record, ConversationImported) for record in following):
        at_import = brought(state, state.identity.updated_at, state.next_seq - 1)
        state = Conversation(*parts_of(at_import))
    return state


def _goes_on(state: State, record: Record) -> bool:
    """Whether a record belongs to the one before it: the last message of an agent, or what began a conversation."""
    match record:
        case RunEnded():
            return True
        case CycleStarted():
            return state.cycle.status == "new"
        case _:
            return any(kind.continues(state, record) for kind in all_kinds())


def _is_between(state: State) -> bool:
    """Whether the last record is one half of a step of a kind."""
    return any(kind.is_between(state) for kind in all_kinds())


def roll_back(transaction: Transaction, signal: RollBack) -> None:
    """Go back, or give no record where there is nothing to go back from; the caller has been informed before."""
    state = transaction.state
    if not 1 <= signal.to < state.next_seq - 1 or signal.then.id != state.id or signal.then.next_seq != signal.to + 1:
        return
    gone = list(undone(state.history, signal.to, state.next_seq)) if state.history is not None else []
    if state.work.turn is not None:
        gone.append(state.work.turn.turn_id)
    if state.work.turn is not None or state.router.question is not None or state.cycle.status == "active":
        stop(transaction, signal.by, quiet=True)
    carried = of_then(signal.then, transaction.state, transaction.now, with_files=bool(signal.tree))
    transaction.add(
        RolledBack,
        to=signal.to,
        by=signal.by,
        reason=signal.reason,
        state=carried,
        restored_tree=signal.tree,
        previous_tree=signal.was,
    )
    notify(transaction, _message(transaction, signal, gone))


def _message(transaction: Transaction, signal: RollBack, gone: Sequence[TurnId]) -> str:
    state = transaction.state
    where = kind_of_conversation(state).position(state)
    undone_now = "Nothing that a turn did is undone."
    if gone:
        named = ", ".join(gone) if len(gone) <= NAMED else f"{gone[0]} to {gone[-1]}, {len(gone)} turns"
        undone_now = f"What came after it counts no more: {named}."
    why = f" ({signal.reason})" if signal.reason else ""
    go_on = "Write to go on from there, or `/continue`."
    if state.cycle.status == "ended":
        go_on = "Write to begin again."
    elif state.memory.last_turn is not None and any(
        done.outcome == "stopped" for done in state.memory.last_turn.completions
    ):
        go_on = "Write to go on from there; `/retry` runs the last turn again, which counts as stopped."
    files = f" {signal.files}" if signal.files else ""
    return f"{signal.by} went back to record {signal.to}{why}: we are {where}. {undone_now}{files} {go_on}"
