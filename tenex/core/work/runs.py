"""A run's steps: what its model answered, what its calls gave back, what failed.

The order of calls. A model answers with any number of calls, and when each begins depends on what it does. Each is
judged when it is about to begin, and not when it was asked for, so that it meets the phase and the files as those
before it have left them. A call goes through these states (`CallState`):

    ASKED ─┬─ refused ────────────────────────────────► DONE    ToolCallRejected
           ├─ about the agent itself, or its kind's ──► DONE    ToolCallCompleted
           ├─ a tool ───────► PERMITTED ── returns ───► DONE    ToolCallStarted, ToolCallCompleted
           ├─ `ask` ────────► PARKED ── is answered ──► DONE    QuestionAsked, QuestionAnswered
           │  (also a tool whose server asks a person, from PERMITTED)
           ├─ it asks ──────► UNAPPROVED ── yes ──────► as if ASKED   ApprovalRequested, ApprovalAnswered
           │  (again, from PERMITTED, where a file that it names has changed since: CallOutdated)
           ├─ a sub-agent ──► LINKED ── its run ends ─► DONE    RunStarted, ToolCallCompleted
           └─ a busy one ───► QUEUED ── as if ASKED             ToolCallQueued
    from any of them, where the run is stopped or too late ──► DONE    ToolCallCompleted

`_schedule` goes through the open calls after each answer and each result, and decides as many as it can now. A call
that is not done holds back some kinds of calls after it (`_HELD_BACK_BY`): reads run together, a call that changes
something runs alone, sub-agents work at the same time as each other and as reads. What the agent's own phase withholds
waits until all before it has returned, because that may lead to a phase that offers it. `complete` comes last: when
every other call has its result, so a model cannot report what it has not seen. When all calls are done, the model is
asked again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import Any, Final, cast, get_args

from tenex.core import records as r
from tenex.core.agent_phases import decide as agent_phases
from tenex.core.answers.pictures import NUMBERS
from tenex.core.approvals import decide as approvals
from tenex.core.config import Agent, Replay
from tenex.core.delivery.buttons import numbered
from tenex.core.delivery.outgoing import as_sentence, notify, send_as_agent
from tenex.core.ids import CallId, Millis, RunId
from tenex.core.kind import kind_of_conversation
from tenex.core.memory.window import in_a_line
from tenex.core.messages import NO_USAGE, CallRequest, CallResult, ModelStep
from tenex.core.people import permissions
from tenex.core.phases import PHASES
from tenex.core.port_values import Buttons, ToolResult
from tenex.core.signals import DayLimitReached, ModelFailed
from tenex.core.subagents import decide as subagents
from tenex.core.subagents.links import link_of
from tenex.core.text.amounts import duration
from tenex.core.transaction import Transaction

from . import holds, loop_detection
from .live_run import LiveRun
from .records import Finding, Fulfilment
from .run import Call, CallState, Run, choices_of
from .turns import LIFETIME, STOPPED, advance, close_calls, finish_run, limit_reached, spent, stop_at_run_limit

NUDGES = 2
"""Reminders per run: a model that needs a third does not listen."""

CALLS = 64
"""Calls of one answer that are carried out: a model that writes hundreds is going round in circles, and their results
would not fit into its next request."""

SILENCE = 60_000
"""ms a server may ask us to wait before the user is informed: longer than a minute no one waits without a word."""

REASON_CHARACTERS = 300
"""Of the reason why a model cannot be asked, which may name a file."""

RESULT_CHARACTERS = 300
"""Of a result that users are shown: enough to see what went wrong."""

FULFILMENTS: Final = get_args(Fulfilment)

FINDINGS: Final = 30
"""Things that were asked for of which a verifier's words are kept."""

VERDICTS: Final = ("verified", "issues", "untried")
LONGEST_VERDICT: Final = 2_000
"""Characters of a verifier's answer, and of its issues, where a server holds calls to a schema: about a page."""
LONGEST_REMARK: Final = 600
"""Characters of each text besides."""
MOST_ASKED: Final = 20
"""Things asked for that such a verdict names."""

UNPROVED: Final = "The verdict does not count yet: "
"""How the refusal of a verdict begins that no call of the turn supports."""

PROOFS: Final = 2
"""Verdicts of a run that are refused for that reason; the next one becomes `untried`."""

EMPTY = "its model gave empty answers: look at the log of its server, or choose another model"
"""Why a run fails that has nothing to say after all."""

UNKNOWN = "unknown: the process stopped while this ran; check before repeating"


class _CallKind(Enum):
    """What a call is, for the order in which calls begin."""

    READ = "a tool that changes nothing"
    CHANGE = "a tool that may change something"
    SUBAGENT = "a call of a sub-agent"
    OWN = "a call about the agent's own phase or state"


_EVERYTHING: Final = frozenset(_CallKind)

_HELD_BACK_BY: Final = {
    _CallKind.READ: frozenset({_CallKind.CHANGE}),  # while it runs: it would see the change
    _CallKind.CHANGE: _EVERYTHING,  # while it runs or waits: what is after it would miss the change
    # while it is open: as after a change, but they share time
    _CallKind.SUBAGENT: frozenset({_CallKind.CHANGE, _CallKind.OWN}),
}
"""The kinds of calls that do not begin while one of this kind, before them in the same answer, is not done.

A call about the agent itself is decided at once, and a question to a user holds nothing back.
"""


def stepped(
    transaction: Transaction, run_id: RunId, step: ModelStep, files: tuple[Mapping[str, str], ...] = ()
) -> None:
    """A run's model answered: judge its calls, or take its text as its completion."""
    run = LiveRun(transaction, run_id)
    transaction.add(r.ModelResponded, run=run.id, step=_with_unique_ids(step, run.now), files=files)
    agent_phases.evaluate(transaction, run.id)

    completes = any(call.tool == "complete" for call in step.calls)
    works = any(call.tool != "complete" for call in step.calls)
    limit = spent(transaction) or limit_reached(transaction, run.now)

    if not step.calls:
        _finish(run, {"response": step.text}, completed=False)
    elif _has_no_steps_left(run) and not completes:
        close_calls(transaction, run.now, "not run: the limit of steps is reached")
        _fail_at_step_limit(run)
    elif transaction.now >= run.now.close_at and works:
        time_out(transaction, run.id, "not run: the time is up")
    elif limit is not None and not completes:
        _stop_at_limit(run, *limit)
    else:
        _schedule(run)


def _has_no_steps_left(run: LiveRun) -> bool:
    is_program = _is_program(run.transaction, run.now)
    return not is_program and run.now.steps >= run.transaction.policy.limits.steps_per_run


def _is_program(transaction: Transaction, run: Run) -> bool:
    """Whether its agent is a program of others, which makes its calls by itself."""
    agent = transaction.policy.roster.get(run.agent)
    return agent is not None and agent.is_program


def _fail_at_step_limit(run: LiveRun) -> None:
    _fail(run, f"it took {run.now.steps} steps, which is the limit")


def _stop_at_limit(run: LiveRun, name: str, sentence: str) -> None:
    """End a run at a limit of tokens or cost; the user is asked once, when the turn has closed."""
    transaction = run.transaction
    close_calls(transaction, run.now, f"not run: {sentence}")
    is_its_own = spent(transaction) is None
    if is_its_own:  # the limits of the cycle and the conversation are recorded where the user is asked
        transaction.add(r.LimitReached, limit=name, sentence=sentence)
    announce = not kind_of_conversation(transaction.state).asks_at_limits
    ended = run.now
    finish_run(transaction, ended, "over_limit" if is_its_own else "failed", error=sentence, announce=announce)
    after_end(transaction, ended)


def _with_unique_ids(step: ModelStep, run: Run) -> ModelStep:
    """Vendors and weak models repeat call ids, within an answer and across answers; ours are unique in a run."""
    if not step.calls:
        return step

    used = {call.id for entry in run.entries if isinstance(entry, ModelStep) for call in entry.calls}
    calls: list[CallRequest] = []
    for index, call in enumerate(step.calls):
        name = call.id or CallId("call")
        while name in used:
            name = CallId(f"{call.id or 'call'}-{run.steps}-{index}" if name == call.id else f"{name}x")
        used.add(name)
        calls.append(call if name == call.id else replace(call, id=name))
    return replace(step, calls=tuple(calls))


# ---- the order of calls ----


def _schedule(run: LiveRun) -> None:
    """Decide the run's calls in their order, as far as that is possible now; end it if only `complete` is left."""
    transaction = run.transaction
    agent = run.agent
    approvals.ask_ahead(transaction, run.now, agent, run.now.calls[:CALLS])
    if approvals.has_refused_too_often(run.now):
        end_refused(transaction, run.id)
        return

    held_back: frozenset[_CallKind] = frozenset()
    too_many = {call.request.id for call in run.now.calls[CALLS:]}
    for call in run.now.open_calls:
        if call.has_begun or call.request.tool == "complete":
            held_back |= _held_back_by_begun(call)
        elif call.request.id in too_many:
            sentence = f"Not run: of one answer the first {CALLS} calls are carried out. Ask again if you need it."
            transaction.refuse(run.now, call, sentence)
        elif _is_decided_by_kind(run, call):
            if run.has_ended:  # the call was its last
                return
        elif _waits_for_agent_phase(run, agent, call):
            held_back = _EVERYTHING  # what is after it makes no room for it
        elif link_of(agent, call.request.tool) is not None:
            held_back |= _call_subagent(run, agent, call, held_back)
        elif agent_phases.is_own(agent, call):
            # calls before it need the phase as it is, calls after it the phase it leads to
            if _CallKind.OWN in held_back:
                break
            agent_phases.decide(transaction, run.now, agent, call)
        else:
            held_back |= _call_tool(run, agent, call, held_back)

    _complete_if_last(run, agent)


def _held_back_by_begun(call: Call) -> frozenset[_CallKind]:
    """What a call that has begun holds back; nothing where it is a question to a user, or the end of the run."""
    if call.state is CallState.LINKED:
        return _HELD_BACK_BY[_CallKind.SUBAGENT]
    if call.state in (CallState.PERMITTED, CallState.UNAPPROVED):
        return _HELD_BACK_BY[_CallKind.READ if call.replay is Replay.READ else _CallKind.CHANGE]
    return frozenset()


def _is_decided_by_kind(run: LiveRun, call: Call) -> bool:
    """Have the kind of conversation decide a call that is its own; False where it is not."""
    transaction = run.transaction
    before = len(transaction.records)
    if not kind_of_conversation(transaction.state).own_call(transaction, run.now, call):
        return False
    # not where the call was refused, or waits for those before it
    has_result = any(isinstance(record, r.ToolCallCompleted) for record in transaction.records[before:])
    if has_result and not run.has_ended:
        agent_phases.evaluate(transaction, run.id)
    return True


def _waits_for_agent_phase(run: LiveRun, agent: Agent, call: Call) -> bool:
    """Whether a call is withheld by the agent's own phase, and one that is before it may yet change that."""
    if agent_phases.withheld(run.transaction, run.now, agent, call.request.tool) is None:
        return False
    before = takewhile(lambda other: other.request.id != call.request.id, run.now.calls)
    return any(other.state is not CallState.DONE and other.request.tool != "complete" for other in before)


def _call_subagent(run: LiveRun, agent: Agent, call: Call, held_back: frozenset[_CallKind]) -> frozenset[_CallKind]:
    """Refuse the call of a sub-agent, or begin it if it may; returns what it holds back."""
    if _CallKind.SUBAGENT not in held_back:  # else it is judged when that has returned, which may change the phase
        subagents.decide(run.transaction, run.now, agent, call)
    is_open = run.now.find(call.request.id) is not None
    return _HELD_BACK_BY[_CallKind.SUBAGENT] if is_open else frozenset()


def _call_tool(run: LiveRun, agent: Agent, call: Call, held_back: frozenset[_CallKind]) -> frozenset[_CallKind]:
    """Refuse a tool call, park it, ask a person about it, or begin it; returns what it holds back."""
    transaction = run.transaction
    refusal = agent_phases.refusal(transaction, run.now, agent, call.request.tool) or call.request.fault
    if refusal:
        transaction.refuse(run.now, call, refusal)
        return frozenset()
    if call.request.tool == "ask":
        _park(run, call)
        return frozenset()

    rule = transaction.policy.tools_of(agent)[call.request.tool]
    kind = _CallKind.READ if rule.replay is Replay.READ else _CallKind.CHANGE
    if kind not in held_back:
        if not approvals.may_begin(transaction, run.now, call, rule):
            is_open = run.now.find(call.request.id) is not None
            return _HELD_BACK_BY[kind] if is_open else frozenset()
        transaction.add(
            r.ToolCallStarted,
            run=run.id,
            call=call.request.id,
            tool=rule.name,
            replay=rule.replay,
            phase=transaction.state.cycle.phase,
            unchanged=approvals.files_allowed(transaction, run.now, call, rule),
        )
    return _HELD_BACK_BY[kind]


def outdated(transaction: Transaction, run_id: RunId, call: Call, files: Mapping[str, str]) -> None:
    """A call was to begin, and files that it names are others than a person has allowed it for: ask again."""
    before = call.unchanged or {}
    changed = tuple(name for name in sorted({*before, *files}) if before.get(name) != files.get(name))
    transaction.add(r.CallOutdated, run=run_id, call=call.request.id, files=files, changed=changed)
    _schedule(LiveRun(transaction, run_id))


def _park(run: LiveRun, call: Call) -> None:
    transaction = run.transaction
    question = call.request.arguments.get("question")
    if not isinstance(question, str) or not question.strip():
        sentence = "`ask` needs `question`, a text that is not empty."
        transaction.refuse(run.now, call, sentence)
        return

    choices = choices_of(call.request)
    _ask(run, call, "\n".join([question.strip(), *_numbered(choices)]), numbered(choices, run.transaction.now))


def _numbered(choices: Sequence[str]) -> list[str]:
    """Choices with their numbers, and how to answer: with pictures, where there is one for each, a reaction chooses."""
    if not choices:
        return []
    has_pictures = len(choices) <= len(NUMBERS)
    marks = NUMBERS if has_pictures else [f"{number}." for number in range(1, len(choices) + 1)]
    how = "Reply or react with a number" if has_pictures else "Reply with a number"
    return [*(f"{mark} {choice}" for mark, choice in zip(marks, choices, strict=False)), f"{how}, or reply in words."]


def _ask(
    run: LiveRun,
    call: Call,
    text: str,
    buttons: Buttons | None = None,
    form: Mapping[str, Any] | None = None,
) -> None:
    """Ask a person, and park the call until they answer."""
    transaction = run.transaction
    transaction.add(
        r.QuestionAsked,
        run=run.id,
        call=call.request.id,
        question=text,
        of=permissions.asked_by_agents(transaction.state),
        form=dict(form or {}),
    )
    send_as_agent(transaction, run.now, text, "question", call=call.request.id, buttons=buttons)


# ---- the end of a run ----


def _complete_if_last(run: LiveRun, agent: Agent) -> None:
    """Take the first `complete` of an answer as the run's end, or refuse it, once no other call is left."""
    transaction = run.transaction
    left = run.now.open_calls
    if not left or any(call.request.tool != "complete" or call.state is not CallState.ASKED for call in left):
        return

    first = left[0]
    arguments = first.request.arguments
    fault = agent_phases.refusal(transaction, run.now, agent, "complete")
    fault = fault or first.request.fault or _wrong_completion(arguments, run.now)
    fault = fault or _unseen_failure(run) or _unproved(run, agent, arguments)

    refused = left if fault else left[1:]
    for call in refused:
        transaction.refuse(run.now, call, fault or "The first `complete` of an answer counts.")
    if fault is None:
        last = next((entry for entry in reversed(run.now.entries) if isinstance(entry, ModelStep)), None)
        _finish(run, {"response": last.text if last else "", **arguments}, completed=True)
    elif _has_no_steps_left(run):
        _fail_at_step_limit(run)


def _unseen_failure(run: LiveRun) -> str | None:
    """Why work that failed a moment ago is not reported as done: the model wrote its report before it could know."""
    failed = (call.request.tool for call in run.now.calls if call.result is not None and not call.result.ok)
    tool = next((name for name in failed if name != "complete"), None)
    if tool is None or _has_no_steps_left(run):
        return None
    return f"{tool} in the same answer did not succeed. Look at its result first, then call `complete`."


def _needs_verdict(run: Run) -> bool:
    """Whether its completion is the verdict of a verification: a sub-agent's is only words for its caller."""
    return PHASES[run.phase].needs_verdict and run.parent is None


def possible_completion(parameters: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
    """The parameters of `complete` with what counts in a run alone: a verdict where it is needed, and nowhere else.

    What is written beside an answer is bounded, since a weak model fills any room that a schema leaves; so is a
    verifier's answer. What a person has asked for may be as long as it needs to be.
    """
    schema: Mapping[str, Any] = parameters["properties"]
    short = {"maxLength": LONGEST_REMARK}
    properties = {"response": schema["response"], "summary": {**schema["summary"], **short}}
    required = list(parameters["required"])
    if _needs_verdict(run):
        items = schema["asked"]["items"]
        texts = {name: {**items["properties"][name], **short} for name in ("what", "how")}
        asked = {**items, "properties": {**items["properties"], **texts}}
        properties |= {
            "response": {**schema["response"], "maxLength": LONGEST_VERDICT},
            "verdict": {**schema["verdict"], "enum": list(VERDICTS)},
            "asked": {**schema["asked"], "items": asked, "maxItems": MOST_ASKED},
            "issues": {**schema["issues"], "maxLength": LONGEST_VERDICT},
        }
        required.append("verdict")
    return {**parameters, "properties": properties, "required": required}


def _wrong_completion(arguments: Mapping[str, Any], run: Run) -> str | None:
    for name in ("response", "summary", "issues"):
        if not isinstance(arguments.get(name, ""), str):
            return f"`{name}` of `complete` must be a text."
    if not _needs_verdict(run):
        return None
    verdict = arguments.get("verdict")
    if verdict not in VERDICTS:
        return "In verification `complete` needs `verdict`: `verified`, `issues` or `untried`."
    if verdict == "untried" and not str(arguments.get("issues") or "").strip():
        return "With the verdict `untried`, `complete` needs `issues`: why it could not be tried, in a sentence."
    return _wrong_findings(arguments.get("asked"), verdict)


def _wrong_findings(asked: object, verdict: object) -> str | None:
    """What is wrong with what a verifier says of each thing that was asked for."""
    if asked is None:
        return None
    if not isinstance(asked, list) or not all(isinstance(entry, dict) for entry in asked):
        return "`asked` of `complete` must be a list of objects with `what`, `result` and `how`."
    for entry in asked:
        is_text = isinstance(entry.get("what"), str) and isinstance(entry.get("how", ""), str)
        if not is_text or entry.get("result") not in FULFILMENTS:
            results = ", ".join(f"`{result}`" for result in FULFILMENTS)
            return f"Each entry of `asked` needs `what`, a text, and `result`: one of {results}."
    if verdict == "verified" and any(entry["result"] == "not met" for entry in asked):
        return "`verified` is for work in which nothing is `not met`: give the verdict `issues`, or correct `asked`."
    return None


def _findings(arguments: Mapping[str, Any]) -> tuple[Finding, ...]:
    asked = arguments.get("asked") or ()
    findings: list[Finding] = []
    for entry in asked[:FINDINGS]:
        what = in_a_line(entry["what"], REASON_CHARACTERS)
        how = in_a_line(entry.get("how", ""), REASON_CHARACTERS)
        findings.append(Finding(what=what, result=entry["result"], how=how))
    return tuple(findings)


def _unproved(run: LiveRun, agent: Agent, arguments: Mapping[str, Any]) -> str | None:
    """Why a verdict `verified` does not count yet; None where it does, and after `PROOFS` refusals."""
    if not _claims(run.now, arguments) or _has_no_steps_left(run):
        return None
    why = kind_of_conversation(run.transaction.state).why_unproved(run.transaction, agent)
    return why.refusal if why is not None and _unproved_before(run.now) < PROOFS else None


def _claims(run: Run, arguments: Mapping[str, Any]) -> bool:
    return _needs_verdict(run) and arguments.get("verdict") == "verified"


def _unproved_before(run: Run) -> int:
    """How many verdicts of the run were refused for want of a trial."""
    results = [entry for entry in run.entries if isinstance(entry, CallResult) and entry.tool == "complete"]
    return sum(entry.content.startswith(UNPROVED) for entry in results)


def _finish(run: LiveRun, arguments: Mapping[str, Any], *, completed: bool) -> None:
    """End the run with what its model said, or ask the model once more for what is lacking."""
    transaction = run.transaction
    ended = run.now
    text = str(arguments.get("response") or "").strip()
    summary = str(arguments.get("summary") or "").strip()
    issues = str(arguments.get("issues") or "").strip()
    if issues and issues not in text:
        text = f"{text}\n\n{issues}".strip()
    text = text or summary or kind_of_conversation(transaction.state).text_of_calls(transaction, ended)

    verdict, untried = _verdict(run, arguments, issues)
    lacking = _lacking(ended, text, verdict)
    if not lacking and not ended.reprompts and transaction.now < ended.close_at:
        lacking = kind_of_conversation(transaction.state).what_is_missing(transaction.state, ended)

    if lacking and ended.reprompts < NUDGES and not _has_no_steps_left(run):
        transaction.add(r.ModelReprompted, run=run.id, text=lacking)
    elif not text:
        _fail(run, EMPTY)
    else:  # an answer without a verdict is still an answer; only the gate stays open
        finish_run(
            transaction,
            ended,
            "finished",
            text=text,
            summary=summary,
            verdict=verdict,
            untried=untried,
            findings=_findings(arguments) if verdict else (),
            completed=completed,
        )
        after_end(transaction, ended)


def _verdict(run: LiveRun, arguments: Mapping[str, Any], issues: str) -> tuple[r.WorkVerdict, str]:
    """The verdict that counts, "" for none; and why nothing was tried, where it is `untried`."""
    if _claims(run.now, arguments):
        why = kind_of_conversation(run.transaction.state).why_unproved(run.transaction, run.agent)
        if why is not None:
            return "untried", why.reason

    verdict = arguments.get("verdict") if PHASES[run.now.phase].needs_verdict else ""
    if verdict not in VERDICTS:
        return "", ""
    return cast("r.WorkVerdict", verdict), issues if verdict == "untried" else ""


def _lacking(run: Run, text: str, verdict: r.WorkVerdict) -> str:
    """What the model is asked for before its run ends; "" for nothing."""
    if not text:
        reader = "the person" if run.parent is None else "your caller"
        return f"Your answer is empty. Say what {reader} should read."
    if _needs_verdict(run) and not verdict:
        return "Verification ends with a verdict: call `complete` with `verdict` `verified`, `issues` or `untried`."
    return ""


def returned(transaction: Transaction, run_id: RunId, call: Call, result: ToolResult) -> None:
    """A call gave its result: the next one may start, or the model is wanted again; or it asks a person first."""
    run = LiveRun(transaction, run_id)
    if result.question and not (result.touched or result.reverted):
        _ask(run, call, result.question, form=result.form)
        _schedule(run)
        return

    kept = agent_phases.kept(transaction, run.now, result)
    result = kind_of_conversation(transaction.state).checked_result(transaction, run.now, kept)
    transaction.add_result(
        run.now,
        call,
        ok=result.ok,
        content=result.content,
        read=dict(result.read),
        touched=tuple(result.touched),
        lines=dict(result.lines),
        unchanged=result.unchanged,
        lesson=result.lesson,
        reverted=tuple(result.reverted),
        values=dict(result.values),
        route=result.route,
        exit_status=result.exit_status,
        has_outside_effect=result.has_outside_effect,
        background=None if result.background is None else dict(result.background),
        files=result.files,
    )
    after_result(transaction, run.id, result.moves)


def after_result(transaction: Transaction, run_id: RunId, moves: Sequence[tuple[str, str]] = ()) -> None:
    """After a call has its result: see where the agent is, and go on with the others of its answer.

    With `moves` the call itself has changed the agent's phase; then its edges are not evaluated on top of it.
    """
    run = LiveRun(transaction, run_id)
    for source, target in moves:
        agent_phases.move(transaction, run.now, source, target)
    if not moves:
        agent_phases.evaluate(transaction, run.id)
    if run.now.calls:
        _schedule(run)


def after_end(transaction: Transaction, ended: Run) -> None:
    """What is next when a run has ended: its caller goes on, or else the conversation; and who waited to call it."""
    if ended.parent is not None and ended.parent in transaction.state.work.runs:
        after_result(transaction, ended.parent)
    elif not stop_at_run_limit(transaction):
        advance(transaction)
    recheck_queued_calls(transaction)


def recheck_queued_calls(transaction: Transaction) -> None:
    """Judge the calls that wait, where what they wait for may be over, or be configured no more."""
    for run_id in subagents.queued(transaction):
        run = LiveRun(transaction, run_id)
        if not run.has_ended:  # one that was let through may have ended another
            _schedule(run)


def _fail(run: LiveRun, error: str, failure: ModelFailed | None = None) -> None:
    """An agent failed, perhaps by the failure of a model call; the others of its turn go on."""
    usage = failure.usage if failure is not None else NO_USAGE
    model = failure.model if failure is not None else ""
    ended = run.now
    finish_run(run.transaction, ended, "failed", error=error, usage=usage, model=model)
    after_end(run.transaction, ended)


def time_out(
    transaction: Transaction, run_id: RunId, sentence: str = STOPPED, failure: ModelFailed | None = None
) -> None:
    """Fail an agent that took too long; the router reads of it. Open calls get the sentence as a result.

    `failure` is of the model call whose answer was under way then.
    """
    run = LiveRun(transaction, run_id)
    close_calls(transaction, run.now, sentence)
    ended = run.now
    allowed = duration(transaction.policy.limits.expectation(ended.phase).close_after / 1000)
    usage = failure.usage if failure is not None else NO_USAGE
    model = failure.model if failure is not None else ""
    finish_run(transaction, ended, "timed_out", error=f"no answer within {allowed}", usage=usage, model=model)
    after_end(transaction, ended)


def end_refused(transaction: Transaction, run_id: RunId) -> None:
    """Fail an agent that has asked too often for what it is not allowed."""
    run = LiveRun(transaction, run_id)
    close_calls(transaction, run.now, "not run: the work has ended")
    ended = run.now
    error = f"{ended.refusals} requests for permission went without a yes; say how it can go on without that"
    finish_run(transaction, ended, "failed", error=error)
    after_end(transaction, ended)


def end_loops(transaction: Transaction) -> None:
    """End the runs that have just made the same call, with the same result, once too often."""
    first = transaction.records[0].seq if transaction.records else transaction.state.next_seq
    while True:
        runs = transaction.state.work.runs.values()
        wanted = [run for run in runs if run.wants is not None and run.wants >= first]
        wanted = [run for run in wanted if not _is_program(transaction, run)]
        loops = ((run, loop_detection.repeated_call(run)) for run in wanted)
        run_id, repeated = next(((run.id, call) for run, call in loops if call is not None), (None, None))
        if run_id is None or repeated is None:
            return

        gave = in_a_line(repeated.result.content, RESULT_CHARACTERS) or "nothing"
        _fail(
            LiveRun(transaction, run_id),
            f"it called {repeated.request.tool} {loop_detection.SAME_CALLS} times with the same arguments and got the "
            f"same result each time: {gave}",
        )


# ---- what takes long, and models that do not answer ----


def warn(transaction: Transaction, run_id: RunId) -> None:
    """A run takes long: the user is informed, once for all that work at the same time."""
    run = LiveRun(transaction, run_id)
    at_work = [other for other in transaction.state.work.runs.values() if not other.is_waiting]
    is_reported = any(other.warned for other in at_work)
    transaction.add(r.RunWarned, run=run.id)
    if is_reported:
        return

    left = max(1, round((run.now.close_at - transaction.now) / 60_000))
    *others, last = dict.fromkeys(other.name for other in at_work) or [run.now.name]
    names = f"{', '.join(others)} and {last}" if others else last
    if len(at_work) > 1:
        sentence = f"{names} are still working; I give them {left} more min."
    else:
        sentence = f"{names} is still working; I give it {left} more min."
    notify(transaction, f"{sentence} `/stop` ends it now.", "progress")


def model_failed(transaction: Transaction, run_id: RunId | None, failure: ModelFailed) -> None:
    """A model call ended without an answer: try again later, hold the work, or give up. No run: it was the router's."""
    run = LiveRun(transaction, run_id) if run_id is not None else None
    if run is not None and not failure.retryable:
        _refused(run, failure)
        return
    if run is not None and run.now.agent not in transaction.policy.roster:  # no tools are offered, which vendors refuse
        _fail(run, "it is no longer one of the agents", failure)
        return
    if run is not None and transaction.now >= run.now.close_at + failure.queued:  # its answer was cut off then
        time_out(transaction, run.now.id, failure=failure)
        return

    limits = transaction.policy.limits
    tries = transaction.state.failed_tries(run.now if run is not None else None)
    is_last = tries >= len(limits.retry_delays)
    asked_for = failure.retry_after or 0
    delay = max(limits.hold_for if is_last else limits.retry_delays[tries], asked_for)
    if failure.needs_operator:
        delay = LIFETIME
    is_on_hold = is_last or asked_for > SILENCE or failure.needs_operator
    if is_on_hold and run is not None and PHASES[run.now.phase].may_fail:
        _fail(run, failure.message, failure)
        return

    is_reported = _is_outage_reported(transaction, run)
    transaction.add(
        r.RetryScheduled,
        run=run_id,
        attempt=tries + 1,
        due=Millis(transaction.now + delay),
        message=failure.message[:500],
        on_hold=is_on_hold,
        needs_operator=failure.needs_operator,
        usage=failure.usage,
        model=failure.model,
        queued=failure.queued,
    )
    if is_on_hold and not is_reported:
        minutes = max(1, round(delay / 60_000))
        rhythm = f"every {minutes} min" if is_last else f"in {minutes} min"
        _report_outage(transaction, run, failure, rhythm)


def day_limit_reached(transaction: Transaction, run: Run, reached: DayLimitReached) -> None:
    """A run's model call may not begin before the day is over: hold it, or give up where nothing depends on it."""
    if PHASES[run.phase].may_fail:
        _fail(LiveRun(transaction, run.id), reached.sentence)
    else:
        holds.hold(transaction, run, reached)


def _is_outage_reported(transaction: Transaction, run: LiveRun | None) -> bool:
    """Whether the user knows that a model cannot be used: agents often share a provider."""
    asking = run.now if run is not None else transaction.state.router.question
    is_reported = asking is not None and asking.outage_reported
    return is_reported or any(other.is_held for other in transaction.state.work.runs.values())


def _report_outage(transaction: Transaction, run: LiveRun | None, failure: ModelFailed, rhythm: str) -> None:
    who = f"{run.now.name}'s model" if run is not None else "The orchestrator's model"
    why = as_sentence(failure.message[:REASON_CHARACTERS])
    text = f"{who} cannot be used: {why} I hold the work and try again {rhythm}; `/continue` tries at once."
    if failure.needs_operator:
        text = f"{who} cannot be used: {why} I hold the work until then; after that, send `/continue`."
    notify(transaction, text, error="model")


def _refused(run: LiveRun, failure: ModelFailed) -> None:
    """An answer of no use is asked for again with the reason, and then given up."""
    if run.now.reprompts >= NUDGES:
        _fail(run, failure.message, failure)
        return
    text = f"Your last answer could not be used: {as_sentence(failure.message[:300])} Answer again, in another way."
    run.transaction.add(
        r.ModelReprompted, run=run.id, text=text, usage=failure.usage, model=failure.model, queued=failure.queued
    )
