"""A world that dies at a chosen moment of a chosen piece of work, as a power cut would have it.

From that moment on nothing is written, asked, done or sent any more, however long the tasks of the dead process take to
notice. What work did outside is written into a file of its own, where no daemon can forget it.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tenex.core import records as r
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelRequest, ModelStep, Note
from tenex.core.ports import ExecutionContext, OnText, PublishOutcome, ToolResult, UnsignedEvent, ignore_text
from tenex.core.records import Record
from tests.fakes.routing import read_question
from tests.fakes.runtime import Daemon, MemoryJournal, World
from tests.fakes.scenario import ID, longest_way, reply

Moment = Literal["before intent", "after intent", "after effect", "before result", "after result"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
"""Before: it is about to be written. After effect: it has been done, and its task has not yet reported it."""

TALK = ("hello", "think", "plan")
"""After the last one nothing waits for the person any more."""

Finds = Callable[[Record, Conversation], bool]
"""Whether a record, with the state it leads to, is the one that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One piece of work in the talk: what it is wanted by, what it does outside, what it ends in."""

    name: str
    intent: Finds
    effect: str
    """As `DyingWorld.effects` names it."""
    result: Finds


# ---- what is found ----


def of(kind: type[Record], phase: str = "") -> Finds:
    """A kind of record that leaves the conversation in a phase."""
    return lambda record, state: isinstance(record, kind) and phase in ("", state.cycle.phase)


def begins(agent: str, under: str = "") -> Finds:
    return lambda record, state: (
        isinstance(record, r.RunStarted)
        and record.agent == agent
        and under in record.run
        and state.cycle.phase == "execute"
    )


def steps(agent: str, number: int = 0) -> Finds:
    """A step of an agent in execute has been answered: any, or the one with that number."""
    return lambda record, state: (
        isinstance(record, r.ModelResponded)
        and record.run.endswith(f".{agent}")
        and state.cycle.phase == "execute"
        and number in (0, state.work.runs[record.run].steps)
    )


def permitted(tool: str, by: str = "") -> Finds:
    return lambda record, _: isinstance(record, r.ToolCallStarted) and record.tool == tool and record.run.endswith(by)


def returned(tool: str, by: str = "") -> Finds:
    return lambda record, _: isinstance(record, r.ToolCallCompleted) and record.tool == tool and record.run.endswith(by)


REPEATED: dict[Moment, int] = dict(zip(MOMENTS, (1, 1, 2, 2, 1), strict=True))
"""How often the effect is seen outside in the end, of work that may be repeated."""
ONCE: dict[Moment, int] = dict(zip(MOMENTS, (1, 0, 1, 1, 1), strict=True))
"""Of work that may not: what has been begun and may have happened is not begun again."""


class DyingWorld(World):
    """Disk, relays, models and tools; three agents work at once in execute, and the third is the last to finish."""

    def __init__(self, folder: Path, subject: Subject | None = None, moment: Moment = "before intent") -> None:
        super().__init__(three_at_once, work)
        self._effects = folder / "effects"
        self.subject, self.moment = subject, moment
        self.died = asyncio.Event()
        self.state = new_conversation(ID)
        """Folded along with what becomes durable."""

    @property
    def effects(self) -> list[str]:
        return [json.loads(line) for line in self._effects.read_text().splitlines()]

    # ---- death ----

    def _die(self) -> None:
        self.subject = None
        self.died.set()

    async def _live(self) -> None:
        if self.died.is_set():
            await asyncio.Event().wait()

    async def _did(self, effect: str) -> None:
        with self._effects.open("a") as file:
            file.write(f"{json.dumps(effect)}\n")
        if self.subject is not None and (self.subject.effect, self.moment) == (effect, "after effect"):
            self._die()
        await self._live()

    def is_now(self, decisions: Sequence[Sequence[Record]], when: str) -> bool:
        """Whether the moment is that of an append that is about to be made, or has just been made."""
        if self.subject is None or not self.moment.startswith(when):
            return False
        finds = {"intent": self.subject.intent, "result": self.subject.result}.get(self.moment.split()[1])
        state = self.state.fork()
        found = False
        for record in (record for decision in decisions for record in decision):
            state.apply(record)
            found = found or bool(finds and finds(record, state))
        return found

    # ---- ports ----

    async def open(self, conversation: ConversationId) -> tuple[MemoryJournal, list[Record]]:
        await self._live()
        _, records = await super().open(conversation)
        return _Journal(self.books[conversation], self), records

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        await self._live()
        if request.agent == "security":
            await asyncio.sleep(0.5)
        step = await super().step(request, on_text)
        if request.purpose == "work":
            count = sum(isinstance(entry, ModelStep) for entry in request.entries)
            await self._did(f"{request.agent} in {request.phase}, step {count}")
        else:
            question = read_question(next(entry.text for entry in request.entries if isinstance(entry, Note)))
            await self._did(f"route in {request.phase}" if question["turns"] else "first route")
        return step

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        await self._live()
        result = await super().call(name, arguments, context)
        await self._did(f"{name} by {context.agent} in {context.phase}")
        return result

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        await self._live()
        outcome = await super().publish(event, relay)
        await self._did(f"publish {event.content}")
        return outcome

    # ---- a person ----

    async def talk(self, daemon: Daemon) -> None:
        """Write what is to be written, in order, and wait for the end; relays bring again what was written before."""
        for number, text in enumerate(TALK, 1):
            daemon.write(text, event_id=f"{number:064x}")
            while not self._is_past(number):
                await asyncio.sleep(0.05)

    def _is_past(self, number: int) -> bool:
        """Whether the message with that number has been dealt with, all the way to the relay."""
        state = self.state
        if f"{number + 1:064x}" in state.identity.seen:
            return True
        status = "ended" if number == len(TALK) else "waiting"
        return (
            len(state.identity.seen) == number
            and state.cycle.status == status
            and not state.delivery.outbox
            and not state.work.turn
        )

    async def live(self) -> bool:
        """One life of a daemon, to the end of the talk or to its death; returns whether it died."""
        async with self.daemon(kill=True) as daemon:
            talking = asyncio.ensure_future(self.talk(daemon))
            dying = asyncio.ensure_future(self.died.wait())
            await asyncio.wait([talking, dying], return_when=asyncio.FIRST_COMPLETED)
            has_died = dying.done()
            for task in (talking, dying):
                task.cancel()
            for outcome in await asyncio.gather(talking, dying, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome
        self.died = asyncio.Event()
        return has_died

    async def die(self) -> list[Record]:
        """One life to its death; returns what is durable then."""
        assert await self.live(), "it never came to that moment"
        return self.records()


class _Journal(MemoryJournal):
    """A journal that may be the last thing a process touches."""

    def __init__(self, book: list[tuple[Record, ...]], world: DyingWorld) -> None:
        super().__init__(book, world)
        self._dying = world

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        await self._dying._live()
        is_last = self._dying.is_now(decisions, "after")
        if self._dying.is_now(decisions, "before"):
            self._dying._die()
        await self._dying._live()
        await super().append(decisions)
        for record in (record for decision in decisions for record in decision):
            self._dying.state.apply(record)
        if is_last:
            self._dying._die()
        await self._dying._live()


def three_at_once(question: dict[str, Any]) -> dict[str, Any]:
    """A good router that has three agents work at the same time."""
    decision = longest_way(question)
    if question["phase"] == "plan":
        return {**decision, "agents": ["executor", "helper", "security"]}
    return decision


def work(request: ModelRequest) -> ModelStep:
    """A good agent; the executor uses a tool of each kind."""
    steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
    if request.phase == "execute" and request.agent == "executor" and not steps:
        return reply("", ("read_file", {"path": "a"}), ("write_file", {"path": "a"}), ("send", {"path": "m"}))
    if request.phase == "verification":
        return reply("", ("check", {"path": "a"}), ("complete", {"response": "It works", "verdict": "verified"}))
    if request.phase == "reflection" and not steps:
        return reply("", ("learn", {"lesson": f"{request.agent} tests early"}))
    return reply(f"{request.agent} has done {request.phase}")
