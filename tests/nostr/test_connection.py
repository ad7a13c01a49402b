"""A session on a socket: what came in one read is acknowledged once, at once."""

import asyncio
import socket
import sys
from itertools import pairwise
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosedOK

from tenex.nostr.connection import AT_ONCE, ClientConnection
from tenex.nostr.timeouts import RelayTimeouts
from tenex.nostr.websocket import RelaySocket
from tests.fakes.virtual import virtual_time


class Socket:
    """Both the socket and its transport: gives frames read by read, and notes what is acknowledged and sent."""

    def __init__(self, *reads: list[str]) -> None:
        self.transport = self
        self._reads = list(reads)
        self._frames: list[str] = []
        self.acked: list[int] = []
        """Frames that had been handed on when an option was set."""
        self.handed = 0
        self.sent: list[tuple[float, str]] = []
        """Frames, each with its time."""

    def get_extra_info(self, _name: str) -> "Socket":
        return self

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option, value) == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self.acked.append(self.handed)

    async def receive(self) -> str:
        if not self._frames:
            await asyncio.sleep(0)  # as websockets does, which gives what it holds without a pause
            if not self._reads:
                raise ConnectionClosedOK(None, None)
            self._frames = self._reads.pop(0)
        self.handed += 1
        return self._frames.pop(0)

    async def send(self, frame: str) -> None:
        self.sent.append((asyncio.get_running_loop().time(), frame))


def session(ws: Socket, timeouts: RelayTimeouts) -> ClientConnection:
    socket_ = cast("RelaySocket", ws)
    return ClientConnection(socket_, "ws://127.0.0.1:1", prefix="1.", identity=None, timeouts=timeouts, now=lambda: 0.0)


async def test_other_tasks_run_while_a_burst_of_frames_is_read() -> None:
    """The socket hands on all that has arrived without a pause, which took half a second for 2,000 notes."""
    ws = Socket(['["NOTICE","hello"]'] * 2_000)
    handed = [0]

    async def look() -> None:
        while True:
            handed.append(ws.handed)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await session(ws, RelayTimeouts()).read()
    looking.cancel()
    assert max(after - before for before, after in pairwise(handed)) <= AT_ONCE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the option")
async def test_each_read_of_the_socket_is_acknowledged_once_with_its_first_frame() -> None:
    notice = '["NOTICE","hello"]'
    ws = Socket([notice], [notice] * 3, [notice] * 2, [notice])
    await session(ws, RelayTimeouts()).read()
    assert ws.acked == [1, 2, 5, 7]


@virtual_time
async def test_events_leave_at_once_but_after_what_is_queued_and_within_the_rate() -> None:
    ws = Socket()
    connection = session(ws, RelayTimeouts(frames_per_second=2.0))
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[object]] = [group.create_task(connection.write())]
        await asyncio.sleep(0)
        tasks.append(group.create_task(connection.publish("a", "event a", 60)))
        await asyncio.sleep(0)
        assert [frame for _, frame in ws.sent] == ["event a"], "without a round of the loop"
        connection.request([{"kinds": [1]}], lambda _: None)
        tasks += [group.create_task(connection.publish(name, f"event {name}", 60)) for name in "bcd"]
        await asyncio.sleep(10)
        for task in tasks:
            task.cancel()
    assert [frame[:7] for _, frame in ws.sent] == ["event a", '["REQ",', "event b", "event c", "event d"]
    assert [at for at, _ in ws.sent] == [0.0, 0.0, 0.5, 1.0, 1.5]


@virtual_time
async def test_a_connection_that_takes_no_frame_is_dropped_when_a_ping_would_be_overdue() -> None:
    class Stuck(Socket):
        aborted: float | None = None

        async def send(self, frame: str) -> None:
            await asyncio.Event().wait()

        def abort(self) -> None:
            self.aborted = asyncio.get_running_loop().time()

    ws = Stuck()
    connection = session(ws, RelayTimeouts(ping_interval=20.0, ping_timeout=20.0))
    writing = asyncio.create_task(connection.write())
    connection.request([{"kinds": [1]}], lambda _: None)
    await asyncio.sleep(60)
    assert ws.aborted == 40.0
    assert writing.done()


async def test_the_first_of_two_answers_to_an_event_counts() -> None:
    name = "1" * 64
    connection = session(Socket([f'["OK","{name}",true,"first"]', f'["OK","{name}",false,"second"]']), RelayTimeouts())
    publishing = asyncio.create_task(connection.publish(name, "event", 60))
    await asyncio.sleep(0)
    await connection.read()
    assert (await publishing).text == "first"
