"""What the daemon has made of an answer, read from the records that it has written since.

An answer is an event like any client's: that a relay has taken it says nothing. So a page shows what became of it, and
that is a success only where a record says that it decided what was asked.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tenex.core import records as r
from tenex.operations.asks import Kind
from tenex.workflows.phases import records as p

DECIDE: Final[frozenset[Kind]] = frozenset({"question", "approval"})
"""What stays open until a record says that it was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an answer, as a sentence."""

    tone: Literal["good", "bad", "plain"]
    text: str


NOT_SEEN: Final = Outcome(
    tone="plain",
    text="It is at the relay, but no effect of it was seen yet. The story shows what becomes of it.",
)
BEGUN: Final = Outcome(tone="good", text="The conversation has begun.")
NO_DAEMON: Final = Outcome(
    tone="plain", text="It is at the relay. No daemon is running: it is read once one is started."
)


def outcome_of(events: Collection[str], kind: Kind, records: Sequence[r.Record]) -> Outcome | None:
    """What became of an answer to something of that kind; None where these records do not hold it.

    `events` are the ids of the answer's events.
    """
    own = list(_of_answer(events, records))
    if not own:
        return None
    said = " ".join(record.text for record in own if isinstance(record, r.MessageSent) and record.run is None)
    decided = next(filter(None, map(_decided, own)), "")
    if decided:
        return Outcome(tone="good", text=decided if not said else f"{decided} {said}")
    if kind in DECIDE:
        asked_again = (
            record.text for record in own if isinstance(record, r.MessageSent) and record.purpose == "question"
        )
        why = said or next(asked_again, "") or "It was read as a message to the agents."
        return Outcome(tone="bad", text=f"Nothing is decided: what was asked is still open, or was over before. {why}")
    return Outcome(tone="good", text=said or "The daemon has read it.")


def _of_answer(events: Collection[str], records: Sequence[r.Record]) -> Iterator[r.Record]:
    """The records from that of the answer to that of the next message, or to the work that goes on with it."""
    is_own = False
    for record in records:
        if isinstance(record, r.MessageRecorded | r.CommandGiven | r.ApprovalAnswered):
            is_own = record.event_id in events
        elif isinstance(record, r.ToolCallStarted | r.ToolCallRejected | r.ModelResponded | r.RunEnded):
            is_own = False  # what is said from here on is about the work
        if is_own:
            yield record


def _decided(record: r.Record) -> str:
    """What a record of the answer decides, as a sentence; "" for nothing."""
    match record:
        case r.ApprovalAnswered(outcome="yes"):
            return "Allowed. The agent goes on with it."
        case r.ApprovalAnswered(outcome="no", reason=reason):
            return f"Refused. The agent goes on without it{' and reads your reason' if reason else ''}."
        case r.QuestionAnswered(name=name):
            return f"Your answer is there, {name}." if name else "Your answer is there."
        case p.PlanApproved():
            return "The plan is approved."
        case p.Waived():
            return "That is skipped in this cycle."
        case _:
            return ""
