"""What a user's message leads to: an answer to a question, a command, or work."""

from collections.abc import Mapping, Sequence

from tenex.core import permissions
from tenex.core import records as r
from tenex.core.amounts import count
from tenex.core.approvals import answers as approvals
from tenex.core.config import Role
from tenex.core.conversation import Conversation
from tenex.core.decider import person
from tenex.core.delivery.notifications import note_awake
from tenex.core.delivery.outgoing import notify, send_as_agent
from tenex.core.forms import Form, NoAnswer
from tenex.core.identity.state import title_of
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, RunId, Slug
from tenex.core.kind import all_kinds, can_begin, has_own_work, kind_of_conversation, refused_name
from tenex.core.memory.window import in_a_line
from tenex.core.names import is_placeholder, with_names, without_mentions
from tenex.core.permissions import Decision
from tenex.core.port_values import Quotation
from tenex.core.signals import ConversationLeft, InboundMessage, MessageDeleted, MessageReceived
from tenex.core.transaction import Transaction
from tenex.core.trust import is_outside
from tenex.core.values import replace
from tenex.core.work.run import ASK, Call, CallState, Run
from tenex.core.work.runs import after_result
from tenex.core.yes_no import why_misdated

from .commands import (
    UNKNOWN,
    Command,
    commands_of_kinds,
    counts_as_last_line,
    execute_command,
    parse,
    read,
    split_last_line,
    split_request,
    stop,
)
from .message import DELETED, Message
from .reactions import said_by

QUOTES = 3
"""Quoted notes that a message's context names."""
QUOTED_CHARACTERS = 600
"""Of a message that is answered or quoted: who replies means the whole of a short one, or a part of a long one."""
MACHINES = 6
"""Messages of agents elsewhere that are answered until a person writes: enough for a question and a correction."""
SHORT_ID = 12
"""Characters by which a conversation is named."""


def on_message(transaction: Transaction, signal: MessageReceived) -> None:
    """Take a message in; twice the same event gives no record."""
    message = signal.message
    state = transaction.state
    is_refused = message.by_machine and state.identity.by_machines >= MACHINES
    if is_refused or message.event_id in state.identity.seen:
        return
    if message.is_reaction:
        _on_reaction(transaction, signal)
        return
    if message.reply_to in state.delivery.reminders:
        message = replace(message, reply_to=None)
        signal = replace(signal, message=message)
    if not signal.is_plain:
        project = transaction.policy.project
        text = without_mentions(message.text, project.pubkey, project.name)
        text = with_names(text, _slugs(transaction))
        signal = replace(signal, message=replace(message, text=text))
    if state.cycle.status == "new":
        _start(transaction, signal)
    note_awake(transaction, signal)
    leading, rest = _without_leading_commands(transaction, signal)
    if isinstance(rest, Command):
        _give_all(transaction, [*leading, rest], signal)
        return
    if approvals.on_message(transaction, rest):
        _give_all(transaction, leading, signal)
        return
    signal, last = _without_last_line(rest)
    state = transaction.state
    retried = refused_name(transaction)
    is_begun = not retried and bool(state.memory.recent or state.cycle.turns or state.has_begun_kind)
    called = retried or next((slug for slug in signal.addressed if can_begin(transaction, slug)), Slug(""))
    kind = kind_of_conversation(state)
    if state.cycle.status == "ended" and not retried:
        kind.begin_cycle(transaction, f"{signal.name} wrote again", person(signal.name, message.author))
    if called and not is_begun:
        kind = next(kind for kind in all_kinds() if kind.begins(transaction.policy, called))
    kind.on_message(transaction, signal, called)
    _report_machines(transaction, signal)
    _report_pictures(transaction, signal)
    _give_all(transaction, leading, signal)  # they are for the cycle that the request has begun
    if last is not None and counts_as_last_line(last.name):
        _give(transaction, last, signal)
    elif last is not None and not (called and _counts_in_opening(last)):
        notify(
            transaction,
            f"I read the last line, /{last.name}, as text. To give that command, send it as a message of its own.",
        )


def _on_reaction(transaction: Transaction, signal: MessageReceived) -> None:
    """Take a reaction as the answer, the reply or the command that it means; most mean nothing."""
    is_asked = transaction.state.approvals.asked_by(signal.message.reply_to or "") is not None
    said = "" if is_asked else said_by(transaction, signal)
    if is_asked or isinstance(said, Command):
        note_awake(transaction, signal)
    if not isinstance(said, Command) and approvals.on_message(transaction, signal):
        return
    origin = transaction.state.delivery.origin
    # a reaction cannot be answered in a thread: what is answered is the message before it
    answered = origin if origin.get("author") == signal.message.author else {}
    if isinstance(said, Command):
        _give(transaction, said, replace(signal, message=replace(signal.message, origin={})))
    elif said:
        reply = replace(signal.message, text=said, is_reaction=False, origin=answered)
        on_message(transaction, replace(signal, message=reply))


def _report_machines(transaction: Transaction, signal: MessageReceived) -> None:
    """Say, with the last message of an agent elsewhere that is answered, that the next one is not."""
    if signal.message.by_machine and transaction.state.identity.by_machines == MACHINES:
        notify(
            transaction,
            f"Agents have written here {MACHINES} times since a person did. I answer again when a person writes.",
        )


def _report_pictures(transaction: Transaction, signal: MessageReceived) -> None:
    """Inform the author of a message of pictures in it that no agent sees; once, where none is ever seen.

    In public it notifies no one: they are notified of the answer, which follows.
    """
    addresses = signal.message.pictures
    if not addresses or signal.message.by_machine:
        return
    if signal.role is Role.GUEST or not transaction.policy.sees_pictures:
        if not transaction.state.identity.pictures_unseen:
            transaction.add(r.PicturesUnseen)
            whose = (
                "Pictures of guests" if transaction.policy.sees_pictures else "No model here is set to see, so pictures"
            )
            notify(transaction, f"{whose} are not looked at: agents are shown their addresses alone.", notifies=())
    elif signal.not_loaded:
        what = f"{len(signal.not_loaded)} of {count(len(addresses), 'picture')}"
        notify(transaction, f"I could not load {what}: {'; '.join(signal.not_loaded)}.", notifies=())


def _counts_in_opening(command: Command) -> bool:
    of_kind = commands_of_kinds().get(command.name)
    return of_kind is not None and of_kind.counts_in_opening


def _without_last_line(signal: MessageReceived) -> tuple[MessageReceived, Command | None]:
    """A message and the command in its last line; one that counts there is no part of the text."""
    if signal.is_plain:
        return signal, None
    text, command = split_last_line(signal.message.text)
    if command is None or not counts_as_last_line(command.name):
        return signal, command
    command, request = split_request(command)
    if request:
        text = f"{text}\n{request}"
    return replace(signal, message=replace(signal.message, text=text)), command


def _without_leading_commands(
    transaction: Transaction, signal: MessageReceived
) -> tuple[list[Command], Command | MessageReceived]:
    """The commands before a request in the same message, and the rest: the request, or another command."""
    leading: list[Command] = []
    while True:
        rest = read(transaction, signal)
        if not isinstance(rest, Command):
            return leading, rest
        command, request = split_request(rest)
        if command.name == UNKNOWN:
            return [], command  # nothing is started
        if not request:
            return leading, command
        leading.append(command)
        signal = replace(signal, message=replace(signal.message, text=request))


def _give_all(transaction: Transaction, commands: Sequence[Command], signal: MessageReceived) -> None:
    for command in commands:
        _give(transaction, command, signal)


def _give(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Record a command and execute it."""
    message = signal.message
    transaction.add(
        r.CommandGiven,
        event_id=message.event_id,
        author=message.author,
        name=signal.name,
        role=signal.role,
        command=command.name,
        argument=command.argument,
        created_at=message.created_at,
        origin=message.origin,
    )
    execute_command(transaction, command, signal)
    state = transaction.state
    is_idle = state.cycle.status == "active" and state.work.turn is None and state.router.question is None
    if is_idle and not has_own_work(state) and kind_of_conversation(state).waits_when_idle:
        transaction.add(r.Waiting, reason="user")


def on_deletion(transaction: Transaction, signal: MessageDeleted) -> None:
    """Withdraw a message that its author deleted, and stop the work on it, if nothing else asks for that."""
    if approvals.on_deletion(transaction, signal):
        return
    state = transaction.state
    messages = {
        message.seq: message for message in (*state.memory.earlier, *state.memory.recent, *state.cycle.messages)
    }
    deleted = next((message for message in messages.values() if _is_of(message, signal)), None)
    if deleted is None:
        return
    shown = max((run.shown for run in state.work.runs.values()), default=0)
    is_begun = state.reads_messages or state.has_open_kind
    was_read = is_begun or deleted.is_settled or deleted.seq <= max(state.memory.answered, shown)
    was_title = str(deleted.event_id) == str(state.id) or state.identity.title == title_of(deleted.text)
    transaction.add(r.MessageWithdrawn, message=deleted.seq, was_read=was_read, was_title=was_title)
    is_under_way = state.work.turn is not None or state.router.question is not None or is_begun
    is_under_way = is_under_way or has_own_work(state)
    if was_read and is_under_way and state.cycle.status == "active":
        _end_work_on(transaction, deleted)
    elif not was_read and _waits_for_nothing(state):
        transaction.add(r.Waiting, reason="user")


def _waits_for_nothing(state: Conversation) -> bool:
    """Whether a conversation that is at work has nothing to do any more."""
    is_active = state.cycle.status == "active" and state.work.turn is None
    return is_active and not state.unanswered and not has_own_work(state)


def _end_work_on(transaction: Transaction, deleted: Message) -> None:
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
        notify(transaction, "What you deleted was read before, and work goes on. `/stop` ends it.")
        return
    stop(transaction, deleted.name, why="You deleted what this was for. ")


def _asking(state: Conversation, messages: Sequence[Message]) -> list[Message]:
    """The messages that what is under way is for, of those of the cycle.

    A mission is for the message that opened it; no agent reads the others as wishes.
    """
    if state.has_open_kind:
        return [*messages[:1]]
    begins = max((place for place, message in enumerate(messages) if message.is_first), default=0)
    return [message for message in messages[begins:] if not message.is_settled]


def _is_of(message: Message, signal: MessageDeleted) -> bool:
    is_same = message.event_id == signal.event_id and message.author == signal.author
    return is_same and message.role is not None and message.text != DELETED


def on_left(transaction: Transaction, signal: ConversationLeft) -> None:
    """End what runs in a conversation that its user has left for another one, if they may; without a message."""
    state = transaction.state
    may_end = permissions.may_decide(
        Decision.COMMAND, state, transaction.policy.gates, author=signal.author, role=signal.role
    )
    if not may_end or state.cycle.status in ("new", "ended"):
        return
    stop(transaction, signal.name, quiet=True)
    if transaction.state.cycle.status != "ended" and not transaction.state.has_open_kind:  # a mission is paused
        reason = f"{signal.name} began another conversation"
        transaction.add(r.Ended, reason=reason, decided_by=person(signal.name, signal.author))


def record_message(transaction: Transaction, signal: MessageReceived) -> r.MessageRecorded:
    """Record a user's message."""
    message = signal.message
    return transaction.add(
        r.MessageRecorded,
        event_id=message.event_id,
        author=message.author,
        name=signal.name,
        role=signal.role,
        text=message.text,
        created_at=message.created_at,
        addressed=signal.addressed,
        reply_to=message.reply_to,
        origin=message.origin,
        context=_context(transaction, signal),
        is_outside=is_outside(transaction.state.identity.address, message.address),
        by_machine=message.by_machine,
        by_program=signal.is_plain,
    )


def quotations_wanted(state: Conversation, message: InboundMessage) -> tuple[EventId, ...]:
    """The events that a message replies to or quotes and whose words are not among the newest of the conversation.

    The root of a thread is one of them where the conversation begins further down in it.
    """
    if message.is_reaction:
        return ()
    is_first = not any(map(_event_of, state.memory.recent))
    wanted = [*message.quotes[:QUOTES]]
    if message.reply_to and (is_first or str(message.reply_to) != str(state.id)):
        wanted.insert(0, message.reply_to)
    if is_first and str(message.event_id) != str(state.id):
        wanted.append(EventId(state.id))
    return tuple(event for event in dict.fromkeys(wanted) if _newest_of(state, event) is None)


def begins_within_a_thread(state: Conversation, message: InboundMessage) -> bool:
    """Whether a message calls us into a thread of others, which no message of the conversation shows.

    Not a private one: no relay has what it replies to, and none is to learn its id.
    """
    is_first = state.cycle.status == "new" and not message.is_reaction and not message.room
    return is_first and bool(message.reply_to or message.about)


def _context(transaction: Transaction, signal: MessageReceived) -> str:
    """What a message replies to or quotes, where agents would not know it: neither the newest message nor the root."""
    state = transaction.state
    message = signal.message
    quoted = {quotation.event_id: quotation for quotation in signal.quotations or ()}
    sentences = [f"It comments on {_quotation(message.about)}"] if message.about else []
    answered = _newest_of(state, message.reply_to)
    if answered is not None and answered is not state.memory.recent[-1] and str(message.reply_to) != str(state.id):
        sentences.append(f"It replies to {answered.name}: {_quotation(answered.text)}")
    elif message.reply_to in quoted:
        sentences.append(f"It replies to {_described(quoted[message.reply_to], state.id)}")
    root = quoted.get(EventId(state.id))
    if root is not None and root.text and root.event_id != message.reply_to:
        sentences.append(f"The thread begins with {_described(root, state.id)}")
    others = [note for note in signal.thread if note.text and not _is_shown(note.event_id, quoted)]
    if others:
        notes = "; ".join(f"{note.name}: {_quotation(note.text)}" for note in others)
        sentences.append(f"Before it in the thread, the oldest first: {notes}")
    for event in message.quotes[:QUOTES]:
        known = _newest_of(state, event)
        if known is not None:
            sentences.append(f"It quotes {known.name}: {_quotation(known.text)}")
        elif event in quoted:
            sentences.append(f"It quotes {_described(quoted[event], state.id)}")
        else:
            sentences.append("It quotes a note that is not known here")
    return with_names(". ".join(sentences), _slugs(transaction))


def _is_shown(event: EventId, quoted: Mapping[EventId, Quotation]) -> bool:
    return event in quoted and bool(quoted[event].text)


def _slugs(transaction: Transaction) -> dict[PublicKey, Slug]:
    return {agent.pubkey: agent.slug for agent in transaction.policy.roster.values()}


def _event_of(message: Message) -> str:
    return message.event_id or message.sent_as


def _newest_of(state: Conversation, event: str | None) -> Message | None:
    """The newest message that this event holds, of the newest ones; most are a reply to the last."""
    if not event:
        return None
    return next((message for message in reversed(state.memory.recent) if _event_of(message) == event), None)


def _described(quotation: Quotation, here: ConversationId) -> str:
    """Who wrote it, where, and its words as data."""
    if not quotation.text:
        return "a message of another conversation, which may not be shown here"
    if quotation.conversation == here:
        return f"{quotation.name}: {_quotation(quotation.text)}"
    if quotation.conversation is None:
        return f"a public note of {quotation.name}: {_quotation(quotation.text)}"
    title = f" {_quotation(quotation.title)}" if quotation.title else ""
    where = f"the conversation {quotation.conversation[:SHORT_ID]}{title}"
    return f"{quotation.name} in {where}: {_quotation(quotation.text)} (`search_conversation` reads more of it)"


def _quotation(text: str) -> str:
    """Words of somebody else, as data: on one line, within quotation marks that they cannot close."""
    return f"“{in_a_line(text, QUOTED_CHARACTERS).replace('”', '’')}”"


def report_elsewhere(transaction: Transaction, slug: Slug) -> None:
    """Notify a user that what they mention in a running conversation begins in a thread of its own."""
    noun = transaction.policy.begun_by_mention[slug].noun
    notify(transaction, f"@{slug} is a {noun}; it begins in a thread of its own. Write a new note that mentions it.")


def report_disabled(transaction: Transaction, signal: MessageReceived) -> bool:
    """Notify a user that a workflow or an agent they mention is disabled; returns whether no other is mentioned."""
    policy = transaction.policy
    slug = next((slug for slug in signal.addressed if slug in (*policy.disabled, *policy.disabled_agents)), None)
    if slug is None:
        return False
    notify(transaction, why_disabled(transaction, slug), error="workflow" if slug in policy.disabled else "agent")
    return not any(other in policy.routable for other in signal.addressed)


def why_disabled(transaction: Transaction, slug: Slug) -> str:
    """The first fault of a disabled workflow or agent, and the command that shows all."""
    is_workflow = slug in transaction.policy.disabled
    first, *others = (transaction.policy.disabled if is_workflow else transaction.policy.disabled_agents)[slug]
    more = f" ({len(others)} more.)" if others else ""
    what, check = ("workflow", "workflows check") if is_workflow else ("agent", "config check")
    return f"The {what} {slug} is disabled: {first}{more} The operator can see all by `tenex {check}`."


def _start(transaction: Transaction, signal: MessageReceived) -> None:
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


def answers_question(transaction: Transaction, wrote: r.MessageRecorded, *, is_plain: bool = False) -> bool:
    """A reply to a question answers it, and so does a mention of who asked.

    Other text answers the only question there is, while all else is parked. What someone writes who may not answer is a
    message like any. What a program sends (`is_plain`) answers agents, and not what a server asks a person by a tool.
    Such a question is answered by a reply to it, or by what was written to the thread after it: a reply to another
    message, or to an earlier question of the server, is for that.
    """
    state = transaction.state
    named = state.work.asks.get(wrote.reply_to) if wrote.reply_to else None
    answered = state.work.answered_asks.get(wrote.reply_to) if wrote.reply_to else None
    if answered is not None and not is_plain and _corrects(transaction, wrote, *answered):
        return True
    parked = [
        (run, call)
        for run in state.work.runs.values()
        for call in run.open_calls
        if call.state is CallState.PARKED and (call.request.tool == ASK or not is_plain)
    ]
    if named is not None:
        open_ = [pair for pair in parked if (pair[0].id, pair[1].request.id) == named]
    elif wrote.addressed:
        open_ = [pair for pair in parked if wrote.addressed == (pair[0].agent,)]
    else:
        open_ = parked if state.work.is_parked else []
    theirs = [pair for pair in open_ if _may_answer(transaction, wrote, pair[1])]
    if open_ and not theirs:
        _report_not_asked(transaction, [run for run, _ in open_], open_[0][1])
        return True
    open_ = theirs
    if len(open_) > 1:
        askers = {run.id: run.name for run, _ in open_}
        names = ", ".join(askers.values())
        who = f"Several of us wait for an answer ({names})" if len(askers) > 1 else f"{names} has asked several things"
        notify(transaction, f"{who}. Please reply to the question you mean.", "question")
        return True
    if not open_:
        if wrote.addressed and state.work.is_parked:
            names = ", ".join(dict.fromkeys(run.name for run in state.work.runs.values() if run.has_parked))
            notify(transaction, f"{names} must have an answer first; then it is their turn whom you named.", "question")
        return False
    run, call = open_[0]
    if named is None and not _is_for(transaction, wrote, call):
        _repeat_question(transaction, run, call)
    else:
        _answer_or_say_why_not(transaction, run, call, wrote)
    return True


def _answer_or_say_why_not(transaction: Transaction, run: Run, call: Call, wrote: r.MessageRecorded) -> None:
    """Take an answer; one that the form of its question does not permit is asked for again, with the reason."""
    try:
        if call.form:
            Form.of(call.form).read(wrote.text)
    except NoAnswer as fault:
        text = f"That was no answer, and it still waits for one. {fault}\n\n{call.question}"
        send_as_agent(transaction, run, text, "question", call=call.request.id)
        return
    _answer(transaction, run, call.request.id, wrote)


def _corrects(transaction: Transaction, wrote: r.MessageRecorded, run_id: RunId, call: CallId) -> bool:
    """Take a second reply to the question of a tool in place of the first one, until the tool has used that."""
    state = transaction.state
    run = state.work.runs[run_id]
    is_theirs = permissions.may_decide(
        Decision.ANSWER,
        state,
        transaction.policy.gates,
        author=wrote.author,
        role=wrote.role,
        asked=state.on_behalf_of,
    )
    if not is_theirs:
        return False
    if run.answered_call(call) is None and state.work.is_parked:
        return False  # it is a late reply, and another question waits
    if run.answered_call(call) is None:
        notify(transaction, "That question has its answer, and it was used already. Your words are a new message.")
        return False
    transaction.add(r.AnswerCorrected, run=run.id, call=call, text=wrote.text, name=wrote.name, message=wrote.seq)
    notify(transaction, "Noted: this answer counts in place of the one before.")
    return True


def _may_answer(transaction: Transaction, wrote: r.MessageRecorded, call: Call) -> bool:
    return permissions.may_decide(
        Decision.ANSWER,
        transaction.state,
        transaction.policy.gates,
        author=wrote.author,
        role=wrote.role,
        asked=_asked_of(transaction, call),
    )


def _is_for(transaction: Transaction, wrote: r.MessageRecorded, call: Call) -> bool:
    """Whether what replies to no open question may answer this one."""
    if call.request.tool == ASK:
        return True
    state = transaction.state
    is_to_thread = wrote.reply_to in (None, state.id, state.identity.address.get("root"))
    return is_to_thread and not why_misdated(wrote.created_at, call.asked_at, transaction.now)


def _repeat_question(transaction: Transaction, run: Run, call: Call) -> None:
    """Have the agent ask again what a server asks, where someone wrote who may answer; a reply to that is an answer."""
    text = f"That is no reply to this question, so it still waits for an answer:\n\n{call.question}"
    send_as_agent(transaction, run, text, "question", call=call.request.id)


def _asked_of(transaction: Transaction, call: Call) -> PublicKey:
    return call.asked_of or transaction.state.on_behalf_of


def _report_not_asked(transaction: Transaction, runs: Sequence[Run], call: Call) -> None:
    """Notify a user who answered what someone else was asked that the question stays open."""
    state = transaction.state
    names_of = {
        message.author: message.name for message in (*state.memory.recent, *state.cycle.messages) if message.role
    }
    who = names_of.get(_asked_of(transaction, call))
    names = ", ".join(dict.fromkeys(run.name for run in runs))
    whose = f"{who} or an owner" if who and not is_placeholder(who) else "someone else"
    notify(
        transaction, f"{names} asked {whose}, so your words are no answer. They read them when that answer is there."
    )


def _answer(transaction: Transaction, run: Run, call: str, wrote: r.MessageRecorded) -> None:
    parked_for = transaction.now - run.parked_at if run.parked_at is not None else 0
    transaction.add(
        r.QuestionAnswered,
        run=run.id,
        call=call,
        text=wrote.text,
        name=wrote.name,
        message=wrote.seq,
        warn_at=Millis(run.warn_at + parked_for),
        close_at=Millis(run.close_at + parked_for),
    )
    after_result(transaction, run.id)
