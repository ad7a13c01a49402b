"""All readers of a conversation show the same facts: one table over the recorded histories."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tenex.cli import verify as replaying
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.inbox.commands import status as chat_status
from tenex.core.projection import STUCK
from tenex.core.records import Record
from tenex.core.transaction import Transaction
from tenex.operations.conversation_status import status_with_usage
from tenex.operations.listing import row_json
from tenex.store.archive import plain
from tenex.store.index_row import summarise
from tenex.store.journal_reader import JOURNAL, VIEW
from tenex.store.view_json import render
from tenex.workflows.missions.state import mission_of
from tests.fakes.scenario import policy
from tests.histories.record import ROOT, whole
from tests.kits.commands import Tenex
from tests.telemetry.kit import gauges

HISTORIES: Final = sorted(path.parent for path in ROOT.glob(f"*/{JOURNAL}"))
each = pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
LINE: Final = re.compile(r"(.+?): (at work|waits for|held|limited|its model)")
"""Of an agent in `/status`."""

Shown = Mapping[str, Any]
Fact = Callable[[Shown], Any]


# ---- the readers -----------------------------------------------------------------------------------------------------


def in_chat(conversation: Conversation) -> Shown:
    """What `/status` says about agents and tokens; of a mission it says only where that is."""
    text = chat_status(Transaction(conversation, policy(), conversation.identity.updated_at))
    lines = [match for line in text.splitlines() if (match := LINE.match(line))]
    return {
        "agents": [match[1] for match in lines],
        "asks": any("waits for your" in match.string for match in lines),
        "tokens": int(text.rpartition("Used so far: ")[2].split()[0].replace(",", "")),
    }


def in_metrics(conversation: Conversation) -> Shown:
    actor = SimpleNamespace(conversation=conversation, is_suspended=False, waiting=0)
    samples = [sample for family in gauges(actors=[actor]).collect() for sample in family.samples]
    values = {sample.name: sample.value for sample in samples}
    counted = [s.labels["state"] for s in samples if s.name == "tenex_conversations" and s.value]
    return {"states": counted, "undelivered": values["tenex_undelivered"], "runs": values["tenex_runs"]}


def shown(conversation: Conversation, record: Record, last: int) -> dict[str, Shown]:
    """What each reader shows after a record; the names are those of the columns below."""
    everywhere = {
        "view": json.loads(render(conversation)),
        "list": row_json(summarise(conversation, 0)),
        "status": status_with_usage(conversation, conversation.identity.updated_at),
        "replay": replaying._state(conversation, record, last),
        "chat": in_chat(conversation),
        "metrics": in_metrics(conversation),
    }
    return {reader: json.loads(json.dumps(what)) for reader, what in everywhere.items()}


# ---- the facts -------------------------------------------------------------------------------------------------------


def key(*names: str) -> Fact:
    """A value in nested objects; None where one is missing."""

    def of(what: Shown) -> Any:
        value: Any = what
        for name in names:
            value = (value or {}).get(name)
        return value

    return of


def slugs(name: str) -> Fact:
    return lambda what: [run["agent"] for run in what.get(name, ())]


def whole_seconds(name: str) -> Fact:
    return lambda what: re.sub(r"\.\d+Z", "Z", what[name])


def place_of_row(row: Shown) -> str:
    return f"@{row['with']}" if "with" in row else str(row["phase"])


def speaker_of_view(view: Shown) -> Any:
    session = view.get("workflow") or {}
    return None if session.get("closeReason") else session.get("next")


def waived_of_view(view: Shown) -> list[str]:
    return sorted({phase for waiver in view["waivers"] for phase in waiver["phases"]})


def listed_status(status: Shown) -> str:
    """What a list shows: that a model or a limit holds the conversation comes before its status."""
    return str(status["kind"] if status["kind"] in STUCK else status["status"])


def state_of_metric(status: Shown) -> list[str]:
    return [status["kind"] if status["kind"] in ("active", "parked", "held", "limited") else "waiting"]


FACTS: Final[Mapping[str, Mapping[str, Fact]]] = {
    "id": {"view": key("id"), "list": key("id"), "status": key("id"), "replay": key("id")},
    "title": {"view": key("title"), "list": key("title")},
    "status": {"view": key("status"), "status": key("status"), "replay": key("status")},
    "listed": {"list": key("status"), "status": listed_status},
    "awaited": {"view": key("waitingFor"), "status": key("waitingFor"), "replay": key("waitingFor")},
    "condition": {"status": state_of_metric, "metrics": key("states")},
    "phase": {"view": key("phase"), "status": key("phase"), "replay": key("phase")},
    "place": {"list": place_of_row, "status": key("place"), "replay": key("place")},
    "cycle": {"view": key("cycle"), "list": key("cycle"), "status": key("cycle"), "replay": key("cycle")},
    "created": {"view": key("createdAt"), "list": key("created")},
    "updated": {
        "view": whole_seconds("updatedAt"),
        "list": whole_seconds("updated"),
        "status": key("updatedAt"),
        "replay": key("updatedAt"),
    },
    "seq": {"view": key("seq"), "replay": key("seq")},
    "imported": {"view": key("imported"), "list": key("imported"), "status": key("imported")},
    "turn": {"view": key("openTurn", "turnId"), "status": key("turn", "id"), "replay": key("turn", "id")},
    "agents": {"view": slugs("running"), "status": slugs("runs"), "replay": slugs("runs")},
    "names of agents": {"view": lambda view: [run["name"] for run in view["running"]], "chat": key("agents")},
    "number of agents": {"view": lambda view: len(view["running"]), "metrics": key("runs")},
    "who asks": {
        "view": lambda view: [run["agent"] for run in view["running"] if run["parked"]],
        "status": lambda status: [run["agent"] for run in status.get("runs", ()) if run["state"] == "parked"],
    },
    "a person is asked": {"view": lambda view: any(run["parked"] for run in view["running"]), "chat": key("asks")},
    "open gates": {"view": key("openGates"), "replay": key("openGates")},
    "waived": {"view": waived_of_view, "replay": key("waived")},
    "participants": {"view": key("participants"), "replay": key("participants")},
    "changed files": {"view": key("metadata", "changedFiles"), "replay": key("changedFiles")},
    "speaker": {"view": speaker_of_view, "status": key("workflow", "speaker")},
    "node": {"view": key("mission", "node"), "status": key("mission", "node"), "replay": key("mission", "node")},
    "undelivered": {"view": key("undelivered"), "status": key("undelivered"), "metrics": key("undelivered")},
    "usage": {"view": key("usage"), "status": key("usage"), "replay": key("usage")},
    "tokens": {
        "view": lambda view: view["usage"]["inputTokens"] + view["usage"]["outputTokens"],
        "chat": key("tokens"),
    },
}
"""Each fact with how to read it from what each reader shows."""


@each
def test_all_readers_show_the_same_after_every_record(history: Path) -> None:
    name, records = whole(history)
    conversation = new_conversation(name)
    for record in plain(records):
        conversation.apply(record)
        everywhere = shown(conversation, record, records[-1].seq)
        for fact, readers in FACTS.items():
            if fact == "names of agents" and mission_of(conversation) is not None:
                continue
            values = {reader: read(everywhere[reader]) for reader, read in readers.items()}
            assert len({json.dumps(value) for value in values.values()}) == 1, f"{fact} at {record.seq}: {values}"


@each
def test_the_commands_show_what_the_view_does(history: Path, data: Path, tenex: Tenex) -> None:
    """`list`, `status`, `show`, `replay` and `stats` of a folder, beside its `conversation.json`."""
    name, _ = whole(history)
    shutil.copytree(history, data / "conversations" / name)
    view = json.loads((history / VIEW).read_text("utf-8"))
    (row,) = json.loads(tenex("conversations list --json").out)
    replayed = json.loads(tenex("conversations replay --json").out)
    for other in (row, replayed, json.loads(tenex("conversations show --json").out)):
        for fact in ("id", "status", "cycle", "title"):
            assert other[fact] == view[fact]
    report = json.loads(tenex("status --json", code=1).out)["conversations"]
    assert sum(report["counts"].values()) == 1
    for other in (*report["open"], *report["waiting"]):
        assert (other["status"], other["updatedAt"][:19]) == (view["status"], view["updatedAt"][:19])
    position = f"{view['status']} {'with' if 'with' in row else 'in'} {row.get('with') or row['phase']}, cycle "
    assert position in tenex("conversations show").out.splitlines()[-1]
    assert position in tenex("conversations replay").out
    sums = json.loads(tenex("conversations stats --json").out)["total"]
    assert {field: sums["usage"][field] for field in view["usage"]} == view["usage"]
    assert sums["workingMs"] == view["workingMs"]
    for phase, metrics in view["phaseMetrics"].items():
        for fact in ("visits", "durationMs", "workingMs"):
            assert sums["phases"][phase][fact] == metrics[fact], (phase, fact)
