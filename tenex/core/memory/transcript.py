"""What an agent is shown of a conversation when its run begins, chosen within a budget.

    what was earlier, in short | messages, oldest first | the hand-off and the agent's part

The first two are the window: it is the same for every run, and only grows, until it is full. Then a part of it is left
out at once, so that requests of consecutive runs begin with the same bytes, which providers cache (ADR 34).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenex.core.conversation import Conversation
from tenex.core.inbox.message import Message
from tenex.core.kind import kind_of_conversation
from tenex.core.messages import Note, Shown, ShownBefore, StartEntry, cut
from tenex.core.port_values import Handoff
from tenex.core.subagents.links import entries_of_called
from tenex.core.work.run import Run
from tenex.core.work.turn import OrchestratorTurn

from .state import FIRST, LINE
from .window import (
    BYTES_PER_TOKEN,
    CONTEXT_TOKENS,
    FRAME,
    MESSAGE_CHARACTERS,
    cut_bytes,
    entry_weight,
    in_a_line,
    weight,
)

__all__ = ["MESSAGE_CHARACTERS", "PART", "START", "entries_for"]

START = 0.5
"""Of the budget, for all an agent is shown when its run begins: the rest is for its instructions and its work."""
WINDOW = 0.75
"""Of that, for the window; the rest is for the notes after it, which change with every turn."""
WINDOW_BYTES = 192 * 1024
"""Of the window, however large the budget: a snapshot holds it."""
LEFT = 0.7
"""What is left of a full window: it fills again over many turns, in which it only grows."""
EARLIER = 0.4
"""Of what is left, for the note on what was earlier."""
SHORTER = (MESSAGE_CHARACTERS, 8_000, 2_400, 800, 240)
"""How much of a message is shown, tried in this order, where it is too much."""
OLDER = ((0.5, 2_400), (0.25, 800))
"""How much of a message is shown once less than a part of a new window is left for it and the older ones."""
EARLIER_LINES = (3_000, 240, 120, 60)
"""Characters of each line of the note on what was earlier, likewise."""
TURN_CHARACTERS = 600
"""Of the summary of a turn that is reported in a line."""
HANDED_ON = 4_000
"""Bytes of the part of a hand-off that lists what was done."""
PART = "Your part"
"""The title of the note with an agent's task."""
FILES = 200
"""Names of changed files an agent is given: a run that changed more has moved a tree, and can list it."""


def entries_for(
    conversation: Conversation, run: Run, budget: int = CONTEXT_TOKENS, phase: Sequence[Note] = ()
) -> tuple[StartEntry, ...]:
    """What an agent is shown when its run begins: what was written, the phase, the hand-off, what it is asked to do.

    What only grows comes first, so that providers cache it.

    Where not all that was written fits, the request that began the cycle, what is unanswered and the newest messages
    are shown. The rest is in the note on what was earlier: a line for each message of a user, decision, turn and cycle.

    One that a sub-agent called is shown that call's message and which files have changed, and nothing that was written.

    Messages are named by their record, not repeated: the fold of `RunStarted` puts their words in. Of the `budget`, the
    estimated tokens of a whole request, the entries take `START` at most; the notes on the phase are no part of it.
    """
    room = int(budget * BYTES_PER_TOKEN * START)
    at_most = int(room * (1 - WINDOW) * 0.75)  # the notes together take up to a third more
    if run.parent is not None:
        return (*phase, *entries_of_called(conversation, run, _files(conversation.cycle.touched, at_most // 8)))
    choice = _choose(conversation, min(int(room * WINDOW), WINDOW_BYTES))
    return (*choice.entries, *phase, *_notes(conversation, run, at_most, choice))


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is shown of the conversation."""

    entries: Sequence[StartEntry]
    since: int
    """The seq of the message from which on every message is shown that may be."""
    hidden: Sequence[Message] = ()
    """Messages after that which the kind of conversation does not show."""

    def shows(self, turn: OrchestratorTurn) -> bool:
        """Whether all that was written in a turn is shown; a failure is in no message that is kept."""
        return (
            turn.seq >= self.since
            and all(done.outcome == "finished" for done in turn.completions)
            and not any(m.after_turn == turn.turn_id and m.role is None for m in self.hidden)
        )


def _notes(conversation: Conversation, run: Run, room: int, choice: _Choice | None) -> Iterator[Note]:
    """The hand-off and the part, in that many bytes."""
    turn = conversation.work.turn
    if turn is None:
        return
    hand = turn.handoff
    if hand is not None and (hand.summary or hand.message):
        done = _done(conversation, hand, choice)
        summary = f"\n\n{cut_bytes(done, min(HANDED_ON, room // 3))}" if done else ""
        # the reason is the part's too, where this turn is the first in its phase
        reason = f": {cut_bytes(hand.reason, room // 8)}" if hand.reason != turn.reason else "."
        says_something = hand.from_ is not hand.to or hand.reason != turn.reason or bool(summary)
        if says_something:
            yield Note(title="Hand-off", text=f"From {hand.from_} to {hand.to}{reason}{summary}")
    if run.parent is None:
        yield from _of_unfinished(conversation, room // 4)
    yield from kind_of_conversation(conversation).notes(conversation, run, room // 2)
    others = cut_bytes(", ".join(agent for agent in turn.agents if agent != run.agent), room // 8)
    beside = f" Beside you: {others}." if others else ""
    reason = cut_bytes(turn.reason, room // 8).rstrip(".")
    yield Note(title=PART, text=f"{reason}.{beside}{_files(conversation.cycle.touched, room // 8)}")


def unfinished_before(conversation: Conversation) -> OrchestratorTurn | None:
    """The turn of this cycle that the open one follows, where one of its agents was stopped or failed."""
    last = conversation.cycle.turns[-1] if conversation.cycle.turns else None
    return last if last is not None and any(not done.is_finished for done in last.completions) else None


def _of_unfinished(conversation: Conversation, room: int) -> Iterator[Note]:
    """What was called in the turn before, where it was not finished."""
    last = unfinished_before(conversation)
    calls = [f"- {done.agent}: {line}" for done in last.completions for line in done.calls] if last is not None else []
    if last is not None and calls:
        head = f"{last.turn_id} was not finished. It had called:"
        yield Note(title="Not finished", text=f"{head}\n{cut_bytes(chr(10).join(calls), room)}")


def _done(conversation: Conversation, hand: Handoff, choice: _Choice | None) -> str:
    """What the turn before has done; neither what its agents wrote without a summary, which is above, nor the part."""
    last = conversation.memory.last_turn
    if last is None or last.summary != hand.summary or choice is None or not choice.shows(last):
        return hand.summary
    part = conversation.work.turn.reason if conversation.work.turn is not None else ""
    lines: list[str] = []
    for done in last.completions:
        text = f": {done.summary}" if done.summary and done.summary not in (done.text, part) else ""
        verdict = f" [{done.verdict}]" if done.verdict else ""
        if text or verdict:
            lines.append(f"{done.agent}{verdict}{text}")
    return "\n".join(lines)


def _files(touched: Iterable[str], room: int) -> str:
    names: list[str] = []
    every = sorted(touched)
    for name in every[:FILES]:
        room -= weight(name) + 2
        if room < 0:
            break
        names.append(name)
    more = f"\n(and {len(every) - len(names)} more)" if len(names) < len(every) else ""
    return f"\nFiles of this cycle: {', '.join(names)}{more}" if every else ""


def _choose(conversation: Conversation, room: int) -> _Choice:
    """The window of the run before with what is new, or another one where that would be more than `room` bytes."""
    recent = conversation.memory.recent
    window = conversation.memory.window
    oldest = recent[0].seq if recent else 0
    pool = recent
    if older := [message for message in conversation.cycle.messages if message.seq < oldest]:
        pool = (*older, *recent)
    visible = kind_of_conversation(conversation).visible(conversation, pool)
    is_whole = visible is pool
    has_gap = bool(conversation.memory.earlier) and conversation.memory.earlier[-1].seq > window.until
    if is_whole and window.entries and oldest <= window.since and not has_gap:
        added = _since(recent, window.until)
        limits = {message.seq: _limit(message, room) for message in added}
        size = window.size + sum(_size(message, limits[message.seq]) for message in added)
        notes = _between(conversation, added, window.until, is_first=False)
        if size + sum(entry_weight(note) for _, note in notes) <= room:
            items = _in_order([*notes, *((message.seq, message) for message in added)])
            return _Choice((ShownBefore(until=window.until), *_named(items, limits)), window.since)
    return _chosen(conversation, visible, room, is_whole=is_whole)


def _since(messages: Sequence[Message], seq: int) -> list[Message]:
    """Those after a record, oldest first."""
    newest: list[Message] = []
    for message in reversed(messages):
        if message.seq <= seq:
            break
        newest.append(message)
    return newest[::-1]


def _limit(message: Message, room: int) -> int:
    """The characters of a message that are shown in a window of that many bytes: always the same."""
    return next((limit for limit in SHORTER if _size(message, limit) <= room // 4), SHORTER[-1])


def _in_order(items: Iterable[tuple[int, Message | Note]]) -> list[tuple[int, Message | Note]]:
    """Messages and the notes between them by their seq; a note comes before the message of the same seq."""
    return sorted(items, key=lambda item: (item[0], isinstance(item[1], Message)))


def _named(items: Iterable[tuple[int, Message | Note]], limits: Mapping[int, int]) -> list[StartEntry]:
    return [item if isinstance(item, Note) else Shown(seq=seq, limit=limits[seq]) for seq, item in items]


def _between(
    conversation: Conversation, messages: Sequence[Message], after: int, *, is_first: bool
) -> list[tuple[int, Note]]:
    """The notes between messages, each with the seq it comes before: they never change, and never move."""
    begins = {past.since: past.cycle for past in conversation.memory.past}
    begins |= {message.seq: conversation.cycle.number for message in conversation.cycle.messages[:1]}
    shown = messages[1:] if is_first else messages
    beginning = [message.seq for message in shown if message.seq in begins]
    notes = [(seq, _new_request(conversation, begins[seq])) for seq in beginning]
    notes += [
        (item.seq, Note(title="Decision", text=item.text))
        for item in conversation.memory.user_decisions
        if item.is_command and item.seq > after
    ]
    newest = messages[-1].seq if messages else after
    handed = _handed_on(conversation)
    for turn in conversation.cycle.turns:
        failed = turn.seq > after and any(done.outcome != "finished" for done in turn.completions)
        if failed and turn.summary and (turn.seq < newest or turn.summary != handed):
            notes.append((turn.seq, Note(title="Not finished", text=_turn_line(conversation, turn))))
    return notes


def _new_request(conversation: Conversation, cycle: int) -> Note:
    """That a cycle begins, and how the one before it ended: it need not be done."""
    past = conversation.memory.past
    before = next((known for known in past if known.cycle == cycle - 1), None)
    is_remembered = bool(past) and past[0].cycle < cycle
    ended = before.ended if before is not None else "which no agent worked on" if is_remembered else ""
    return Note(title="A new request", text=f"What is above is earlier work{ended and f', {ended}'}.")


def _handed_on(conversation: Conversation) -> str:
    """What the hand-off says was done."""
    hand = conversation.work.turn.handoff if conversation.work.turn is not None else None
    return hand.summary if hand is not None else ""


def _turn_line(conversation: Conversation, turn: OrchestratorTurn) -> str:
    where = f"{turn.turn_id}, in {turn.phase}" if conversation.has_phases else turn.turn_id
    return f"{where}: {in_a_line(turn.summary, TURN_CHARACTERS)}"


def _chosen(conversation: Conversation, pool: Sequence[Message], room: int, *, is_whole: bool) -> _Choice:
    """Another window: all messages where they fit, else a part of the room's worth of them, and the rest in lines."""
    limits = {message.seq: _limit(message, room) for message in pool}
    since = pool[0].seq if pool else conversation.next_seq
    between = _between(conversation, pool, since - 1, is_first=True)
    items = _in_order([*between, *((message.seq, message) for message in pool)])
    at_most = int(room * LEFT * EARLIER)
    earlier = [*_earlier(conversation, (), since, at_most, is_whole=is_whole)]
    if sum(_weight(item, limits) for _, item in items) + sum(map(entry_weight, earlier)) > room:
        usual = limits
        limits = _least(conversation, pool, int(room * LEFT) - at_most, limits)
        at_first = left = int(room * LEFT) - at_most - sum(_weight(m, limits) for m in pool if m.seq in limits)
        since = conversation.next_seq
        for seq, item in reversed(items):
            if isinstance(item, Note) or seq not in limits:
                most = min((limit for part, limit in OLDER if left < at_first * part), default=MESSAGE_CHARACTERS)
                if isinstance(item, Message):
                    most = min(most, usual[seq])
                    usual[seq] = next((n for n in SHORTER if n <= most and _size(item, n) <= left), SHORTER[-1])
                left -= _weight(item, usual)
                if left < 0:
                    break
            if not isinstance(item, Note):
                limits.setdefault(seq, usual[seq])
            since = seq
        items = [(seq, item) for seq, item in items if (seq in limits if isinstance(item, Message) else seq >= since)]
        if items and isinstance(items[0][1], Note) and items[0][0] in limits:
            del items[0]  # nothing is above the request
        hidden = [message for message in pool if message.seq not in limits]
        earlier = [*_earlier(conversation, hidden, since, at_most, is_whole=is_whole)]
    left_out = () if is_whole else [message for message in conversation.memory.recent if message.seq not in limits]
    return _Choice((*earlier, *_named(items, limits)), since, left_out)


def _weight(item: Message | Note, limits: Mapping[int, int]) -> int:
    return entry_weight(item) if isinstance(item, Note) else _size(item, limits[item.seq])


def _least(conversation: Conversation, pool: Sequence[Message], room: int, usual: Mapping[int, int]) -> dict[int, int]:
    """What is shown in any case, by its seq with its limit: the cycle's request, and what no one has answered yet."""
    cycle = [message for message in pool if message.role is not None and message.seq >= _begin(conversation)]
    waiting = [m for m in reversed(cycle) if m.seq > conversation.memory.answered or m.seq == cycle[-1].seq]
    limits: dict[int, int] = {}
    for group, share in ((cycle[:1], 0.3), (waiting, 0.6)):  # each takes a part of what the one before has left
        wanted = [message for message in group if message.seq not in limits]
        fitting, used = _fitting(wanted, int(room * share), usual)
        limits |= fitting
        room -= used
    return limits


def _begin(conversation: Conversation) -> int:
    return conversation.cycle.messages[0].seq if conversation.cycle.messages else conversation.next_seq


def _fitting(messages: Sequence[Message], room: int, usual: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """As much of every one of these as fits; where even the least is too much, the first that fit, at least one.

    Returns the characters of each by its record, and the bytes of all.
    """
    sizes: list[int] = []
    for limit in SHORTER:
        limits = {message.seq: min(limit, usual[message.seq]) for message in messages}
        sizes = [_size(message, limits[message.seq]) for message in messages]
        if sum(sizes) <= room:
            return limits, sum(sizes)
    chosen = dict[int, int]()
    used = 0
    for message, size in zip(messages, sizes, strict=True):
        if used + size > room and chosen:
            break
        chosen[message.seq] = SHORTER[-1]
        used = used + size
    return chosen, used


def _size(message: Message, limit: int) -> int:
    return FRAME + weight(message.name) + weight(cut(message.text, limit))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the note on what was earlier; `stays` where it is kept before others."""

    seq: int
    text: str
    stays: bool = False


def _earlier(
    conversation: Conversation, hidden: Sequence[Message], since: int, room: int, *, is_whole: bool
) -> Iterator[Note]:
    """A note on what was written before a record: a line for each message, decision, turn and cycle."""
    lines = _lines(conversation, hidden, since, is_whole=is_whole)
    if not lines and not hidden and not conversation.memory.earlier:
        return
    head = "What was said earlier is not shown in full."
    kept = _fitting_lines(lines, room - FRAME - 2 * len(head))
    yield Note(title="Earlier", text="\n".join([f"{head} In short:" if kept else head, *kept]))


def _lines(conversation: Conversation, hidden: Sequence[Message], since: int, *, is_whole: bool) -> list[_Line]:
    lines: list[_Line] = []
    written = [*conversation.memory.earlier, *(message for message in hidden if message.role is not None)]
    cycles = [past for past in conversation.memory.past if past.since < since]
    for past in cycles:
        done = "".join(f"\n- {line}" for line in past.done)
        is_first = bool(written) and past.since == written[0].seq
        lines.append(_Line(past.since, f"Cycle {past.cycle}, asked for: {past.request}{done}", stays=is_first))
    handed = _handed_on(conversation)
    for turn in conversation.cycle.turns:
        is_before = turn.seq < since and turn.summary != handed
        lines += [_Line(turn.seq, _turn_line(conversation, turn))] if is_before and turn.summary else []
    if is_whole:
        begun = {past.since for past in cycles}
        for place, message in enumerate(written):
            if message.seq not in begun:
                lines.append(_Line(message.seq, f"{message.name}: {in_a_line(message.text, LINE)}", place < FIRST))
        lines += [
            _Line(decision.seq, decision.text, stays=True)
            for decision in conversation.memory.user_decisions
            if decision.seq < since
        ]
    return sorted(lines, key=lambda line: line.seq)


def _fitting_lines(lines: Sequence[_Line], room: int) -> list[str]:
    """Every line as long as it can be; where even the shortest are too much, those that stay and then the newest."""
    texts: list[str] = []
    for limit in EARLIER_LINES:
        texts = [line.text if line.stays else _at_most(line.text, limit) for line in lines]
        if sum(weight(text) + 1 for text in texts) <= room:
            return texts
    kept: set[int] = set()
    for stays in (True, False):
        for place in reversed(range(len(texts))):
            if lines[place].stays is stays:
                room -= weight(texts[place]) + 1
                if room < 0:
                    break
                kept.add(place)
    return [texts[place] for place in sorted(kept)]


def _at_most(text: str, limit: int) -> str:
    return text if len(text) <= limit else in_a_line(text, limit)
