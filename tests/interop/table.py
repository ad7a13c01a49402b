"""`make interop-table`: what faults of relays do to our client and to three libraries, in one run and as one table.

Every client has the same relay (`tests.fakes.faultrelay`), the same filter and the same events. A cell is the time
until it listens again, or has published, and what was lost or handed on twice. The exit code is 1 if our own client is
deaf for longer than its row permits, loses an event or hands one on twice.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

import nostr_sdk as sdk
import pytest
import structlog

from tenex.nostr.embedded import callback_loop
from tenex.nostr.events import parse_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tests.fakes.faultrelay import FaultRelay
from tests.service.kit import PATIENCE
from tests.service.person import Wire

from .faults import FAULTS, NEVER, Cell, Fault, Subject, Trial
from .scripts import HERE, Script, install

OURS: Final = "tenex"
WITHIN: Final = 300.0
"""Seconds for one row of one client: two half-open links would take less."""


class Ours:
    """The relay client of this program."""

    def __init__(self, urls: list[str], key: SecretKey) -> None:
        self.received: list[str] = []
        self.urls = urls
        self.pool = RelayPool(urls, on_event=lambda event, _relay: self.received.append(event.id), identity=key)

    async def listen(self, wanted: dict[str, Any]) -> None:
        self.pool.subscribe("all", [wanted], int(time.time()) - 3_600)

    async def publish(self, event: Wire) -> None:
        for url in self.urls:
            outcome = await self.pool.publish(parse_event(event), url)
            if not outcome.accepted:
                raise RuntimeError(outcome.detail)


@asynccontextmanager
async def ours(urls: list[str], key: SecretKey) -> AsyncIterator[Subject]:
    subject = Ours(urls, key)
    running = asyncio.create_task(subject.pool.run())
    try:
        await subject.pool.connected(PATIENCE)
        yield subject
    finally:
        running.cancel()
        await asyncio.wait({running})


class Sdk:
    """rust-nostr's client."""

    def __init__(self, client: sdk.Client) -> None:
        self.received: list[str] = []
        self.client = client
        self.stream = client.notifications()

    async def listen(self, wanted: dict[str, Any]) -> None:
        await self.client.subscribe(sdk.ReqTarget.auto([sdk.Filter.from_json(json.dumps(wanted))]), "all")

    async def publish(self, event: Wire) -> None:
        output = await self.client.send_event(sdk.Event.from_json(json.dumps(event)))
        if not output.success:
            raise RuntimeError(str(output.failed))

    async def take_in(self) -> None:
        while (news := await self.stream.next()) is not None and not news.is_shutdown():
            if isinstance(news, sdk.ClientNotification.NEW_EVENT):
                self.received.append(news.event.id().to_hex())


@asynccontextmanager
async def nostr_sdk(urls: list[str], key: SecretKey) -> AsyncIterator[Subject]:
    client = sdk.ClientBuilder().authenticator(sdk.SignerAuthenticator(sdk.Keys.parse(key.nsec))).build()
    for url in urls:
        await client.add_relay(sdk.RelayUrl.parse(url))
    await client.try_connect(timedelta(seconds=PATIENCE))
    subject = Sdk(client)
    taking_in = asyncio.create_task(subject.take_in())
    try:
        yield subject
    finally:
        await client.shutdown()
        taking_in.cancel()
        await asyncio.wait({taking_in})


class Node:
    """A library in JavaScript (`clients/faults.mjs`)."""

    def __init__(self, script: Script) -> None:
        self.script = script

    @property
    def received(self) -> list[str]:
        return [event["id"] for event in self.script.received]

    async def listen(self, wanted: dict[str, Any]) -> None:
        await self.script.do("listen", filter=wanted)

    async def publish(self, event: Wire) -> None:
        await self.script.do("say", event=event)


@asynccontextmanager
async def node(library: str, urls: list[str], key: SecretKey) -> AsyncIterator[Subject]:
    process = await asyncio.create_subprocess_exec(
        "node",
        str(HERE / "clients" / "faults.mjs"),
        library,
        cwd=HERE,
        limit=2**22,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    script = Script(process)
    taking_in = asyncio.create_task(script.take_in())
    try:
        await script.do("join", urls=urls, secret=sdk.Keys.parse(key.nsec).secret_key().to_hex())
        yield Node(script)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.wait({taking_in}, timeout=PATIENCE)
        taking_in.cancel()


Opening = Callable[[list[str], SecretKey], AbstractAsyncContextManager[Subject]]

CLIENTS: Final[dict[str, Opening]] = {
    OURS: ours,
    "nostr-sdk 0.45.1": nostr_sdk,
    "NDK 3.0.3": partial(node, "ndk"),
    "nostr-tools 2.25.2, all options": partial(node, "tools+"),
    "nostr-tools 2.25.2": partial(node, "tools"),
}


async def measured(fault: Fault, opening: Opening) -> Cell:
    """One row of one client, with relays and a key of its own."""
    key = SecretKey.generate()
    try:
        async with AsyncExitStack() as stack, asyncio.timeout(WITHIN):
            relays = [await stack.enter_async_context(FaultRelay()) for _ in range(fault.relays)]
            subject = await stack.enter_async_context(opening([relay.url for relay in relays], key))
            return await fault.run(Trial(subject, relays, key))
    except Exception as error:  # a library that gives up is a result
        return Cell(NEVER, 1, 0, f"failed: {type(error).__name__}")


def is_missed(fault: Fault, cell: Cell) -> bool:
    return cell.deaf > fault.most or bool(cell.lost or cell.twice)


def table(rows: dict[str, dict[str, Cell]]) -> str:
    """The cells as Markdown, and what each client lost and had twice."""
    names = list(CLIENTS)
    lines = [f"| fault | {' | '.join(names)} |", f"|{'---|' * (len(names) + 1)}"]
    lines += [f"| {fault} | {' | '.join(str(cells[name]) for name in names)} |" for fault, cells in rows.items()]
    lost = {name: sum(cells[name].lost for cells in rows.values()) for name in names}
    twice = {name: sum(cells[name].twice for cells in rows.values()) for name in names}
    deaf = {name: sum(cells[name].deaf == NEVER for cells in rows.values()) for name in names}
    for title, counts in (("deaf for good, rows", deaf), ("events lost", lost), ("events twice", twice)):
        lines.append(f"| **{title}** | {' | '.join(f'**{counts[name]}**' for name in names)} |")
    return "\n".join(lines)


async def measure(chosen: list[Fault]) -> dict[str, dict[str, Cell]]:
    """All rows, one after the other; the clients of a row at the same time."""
    rows: dict[str, dict[str, Cell]] = {}
    with callback_loop():
        for fault in chosen:
            print(f"{fault.name} ...", file=sys.stderr, flush=True)
            cells = await asyncio.gather(*(measured(fault, opening) for opening in CLIENTS.values()))
            rows[fault.name] = dict(zip(CLIENTS, cells, strict=True))
            for name, cell in rows[fault.name].items():
                print(f"    {name}: {cell}", file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="make interop-table", description="Compare clients under faults of relays.")
    parser.add_argument("--only", action="append", metavar="WORDS", help="rows that hold these words")
    wanted = parser.parse_args().only or [""]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        install()
    except pytest.skip.Exception as reason:
        print(reason, file=sys.stderr)
        return 2
    chosen = [fault for fault in FAULTS if any(words in fault.name for words in wanted)]
    rows = asyncio.run(measure(chosen))
    print(table(rows))
    missed = [fault.name for fault in chosen if is_missed(fault, rows[fault.name][OURS])]
    if missed:
        print(f"{OURS} misses: {'; '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
