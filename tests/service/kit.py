"""A data folder with its daemon: made by `tenex init`, started, signalled and read as an operator does it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import pytest

from tenex.cli.init import prepare
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.records import Record
from tenex.main import main
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.fakes.forkserver import Child, begin, run

from . import person
from .moments import Moment, Orders

ROOT = Path(__file__).parents[2]
TENEX = [sys.executable, "-m", "tenex.main"]
PATIENCE = 60.0
"""Seconds for what takes less than one on an idle machine."""
FULL_CYCLE = ["execute", "verification", "chores", "reflection"]

_LINE = 2**24
"""Bytes of the longest line of a log."""

Log = dict[str, Any]


def environment(**more: str) -> dict[str, str]:
    """Only what a program needs, and nothing of the tester's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "OLLAMA_HOST": "127.0.0.1:1", **more}


class Folder:
    """A data folder as `tenex init` leaves it, with keys for its owner."""

    def __init__(self, data: Path, url: str, settings: str = "") -> None:
        made = prepare(data, None, [url])
        self.data, self.url = data, url
        self.marks = data.parent / f"{data.name}-marks"
        self.marks.mkdir()
        self.file = made.config
        # a test's model is not trusted like the offline model, so `check` has to be switched on by the operator, and
        # allowed where there is no sandbox
        allowed = '[[approve]]\ntool = "check"\ndecision = "allow"\n'
        self.file.write_text(f'{self.file.read_text()}\n{allowed}[tools]\ncheck = "on"\n{settings}')
        ring = KeyRing(data / "keys")
        self.owner, self.project = ring.get("owner"), ring.get("project")
        self.public_keys = {ring.get(name).public for name in ring.names() if name != "owner"}

    @property
    def workspace(self) -> Path:
        return self.data / "workspace"

    @property
    def names(self) -> list[str]:
        """The conversations that have a folder."""
        return [path.name for path in (self.data / "conversations").iterdir() if len(path.name) == 64]

    def conversation(self, name: str) -> Path:
        return self.data / "conversations" / name

    def records(self, name: str) -> list[Record]:
        """Every whole record of a conversation's journal; none before there is one."""
        try:
            return peek(self.conversation(name) / "journal.jsonl", CONVERSATION)
        except FileNotFoundError:
            return []

    def state(self, name: str) -> Conversation:
        return fold(ConversationId(name), self.records(name))

    def view(self, name: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads((self.conversation(name) / "conversation.json").read_text())
        return view

    def executions(self) -> list[tuple[str, str, str]]:
        """(idempotency key, tool, pid) of every tool that ran, in order."""
        try:
            lines = (self.marks / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [(key, tool, pid) for key, tool, pid in (line.split() for line in lines)]

    def edit(self, old: str, new: str) -> None:
        """Change the settings; an empty `old` adds `new` at their end."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new) if old else f"{text}\n{new}")

    async def held(self) -> None:
        """Wait until the daemon waits at the moment of its orders."""
        await person.until((self.marks / "held").exists)

    def let_go(self) -> None:
        (self.marks / "go").touch()

    async def sent(self, **wanted: Any) -> list[person.Wire]:
        """The messages of our keys that the relay keeps, in order."""
        return await person.stored(self.url, **{"kinds": [1], "authors": sorted(self.public_keys), **wanted})

    async def delivered(self, name: str) -> None:
        """Wait until a relay has taken all that a conversation sends."""
        await person.until(lambda: not self.state(name).delivery.outbox)

    async def facts(self, *words: str | Path, code: int = 0) -> Any:
        """What a command prints with `--json`, once it has ended with that exit code."""
        ended, out, err = await tenex_here(*words, "--json", "--data", self.data)
        assert ended == code, err
        assert "Traceback" not in err
        return json.loads(out)

    async def write(self, text: str, *, by: SecretKey | None = None, to: str = "") -> str:
        """Have a person write: to the project, or in the thread `to`; returns the id."""
        tags = [["e", to, self.url, "root"]] if to else []
        event = person.note(by or self.owner, text, *tags, ["p", self.project.public])
        await person.publish(self.url, event)
        return str(event["id"])

    def put(self, name: str, text: str) -> None:
        """Write a file of the operator's workflows and missions."""
        place = self.data / "config" / "workflows" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def key_of(self, workflow: str) -> PublicKey:
        """The key of a workflow; the daemon has made it, or it is made to be mentioned before there is one."""
        return KeyRing(self.data / "keys").get_or_create(workflow).public

    async def begin(self, text: str, workflow: str) -> str:
        """A client that knows nothing of the project begins a workflow by its p tag alone."""
        note = person.note(self.owner, text, ["p", self.key_of(workflow)])
        await person.publish(self.url, note)
        return str(note["id"])

    async def replies(self, name: str) -> list[person.Wire]:
        """The events of our keys that the relay keeps of a thread, in order, once all are delivered."""
        await self.delivered(name)
        return [one for one in await person.stored(self.url, _e=[name]) if one["pubkey"] != self.owner.public]

    async def until(self, name: str, status: str, cycle: int = 1) -> Conversation:
        """Wait until a conversation has come to a rest of that kind, with every word delivered."""

        def there() -> Conversation | None:
            state = self.state(name)
            return (
                state
                if state.cycle.status == status and state.cycle.number == cycle and state.work.turn is None
                else None
            )

        state: Conversation = await person.until(there, PATIENCE)
        return state


class Process:
    """A running command of ours, its logs read as they come."""

    def __init__(self, process: "subprocess.Popen[bytes] | Child", stderr: IO[bytes]) -> None:
        self._process = process
        self.pid, self.signal = process.pid, process.send_signal
        self.lines: list[str] = []
        self._changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(stderr))

    @property
    def logs(self) -> list[Log]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def events(self) -> list[str]:
        return [log["event"] for log in self.logs]

    @property
    def errors(self) -> list[Log]:
        return [log for log in self.logs if log["level"] in ("error", "critical")]

    async def until(self, event: str) -> Log:
        def found() -> Log | None:
            return next((log for log in self.logs if log["event"] == event), None)

        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(lambda: found() or self._reading.done())
        except TimeoutError:
            raise AssertionError(f"no {event} within {PATIENCE} s; its stderr:\n{self.stderr}") from None
        log = found()
        assert log is not None, f"it ended without {event}; its stderr:\n{self.stderr}"
        return log

    @property
    def stderr(self) -> str:
        return "\n".join(self.lines)

    async def ended(self) -> int:
        """Wait until it has ended; its exit code, negative for a signal."""
        async with asyncio.timeout(PATIENCE):
            code = await asyncio.to_thread(self._process.wait, PATIENCE)
            await self._reading
        return code

    async def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def die(self) -> None:
        """Kill it with SIGKILL."""
        self.signal(signal.SIGKILL)
        assert await self.ended() == -signal.SIGKILL

    async def reload(self) -> None:
        """Have it read its configuration again, and wait until it has."""
        before = self.events().count("configuration.reloaded")
        self.signal(signal.SIGHUP)
        await person.until(lambda: self.events().count("configuration.reloaded") > before)

    async def finish(self) -> None:
        """Stop it unless it has ended; it must end well."""
        if self._process.returncode is None:
            code = await self.stop()
            assert code == 0, f"it ended with {code}; its stderr:\n{self.stderr}"

    async def clean_up(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        await self._reading

    async def _read(self, pipe: IO[bytes]) -> None:
        stderr = asyncio.StreamReader(_LINE)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stderr), pipe)
        async for line in stderr:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
            async with self._changed:
                self._changed.notify_all()
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def running(words: Sequence[str], **env: str) -> AsyncIterator[Process]:
    """A process for as long as the block lasts; at its end the process is stopped, and must end well."""
    nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
    popen: subprocess.Popen[bytes] = await asyncio.to_thread(
        lambda: subprocess.Popen(words, cwd=ROOT, env=environment(**env), stdin=nowhere, stdout=nowhere, stderr=pipe)
    )
    assert popen.stderr is not None
    async with _kept(Process(popen, popen.stderr)) as process:
        yield process


@asynccontextmanager
async def forked(words: Sequence[str], **env: str) -> AsyncIterator[Process]:
    """The same for the `main` of a module, in a process that need not load it (`tests.fakes.forkserver`)."""
    child, reading = await asyncio.to_thread(begin, words, environment(**env), ROOT)
    async with _kept(Process(child, os.fdopen(reading, "rb", 0))) as process:
        yield process


@asynccontextmanager
async def _kept(process: Process) -> AsyncIterator[Process]:
    try:
        yield process
        await process.finish()
    finally:
        await process.clean_up()


@asynccontextmanager
async def daemon(folder: Folder, **env: str) -> AsyncIterator[Process]:
    """`tenex run` on a folder, once it is ready."""
    async with forked([TENEX[-1], "run", "--data", str(folder.data)], **env) as process:
        await process.until("runtime.ready")
        yield process


def orders_for(folder: Folder, moment: Moment = "never", at: int = 1, **more: Any) -> list[str]:
    """The words that start a daemon with orders (`moments`)."""
    orders = Orders(data=str(folder.data), marks=str(folder.marks), moment=moment, at=at, **more)
    return ["tests.service.moments", orders.dumps()]


@asynccontextmanager
async def ordered(
    folder: Folder, moment: Moment = "never", at: int = 1, env: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[Process]:
    """The daemon with orders, once it is ready."""
    async with forked(orders_for(folder, moment, at, **more), **(env or {})) as process:
        await process.until("runtime.ready")
        yield process


async def tenex(*words: str | Path, **env: str) -> tuple[int, str, str]:
    """Run a command to its end in a process of its own: exit code, stdout, stderr."""
    whole = (TENEX[-1], *map(str, words))
    done = await asyncio.to_thread(run, whole, environment(**env), ROOT, seconds=2 * PATIENCE)
    return done.returncode, done.stdout, done.stderr


async def tenex_here(*words: str | Path, **env: str) -> tuple[int, str, str]:
    """The same in this process, one command at a time: for what needs no process of its own."""

    def run() -> tuple[int, str, str]:
        streams = [BytesIO(), BytesIO()]
        out, err = (TextIOWrapper(stream, "utf-8", write_through=True) for stream in streams)
        with redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, environment(**env), clear=True):
            code = main(list(map(str, words)))
        texts = [stream.getvalue().decode() for stream in streams]
        return code, texts[0], texts[1]

    return await asyncio.to_thread(run)


def tags(event: person.Wire) -> dict[str, str]:
    """An event's tags, the first value of each."""
    return {tag[0]: tag[1] for tag in event["tags"] if len(tag) > 1}


def phases(view: dict[str, Any]) -> list[str]:
    return [transition["to"] for transition in view["phaseTransitions"]]


def of_kind(records: Iterable[Record], kind: type[Record], where: Callable[[Any], bool] = lambda _: True) -> list[Any]:
    return [record for record in records if isinstance(record, kind) and where(record)]


def deaths(now: Sequence[tuple[Moment, int]], *later: tuple[Sequence[Moment], int]) -> list[Any]:
    """Parameters (moment, at): some for every run, and for a soak moments from their first time to so many."""
    sweep = [(moment, at) for moments, most in later for moment in moments for at in range(1, most + 1)]
    return [*now, *(pytest.param(*death, marks=pytest.mark.soak) for death in sweep)]
