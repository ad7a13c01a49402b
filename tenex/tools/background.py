"""Background commands: programs of agents that go on after the call that started them.

    shell_start ─► a program that runs as those of `shell` do ─► shell_stop, its own end, or the end of the run
                        │ what it prints
                        ▼
                   a ring in memory ─► shell_read, as often as wanted

A program belongs to the run of an agent that started it, and ends with that run: whatever comes next, the gates above
all, finds no program at work. It ends with the daemon too, however that ends (`supervisor`). After a restart nothing is
left of it but the calls on record, so a call for it is answered with what has happened (`find`).

They are kept here for the life of the process, with the networks of their turns: a reload replaces the tools, not what
runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.conversation import Conversation
from tenex.core.errors import words_of
from tenex.core.ids import ConversationId, RunId, Slug
from tenex.core.ports import ExecutionContext
from tenex.core.records import Record
from tenex.log import get_logger

from .shared_namespaces import TurnNetworks
from .tool import Refusal

MOST_RUNNING: Final = 4
"""Of one run."""

MOST_IN_ALL: Final = 16
"""Of all conversations: each may use the memory and the processors of a whole build."""

MOST_ENDED: Final = 8
"""Of one run, of which the output can still be read."""

RING_BYTES: Final = 256 * 1024
"""Of what one prints that are kept, the newest: a test run prints 100 KB, a server has no end."""

STOPPED: Final = "was stopped, with everything it had started."

Work = Callable[[Callable[[bytes], None]], Awaitable[str]]
"""Runs a program, gives away what it prints, and returns how it ended, as the end of a sentence."""

Changes = Callable[[], Awaitable[tuple[str, ...]]]
"""The paths that were changed since it began."""

_log = get_logger(__name__)


class OutputRing:
    """The newest bytes of a stream, by their place in it."""

    def __init__(self, size: int = RING_BYTES) -> None:
        self._size = size
        self._kept = bytearray()
        self.begin = 0
        """The place of the oldest byte that is kept."""

    @property
    def end(self) -> int:
        """The place after the newest byte: how many there were in all."""
        return self.begin + len(self._kept)

    def add(self, chunk: bytes) -> None:
        """Add bytes at the end; the oldest go."""
        self._kept += chunk
        surplus = max(0, len(self._kept) - self._size)
        del self._kept[:surplus]
        self.begin += surplus

    def read(self, offset: int, most: int) -> tuple[int, bytes]:
        """The bytes from a place on, or from the oldest that is kept, and the place of the first of them."""
        begin = min(max(offset, self.begin), self.end)
        start = begin - self.begin
        return begin, bytes(self._kept[start : start + most])


@dataclass(slots=True, eq=False, kw_only=True)
class BackgroundCommand:
    """One program and what is known of it."""

    id: str
    line: str
    agent: Slug
    conversation: ConversationId
    run: RunId
    now: Callable[[], float]
    """A clock in seconds."""
    began: float
    """On that clock."""
    output: OutputRing = field(default_factory=OutputRing)
    ended: str = ""
    """How it ended, as the end of a sentence; empty while it runs."""
    touched: tuple[str, ...] = ()
    """The paths that were changed between its beginning and its end, once it has ended."""
    refusal: str = ""
    """Why it could not be started."""
    program: "asyncio.Task[str] | None" = None
    attending: "asyncio.Task[None] | None" = None
    """Ends after the program, once its changes are known."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it prints something and when it has ended."""

    @property
    def seconds(self) -> int:
        """How long ago it began."""
        return int(self.now() - self.began)

    @property
    def is_running(self) -> bool:
        """Whether the program is there."""
        return not self.ended

    def cancel(self) -> None:
        """Begin to end the program; one that is being ended is not disturbed."""
        if self.program is not None and not self.program.cancelling():
            self.program.cancel()

    def receive(self, chunk: bytes) -> None:
        """Keep what it printed."""
        self.output.add(chunk)
        self.news.set()

    async def wait_for_news(self, offset: int, seconds: float) -> None:
        """Return once it has printed more than `offset` bytes, has ended, or the time is up."""
        try:
            async with asyncio.timeout(seconds):
                while self.is_running and self.output.end <= offset:
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            return

    async def wait_for_end(self, seconds: float) -> bool:
        """Whether it has ended, and its changes are known, within so many seconds."""
        if self.attending is not None:
            await asyncio.wait([self.attending], timeout=seconds)
        return not self.is_running and (self.attending is None or self.attending.done())


class BackgroundCommands:
    """Those of all conversations; belongs to one event loop. An `Observer`, by which those of ended runs are ended."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._commands: dict[tuple[ConversationId, RunId], dict[str, BackgroundCommand]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.networks = TurnNetworks()
        """In which they are reached by the other commands of their turns."""

    def running(self) -> list[dict[str, Any]]:
        """What runs, for readers: `seconds` since when."""
        return [
            {
                "id": command.id,
                "conversation": command.conversation,
                "agent": command.agent,
                "command": command.line,
                "seconds": command.seconds,
            }
            for command in self._all()
            if command.is_running
        ]

    def of_run(self, context: ExecutionContext) -> dict[str, str]:
        """The command lines that run for the run of a call, by their ids."""
        own = self._commands.get((context.conversation_id, context.run), {})
        return {command.id: command.line for command in own.values() if command.is_running}

    def refuse_if_too_many(self, context: ExecutionContext) -> None:
        """Refuse one more command of a run.

        Raises:
            Refusal: there are too many, or the call belongs to no run.
        """
        if not context.run:
            raise Refusal("Background commands belong to an agent's part in a turn; use `shell` here.")
        names = list(self.of_run(context))
        if len(names) >= MOST_RUNNING:
            raise Refusal(f"{MOST_RUNNING} background commands run already: {', '.join(names)}. Stop one first.")
        if sum(command.is_running for command in self._all()) >= MOST_IN_ALL:
            raise Refusal(f"{MOST_IN_ALL} background commands run on this machine already; use `shell`, or try later.")

    def start(self, context: ExecutionContext, line: str, work: Work, changes: Changes) -> BackgroundCommand:
        """Start a program for a run; its id names the call, so none has that of another.

        Raises:
            Refusal: there are too many, or the call belongs to no run.
        """
        self.refuse_if_too_many(context)
        own = self._commands.setdefault((context.conversation_id, context.run), {})
        ended = [command.id for command in own.values() if not command.is_running]
        for name in ended[: max(0, len(ended) - MOST_ENDED + 1)]:
            del own[name]
        command = BackgroundCommand(
            id=f"bg-{context.idempotency_key.rpartition(':')[2]}",
            line=line,
            agent=context.agent,
            conversation=context.conversation_id,
            run=context.run,
            now=self._now,
            began=self._now(),
        )
        own[command.id] = command
        command.program = asyncio.create_task(_run(command, work), name=f"background {command.id}")
        command.attending = asyncio.create_task(_attend(command, changes), name=f"end of {command.id}")
        _log.info("background.started", id=command.id, conversation=command.conversation, agent=command.agent)
        return command

    def find(self, context: ExecutionContext, name: str) -> BackgroundCommand:
        """A command of the run that a call belongs to.

        Raises:
            Refusal: there is none of that id, with the reason.
        """
        own = self._commands.get((context.conversation_id, context.run), {})
        command = own.get(name.strip())
        if command is None:
            known = ", ".join(own) or "none"
            raise Refusal(
                f"There is no background command {name[:40]} in your part of this turn (there is: {known}). Such a "
                "command ends with the part that started it and when the daemon restarts; then start it again."
            )
        return command

    async def stop(self, command: BackgroundCommand) -> None:
        """End a program, and return when it and all it started are gone, and its changes are known."""
        command.cancel()
        if command.attending is not None:
            await asyncio.wait([command.attending])

    def add_ending(self, task: "asyncio.Task[None]") -> None:
        """Have `settled` wait for a task too: it ends a program of a run that is over."""
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def settled(self) -> None:
        """Return once no program of an ended run is left."""
        if self._ending:
            await asyncio.wait(set(self._ending))

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """End the programs of runs that are not open any more (`core.ports.Observer`)."""
        del records
        for key in [key for key in self._commands if key[0] == conversation.id]:
            if key[1] not in conversation.work.runs:
                self._end(self._commands.pop(key).values())
        self.networks.on_records(conversation)

    def end(self, conversation: ConversationId) -> None:
        """End the programs of a conversation: another worker goes on with it, or it goes back."""
        for key in [key for key in self._commands if key[0] == conversation]:
            self._end(self._commands.pop(key).values())
        self.networks.end(conversation)

    async def ended(self, conversation: ConversationId) -> None:
        """End the programs of a conversation, and return once what they changed is known."""
        self.end(conversation)
        await self.settled()

    async def close(self) -> None:
        """End all of them, as the daemon does."""
        self._end(self._all())
        self._commands.clear()
        await self.settled()
        self.networks.close()

    def _all(self) -> Iterator[BackgroundCommand]:
        for own in self._commands.values():
            yield from own.values()

    def _end(self, commands: Iterable[BackgroundCommand]) -> None:
        for command in commands:
            if command.is_running and command.attending is not None:
                command.cancel()
                self._ending.add(command.attending)
                command.attending.add_done_callback(self._ending.discard)
                _log.info("background.ended_with_run", id=command.id, conversation=command.conversation)


async def _run(command: BackgroundCommand, work: Work) -> str:
    try:
        return await work(command.receive)
    except Refusal as refusal:
        command.refusal = str(refusal)
        return f"could not be started: {refusal}"


async def _attend(command: BackgroundCommand, changes: Changes) -> None:
    """Note how a program ended, and what was changed meanwhile."""
    program = command.program
    assert program is not None, "it is made before"
    try:
        await asyncio.wait([program])
    finally:
        program.cancel()
    fault = None if program.cancelled() else program.exception()
    if program.cancelled():
        ended = STOPPED
    elif fault is not None:
        _log.error("background.failed", id=command.id, error=type(fault).__name__)
        ended = f"failed. The error: {type(fault).__name__}: {words_of(fault)[:300]}"
    else:
        ended = program.result()
    command.ended = ended
    command.touched = await changes()
    command.news.set()
