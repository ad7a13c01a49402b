"""Who takes what a user sends: the claims, in the order in which they are asked.

A claim is asked about a message in a form that it reads, and only if it wants it. The first whose `take` is true has
it. What a message brings before anybody takes it is a claim too, one that is never true: that a conversation begins,
that a person is awake. `record` is a form that the kind of conversation asks about, within its own claim, once it has
recorded the message: an answer to a question is a message that agents read like any other.

An edit comes before all but duplicates: before work has begun the message is withdrawn and its new text taken as a new
one; later agents are shown the new text (`_edit`).

A text is read before it is asked about (`_read`): names are written as `@SLUG`, the commands at its beginning are cut
off, and a reply to a reminder is one to the thread. That records nothing. The commands are given once the request is
taken, since they are for the cycle that it may begin; then the command of its last line, which may end that.

The order matters in three places. A stop sign is asked about before a permission, so that it stops the work also as a
reaction to a request that is over. A request comes before the reply that a reaction means, since a reaction to it is an
answer to it alone. A question that only a user decides comes before one of an agent, and both before work.

Claims do not know one another. Whether a “yes” that names no question has one meaning follows from the sum of what all
of them ask (`open_questions`).
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from tenex.core import records as r
from tenex.core.approvals import answers as approvals
from tenex.core.config import Role
from tenex.core.delivery.notifications import note_awake
from tenex.core.delivery.outgoing import notify
from tenex.core.identity.state import title_of
from tenex.core.ids import Slug
from tenex.core.kind import all_kinds, can_begin, has_own_work, kind_of_conversation, refused_name
from tenex.core.people import permissions
from tenex.core.people.decider import person
from tenex.core.people.permissions import Decision
from tenex.core.people.trust import chat_of
from tenex.core.signals import InboundMessage, MessageDeleted, MessageReceived
from tenex.core.state import State
from tenex.core.text.amounts import count
from tenex.core.text.names import with_names, without_mentions
from tenex.core.transaction import Transaction
from tenex.core.values import replace
from tenex.core.work.run import CallState

from .claim import Claim, Form, Reading, Recorded
from .command import Command, record_command
from .commands import (
    UNKNOWN,
    execute_command,
    parse,
    read,
    slash_commands,
    split_last_line,
    split_request,
    stop,
)
from .decide import answers_question, record_correction
from .message import DELETED, Message
from .reactions import may_reply, may_stop, means_stop, reply_by
from .received_files import MOST, NO_TRANSCRIPTION, missing_files

_SEQ: Final = attrgetter("seq")

MACHINES = 6
"""Messages of agents elsewhere that are answered until a person writes: enough for a question and a correction."""


def on_message(transaction: Transaction, signal: MessageReceived) -> None:
    """Take a message in; twice the same event gives no record."""
    if signal.message.is_reaction:
        _take(transaction, Reading(signal=signal, whole=signal), "reaction")
    else:
        _take(transaction, _read(transaction, signal), "text")


def on_deletion(transaction: Transaction, signal: MessageDeleted) -> None:
    """Withdraw what its author deleted."""
    _take(transaction, signal, "deletion")


def is_answer(transaction: Transaction, signal: MessageReceived, wrote: r.MessageRecorded) -> bool:
    """Take a recorded message as the answer to a question of the kind or of an agent; whether it was one."""
    return _take(transaction, Recorded(signal=signal, wrote=wrote), "record")


def open_questions(state: State) -> int:
    """How many questions a user could mean by a “yes” that names none."""
    return sum(claim.asks(state) for claim in all_claims())


def all_claims() -> tuple[Claim[Any], ...]:
    """The claims in order, with those of the kinds of conversation among them."""
    of_kinds = (claim for kind in all_kinds() for claim in kind.claims)
    return (*CLAIMS_BEFORE_KINDS, *of_kinds, *CLAIMS_AFTER_KINDS)


def _take(transaction: Transaction, message: Reading | Recorded | MessageDeleted, form: Form) -> bool:
    readers = (claim for claim in all_claims() if form in claim.reads)
    return any(claim.wants(transaction.state, message) and claim.take(transaction, message) for claim in readers)


# ---- how a text is read ----


def _read(transaction: Transaction, signal: MessageReceived) -> Reading:
    message = signal.message
    if message.reply_to in transaction.state.delivery.reminders:
        message = replace(message, reply_to=None)
    if not signal.is_plain:
        policy = transaction.policy
        slugs = {agent.pubkey: agent.slug for agent in policy.roster.values()}
        text = without_mentions(message.text, policy.project.pubkey, policy.project.name)
        message = replace(message, text=with_names(text, slugs))
    whole = replace(signal, message=message)
    leading: list[Command] = []
    signal = whole
    while True:
        rest = read(transaction, signal)
        if not isinstance(rest, Command):
            return Reading(signal=rest, whole=whole, commands=tuple(leading))
        command, request = split_request(rest)
        if command.name == UNKNOWN:
            return Reading(signal=whole, whole=whole, commands=(command,), is_command=True)  # nothing else is started
        leading.append(command)
        if not request:
            return Reading(signal=whole, whole=whole, commands=tuple(leading), is_command=True)
        signal = replace(signal, message=replace(signal.message, text=request))


# ---- each message ----


def _edit(transaction: Transaction, reading: Reading) -> bool:
    """Take new words for a message; False where they are to be read as a message by the claims below.

    Before work on it has begun a person expects the new words to be all that counts. Later the work goes on, and who
    does it reads what was meant. What is a command now is given in any case: an edit to `/stop` is meant to stop.
    """
    state = transaction.state
    signal = reading.whole
    message = signal.message
    is_here = chat_of(message.address) == chat_of(state.identity.address)
    if not is_here or message.edits not in state.identity.seen:
        return True
    original = _edited_message(state, message)
    if original is not None:
        is_same = reading.signal.message.text == original.text
        if is_same or original.text == DELETED or message.created_at < original.edited_at:
            return True
    if reading.is_command:
        return False
    if original is not None and not _was_read(state, original):
        _withdraw(transaction, original, was_read=False)
        return False

    if not signal.is_plain:
        note_awake(transaction, signal)
    record_correction(transaction, signal, original)
    if original is None:
        notify(transaction, "An edit changes no command, and no yes or no that was given. Write a new one.")
    elif state.reads_messages or state.has_open_kind:
        notify(transaction, "What you edited was read before, and work goes on as it was. `/stop` ends it.")
    _report_files(transaction, signal)
    return True


def _edited_message(state: State, message: InboundMessage) -> Message | None:
    """The newest form of what an edit is of, by the same author."""
    written = {m.seq: m for m in (*state.memory.earlier, *state.memory.recent, *state.cycle.messages)}
    theirs = (m for m in written.values() if m.role is not None and m.author == message.author)
    return max((m for m in theirs if message.edits in (m.event_id, m.edits)), key=_SEQ, default=None)


def _is_refused(state: State, reading: Reading) -> bool:
    """Whether the event was seen, or is one of an agent elsewhere beyond those that are answered."""
    message = reading.signal.message
    is_beyond_limit = message.by_machine and state.identity.by_machines >= MACHINES
    return is_beyond_limit or message.event_id in state.identity.seen


def _begin(transaction: Transaction, reading: Reading) -> bool:
    """Record that the conversation begins."""
    signal = reading.whole
    message = signal.message
    title = title_of(message.title.strip() or message.text) or "Untitled"
    if parse(message.text) and not message.title.strip():
        title = ""  # a command names nothing: the first real message will
    transaction.add(
        r.ConversationStarted,
        id=transaction.state.id,
        title=title,
        starter=message.author,
        address=dict(message.address),
        agent=transaction.policy.only_agent,
    )
    kind_of_conversation(transaction.state).begin_cycle(
        transaction, f"{signal.name} wrote", person(signal.name, message.author)
    )
    return False


def _note_awake(transaction: Transaction, reading: Reading) -> bool:
    note_awake(transaction, reading.signal)
    return False


def _give_commands(transaction: Transaction, reading: Reading) -> bool:
    _give_all(transaction, reading.commands, reading.whole)
    return True


def _give_all(transaction: Transaction, commands: Sequence[Command], signal: MessageReceived) -> None:
    for command in commands:
        _give(transaction, command, signal)


def _give(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Record a command and execute it."""
    record_command(transaction, command, signal)
    execute_command(transaction, command, signal)
    state = transaction.state
    is_idle = state.cycle.status == "active" and state.work.turn is None and state.router.question is None
    if is_idle and not has_own_work(state) and kind_of_conversation(state).waits_when_idle:
        transaction.add(r.Waiting, reason="user")


# ---- permission ----


def _permit(transaction: Transaction, reading: Reading) -> bool:
    message = reading.signal.message
    if message.is_reaction and transaction.state.approvals.asked_by(message.reply_to or "") is not None:
        note_awake(transaction, reading.signal)
    is_only = open_questions(transaction.state) == 1
    is_taken = approvals.take_answer(transaction, reading.signal, is_only=is_only)
    if is_taken:
        _give_all(transaction, reading.commands, reading.whole)
    return is_taken


# ---- reactions ----


def _stop(transaction: Transaction, reading: Reading) -> bool:
    signal = reading.signal
    if not means_stop(transaction, signal):
        return False
    note_awake(transaction, signal)
    # a reaction cannot be answered in a thread
    _give(transaction, Command("stop", ""), replace(signal, message=replace(signal.message, origin={})))
    return True


def _reply(transaction: Transaction, reading: Reading) -> bool:
    """Take a reaction as the text that it means."""
    signal = reading.signal
    text = reply_by(transaction, signal)
    if not text:
        return False
    origin = transaction.state.delivery.origin
    # a reaction cannot be answered in a thread: what is answered is the message before it
    answered = origin if origin.get("author") == signal.message.author else {}
    message = replace(signal.message, text=text, is_reaction=False, origin=answered)
    on_message(transaction, replace(signal, message=message))
    return True


# ---- an agent's question ----


def _may_answer_agent(state: State, recorded: Recorded) -> bool:
    work = state.work
    is_late_reply = recorded.wrote.reply_to in work.answered_asks
    return is_late_reply or work.is_parked or _parked_calls(state) > 0


def _parked_calls(state: State) -> int:
    calls = (call for run in state.work.runs.values() for call in run.open_calls)
    return sum(call.state is CallState.PARKED for call in calls)


# ---- the kind of the conversation ----


def _give_to_kind(transaction: Transaction, reading: Reading) -> bool:
    """Let the kind of the conversation record a request, and decide what follows."""
    signal, last = _without_last_line(reading.signal)
    state = transaction.state
    retried = refused_name(transaction)
    is_begun = not retried and bool(state.memory.recent or state.cycle.turns or state.has_begun_kind)
    called = retried or next((slug for slug in signal.addressed if can_begin(transaction, slug)), Slug(""))
    kind = kind_of_conversation(state)
    if state.cycle.status == "ended" and not retried:
        kind.begin_cycle(transaction, f"{signal.name} wrote again", person(signal.name, signal.message.author))
    if called and not is_begun:
        kind = next(kind for kind in all_kinds() if kind.begins(transaction.policy, called))

    kind.on_message(transaction, signal, called)
    _report_machines(transaction, signal)
    _report_files(transaction, signal)
    _give_all(transaction, reading.commands, signal)
    if last is not None:
        _give_last_line(transaction, last, signal, is_opening=bool(called))
    return True


def _give_last_line(transaction: Transaction, last: Command, signal: MessageReceived, *, is_opening: bool) -> None:
    """Give the command of a last line if it counts there; else report that it was read as text."""
    row = slash_commands()[last.name]
    if row.counts_as_last_line:
        _give(transaction, last, signal)
    elif not (is_opening and row.counts_in_opening):
        notify(
            transaction,
            f"I read the last line, /{last.name}, as text. To give that command, send it as a message of its own.",
        )


def _without_last_line(signal: MessageReceived) -> tuple[MessageReceived, Command | None]:
    """A message and the command in its last line; one that counts there is no part of the text."""
    if signal.is_plain:
        return signal, None
    text, command = split_last_line(signal.message.text)
    if command is None or not slash_commands()[command.name].counts_as_last_line:
        return signal, command
    command, request = split_request(command)
    if request:
        text = f"{text}\n{request}"
    return replace(signal, message=replace(signal.message, text=text)), command


def _report_machines(transaction: Transaction, signal: MessageReceived) -> None:
    """Say, with the last message of an agent elsewhere that is answered, that the next one is not."""
    if signal.message.by_machine and transaction.state.identity.by_machines == MACHINES:
        notify(
            transaction,
            f"Agents have written here {MACHINES} times since a person did. I answer again when a person writes.",
        )


def _report_files(transaction: Transaction, signal: MessageReceived) -> None:
    """Inform the author of a message of files in it that no agent gets, or sees; once, where none is ever seen.

    In public it notifies no one: they are notified of the answer, which follows.
    """
    files = signal.files
    if not files or signal.message.by_machine:
        return
    if signal.role is Role.GUEST:
        _report_once(transaction, "Files of guests are not loaded, nor pictures: agents get their addresses alone.")
        return
    if any(file.is_picture and not file.fault for file in files) and not transaction.policy.sees_pictures:
        _report_once(
            transaction, "No model here is set to see, so pictures are not looked at: agents get them as files alone."
        )

    mute = [file.untranscribed for file in files if file.untranscribed]
    if NO_TRANSCRIPTION in mute and not transaction.state.identity.voices_unread:
        transaction.add(r.PicturesUnseen, what="voice notes")
        text = f"Voice notes are not read: {NO_TRANSCRIPTION}. Agents get them as files alone."
        notify(transaction, text, notifies=())
    failed = [why for why in mute if why != NO_TRANSCRIPTION]
    if failed:
        what = count(len(failed), "voice note")
        notify(transaction, f"I could not transcribe {what}: {'; '.join(dict.fromkeys(failed))}.", notifies=())

    missing = missing_files(files)
    left_out = signal.message.files_left_out
    if left_out:
        missing.append(f"{left_out} more (of a message {MOST} files are loaded)")
    if missing:
        notify(transaction, f"I could not load {'; '.join(missing)}.", notifies=())


def _report_once(transaction: Transaction, text: str) -> None:
    if not transaction.state.identity.pictures_unseen:
        transaction.add(r.PicturesUnseen)
        notify(transaction, text, notifies=())


# ---- deletions ----


def _deleted_messages(state: State, signal: MessageDeleted) -> list[Message]:
    """A message and the edits of it, the oldest first."""
    messages = {
        message.seq: message for message in (*state.memory.earlier, *state.memory.recent, *state.cycle.messages)
    }
    return sorted((message for message in messages.values() if _is_of(message, signal)), key=_SEQ)


def _withdraw_message(transaction: Transaction, signal: MessageDeleted) -> bool:
    """Withdraw a message that was deleted, and stop the work on it, if nothing else asks for that."""
    deleted = _deleted_messages(transaction.state, signal)
    for message in deleted:
        by = "You" if message.author == signal.author else "The moderation of this room"
        state = transaction.state
        was_read = _was_read(state, message)
        is_under_way = state.work.turn is not None or state.router.question is not None
        is_under_way = is_under_way or state.reads_messages or state.has_open_kind or has_own_work(state)
        _withdraw(transaction, message, was_read=was_read)
        is_asked = was_read and not message.is_correction
        if is_asked and is_under_way and state.cycle.status == "active":
            _end_work_on(transaction, message, by)
    return bool(deleted)


def _was_read(state: State, message: Message) -> bool:
    """Whether work on a message has begun."""
    shown = max((run.shown for run in state.work.runs.values()), default=0)
    is_begun = state.reads_messages or state.has_open_kind
    return is_begun or message.is_settled or message.seq <= max(state.memory.answered, shown)


def _withdraw(transaction: Transaction, message: Message, *, was_read: bool) -> None:
    """Record that a message is taken back; where nothing else is to be done, the conversation waits."""
    state = transaction.state
    was_title = str(message.event_id) == str(state.id) or state.identity.title == title_of(message.text)
    transaction.add(r.MessageWithdrawn, message=message.seq, was_read=was_read, was_title=was_title)
    if not was_read and _waits_for_nothing(transaction.state):
        transaction.add(r.Waiting, reason="user")


def _waits_for_nothing(state: State) -> bool:
    """Whether a conversation that is at work has nothing to do any more."""
    is_active = state.cycle.status == "active" and state.work.turn is None
    return is_active and not state.unanswered and not has_own_work(state)


def _end_work_on(transaction: Transaction, deleted: Message, by: str) -> None:
    """Stop what is under way if all was deleted that it is for, by people who may stop it or who alone asked for it."""
    state = transaction.state
    messages = [message for message in state.cycle.messages if message.role is not None]
    asking = _asking(state, messages)
    # a mission may go on for somebody whose words no cycle has
    is_for_others = state.has_open_kind or any(message.author != deleted.author for message in messages)
    may_stop = not is_for_others or permissions.may_decide(
        Decision.COMMAND, state, transaction.policy.gates, author=deleted.author, role=deleted.role
    )
    is_asked_by_others = any(message.text != DELETED for message in asking)
    if not may_stop or is_asked_by_others or all(message.seq != deleted.seq for message in asking):
        what = f"What {by[0].lower()}{by[1:]} deleted"
        notify(transaction, f"{what} was read before, and work goes on. `/stop` ends it.")
        return
    stop(transaction, deleted.name, why=f"{by} deleted what this was for. ")


def _asking(state: State, messages: Sequence[Message]) -> list[Message]:
    """The messages that what is under way is for, of those of the cycle.

    A mission is for the message that opened it; no agent reads the others as wishes.
    """
    if state.has_open_kind:
        return [*messages[:1]]
    begins = max((place for place, message in enumerate(messages) if message.is_first), default=0)
    return [message for message in messages[begins:] if not message.is_settled]


def _is_of(message: Message, signal: MessageDeleted) -> bool:
    is_same = signal.event_id in (message.event_id, message.edits)
    may_delete = signal.is_moderated or signal.author == message.author
    return is_same and may_delete and message.role is not None and message.text != DELETED


# ---- the table ----

_TEXT: Final[frozenset[Form]] = frozenset({"text"})
_REACTION: Final[frozenset[Form]] = frozenset({"reaction"})
_RECORD: Final[frozenset[Form]] = frozenset({"record"})
_DELETION: Final[frozenset[Form]] = frozenset({"deletion"})

CLAIMS_BEFORE_KINDS: Final[tuple[Claim[Any], ...]] = (
    Claim(name="duplicate", reads=_TEXT | _REACTION, wants=_is_refused, take=lambda *_: True),
    Claim(name="edit", reads=_TEXT, wants=lambda _, it: it.whole.message.edits is not None, take=_edit),
    Claim(name="stop sign", reads=_REACTION, wants=lambda state, it: may_stop(state, it.signal), take=_stop),
    Claim(name="beginning", reads=_TEXT, wants=lambda state, _: state.cycle.status == "new", take=_begin),
    Claim(name="awake", reads=_TEXT, wants=lambda _, it: not it.signal.is_plain, take=_note_awake),
    Claim(name="command", reads=_TEXT, wants=lambda _, it: it.is_command, take=_give_commands),
    Claim(
        name="permission",
        reads=_TEXT | _REACTION,
        wants=lambda state, it: approvals.may_be_answer(state, it.signal),
        take=_permit,
        asks=lambda state: len(state.approvals.open),
    ),
    Claim(name="reply", reads=_REACTION, wants=lambda state, it: may_reply(state, it.signal), take=_reply),
    Claim(name="permission", reads=_DELETION, wants=approvals.is_answer_deleted, take=approvals.withdraw_answer),
    Claim(
        name="message",
        reads=_DELETION,
        wants=lambda state, signal: bool(_deleted_messages(state, signal)),
        take=_withdraw_message,
    ),
)
CLAIMS_AFTER_KINDS: Final[tuple[Claim[Any], ...]] = (
    Claim(
        name="question",
        reads=_RECORD,
        wants=_may_answer_agent,
        take=lambda transaction, it: answers_question(transaction, it.wrote, is_plain=it.signal.is_plain),
        asks=_parked_calls,
    ),
    Claim(name="kind", reads=_TEXT, wants=lambda *_: True, take=_give_to_kind),
)
