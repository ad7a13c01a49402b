"""What should be in flight now: derived from state alone, in a stable order, O(what is in flight)."""

from collections.abc import Iterator

from tenex.core.approvals.state import Request
from tenex.core.conversation import Conversation
from tenex.core.delivery.files import destination
from tenex.core.effects import Effect, Evaluate, Key, ModelCall, Publish, Route, Show, Timer, ToolCall, Undo, Work
from tenex.core.kind import all_kinds
from tenex.core.people.trust import least_trusted
from tenex.core.port_values import ExecutionContext
from tenex.core.router.state import Question
from tenex.core.signals import ClockJumped, Opened
from tenex.core.work.run import Call, CallState, Run
from tenex.core.work.tool_names import server_of
from tenex.core.work.tool_questions import answers_to


def pending(conversation: Conversation) -> dict[Key, Effect]:
    """Every piece of work that is wanted, by its key."""
    effects: list[Effect] = []
    for message, row in conversation.delivery.outbox.items():
        for part, relay in row.ready:
            key = Key(Work.PUBLISH, message, f"{part} {relay}")
            effects.append(Publish(key=key, event=row.events[part], relay=relay))
        if row.expires_at:
            effects.append(Timer(key=Key(Work.TIMER, message, "expire"), due=row.expires_at))
        elif row.lost_at:  # another key, since a timer that runs keeps its time
            effects.append(Timer(key=Key(Work.TIMER, message, "lost"), due=row.lost_at))

    for missed in conversation.delivery.missed.values():
        key = Key(Work.TIMER, missed.first, f"quiet {missed.armed}")
        effects.append(Timer(key=key, due=missed.until))

    if conversation.router.question is not None:
        effects.extend(_of_question(conversation.router.question))
    for run in conversation.work.runs.values():
        effects.extend(_of_run(conversation, run))
    for request in conversation.approvals.open.values():
        effects.extend(_of_request(request))
    for kind in all_kinds():
        effects.extend(kind.effects(conversation))

    effects.extend(_of_shows(conversation))

    undo = conversation.work.undo
    if undo is not None and undo.is_open:
        key = Key(Work.UNDO, undo.seq)
        effects.append(
            Undo(
                key=key,
                conversation=conversation.id,
                scope=undo.scope,
                to=undo.to,
                paths=undo.paths,
                is_all=undo.is_all,
            )
        )

    if conversation.work.undecided:
        effects = _beside_undecided(conversation, effects)
    return {effect.key: effect for effect in effects}


def _beside_undecided(conversation: Conversation, effects: list[Effect]) -> list[Effect]:
    """The functions to call, and the work that goes on meanwhile: none that has ended in an undecided signal.

    While a new process or a step of the clock is not dealt with, only publishing goes on.
    """
    undecided = conversation.work.undecided
    if any(isinstance(waiting.signal, Opened | ClockJumped) for waiting in undecided):
        effects = [effect for effect in effects if isinstance(effect, Publish)]
    ended = conversation.work.undecided_keys
    functions = Evaluate(key=Key(Work.FUNCTIONS, undecided[0].seq))
    return [functions, *(effect for effect in effects if effect.key not in ended)]


def _of_question(question: Question) -> Iterator[Effect]:
    if question.retry is not None:
        yield Timer(key=Key(Work.TIMER, question.retry.seq, "route"), due=question.retry.due)
    else:
        yield Route(key=Key(Work.ROUTE, question.seq), is_urgent=question.urgent == question.seq)

    is_held = question.retry is not None and question.retry.on_hold  # and then the user knows
    if question.warn_at and not question.outage_reported and not is_held:
        yield Timer(key=Key(Work.TIMER, question.seq, "route-warn"), due=question.warn_at)


def _of_request(request: Request) -> Iterator[Timer]:
    yield Timer(key=Key(Work.TIMER, request.seq, "approval"), due=request.expires_at)
    if request.remind_at and not request.answers:
        yield Timer(key=Key(Work.TIMER, request.seq, "approval-reminder"), due=request.remind_at)


def _of_shows(conversation: Conversation) -> Iterator[Show]:
    for seq, show in conversation.delivery.shows.items():
        key = Key(Work.SHOW, seq)
        yield Show(key=key, conversation=conversation.id, path=show.path, destination=show.destination)


def _of_run(conversation: Conversation, run: Run) -> list[Effect]:
    effects: list[Effect] = []
    if run.wants is not None:
        key = Key(Work.MODEL, run.wants)
        is_urgent = run.urgent == run.wants
        effects.append(ModelCall(key=key, run=run.id, system=run.system, entries=run.entries, is_urgent=is_urgent))
    elif run.retry is not None:
        effects.append(Timer(key=Key(Work.TIMER, run.retry.seq, "retry"), due=run.retry.due))

    for call in run.open_calls:
        if call.state is CallState.PERMITTED:
            context = _context(conversation, run, call)
            key = Key(Work.TOOL, call.seq)
            effects.append(
                ToolCall(
                    key=key,
                    run=run.id,
                    request=call.request,
                    context=context,
                    replay=call.replay,
                    unchanged=call.unchanged,
                )
            )

    has_deadlines = not run.is_waiting and run.retry is None and not conversation.watches_runs
    if has_deadlines:
        if not run.warned:
            effects.append(Timer(key=Key(Work.TIMER, run.armed, "warn"), due=run.warn_at))
        # a model call has a bound of its own, its wait for a turn counts against nothing, and its answer is paid for
        if run.wants is None:
            effects.append(Timer(key=Key(Work.TIMER, run.armed, "close"), due=run.close_at))
    return effects


def _context(conversation: Conversation, run: Run, call: Call) -> ExecutionContext:
    turn = conversation.work.turn
    person = least_trusted(conversation)
    author = person.author or None if person else None
    role = person.role if person else None
    return ExecutionContext(
        conversation_id=conversation.id,
        cycle=conversation.cycle.number,
        turn=turn.turn_id if turn else "",
        phase=conversation.cycle.phase,
        previous_phase=conversation.cycle.previous_phase,
        handoff=turn.handoff if turn else None,
        agent=run.agent,
        idempotency_key=f"{conversation.id}:{call.seq}",
        call_id=call.request.id,
        run=run.id,
        touched=conversation.cycle.touched,
        read=run.read,
        agent_state=conversation.memory.agent_states.get(run.state_key),
        author=author,
        role=role,
        answers=answers_to(run.entries, call.request) if server_of(call.request.tool) else (),
        destination=destination(conversation, author, role, run.pubkey),
    )
