"""Whether a call may begin: by the rules, by what a person has allowed, or once a person has answered.

    ASKED ── a rule or the tool asks ──► UNAPPROVED ── yes ──► ASKED, approved ── begins ──► PERMITTED
                                              └──────── no, no answer ──────────────────────► DONE

The calls of a step that ask are asked about together, in one message, as soon as the step is there; each is judged
again when it is about to begin, since its agent, the phase and the rules may be others by then. A yes is for exactly
the arguments that were shown (`AskedCall.digest`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tenex.core import records as r
from tenex.core.agent_phases import decide as agent_phases
from tenex.core.config import Agent, Policy, ToolRule
from tenex.core.delivery.buttons import yes_or_no
from tenex.core.delivery.outgoing import send_as_agent
from tenex.core.ids import EventId, Millis, PublicKey, RunId
from tenex.core.messages import ModelStep
from tenex.core.transaction import Transaction
from tenex.core.values import replace
from tenex.core.work.run import Call, CallState, Run
from tenex.core.work.tool_names import server_of
from tenex.core.work.tool_questions import answers_to

from . import message
from .harmless_options import harmless_options, has_known_verb
from .places import host_of
from .rules import COMMAND, SHELLS, Judgement, Verdict, judge
from .shell_text import Words, parsed
from .state import AskedCall, Outcome, Request

REFUSALS: Final = 3
"""Requests of a run that may go without a yes: an agent that asks for more does not do without."""
REMINDED_FROM: Final = 2 * 3_600_000
"""ms that a request waits at least where it is sent once more: sooner it would be in the way."""
NOTIFIED: Final = 5
"""Owners who are named in the message, so that their phones show it."""
_NO_TOOLS: Final = ("ask", "complete")
"""What the daemon does itself, and rules are not about."""
_PROGRAMS: Final = SHELLS | {"python"}
"""Our tools that run what they are given: one call is like another only by the words of its command."""
_FREE: Final = (COMMAND, "timeout", "why")
"""Arguments of a shell of ours that do not change what is like a call."""
_CODE: Final = (
    *(COMMAND, "commands", "cmd", "argv", "args"),
    *("program", "code", "script", "query", "sql", "statement"),
)
"""Arguments that are programs: two calls with them are never alike."""

NO_KEY: Final = PublicKey("")
"""Of who answers without a key: the operator at the machine, or no one."""
NO_END: Final = Millis(0)

AGAIN: Final = "Not run: this very call was refused in this run, and is not asked about again. Go on without it."


class _Asking(NamedTuple):
    """A call that a person is to be asked about."""

    call: Call
    rule: ToolRule
    judgement: Judgement


def digest_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """What identifies a call: the sha256 of its tool and arguments, without the reason that an agent gives for it."""
    if tool in SHELLS:
        arguments = {name: value for name, value in arguments.items() if name != "why"}
    written = json.dumps([tool, arguments], ensure_ascii=True, sort_keys=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()


def _digest_of_others(tool: str, arguments: Mapping[str, Any]) -> str:
    """What a permission for a command of a shell is bound to beyond its words: the folder, and what else is named."""
    return digest_of(tool, {name: value for name, value in arguments.items() if name not in _FREE})


def ask_ahead(transaction: Transaction, run: Run, agent: Agent, calls: Sequence[Call]) -> None:
    """Ask about all calls of a step that need a person, whenever each may begin."""
    asking: list[_Asking] = []
    for call in calls:
        rule = transaction.policy.tools_of(agent).get(call.request.tool)
        if rule is None or call.state is not CallState.ASKED:
            continue
        judgement = judged(transaction, run, call, rule)
        if judgement.verdict is not Verdict.ASK or is_approved(call) or _goes_on(run, call):
            continue
        if rule.refusal(call.request.arguments, transaction.state.cycle.phase):
            continue
        if not call.request.fault and agent_phases.refusal(transaction, run, agent, rule.name) is None:
            asking.append(_Asking(call, rule, judgement))
    if asking:
        _ask(transaction, run, asking)


def may_begin(transaction: Transaction, run: Run, call: Call, rule: ToolRule) -> bool:
    """Whether a call may begin now; else it is refused, or a person is asked."""
    if sentence := rule.refusal(call.request.arguments, transaction.state.cycle.phase):
        transaction.refuse(run, call, sentence)
        return False
    judgement = judged(transaction, run, call, rule)
    if judgement.verdict is Verdict.REFUSE:
        transaction.refuse(run, call, f"Not run: {judgement.rule} of the operator refuses it. Go on without it.")
        return False
    if judgement.verdict is Verdict.ALLOW or is_approved(call) or _goes_on(run, call):
        return True
    _ask(transaction, run, [_Asking(call, rule, judgement)])
    return False


def judged(transaction: Transaction, run: Run, call: Call, rule: ToolRule) -> Judgement:
    """What the rules and permissions say of a call now."""
    request = call.request
    if rule.name in _NO_TOOLS:
        return Judgement(verdict=Verdict.ALLOW, rule="")
    permissions = transaction.state.approvals.rules(transaction.now)
    return judge(
        transaction.policy.approvals.rules,
        permissions,
        tool=rule.name,
        asks=rule.asks,
        arguments=request.arguments,
        phase=transaction.state.cycle.phase,
        agent=run.agent,
        digest=digest_of(rule.name, request.arguments) if permissions else "",
        definition=rule.definition,
        of_server=transaction.policy.definition_of_server(rule.name) if permissions else "",
        others=_digest_of_others(rule.name, request.arguments) if permissions else "",
        files=call.files,
        needs={need.name: need.is_to for need in rule.needs_of(request.arguments)},
    )


def is_approved(call: Call) -> bool:
    """Whether a person has said yes to exactly this call."""
    return bool(call.approved) and call.approved == digest_of(call.request.tool, call.request.arguments)


def files_allowed(transaction: Transaction, run: Run, call: Call, rule: ToolRule) -> Mapping[str, str] | None:
    """The files for which a person has allowed a call that begins; None where that is for no content in particular."""
    is_bound = is_approved(call) or judged(transaction, run, call, rule).is_permitted
    return call.files if is_bound else None


def _goes_on(run: Run, call: Call) -> bool:
    """Whether it is one that was allowed and has asked a person something since: it is made again with the answer."""
    return bool(server_of(call.request.tool)) and bool(answers_to(run.entries, call.request))


def has_refused_too_often(run: Run) -> bool:
    """Whether a run has asked for what it does not get so often that it ends."""
    return run.refusals >= REFUSALS


# ---- asking ----


def _ask(transaction: Transaction, run: Run, asking: Sequence[_Asking]) -> None:
    new: list[tuple[AskedCall, Mapping[str, Any]]] = []
    for one in asking:
        of_server = transaction.policy.definition_of_server(one.rule.name)
        asked = replace(asked_call(one.call, one.rule, one.judgement), of_server=of_server)
        if asked.digest in run.refused:
            transaction.refuse(run, one.call, AGAIN)
        else:
            new.append((asked, one.call.request.arguments))
    if not new:
        return
    terms = transaction.policy.approvals
    is_whole = all(message.is_shown_whole(asked.tool, arguments) for asked, arguments in new)
    is_reminded = terms.remind and terms.expire_after >= REMINDED_FROM
    requested = transaction.add(
        r.ApprovalRequested,
        run=run.id,
        calls=tuple(asked for asked, _ in new),
        expires_at=Millis(transaction.now + terms.expire_after),
        remind_at=Millis(transaction.now + terms.expire_after // 2) if is_reminded else NO_END,
        needs_word=not is_whole,
    )
    request = transaction.state.approvals.open[requested.seq]
    if terms.unattended:
        settle(transaction, request, "unattended")
        return
    _send(transaction, run, request)


def remind(transaction: Transaction, seq: int) -> None:
    """Send a request once more, to which no one has answered."""
    request = transaction.state.approvals.open[seq]
    _send(transaction, transaction.state.work.runs[request.run], request, is_reminder=True)


def _send(transaction: Transaction, run: Run, request: Request, *, is_reminder: bool = False) -> None:
    waiting = {call.request.id: call.request.arguments for call in run.calls}
    text = message.question(
        [(asked, waiting[asked.call]) for asked in request.calls],
        name=run.name,
        said=_said(run),
        expires_in=request.expires_at - transaction.now,
        number=message.number_of(transaction.state.id, request.seq),
        is_reminder=is_reminder,
    )
    tags = tuple(_tags(transaction.policy, transaction.state.delivery.origin))
    # a press is no written word, which a call that is cut needs; a reminder is of the message that has the buttons
    has_buttons = not is_reminder and not request.needs_word
    buttons = yes_or_no(transaction.now, request.expires_at) if has_buttons else None
    call = request.calls[0].call
    send_as_agent(transaction, run, text, "question", call=call, extra_tags=tags, buttons=buttons)


def _tags(rules: Policy, origin: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Tags that have the phones of owners show the message, beside those of who is answered."""
    others = [owner for owner in sorted(rules.approvals.owners) if owner != origin.get("author")]
    yield from (("p", owner) for owner in others[:NOTIFIED])


def asked_call(call: Call, rule: ToolRule, judgement: Judgement) -> AskedCall:
    """A call as a person is asked about it."""
    request = call.request
    prefixes = prefixes_of(rule.name, request.arguments)
    has_code = rule.name in _PROGRAMS or any(name in request.arguments for name in _CODE)
    host = host_of(request.arguments.get(rule.address)) if rule.address else ""
    has_no_kind = has_code or rule.is_exact or (bool(rule.address) and not host)
    return AskedCall(
        call=request.id,
        tool=rule.name,
        replay=rule.replay,
        digest=digest_of(rule.name, request.arguments),
        line=message.call_line(rule.name, request.arguments),
        rule=message.reason_of(rule, judgement),
        prefixes=prefixes,
        is_exact=has_no_kind and not prefixes,
        wish=message.wish_of(rule, request.arguments, judgement),
        definition=rule.definition,
        others=_digest_of_others(rule.name, request.arguments) if prefixes else "",
        files=call.files,
        changed=call.changed,
        needs=tuple(need.name for need in rule.needs_of(request.arguments)),
        host="" if has_no_kind else host,
    )


def prefixes_of(tool: str, arguments: Mapping[str, Any]) -> tuple[Words, ...]:
    """The words of each command of a plain line, without options that are harmless: what is like it.

    None where the verb of a command is not known: then nothing but the call itself is like it. None for a tool that is
    no shell of ours: what its command does may depend on its other arguments.
    """
    line = arguments.get(COMMAND) if tool in SHELLS else None
    text = parsed(line) if isinstance(line, str) else None
    if text is None or not text.is_plain or not all(map(has_known_verb, text.commands)):
        return ()
    return tuple(dict.fromkeys(_without_harmless(command) for command in text.commands))


def _without_harmless(command: Words) -> Words:
    harmless = harmless_options(command)
    return (*command[:2], *(word for word in command[2:] if word not in harmless))


def _said(run: Run) -> str:
    """The words of a run's newest step."""
    newest = run.entries[-1] if run.entries else None
    return newest.text if isinstance(newest, ModelStep) else ""


# ---- the end of a request ----


def settle(
    transaction: Transaction,
    request: Request,
    outcome: Outcome,
    *,
    calls: Sequence[AskedCall] = (),
    by: PublicKey = NO_KEY,
    name: str = "",
    event_id: EventId | None = None,
    reason: str = "",
    remember: bool = False,
    is_for_server: bool = False,
    until: Millis = NO_END,
) -> None:
    """Record the answer to a request, or to some of its calls; without a yes these get the reason as their result."""
    calls = calls or tuple(request.left.values())
    run = transaction.state.work.runs[request.run]
    parked_for = transaction.now - run.parked_at if run.parked_at is not None else 0
    transaction.add(
        r.ApprovalAnswered,
        request=request.seq,
        run=run.id,
        calls=tuple(asked.call for asked in calls),
        outcome=outcome,
        by=by,
        name=name,
        event_id=event_id,
        reason=reason,
        remember=remember,
        is_for_server=is_for_server,
        until=until,
        warn_at=Millis(run.warn_at + parked_for),
        close_at=Millis(run.close_at + parked_for),
    )
    if outcome == "yes":
        return
    sentence = message.refusal(outcome, name=name, reason=reason, waited=transaction.now - request.at)
    for asked in calls:
        _refuse(transaction, run.id, asked, sentence)


def _refuse(transaction: Transaction, run_id: RunId, asked: AskedCall, sentence: str) -> None:
    run = transaction.state.work.runs[run_id]
    call = run.find(asked.call)
    if call is not None:
        transaction.refuse(run, call, sentence)
