"""Stopping in stages: what is under way ends, nothing new begins, nothing is lost; a second signal does not wait."""

import fcntl
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import Folder, Process, daemon, of_kind, ordered
from .moments import Moment

FORCED = 5
REQUEST = "Create hello.py that prints hello"
ASKING = "Create a script that prints hello; ask me which name it should have"


async def hold(folder: Folder) -> str:
    """Have a conversation begin, and wait until the daemon waits in the middle of it."""
    name = await folder.write(REQUEST)
    await person.until((folder.marks / "held").exists)
    return name


async def begin_to_stop(process: Process) -> None:
    process.signal(signal.SIGTERM)
    await process.until("runtime.stopping")


def is_free(folder: Folder) -> bool:
    """Whether no process holds the folder."""
    with (folder.data / "conversations" / ".lock").open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def finish(folder: Folder, *names: str) -> None:
    """Start again as an operator does; every conversation has to arrive."""
    async with daemon(folder) as process:
        for name in names:
            await folder.until(name, "ended")
        assert await process.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_daemon_stops_at_once(folder: Folder, number: int) -> None:
    """Exit code 0 and a free folder, far before the deadline."""
    async with daemon(folder) as process:
        await process.until("relay.connected")
        assert not is_free(folder)
        began = time.monotonic()
        process.signal(number)
        assert await process.ended() == 0
        assert time.monotonic() - began < 4, "half of the deadline, and it had nothing to wait for"
        assert process.events()[-1] == "runtime.stopped"
    assert is_free(folder)


@pytest.mark.parametrize(("moment", "at"), [("model", 2), ("tool", 2)])
async def test_a_step_under_way_ends_and_is_kept_and_no_other_begins(folder: Folder, moment: Moment, at: int) -> None:
    """A model call that is paid for, or a tool that works, is let finish; what it leads to waits for the next start."""
    async with ordered(folder, moment, at, hold=True) as process:
        name = await hold(folder)
        before = folder.records(name)
        await begin_to_stop(process)
        (folder.marks / "go").touch()
        assert await process.ended() == 0
        assert process.logs[-1]["rested"] is True
    new = folder.records(name)[len(before) :]
    ran = len(folder.executions())
    if moment == "model":
        assert len(of_kind(new, r.ModelResponded)) == 1
        assert of_kind(new, r.ToolCallCompleted) == []
    else:
        assert len(of_kind(new, r.ToolCallCompleted)) == 1
        assert of_kind(new, r.ModelResponded) == []
    assert folder.view(name)["seq"] == len(folder.records(name))
    assert is_free(folder)
    async with ordered(folder) as second:
        await folder.until(name, "ended")
        assert await second.stop() == 0
    keys = [key for key, _, _ in folder.executions()]
    assert len(keys) == len(set(keys)), "a call that was kept ran again"
    assert len(keys) > ran


async def test_what_comes_while_it_stops_is_taken_in_by_the_next_start(folder: Folder) -> None:
    """New work, and the answer to a question that is open, are refused without a word; the relay keeps both for us."""
    async with ordered(folder, "model", 2, hold=True) as process:
        asking = await folder.write(ASKING)
        await person.until(lambda: folder.state(asking).is_parked)
        name = await hold(folder)
        await begin_to_stop(process)
        late = await folder.write("Create bye.py that prints bye")
        answer = await folder.write("greeter.py", to=asking)
        (folder.marks / "go").touch()
        assert await process.ended() == 0
    assert not folder.conversation(late).exists()
    assert folder.state(asking).is_parked
    await finish(folder, name, late, asking)
    assert sorted(path.name for path in folder.workspace.iterdir()) == ["bye.py", "greeter.py", "hello.py"]
    records = folder.records(asking)
    assert [record.event_id for record in of_kind(records, r.MessageRecorded)] == [asking, answer]
    assert len(of_kind(records, r.QuestionAnswered)) == 1


async def test_messages_are_delivered_before_it_ends(folder: Folder) -> None:
    """The outbox is flushed: words that are durable reach the relay, though no step begins any more."""
    async with ordered(folder, "publish", 1, hold=True) as process:
        name = await hold(folder)
        await begin_to_stop(process)
        (folder.marks / "go").touch()
        assert await process.ended() == 0
    sent = [event.id for record in of_kind(folder.records(name), r.MessageSent) for event in record.events]
    seen = await person.stored(folder.url, kinds=[1], authors=sorted(folder.public_keys))
    assert sent
    assert sorted(event["id"] for event in seen) == sorted(sent)
    assert folder.state(name).outbox == {}
    await finish(folder, name)


async def test_a_step_that_takes_too_long_is_cut_off_and_still_pending(folder: Folder) -> None:
    """Past the deadline the exit code is 5; what was cut off is pending on disk, and the next start goes on with it."""
    folder.file.write_text(f"{folder.file.read_text()}\n[shutdown]\ndeadline = 0.3\n")
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await hold(folder)
        before = folder.records(name)
        assert await process.stop() == FORCED
        assert process.logs[-1] | {"timestamp": ""} == {
            "timestamp": "",
            "level": "info",
            "event": "runtime.stopped",
            "rested": False,
            "logger": "tenex.runtime.lifecycle",
        }
    assert folder.records(name) == before
    assert folder.state(name).turn is not None
    assert is_free(folder)
    await finish(folder, name)


async def test_a_second_signal_does_not_wait(folder: Folder) -> None:
    """Exit code 5 at once, though a step is open and the deadline far; nothing that was durable is lost."""
    folder.file.write_text(f"{folder.file.read_text()}\n[shutdown]\ndeadline = 3600\n")
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await hold(folder)
        before = folder.records(name)
        await begin_to_stop(process)
        process.signal(signal.SIGINT)
        assert await process.ended() == FORCED
    assert folder.records(name) == before
    assert is_free(folder)
    await finish(folder, name)


async def test_a_parked_question_survives_a_stop_and_is_answered_after_it(folder: Folder) -> None:
    """`ask` waits through restarts: the answer goes to the run that asked."""
    async with daemon(folder) as first:
        name = await folder.write(ASKING)
        await person.until(lambda: folder.state(name).is_parked)
        assert await first.stop() == 0
    async with daemon(folder) as second:
        await folder.write("greeter.py", to=name)
        await folder.until(name, "ended")
        assert await second.stop() == 0
    assert (folder.workspace / "greeter.py").exists()
    assert len(of_kind(folder.records(name), r.QuestionAnswered)) == 1


async def test_a_relay_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """What it has not received waits on disk: exit code 0 in time, and the next start sends the same bytes."""
    async with FaultRelay() as relay:
        accept = relay.on_event

        async def swallow(peer: Peer, event: dict[str, Any]) -> None:
            if event["kind"] != 1 or event["pubkey"] == folder.owner.public:
                await accept(peer, event)

        folder = Folder(tmp_path / "data", relay.url, "[shutdown]\ndeadline = 3600\n")
        relay.on_event = swallow
        async with daemon(folder) as process:
            name = await folder.write(REQUEST)
            await person.until(lambda: folder.state(name).status == "ended")
            assert await process.stop() == 0
            assert process.logs[-1]["rested"] is True
        state = folder.state(name)
        undelivered = {event.id for row in state.outbox.values() for event in row.events}
        assert undelivered
        relay.on_event = accept
        await finish(folder, name)
        copies = [event for event in relay.events() if event["id"] in undelivered]
        assert {event["id"] for event in copies} == undelivered
        assert len(copies) > len(undelivered)
        for event in copies:
            assert copies[[copy["id"] for copy in copies].index(event["id"])] == event, "one id, two contents"
    assert folder.state(name).outbox == {}


async def test_sigterm_while_no_relay_is_there_ends_it_too(folder: Folder) -> None:
    """A relay that is away holds up nothing but what is undelivered to it."""
    folder.file.write_text(folder.file.read_text().replace(folder.url, "ws://127.0.0.1:9"))
    async with daemon(folder) as process:
        assert await process.stop() == 0
