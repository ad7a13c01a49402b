"""What is done to a relay of rooms while a daemon works there: the rows of the sweep in `test_room_faults.py`.

A fault is a context: it begins on entering, and what has not ended by itself ends on leaving.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.kits.room_relay import RoomClient, RoomRelay

Frame = list[Any]
Doing = Callable[[RoomRelay], AbstractAsyncContextManager[None]]

AWAY: Final = 3.0
"""Seconds for which a relay is away, silent or slow: several of the client's timeouts in these tests."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row."""

    name: str
    run: Doing
    lasts: float = 0.0
    """Seconds for which it lasts after the work goes on; 0: it ends by itself."""
    hides_rooms: bool = False
    """Whether the daemon cannot see at its start that the first message was written in a room, for longer than it waits
    for that; then the answers quote it."""


# ---- connections -----------------------------------------------------------------------------------------------------


def cut_at(number: int, *, handled: bool) -> Doing:
    """The connection ends at the so-many-th frame of any: before the relay takes it, or before it answers."""

    @asynccontextmanager
    async def run(relay: RoomRelay) -> AsyncIterator[None]:
        count = 0

        def on_frame(client: RoomClient, frame: Frame) -> bool:
            nonlocal count
            count += 1
            if count != number:
                return True
            if handled:
                asyncio.get_running_loop().call_soon(client.cut)
            else:
                client.cut()
            return handled

        relay.on_frame = on_frame
        cut_all(relay)
        yield

    return run


def cut_all(relay: RoomRelay) -> None:
    for client in list(relay.clients):
        client.cut()


@asynccontextmanager
async def drop(relay: RoomRelay) -> AsyncIterator[None]:
    cut_all(relay)
    yield


@asynccontextmanager
async def five_drops(relay: RoomRelay) -> AsyncIterator[None]:
    cut_all(relay)

    async def again() -> None:
        for _ in range(4):
            await asyncio.sleep(0.3)
            cut_all(relay)

    dropping = asyncio.create_task(again())
    yield
    await dropping


@asynccontextmanager
async def down(relay: RoomRelay) -> AsyncIterator[None]:
    await relay.stop()
    yield
    await relay.start()


@asynccontextmanager
async def restart(relay: RoomRelay) -> AsyncIterator[None]:
    await relay.stop()
    await relay.start()
    yield


@asynccontextmanager
async def half_open(relay: RoomRelay) -> AsyncIterator[None]:
    """It reads nothing that comes by the connections there are, and answers no ping."""
    for client in list(relay.clients):
        client.socket.transport.pause_reading()
    yield


@asynccontextmanager
async def silent(relay: RoomRelay) -> AsyncIterator[None]:
    """It takes what comes and says nothing."""
    relay.on_send = lambda client, frame: []
    yield
    relay.on_send = lambda client, frame: [frame]


@asynccontextmanager
async def deaf(relay: RoomRelay) -> AsyncIterator[None]:
    """It takes nothing that comes, on new connections too."""
    relay.on_frame = lambda client, frame: False
    cut_all(relay)
    yield
    relay.on_frame = lambda client, frame: True


@asynccontextmanager
async def slow(relay: RoomRelay) -> AsyncIterator[None]:
    """It takes each frame two seconds late: later than an OK is waited for."""
    loop = asyncio.get_running_loop()
    late: set[int] = set()

    def on_frame(client: RoomClient, frame: Frame) -> bool:
        if id(frame) in late:
            late.discard(id(frame))
            return True
        late.add(id(frame))
        loop.call_later(2.0, client.receive, frame)
        return False

    relay.on_frame = on_frame
    yield
    relay.on_frame = lambda client, frame: True


# ---- answers ---------------------------------------------------------------------------------------------------------


def first_sent(word: str, instead: Callable[[RoomClient, Frame], Sequence[Frame]]) -> Doing:
    """The first frame with this word about each event or subscription is replaced."""

    @asynccontextmanager
    async def run(relay: RoomRelay) -> AsyncIterator[None]:
        replaced: set[str] = set()

        def on_send(client: RoomClient, frame: Frame) -> Sequence[Frame]:
            if frame[0] != word:
                return [frame]
            about = frame[1] if word == "OK" else _wanted(client.subscriptions[frame[1]][0])
            if about in replaced:
                return [frame]
            replaced.add(about)
            return instead(client, frame)

        relay.on_send = on_send
        cut_all(relay)
        yield

    return run


def _wanted(filters: Sequence[Any]) -> str:
    """What a REQ asks for, whenever it is made."""
    bare = [{name: value for name, value in each.items() if name not in ("since", "until")} for each in filters]
    return json.dumps(bare)


def _closing(client: RoomClient, frame: Frame) -> Sequence[Frame]:
    del client.subscriptions[frame[1]]
    return [["CLOSED", frame[1], "error: busy"]]


def _refusing(why: str) -> Callable[[RoomClient, Frame], Sequence[Frame]]:
    return lambda client, frame: [["OK", frame[1], False, why]]


def first_refused(word: str, why: str) -> Doing:
    """The first frame with this word about each event or subscription is not taken, and answered so; "": not at all."""

    @asynccontextmanager
    async def run(relay: RoomRelay) -> AsyncIterator[None]:
        refused: set[str] = set()

        def on_frame(client: RoomClient, frame: Frame) -> bool:
            if frame[0] != word:
                return True
            about = _wanted(frame[2:]) if word == "REQ" else frame[1]["id"] if word == "EVENT" else client.key
            if about in refused:
                return True
            refused.add(about)
            if why.startswith("NOTICE "):
                client.send("NOTICE", why.removeprefix("NOTICE "))
            elif why and word == "REQ":
                client.send("CLOSED", frame[1], why)
            elif why:
                client.send("OK", frame[1]["id"], False, why)
            return False

        relay.on_frame = on_frame
        cut_all(relay)
        yield

    return run


def closed(why: str) -> Doing:
    """Every subscription is closed by the relay."""

    @asynccontextmanager
    async def run(relay: RoomRelay) -> AsyncIterator[None]:
        for client in list(relay.clients):
            for name in list(client.subscriptions):
                del client.subscriptions[name]
                client.send("CLOSED", name, why)
        yield

    return run


@asynccontextmanager
async def twice(relay: RoomRelay) -> AsyncIterator[None]:
    """Everything is sent twice."""
    relay.on_send = lambda client, frame: [frame, frame]
    cut_all(relay)
    yield


@asynccontextmanager
async def noise(relay: RoomRelay) -> AsyncIterator[None]:
    """Before each frame there are malformed ones, notices, and copies of events without a valid signature."""

    def on_send(client: RoomClient, frame: Frame) -> Sequence[Frame]:
        forged = [[*frame[:2], {**frame[2], "sig": "0" * 128}]] if frame[0] == "EVENT" else []
        return [[], ["EVENT"], ["OK"], ["NOTICE"], ["NOTICE", "hello"], ["CLOSED"], *forged, frame]

    relay.on_send = on_send
    cut_all(relay)
    yield


def document(status: int) -> Doing:
    """Its document is not served, from the next connection on."""

    @asynccontextmanager
    async def run(relay: RoomRelay) -> AsyncIterator[None]:
        relay.document_status = status
        cut_all(relay)
        yield
        relay.document_status = 200

    return run


@asynccontextmanager
async def nothing(relay: RoomRelay) -> AsyncIterator[None]:
    yield


RATE: Final = "rate-limited: quota exceeded; retry in 1s"

FAULTS: Final = (
    Fault("no fault", nothing),
    Fault("the connections are dropped", drop),
    Fault("five drops, one after the other", five_drops),
    Fault("the relay restarts", restart),
    Fault("the relay is down", down, AWAY),
    Fault("half open: nothing is read any more", half_open),
    Fault("the relay says nothing", silent, AWAY),
    Fault("the relay takes nothing", deaf, AWAY),
    Fault("the relay is slow", slow, AWAY),
    Fault("OK is lost", first_sent("OK", lambda client, frame: [])),
    Fault("OK false, error, though it was stored", first_sent("OK", _refusing("error: could not store it"))),
    Fault("EOSE is lost", first_sent("EOSE", lambda client, frame: [])),
    Fault("CLOSED in place of EOSE", first_sent("EOSE", _closing)),
    Fault("EVENT is lost", first_refused("EVENT", "")),
    Fault("EVENT: OK false, error", first_refused("EVENT", "error: could not store it")),
    Fault("EVENT: OK false without a reason", first_refused("EVENT", " ")),
    Fault("EVENT: OK false, rate-limited", first_refused("EVENT", RATE)),
    Fault("EVENT: OK false, auth-required", first_refused("EVENT", "auth-required: not authenticated")),
    Fault("EVENT: NOTICE rate-limited, no OK", first_refused("EVENT", f"NOTICE {RATE}")),
    Fault("REQ is lost", first_refused("REQ", "")),
    Fault("REQ: CLOSED error", first_refused("REQ", "error: could not connect to the database")),
    Fault("REQ: CLOSED rate-limited", first_refused("REQ", RATE)),
    Fault("REQ: CLOSED auth-required", first_refused("REQ", "auth-required: not authenticated")),
    Fault("REQ: CLOSED restricted", first_refused("REQ", "restricted: not a channel member"), hides_rooms=True),
    Fault("AUTH is lost", first_refused("AUTH", "")),
    Fault("AUTH: OK false, auth-required", first_refused("AUTH", "auth-required: verification failed")),
    Fault("AUTH: OK false, error", first_refused("AUTH", "error: could not look up the members")),
    Fault("CLOSED error", closed("error: shutting down idle subscription")),
    Fault("CLOSED without a reason", closed("")),
    Fault("CLOSED rate-limited", closed(RATE)),
    Fault("CLOSED auth-required", closed("auth-required: not authenticated")),
    Fault("CLOSED restricted", closed("restricted: not a channel member")),
    Fault("everything twice", twice),
    Fault("malformed frames, notices and forged copies", noise),
    Fault("the document answers 503", document(503), AWAY, hides_rooms=True),
)
