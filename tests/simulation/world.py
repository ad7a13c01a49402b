"""A world whose disk, models, tools, relays and clock fail as the dice state."""

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tenex.core import records as r
from tenex.core.config import GateRules, PeerGroup, Replay
from tenex.core.conversation import Conversation, Run, fold
from tenex.core.errors import AppendFailed, ModelRefused, ModelUnavailable
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.messages import ModelRequest, ModelStep, Note, ToolSpec, Usage
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import (
    ExecutionContext,
    Notice,
    OnText,
    OutgoingMessage,
    Prompt,
    PublishOutcome,
    ToolResult,
    UnsignedEvent,
    ignore_text,
)
from tenex.core.signals import InboundMessage
from tenex.store.format import CONVERSATION
from tenex.store.journal import StoredJournal
from tenex.store.journal_reader import JOURNAL, VIEW, peek
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tenex.workflows.missions.config import with_missions
from tests.fakes.routing import read_question
from tests.fakes.runtime import MemoryNotices, World
from tests.fakes.scenario import ALICE, RELAY, reply, routed_by_rule

from . import agency, missions
from .disk import VirtualDisk
from .models import garbage, route, work
from .workspace import FILE, Workspace

BOB = PublicKey("b" * 64)
OTHER_RELAY = "ws://other"
HANG = 10.0**7
"""Seconds: longer than any deadline and any simulation."""


class FaultyWorld(World):
    """`World` with the real store, and faults at every port."""

    def __init__(self, seed: int, root: Path) -> None:
        super().__init__(lambda _question: None, lambda _request: None)
        self.seed = seed
        self.dice = Random(seed)
        self.root = root
        self.peers = PeerGroup(owners=frozenset({ALICE}), members=frozenset({BOB}))
        self.errands = missions.Errands(self) if seed % 4 == 2 else None
        """A mission, in some worlds; the others stay as they always were."""
        if self.errands is not None:
            self.policy = with_missions(self.policy, {missions.NAME: missions.RULE})
            self.missions = self.errands
        self.talks = Random(f"talks {seed}") if seed % 5 == 3 else None
        """Draws what agents of a talk hand over, in worlds where rules take the steps that leave one choice."""
        if self.talks is not None:
            self.policy = routed_by_rule(self.policy)
        if seed % 7 == 5:
            self.policy = replace(self.policy, gates=GateRules(), has_lessons=lambda: True)
        self.workspace = Workspace(self) if seed % 3 == 0 else None
        """Has checks, in some worlds; in the others nobody looks at what differs."""
        if self.workspace is not None:
            self.checks = self.workspace
            self.policy = routed_by_rule(self.policy) if seed % 2 else self.policy
        self.plain = self.policy
        self.cast = Random(f"agents {seed}") if seed % 2 else None
        """Draws what programs agents have; half the worlds have none, and stay as they always were."""
        self.edges: set[tuple[str, str, str]] = set()
        """(agent, source, target) of every program there was."""
        self.runs: dict[str, str] = {}
        """The run of each call, by its key, once it is durable that it may start."""
        self.keys: dict[tuple[str, str, str], str] = {}
        """The key of each call, by (conversation, run, call)."""
        self.odds = {name: self.dice.choice([0.0, 0.0, 0.03, 0.15]) for name in FAULTS}
        self.bugs = Random(f"bugs {seed}") if seed % 3 == 1 else None
        """Draws faults of our own in what an actor calls itself; the other worlds stay as they always were."""
        if self.bugs is not None:
            self.odds |= {name: self.bugs.choice([0.0, 0.03, 0.2]) for name in BUGS}
        if self.workspace is not None:
            self.odds |= self.workspace.odds()
        self.dates = Random(f"dates {seed}") if seed % 4 == 3 else None
        """Draws which events relays refuse for their date; in the other worlds they refuse none.

        A relay that never answers, or refuses for another cause, is not among them: it may have the event, so that no
        other gets it with a new date.
        """
        if self.dates is not None:
            self.odds |= {"relay away": 0.0, "relay refuses": 0.0}
        self.notices = FaultyNotices(self)
        self.is_healed = False
        self.lives = 0
        self.live()
        self.events: dict[str, InboundMessage] = {}
        """Everything users wrote, as relays keep it."""
        self.edits: dict[str, InboundMessage] = {}
        """What they put in its place; of these some change nothing, and are in no journal."""
        self.hung: set[str] = set()
        """The keys of the calls that never return."""
        self.returned: set[str] = set()
        """The keys of the calls whose result is durable."""
        self.tokens = itertools.count(1)
        self.paid: dict[int, tuple[str, int]] = {}
        """The conversation and the life of each answer that cost something, by its tokens, which no other has."""
        self.taken: set[tuple[str, str]] = set()
        """(event, relay): what a relay took, and below what it refused."""
        self.refused: set[tuple[str, str]] = set()
        self.steps: list[int] = []
        """ms by which the clock was set."""
        self.places: dict[str, ConversationId] = {}
        self.journaled: set[str] = set()
        self._states: dict[str, tuple[tuple[int, ...], Conversation]] = {}
        self.moments: dict[tuple[str, int], float] = {}
        """Seconds of the loop at which a record of a conversation was received."""

    def live(self) -> None:
        """Begin a process: nothing is known of the disk but what it holds."""
        self.lives += 1
        if self.cast is not None and (self.lives == 1 or self.cast.random() < 0.5):
            self.policy = agency.with_agency(self.cast, self.plain)
            self.edges |= {
                (slug, str(edge.source), str(edge.target))
                for slug, known in self.policy.roster.items()
                if known.program and known.program.graph
                for edge in known.program.graph.edges
            }
        self.disk = VirtualDisk(self.dice)
        self.disk.trouble, self.disk.slow = self.odd("disk"), self.odd("slow disk") / 3
        self.folder = ConversationFolder(self.root, self.disk, self.clock)
        self.views = Views(self.folder, self.disk)

    def odd(self, name: str) -> float:
        """How often a kind of fault happens now."""
        return 0.0 if self.is_healed else self.odds.get(name, 0.0)

    def meets(self, name: str) -> bool:
        """Whether that fault happens this time."""
        return self.dice.random() < self.odd(name)

    def breaks(self, name: str, about: str = "") -> bool:
        """Whether one of ours fails this time; a fault `about` something is there whenever that comes again."""
        if self.bugs is None:
            return False
        dice = Random(f"{self.seed} {name} {about}") if about else self.bugs
        return dice.random() < self.odd(name)

    def heal(self) -> None:
        self.is_healed = True
        self.disk.trouble = self.disk.slow = 0.0

    def set_clock(self, by: int) -> None:
        self.clock.epoch += by
        self.steps.append(by)

    # ---- the disk ----

    def on_disk(self, conversation: str) -> list[r.Record]:
        path = self.root / conversation / JOURNAL
        return list(peek(path, CONVERSATION)) if path.exists() else []

    def state(self, conversation: str) -> Conversation:
        """Where a conversation is on disk; read again whenever a file of it has another length. Only to be read."""
        sizes = tuple(path.stat().st_size for path in sorted((self.root / conversation).glob("journal*.jsonl")))
        known = self._states.get(conversation)
        if known is None or known[0] != sizes:
            known = self._states[conversation] = sizes, fold(ConversationId(conversation), self.on_disk(conversation))
        return known[1]

    def conversations(self) -> list[str]:
        return sorted(path.parent.name for path in self.root.glob(f"*/{JOURNAL}"))

    async def open(self, conversation: ConversationId) -> tuple[StoredJournal, list[r.Record]]:  # type: ignore[override]
        if self.breaks("open"):
            raise AppendFailed("no descriptor is free")
        return await self.folder.open(conversation)

    async def show(self, conversation: Conversation) -> None:
        """Write the view, and go on in another file where this one is long."""
        page = self.views.page(conversation)
        await self.folder.rotate(conversation)
        await self.views.write(page)

    def unfinished(self) -> list[ConversationId]:
        """Read everything, as a start without an index does; a view that is behind is wanted too."""
        found: list[ConversationId] = []
        self.places.clear()
        for name in self.conversations():
            records = self.on_disk(name)
            self.note(name, records)
            if pending(fold(ConversationId(name), records)) or (records and self._shown(name) < records[-1].seq):
                found.append(ConversationId(name))
        return found

    def _shown(self, conversation: str) -> int:
        """How far the view goes. By its own word: virtual lives are so short that two files may have one mtime."""
        path = self.root / conversation / VIEW
        return int(json.loads(path.read_bytes())["seq"]) if path.exists() else 0

    def note(self, conversation: str, records: Sequence[r.Record]) -> None:
        for record in records:
            again = record.again if isinstance(record, r.Delivered) else None
            for event in (*getattr(record, "events", ()), *((again,) if again is not None else ())):
                self.places[event.id] = ConversationId(conversation)
                self.journaled.add(event.id)
            if isinstance(record, r.MessageRecorded | r.CommandGiven):
                self.places[record.event_id] = ConversationId(conversation)
            if isinstance(record, r.ToolCallStarted):
                key = self.keys[conversation, record.run, record.call] = f"{conversation}:{record.seq}"
                self.runs[key] = record.run
            if isinstance(record, r.ToolCallCompleted) and (conversation, record.run, record.call) in self.keys:
                self.returned.add(self.keys[conversation, record.run, record.call])
            if self.errands is not None:
                self.errands.note(conversation, record)
            if self.workspace is not None:
                self.workspace.note(conversation, record)

    def observed_records(self, conversation: ConversationId, records: Sequence[r.Record]) -> None:
        """Know what became durable, and when by a clock nobody sets."""
        self.note(conversation, records)
        for record in records:
            self.moments[conversation, record.seq] = asyncio.get_running_loop().time()

    def conversation_of(self, event_id: str) -> ConversationId | None:
        """What the index states, which may have lost it."""
        return None if self.meets("index") else self.places.get(event_id)

    def imported(self, id_: str) -> ConversationId | None:
        return None

    def room_of(self, conversation: ConversationId) -> str:
        return ""

    def chat_of(self, conversation: ConversationId) -> str:
        return ""

    def newest_in(self, room: str) -> tuple[ConversationId, str] | None:
        return None

    def exists(self, conversation: ConversationId) -> bool:
        return (self.root / conversation / JOURNAL).exists()

    # ---- models and tools ----

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 0.2, 3.0]) * self.dice.random())
        usage = Usage(input_tokens=next(self.tokens), output_tokens=1, cost_usd=0.001)
        if self.meets("unavailable"):
            raise ModelUnavailable("connection refused", self.dice.choice([None, None, 3.0, 90.0]))
        if self.meets("timeout"):
            await asyncio.sleep(20.0)
            self._pays(request, usage)
            raise ModelUnavailable("no answer in time", usage=usage, model="script")
        if self.meets("refused"):
            self._pays(request, usage)
            raise ModelRefused("filtered", usage, model="script")
        if self.meets("model bug"):
            raise RuntimeError("a fault of ours")
        self._pays(request, usage)
        return replace(self._answer(request), usage=usage)

    def _pays(self, request: ModelRequest, usage: Usage) -> None:
        self.paid[usage.input_tokens] = request.conversation, self.lives

    def _answer(self, request: ModelRequest) -> ModelStep:
        if self.meets("garbage"):
            return garbage(self.dice, request.purpose)
        if request.purpose == "route":
            question = read_question(next(e.text for e in request.entries if isinstance(e, Note)))
            return reply(json.dumps(route(self.dice, question)))
        if self.talks is not None and request.phase in ("chat", "brainstorm") and self.talks.random() < 0.5:
            given = {"phase": self.talks.choice(["execute", "plan", "brainstorm", "chat"]), "reason": "on"}
            return reply("", ("hand_over", given))
        return work(self.dice, request, agency.tries(self.dice, request))

    def route(self, conversation: Conversation) -> ModelRequest:
        """The router's question, which states whose it is."""
        if self.breaks("prompter"):
            raise RuntimeError("a fault of ours")
        return replace(super().route(conversation), conversation=conversation.id)

    def prompt(self, conversation: Conversation, run: Run) -> Prompt:
        if self.breaks("prompter", run.id):
            raise RuntimeError("a fault of ours")
        return super().prompt(conversation, run)

    def specs(self, phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        if self.breaks("specs"):
            raise RuntimeError("a fault of ours")
        return super().specs(phase, agent)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Work for a while; the effect is counted before the result is known."""
        key = context.idempotency_key
        self.must(key not in self.returned, f"{name} ran again after its result was durable: {key}")
        if self.policy.tools[name].replay is not Replay.READ and key not in self.runs:
            self.note(context.conversation_id, self.on_disk(context.conversation_id))
            self.must(key in self.runs, f"{name} ran before it was durable that it may: {key}")
        self.calls[f"{name} {key}"] += 1
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 1.0]) * self.dice.random())
        if self.meets("hang"):
            self.hung.add(key)
            await asyncio.sleep(HANG)
        if self.meets("tool bug"):
            raise RuntimeError("a fault of ours")
        if self.meets("tool error"):
            return ToolResult(ok=False, content="it does not work")
        own = agency.changed(self.dice, context.agent_state)
        touched = (FILE,) if name in ("write_file", "send") else ()
        if touched and self.workspace is not None:
            self.workspace.tool_changes(context.conversation_id, context.cycle)
        status = 0 if name == "check" else None
        return ToolResult(ok=True, content=f"{name} done", touched=touched, exit_status=status, **own)

    # ---- relays ----

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Take an event, once with one content; or refuse it for good, or be away, or lose the OK."""
        await asyncio.sleep(self.dice.choice([0.001, 0.001, 0.5]))
        is_notice = ("error", "storage") in event.tags or ("error", "internal") in event.tags
        if not is_notice and event.id not in self.journaled:
            for name in self.conversations():  # a process may die between the flush and our receiving of it
                self.note(name, self.on_disk(name))
            self.must(event.id in self.journaled, f"sent before it was durable: {event.content!r}")
        if relay == OTHER_RELAY and self.meets("relay away"):
            await asyncio.sleep(HANG)
        while self.meets("relay slow"):
            await asyncio.sleep(7.0)
        if relay == OTHER_RELAY and self.meets("relay refuses"):
            self.refused.add((event.id, relay))
            return PublishOutcome(accepted=False, detail="blocked")
        is_held = (event.id, relay) in self.taken
        if self.dates is not None and not self.is_healed and not is_held and self.dates.random() < 0.3:
            self.refused.add((event.id, relay))
            return PublishOutcome(accepted=False, detail="invalid: too old", is_outdated=True)
        if self.meets("publisher bug"):
            raise RuntimeError("a fault of ours")
        self.must(self.published.setdefault(event.id, event) == event, "one id was published with two contents")
        self.taken.add((event.id, relay))
        if self.meets("OK lost"):
            await asyncio.sleep(20.0)
        return PublishOutcome(accepted=True)

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """An event whose id follows from everything in it; never far in the future."""
        if self.breaks("sealer", draft.text):
            raise RuntimeError("a fault of ours")
        ahead = draft.created_at - self.clock.now() // 1000
        is_notice = draft.tags[:1] in ((("error", "storage"),), (("error", "internal"),))
        self.must(ahead <= 60 or is_notice, f"dated {ahead} s ahead")
        return super().seal(draft)

    def relays(self, draft: OutgoingMessage) -> tuple[str, ...]:
        return (RELAY, OTHER_RELAY)


class FaultyNotices(MemoryNotices):
    """A memory for notices whose disk may take none."""

    def __init__(self, world: FaultyWorld) -> None:
        super().__init__()
        self.world = world

    async def add_notice(self, notice: Notice) -> None:
        self._fail()
        await super().add_notice(notice)

    async def clear_notices(self, conversation: ConversationId) -> None:
        self._fail()
        await super().clear_notices(conversation)

    def _fail(self) -> None:
        if self.world.breaks("notices"):
            raise AppendFailed("the disk is full")


FAULTS = (
    "disk",
    "slow disk",
    "index",
    "unavailable",
    "timeout",
    "refused",
    "model bug",
    "garbage",
    "hang",
    "tool bug",
    "tool error",
    "relay away",
    "relay slow",
    "relay refuses",
    "publisher bug",
    "OK lost",
    "clock",
)
BUGS = ("open", "prompter", "specs", "sealer", "notices")
