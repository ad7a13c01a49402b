"""Every graph of AG2's page on workflows, over a relay: begun by a mention, spoken in order, ended for its reason."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenex.app import open_application
from tenex.core.ids import CallId, PublicKey
from tenex.core.messages import CallRequest, ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.settings import load
from tenex.workflows.speakers import AgentTarget, Always, TerminateTarget, Transition, TransitionGraph
from tenex.workflows.speakers.registry import TransitionRegistry
from tenex.workflows.speakers.workflow import Workflow
from tests.workflows import test_ag2_examples as page

from . import person
from .kit import Folder

AGENTS = ("alice", "bob", "carol", "generic", "legal", "billing", "triage", "security", "reviewer", "intake", "oncall")
CALLS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("custom", "triage"): ("escalate_to_security", {}),
    ("flag-fixed", "triage"): ("set_context", {"key": "urgent", "value": True}),
    ("flag", "triage"): ("set_context", {"key": "urgent", "value": True}),
    ("branches", "triage"): ("set_context", {"key": "domain", "value": "legal"}),
    ("branches", "legal"): ("delete_context", {"key": "domain"}),
    ("combined", "alice"): ("set_context", {"key": "escalate", "value": True}),
    ("not-stuck", "triage"): ("set_context", {"key": "route", "value": "security"}),
    ("handed-over", "triage"): ("handoff", {"target": "bob", "reason": "knows it"}),
    ("threshold", "alice"): ("set_context", {"key": "tries", "value": 3}),
}
"""What a speaker calls in its first round of a workflow."""


def examples() -> Iterator[tuple[str, TransitionGraph, list[str], str]]:
    """Each graph by name, who speaks in it, and why it ends."""
    yield "round-robin", page.round_robin(), ["alice", "bob", "carol"] * 2, "max_turns"
    yield "sequence", page.sequence(), ["alice", "bob", "carol"], "sequence_complete"
    yield "custom", page.custom(), ["triage", "security", "triage"], "triage_complete"
    yield "flag", page.flag(), ["intake", "triage", *["oncall"] * 8], "max_turns"
    rules = page.flag().transitions
    fixed = TransitionGraph("intake", [rules[3], *rules[:3], rules[4]], TerminateTarget("fall_through"), 10)
    yield "flag-fixed", fixed, ["intake", "triage", "oncall"], "paged"
    yield "branches", page.branches(), ["triage", "legal"], "done"
    yield (
        "combined",
        TransitionGraph("alice", page.combined(), TerminateTarget("done"), 2),
        ["alice", "security"],
        ("max_turns"),
    )
    stuck = TransitionGraph("triage", page.not_stuck(), TerminateTarget("done"))
    yield "not-stuck", stuck, ["triage", "security"], "security_done"
    handed = TransitionGraph("triage", page.custom().transitions, TerminateTarget("over"), 20)
    yield "handed-over", handed, ["triage", "bob"], "over"
    threshold = page.own_condition()
    tired = [Transition(threshold("tries", 3), TerminateTarget("tired"))]
    yield "threshold", TransitionGraph("alice", tired, AgentTarget("bob"), 9), ["alice"], "tired"
    ranked = page.own_target()
    by_rank = [Transition(Always(), ranked(role_priority=["security", "bob"]))]
    yield "ranked", TransitionGraph("alice", by_rank, max_turns=2), ["alice", "bob"], "max_turns"


class Players:
    """A model that makes the calls of the table, each in its agent's first round, and names itself."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """The workflow each conversation is of."""
        self.called: set[tuple[str, str]] = set()

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        wanted = CALLS.get((self.names[request.conversation], request.agent))
        if wanted is not None and (request.conversation, request.agent) not in self.called:
            self.called.add((request.conversation, request.agent))
            return ModelStep(calls=(CallRequest(id=CallId("one"), tool=wanted[0], arguments=wanted[1]),))
        return ModelStep(text=f"{request.agent} speaks")


def write(folder: Folder, made: Iterable[tuple[str, TransitionGraph, list[str], str]]) -> None:
    """Write the agents and the workflows into the folder."""
    agents, workflows = folder.data / "agents", folder.data / "config" / "workflows"
    for place in (agents, workflows):
        place.mkdir(parents=True, exist_ok=True)
    for name in AGENTS:
        text = f"---\nname: {name.title()}\nrole: speaks\nkind: worker\nuse_when: the rules choose it\n---\nSpeak.\n"
        (agents / f"{name}.md").write_text(text)
    for name, graph, speakers, _ in made:
        participants = list(dict.fromkeys([*speakers, *Workflow(graph=graph).everybody]))
        table = {"workflow": {"participants": participants}}
        (workflows / f"{name}.json").write_text(json.dumps(graph.to_dict() | table))


async def begin(folder: Folder, name: str, model: Players, text: str = "") -> str:
    """Mention a workflow in a new note; returns the conversation."""
    text = text or f"Please begin {name}, number {len(model.names)}."
    note = person.note(folder.owner, text, ["p", KeyRing(folder.data / "keys").get(name).public])
    model.names[str(note["id"])] = name
    await person.publish(folder.url, note)
    return str(note["id"])


def delivered(folder: Folder, conversation: str) -> bool:
    return not folder.state(conversation).outbox


@asynccontextmanager
async def serving(folder: Folder, model: Players) -> AsyncIterator[None]:
    """The daemon in this process, with that model."""
    async with open_application(load(None, folder.data, env={}, parse_key=parse_public_key), model=model) as app:
        task = asyncio.create_task(app.serve())
        yield
        app.runtime.stop()
        assert await asyncio.wait_for(task, 30)


async def test_every_example_speaks_in_order_and_ends_for_its_reason(
    tmp_path: Path, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransitionRegistry, "_default", TransitionRegistry())
    folder = Folder(tmp_path / "data", relay)
    model = Players()
    made = list(examples())
    wanted = {name: (speakers, reason) for name, _, speakers, reason in made}
    write(folder, made)
    async with serving(folder, model):
        ring = KeyRing(folder.data / "keys")
        agents = {ring.get(name).public: name for name in AGENTS}
        for name in wanted:
            await begin(folder, name, model)
        for conversation, name in model.names.items():
            await folder.until(conversation, "ended")
            await person.until(partial(delivered, folder, conversation))
            events = await person.stored(folder.url, _e=[conversation], kinds=[1])
            sent = [event for event in events if event["pubkey"] != folder.owner.public]
            spoken = [agents[PublicKey(e["pubkey"])] for e in sent if str(e["content"]).endswith(" speaks")]
            reasons = [tag[1] for event in sent for tag in event["tags"] if tag[0] == "close-reason"]
            assert (spoken, reasons) == (wanted[name][0], [wanted[name][1]]), name


async def test_1_3_a_a_torn_line_and_a_torn_view_stop_no_workflow_not_even_their_own(
    tmp_path: Path, relay: str
) -> None:
    folder, model = Folder(tmp_path / "data", relay), Players()
    write(folder, [one for one in examples() if one[0] == "sequence"])
    async with serving(folder, model):
        torn, broken = await begin(folder, "sequence", model), await begin(folder, "sequence", model)
        for name in (torn, broken):
            await folder.until(name, "ended")
    journal = folder.conversation(torn) / "journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data[: data.rindex(b"RoundClosed") + 4])
    (folder.conversation(torn) / "conversation.json").write_bytes(b'{"id": ')
    journal = folder.conversation(broken) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"RoundClosed", b"RoundClose", 1))
    async with serving(folder, model):
        healthy = await begin(folder, "sequence", model)
        for name in (healthy, torn):
            state = await folder.until(name, "ended")
            assert state.workflow is not None
            assert (state.workflow.speakers.turn_count, state.workflow.close_reason) == (3, "sequence_complete")
    assert json.loads((folder.conversation(torn) / "conversation.json").read_text())["status"] == "ended"
