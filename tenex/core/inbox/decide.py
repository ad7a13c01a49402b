"""What kinds of conversation do with a user's message: record it with its context, take it as an agent's answer."""

from collections.abc import Sequence

from tenex.core import records as r
from tenex.core.answers.choices import chosen, worded_choice
from tenex.core.answers.forms import Form, NoAnswer
from tenex.core.answers.yes_no import why_misdated
from tenex.core.conversation import Conversation
from tenex.core.delivery.outgoing import notify, send_as_agent
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, RunId, Slug
from tenex.core.memory.window import in_a_line
from tenex.core.messages import CallRequest, with_context
from tenex.core.people import permissions
from tenex.core.people.decider import person
from tenex.core.people.permissions import Decision
from tenex.core.people.trust import is_outside
from tenex.core.port_values import Quotation
from tenex.core.signals import ConversationLeft, InboundMessage, MessageReceived
from tenex.core.text.names import is_placeholder, with_names, without_leading_mentions
from tenex.core.transaction import Transaction
from tenex.core.work.run import ASK, Call, CallState, Run, choices_of
from tenex.core.work.runs import after_result

from .commands import stop
from .message import Message
from .received_files import sentences_about

QUOTES = 3
"""Quoted notes that a message's context names."""
QUOTED_CHARACTERS = 600
"""Of a message that is answered or quoted: who replies means the whole of a short one, or a part of a long one."""
SHORT_ID = 12
"""Characters by which a conversation is named."""


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
        files=signal.files,
        edits=message.edits,
    )


def record_correction(transaction: Transaction, signal: MessageReceived, original: Message | None) -> None:
    """Record new words for a message that agents have read: they read these too, and no one is asked to act on them.

    `original` is what it replaces; None where that is no message that agents read.
    """
    message = signal.message
    what = f"an earlier message of theirs, {_quotation(original.text)}" if original is not None else "a command"
    sentences = [f"It is the corrected text of {what}, and no new request"]
    sentences += sentences_about(signal.files, message.text, message.files_left_out)
    transaction.add(
        r.MessageRecorded,
        event_id=message.event_id,
        author=message.author,
        name=signal.name,
        role=signal.role,
        text=message.text,
        created_at=message.created_at,
        context=". ".join(sentences),
        is_outside=is_outside(transaction.state.identity.address, message.address),
        by_machine=message.by_machine,
        by_program=signal.is_plain,
        files=signal.files,
        edits=message.edits,
        is_correction=True,
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

    shown = {event for event, quotation in quoted.items() if quotation.text}
    others = [note for note in signal.thread if note.text and note.event_id not in shown]
    if others:
        notes = "; ".join(f"{note.name}: {_quotation(note.text)}" for note in others)
        sentences.append(f"Before it in the thread, the oldest first: {notes}")

    for event in message.quotes[:QUOTES]:
        cited = _newest_of(state, event)
        if cited is not None:
            sentences.append(f"It quotes {cited.name}: {_quotation(cited.text)}")
        elif event in quoted:
            sentences.append(f"It quotes {_described(quoted[event], state.id)}")
        else:
            sentences.append("It quotes a note that is not known here")

    sentences += sentences_about(signal.files, message.text, message.files_left_out)
    slugs = {agent.pubkey: agent.slug for agent in transaction.policy.roster.values()}
    return with_names(". ".join(sentences), slugs)


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
    what = "workflow" if is_workflow else "agent"
    check = "workflows check" if is_workflow else "config check"
    return f"The {what} {slug} is disabled: {first}{more} The operator can see all by `tenex {check}`."


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

    parked: list[tuple[Run, Call]] = []
    for run in state.work.runs.values():
        waiting = [call for call in run.open_calls if call.state is CallState.PARKED]
        parked += [(run, call) for call in waiting if call.request.tool == ASK or not is_plain]
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
    open_ = _of_the_choice(theirs, wrote.text)
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


def _of_the_choice(open_: list[tuple[Run, Call]], text: str) -> list[tuple[Run, Call]]:
    """The question of which a text is a choice by its words, where that is one of several; else all of them."""
    said = without_leading_mentions(text)
    fitting = [pair for pair in open_ if worded_choice(said, choices_of(pair[1].request)) is not None]
    return fitting if len(fitting) == 1 else open_


def _answer_or_say_why_not(transaction: Transaction, run: Run, call: Call, wrote: r.MessageRecorded) -> None:
    """Take an answer; one that the form of its question does not permit is asked for again, with the reason."""
    try:
        if call.form:
            Form.of(call.form).read(wrote.text)
    except NoAnswer as fault:
        text = f"That was no answer, and it still waits for one. {fault}\n\n{call.question}"
        send_as_agent(transaction, run, text, "question", call=call.request.id)
        return
    _answer(transaction, run, call, wrote)


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
    asked = run.answered_call(call)
    if asked is None and state.work.is_parked:
        return False  # it is a late reply, and another question waits
    if asked is None:
        notify(transaction, "That question has its answer, and it was used already. Your words are a new message.")
        return False
    transaction.add(
        r.AnswerCorrected,
        run=run.id,
        call=call,
        text=_meant(asked, wrote.text),
        name=wrote.name,
        message=wrote.seq,
    )
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


def asked_person(transaction: Transaction, call: Call) -> str:
    """Who may answer a question, in words."""
    state = transaction.state
    names_of = {
        message.author: message.name for message in (*state.memory.recent, *state.cycle.messages) if message.role
    }
    who = names_of.get(_asked_of(transaction, call))
    return f"{who} or an owner" if who and not is_placeholder(who) else "someone else"


def _report_not_asked(transaction: Transaction, runs: Sequence[Run], call: Call) -> None:
    """Notify a user who answered what someone else was asked that the question stays open."""
    names = ", ".join(dict.fromkeys(run.name for run in runs))
    whose = asked_person(transaction, call)
    notify(
        transaction, f"{names} asked {whose}, so your words are no answer. They read them when that answer is there."
    )


def _meant(request: CallRequest, text: str) -> str:
    """The choice that a text is, as the question has it; any other text as it was written."""
    choices = choices_of(request)
    place = chosen(text, choices)
    return text if place is None else choices[place]


def _answer(transaction: Transaction, run: Run, call: Call, wrote: r.MessageRecorded) -> None:
    parked_for = transaction.now - run.parked_at if run.parked_at is not None else 0
    text = _meant(call.request, wrote.text)
    transaction.add(
        r.QuestionAnswered,
        run=run.id,
        call=call.request.id,
        text=with_context(text, ". ".join(sentences_about(wrote.files, wrote.text))),
        name=wrote.name,
        message=wrote.seq,
        warn_at=Millis(run.warn_at + parked_for),
        close_at=Millis(run.close_at + parked_for),
    )
    after_result(transaction, run.id)
