"""What records do to what the conversation remembers: messages, decisions, the window, prompts and agents' states."""

from typing import Final

from tenex.core import records as r
from tenex.core.cycle.reducers import carried, closed_turn, message_of
from tenex.core.history.state import HistoryRecovered, MessagePlace
from tenex.core.inbox.message import Message
from tenex.core.messages import AgentText, Entry, Shown, ShownBefore, UserText, cut, with_context
from tenex.core.phases import Phase
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .state import DECISIONS, LEAST_RECENT, RECENT_BYTES, Memory, UserDecision, Window, shortened, size
from .window import entry_weight, in_a_line, remembered

MEMORY: Final = Reducers[Memory]("memory")

QUOTE = 200
"""Characters of an answer in the line on a decision, and of the question."""


# ---- messages --------------------------------------------------------------------------------------------------------


def kept(memory: Memory, message: Message) -> Memory:
    """The memory with one more message, which is kept whole as long as it is among the newest."""
    memory = replace(memory, recent=(*memory.recent, message), recent_size=memory.recent_size + size(message))
    if memory.recent_size > RECENT_BYTES and len(memory.recent) > LEAST_RECENT:
        return memory.with_messages(*shortened(memory.recent, memory.earlier))
    return memory


@MEMORY.on(r.MessageRecorded)
def _wrote(memory: Memory, record: r.MessageRecorded, before: State) -> Memory:
    return kept(memory, message_of(before, record))


@MEMORY.on(r.MessageSent)
def _sent(memory: Memory, record: r.MessageSent, before: State) -> Memory:
    if record.purpose not in ("completion", "question"):
        return memory
    turn = before.work.turn
    last = turn or memory.last_turn
    is_after_turn = last is not None and bool(turn or before.cycle.turns)
    message = Message(
        seq=record.seq,
        at=record.at,
        event_id="",
        author=record.speaker,
        name=record.name,
        text=record.text,
        phase=before.cycle.phase,
        after_turn=last.turn_id if last is not None and is_after_turn else None,
        sent_as=record.events[0].id if record.events else "",
        cycle=before.cycle.number,
        turn=turn.turn_id if turn else None,
    )
    return kept(memory, message)


@MEMORY.on(r.MessageWithdrawn)
def _withdrawn(memory: Memory, record: r.MessageWithdrawn, before: State) -> Memory:
    if record.was_read:
        return blanked(memory, record.message)
    if all(message.seq != record.message for message in before.cycle.messages):
        return memory
    return memory.with_messages(
        tuple(message for message in memory.recent if message.seq != record.message),
        tuple(message for message in memory.earlier if message.seq != record.message),
    )


def blanked(memory: Memory, seq: int) -> Memory:
    """The memory after its author has deleted a message that agents have read: its place stays, what it said goes."""
    return memory.with_messages(
        tuple(message.blanked(seq) for message in memory.recent),
        tuple(message.blanked(seq) for message in memory.earlier),
    )


@MEMORY.on(HistoryRecovered)
def _recovered(memory: Memory, record: HistoryRecovered, _: State) -> Memory:
    if not record.places:
        return memory
    places = {place.message: place for place in record.places}
    recent = (_placed(message, places[message.seq]) if message.seq in places else message for message in memory.recent)
    return replace(memory, recent=tuple(recent))


def _placed(message: Message, place: MessagePlace) -> Message:
    """The message with where it was written; no rule reads any of it."""
    return replace(
        message,
        cycle=place.cycle,
        phase=place.phase or message.phase,
        turn=place.turn,
        sent_as=message.sent_as or place.event or "",
    )


# ---- cycles and turns ------------------------------------------------------------------------------------------------


@MEMORY.on(r.CycleStarted)
def _cycle_started(memory: Memory, record: r.CycleStarted, before: State) -> Memory:
    cycle = before.cycle
    # what the cycle knows of its messages goes on to be known of them
    known = {message.seq: message for message in cycle.messages if message.is_settled}
    known |= {message.seq: message for message in carried(before, record)}
    recent = memory.recent
    if known:
        recent = tuple(_with_fate(message, known.get(message.seq)) for message in recent)
    past = remembered(memory.past, cycle.number, cycle.messages, cycle.turns, _how_it_ended(before))
    return replace(memory, recent=recent, past=past)


def _with_fate(message: Message, known: Message | None) -> Message:
    """The message with the cycle that it is of, and with why nothing of it is left to be done."""
    if known is None:
        return message
    return replace(
        message,
        cycle=known.cycle,
        carried_from=known.carried_from,
        is_answer=known.is_answer,
        settlement=known.settlement,
    )


def _how_it_ended(state: State) -> str:
    """How the cycle that is over came to its end, as the end of a sentence about it."""
    turns = state.cycle.turns
    outcomes = {done.outcome for done in turns[-1].completions} if turns else set()
    waived = {phase for kind in state.kinds.values() for waiver in kind.waivers for phase in waiver.phases}
    if "stopped" in outcomes:
        return "which was stopped before its end"
    if outcomes and "finished" not in outcomes:
        return "which failed"
    if state.unmet_gates:
        return "which was ended before it was checked"
    if not state.cycle.touched and not any(turn.has_effect for turn in turns):
        return "which changed nothing"
    if Phase.VERIFICATION in waived:
        return "which ended without a check"
    return "which ended"


@MEMORY.on(r.TurnClosed)
def _turn_closed(memory: Memory, record: r.TurnClosed, before: State) -> Memory:
    turn = before.work.turn
    return memory if turn is None else replace(memory, last_turn=closed_turn(before, turn, record))


@MEMORY.on(r.RunEnded)
def _run_ended(memory: Memory, record: r.RunEnded, before: State) -> Memory:
    run = before.work.runs.get(record.run)
    if run is None or before.work.turn is None:
        return memory
    if run.parent is None:
        memory = replace(memory, answered=max(memory.answered, run.shown))
    if run.state_key == run.id:  # its next call finds it at its beginning
        others = {name: state for name, state in memory.agent_states.items() if name != run.id}
        memory = replace(memory, agent_states=others)
    return memory


# ---- what users decided ----------------------------------------------------------------------------------------------


def decided(memory: Memory, decision: UserDecision) -> Memory:
    """A user has decided something."""
    return replace(memory, user_decisions=(*memory.user_decisions, decision)[-DECISIONS:])


@MEMORY.on(r.QuestionAnswered)
def _answered(memory: Memory, record: r.QuestionAnswered, before: State) -> Memory:
    """A user answered a question of an agent."""
    run = before.work.runs.get(record.run)
    call = run.find(record.call) if run is not None else None
    question = call.request.arguments.get("question") if call is not None else None
    asked = f"asked “{in_a_line(question, QUOTE)}”, " if isinstance(question, str) else ""
    text = f"{asked}{record.name} answered: {in_a_line(record.text, QUOTE)}"
    return decided(memory, UserDecision(seq=record.message, text=text))


@MEMORY.on(r.FilesUndone)
def _files_undone(memory: Memory, record: r.FilesUndone, _: State) -> Memory:
    """A user had files put back."""
    if not record.restored_tree:
        return memory
    named = in_a_line(", ".join(record.files), QUOTE)
    text = f"a person had `/undo` put files back to what they were before {record.since}: {named}"
    return decided(memory, UserDecision(seq=record.seq, text=text, is_command=True))


# ---- what a run is shown ---------------------------------------------------------------------------------------------


def shown(state: State, record: r.RunStarted) -> tuple[tuple[Entry, ...], Window | None]:
    """The entries of a run that begins, with the words of the messages they name; and the window as it is then.

    The window is None where the run changes nothing of it: it is a sub-agent's, or it is shown no message.
    """
    memory = state.memory
    is_continued = any(isinstance(entry, ShownBefore) for entry in record.entries)
    window = memory.window if is_continued else Window()
    named = [entry for entry in record.entries if isinstance(entry, Shown)]
    by_seq = _by_seq(state, min(entry.seq for entry in named)) if named else {}
    entries: list[Entry] = []
    until = 0
    for entry in record.entries:
        if isinstance(entry, Shown):
            message = by_seq.get(entry.seq)
            if message is not None:
                entries.append(as_entry(message, entry.limit))
                until = len(entries)
        elif not isinstance(entry, ShownBefore):
            entries.append(entry)
    whole = (*window.entries, *entries)
    if record.parent is not None or not until:
        return whole, None
    added = entries[:until]
    changed = Window(
        entries=(*window.entries, *added),
        since=window.since if is_continued else _since(memory, {entry.seq for entry in named}),
        until=max(entry.seq for entry in named),
        size=window.size + sum(map(entry_weight, added)),
    )
    return whole, changed


def _by_seq(state: State, oldest: int) -> dict[int, Message]:
    """The messages that are remembered from that one on."""
    messages = {message.seq: message for message in state.cycle.messages}
    for message in reversed(state.memory.recent):
        if message.seq < oldest:
            break
        messages[message.seq] = message
    return messages


def as_entry(message: Message, limit: int) -> UserText | AgentText:
    """A message as a model reads it, with that many characters of its text."""
    text = with_context(cut(message.text, limit), message.context)
    if message.role is None:
        return AgentText(author=message.name, text=text)
    return UserText(author=message.name, text=text, role=str(message.role), key=message.author)


def _since(memory: Memory, named: set[int]) -> int:
    """From which message on every one is among those named."""
    since = max(named) + 1
    for message in reversed(memory.recent):
        if message.seq < since and message.seq not in named:
            break
        since = min(since, message.seq)
    return since


Rendered = r.RunStarted | r.AgentPhaseChanged | r.PromptRerendered


def system_of(state: State, record: Rendered) -> str | None:
    """The system prompt of a record; None where it is not rendered."""
    return state.memory.systems.get(record.digest) if record.system is None else record.system


def recalled(memory: Memory, record: Rendered, state: State) -> Memory:
    """The memory with the prompt of a record as the one used last."""
    system = system_of(state, record)
    if system is None:
        return memory
    gone = {record.digest, *record.forgets}
    others = {digest: text for digest, text in memory.systems.items() if digest not in gone}
    return replace(memory, systems={**others, record.digest: system})


@MEMORY.on(r.RunStarted)
def _run_started(memory: Memory, record: r.RunStarted, before: State) -> Memory:
    memory = recalled(memory, record, before)
    _, window = shown(before, record)
    return memory if window is None else replace(memory, window=window)


@MEMORY.on(r.PromptRerendered)
def _rerendered(memory: Memory, record: r.PromptRerendered, before: State) -> Memory:
    return recalled(memory, record, before) if record.run in before.work.runs else memory
