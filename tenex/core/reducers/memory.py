"""What records do to what the conversation remembers of its messages: the newest, the decisions, the window."""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.context.window import entry_weight, in_a_line
from tenex.core.messages import AgentText, Entry, Shown, ShownBefore, UserText, cut, with_context
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tenex.core.state.memory import DECISIONS, LEAST_RECENT, RECENT_BYTES, UserDecision, Window, shortened, size
from tenex.core.state.run import DELETED, Message

QUOTE = 200
"""Characters of an answer in the line on a decision, and of the question."""


def kept(c: State, message: Message) -> None:
    """A message was written: it is kept whole as long as it is among the newest."""
    c.recent, c.recent_size = (*c.recent, message), c.recent_size + size(message)
    if c.recent_size > RECENT_BYTES and len(c.recent) > LEAST_RECENT:
        c.recent, c.earlier = shortened(c.recent, c.earlier)
        c.recent_size = sum(map(size, c.recent))


def withdrawn(c: State, seq: int) -> None:
    """A message was deleted by its author: it is shown to no one any more."""
    c.recent = tuple(message for message in c.recent if message.seq != seq)
    c.recent_size = sum(map(size, c.recent))
    c.earlier = tuple(message for message in c.earlier if message.seq != seq)


def blanked(c: State, seq: int) -> None:
    """A message that agents have read was deleted by its author: its place stays, and what it said goes."""

    def without(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(replace(one, text=DELETED, context="") if one.seq == seq else one for one in messages)

    c.recent, c.earlier, c.messages = without(c.recent), without(c.earlier), without(c.messages)
    c.recent_size = sum(map(size, c.recent))


def waived(c: State, record: r.Waived) -> None:
    """A user gave up gates, by a command or by a yes."""
    text = f"{record.name} gave up {', '.join(record.phases)}: “{in_a_line(record.quote, QUOTE)}”"
    is_command = all(message.event_id != record.message_id for message in c.messages[-1:])
    _decided(c, UserDecision(seq=record.seq, text=text, is_command=is_command))


def answered(c: State, record: r.QuestionAnswered) -> None:
    """A user answered a question of an agent."""
    run = c.runs.get(record.run)
    call = run.find(record.call) if run is not None else None
    question = call.request.arguments.get("question") if call is not None else None
    asked = f"asked “{in_a_line(question, QUOTE)}”, " if isinstance(question, str) else ""
    text = f"{asked}{record.name} answered: {in_a_line(record.text, QUOTE)}"
    _decided(c, UserDecision(seq=record.message, text=text))


def approved(c: State, record: r.PlanApproved) -> None:
    """A user approved a plan, by a command or by a yes."""
    _decided(c, UserDecision(seq=record.seq, text=f"{record.name} approved the plan", is_command=not record.message))


def moved(c: State, record: r.PhaseTransition) -> None:
    """A plan is carried out: what a user last wrote about it approved it, where no approval is on record."""
    if c.approved_turn:
        return
    newest = c.messages[-1] if c.messages else None
    if record.from_ is not Phase.PLAN or record.to is not Phase.EXECUTE or newest is None or not c.wrote_since_entry:
        return
    _decided(c, UserDecision(seq=newest.seq, text=f"{newest.name} on the plan: {in_a_line(newest.text, QUOTE)}"))


def _decided(c: State, decision: UserDecision) -> None:
    c.user_decisions = (*c.user_decisions, decision)[-DECISIONS:]


def shown(c: State, record: r.RunStarted) -> tuple[Entry, ...]:
    """The entries of a run that begins, with the words of the messages they name; the window holds them from now on."""
    before = any(isinstance(entry, ShownBefore) for entry in record.entries)
    window = c.window if before else Window()
    named = [entry for entry in record.entries if isinstance(entry, Shown)]
    by_seq: dict[int, Message] = {}
    if named:
        oldest = min(entry.seq for entry in named)
        for message in reversed(c.recent):
            if message.seq < oldest:
                break
            by_seq[message.seq] = message
        by_seq = {message.seq: message for message in c.messages} | by_seq
    entries: list[Entry] = []
    until = 0
    for entry in record.entries:
        if isinstance(entry, Shown):
            if (known := by_seq.get(entry.seq)) is not None:
                entries.append(as_entry(known, entry.limit))
                until = len(entries)
        elif not isinstance(entry, ShownBefore):
            entries.append(entry)
    if record.parent is None and until:
        added = entries[:until]
        c.window = Window(
            entries=(*window.entries, *added),
            since=window.since if before else _since(c, {entry.seq for entry in named}),
            until=max(entry.seq for entry in named),
            size=window.size + sum(map(entry_weight, added)),
        )
    return (*window.entries, *entries)


def as_entry(message: Message, limit: int) -> UserText | AgentText:
    """A message as a model reads it, with that many characters of its text."""
    text = with_context(cut(message.text, limit), message.context)
    if message.role is None:
        return AgentText(author=message.name, text=text)
    return UserText(author=message.name, text=text, role=str(message.role), key=message.author)


def _since(c: State, named: set[int]) -> int:
    """From which message on every one is among those named."""
    since = max(named) + 1
    for message in reversed(c.recent):
        if message.seq < since and message.seq not in named:
            break
        since = min(since, message.seq)
    return since
