"""Stopping in stages: what is under way ends, nothing new begins, nothing is lost; a second signal does not wait."""

import asyncio
import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.store.lock import FolderLock
from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import Folder, Process, daemon, of_kind, ordered, tenex_here
from .moments import Moment

FORCED = 5
REQUEST = "Create hello.py that prints hello"
ASKING = "Create a script that prints hello; ask me which name it should have"


async def hold(folder: Folder) -> str:
    """Have a conversation begin, and wait until the daemon waits in the middle of it."""
    name = await folder.write(REQUEST)
    await folder.held()
    return name


async def begin_to_stop(process: Process) -> None:
    process.signal(signal.SIGTERM)
    await process.until("runtime.stopping")


def is_free(folder: Folder) -> bool:
    with (folder.data / "conversations" / ".lock").open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def finish(folder: Folder, *names: str) -> None:
    """Start again as an operator does; every conversation has to arrive."""
    async with ordered(folder):
        for name in names:
            await folder.until(name, "ended")


async def test_an_idle_daemon_whose_relay_is_away_stops_at_once(folder: Folder) -> None:
    folder.edit(folder.url, "ws://127.0.0.1:9")
    async with daemon(folder) as process:
        assert not is_free(folder)
        began = time.monotonic()
        process.signal(signal.SIGINT)
        assert await process.ended() == 0
        assert time.monotonic() - began < 4, "half of the deadline, and it had nothing to wait for"
        assert process.events()[-1] == "runtime.stopped"
    assert is_free(folder)


@pytest.mark.parametrize("moment", ["model", "tool"])
async def test_a_step_under_way_ends_and_is_kept_and_no_other_begins(folder: Folder, moment: Moment) -> None:
    async with ordered(folder, moment, 2, hold=True) as process:
        name = await hold(folder)
        before = folder.records(name)
        await begin_to_stop(process)
        folder.let_go()
        assert await process.ended() == 0
        assert process.logs[-1]["rested"] is True
    new = folder.records(name)[len(before) :]
    ran = len(folder.executions())
    done = [len(of_kind(new, kind)) for kind in (r.ModelResponded, r.ToolCallCompleted)]
    assert done == ([1, 0] if moment == "model" else [0, 1])
    assert folder.view(name)["seq"] == len(folder.records(name))
    await finish(folder, name)
    keys = [key for key, _, _ in folder.executions()]
    assert len(keys) == len(set(keys)), "a call that was kept ran again"
    assert len(keys) > ran


async def test_what_comes_while_it_stops_is_taken_in_by_the_next_start(folder: Folder) -> None:
    async with ordered(folder, "model", 2, hold=True) as process:
        asking = await folder.write(ASKING)
        await person.until(lambda: folder.state(asking).work.is_parked)
        name = await hold(folder)
        await begin_to_stop(process)
        late = await folder.write("Create bye.py that prints bye")
        answer = await folder.write("greeter.py", to=asking)
        folder.let_go()
        assert await process.ended() == 0
    assert not folder.conversation(late).exists()
    assert folder.state(asking).work.is_parked
    await finish(folder, name, late, asking)
    assert sorted(path.name for path in folder.workspace.iterdir()) == ["bye.py", "greeter.py", "hello.py"]
    records = folder.records(asking)
    assert [record.event_id for record in of_kind(records, r.MessageRecorded)] == [asking, answer]
    assert len(of_kind(records, r.QuestionAnswered)) == 1


async def test_messages_are_delivered_before_it_ends(folder: Folder) -> None:
    async with ordered(folder, "publish", 1, hold=True) as process:
        name = await hold(folder)
        await begin_to_stop(process)
        folder.let_go()
        assert await process.ended() == 0
    sent = [event.id for record in of_kind(folder.records(name), r.MessageSent) for event in record.events]
    assert sorted(event["id"] for event in await folder.sent()) == sorted(sent) != []
    assert folder.state(name).delivery.outbox == {}


@pytest.mark.parametrize("is_signalled_again", [False, True])
async def test_a_step_that_is_cut_off_is_still_pending(folder: Folder, *, is_signalled_again: bool) -> None:
    folder.edit("", f"[shutdown]\ndeadline = {3600 if is_signalled_again else 0.3}\n")
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await hold(folder)
        before = folder.records(name)
        await begin_to_stop(process)
        if is_signalled_again:
            process.signal(signal.SIGINT)
        assert await process.ended() == FORCED
        if not is_signalled_again:
            assert (process.logs[-1]["event"], process.logs[-1]["rested"]) == ("runtime.stopped", False)
    assert folder.records(name) == before
    assert folder.state(name).work.turn is not None
    assert is_free(folder)
    await finish(folder, name)


async def test_a_relay_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async with FaultRelay() as relay:

        async def swallow(peer: Peer, event: dict[str, Any]) -> None:
            if event["kind"] != 1 or event["pubkey"] == folder.owner.public:
                await relay.accept(peer, event)

        folder = Folder(tmp_path / "data", relay.url, "[shutdown]\ndeadline = 3600\n")
        relay.on_event = swallow
        async with daemon(folder) as process:
            name = await folder.write(REQUEST)
            await person.until(lambda: folder.state(name).cycle.status == "ended")
            assert await process.stop() == 0
            assert process.logs[-1]["rested"] is True
        undelivered = {event.id for row in folder.state(name).delivery.outbox.values() for event in row.events}
        assert undelivered
        relay.on_event = relay.accept
        await finish(folder, name)
        await folder.delivered(name)
        copies = [event for event in relay.events() if event["id"] in undelivered]
        assert {event["id"] for event in copies} == undelivered
        assert len(copies) > len(undelivered)
        first = {event["id"]: event for event in reversed(copies)}
        assert all(first[event["id"]] == event for event in copies), "one id, two contents"


async def test_the_command_stop_waits_until_it_has_ended_and_never_signals_twice(folder: Folder) -> None:
    lock = folder.data / "conversations" / ".lock"
    folder.edit("", "[shutdown]\ndeadline = 3600\n")  # it ends when its call has returned, however slow the machine is
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await hold(folder)
        code, _, err = await tenex_here("stop", "--timeout", "1", "--data", folder.data)
        assert (code, f"Process {process.pid} has not ended within 1 s" in err) == (1, True)
        assert lock.read_text() == f"{process.pid}\n"
        code, _, err = await tenex_here("stop", "--timeout", "1", "--data", folder.data)
        assert (code, f"Process {process.pid} has not ended within 1 s" in err) == (1, True)
        again = asyncio.create_task(tenex_here("stop", "--json", "--data", folder.data))
        folder.let_go()
        code, out, err = await again
        if code:  # it had ended before the command looked
            assert "No daemon runs" in err
        else:
            assert json.loads(out) == {"stopped": process.pid}
        assert await process.ended() == 0, "the other commands forced nothing"
    assert lock.read_text() == ""
    assert folder.state(name).work.turn is not None
    for word in ("stop", "reload"):
        code, _, err = await tenex_here(word, "--data", folder.data)
        assert (code, f"No daemon runs on {folder.data}. `tenex --data {folder.data} run` starts one." in err) == (
            1,
            True,
        )
    lock.write_text(f"{os.getpid()}\n")  # as a killed daemon leaves it, once its id belongs to somebody else
    code, _, err = await tenex_here("stop", "--data", folder.data)
    assert (code, "No daemon runs" in err) == (1, True)


async def test_stop_signals_no_other_command_that_works_in_the_folder(folder: Folder) -> None:
    with FolderLock(folder.data / "conversations"):
        for word in ("stop", "reload"):
            code, _, err = await tenex_here(word, "--timeout", "0.1", "--data", folder.data)
            assert (code, f"Process {os.getpid()} holds" in err) == (1, True)


async def test_the_command_reload_prints_what_it_did_and_every_fault(folder: Folder) -> None:
    async with daemon(folder) as process:
        folder.edit("", '[limits]\nsteps_per_run = 7\n[log]\nlevel = "debug"\n')
        code, out, _ = await tenex_here("reload", "--data", folder.data)
        assert (code, f"Reloaded (process {process.pid})" in out, "[log] has changed" in out) == (0, True, True)
        folder.edit("steps_per_run = 7", "steps_per_run = 'many'\nnonsense = 1")
        code, out, err = await tenex_here("reload", "--data", folder.data)
        assert (code, out) == (3, "")
        assert "the daemon goes on with the configuration it has" in err
        assert all(word in err for word in ("steps_per_run", "nonsense"))


async def test_the_command_reload_names_what_was_left_out(folder: Folder) -> None:
    async with daemon(folder) as process:
        (folder.data / "tools").mkdir(mode=0o700)
        (folder.data / "tools" / "broken.py").write_text("from tenex.plugins import tool\nthis is no Python\n")
        servers = '[mcp.servers.old]\ntype = "sse"\nurl = "https://x.example/sse"\n'
        servers += '[mcp.servers.gone]\ncommand = "no-such-program-here"\nsandbox = false\n'
        folder.edit("", f'[tools.agents.executor]\nadd = ["broken", "nothing"]\n{servers}')
        code, out, _ = await tenex_here("reload", "--data", folder.data)
        assert code == 1
        assert f"Reloaded (process {process.pid}), but for what is named below." in out
        for sentence in (
            "broken.py: line 2: it is not valid Python",
            "tools.agents.executor.add: there is no tool 'nothing'",
            'type "sse" is not supported',
            "there is no program no-such-program-here",
        ):
            assert sentence in out
        assert all(line.startswith(("Reloaded", "Left out: ")) for line in out.splitlines())
