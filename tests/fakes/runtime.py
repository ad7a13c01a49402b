"""The whole flow in memory: real actors, coordinator and inbox; journals, models, tools and relays that can fail.

`World` outlives its daemons: `World.daemon()` may be entered again and again on the same journals, as a restart.
"""

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tenex.core.config import PeerGroup, Policy
from tenex.core.conversation import Conversation, Run, fold
from tenex.core.effects import Evaluate
from tenex.core.errors import AppendFailed, HeldElsewhere
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.memory.transcript import entries_for
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Note, Quote, ToolSpec, Usage
from tenex.core.pending import pending
from tenex.core.people.trust import chat_of
from tenex.core.phases import Phase
from tenex.core.ports import (
    Checks,
    ExecutionContext,
    KindRunner,
    Notice,
    OnText,
    OutgoingMessage,
    Prompt,
    PublishOutcome,
    ToolResult,
    TurnCost,
    UnsignedEvent,
    Wrap,
    ignore_text,
)
from tenex.core.records import Delivered, Record
from tenex.core.signals import Evaluated, InboundMessage, MessageReceived
from tenex.runtime.actor import ActorDependencies
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.runtime.daily_limits import DailyLimits, quote_tokens
from tenex.runtime.executors import Executors, NoChecks
from tenex.runtime.functions import FunctionCalls
from tenex.runtime.inbox import Inbox
from tenex.runtime.lifecycle import Runtime, TaskFactory
from tenex.runtime.outbox import Outbox
from tenex.workflows.phases.router_prompt import question_for
from tests.fakes.routing import read_question

from .scenario import ALICE, ID, RELAY, evaluated, policy, reply
from .virtual import VirtualClock


class MemoryJournal:
    """A journal that can be made to fail."""

    def __init__(self, book: list[tuple[Record, ...]], world: "World") -> None:
        self._book, self._world, self.is_dead = book, world, False

    @property
    def next_seq(self) -> int:
        return sum(map(len, self._book)) + 1

    @property
    def may_start(self) -> bool:
        return self._world.may_start

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        self._world.must(not self.is_dead, "a journal that failed was written to")
        self._world.must(decisions[0][0].seq == self.next_seq, "a record has the seq of another")
        await asyncio.sleep(self._world.append_time)
        self._world.appends += 1
        fault = self._world.fail_append
        kept = fault(self._world.appends) if fault else None
        if kept is not None:
            self._book.extend(tuple(decision) for decision in decisions[:kept])
            self.is_dead = True
            raise AppendFailed("the disk is full")
        self._book.extend(tuple(decision) for decision in decisions)

    async def close(self) -> None:
        self.is_dead = True


class MemoryNotices:
    def __init__(self) -> None:
        self._notices: dict[tuple[str, str, str], Notice] = {}

    def open_notices(self) -> list[Notice]:
        return list(self._notices.values())

    async def add_notice(self, notice: Notice) -> None:
        self._notices[notice.key] = notice

    async def clear_notices(self, conversation: ConversationId) -> None:
        self._notices = {key: notice for key, notice in self._notices.items() if key[0] != conversation}


class CalledHere(FunctionCalls):
    """Functions of operators, called without threads, which virtual time would overtake."""

    async def evaluate(self, conversation: Conversation, effect: Evaluate, policy: Policy, now: Millis) -> Evaluated:
        return evaluated(conversation, effect, policy, now)


class World:
    """Disk, relays, models and tools that outlive a daemon."""

    def __init__(self, router: Callable[[dict[str, Any]], Any], worker: Callable[[ModelRequest], Any]) -> None:
        self.router, self.worker = router, worker
        self.books: dict[ConversationId, list[tuple[Record, ...]]] = {}
        self.policy: Policy = policy()
        self.peers = PeerGroup(owners=frozenset({ALICE}))
        self.clock = VirtualClock()
        self.appends = 0
        self.append_time = 0.0002
        self.fail_append: Callable[[int], int | None] | None = None
        self.may_start = True
        self.is_held_elsewhere = False
        """Another worker writes the conversations."""
        self.taken_elsewhere: dict[str, ConversationId] = {}
        """The other conversations that have taken messages, by their events."""
        self.take_time = 0.0
        self.left: list[ConversationId] = []
        """Conversations with which another worker goes on."""
        self.published: dict[str, UnsignedEvent] = {}
        self.order: list[str] = []
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.requests: list[ModelRequest] = []
        self.overlap = self.most_overlap = 0
        self.think, self.work = 0.05, 0.01
        self.daily: DailyLimits
        self.cut_off: Usage = NO_USAGE
        """What a call has cost that is cancelled while a mind thinks."""
        self.observed: list[Record] = []
        self.shown: dict[ConversationId, int] = {}
        self.ids = 0
        self.notices = MemoryNotices()
        self.missions: KindRunner | None = None
        self.checks: Checks = NoChecks()
        self.functions: FunctionCalls = CalledHere()
        self.quote: Callable[[ModelRequest], Quote] = quote_tokens
        self.wrongs: list[str] = []
        """What ports must never be asked: the flow takes what a port raises for a fault of that port, and goes on."""

    def must(self, holds: bool, what: str) -> None:
        """Have the test fail at the end of the daemon, and the port now, unless this holds."""
        if not holds:
            self.wrongs.append(what)
        assert holds, what

    def records(self, kind: type[Record] = Record, conversation: str = ID) -> list[Any]:
        """What is durable of a conversation, or what is of a kind, in order."""
        book = self.books.get(ConversationId(conversation), [])
        return [record for decision in book for record in decision if isinstance(record, kind)]

    # ---- ports ----

    async def open(self, conversation: ConversationId) -> tuple[MemoryJournal, list[Record]]:
        if self.is_held_elsewhere:
            raise HeldElsewhere("another worker writes it")
        book = self.books.setdefault(conversation, [])
        return MemoryJournal(book, self), self.records(conversation=conversation)

    async def show(self, conversation: Conversation) -> None:
        self.shown[conversation.id] = conversation.next_seq - 1

    def imported(self, id_: str) -> ConversationId | None:
        return None

    def room_of(self, conversation: ConversationId) -> str:
        begun = self.records(ConversationStarted, conversation)
        return str(begun[0].address.get("room") or "") if begun else ""

    def chat_of(self, conversation: ConversationId) -> str:
        begun = self.records(ConversationStarted, conversation)
        return chat_of(begun[0].address) if begun else ""

    def newest_in(self, room: str) -> tuple[ConversationId, str] | None:
        begun = [
            (self.records(ConversationStarted, name), name)
            for name in self.books
            if room in (self.room_of(name), self.chat_of(name))
        ]
        newest = max(begun, key=lambda each: (each[0][0].at, each[1]), default=None)
        return None if newest is None else (newest[1], newest[0][0].title)

    def conversation_of(self, event_id: str) -> ConversationId | None:
        """The conversation of an event, from the journals."""
        for conversation, book in self.books.items():
            for decision in book:
                for record in decision:
                    events = [event.id for event in getattr(record, "events", ())]
                    if isinstance(record, Delivered) and record.again is not None:
                        events = [record.again.id]
                    if getattr(record, "event_id", None) == event_id or event_id in events:
                        return conversation
        return None

    def exists(self, conversation: ConversationId) -> bool:
        return bool(self.books.get(conversation))

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        self.requests.append(request)
        self.overlap += 1
        self.most_overlap = max(self.most_overlap, self.overlap)
        try:
            await asyncio.sleep(self.think)
        except asyncio.CancelledError:
            request.on_cancelled(self.cut_off, "script")
            raise
        finally:
            self.overlap -= 1
        if request.purpose == "route":
            answer = self.router(read_question(next(e.text for e in request.entries if isinstance(e, Note))))
        else:
            answer = self.worker(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ModelStep):
            return answer
        return reply(answer if isinstance(answer, str) else json.dumps(answer))

    def specs(self, phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        return ()

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        self.calls[context.idempotency_key] += 1
        await asyncio.sleep(self.work)
        touched = ("f",) if name in ("write_file", "send") else ()
        return ToolResult(ok=True, content=f"{name} done", touched=touched, exit_status=0 if name == "check" else None)

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        await asyncio.sleep(0.001)
        self.must(self.published.setdefault(event.id, event) == event, "one id was published with two contents")
        self.order.append(event.content)
        self.sent[event.id] += 1
        return PublishOutcome(accepted=True)

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """An event whose id follows from everything in it."""
        whole = repr((draft.speaker, draft.created_at, draft.tags, draft.text, sorted(draft.reply_to.items())))
        event_id = EventId(hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest())
        return (
            UnsignedEvent(
                id=event_id,
                pubkey=draft.speaker,
                created_at=draft.created_at,
                kind=1,
                tags=draft.tags,
                content=draft.text,
            ),
        )

    def wraps(self, draft: OutgoingMessage, events: Sequence[UnsignedEvent]) -> tuple[Wrap, ...]:
        return ()

    def has_buttons(self, draft: OutgoingMessage) -> bool:
        return False

    def closing(self, draft: OutgoingMessage, event: EventId) -> tuple[UnsignedEvent, ...]:
        return ()

    def cost_report(self, draft: OutgoingMessage, cost: TurnCost) -> tuple[UnsignedEvent, ...]:
        return ()

    def redated(self, event: UnsignedEvent, created_at: int) -> UnsignedEvent:
        event_id = EventId(hashlib.sha256(f"{event.id} {created_at}".encode()).hexdigest())
        return dataclasses.replace(event, id=event_id, created_at=created_at)

    def relays(self, draft: OutgoingMessage) -> tuple[str, ...]:
        return (RELAY,)

    def others(self, draft: OutgoingMessage) -> tuple[str, ...]:
        return ()

    def route(self, conversation: Conversation) -> ModelRequest:
        return ModelRequest(
            purpose="route",
            agent=Slug("orchestrator"),
            phase=conversation.cycle.phase,
            system="Route.",
            entries=(question_for(conversation, self.policy),),
        )

    def prompt(self, conversation: Conversation, run: Run) -> Prompt:
        return Prompt(system=f"You are {run.agent} in {run.phase}.", entries=entries_for(conversation, run))

    def observed_records(self, conversation: ConversationId, records: Sequence[Record]) -> None:
        self.observed.extend(records)

    def unfinished(self) -> list[ConversationId]:
        return [name for name in self.books if pending(fold(name, self.records(conversation=name)))]

    # ---- a daemon's life ----

    @asynccontextmanager
    async def daemon(self, *, kill: bool = False) -> AsyncIterator["Daemon"]:
        """A daemon on this world; `kill` ends it as SIGKILL would: nothing is flushed."""
        spawn = TaskFactory()
        prompter: Any = SimpleNamespace(work=lambda c, run: self.prompt(c, run), route=lambda c: self.route(c))
        observer: Any = SimpleNamespace(on_records=lambda c, records: self.observed_records(c.id, records))
        outbox = Outbox(self)
        daily = self.daily = DailyLimits(
            self.clock, lambda: self.policy.limits, lambda: self.peers, lambda asked: self.quote(asked)
        )
        for name in self.books:
            daily.load(name, fold(name, self.records(conversation=name)).totals.spending)
        stages = Executors(
            clock=self.clock,
            model=self,
            tools=self,
            prompter=prompter,
            outbox=outbox,
            policy=lambda: self.policy,
            kind_runner=self.missions,
            checks=self.checks,
            daily=daily,
            functions=self.functions,
        )

        async def take_message(signal: MessageReceived, conversation: ConversationId) -> bool:
            if self.take_time:
                await asyncio.sleep(self.take_time)
            owner = self.taken_elsewhere.get(signal.message.event_id, conversation)
            if owner != conversation:
                inbox.hand_on(signal, conversation, owner)
            return owner == conversation

        around = ActorDependencies(
            journals=self,
            executors=stages,
            sealer=self,
            notices=self.notices,
            prompter=prompter,
            clock=self.clock,
            policy=lambda: self.policy,
            observers=(daily, observer),
            spawn=spawn,
            take_message=take_message,
            left=self.left.append,
        )
        coordinator = ConversationCoordinator(around)
        beginners = self.policy.begun_by_mention
        workflows = {beginner.pubkey: slug for slug, beginner in beginners.items() if beginner.pubkey}
        slugs = {agent.pubkey: agent.slug for agent in self.policy.roster.values()} | workflows
        inbox = Inbox(
            coordinator, self, self.peers, self.clock, names={ALICE: "alice"}, slugs=slugs, workflows=set(workflows)
        )
        runtime = Runtime(spawn, coordinator, inbox)
        unfinished = self.unfinished()
        ready = asyncio.Event()

        async def up() -> None:
            ready.set()

        serving = asyncio.ensure_future(runtime.serve({}, unfinished, up))
        await ready.wait()
        try:
            yield Daemon(self, runtime)
        finally:
            if kill:
                serving.cancel()
                await asyncio.wait([serving])
            else:
                runtime.stop()
                await serving
            assert not self.wrongs, self.wrongs[0]


def worker(request: ModelRequest) -> ModelStep:
    steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
    if request.phase == "execute" and not steps:
        return reply("", ("read_file", {"path": "a"}), ("read_file", {"path": "b"}), ("send", {"path": "m"}))
    if request.phase == "verification":
        return reply("", ("check", {"path": "f"}), ("complete", {"response": "It works", "verdict": "verified"}))
    if request.phase == "reflection" and not steps:
        return reply("", ("learn", {"lesson": "test early"}))
    return reply(f"{request.agent} has done {request.phase}")


async def converse(world: World, *texts: str) -> None:
    """One life of a daemon in which a user writes these; after the last the cycle ends."""
    async with world.daemon() as daemon:
        await daemon.write_in_turn(*texts)
        await daemon.until("ended")


@dataclasses.dataclass
class Daemon:
    """A running daemon, as a test uses it."""

    world: World
    runtime: Runtime
    sent: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    _folded: dict[str, tuple[int, Conversation]] = dataclasses.field(default_factory=dict)

    def write(
        self,
        text: str,
        *,
        conversation: str = ID,
        event_id: str | None = None,
        author: PublicKey = ALICE,
        reply_to: str | None = None,
        by_machine: bool = False,
        by_program: bool = False,
        mentions: tuple[PublicKey, ...] = (),
        address: Mapping[str, Any] | None = None,
        created_at: int | None = None,
        tagged: tuple[PublicKey, ...] = (),
        starts: bool = True,
        expires_at: int | None = None,
        room: str = "",
        title: str = "",
    ) -> str:
        self.world.ids += 1
        event = EventId(event_id or f"{self.world.ids:064x}")
        message = InboundMessage(
            event_id=event,
            author=author,
            text=text,
            created_at=created_at or self.world.clock.now() // 1000,
            conversation=ConversationId(event if room else conversation),
            starts=starts,
            reply_to=EventId(reply_to) if reply_to else None,
            references=(EventId(reply_to),) if reply_to else (),
            by_machine=by_machine,
            by_program=by_program,
            mentions=mentions,
            tagged=tagged,
            expires_at=expires_at,
            room=room,
            title=title,
            address=address or {"form": "direct" if room else "notes", "room": room},
            origin={"form": "notes", "id": event, "author": author},
        )
        verdict = self.runtime.inbox.receive(message)
        if verdict == "admitted":
            self.sent.setdefault(conversation, set()).add(event)
        return verdict

    async def write_in_turn(self, *texts: str) -> None:
        """A user writes the first, and each of the others once the conversation waits."""
        for text in texts:
            if text != texts[0]:
                await self.until("waiting")
            self.write(text)

    def state(self, conversation: str = ID) -> Conversation:
        """The durable state, folded again from the journal whenever that has grown; only to be read."""
        book = self.world.books.get(ConversationId(conversation), [])
        length, state = self._folded.get(conversation, (-1, None))
        if state is None or length != len(book):
            state = fold(ConversationId(conversation), self.world.records(conversation=conversation))
            self._folded[conversation] = len(book), state
        return state

    async def until(self, status: str, conversation: str = ID, seconds: float = 2_000.0) -> Conversation:
        """Wait (in virtual time) until all we wrote is taken in, that status is on disk, and nothing is pending."""
        async with asyncio.timeout(seconds):
            while True:
                state = self.state(conversation)
                are_recorded = self.sent.get(conversation, set()) <= set(state.identity.seen)
                if are_recorded and state.cycle.status == status and not state.delivery.outbox and not state.work.turn:
                    return state
                await asyncio.sleep(0.05)
