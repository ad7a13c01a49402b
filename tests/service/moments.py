"""A daemon that dies, or waits, at a chosen moment: `python -m tests.service.moments ORDERS`, orders as JSON.

It is `tenex run` (the same `serve`, with the same signals) with counters at the seams: before a model is asked, before
and after a tool works, before a file is changed, before, within and after an append, before and after a publish,
before and after the daemon looks at the workspace, before, during and after a check of the project.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial, partialmethod
from pathlib import Path
from typing import Any, Literal

from tenex.cli.run import FORCED, serve
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Check, Inspect
from tenex.core.ids import Millis
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import ExecutionContext, Model, OnText, PublishOutcome, ToolResult, UnsignedEvent, ignore_text
from tenex.feature import tools_of
from tenex.main import FEATURES
from tenex.nostr import addresses, pool
from tenex.nostr.compose import Publisher
from tenex.nostr.direct import GIFT_WRAP
from tenex.nostr.keys import parse_public_key
from tenex.nostr.timeouts import RelayTimeouts
from tenex.nostr.turn_costs import TURN_COST
from tenex.runtime.clock import SystemClock
from tenex.settings import load
from tenex.store import journal
from tenex.store.daemon_journal import FOLDER
from tenex.store.disk import Disk
from tenex.store.file_writer import FileWriter
from tenex.store.journal import StoredJournal
from tenex.tools import process
from tenex.tools.check_runner import CheckRunner
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell_runner import Programs

from .scripted_models import MODELS

Moment = Literal[
    "never",
    "route",
    "model",
    "tool",
    "tool done",
    "append",
    "torn append",
    "appended",
    "publish",
    "published",
    "inspect",
    "inspected",
    "check",
    "check runs",
    "checked",
]

APPENDS: tuple[Moment, ...] = ("append", "torn append", "appended")
CHECKS: tuple[Moment, ...] = ("inspect", "inspected", "check", "check runs", "checked")
RUNNING = 0.2
"""Seconds that a check has been running when the daemon dies during it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a daemon of a test shall do.

    Of the `at`-th time it reaches `moment` (counted from 1) it dies, or, if `hold` is set, writes the file `held` into
    `marks` and waits there for a file `go`. A step that started before its records were flushed is held once they are,
    so that a test finds them on the disk. `tool` narrows the moments of tools to one. Each execution of a tool
    is noted in `marks/calls`, one line `<idempotency key> <tool> <pid>`; each question to an agent's model in
    `marks/steps`, one line `<idempotency key> <pid>`; each run of a check in `marks/checks`, one line `<number of the
    record that wanted it> <name> <tree> <pid>`.
    """

    data: str
    marks: str
    moment: Moment = "never"
    at: int = 1
    hold: bool = False
    tool: str = ""
    model: str = "offline"
    one_thread: bool = False
    """The disk's work is done in one thread, so that who counts a thread's calls counts all."""
    rotates: bool = False
    """Journals go on in another file whenever the view is written."""
    may_hang: bool = False
    """While there is a file `hang`, its disk takes no flush and gives no answer; it writes the file `held`."""
    lease: float = 0.0
    """Seconds of a lease there; 0 for the usual."""
    ahead: int = 0
    """Seconds its clock is ahead of ours."""
    is_impatient: bool = False
    """It waits for relays a second where others wait a quarter of a minute, so that a deaf one is soon found out."""

    is_here: bool = False
    """Every name leads to this machine, which counts as public."""

    def dumps(self) -> str:
        return json.dumps(asdict(self))


class Moments:
    """Counts, and carries the orders out."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._marks = Path(orders.marks)
        self._seen: Counter[str] = Counter()
        self.appends = 0
        """Appends under way."""

    def is_now(self, moment: Moment) -> bool:
        """Count the moment; return whether it is the one of the orders."""
        self._seen[moment] += 1
        return self._orders.moment == moment and self._seen[moment] == self._orders.at

    def die(self) -> None:
        (self._marks / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    async def reach(self, moment: Moment) -> None:
        if not self.is_now(moment):
            return
        if not self._orders.hold:
            self.die()
        while self.appends:
            await asyncio.sleep(0.01)
        (self._marks / "held").touch()
        while not (self._marks / "go").exists():
            await asyncio.sleep(0.01)

    def flush(self, descriptor: int) -> None:
        while (self._marks / "hang").exists():
            (self._marks / "held").touch()
            time.sleep(0.01)  # a thread of the store waits in the kernel like this
        os.fdatasync(descriptor)

    def note(self, file: str, *words: str) -> None:
        """Write down what is about to be done."""
        with (self._marks / file).open("a") as notes:
            notes.write(" ".join([*words, f"{os.getpid()}\n"]))

    def is_meant(self, tool: str) -> bool:
        return self._orders.tool in ("", tool)


class Watched:
    """A model whose requests are moments."""

    def __init__(self, inner: Model, moments: Moments) -> None:
        self._inner, self._moments = inner, moments

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "work":
            self._moments.note("steps", request.idempotency_key)
        await self._moments.reach("route" if request.purpose == "route" else "model")
        return await self._inner.step(request, on_text)


def watch(moments: Moments) -> None:
    """Put the counters at the seams of store, tools and relays."""
    call, flush, append, publish = ToolRegistry.call, FileWriter._flush, StoredJournal.append, Publisher.publish

    async def watched_call(
        self: ToolRegistry, name: str, arguments: Mapping[str, Any], context: ExecutionContext
    ) -> ToolResult:
        moments.note("calls", context.idempotency_key, name)
        if moments.is_meant(name):
            await moments.reach("tool")
        result = await call(self, name, arguments, context)
        if moments.is_meant(name):
            await moments.reach("tool done")
        return result

    async def watched_append(self: StoredJournal, decisions: Any) -> None:
        is_ours = Path(self.writer.place).parent.name != FOLDER
        if is_ours:
            await moments.reach("append")
            moments.appends += 1
        try:
            await append(self, decisions)
        finally:
            moments.appends -= is_ours
        if is_ours:
            await moments.reach("appended")

    def watched_flush(self: FileWriter, descriptor: int, data: bytes) -> None:
        if self.path.parent.name != FOLDER and moments.is_now("torn append"):
            os.write(descriptor, data[: len(data) * 2 // 3])
            moments.die()
        flush(self, descriptor, data)

    async def watched_publish(self: Publisher, event: UnsignedEvent, relay: str) -> PublishOutcome:
        if event.kind not in (1, 9, GIFT_WRAP, TURN_COST):
            return await publish(self, event, relay)
        await moments.reach("publish")
        outcome = await publish(self, event, relay)
        await moments.reach("published")
        return outcome

    _replace(ToolRegistry, "call", watched_call)
    _replace(StoredJournal, "append", watched_append)
    _replace(FileWriter, "_flush", watched_flush)
    _replace(Publisher, "publish", watched_publish)


def watch_checks(moments: Moments) -> None:
    """Put the counters where the daemon looks at the workspace, and runs its checks."""
    inspect, run_check, run_in = CheckRunner.inspect, CheckRunner.run, Programs.run_in

    async def watched_inspect(self: CheckRunner, effect: Inspect) -> Inspection:
        await moments.reach("inspect")
        inspection = await inspect(self, effect)
        await moments.reach("inspected")
        return inspection

    async def watched_check(self: CheckRunner, effect: Check) -> CheckResult:
        moments.note("checks", str(effect.key.seq), effect.name, effect.tree)
        await moments.reach("check")
        result = await run_check(self, effect)
        await moments.reach("checked")
        return result

    async def watched_program(self: Programs, *arguments: Any, **more: Any) -> process.Outcome:
        running = asyncio.ensure_future(run_in(self, *arguments, **more))
        if moments.is_now("check runs"):
            await asyncio.wait([running], timeout=RUNNING)
            moments.die()
        return await running

    _replace(CheckRunner, "inspect", watched_inspect)
    _replace(CheckRunner, "run", watched_check)
    _replace(Programs, "run_in", watched_program)


def _replace(owner: object, name: str, value: Any) -> None:
    setattr(owner, name, value)


async def _here(_: object, host: str, port: int, **__: object) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def main() -> int:
    """Serve as ordered; the exit code is that of `tenex run`."""
    orders = Orders(**json.loads(sys.argv[1]))
    moments = Moments(orders)
    watch(moments)
    watch_checks(moments)
    if orders.one_thread:
        _replace(Disk, "__init__", partialmethod(Disk.__init__, threads=1))
    if orders.rotates:
        _replace(journal, "FILE_BYTES", 1)
        _replace(journal, "PER_SNAPSHOT", 0)
    if orders.may_hang:
        _replace(Disk, "__init__", partialmethod(Disk.__init__, sync=moments.flush))
    if orders.lease:
        from tenex.store.postgres import leases

        _replace(leases, "LEASE", orders.lease)
    if orders.ahead:
        now = SystemClock.now
        _replace(SystemClock, "now", lambda self: Millis(now(self) + orders.ahead * 1000))
    if orders.is_impatient:
        _replace(pool, "RelayTimeouts", partial(RelayTimeouts, probe_timeout=1.0, eose_timeout=1.0))
    if orders.is_here:
        _replace(addresses, "is_public", lambda _: True)
        _replace(asyncio.base_events.BaseEventLoop, "getaddrinfo", _here)
    settings = load(None, Path(orders.data), env={}, features=tools_of(FEATURES), parse_key=parse_public_key)
    return 0 if serve(settings, FEATURES, model=Watched(MODELS[orders.model](Path(orders.marks)), moments)) else FORCED


if __name__ == "__main__":
    sys.exit(main())
