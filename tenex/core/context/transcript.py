"""What an agent is shown of a conversation when its run begins, chosen within a budget.

Each message is shown once. What is chosen costs the same however long the history is: the state keeps the newest
messages, the turns of the cycle, and a few lines on each of the last cycles.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenex.core.conversation import Conversation
from tenex.core.messages import Entry, Note, Shown, cut
from tenex.core.mode import mode_of
from tenex.core.port_values import Handoff
from tenex.core.state.conversation import RECENT
from tenex.core.state.run import Message, OrchestratorTurn, Run
from tenex.core.state.subagents import entries_of_called

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

START = 0.3
"""Of the budget, for all an agent is shown when its run begins: the rest is for its instructions and its work."""
SHORTER = (MESSAGE_CHARACTERS, 8_000, 2_400, 800, 240)
"""How much of each message is shown, tried in this order, where several that should all be there are too much."""
HANDED_ON = 4_000
"""Bytes of the part of a hand-off that lists what was done."""
TURN_CHARACTERS = 600
"""Of the summary of a turn that is reported in a line."""
PART = "Your part"
"""The title of the note with an agent's task."""
ABOVE = "finished; its text is above"
MARKS = 250
"""Bytes of the notes between messages: that some are not shown, that others belong to earlier work."""
FILES = 200
"""Names of changed files an agent is given: a run that changed more has moved a tree, and can list it."""


def entries_for(
    conversation: Conversation, run: Run, budget: int = CONTEXT_TOKENS, phase: Sequence[Note] = ()
) -> tuple[Entry | Shown, ...]:
    """What an agent is shown when its run begins: what was written, the phase, the hand-off, what it is asked to do.

    What only grows comes first, so that providers cache it.

    In this order of importance, and then in order of time: the request that began the cycle, what no one has answered
    yet; all that was written in this phase of this cycle; the user's other messages of the cycle;
    recent messages. The rest is a line for each turn and cycle. A part too large is cut before it is left out.

    One that a sub-agent called is shown that call's message and which files have changed, and nothing that was written.

    Messages are named by their record, not repeated: the fold of `RunStarted` puts their words in.

    Args:
        conversation: As it is with the run in it.
        run: The run that begins.
        budget: Estimated tokens of a whole request; the entries take `START` of them at most.
        phase: The notes on the phase, which are part of the instructions and no part of `START`.
    """
    room = int(budget * BYTES_PER_TOKEN * START)
    at_most = room // 4
    if run.parent is not None:
        return (*phase, *entries_of_called(conversation, run, _files(conversation.touched, at_most // 8)))
    room -= sum(map(entry_weight, _notes(conversation, run, at_most, None))) + MARKS
    summed = room // 6 if conversation.turns or conversation.past else 0
    choice = _choose(conversation, run, room - summed)
    entries: list[Entry | Shown] = [*_earlier(conversation, choice, summed)]
    request = conversation.messages[0].seq if conversation.messages else 0
    shown = [message for message in choice.pool if message.seq in choice.limits]
    for place, message in enumerate(shown):
        if place and message.seq == request:
            entries.append(Note(title="A new request", text="What is above belongs to earlier work, which is done."))
        entries.append(Shown(seq=message.seq, limit=choice.limits[message.seq]))
    return (*entries, *phase, *_notes(conversation, run, at_most, choice))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which messages are shown."""

    pool: Sequence[Message]
    """All that the state holds, oldest first."""
    limits: Mapping[int, int]
    """The records of those shown, with the characters shown of each."""
    hidden: Sequence[Message]
    """Those of the pool that are not shown."""
    oldest: int | None
    """The record from which on the state holds everything that was written; None: from the first."""

    def shows(self, turn: OrchestratorTurn) -> bool:
        """Whether all that was written in a turn is shown; a failure is in no message that is kept."""
        return (
            self._holds(turn.seq)
            and all(done.outcome == "finished" for done in turn.completions)
            and not any(m.after_turn == turn.turn_id and m.role is None for m in self.hidden)
        )

    def shows_all(self, start: int, end: int) -> bool:
        """Whether all that was written between two records is shown."""
        return self._holds(start) and not any(start <= m.seq < end for m in self.hidden)

    def _holds(self, seq: int) -> bool:
        return self.oldest is None or seq >= self.oldest


def _notes(conversation: Conversation, run: Run, room: int, choice: _Choice | None) -> Iterator[Note]:
    """The hand-off and the part, in that many bytes."""
    turn = conversation.turn
    if turn is None:
        return
    hand = turn.handoff
    if hand is not None and (hand.summary or hand.message):
        done = _done(conversation, hand, choice)
        summary = f"\n\nWhat has been done:\n{cut_bytes(done, min(HANDED_ON, room // 3))}" if done else ""
        reason = cut_bytes(hand.reason, room // 8)
        yield Note(title="Hand-off", text=f"From {hand.from_} to {hand.to}: {reason}{summary}")
    yield from mode_of(conversation).notes(conversation, run, room // 2)
    others = cut_bytes(", ".join(agent for agent in turn.agents if agent != run.agent), room // 8)
    beside = f" Beside you, at the same time: {others}." if others else ""
    reason = cut_bytes(turn.reason, room // 8).rstrip(".")
    yield Note(title=PART, text=f"{reason}.{beside}{_files(conversation.touched, room // 8)}")


def _done(conversation: Conversation, hand: Handoff, choice: _Choice | None) -> str:
    """What the turn before has done; what its agents wrote without a summary is above, and is not repeated."""
    last = conversation.last_turn
    if last is None or last.summary != hand.summary or choice is None or not choice.shows(last):
        return hand.summary
    lines: list[str] = []
    for done in last.completions:
        is_short = len(done.text) <= len(ABOVE)
        text = done.summary if done.summary and done.summary != done.text else done.text if is_short else ABOVE
        lines.append(f"{done.agent}{f' [{done.verdict}]' if done.verdict else ''}: {text}")
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
    return f"\nFiles changed in this cycle: {', '.join(names)}{more}" if every else ""


def _choose(conversation: Conversation, run: Run, room: int) -> _Choice:
    cycle, recent = conversation.messages, conversation.recent
    known = {message.seq: message for message in (*cycle, *recent)}
    pool = mode_of(conversation).visible(conversation, [known[seq] for seq in sorted(known)])
    newest = pool[::-1]
    waiting = [m for m in reversed(cycle) if m.seq > conversation.answered or m.seq == cycle[-1].seq]
    here = [m for m in newest if m.phase is run.phase and (not cycle or m.seq >= cycle[0].seq)]
    limits: dict[int, int] = {}
    # each takes a part of what those before it have left
    for group, share, least in ((cycle[:1], 0.3, 1), (waiting, 0.6, 1), (here, 0.8, 0), (cycle[::-1], 1.0, 0)):
        wanted = [message for message in group if message.seq not in limits]
        fitting, used = _fitting(wanted, int(room * share), least)
        limits |= fitting
        room -= used
    for message in newest:
        if message.seq not in limits:
            room -= _size(message, MESSAGE_CHARACTERS)
            if room < 0:
                break
            limits[message.seq] = MESSAGE_CHARACTERS
    hidden = [message for message in pool if message.seq not in limits]
    return _Choice(pool, limits, hidden, recent[0].seq if len(recent) >= RECENT else None)


def _fitting(messages: Sequence[Message], room: int, least: int) -> tuple[dict[int, int], int]:
    """As much of every one of these as fits; where even the least is too much, the first that fit, and `least` of them.

    Returns the characters of each by its record, and the bytes of all.
    """
    sizes: list[int] = []
    for limit in SHORTER:
        sizes = [_size(message, limit) for message in messages]
        if sum(sizes) <= room:
            return {message.seq: limit for message in messages}, sum(sizes)
    chosen, used = dict[int, int](), 0
    for message, size in zip(messages, sizes, strict=True):
        if used + size > room and len(chosen) >= least:
            break
        chosen[message.seq], used = SHORTER[-1], used + size
    return chosen, used


def _size(message: Message, limit: int) -> int:
    return FRAME + weight(message.name) + weight(cut(message.text, limit))


def _earlier(conversation: Conversation, choice: _Choice, room: int) -> Iterator[Note]:
    """A note on what is not shown: the cycles before and the turns of this one, the newest of them that fit."""
    cycles, turns = conversation.past, conversation.turns
    hand = conversation.turn.handoff if conversation.turn is not None else None
    ends = [
        *(past.since for past in cycles[1:]),
        conversation.messages[0].seq if conversation.messages else conversation.next_seq,
    ]
    lines = [
        f"Cycle {past.cycle}, asked for: {past.request}" + "".join(f"\n- {line}" for line in past.done)
        for past, end in zip(cycles, ends[: len(cycles)], strict=True)
        if not choice.shows_all(past.since, end)
    ]
    lines += [
        (f"{turn.turn_id}, in {turn.phase}" if conversation.has_phases else turn.turn_id)
        + f": {in_a_line(turn.summary, TURN_CHARACTERS)}"
        for turn in turns
        if turn.summary and not choice.shows(turn) and not (hand is not None and hand.summary == turn.summary)
    ]
    kept: list[str] = []
    for line in reversed(lines):
        room -= weight(line) + 1
        if room < 0:
            break
        kept.append(line)
    if not kept and not choice.hidden and choice.oldest is None:
        return
    head = "What was said earlier is not shown in full."
    yield Note(title="Earlier", text="\n".join([f"{head} In short:" if kept else head, *reversed(kept)]))
