"""Commands of users: a word after a slash (docs/protocol.md, "Commands").

A command is read as phones and clients write it: with the full stop of a double space, in Markdown, in full-width or
invisible characters, beside the mention that a client adds, above a signature. `/stop.` that is no command is worse
than none: it stops nothing and begins paid work.
"""

import re
from dataclasses import fields, replace
from itertools import chain
from typing import Final

from tenex.core import records as r
from tenex.core.answers.pictures import STOP, plain_picture
from tenex.core.approvals import answers as approvals
from tenex.core.config import GateRules, Verbosity
from tenex.core.delivery.outgoing import as_sentence, notify
from tenex.core.ids import Millis, RunId
from tenex.core.kind import all_kinds, kind_of_conversation, refused_name, what_is_refused
from tenex.core.memory.window import in_a_line
from tenex.core.messages import cut
from tenex.core.people import permissions
from tenex.core.people.decider import Decider, person
from tenex.core.people.permissions import Decision
from tenex.core.people.trust import room_of
from tenex.core.port_values import UndoOutcome
from tenex.core.projection import Activity, RouterActivity, RunActivity, activity_of
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.text import names
from tenex.core.text.amounts import count, dollars, duration
from tenex.core.text.foreign import plain, trimmed
from tenex.core.text.prose import prose
from tenex.core.transaction import Transaction
from tenex.core.undo import sentences
from tenex.core.work import holds
from tenex.core.work.turns import advance, stop_turn

from .command import Command, SlashCommand
from .show import SHOW

FILES_NAMED = 5
"""Changed files that the answer to `/stop` names."""

HELP = "Write what you want in your own words. I also understand these commands:"


def slash_commands() -> dict[str, SlashCommand]:
    """All commands by name: those of every kind of conversation, then those of one."""
    of_kinds = (command for kind in all_kinds() for command in kind.commands)
    return {command.name: command for command in (*COMMANDS, *of_kinds)}


def split_request(command: Command) -> tuple[Command, str]:
    """A command without the request that stands beside it in a message, and that request; "" for none."""
    row = slash_commands().get(command.name)
    if row is None or row.split is None:
        return command, ""
    argument, request = row.split(command.argument)
    return Command(command.name, argument), request.strip()


UNKNOWN = "unknown"
"""The command of a message that begins with a command or a mention, and names nothing there is."""
_EMPHASIS = "*_"
_QUOTES = "`\"'“”‘’„«»"
"""What may enclose the whole of a command; a command in quotes, or as code, within a sentence is talk."""
_WORD = re.compile(rf"([{_EMPHASIS}]*)/([A-Za-z]+)((?:[^\w/]|_)*)")
"""A command's word and the marks or pictures that follow it, of any script; a path goes on with a slash."""
_FIRST = re.compile(r"\s*(\S+)(.*)", re.DOTALL)
_SIGNATURE = re.compile(r"\n[ \t]*--(?=\s|\Z).*", re.DOTALL)
"""What clients of mail append, from its two hyphens on."""
_HEAD = 500
"""Characters in which the first word must end."""
_NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}")
_VERBOSITY_ANSWERS = {
    Verbosity.QUIET: "Quiet for you in this conversation: you are sent answers, questions and what stops the work. "
    "What others are answered does not notify you. `/quiet off` ends that.",
    Verbosity.VERBOSE: "You are sent everything in this conversation: also checks, chores, what agents pass on and "
    "what takes long. `/verbose off` ends that.",
}
_UNDO_WORD = re.compile(r""""([^"]+)"|'([^']+)'|`([^`]+)`|“([^”]+)”|\S+""")
"""A word after `/undo`; a path with a blank is in quotes."""
COMMAND_CHARACTERS = 60
"""Of a command line that a message names."""
_WORDS = 3
"""Words of a shown name that a mention may have: `@Project Manager`."""


def parse(text: str) -> Command | None:
    """Read a command: a message whose first word is letters after a slash. A path such as `/etc/hosts` is talk."""
    words = _unquoted(trimmed(text))
    head, rest = _split(words)
    is_reply = _is_mention(head)
    for _ in range(_WORDS):
        if _is_mention(head):  # clients put those who are answered before the reply
            head, rest = _split(rest)
    match = _WORD.fullmatch(plain(head[:_HEAD]))
    if match is None:
        return None
    emphasis, word, marks = match.groups()
    name = word.lower()
    if emphasis and emphasis[0] not in marks and not words.endswith(emphasis[0]):
        return None  # a pattern such as `*/bin`
    if name not in slash_commands():
        return None if is_reply else Command(UNKNOWN, f"/{word}{rest}".strip())
    if emphasis:
        rest = rest.rstrip(_EMPHASIS)
    if name not in ("set", "reject"):  # a value or a reason may be text of several lines
        rest = _SIGNATURE.sub("", rest)
    if not any(_says_something(part) for part in rest.split()):
        rest = ""
    return Command(name, rest.strip())


def split_last_line(text: str) -> tuple[str, Command | None]:
    """A message without the command that is its last line, above a signature; None where the line is none.

    In code, a quotation or a list of commands, or before other words, it is text.
    """
    body = _SIGNATURE.sub("", trimmed(text))
    before, _, line = body.rpartition("\n")
    if not before.strip() or not plain(line).lstrip(_EMPHASIS + " ").startswith("/"):
        return text, None
    command = parse(line)
    if command is None or command.name == UNKNOWN:
        return text, None
    if command.argument and not slash_commands()[command.name].takes_argument:
        return text, None
    above = before.rstrip().rpartition("\n")[2]
    is_listed = above.endswith(":") or parse(above) is not None
    if is_listed or not plain(prose(body).rpartition("\n")[2]).lstrip(_EMPHASIS + " ").startswith("/"):
        return text, None
    return before.rstrip(), command


def _unquoted(text: str) -> str:
    """What is in a message that is one line in quotes or as code; other messages as they are."""
    inner = text.strip(_QUOTES + " \n")
    is_enclosed = text[:1] in _QUOTES and text[-1:] in _QUOTES
    is_single = "\n" not in inner and not any(quote in inner for quote in _QUOTES)
    return inner if is_enclosed and is_single else text


def _split(text: str) -> tuple[str, str]:
    """The first word of a text and the rest."""
    match = _FIRST.fullmatch(text)
    return (match[1], match[2]) if match else ("", "")


def _is_mention(word: str) -> bool:
    return names.is_mention(word) or names.is_key(word)


def _says_something(word: str) -> bool:
    """Whether a word after a command is more than a mention, a mark or a picture."""
    return any(map(str.isalnum, word)) and not _is_mention(word)


def read(transaction: Transaction, signal: MessageReceived) -> Command | MessageReceived:
    """The command a message is, or the message with whom it begins by naming among those it addresses."""
    text = trimmed(signal.message.text)
    if signal.is_plain:
        return signal
    command = parse(text)
    if command is not None and not signal.message.by_machine and approvals.is_meant(transaction, signal.message):
        return signal
    if command is not None:
        is_answer = command.name == UNKNOWN and any(run.has_question for run in transaction.state.work.runs.values())
        if not is_answer or names.nearest(_first(command.argument)[1:], slash_commands()):
            return command
    words = text.split(maxsplit=_WORDS)[:_WORDS]
    first = names.plain(words[0]) if words else ""
    if not first or not (names.is_mention(words[0]) or _HEX.fullmatch(first.lower())):
        return signal
    if prose(text[:_HEAD]).split()[:1] != plain(words[0]).split()[:1]:  # it is code or a quotation
        return signal
    callable_names = transaction.policy.callable
    for length in range(len(words), 0, -1):
        if slug := names.find(" ".join(words[:length]), callable_names):
            others = (other for other in signal.addressed if other != slug)
            return replace(signal, addressed=(slug, *others))
    if signal.addressed or not _NAME.fullmatch(first) or _is_ours_or_a_person(transaction, signal, first):
        return signal
    return Command(UNKNOWN, text)


def _first(text: str) -> str:
    return text.split(maxsplit=1)[0]


def _is_ours_or_a_person(transaction: Transaction, signal: MessageReceived, name: str) -> bool:
    """Whether a name is the project's, or of a user who writes here: then it is talk."""
    project = transaction.policy.project
    people = [signal.name, *(message.name for message in transaction.state.memory.recent if message.role is not None)]
    shown = {part.casefold() for person in people for part in (person, *person.split()[:1])}
    return name.casefold() in shown or names.find(name, {project.slug: project}) is not None


def _unknown(transaction: Transaction, text: str) -> str:
    """The answer to a message that begins with an unknown command or name."""
    first = _first(text)
    if first.startswith("/"):
        near = names.nearest(first[1:], slash_commands())
        sentence = f"There is no command {first}. "
        sentence += f"Did you mean /{near}?" if near else "`/help` lists them."
    else:
        callable_names = transaction.policy.callable
        near = names.nearest(first, callable_names)
        sentence = f"There is no agent @{names.plain(first)}. "
        disabled = {*transaction.policy.disabled, *transaction.policy.disabled_agents}
        there = ", ".join(f"{slug} (disabled)" if slug in disabled else slug for slug in sorted(callable_names))
        sentence += f"Did you mean @{near}?" if near else f"There are: {there}."
    return f"{sentence} Nothing was started. To send this as text, put a word before it."


def stops_wait(state: State, gates: GateRules, later: MessageReceived, waiting: MessageReceived) -> bool:
    """Whether a message stops the work, which also ends the loading of files for earlier messages.

    It is `/stop` or a stop sign, of who wrote the message that waits, or of who may stop the work.
    """
    message = later.message
    if later.is_plain or message.by_machine:
        return False
    if message.is_reaction:
        is_refusal = state.approvals.asked_by(message.reply_to or "") is not None
        is_stop = plain_picture(message.text) in STOP and not is_refusal
    else:
        command = parse(message.text)
        is_stop = command is not None and command.name == "stop"
    return is_stop and (
        message.author == waiting.message.author
        or permissions.may_decide(Decision.COMMAND, state, gates, author=message.author, role=later.role)
    )


def execute_command(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Execute a command, or report who may give it."""
    if command.name == UNKNOWN:
        notify(transaction, _unknown(transaction, command.argument))
        return
    row = slash_commands()[command.name]
    if command.argument and not row.takes_argument:  # words that would be lost without a sign
        notify(transaction, f"/{command.name} takes nothing after it; please send the rest as a message of its own.")
    needless = row.needless(transaction) if row.needless is not None else ""
    if needless:
        notify(transaction, needless)
    elif not _may_give(transaction, row, signal):
        notify(transaction, _for_whom(row))
    elif row.carry_out is not None:
        row.carry_out(transaction, command, signal)
    elif not _by_kind(transaction, command, signal):
        notify(transaction, row.elsewhere)


def _for_whom(row: SlashCommand) -> str:
    """Who may give a command, to who may not."""
    match row.needs:
        case Decision.WAIVER:
            return "Only an owner may skip a quality gate."
        case Decision.READING:
            return f"/{row.name} is for an owner or a member."
        case _:
            return f"/{row.name} is for an owner, or the member who began this conversation."


def _may_give(transaction: Transaction, row: SlashCommand, signal: MessageReceived) -> bool:
    if row.needs is None:
        return True
    return permissions.may_decide(
        row.needs, transaction.state, transaction.policy.gates, author=signal.message.author, role=signal.role
    )


def _by_kind(transaction: Transaction, command: Command, signal: MessageReceived) -> bool:
    """Have the kind of the conversation carry out a command in its way; whether it did."""
    kind = kind_of_conversation(transaction.state)
    return kind.command(transaction, command.name, command.argument, signal)


def _give_help(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    del command, signal
    notify(transaction, help_text(transaction))


def _give_status(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    del command, signal
    notify(transaction, status(transaction))


def _give_stop(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    del command
    stop(transaction, signal.name)


def _give_retry(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    if not _by_kind(transaction, command, signal):
        resume(transaction, signal.name)  # there is no turn to repeat


def _give_continue(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    if not _has_not_begun(transaction) and not _by_kind(transaction, command, signal):
        resume(transaction, signal.name)


def _give_new(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    if not _has_not_begun(transaction) and not _by_kind(transaction, command, signal):
        stop(transaction, signal.name, quiet=True)
        end_cycle(transaction, person(signal.name, signal.message.author))


def _has_not_begun(transaction: Transaction) -> bool:
    """Whether the last message could not begin what it named; its author is notified of that."""
    refused = refused_name(transaction)
    if refused:
        notify(
            transaction,
            f"The {what_is_refused(transaction)} {refused} has not begun. "
            "Write here what it is to work on, or anything else in a new note.",
        )
    return bool(refused)


def _why_new_is_needless(transaction: Transaction) -> str:
    """That `/new` has just begun this conversation in direct messages, so that there is nothing to end."""
    state = transaction.state
    is_blank = not state.cycle.messages and not state.cycle.turns
    is_room = bool(room_of(state.identity.address))
    return "This is a new conversation. Write what you want." if is_room and is_blank else ""


def stop(transaction: Transaction, name: str, *, quiet: bool = False, why: str = "") -> None:
    """End everything that runs, and wait for the user, who is sent `why` and what it was."""
    running = list(dict.fromkeys(run.name for run in transaction.state.work.runs.values()))
    asked = transaction.state.router.question is not None
    transaction.add(r.Stopped, name=name)
    stop_turn(transaction, f"stopped by {name}")
    then = f"{_changed_so_far(transaction)}Write to go on, or `/retry`."
    if stopped := kind_of_conversation(transaction.state).on_stop(transaction, name):
        running.append(stopped)
        then = "`/continue` goes on, `/new` ends it."
    if not quiet:
        what = ", ".join(running) or ("the orchestrator" if asked else "")
        notify(transaction, f"{why}Stopped: {what}. {then}" if what else _nothing_runs(transaction.state))
    if transaction.state.cycle.status == "active":
        transaction.add(r.Waiting, reason="stopped")


def _nothing_runs(state: State) -> str:
    """That there is nothing to stop; to who has begun a conversation by that, also where it would be."""
    is_blank = not state.cycle.messages and not state.cycle.turns and state.cycle.number == 1
    elsewhere = is_blank and not room_of(state.identity.address)
    return "Nothing is running here. To stop work, reply to it with `/stop`." if elsewhere else "Nothing is running."


def set_verbosity(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Note how much a user wants to be sent in this conversation."""
    author = signal.message.author
    words = [word.strip(".,!") for word in plain(command.argument).lower().split()]
    said = transaction.state.delivery.verbosity.get(author)
    wanted = Verbosity(command.name)
    if words and words != ["off"]:
        notify(transaction, f"`/{command.name}` takes nothing or `off`, not {cut(words[0], 40)}. Nothing has changed.")
        return
    if words and said is not wanted:
        notify(transaction, f"`/{command.name}` was not on for you here.")
        return
    transaction.add(r.VerbositySet, person=author, verbosity=None if words else wanted)
    notify(transaction, "Done: as before, for you in this conversation." if words else _VERBOSITY_ANSWERS[wanted])


def _changed_so_far(transaction: Transaction) -> str:
    """The files that the cycle has changed, as a sentence and a space; "" for none."""
    paths = sorted(transaction.state.cycle.touched)
    if not paths:
        return ""
    more = f" and {count(len(paths) - FILES_NAMED, 'other')}" if len(paths) > FILES_NAMED else ""
    return f"Changed so far: {', '.join(paths[:FILES_NAMED])}{more}; `/undo` lists what it can put back. "


def undo(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """List what the last turn or cycle changed in the workspace; with `yes`, `all` or paths put it back."""
    state = transaction.state
    name = signal.name
    words, paths = _words_and_paths(command.argument)
    listed = state.work.undo
    if state.work.turn is not None or state.has_open_kind:
        notify(transaction, "Work is under way. Write `/stop`, then `/undo`.")
        return
    if listed is not None and listed.is_open:
        notify(transaction, "I am still at the last `/undo`.")
        return

    scope: r.UndoScope = "cycle" if "cycle" in words else "turn"
    is_agreed = bool(paths) or not words.isdisjoint({"yes", "all"})
    is_all = "all" in words
    if is_agreed and listed is not None and (scope == listed.scope or "cycle" not in words):
        transaction.add(r.UndoRequested, scope=listed.scope, name=name, to=listed.to, paths=paths, is_all=is_all)
    else:
        transaction.add(
            r.UndoRequested,
            scope=scope,
            name=name,
            paths=paths,
            is_all=is_all and bool(paths),
            has_no_list=is_agreed and not paths,
        )


def _words_and_paths(argument: str) -> tuple[set[str], tuple[str, ...]]:
    """The words that mean something after `/undo`, and the rest: paths, which may be in quotes."""
    words = set()
    paths = []
    for match in _UNDO_WORD.finditer(argument):
        word = plain(match[0]).lower().strip(".,!")
        if word in sentences.WORDS:
            words.add(word)
        elif _says_something(match[0]):
            paths.append(match[match.lastindex or 0])
    return words, tuple(dict.fromkeys(paths))


def report_undo(transaction: Transaction, outcome: UndoOutcome) -> None:
    """Record what came of an `/undo`, and send it to the user."""
    request = transaction.state.work.undo
    if request is None:
        return
    transaction.add(
        r.FilesUndone, request=request.seq, **{spec.name: getattr(outcome, spec.name) for spec in fields(outcome)}
    )
    first = "Nothing is put back yet: there was no list of this. " if request.has_no_list and outcome.files else ""
    # without phases there is one agent, and no message ever names its turns
    since = outcome.since if transaction.state.has_phases else "the last work"
    notify(transaction, f"{first}{_undo_answer(outcome, f'before {since}')}{_undo_hints(outcome)}")


def _undo_answer(outcome: UndoOutcome, moment: str) -> str:
    if outcome.fault:
        return f"Nothing was undone: {outcome.fault}"
    if outcome.restored_tree:
        held = " What they held is kept in the checkpoints." if outcome.files else ""
        return f"{sentences.done(outcome, moment)}{held}"
    text = sentences.listed(outcome, moment)
    if outcome.files:
        pronoun = "it" if len(outcome.files) == 1 else "them"
        text = f"{text} `/undo yes` puts {pronoun} back."
    return text


def _undo_hints(outcome: UndoOutcome) -> str:
    """The commands for what does not go back by itself, each after a space."""
    hints = ""
    if outcome.unclear:
        is_one = len(outcome.unclear) == 1 or bool(outcome.restored_tree)
        every = "" if is_one else ", `/undo all` all of its kind"
        hints += f" `/undo {sentences.as_words(outcome.unclear[:1])}` undoes that one too{every}."
    if outcome.by_name:
        hints += f" `/undo {sentences.as_words(outcome.by_name[:1])}` undoes that one too."
    return hints


def end_cycle(transaction: Transaction, decider: Decider) -> None:
    """End the cycle as a user asks."""
    if transaction.state.cycle.status != "ended":
        transaction.add(r.Ended, reason=f"{decider.name} asked to start over", decided_by=decider)
    notify(transaction, "Done. Your next message begins something new.")


def resume(transaction: Transaction, name: str) -> None:
    """Continue after a limit, a hold or a pause, as a user asks."""
    state = transaction.state
    if sentence := holds.refusal(state):
        notify(transaction, sentence)
        return
    held: list[RunId | None] = [run.id for run in state.work.runs.values() if run.retry is not None]
    if state.router.question is not None and state.router.question.retry is not None:
        held.append(None)
    if held:
        for subject in held:
            warn_at = (
                Millis(transaction.now + transaction.policy.limits.router_warn_after) if subject is None else Millis(0)
            )
            transaction.add(r.RetryDue, run=subject, by=name, warn_at=warn_at)
        notify(transaction, "I try again now.")
    elif state.work.turn is not None or state.cycle.status == "ended":
        notify(
            transaction,
            "I am at work." if state.work.turn is not None else "This work is over; just write what is next.",
        )
    elif not state.cycle.messages and not state.cycle.turns:
        notify(transaction, "There is nothing to go on with yet; write what you want.")
    else:
        transaction.add(r.Continued, name=name)
        advance(transaction)


def help_text(transaction: Transaction) -> str:
    """The commands that mean something in this conversation, and the names that a message can call."""
    policy = transaction.policy
    agents = ", ".join(sorted(policy.routable))
    begun = ", ".join(sorted(policy.begun_by_mention))
    disabled = ", ".join(sorted({*policy.disabled, *policy.disabled_agents}))
    mention = f"@NAME  goes straight to that agent{f': {agents}' if agents else ''}"
    if begun:
        mention += f"; in a new note it begins a conversation of its own: {begun}"
    lines = [HELP, mention]
    own = kind_of_conversation(transaction.state)
    of_kinds = (kind.commands for kind in all_kinds() if kind is own or kind.name in transaction.state.kinds)
    for command in chain(COMMANDS, *of_kinds):
        usage = f" {command.usage}" if command.usage else ""
        lines.append(f"/{command.name}{usage}  {command.help}")
    if disabled:
        lines.append(f"Disabled, because of a fault in their files: {disabled}")
    return "\n".join(lines)


def status(transaction: Transaction) -> str:
    """Where the conversation is and what it does, in a few lines."""
    state = transaction.state
    lines = kind_of_conversation(state).status(transaction)
    if state.identity.imported:
        lines.append("Imported: who wrote the first messages, and when, is what a file says.")
    tokens = state.totals.usage.input_tokens + state.totals.usage.output_tokens
    cost = f", {dollars(state.totals.usage.cost_usd)}" if state.totals.usage.cost_usd else ""
    cached = (
        f" ({state.totals.usage.cache_read_tokens:,} of them cached)" if state.totals.usage.cache_read_tokens else ""
    )
    lines.append(f"Used so far: {tokens:,} tokens{cached}{cost}")
    return "\n".join(lines)


def activity(transaction: Transaction, ended: str) -> list[str]:
    """What the runs and the router do now, as lines of `/status`; `ended` where the conversation has ended."""
    doing = activity_of(transaction.state)
    if doing.turn is not None:
        lines = [f"{run.name}: {_doing(run, doing, transaction.now)}" for run in doing.runs]
    elif doing.router is not None:
        lines = [_routing(doing.router)]
    elif does := next((share.does for share in doing.shares if share.does), ""):
        lines = [as_sentence(f"It {does}")]
    else:
        lines = [ended if transaction.state.cycle.status == "ended" else "I wait for you."]
    if sentence := holds.on_hold(transaction.state):
        lines.append(sentence)
    return lines


def _doing(run: RunActivity, activity: Activity, now: Millis) -> str:
    match run.state:
        case "parked" if run.asks_permission:
            return "waits for your permission; `/approvals` shows for what"
        case "parked":
            return "waits for your answer"
        case "calling":
            return f"waits for {', '.join(called.name for called in activity.called_by(run))}"
        case "limited":
            return "limited"
        case "held" if run.retry is not None and run.retry.needs_operator:
            return f"held, until `/continue`: {run.retry.message}"
        case "held" if run.retry is not None:
            seconds = max(0, round((run.retry.due - now) / 1000))
            return f"its model cannot be used; the next try is in {seconds} s"
        case _:
            commands = ", ".join(
                f"{name} ({in_a_line(line, COMMAND_CHARACTERS)})" for name, line in run.background.items()
            )
            beside = f"; in the background: {commands}" if commands else ""
            return f"at work for {duration((now - run.began) / 1000)}, {count(run.steps, 'step')}{beside}"


def _routing(router: RouterActivity) -> str:
    match router.state:
        case "limited":
            return "The orchestrator is limited."
        case "held" if router.retry is not None and router.retry.needs_operator:
            return f"The orchestrator is held, until `/continue`: {router.retry.message}"
        case "held":
            return "The orchestrator's model cannot be used."
        case _:
            return "The orchestrator is deciding."


# ---- the table ----

COMMANDS: Final = (
    SlashCommand(
        name="status",
        help="where the conversation is",
        needs=None,
        carry_out=_give_status,
        counts_as_last_line=True,
    ),
    SlashCommand(name="stop", help="end what is running", carry_out=_give_stop, counts_as_last_line=True),
    SlashCommand(name="retry", help="do the last piece of work again", carry_out=_give_retry),
    SlashCommand(
        name="undo",
        help="put back the files of the last work, with `cycle` of all since your request, or those you name; it lists "
        "the others first",
        takes_argument=True,
        carry_out=undo,
    ),
    SHOW,
    SlashCommand(name="continue", help="go on after a limit, a hold or a refused decision", carry_out=_give_continue),
    SlashCommand(
        name=approvals.COMMAND,
        help="what waits for your permission, and what you have allowed here; `revoke NUMBER` ends that",
        takes_argument=True,
        carry_out=lambda transaction, command, signal: approvals.command(transaction, command.argument, signal),
    ),
    SlashCommand(
        name=Verbosity.QUIET,
        help="send me only what is for me, and what stops the work; `/quiet off` ends that",
        takes_argument=True,
        needs=None,
        carry_out=set_verbosity,
    ),
    SlashCommand(
        name=Verbosity.VERBOSE,
        help="send me everything, also checks and what takes long; `/verbose off` ends that",
        takes_argument=True,
        needs=None,
        carry_out=set_verbosity,
    ),
    SlashCommand(
        name="new",
        help="end this work; your next message begins something new",
        carry_out=_give_new,
        needless=_why_new_is_needless,
    ),
    SlashCommand(name="help", help="list these commands", needs=None, carry_out=_give_help, counts_as_last_line=True),
)
"""Those of every kind of conversation; `Kind.commands` has those of one."""
