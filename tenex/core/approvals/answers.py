"""What counts as a person's answer to a request, and what follows from it.

An answer is a reply to the request's own message, a reaction to it, `/approvals yes NUMBER`, or the operator's word at
the machine. A yes or no in the thread counts where one request is open, nothing else is asked, and it was written after
the request. It is for owners, and for members where that is set; a key of ours decides nothing, and no text of a model
or a program does. The first answer counts; who answers later reads what the first was.

Where a message asks about several calls, an answer is for all that are left, unless it names them by their numbers:

    yes                              all
    1 yes, 2 no: too broad           these; a request stays open until each of its calls has an answer
    /approvals no 81316857-13.2      that one

Who deletes their yes takes it back for the calls that have not begun. Which words are a yes or a no says `yes_no`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tenex.core import records as r
from tenex.core.answers.yes_no import REASON, Answer, Unclear, read_answer, read_answers, read_picture, why_misdated
from tenex.core.delivery.outgoing import notify, send_as_agent
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.inbox.command import Command, record_command
from tenex.core.inbox.uncounted import report_uncounted
from tenex.core.memory.window import in_a_line
from tenex.core.people import permissions
from tenex.core.signals import ApprovalDecided, InboundMessage, MessageDeleted, MessageReceived
from tenex.core.state import State
from tenex.core.text.foreign import plain
from tenex.core.text.names import without_leading_mentions
from tenex.core.transaction import Transaction
from tenex.core.work import runs
from tenex.core.work.run import Call, CallState
from tenex.core.work.tool_names import server_of

from . import message
from .decide import has_refused_too_often, is_approved, settle
from .state import AskedCall, Permission, Request

QUOTED: Final = 80
"""Characters of an unclear answer that are named."""
COMMAND: Final = "approvals"
"""The command as which answers are recorded."""
HOW: Final = "Reply “yes”, “no”, “no: REASON”, “always” or “20 min”."
HOW_BY_NUMBER: Final = "Reply for all, “yes” or “no: REASON”, or by number: “1 yes, 2 no: REASON”."


def may_be_answer(state: State, signal: MessageReceived) -> bool:
    """Whether a message of a person replies to a request, or one is open that its words could be meant for."""
    written = signal.message
    if signal.is_plain or written.by_machine:
        return False
    is_reply = is_about_request(state, written)
    return is_reply or (bool(state.approvals.open) and not written.is_reaction)


def is_about_request(state: State, written: InboundMessage) -> bool:
    """Whether a message replies to the message of a request, open or over."""
    target = written.reply_to or ""
    approvals = state.approvals
    return approvals.asked_by(target) is not None or approvals.settled_by(target) is not None


def take_answer(transaction: Transaction, signal: MessageReceived, *, is_only: bool) -> bool:
    """Take a message as the answer to a request; whether it was about one. `is_only`: nothing else is asked."""
    written = signal.message
    approvals = transaction.state.approvals
    target = written.reply_to or ""
    request = approvals.asked_by(target)
    over = approvals.settled_by(target)
    if request is None and over is None:
        return _in_the_thread(transaction, signal, is_only=is_only)
    answers = _read(written)
    if not answers and (written.is_reaction or request is None):
        return written.is_reaction  # other words may reply to the newest message, which this was
    is_theirs = permissions.may_allow_calls(transaction.policy, author=written.author, role=signal.role)
    if not answers and not is_theirs:
        return False
    if is_theirs or not written.is_reaction:
        _record(transaction, signal, written.text)
    if not is_theirs:
        report_uncounted(transaction, signal, _who(transaction))
    elif over is not None:
        by = f" by {over.name}" if over.name else ""
        notify(transaction, f"“{over.line}” has been answered already: it is {message.ENDINGS[over.outcome]}{by}.")
    elif request is not None and not answers:
        how = HOW_BY_NUMBER if len(request.left) > 1 else HOW
        _say(transaction, request, f"{_unclear(written.text, request)}, and no agent has read it. {how}")
    elif request is not None:
        _answer(transaction, request, answers, by=written.author, name=signal.name, event_id=written.event_id)
    return True


def is_meant(transaction: Transaction, written: InboundMessage) -> bool:
    """Whether a command answers a request, such as `/approve` or `/deny`: by a reply, or where only that is asked."""
    state = transaction.state
    is_reply = is_about_request(state, written)
    # a plan or the skipping of gates could be meant
    is_free = bool(state.approvals.open) and not any(kind.asks_user for kind in state.kinds.values())
    return (is_reply or is_free) and isinstance(read_answer(without_leading_mentions(written.text)), Answer)


def _unclear(words: str, request: Request) -> str:
    """That a text decides nothing, without the end of its sentence."""
    said = in_a_line(words, QUOTED)
    return (
        f"I cannot read that as an answer: I cannot tell whether “{said}” allows or refuses “{request.line}”. "
        "Nothing is decided"
    )


def _read(written: InboundMessage) -> tuple[Answer, ...]:
    if written.is_reaction:
        reaction = read_picture(written.text)
        return (reaction,) if reaction is not None else ()
    return read_answers(without_leading_mentions(written.text))


def _say(transaction: Transaction, request: Request, text: str) -> None:
    """Have the agent say something about an open request; a reply to that is a reply to the request."""
    run = transaction.state.work.runs[request.run]
    first = next(iter(request.left.values()))
    send_as_agent(transaction, run, text, "question", call=first.call)


def _in_the_thread(transaction: Transaction, signal: MessageReceived, *, is_only: bool) -> bool:
    """Take an answer that replies to no request in particular, where it can be meant for one only."""
    written = signal.message
    state = transaction.state
    is_to_thread = written.reply_to in (None, state.id, state.identity.address.get("root"))
    answer = read_answer(written.text)
    requests = tuple(state.approvals.open.values())
    if not is_to_thread or answer is None or signal.addressed:
        return False
    if not permissions.may_allow_calls(transaction.policy, author=written.author, role=signal.role):
        return False
    if isinstance(answer, Unclear):
        if is_only:
            _say(transaction, requests[0], f"{_unclear(written.text, requests[0])}. {HOW}")
        return False  # the words may be about anything
    if answer.remember:
        return False  # "2 hours" in a thread may be about anything: what is remembered needs a reply
    asked_at = max(request.at for request in requests)
    why = why_misdated(written.created_at, asked_at, transaction.now)
    if why:
        if is_only:
            what = "allows" if answer.is_yes else "refuses"
            _say(transaction, requests[0], f"Your answer {what} nothing: {why}. Reply to this message instead.")
        return False
    _record(transaction, signal, written.text)
    if not is_only:
        lines = message.listed(requests, state.id, transaction.now)
        notify(
            transaction, "\n".join(["Several things are asked. Please reply to the one you mean:", *lines]), "question"
        )
    else:
        _answer(transaction, requests[0], (answer,), by=written.author, name=signal.name, event_id=written.event_id)
    return True


def _record(transaction: Transaction, signal: MessageReceived, words: str) -> None:
    record_command(transaction, Command(COMMAND, words[:REASON]), signal)


def _who(transaction: Transaction) -> str:
    members = " or a member" if transaction.policy.approvals.members_may_answer else ""
    return f"Only an owner{members} can allow or refuse that."


# ---- what follows ----


def _answer(
    transaction: Transaction,
    request: Request,
    answers: Sequence[Answer],
    *,
    by: PublicKey,
    name: str,
    event_id: EventId | None = None,
) -> None:
    left = request.left
    unknown = [answer.number for answer in answers if answer.number and answer.number not in left]
    if unknown:
        numbers = ", ".join(map(str, left))
        _say(transaction, request, f"Nothing is decided: {unknown[0]} is none of the calls that wait ({numbers}).")
        return
    if request.needs_word and any(answer.is_yes and not answer.is_written for answer in answers):
        text = "My message does not show all of it, so a picture cannot allow it. Read it, then write “yes” or “no”."
        _say(transaction, request, text)
        return
    answered = [asked for answer in answers if answer.is_for_all for asked in _calls_of(answer, left)]
    if not all(server_of(asked.tool) for asked in answered):
        _say(transaction, request, f"Nothing is decided: “always all” is for tools of MCP servers. {HOW}")
        return
    for answer in answers:
        calls = _calls_of(answer, left)
        settle(
            transaction,
            request,
            "yes" if answer.is_yes else "no",
            calls=calls,
            by=by,
            name=name,
            event_id=event_id,
            reason=answer.reason,
            remember=answer.remember,
            is_for_server=answer.is_for_all,
            until=Millis(transaction.now + answer.minutes * 60_000) if answer.minutes else Millis(0),
        )
        if answer.remember:
            say = message.permitted_by_server if answer.is_for_all else message.permitted
            what = ", ".join(dict.fromkeys(map(say, calls)))
            how_long = f"for {answer.minutes} min" if answer.minutes else "from now on"
            notify(transaction, f"In this conversation I allow {what} {how_long}. `/approvals` lists and revokes that.")
    rest = transaction.state.approvals.open.get(request.seq)
    if rest is not None:
        waiting = "; ".join(f"{number}. {asked.line}" for number, asked in rest.left.items())
        _say(transaction, rest, f"Noted. This still waits for an answer: {waiting}")
    _go_on(transaction, request)


def _calls_of(answer: Answer, left: Mapping[int, AskedCall]) -> tuple[AskedCall, ...]:
    """The calls that an answer is for, of those that are left."""
    return (left[answer.number],) if answer.number else tuple(left.values())


def _go_on(transaction: Transaction, request: Request) -> None:
    """Let the run of a request go on, or end it where it was refused too often."""
    run = transaction.state.work.runs[request.run]
    if has_refused_too_often(run):
        runs.end_refused(transaction, request.run)
    else:
        runs.after_result(transaction, request.run)


def expire(transaction: Transaction, seq: int) -> None:
    """No one has answered in time."""
    request = transaction.state.approvals.open[seq]
    settle(transaction, request, "expired")
    _go_on(transaction, request)


def decided_by_operator(transaction: Transaction, signal: ApprovalDecided) -> None:
    """Take the operator's word at the machine; none where the request is over."""
    request = transaction.state.approvals.open.get(signal.request)
    if request is not None:
        answer = Answer(is_yes=signal.is_yes, reason=signal.reason[:REASON], number=signal.call)
        _answer(transaction, request, (answer,), by=PublicKey(""), name=signal.by)


# ---- an answer that is taken back ----


def is_answer_deleted(state: State, signal: MessageDeleted) -> bool:
    """Whether what a user deleted was their answer to a request."""
    return state.approvals.given_by(signal.event_id, signal.author) is not None


def withdraw_answer(transaction: Transaction, signal: MessageDeleted) -> bool:
    """Withdraw the yes that a user has deleted, for the calls that have not begun; whether it was an answer.

    They are asked about again. For what has begun it is too late, and its author reads so. A no stays: its call has its
    result.
    """
    answered = transaction.state.approvals.given_by(signal.event_id, signal.author)
    if answered is None:
        return False
    request, answers = answered
    allowed = {call for answer in answers if answer.outcome == "yes" for call in answer.calls}
    run = transaction.state.work.runs.get(request.run)
    calls = [call for call in (run.calls if run is not None else ()) if call.request.id in allowed]
    waiting = [call for call in calls if call.state is CallState.ASKED and is_approved(call)]
    numbers = {answer.seq for answer in answers}
    permissions_given = transaction.state.approvals.permissions
    ends_permission = any(permission.number in numbers for permission in permissions_given)
    transaction.add(
        r.ApprovalWithdrawn,
        request=request.seq,
        run=request.run,
        event_id=signal.event_id,
        calls=tuple(call.request.id for call in waiting),
        by=signal.author,
        name=answers[0].name,
    )
    if len(waiting) < len(allowed):
        ended = " What it allowed from then on is asked about again." if ends_permission else ""
        notify(transaction, _too_late([call for call in calls if call not in waiting], request.line) + ended)
    if run is not None and waiting:
        runs.after_result(transaction, run.id)
    return True


def _too_late(begun: Sequence[Call], line: str) -> str:
    lines = [message.call_line(call.request.tool, call.request.arguments) for call in begun]
    what = "; ".join(lines) or line
    if any(call.state is CallState.PERMITTED for call in begun):
        return f"“{what}” runs already, so your answer cannot be taken back. `/stop` ends it."
    return f"“{what}” is over already, so your answer cannot be taken back."


# ---- the command ----


def command(transaction: Transaction, argument: str, signal: MessageReceived) -> None:
    """Carry out `/approvals`: list what is open and allowed, answer by number, or revoke."""
    word, _, rest = plain(argument).strip().partition(" ")
    word = word.casefold()
    may_answer = permissions.may_allow_calls(transaction.policy, author=signal.message.author, role=signal.role)
    if not word:
        notify(transaction, "\n".join(_list(transaction)))
    elif not may_answer or signal.message.by_machine:
        notify(transaction, _who(transaction))
    elif word == "revoke":
        _revoke(transaction, rest, signal)
    elif word in ("yes", "no"):
        _answer_by_number(transaction, rest.strip(), signal, is_yes=word == "yes")
    else:
        notify(
            transaction,
            "`/approvals` lists; `/approvals yes NUMBER`, `/approvals no NUMBER`, `/approvals revoke NUMBER`.",
        )


def _list(transaction: Transaction) -> list[str]:
    approvals = transaction.state.approvals
    holding = [one for one in approvals.permissions if not one.until or one.until > transaction.now]
    lines = ["I ask:", *message.listed(tuple(approvals.open.values()), transaction.state.id, transaction.now)]
    if not approvals.open:
        lines = ["Nothing waits for your permission."]
    if holding:
        lines += ["Allowed in this conversation (`/approvals revoke NUMBER` ends it):"]
        lines += [
            f"{message.number_of(transaction.state.id, one.number)}  {_described(one, transaction.now)}"
            for one in holding
        ]
    return lines


def _described(permission: Permission, now: Millis) -> str:
    to = f" to {permission.host}" if permission.host else ""
    what = ", ".join(f"`{' '.join(words)} …`" for words in permission.prefixes)
    what = what or (permission.line if permission.digest else f"every call of {permission.tool}{to}")
    left = f", {max(1, round((permission.until - now) / 60_000))} min left" if permission.until else ""
    return f"{what} (by {permission.name}{left})"


def _revoke(transaction: Transaction, which: str, signal: MessageReceived) -> None:
    given = transaction.state.approvals.permissions
    wanted = which.strip().casefold()
    here = transaction.state.id
    named = {one.number: ("all", str(one.number), message.number_of(here, one.number)) for one in given}
    numbers = tuple(number for number, names in named.items() if wanted in names)
    if not numbers:
        notify(
            transaction, f"There is no permission {which.strip()[:40] or 'of that number'}. `/approvals` lists them."
        )
        return
    transaction.add(r.PermissionsRevoked, numbers=numbers, by=signal.message.author, name=signal.name)
    notify(transaction, "Done: that is asked about again.")


def _answer_by_number(transaction: Transaction, rest: str, signal: MessageReceived, *, is_yes: bool) -> None:
    number, _, reason = rest.partition(" ")
    requests = tuple(transaction.state.approvals.open.values())
    named = [(request, message.numbers_of(transaction.state.id, request)) for request in requests]
    meant = [(request, numbers[number]) for request, numbers in named if number in numbers]
    if not number and len(requests) == 1:
        meant = [(requests[0], 0)]
    if len(meant) != 1:
        notify(transaction, "\n".join(["Which one? Give its number.", *_list(transaction)]))
        return
    request, call = meant[0]
    answer = Answer(is_yes=is_yes, reason="" if is_yes else reason.strip()[:REASON], number=call)
    written = signal.message
    _answer(transaction, request, (answer,), by=written.author, name=signal.name, event_id=written.event_id)
