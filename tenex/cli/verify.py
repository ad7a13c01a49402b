"""`tenex conversations verify` and `replay`: whether the files can be believed, and what they say of any moment.

Both read only, and work beside a running daemon.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import StoreDamaged, UsageError
from tenex.core.ids import ConversationId, Millis

from . import output
from .options import DataOption, JsonOption

if TYPE_CHECKING:
    from tenex.core.conversation import Conversation
    from tenex.core.records import Record
    from tenex.store.repository import ConversationFolder
    from tenex.store.verify import Verdict

AllIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it all.", show_default=False)
]
NewestIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it the newest.", show_default=False)
]
ToOption = Annotated[
    int | None, typer.Option("--to", metavar="SEQ", min=1, help="The record after which to stop; else the last.")
]
EachOption = Annotated[bool, typer.Option("--each", help="Tell every record on the way, one line each.")]


def verify(ctx: typer.Context, id: AllIdArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:  # noqa: A002
    """Check every line, the fold over them and conversation.json; exit code 4 where something is damaged."""
    from .conversations import _run

    verdicts: list[Verdict] = _run(ctx, data, lambda folder: _verify(folder, id))
    if as_json:
        output.result_json([_verdict(verdict) for verdict in verdicts])
    else:
        for line in _lines(verdicts):
            output.result(line)
    damaged = sum(bool(verdict.faults) for verdict in verdicts)
    if damaged:
        raise StoreDamaged(f"{damaged} of {len(verdicts)} conversations are damaged.")


async def _verify(folder: "ConversationFolder", start: str) -> "list[Verdict]":
    from tenex.store.verify import verify as judge

    from .conversations import _find
    from .progress import shown

    names = [ConversationId(await _find(folder, start))] if start else sorted(await folder.lengths())
    return [await judge(folder, name) for name in shown(names)]


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    return {
        "id": verdict.id,
        "ok": not verdict.faults,
        "records": verdict.records,
        "seq": verdict.seq,
        "faults": list(verdict.faults),
        "remarks": list(verdict.remarks),
    }


def _lines(verdicts: "list[Verdict]") -> Iterator[str]:
    for verdict in verdicts:
        for sentence in (*verdict.faults, *verdict.remarks):
            told = sentence.replace("rebuild ID", f"rebuild {verdict.id[:12]}")
            yield f"{verdict.id[:12]}  {'damaged' if verdict.faults else 'remark'}: {output.one_line(told)}"
    whole = [verdict for verdict in verdicts if not verdict.faults]
    records = sum(verdict.records for verdict in whole)
    yield f"{len(whole)} of {len(verdicts)} conversations whole, {records:,} records"


def replay(
    ctx: typer.Context,
    id: NewestIdArgument = "",  # noqa: A002
    to: ToOption = None,
    each: EachOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fold a journal offline and show where the conversation stood after a record; nothing is run."""
    from .conversations import _run

    _run(ctx, data, lambda folder: _replay(folder, id, to, each=each, as_json=as_json))


async def _replay(folder: "ConversationFolder", start: str, to: int | None, *, each: bool, as_json: bool) -> None:
    from tenex.core.conversation import Conversation
    from tenex.store.archive import plain

    from .conversations import _find

    name = ConversationId(await _find(folder, start))
    left, gone = await folder.read_left(name)
    if gone:
        output.say(f"tenex: in part only: {gone}")
    records = plain(left)
    last = records[-1].seq if records else 0
    if to is not None and to > last:
        raise UsageError(f"There is no record {to}; the journal ends with {last}.")
    state, told, at = Conversation(id=name), [], None
    for record in records:
        if to is not None and record.seq > to:
            break
        state.apply(record)
        at = record
        if each:
            told.append(_step(state, record))
    if at is None and records:
        raise UsageError(f"Of the journal in {folder.path(name)} nothing is left before record {records[0].seq}.")
    if at is None:
        raise UsageError(f"The journal in {folder.path(name)} is empty: there is nothing to replay.")
    stood = _stood(state, at, last)
    if as_json:
        output.result_json({**stood, "steps": told} if each else stood)
        return
    if told:
        head = ("seq", "time", "record", "status", "phase", "inFlight")
        output.result(output.table(head, [[str(step[column]) for column in head] for step in told]) + "\n")
    output.result("\n".join(_as_text(stood, folder.path(name))))


def _step(state: "Conversation", record: "Record") -> dict[str, Any]:
    from tenex.core.pending import pending

    return {
        "seq": record.seq,
        "time": _time(record.at),
        "record": type(record).__name__,
        "status": state.status,
        "phase": state.phase.value,
        "inFlight": len(pending(state)),
    }


def _stood(state: "Conversation", record: "Record", last: int) -> dict[str, Any]:
    """The state as values; ages are counted up to its last record, not up to now."""
    from tenex.core.pending import pending
    from tenex.operations.conversation_status import conversation_status, usage

    return {
        **conversation_status(state, state.updated_at),
        "seq": record.seq,
        "lastSeq": last,
        "record": type(record).__name__,
        "previousPhase": state.phase_from,
        "openGates": list(state.open_gates),
        "waived": sorted(state.waived),
        "participants": list(state.participants),
        "turns": state.turn_count,
        "changedFiles": sorted(state.touched),
        "usage": usage(state),
        "pending": [" ".join(str(part) for part in key if part != "") for key in pending(state)],
    }


def _as_text(stood: dict[str, Any], path: Path) -> Iterator[str]:
    yield output.one_line(stood["title"])
    yield str(path)
    yield f"after record {stood['seq']} of {stood['lastSeq']}, {stood['record']}, at {stood['updatedAt']}:"
    turns = f"{stood['turns']} {'turn' if stood['turns'] == 1 else 'turns'}"
    yield f"  {stood['status']} in {stood['phase']}, cycle {stood['cycle']}, {turns} so far"
    if workflow := stood.get("workflow"):
        speaks = f"{workflow['speaker']} is to speak" if "speaker" in workflow else f"ended, {workflow['closeReason']}"
        yield f"  workflow {workflow['name']}: {speaks}"
    turn = stood.get("turn")
    if turn:
        yield f"  open: {turn['id']} in {turn['phase']}"
    for run in stood.get("runs", ()):
        called = f", called by {run['calledBy']}" if "calledBy" in run else ""
        yield f"    {run['agent']}: {run['state']}, {run['steps']} steps{called}"
    if mission := stood.get("mission"):
        steps = f", {', '.join(mission['steps'])} under way" if mission["steps"] else ""
        yield f"  mission {mission['workflow']}: {mission['state']} at {mission['node']}{steps}"
    if "router" in stood:
        yield f"  the orchestrator is asked, attempt {stood['router']['attempt']}: {stood['router']['state']}"
    for name, label in (("openGates", "gates open"), ("waived", "waived"), ("participants", "participants")):
        if stood[name]:
            yield f"  {label}: {', '.join(stood[name])}"
    if stood["changedFiles"]:
        yield f"  changed: {output.one_line(', '.join(stood['changedFiles']))}"
    usage = stood["usage"]
    cost = "" if usage["costUsd"] is None else f", ${usage['costUsd']:.4f}"
    yield f"  {usage['calls']} model calls, {usage['inputTokens']:,} tokens in, {usage['outputTokens']:,} out{cost}"
    if stood["undelivered"]:
        yield f"  {stood['undelivered']} deliveries owed to relays"
    yield f"  in flight: {'; '.join(stood['pending']) or 'nothing'}"


def _time(at: Millis) -> str:
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(at)
