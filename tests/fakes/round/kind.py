"""Rounds as a kind of conversation."""

from collections.abc import Iterator

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.ids import Slug
from tenex.core.inbox.claims import is_answer
from tenex.core.inbox.commands import activity
from tenex.core.inbox.decide import record_message, report_elsewhere
from tenex.core.kind import Kind
from tenex.core.kind_format import KindShare
from tenex.core.people.decider import BY_RULE
from tenex.core.record import Record
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.text.lines import PARTNER, Place, Row
from tenex.core.transaction import Transaction
from tenex.core.work.run import Run
from tenex.core.work.turns import advance, open_turn, same_failure, spent, too_many_turns, wait_at_limit

from .config import NAME, rounds_of
from .records import RoundOpened
from .reducers import ROUND
from .state import RoundPart, round_of


class RoundKind(Kind):
    """A conversation that a round was opened in."""

    name = NAME
    state = RoundPart
    records = (RoundOpened,)
    reducers = ROUND

    def owns(self, state: State) -> bool:
        return round_of(state) is not None

    def begins(self, policy: Policy, slug: Slug) -> bool:
        return slug in rounds_of(policy)

    def continues(self, state: State, record: Record) -> bool:
        return isinstance(record, RoundOpened)

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        if round_of(transaction.state) is None:
            chosen = rounds_of(transaction.policy)[called]
            transaction.add(RoundOpened, round=called, agents=chosen.agents, times=chosen.times)
        elif called:
            report_elsewhere(transaction, called)
        wrote = record_message(transaction, signal)
        if not is_answer(transaction, signal, wrote):
            advance(transaction)

    def next(self, transaction: Transaction) -> None:
        part = round_of(transaction.state)
        speaker = part.next_speaker if part is not None else None
        limit = spent(transaction) or same_failure(transaction) or too_many_turns(transaction)
        if speaker is None or speaker not in transaction.policy.routable:
            reason = "all have spoken" if speaker is None else f"{speaker} is not here any more"
            transaction.add(r.Ended, reason=reason, decided_by=BY_RULE)
        elif limit is not None:
            wait_at_limit(transaction, *limit)
        else:
            open_turn(transaction, (speaker,), "it is their turn", BY_RULE)

    def guide(self, state: State, run: Run) -> tuple[str, str]:
        part = round_of(state)
        return "conversation", part.round if part is not None else ""

    def status(self, transaction: Transaction) -> list[str]:
        part = round_of(transaction.state)
        speaker = part.next_speaker if part is not None else None
        return [f"Next: {speaker}", *activity(transaction, "All have spoken.")]

    def rows(self, record: Record, place: Place) -> Iterator[Row]:
        if isinstance(record, RoundOpened):
            place[PARTNER] = record.round
            yield Row("phase", record.round, ", ".join(record.agents))

    def share(self, state: State) -> KindShare | None:
        part = round_of(state)
        if part is None:
            return None
        shown = {"spoken": part.spoken, "next": part.next_speaker}
        where = f"{NAME}: {part.next_speaker}" if part.next_speaker is not None else ""
        return KindShare(name=NAME, view={"agents": list(part.agents), **shown}, status=shown, where=where)
