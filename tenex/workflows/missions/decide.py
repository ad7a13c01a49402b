"""What follows from a mission's signals: steps that may have their effect, the next node, a retry, a pause, the end.

The node's own return value is the router here; the graph decides whether it may be followed.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, assert_never

from tenex.core import records as r
from tenex.core.config import Replay
from tenex.core.delivery.outgoing import notify
from tenex.core.effects import Key, Work
from tenex.core.errors import UsageError
from tenex.core.functions.verdicts import FunctionQuestion, answer, digest
from tenex.core.graph import END
from tenex.core.ids import Millis, Slug
from tenex.core.messages import Usage
from tenex.core.signals import DayLimitReached, Signal
from tenex.core.transaction import Transaction
from tenex.core.work import holds
from tenex.core.work.runs import REASON_CHARACTERS
from tenex.core.work.turns import LIFETIME, spent
from tenex.workflows.missions import records as m
from tenex.workflows.missions.config import (
    CURRENT_PHASE,
    MISSION_ID,
    NAME,
    PHASES_COMPLETED,
    Begin,
    MissionRule,
    NodeRule,
    missions_of,
)
from tenex.workflows.missions.result_words import result_words
from tenex.workflows.missions.signals import (
    ContinueRequested,
    MissionRequested,
    NodeFailed,
    NodeInterrupted,
    NodeReturned,
    PauseRequested,
    StepFinished,
    StepRequested,
    Who,
)
from tenex.workflows.missions.state import UNKNOWN_KIND, Mission, mission_of
from tenex.workflows.missions.view import mission_condition, name_in_words

PROGRAM = "the program"
"""Who pauses a mission that cannot go on by the code there is now."""
UNKNOWN = "the process stopped while this ran; check before repeating"
CUT_OFF = "the node ended while this ran; check before repeating"
STOPPED = "it was stopped while this ran; check before repeating"
MESSAGE_CHARACTERS = 2_000
"""Of why a node failed: a longer text is a dump and not a reason."""
RESULT_CHARACTERS = 2_000
"""Of a result in the message that ends a mission: the whole is in the journal."""
ANNOUNCED = 50
"""Nodes announced one by one since a user continued it: a search of a thousand rounds would fill a client."""


def on_signal(transaction: Transaction, signal: Signal) -> bool:
    """Handle a signal of a mission; one whose key is not wanted any more gives no record."""
    match signal:
        case MissionRequested():
            _open(transaction, signal)
        case StepRequested() | StepFinished() | NodeReturned() | NodeFailed():
            _of_node(transaction, signal)
        case NodeInterrupted(spent=cost):
            paying = mission_of(transaction.state)
            if paying is not None:
                _pay(transaction, paying, cost)
        case PauseRequested():
            _pause_asked(transaction, signal)
        case ContinueRequested():
            continue_mission(transaction, signal.by)
        case DayLimitReached(key=key) if key.work is Work.NODE:
            if (mission := _running(transaction, key)) is not None:
                transaction.add(
                    m.NodeRetryScheduled,
                    attempt=mission.attempt,
                    due=signal.until,
                    kind="DayLimit",
                    message=signal.sentence,
                    limit=signal.limit,
                )
                holds.report(transaction, signal)
        case _:
            return False
    return True


def _of_node(transaction: Transaction, signal: StepRequested | StepFinished | NodeReturned | NodeFailed) -> None:
    mission = _running(transaction, signal.node if isinstance(signal, StepRequested | StepFinished) else signal.key)
    if mission is None:
        return
    if not isinstance(signal, StepRequested):
        _pay(transaction, mission, signal.spent)
    match signal:
        case StepRequested():
            _step_asked(transaction, mission, signal)
        case StepFinished():
            _step_done(transaction, mission, signal)
        case NodeReturned():
            _returned(transaction, mission, signal)
        case NodeFailed():
            _failed(transaction, mission, signal)


def begin(transaction: Transaction, workflow: str, text: str, by: str) -> None:
    """Begin a mission that a message mentioned; where it cannot, the conversation waits for one that can."""
    rule = missions_of(transaction.policy)[workflow]
    if rule.begin is None:
        return
    call = partial(_call, rule.begin, text)
    name = f"begin of the mission {workflow}"
    found = answer(
        transaction.state.work.verdicts, FunctionQuestion(function=name, given=digest(text), code=rule.begin, call=call)
    )
    if found.kind:
        failed = f"its `begin` failed with {found.kind}. The author of its code has to fix that."
        transaction.add(m.MissionRefused, workflow=workflow)
        sentence = found.error if found.kind == UsageError.__name__ else failed
        text = f"The mission {workflow} cannot begin: {sentence} Correct it and write it here again."
        notify(transaction, text, error="workflow")
        transaction.add(r.Ended, reason=f"the mission {workflow} could not begin")
        return
    state = _identified(transaction, rule, found.value["state"])
    transaction.add(m.MissionOpened, workflow=workflow, state=state, by=by, pubkey=rule.pubkey)
    _enter(transaction, rule, found.value["node"], found.value["data"], {})


def _call(begin: Begin, text: str) -> dict[str, Any]:
    beginning = begin(text)
    return {"node": beginning.node, "data": dict(beginning.data), "state": dict(beginning.state)}


def pause(transaction: Transaction, mission: Mission, by: str) -> None:
    """Pause an open mission as a user asks; what is under way may return first."""
    if mission.is_paused:
        notify(transaction, status_line(mission))
        return
    _pause_asked(transaction, PauseRequested(by=by, reason=f"{by} asks for it."))
    if (now := _now(transaction)) is not None and not now.is_paused:
        notify(transaction, "It pauses as soon as the step under way has returned. `/stop` cuts that off.")


def opened(transaction: Transaction) -> None:
    """A process goes on: steps that may not run twice are unknown; a mission whose graph is gone waits for it."""
    mission = _now(transaction)
    if mission is None or (mission.wants is None and mission.wait is None):
        return
    _mark_unknown(transaction, mission, UNKNOWN)
    if not _halt_if_strange(transaction, mission):
        _settle_pause(transaction)


def timer(transaction: Transaction, key: Key) -> bool:
    """Whether the timer is the mission's; then what follows from it is recorded. It is known to be wanted."""
    mission = _now(transaction)
    if mission is None:
        return False
    if key.part == "node-retry":
        transaction.add(m.NodeRetryDue)
        _halt_if_strange(transaction, mission)
    elif key.part == "node-close":
        _fail(transaction, mission, "TimedOut", "its time is up")
    else:
        return False
    return True


def continue_mission(transaction: Transaction, by: str) -> bool:
    """Let a mission go on that is paused, or waits for another try; whether there was one."""
    mission = _now(transaction)
    if mission is None or mission.wants is not None:
        return False
    if not mission.is_paused and mission.wait is None:
        return False
    if spent(transaction):  # a user has seen that, and it may cost as much again
        transaction.add(r.Continued, name=by)
    transaction.add(m.NodeRetryDue, by=by)
    _halt_if_strange(transaction, mission)
    return True


def halt(transaction: Transaction, by: str, reason: str) -> None:
    """Pause at once, if it is not paused yet: what is under way is cut off."""
    mission = _now(transaction)
    if mission is not None and not mission.is_paused:
        _mark_unknown(transaction, mission, STOPPED)
        transaction.add(m.MissionPaused, by=by, reason=reason)


def drop(transaction: Transaction, by: str) -> None:
    """End an open mission for good; where the conversation is its own, that is reported and it ends too."""
    mission = _now(transaction)
    if mission is None:
        return
    _mark_unknown(transaction, mission, STOPPED)
    if mission.is_alone:
        _end(transaction, "stopped", kind="Stopped", message=f"{by} ended it")
    else:
        transaction.add(m.MissionEnded, outcome="stopped", kind="Stopped", message=f"ended by {by}")


# ---- beginning and ending --------------------------------------------------------------------------------------------


def _open(transaction: Transaction, signal: MissionRequested) -> None:
    state = transaction.state
    rule = missions_of(transaction.policy).get(signal.workflow)
    if rule is None or signal.node not in rule.nodes or state.has_open_kind:
        return  # the caller has been informed before
    is_of_another_kind = any(part.has_begun for name, part in state.kinds.items() if name != NAME)
    if state.work.turn is not None or is_of_another_kind:
        return  # agents are at work here
    if state.cycle.status == "new":
        transaction.add(
            r.ConversationStarted,
            id=state.id,
            title=signal.workflow,
            starter=transaction.policy.project.pubkey,
            address={},
        )
    transaction.add(
        m.MissionOpened, workflow=signal.workflow, state=_identified(transaction, rule, signal.state), by=signal.by
    )
    _enter(transaction, rule, signal.node, signal.data, {})


def _identified(transaction: Transaction, rule: MissionRule, state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with the id of this mission, where its author left that open."""
    is_open = MISSION_ID in rule.tracked and not state.get(MISSION_ID)
    return {**state, MISSION_ID: str(transaction.state.id)} if is_open else dict(state)


def _enter(
    transaction: Transaction, rule: MissionRule, name: str, data: Mapping[str, Any], changed: Mapping[str, Any]
) -> None:
    node = rule.nodes[name]
    mission = mission_of(transaction.state)
    before = mission.node if mission is not None else ""
    entering = dict(changed)
    if CURRENT_PHASE in rule.tracked:
        entering[CURRENT_PHASE] = node.phase
    close_at = Millis(transaction.now + node.timeout) if node.timeout is not None else Millis(0)
    transaction.add(m.NodeEntered, node=name, data=dict(data), changed=entering, close_at=close_at)
    mission = mission_of(transaction.state)
    most = transaction.policy.limits.nodes_per_mission
    if mission is not None:
        _announce_node(transaction, mission, rule, before)
    if mission is not None and mission.visits >= most:
        sentence = f"It has entered {mission.visits} nodes since a user last continued it."
        transaction.add(r.LimitReached, limit="nodes_per_mission", sentence=sentence)
        _pause(transaction, mission, "the limit", sentence)
    elif mission is not None and mission.pausing:
        _pause(transaction, mission, mission.pausing_by, mission.pausing)


def _end(
    transaction: Transaction,
    outcome: m.MissionOutcome,
    *,
    result: Any = None,
    kind: str = "",
    message: str = "",
    who: Who = "author",
) -> None:
    transaction.add(m.MissionEnded, outcome=outcome, result=result, kind=kind, message=message)
    if (mission := mission_of(transaction.state)) is not None:
        _report_end(transaction, mission, who)
        transaction.add(r.Ended, reason=f"{name_in_words(mission)} {outcome}")


# ---- steps -----------------------------------------------------------------------------------------------------------


def _step_asked(transaction: Transaction, mission: Mission, signal: StepRequested) -> None:
    if signal.step in mission.steps:
        return
    if mission.pausing:
        _settle_pause(transaction)
    elif len(mission.steps) >= transaction.policy.limits.steps_per_node:
        sentence = f"it took {len(mission.steps)} steps, which is the limit for one visit; make it several nodes"
        _fail(transaction, mission, "TooManySteps", sentence)
    elif limit := spent(transaction):
        transaction.add(r.LimitReached, limit=limit[0], sentence=limit[1])
        transaction.add(m.MissionPauseRequested, by="the limit", reason=limit[1])
        _settle_pause(transaction)
    else:
        transaction.add(m.StepStarted, step=signal.step, replay=signal.replay)


def _pay(transaction: Transaction, mission: Mission, cost: Mapping[str, Usage]) -> None:
    for model, usage in cost.items():
        transaction.add(m.MissionUsageRecorded, workflow=mission.workflow, model=model, usage=usage)


def _step_done(transaction: Transaction, mission: Mission, signal: StepFinished) -> None:
    step = mission.steps.get(signal.step)
    if step is None or step.is_done:
        return
    transaction.add(
        m.StepCompleted,
        step=signal.step,
        ok=signal.ok,
        result=signal.result,
        kind=signal.kind,
        message=signal.message,
        retryable=signal.may_pass,
        needs_operator=signal.needs_operator,
        changed=_changed(mission, signal.state),
    )
    _settle_pause(transaction)


def _changed(mission: Mission, state: Mapping[str, Any]) -> dict[str, Any]:
    known = mission.state
    missing = object()
    return {name: value for name, value in state.items() if known.get(name, missing) != value}


def _mark_unknown(transaction: Transaction, mission: Mission, sentence: str) -> None:
    """Record of steps under way that may not run again that no one knows what they did."""
    for step in mission.open_steps:
        if step.replay is Replay.ONCE:
            transaction.add(m.StepCompleted, step=step.id, ok=False, kind=UNKNOWN_KIND, message=sentence)


# ---- what a node's end leads to --------------------------------------------------------------------------------------


def _returned(transaction: Transaction, mission: Mission, signal: NodeReturned) -> None:
    rule = missions_of(transaction.policy).get(mission.workflow)
    if _halt_if_strange(transaction, mission, signal.to) or rule is None:
        return
    if (refusal := rule.graph.check(mission.node, signal.to)) is not None:
        _fail(transaction, mission, "UndeclaredEdge", refusal)
    elif mission.open_steps:
        names = ", ".join(step.id for step in mission.open_steps)
        _fail(
            transaction, mission, "StepLeftOpen", f"it returned while these steps were under way, await them: {names}"
        )
    else:
        changed = _changed(mission, signal.state) | _completed(rule, mission, signal.state)
        transaction.add(m.NodeCompleted, node=mission.node, to=signal.to, changed=changed)
        if signal.to == END:
            _end(transaction, "finished", result=signal.result)
        else:
            _enter(transaction, rule, signal.to, signal.data, {})


def _completed(rule: MissionRule, mission: Mission, state: Mapping[str, Any]) -> dict[str, Any]:
    """The phase that is over, put to those that are; each is there once."""
    if PHASES_COMPLETED not in rule.tracked or mission.node not in rule.nodes:
        return {}
    known = [*(mission.state.get(PHASES_COMPLETED) or ()), *(state.get(PHASES_COMPLETED) or ())]
    return {PHASES_COMPLETED: list(dict.fromkeys([*known, rule.nodes[mission.node].phase]))}


def _failed(transaction: Transaction, mission: Mission, failure: NodeFailed) -> None:
    rule = _rule(transaction, mission)
    if failure.who == "operator" or rule is None:
        _pause(transaction, mission, PROGRAM, failure.message)
    elif failure.who == "world" and (failure.needs_operator or mission.attempt < rule.retries):
        _mark_unknown(transaction, mission, CUT_OFF)
        delays = transaction.policy.limits.retry_delays or (0,)
        delay = max(delays[min(mission.attempt, len(delays) - 1)], failure.retry_after or 0)
        transaction.add(
            m.NodeRetryScheduled,
            attempt=mission.attempt + (not failure.needs_operator),
            due=Millis(transaction.now + (LIFETIME if failure.needs_operator else delay)),
            kind=failure.kind,
            message=failure.message[:500],
            needs_operator=failure.needs_operator,
        )
        if failure.needs_operator and not mission.pausing:
            where = f"The mission {mission.workflow} cannot go on at {mission.node}"
            why = _sentence(failure.message[:REASON_CHARACTERS])
            text = f"{where}: {why} I hold the work until then; after that, send `/continue`."
            notify(transaction, text, error="model")
        if mission.pausing:  # its task has ended, and nothing of it is under way
            _pause(transaction, mission, mission.pausing_by, mission.pausing)
    else:
        _fail(
            transaction, mission, failure.kind, failure.message, "operator" if failure.needs_operator else failure.who
        )


def _fail(transaction: Transaction, mission: Mission, kind: str, message: str, who: Who = "author") -> None:
    """The node failed for good: its error edge, or the end."""
    rule = missions_of(transaction.policy).get(mission.workflow)
    node = _rule(transaction, mission)
    if _halt_if_strange(transaction, mission) or rule is None or node is None:
        return
    _mark_unknown(transaction, mission, CUT_OFF)
    target = node.on_error
    message = message[:MESSAGE_CHARACTERS]
    if target is None or not rule.graph.permits(mission.node, target):
        transaction.add(m.NodeCompleted, node=mission.node, to=END, kind=kind, message=message)
        _end(transaction, "failed", kind=kind, message=f"{mission.node}: {message}", who=who)
        return
    error = {"node": mission.node, "kind": kind, "message": message, "attempts": mission.attempt + 1}
    transaction.add(m.NodeCompleted, node=mission.node, to=target, kind=kind, message=message)
    _enter(transaction, rule, target, {"error": error} if rule.nodes[target].takes_error else {}, {})


# ---- pauses ----------------------------------------------------------------------------------------------------------


def _pause_asked(transaction: Transaction, signal: PauseRequested) -> None:
    mission = _now(transaction)
    if mission is None or mission.is_paused:
        return
    if signal.node is None:
        if not mission.open_steps:
            _pause(transaction, mission, signal.by, signal.reason)
        elif not mission.pausing:
            transaction.add(m.MissionPauseRequested, by=signal.by, reason=signal.reason)
    elif _running(transaction, signal.node) and signal.step not in mission.steps:
        # the place is a step that has returned: going on passes it
        transaction.add(m.StepStarted, step=signal.step, replay=Replay.READ)
        transaction.add(m.StepCompleted, step=signal.step, ok=True)
        if mission.open_steps:
            transaction.add(m.MissionPauseRequested, by=signal.by, reason=signal.reason)
        else:
            _pause(transaction, mission, signal.by, signal.reason)


def _settle_pause(transaction: Transaction) -> None:
    """Pause where that is wanted and no step is under way any more."""
    mission = _now(transaction)
    if mission is not None and mission.pausing and not mission.open_steps:
        _pause(transaction, mission, mission.pausing_by, mission.pausing)


def _pause(transaction: Transaction, mission: Mission, by: str, reason: str) -> None:
    _mark_unknown(transaction, mission, STOPPED)
    transaction.add(m.MissionPaused, by=by, reason=reason or "a pause")
    resume = "Once the operator has fixed that, `/continue`" if by == PROGRAM else "`/continue`"
    where = f"{_title(mission)} is paused at {mission.node}"
    notify(transaction, f"{where}: {_sentence(reason)} {resume} lets it go on.")
    transaction.add(r.Waiting, reason="mission")


def _halt_if_strange(transaction: Transaction, mission: Mission, following: str = END) -> bool:
    """Whether it was paused, because the configured graph does not know its node; what has been done is kept."""
    rule = missions_of(transaction.policy).get(mission.workflow)
    sentence = ""
    if rule is None:
        faults = transaction.policy.disabled.get(Slug(mission.workflow), ())
        sentence = (
            f"its file has a fault: {faults[0]}"
            if faults
            else f"no workflow {mission.workflow} is configured any more."
        )
    for node in (mission.node, following):
        if rule is not None and node != END and node not in rule.nodes:
            sentence = f"the workflow {mission.workflow} has no node {node} any more."
    if sentence:
        _pause(transaction, mission, PROGRAM, sentence)
    return bool(sentence)


def _now(transaction: Transaction) -> Mission | None:
    """The mission, as long as it is open."""
    mission = mission_of(transaction.state)
    return mission if mission is not None and mission.is_open else None


def _running(transaction: Transaction, key: Key) -> Mission | None:
    """The mission, if its node's run of that key is wanted."""
    mission = _now(transaction)
    if mission is None or mission.wants is None or key != (Work.NODE, mission.wants, ""):
        return None
    return mission


def _rule(transaction: Transaction, mission: Mission) -> NodeRule | None:
    rule = missions_of(transaction.policy).get(mission.workflow)
    return rule.nodes.get(mission.node) if rule else None


# ---- messages to users ----------------------------------------------------------------------------------------------


def _announce_node(transaction: Transaction, mission: Mission, rule: MissionRule, before: str) -> None:
    """Announce in a line that another node was entered; not where it follows itself."""
    if not mission.is_alone or mission.node == before or mission.visits > ANNOUNCED:
        return
    label = rule.label(before, mission.node) if before else ""
    line = f"Now in {rule.nodes[mission.node].phase}{f': {label}' if label else ''}"
    more = "" if mission.visits < ANNOUNCED else " Further nodes are not announced; `/status` shows the current one."
    notify(transaction, line + ("." if more else "") + more, "announcement")


def _report_end(transaction: Transaction, mission: Mission, who: Who) -> None:
    """Report the outcome; where the conversation is its own, the message has the reason as a tag."""
    outcome = mission.outcome or "finished"
    name = mission.workflow
    tags = (("close-reason", outcome),) if mission.is_alone else ()
    match outcome:
        case "finished":
            text = f"{_title(mission)} has ended."
            if mission.result is not None:
                words = result_words(mission.result)
                shown = words if len(words) <= RESULT_CHARACTERS else f"{words[:RESULT_CHARACTERS]}…"
                text += f" Its result:\n{shown}" if "\n" in shown or shown.startswith("- ") else f" Its result: {shown}"
            notify(transaction, text, tags=tags)
        case "stopped":
            notify(transaction, f"{_title(mission)} has ended: {mission.message}.", tags=tags)
        case "failed":
            text = f"{_title(mission)} has failed: {_sentence(mission.message)}"
            again = f"mention @{name} in a new note"
            if mission.is_alone and mission.kind == UNKNOWN_KIND:
                text += f" Somebody has to look at what that step did; then {again}."
            elif mission.is_alone and who == "operator":
                text += f" Once the operator has fixed that, {again}."
            elif mission.is_alone and who == "world":
                text += f" That may pass by itself; to try again, {again}."
            elif mission.is_alone:
                text += f" The author of its code has to fix that; then {again}."
            notify(transaction, text, error="mission", tags=tags)
        case _:
            assert_never(outcome)


def _title(mission: Mission) -> str:
    return f"T{name_in_words(mission)[1:]}"


def _sentence(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def status_line(mission: Mission) -> str:
    """Where a mission is, as one line."""
    where = _title(mission)
    message = mission.wait.message if mission.wait is not None else ""
    match mission_condition(mission):
        case "paused":
            return f"{where} is paused at {mission.node}: {_sentence(mission.paused)}"
        case "held":
            return f"{where} is held at {mission.node}, until `/continue`: {_sentence(message)}"
        case "limited":
            return f"{where} is limited at {mission.node}: {message}"
        case "retrying":
            return f"{where} tries {mission.node} again soon."
        case "running":
            return f"{where} is at work in {mission.node}."
        case outcome:
            return f"{where} has ended ({outcome})."


def over(mission: Mission) -> str:
    """The answer to a message after the end."""
    return f"{status_line(mission)} To run it again, mention @{mission.workflow} in a new note."
