"""What must hold of any simulated world once it has come to rest: the promise, in assertions."""

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import ConversationId
from tenex.core.pending import pending
from tenex.core.ports import UnsignedEvent
from tenex.core.totals.costs import cost_of
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import VIEW
from tenex.store.stats import Stats, as_json
from tenex.store.verify import contradictions
from tenex.store.view_json import render
from tenex.workflows.missions import records as m
from tenex.workflows.missions.state import mission_of
from tests.fakes.agent_phases import check_moves
from tests.fakes.scenario import RELAY, check_invariants
from tests.properties.earned import Earned

from .world import OTHER_RELAY, FaultyWorld


@dataclasses.dataclass
class RecordedConversation:
    """A conversation as `check_invariants` looks at a scenario."""

    journal: list[tuple[r.Record, ...]]
    conversation: Conversation

    def refold(self) -> Conversation:
        return fold(self.conversation.id, [record for decision in self.journal for record in decision])


def judge(world: FaultyWorld) -> None:
    """Look at every conversation, then at all of them together."""
    received: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for name in world.conversations():
        records = world.on_disk(name)
        received.update(rec.event_id for rec in records if isinstance(rec, r.MessageRecorded | r.CommandGiven))
        words = words_of(records)
        sent.update(event.id for parts in words.values() for event in parts)
        _judge_one(world, name, records)
        for parts in words.values():
            _is_there_once(world, parts)
    assert received.keys() - world.edits.keys() == world.events.keys(), "a message was lost"
    assert set(received.values()) <= {1}, "a message was taken in twice"
    assert set(sent.values()) <= {1}, "two words have one event id"
    notices = {key for key, event in world.published.items() if is_notice(event)}
    assert world.published.keys() - notices <= sent.keys(), "something was sent that no journal holds"
    once = {key: count for key, count in world.calls.items() if key.startswith(("send ", "once ")) and count > 1}
    assert not once, f"what may run only once ran again: {once}"
    assert world.workspace is None or not world.workspace.running, f"a check still runs: {world.workspace.running}"


def words_of(records: Iterable[r.Record]) -> dict[int, list[UnsignedEvent]]:
    """The events of each message, and after them those with a new date."""
    words: dict[int, list[UnsignedEvent]] = {}
    for rec in records:
        if isinstance(rec, r.MessageSent):
            words[rec.seq] = list(rec.events)
        if isinstance(rec, r.Delivered) and rec.again is not None:
            words[rec.message].append(rec.again)
    return words


def _is_there_once(world: FaultyWorld, parts: Sequence[UnsignedEvent]) -> None:
    """One event of a message is on relays: the first, or one with a new date; never both."""
    there = {event.id for event in parts for relay in (RELAY, OTHER_RELAY) if (event.id, relay) in world.taken}
    assert len(there) == min(1, len(parts)), f"{len(there)} events of one message can be read: {parts}"
    if len(parts) == 1:
        assert (parts[0].id, RELAY) in world.taken or world.dates is not None, "words were journaled and not published"


def is_notice(event: UnsignedEvent) -> bool:
    """Whether it shows a user that their message cannot be journaled: the one thing sent that no journal holds."""
    return any(tag[:2] in (("error", "storage"), ("error", "internal")) for tag in event.tags)


def _judge_one(world: FaultyWorld, name: str, records: list[r.Record]) -> None:
    state = fold(ConversationId(name), records)
    assert not list(contradictions(ConversationId(name), records))
    check_invariants(RecordedConversation([(record,) for record in records], state))  # type: ignore[arg-type]
    assert state.cycle.status in ("waiting", "ended"), f"{name[-2:]} is {state.cycle.status} at rest"
    assert not pending(state), f"{name[-2:]}: {list(pending(state))} at rest"
    _each_once(records)
    _steps(records, state)
    _completions(state)
    _subagents(records)
    check_moves(ConversationId(name), records, world.edges)
    _outcomes(world, records)
    _money(world, name, records)
    _deadlines(world, name, records)
    _dates(world, records)
    _ends(world, records)
    _text(world, name, records, state)


def _each_once(records: list[r.Record]) -> None:
    """Each run ends once, each call has one result, each agent of a turn one completion."""
    ended = Counter(rec.run for rec in records if isinstance(rec, r.RunEnded))
    started = Counter(rec.run for rec in records if isinstance(rec, r.RunStarted))
    assert ended == started, "a run began or ended twice, or never"
    results = Counter(
        (rec.run, rec.call) for rec in records if isinstance(rec, r.ToolCallCompleted | r.ToolCallRejected)
    )
    assert set(results.values()) <= {1}, "a call has two results"
    warned = Counter(rec.run for rec in records if isinstance(rec, r.RunWarned))
    assert set(warned.values()) <= {1}, "a user was warned twice of one run"
    delivered = Counter((rec.message, rec.part, rec.relay) for rec in records if isinstance(rec, r.Delivered))
    assert set(delivered.values()) <= {1}, "a delivery was noted twice"


def _steps(records: list[r.Record], state: Conversation) -> None:
    """Each step of a mission has one result, and its state and its result are what those that returned made of it."""
    begun = [number for number, rec in enumerate(records) if isinstance(rec, m.MissionOpened)]
    assert not begun or mission_of(state) is not None
    for number, until in itertools.pairwise([*begun, len(records)]):
        run = records[number:until]
        permitted = Counter(rec.step for rec in run if isinstance(rec, m.StepStarted))
        returned = [rec for rec in run if isinstance(rec, m.StepCompleted)]
        assert Counter(rec.step for rec in returned) <= permitted, "a step has two results"
        late = [rec for rec in run if isinstance(rec, m.NodeCompleted) and rec.kind == "TimedOut"]
        assert permitted.total() - len(returned) <= len(late), "a step has no result, though its node had the time"
        ends = [rec for rec in run if isinstance(rec, m.MissionEnded)]
        assert len(ends) == 1, "a mission never ended, or twice"
        assert ends[0].outcome != "finished" or ends[0].result == sum(rec.ok for rec in returned)


def _completions(state: Conversation) -> None:
    """Each agent of a turn is counted once."""
    assert state.history is not None
    for turn in state.history.turns:
        assert sorted(done.agent for done in turn.completions) == sorted(turn.agents), (
            "a completion is not counted once"
        )


def _subagents(records: list[r.Record]) -> None:
    """Who is called begins after its caller and ends before it, and its call has its end as the result."""
    begun = {rec.run: rec for rec in records if isinstance(rec, r.RunStarted)}
    ended = {rec.run: rec.seq for rec in records if isinstance(rec, r.RunEnded)}
    returned = {(rec.run, rec.call): rec.seq for rec in records if isinstance(rec, r.ToolCallCompleted)}
    for run, start in begun.items():
        if start.parent is None or start.call is None:
            continue
        assert begun[start.parent].seq < start.seq < ended[run] < ended[start.parent], f"{run} outlived its caller"
        assert start.seq < returned[start.parent, start.call] < ended[start.parent], f"the call of {run} has no result"


def _outcomes(world: FaultyWorld, records: list[r.Record]) -> None:
    """What is noted of a relay is what it sent: a fault of ours is no refusal of its."""
    words = words_of(records)
    for rec in records:
        if isinstance(rec, r.Delivered):
            known = world.taken if rec.accepted else world.refused
            assert (words[rec.message][rec.part].id, rec.relay) in known, f"{rec.relay} never reported it: {rec}"


def _money(world: FaultyWorld, name: str, records: list[r.Record]) -> None:
    """What models were paid is reported once; none of it is missing but what a death cut off."""
    reported = Counter(cost_of(rec).input_tokens for rec in records if cost_of(rec).calls)
    assert set(reported.values()) <= {1}, "what a model was paid is reported twice"
    assert all(world.paid[tokens][0] == name for tokens in reported), "no one was paid that"
    paid_here = {tokens for tokens, paid in world.paid.items() if paid == (name, world.lives)}
    assert paid_here <= reported.keys(), f"what a model was paid is not reported: {paid_here - reported.keys()}"


def _deadlines(world: FaultyWorld, name: str, records: list[r.Record]) -> None:
    """No one is called late whose work did not hang or was put aside, and nothing expires before its time."""
    late = {(name, rec.run) for rec in records if isinstance(rec, r.RunEnded) and rec.outcome == "timed_out"}
    hung = {(name, world.runs[key]) for key in world.hung & world.runs.keys() if key.startswith(f"{name}:")}
    assert world.bugs is not None or late <= hung, f"{late - hung} were given up though nothing of theirs hung"
    accepted: dict[int, float] = {}
    for rec in records:
        moment = world.moments.get((name, rec.seq))
        if moment is None:
            continue
        if isinstance(rec, r.Delivered) and rec.accepted:
            accepted.setdefault(rec.message, moment)
        elif isinstance(rec, r.OutboxExpired) and rec.message in accepted:
            days = (moment - accepted[rec.message]) / 86_400
            assert days > 2.99, f"given up after {days:.2f} days"
            assert days < 3.5, f"given up only after {days:.2f} days"


def _dates(world: FaultyWorld, records: list[r.Record]) -> None:
    """Our words are dated in their order, unless the clock was set back between."""
    dates = [event.created_at for rec in records if isinstance(rec, r.MessageSent) for event in rec.events]
    backwards = sum(later <= earlier for earlier, later in itertools.pairwise(dates))
    assert backwards <= sum(by < 0 for by in world.steps), f"dated backwards {backwards} times"


def _ends(world: FaultyWorld, records: list[r.Record]) -> None:
    """No end and no gate is unearned, and one that says "Done." is true of the workspace it was said of."""
    earned = Earned()
    words = ""
    for record in records:
        earned.follow((record,))
        if isinstance(record, r.MessageSent):
            words = record.text
        elif isinstance(record, r.Ended) and words.startswith("Done."):
            _is_true(world, earned)
        elif isinstance(record, r.CycleStarted):
            words = ""


def _is_true(world: FaultyWorld, earned: Earned) -> None:
    """No check is worse than before the work, by what the workspace would say of it."""
    seen = earned.inspection
    if seen is None or world.workspace is None:
        return
    for name in seen.checks:
        result = earned.results.get((name, seen.tree))
        assert result is not None, f"“Done.”, and {name} was not run on {seen.tree}"
        if result.outcome in ("uncontained", "changed"):
            continue  # it was not known, and the end says so
        now = world.workspace.result(name, seen.tree)
        then = world.workspace.result(name, seen.base)
        is_worse = now.outcome != "passed" and (now.outcome != then.outcome or not {*now.failed} <= {*then.failed})
        assert not is_worse, f"“Done.”, with {name} worse than before: {now}"


def _text(world: FaultyWorld, name: str, records: list[r.Record], state: Conversation) -> None:
    """The files state what the records state, and no number in them is nonsense."""
    data = CONVERSATION.encode_decisions([[record] for record in records])
    again, _, fault = CONVERSATION.decode_lines(data)
    assert fault is None
    assert again == records
    shown = json.loads((world.root / name / VIEW).read_bytes())
    assert shown == json.loads(render(state)), "the view is not what the journal states"
    assert all(number >= 0 for number in _numbers(as_json(Stats.of(ConversationId(name), records))))
    assert all(number >= 0 for number in _numbers(shown["phaseMetrics"]))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    return [value] if isinstance(value, int | float) else []
