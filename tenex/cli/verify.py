"""`tenex conversations verify` and `replay`: check the files, and show the state after any record.

Both only read, and work with and without a running daemon.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tenex.core.conversation import Conversation, new_conversation
from tenex.core.errors import StoreDamaged, StoreOtherVersion, UsageError
from tenex.core.ids import ConversationId
from tenex.core.pending import pending
from tenex.core.projection import glance_of, partner, phase_of, project
from tenex.core.records import ConversationImported, Record
from tenex.core.text.amounts import count
from tenex.operations.conversation_status import conversation_status
from tenex.store.archive import plain
from tenex.store.conversations import Conversations
from tenex.store.verify import VerifyResult
from tenex.store.verify import verify as check
from tenex.store.view_json import usage_json

from .shared import output
from .shared.lookup import AllIdArgument, NewestIdArgument, find, read_records
from .shared.options import Globals
from .shared.times import local_time

ToOption = Annotated[
    int | None, typer.Option("--to", metavar="SEQ", min=1, help="Stop after this record; default: the last.")
]
EachOption = Annotated[bool, typer.Option("--each", help="List every record on the way, one line each.")]


async def verify(given: Globals, folder: Conversations, id: AllIdArgument = "") -> None:  # noqa: A002
    """Check every line, the state computed from them and conversation.json; exit code 4 where something is damaged."""
    names = [await find(folder, id)] if id else sorted(map(ConversationId, await folder.lengths()))
    verdicts = [await check(folder, name) for name in output.progress(names)]
    given.show(
        [{**asdict(verdict), "ok": not verdict.faults} for verdict in verdicts], output.sentences(_lines(verdicts))
    )
    foreign = sum(verdict.is_foreign for verdict in verdicts)
    if damaged := sum(bool(verdict.faults) for verdict in verdicts) - foreign:
        raise StoreDamaged(f"{damaged} of {len(verdicts)} conversations are damaged.")
    if foreign:
        raise StoreOtherVersion(f"{foreign} of {len(verdicts)} conversations were written by another version of tenex.")


def _lines(verdicts: list[VerifyResult]) -> Iterator[str]:
    for verdict in verdicts:
        for sentence in (*verdict.faults, *verdict.remarks):
            advice = output.with_options(sentence.replace("rebuild ID", f"rebuild {verdict.id[:12]}"))
            kind = "other version" if verdict.is_foreign else "damaged" if verdict.faults else "remark"
            yield f"{verdict.id[:12]}  {kind}: {output.one_line(advice)}"
    whole = [verdict for verdict in verdicts if not verdict.faults]
    records = sum(verdict.records for verdict in whole)
    yield f"{len(whole)} of {len(verdicts)} conversations intact, {records:,} records"


async def replay(
    given: Globals,
    folder: Conversations,
    id: NewestIdArgument = "",  # noqa: A002
    to: ToOption = None,
    each: EachOption = False,
) -> None:
    """Show the state of a conversation after a record, computed from its journal; nothing is run."""
    name = await find(folder, id)
    records = plain(await read_records(folder, name))
    last = records[-1].seq if records else 0
    if to is not None and to > last:
        raise UsageError(f"There is no record {to}; the journal ends with {last}.")
    state = new_conversation(name)
    steps = []
    at = None
    for record in records:
        if to is not None and record.seq > to:
            break
        state.apply(record)
        at = record
        if each:
            steps.append(
                {
                    "seq": record.seq,
                    "time": local_time(record.at, seconds=True),
                    "record": type(record).__name__,
                    "status": glance_of(state).status,
                    "phase": phase_of(state),
                    "inFlight": len(pending(state)),
                }
            )
    if at is None:
        fault = f"begins with record {records[0].seq}; choose a later one" if records else "is empty"
        raise UsageError(f"The journal in {folder.path(name)} {fault}.")
    result = _state(state, at, last)
    if any(isinstance(record, ConversationImported) for record in records):
        result["imported"] = True
    head = ("seq", "time", "record", "status", "phase", "inFlight")
    cells = [["-" if step[name] is None else str(step[name]) for name in head] for step in steps]
    table = f"{output.table(head, cells)}\n\n" if steps else ""
    text = table + "\n".join(_as_text(result, folder.path(name)))
    given.show({**result, "steps": steps} if each else result, text)


def _state(state: Conversation, record: Record, last: int) -> dict[str, Any]:
    """The state as JSON; durations end at its last record, not now."""
    projection = project(state)
    phases = projection.phases
    return {
        **conversation_status(state, state.identity.updated_at),
        "seq": record.seq,
        "lastSeq": last,
        "record": type(record).__name__,
        "previousPhase": phases.previous,
        "openGates": list(phases.open_gates),
        "waived": sorted(phases.waived),
        "participants": list(projection.participants),
        "turns": projection.turn_count,
        "changedFiles": list(projection.changed_files),
        "usage": usage_json(projection.usage),
        "pending": [" ".join(str(part) for part in key if part != "") for key in pending(state)],
    }


def _as_text(state: dict[str, Any], path: Path) -> Iterator[str]:
    yield output.one_line(state["title"]) + (" (imported)" if state.get("imported") else "")
    yield str(path)
    yield f"after record {state['seq']} of {state['lastSeq']}, {state['record']}, at {state['updatedAt']}:"
    turns = count(state["turns"], "turn")
    name = partner(state["place"])
    place = f"with {name}" if name else f"in {state['phase']}"
    yield f"  {state['status']} {place}, cycle {state['cycle']}, {turns} so far"
    if where := state.get("where"):
        does = f"; {state['does']}" if "does" in state else ""
        yield f"  {where}{does}"
    turn = state.get("turn")
    if turn:
        yield f"  open: {turn['id']}" + (f" in {turn['phase']}" if state["phase"] else "")
    for run in state.get("runs", ()):
        called = f", called by {run['calledBy']}" if "calledBy" in run else ""
        yield f"    {run['agent']}: {run['state']}, {run['steps']} steps{called}"
    if "router" in state:
        yield f"  the orchestrator is asked, attempt {state['router']['attempt']}: {state['router']['state']}"
    for name, label in (("openGates", "gates open"), ("waived", "waived"), ("participants", "participants")):
        if state[name]:
            yield f"  {label}: {', '.join(state[name])}"
    if state["changedFiles"]:
        yield f"  changed: {output.one_line(', '.join(state['changedFiles']))}"
    usage = state["usage"]
    cost = "" if usage["costUsd"] is None else f", ${usage['costUsd']:.4f}"
    yield f"  {usage['calls']} model calls, {usage['inputTokens']:,} tokens in, {usage['outputTokens']:,} out{cost}"
    if state["undelivered"]:
        yield f"  {state['undelivered']} undelivered to relays"
    yield f"  in flight: {'; '.join(state['pending']) or 'nothing'}"
