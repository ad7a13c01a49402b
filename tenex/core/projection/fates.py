"""What became of each message of a user. No word is without an answer to that once its cycle has ended.

    answered       an agent was shown it in this turn, and finished
    carried_out    so, and changed something after it was shown the message
    unfinished     the agents who were shown it failed or were stopped
    thanks, waiver the router took it so, on these words, which code has checked
    answer         it answered a question of ours
    correction     it corrected words that agents had read: they read it, and nothing was left to be done
    next_cycle     it came where nothing could be carried out any more: the next cycle begins with it
    stopped        a user stopped the work, or ended the cycle, before an agent was shown it
    deleted        its author deleted it
    open           it waits for its turn

Only what the router says of thanks, waivers and what a gate carried out is recorded (`Message.settlement`); all else
follows from which turns were shown the message. A message that a later cycle began with counts as that cycle's.
"""

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal

from tenex.core.ids import TurnId
from tenex.core.inbox.message import DELETED, Message, SettledAs
from tenex.core.phases import AFTER_WORK
from tenex.core.state import State
from tenex.core.work.turn import OrchestratorTurn

FateKind = (
    SettledAs | Literal["answered", "unfinished", "answer", "correction", "next_cycle", "stopped", "deleted", "open"]
)

_SEQ: Final = attrgetter("seq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a message; `words` are those on which that rests, and `turn` is where it happened."""

    kind: FateKind
    turn: TurnId | None = None
    words: str = ""


class Fates:
    """What became of the messages of a conversation."""

    def __init__(self, state: State) -> None:
        """Read it from the state, with what is known of the turns of cycles that are over."""
        history = state.history
        past = [turn for turn in history.turns if not turn.source] if history is not None else [*state.cycle.turns]
        self._turns = [*past, *([state.work.turn] if state.work.turn is not None else [])]
        # of a conversation that was imported or rebuilt, messages are there whose turns are not
        is_whole = not state.identity.imported and len(self._turns) >= state.totals.turn_count
        self._has_all_turns = is_whole and history is not None and not history.turns_before
        self._state = state
        self._requests = {message.seq for message in state.requests}
        self._settled = {message.seq: message for message in state.cycle.messages if message.is_settled}

    def of(self, message: Message) -> Fate | None:
        """What became of a message; None for one of ours, and where the turns that would tell are not known.

        In a conversation whose messages are for a kind, such as a mission, no turn tells it.
        """
        if message.role is None or self._state.reads_messages or self._state.has_begun_kind:
            return None
        message = self._settled.get(message.seq, message)
        if message.text == DELETED:
            return Fate(kind="deleted")
        settlement = message.settlement
        if settlement is not None:
            return Fate(kind=settlement.kind, turn=settlement.turn, words=settlement.words)
        if message.is_correction:
            return Fate(kind="correction")
        if message.is_answer:
            return Fate(kind="answer")
        if message.seq in self._requests:
            is_late = self._state.cycle.status == "ended" or self._state.cycle.phase in AFTER_WORK
            return Fate(kind="next_cycle" if is_late else "open")
        return self._by_turns(message)

    def _by_turns(self, message: Message) -> Fate | None:
        place = bisect_right(self._turns, message.seq, key=_SEQ)
        begins = max(0, place - 1)  # the turn that was open when it came, or the next one
        shown = [turn for turn in self._turns[begins:] if turn.cycle == message.cycle and turn.shown >= message.seq]
        turn = next((turn for turn in shown if turn.phase not in AFTER_WORK), shown[0] if shown else None)
        if turn is not None:
            return Fate(kind=_kind(turn, message), turn=turn.turn_id)
        is_old = any(not one.shown and one.is_completed for one in self._turns[begins:] if one.cycle == message.cycle)
        is_known = not is_old and (self._has_all_turns or begins > 0)
        is_over = message.cycle != self._state.cycle.number or message.seq <= self._state.work.stopped
        if not is_known:
            return None
        return Fate(kind="stopped" if is_over or self._state.cycle.status == "ended" else "open")


def _kind(turn: OrchestratorTurn, message: Message) -> FateKind:
    if not any(done.is_finished for done in turn.completions):
        return "unfinished"
    return "carried_out" if turn.shown_at_change >= message.seq else "answered"
