"""What is known of a conversation without its journal, and the journal made of it.

    conversation.json | an old file | the relays' thread -> Past -> ordinary records, closed by one `JournalRebuilt`

The records are put in the order of their times, so that the fold counts turns, stays and costs as it always does. Where
two facts do not fit together, because what was between them is lost, the way is filled in: every recorded transition
stays one the table has. (ADR 12.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import Usage
from tenex.core.phases import Phase, way
from tenex.core.records.rebuild import RecoveredPosition
from tenex.core.state.run import Completion, OrchestratorTurn

Message = r.MessageRecorded | r.CommandGiven | r.MessageSent
UNKNOWN: Final = "not known; regained"
"""The reason of a step that was not recorded."""
CUT_OFF: Final = "how it ended is not known"
RULES: Final = (
    "the rules of the workflow it was of: it goes on in phases; to run the workflow again, begin a new thread"
)
"""What no source but the journal holds of a workflow's conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredHistory:
    """All that a source has. The `seq` of its records and turns means nothing; they are in order."""

    id: ConversationId
    source: str
    title: str
    starter: PublicKey = PublicKey("")
    address: Mapping[str, Any] = field(default_factory=dict)
    agent: Slug = Slug("")
    """Which answers alone; "" for none."""
    started_at: Millis
    has_ended: bool = False
    messages: Sequence[Message] = ()
    phases: Sequence[Phase | None] = ()
    """Of each message the phase it was sent in, where that is known; as many as there are messages."""
    transitions: Sequence[r.PhaseTransition] = ()
    turns: Sequence[OrchestratorTurn] = ()
    waivers: Sequence[r.Waived] = ()
    spent: Mapping[Phase, Usage] = field(default_factory=dict)
    position: RecoveredPosition | None = None
    covered: int | None = None
    """The last record of the lost journal that this covers; None: all of it, or there was none."""
    seen: Sequence[EventId] = ()
    lost: Sequence[str] = ()
    forked_from: tuple[ConversationId, int, str] | None = None
    before: Sequence[r.Record] = ()
    """Of a workflow or a mission: what comes before the first message."""
    after: Sequence[r.Record] = ()
    """What comes after all the others: the positions of a workflow, a mission and agents with phases of their own."""
    waits_for: Literal["user", "mission"] = "user"


def decisions_of(past: RecoveredHistory, now: Millis) -> list[list[r.Record]]:
    """The records of a new journal, in decisions: nothing in flight, waiting for the user.

    A cycle that has ended in the source stays ended; everything else waits.
    """
    builder = _JournalBuilder(past)
    for item in _in_order(past, builder):
        builder.take(item)
    return builder.finish(past, now)


@dataclass(frozen=True, slots=True)
class _Item:
    """One fact on its way into the journal."""

    kind: Literal["message", "transition", "open", "done", "close"]
    at: Millis
    phase: Phase | None
    """The phase the conversation has to be in for it."""
    fact: Any
    turn: OrchestratorTurn | None = None


_WHILE_OPEN: Final = ("message", "done", "close", "transition", "open")
_WHILE_CLOSED: Final = ("transition", "open", "message", "done", "close")
"""Which fact of the same ms comes first: a turn that is open closes before the phase changes."""


def _in_order(past: RecoveredHistory, builder: "_JournalBuilder") -> Iterator[_Item]:
    """The three sequences as one, by time; each keeps its own order, whatever the clock did."""
    phases = past.phases or [None] * len(past.messages)
    queues = [
        [_Item("message", m.at, phase, m) for m, phase in zip(past.messages, phases, strict=True)],
        [_Item("transition", t.at, t.from_, t) for t in past.transitions],
        [item for turn in past.turns for item in _of_turn(turn)],
    ]
    heads = [0, 0, 0]
    while any(head < len(queue) for head, queue in zip(heads, queues, strict=True)):
        state = builder.state
        order = _WHILE_OPEN if state.turn is not None else _WHILE_CLOSED
        waiting = [(n, queue[heads[n]]) for n, queue in enumerate(queues) if heads[n] < len(queue)]
        number, item = min(
            waiting, key=lambda one: (one[1].at, one[1].phase not in (None, state.phase), order.index(one[1].kind))
        )
        heads[number] += 1
        yield item


def _of_turn(turn: OrchestratorTurn) -> Iterator[_Item]:
    at = turn.timestamp
    yield _Item("open", at, turn.phase, turn, turn)
    for done in turn.completions:
        at = max(at, done.at)
        yield _Item("done", at, None, done, turn)
    yield _Item("close", at, None, turn, turn)


class _JournalBuilder:
    """The journal that grows, and the state it leads to."""

    def __init__(self, past: RecoveredHistory) -> None:
        self.state = Conversation(id=past.id)
        self.records: list[r.Record] = []
        self._add(
            r.ConversationStarted(
                seq=0,
                at=past.started_at,
                id=past.id,
                title=past.title,
                starter=past.starter,
                address=past.address,
                agent=past.agent,
            )
        )
        phase = Phase.EXECUTE if past.agent else Phase.CHAT
        self._add(r.CycleStarted(seq=0, at=past.started_at, cycle=1, reason=UNKNOWN, phase=phase))
        for record in past.before:
            self._add(record)

    def take(self, item: _Item) -> None:
        """Put one fact into the journal."""
        if item.phase is not None:
            self._go_to(item.phase, item.at)
        match item.kind:
            case "message":
                self._add(
                    replace(item.fact, phase=self.state.phase) if isinstance(item.fact, r.MessageSent) else item.fact
                )
            case "transition":
                self._transition(item.fact)
            case "open":
                self._open(item.fact)
            case "done" if item.turn is not None:
                self._end(item.turn, item.fact)
            case _ if item.turn is not None:
                self._close(item.turn, item.at)

    def finish(self, past: RecoveredHistory, now: Millis) -> list[list[r.Record]]:
        """Add the `JournalRebuilt` and wait for the user; that is one decision, every other record one of its own."""
        before = len(self.records)
        for record in (*past.waivers, *past.after):
            self._add(record)
        seen = (EventId(past.id), *past.seen)  # the message that began it was answered, whatever else is unknown
        numbers = [int(turn.turn_id[5:]) for turn in past.turns if _is_counted(turn.turn_id)]
        self._add(
            r.JournalRebuilt(
                seq=0,
                at=now,
                source=past.source,
                missing=tuple(past.lost),
                known_events=tuple(dict.fromkeys(seen)),
                spent={phase.value: usage for phase, usage in past.spent.items() if usage.calls},
                turns=max(numbers, default=0),
                position=past.position,
                forked_from=past.forked_from,
            )
        )
        if past.has_ended:
            self._add(r.Ended(seq=0, at=now, reason=f"as {past.source} says"))
        else:
            self._add(r.Waiting(seq=0, at=now, reason=past.waits_for))
        return [*([record] for record in self.records[:before]), self.records[before:]]

    def _add(self, record: r.Record) -> None:
        placed = replace(record, seq=self.state.next_seq)
        self.state.apply(placed)
        self.records.append(placed)

    def _go_to(self, phase: Phase, at: Millis) -> None:
        """Enter a phase to which no record leads: by a new cycle, or by the shortest way the table has."""
        if phase is self.state.phase:
            return
        if phase is Phase.CHAT:  # every other way there is a transition that would have been recorded
            self._add(r.CycleStarted(seq=0, at=at, cycle=self.state.cycle + 1, reason=UNKNOWN))
            return
        for step in way(self.state.phase, phase):
            self._transition(_step(self.state.phase, step, at))

    def _transition(self, known: r.PhaseTransition) -> None:
        if known.from_ is known.to:
            return
        for step in way(known.from_, known.to)[:-1]:
            self._transition(_step(self.state.phase, step, known.at))
        self._add(replace(known, from_=self.state.phase, announce_at=known.at))
        if known.from_ is Phase.REFLECTION:
            self._add(r.CycleStarted(seq=0, at=known.at, cycle=self.state.cycle + 1, reason=known.reason))

    def _open(self, turn: OrchestratorTurn) -> None:
        self._add(
            r.TurnOpened(
                seq=0, at=turn.timestamp, turn_id=turn.turn_id, phase=turn.phase, agents=turn.agents, reason=turn.reason
            )
        )
        for agent in turn.agents:
            self._add(
                r.RunStarted(
                    seq=0,
                    at=turn.timestamp,
                    run=_run(turn.turn_id, agent),
                    agent=agent,
                    agent_name=agent,
                    pubkey=PublicKey(""),
                    warn_at=turn.timestamp,
                    close_at=turn.timestamp,
                )
            )

    def _end(self, turn: OrchestratorTurn, done: Completion) -> None:
        run = _run(turn.turn_id, done.agent)
        if run in self.state.runs:
            self._add(
                r.RunEnded(
                    seq=0,
                    at=done.at,
                    run=run,
                    outcome=done.outcome,
                    text=done.text,
                    summary=done.summary,
                    verdict=done.verdict,
                    error=done.error,
                )
            )

    def _close(self, turn: OrchestratorTurn, at: Millis) -> None:
        for run in list(self.state.runs):
            self._add(r.RunEnded(seq=0, at=at, run=run, outcome="stopped", error=CUT_OFF))
        done = self.state.turn.completions if self.state.turn is not None else ()
        words = "\n".join(f"{one.agent}: {one.summary or one.text or one.error}" for one in done)
        self._add(r.TurnClosed(seq=0, at=at, turn_id=turn.turn_id, summary=turn.summary or words))


def _run(turn: TurnId, agent: str) -> RunId:
    return RunId(f"{turn}.{agent}")


def _is_counted(turn: TurnId) -> bool:
    return turn.startswith("turn-") and turn[5:].isdecimal() and len(turn) < 20


def _step(from_: Phase, to: Phase, at: Millis) -> r.PhaseTransition:
    return r.PhaseTransition(
        seq=0,
        at=at,
        from_=from_,
        to=to,
        message=UNKNOWN,
        agent_pubkey=PublicKey(""),
        agent_name="",
        reason=UNKNOWN,
        summary="",
        announce_at=at,
    )
