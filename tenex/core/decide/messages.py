"""What a person's message leads to: an answer to a question, a command, or work."""

from tenex.core import records as r
from tenex.core.commands import Command, obey, parse, read
from tenex.core.ids import Millis
from tenex.core.signals import MessageReceived
from tenex.core.state.conversation import title_of
from tenex.core.state.mission import Mission
from tenex.core.state.run import CallState, Run

from . import mission as nodes
from . import mission_messages as words
from . import waivers, workflow
from .outgoing import say
from .routing import begin_cycle
from .runs import settle
from .transaction import Transaction
from .turns import go_on


def spoke(draft: Transaction, signal: MessageReceived) -> None:
    """Take a message in; twice the same event gives no record."""
    message, state = signal.message, draft.state
    if message.event_id in state.seen:
        return
    if state.status == "new":
        _start(draft, signal)
    command = read(draft, signal)
    if isinstance(command, Command):
        draft.add(
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
        obey(draft, command, signal)
        state = draft.state
        if state.status == "active" and state.turn is None and state.question is None and not state.has_mission:
            draft.add(r.Waiting, reason="user")
        return
    signal = command
    before = draft.state.mission
    refused = workflow.unbegun(draft)
    is_over = draft.state.status == "ended" and not refused
    if is_over and draft.state.workflow is None and (before is None or not before.is_alone):
        begin_cycle(draft, f"{signal.name} wrote again")
    called = refused or workflow.called(draft, signal)
    is_begun = not refused and bool(draft.state.recent or draft.state.turns or before)
    if called in draft.rules.workflows and not is_begun:
        workflow.open_session(draft, draft.rules.workflows[called], signal)
    wrote = draft.add(
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
    )
    if before is not None and (before.is_open or before.is_alone):
        _tell_of_mission(draft, before)
        return
    if called in draft.rules.missions and not is_begun:
        nodes.begin(draft, called, message.text, signal.name)
        return
    is_refused = workflow.refuses(draft, signal, is_begun=is_begun)
    if is_refused or waivers.answered(draft, signal) or _answers_ask(draft, wrote):
        return
    if draft.state.workflow is not None:
        workflow.heard(draft, wrote, signal.role)
    elif called and is_begun:
        say(draft, workflow.ELSEWHERE.format(called))
    go_on(draft)


def _tell_of_mission(draft: Transaction, mission: Mission) -> None:
    """Say to who writes beside a mission what it does; their words are kept, and the mission is not disturbed."""
    if not mission.is_open:
        say(draft, words.over(mission))
        draft.add(r.Ended, reason=f"the mission {mission.workflow} {mission.outcome}")
    elif mission.is_paused:
        say(draft, f"{words.standing(mission)} `/continue` lets it go on, `/new` ends it.")
        draft.add(r.Waiting, reason="mission")
    else:
        say(draft, f"{words.standing(mission)} It does not read what is written here; `/stop` and `/pause` stop it.")


def _start(draft: Transaction, signal: MessageReceived) -> None:
    message = signal.message
    title = title_of(message.title.strip() or message.text) or "Untitled"
    if parse(message.text) and not message.title.strip():
        title = ""  # a command names nothing: the first real message will
    draft.add(
        r.ConversationStarted, id=draft.state.id, title=title, starter=message.author, address=dict(message.address)
    )
    draft.add(r.CycleStarted, cycle=1, reason=f"{signal.name} wrote")


def _answers_ask(draft: Transaction, wrote: r.MessageRecorded) -> bool:
    """A reply to a question answers it, and so does a mention of who asked.

    Other text answers the only question there is, while all else is parked.
    """
    state = draft.state
    named = state.asks.get(wrote.reply_to) if wrote.reply_to else None
    parked = [
        (run, call.request.id)
        for run in state.runs.values()
        for call in run.open_calls
        if call.state is CallState.PARKED
    ]
    if named is not None:
        open_ = [pair for pair in parked if (pair[0].id, pair[1]) == named]
    elif wrote.addressed:
        open_ = [pair for pair in parked if wrote.addressed == (pair[0].agent,)]
    else:
        open_ = parked if state.is_parked else []
    if len(open_) > 1:
        askers = {run.id: run.name for run, _ in open_}
        names = ", ".join(askers.values())
        who = f"Several of us wait for an answer ({names})" if len(askers) > 1 else f"{names} has asked several things"
        say(draft, f"{who}. Please reply to the question you mean.", "question")
        return True
    if not open_:
        if wrote.addressed and state.is_parked:
            names = ", ".join(dict.fromkeys(run.name for run, _ in parked))
            say(draft, f"{names} must have an answer first; then it is their turn whom you named.", "question")
        return False
    _answer(draft, *open_[0], wrote)
    return True


def _answer(draft: Transaction, run: Run, call: str, wrote: r.MessageRecorded) -> None:
    parked_for = draft.now - run.parked_at if run.parked_at is not None else 0
    draft.add(
        r.QuestionAnswered,
        run=run.id,
        call=call,
        text=wrote.text,
        name=wrote.name,
        message=wrote.seq,
        warn_at=Millis(run.warn_at + parked_for),
        close_at=Millis(run.close_at + parked_for),
    )
    settle(draft, run)
