"""What conversations have taken: time, turns, tokens and money, by phase, by model and by agent.

Every record that holds a cost is counted, once, in the order of the journal: so the sums are to the token
and to the last digit those of `conversation.json`, whatever failed, was refused or was cut off by a restart between.
"""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from tenex.core import records as r
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.history.facts import Fact, facts_of
from tenex.core.ids import ConversationId, Millis
from tenex.core.kind import all_kinds
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.projection import partner
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.totals.reducers import is_work, passed
from tenex.core.work.run import CallState

from .view_json import UNNAMED, usage_json

T = TypeVar("T", "Spending", "PhaseStats", "Stats")


@dataclass(slots=True, kw_only=True)
class Spending:
    """What some model calls cost."""

    usage: Usage = NO_USAGE
    unpriced: int = 0
    """Calls whose price is not known: the cost is too low by theirs."""

    def add(self, usage: Usage) -> None:
        """Take one record's cost in."""
        self.usage = self.usage + usage
        if usage.cost_usd is None and usage.input_tokens + usage.output_tokens:
            self.unpriced += usage.calls


@dataclass(slots=True, kw_only=True)
class PhaseStats:
    """What a phase has taken."""

    visits: int = 0
    """Times it was entered, a stay that goes on included."""
    duration: int = 0
    """ms from entering to leaving it."""
    working: int = 0
    """ms of these in which an agent or the router worked; the rest waited for a user."""
    turns: int = 0
    spending: Spending = field(default_factory=Spending)


@dataclass(slots=True, kw_only=True)
class Stats:
    """What one conversation has taken, or several."""

    conversations: int = 0
    cycles: int = 0
    ended: int = 0
    """Cycles that came to their end."""
    messages: int = 0
    """Of users."""
    turns: int = 0
    tool_calls: int = 0
    tool_failures: int = 0
    tool_refusals: int = 0
    rejections: int = 0
    """Answers of the router that were refused."""
    useless: int = 0
    """Answers of agents' models that could not be used."""
    failures: int = 0
    """Tries of model calls that failed, paid for or not."""
    restarts: int = 0
    duration: int = 0
    working: int = 0
    spending: Spending = field(default_factory=Spending)
    phases: dict[Phase, PhaseStats] = field(default_factory=dict)
    kinds: dict[str, "Counter[str]"] = field(default_factory=dict)
    """Sums of kinds of conversation, by kind and name."""
    places: dict[str, PhaseStats] = field(default_factory=dict)
    """The same by `State.location_label`: conversations without phases are added up by agent or workflow."""
    models: dict[str, Spending] = field(default_factory=dict)
    agents: dict[str, Spending] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """All model calls."""
        return self.spending.usage

    @classmethod
    def of(cls, conversation: ConversationId, records: Iterable[r.Record]) -> "Stats":
        """What the conversation of these records has taken, which begin with its first, or with a snapshot.

        What came before a snapshot is not counted.
        """
        return count(conversation, records).stats

    def add(self, c: Conversation, record: r.Record) -> None:
        """Count a record that the conversation has not taken in yet."""
        self._pass(c, record)
        if isinstance(record, ConversationForked | StateSnapshot):  # it goes on in one that began elsewhere
            self.cycles += record.state.cycle.status != "ended"
        for fact in facts_of(record):
            self._count(c, fact)
        self._count_of_kinds(record)

    def enter(self, phase: Phase) -> None:
        """Count a visit."""
        self._phase(phase).visits += 1

    def place(self, label: str) -> None:
        """Name the sums of phases by where the conversation is (`State.location_label`)."""
        self.places = {}
        for phase, found in self.phases.items():
            if not partner(label):
                self.places[str(phase)] = deepcopy(found)
            elif found.turns or found.duration:  # not the phase in which every conversation begins
                _merge(self.places.setdefault(label, PhaseStats()), found)

    def _pass(self, c: Conversation, record: r.Record) -> None:
        """Count the time since the last record, by the conversation's state in it."""
        if isinstance(record, ConversationForked | StateSnapshot):
            self._phase(record.state.cycle.phase).visits = 1
            return
        phase = self._phase(c.cycle.phase)
        if isinstance(record, r.ConversationStarted):
            phase.visits = 1
            phase.duration = 0  # functions of an operator may have been asked before whether it begins
            self.duration = 0
            return
        duration = passed(c, record)
        phase.duration += duration
        self.duration += duration
        if is_work(c, record):
            phase.working += duration
            self.working += duration

    def _phase(self, phase: Phase) -> PhaseStats:
        return self.phases.setdefault(phase, PhaseStats())

    def _count(self, c: Conversation, fact: Fact) -> None:
        match fact.kind, fact.outcome:
            case "turn", "began":
                self.turns += 1
                self._phase(fact.phase or c.cycle.phase).turns += 1
            case ("tool", "began") | ("run", "called"):  # a sub-agent is called like a tool
                self.tool_calls += 1
            case "tool", "failed" if _has_run(c, fact):
                self.tool_failures += 1
            case "tool", "refused":
                self.tool_refusals += 1
            case "route", "rejected" | "stale":
                self.rejections += 1
            case "route" | "model", "unavailable":
                self.failures += 1
            case "model", "refused" if fact.usage.calls:
                self.useless += 1
            case "message", "received":
                self.messages += 1
            case "cycle", "began":
                self.cycles += 1
            case "restart", _:
                self.restarts += 1
        self._spend(c.cycle.phase, fact)

    def _count_of_kinds(self, record: r.Record) -> None:
        for kind in all_kinds():
            counts = kind.counts(record)
            if counts:
                self.kinds.setdefault(kind.name, Counter()).update(counts)

    def _spend(self, phase: Phase, fact: Fact) -> None:
        if fact.usage.calls:
            for spending in (
                self.spending,
                self._phase(phase).spending,
                self.models.setdefault(fact.model or UNNAMED, Spending()),
                self.agents.setdefault(fact.spender, Spending()),
            ):
                spending.add(fact.usage)


def _has_run(c: Conversation, fact: Fact) -> bool:
    """Whether the call was let through; one that was closed with its run may never have begun."""
    run = c.work.runs.get(fact.run) if fact.run is not None else None
    call = run.find(fact.call) if run is not None and fact.call is not None else None
    return call is not None and call.state in (CallState.PERMITTED, CallState.LINKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a conversation has taken up to a record, and what is needed to count on from there."""

    stats: Stats
    seq: int = 0
    """Of the last record that is counted; 0 for none."""
    at: Millis = Millis(0)
    """The time of that record."""
    ended_cycle: int = 0
    """The newest cycle that has ended: a message after the end of a workflow ends no other."""


def count(conversation: ConversationId, records: Iterable[r.Record], before: Counted | None = None) -> Counted:
    """Count the records of a conversation; with `before` only those after what that has counted.

    The records begin with the first of the conversation or with a snapshot, and leave out none after that.
    """
    start = before or Counted(stats=Stats(conversations=1))
    stats = deepcopy(start.stats)
    ended_cycle = start.ended_cycle
    seq = start.seq
    at = start.at
    c = new_conversation(conversation, history=None)
    for record in records:
        if record.seq <= start.seq:
            c.apply(record)
            continue
        if isinstance(record, r.Ended):
            stats.ended += c.cycle.number != ended_cycle
            ended_cycle = c.cycle.number
        elif isinstance(record, RolledBack):
            ended_cycle = 0
        stats.add(c, record)
        phase = c.cycle.phase
        c.apply(record)
        if isinstance(record, r.ConversationImported):  # nothing of what is before it was done or paid here
            phase = c.cycle.phase
            duration = c.identity.updated_at - c.totals.phase_started_at
            stats = Stats(conversations=1, duration=duration)
            stats.phases[phase] = PhaseStats(visits=1, duration=duration)
        # by a transition, because a new cycle begins in chat, or because the conversation was rolled back
        if c.cycle.phase is not phase and not isinstance(record, ConversationForked | StateSnapshot):
            stats.enter(c.cycle.phase)
        seq = record.seq
        at = record.at
    stats.place(c.location_label)
    return Counted(stats=stats, seq=seq, at=at, ended_cycle=ended_cycle)


def total(each: Iterable[Stats]) -> Stats:
    """What all of these have taken together, added up in their order."""
    found = Stats()
    for stats in each:
        _merge(found, stats)
    return found


def _merge(ours: T, theirs: T) -> None:
    """Add all numbers of one sum to those of another of the same type."""
    if isinstance(ours, Counter) and isinstance(theirs, Counter):
        ours.update(theirs)
        return
    for field_ in fields(ours):
        mine = getattr(ours, field_.name)
        other = getattr(theirs, field_.name)
        match mine:
            case dict():
                for name, found in other.items():
                    _merge(mine.setdefault(name, type(found)()), found)
            case Spending():
                _merge(mine, other)
            case _:
                setattr(ours, field_.name, mine + other)


def as_json(stats: Stats) -> dict[str, Any]:
    """The same for programs; the names are those of `conversation.json` where it has them."""
    return {
        "conversations": stats.conversations,
        "cycles": stats.cycles,
        "cyclesEnded": stats.ended,
        "messages": stats.messages,
        "turns": stats.turns,
        "restarts": stats.restarts,
        "durationMs": stats.duration,
        "workingMs": stats.working,
        "toolCalls": stats.tool_calls,
        "toolFailures": stats.tool_failures,
        "toolRefusals": stats.tool_refusals,
        "routerRejections": stats.rejections,
        "uselessAnswers": stats.useless,
        "failedTries": stats.failures,
        **{kind: dict(counts) for kind, counts in stats.kinds.items()},
        "usage": _spending(stats.spending),
        "phases": {
            phase: {
                "visits": found.visits,
                "durationMs": found.duration,
                "workingMs": found.working,
                "turns": found.turns,
                "usage": _spending(found.spending),
            }
            for phase, found in sorted(stats.phases.items(), key=lambda item: list(Phase).index(item[0]))
        },
        "models": _by_cost(stats.models),
        "agents": _by_cost(stats.agents),
    }


def _by_cost(spendings: dict[str, Spending]) -> dict[str, Any]:
    return {name: _spending(spending) for name, spending in dearest_first(spendings)}


def dearest_first(spendings: dict[str, Spending]) -> list[tuple[str, Spending]]:
    """The costliest first; where nothing has a price, who used most tokens."""

    def weight(item: tuple[str, Spending]) -> tuple[float, int, str]:
        usage = item[1].usage
        return (-(usage.cost_usd or 0.0), -(usage.input_tokens + usage.output_tokens), item[0])

    return sorted(spendings.items(), key=weight)


def _spending(spending: Spending) -> dict[str, Any]:
    return {**usage_json(spending.usage), "unpricedCalls": spending.unpriced}
