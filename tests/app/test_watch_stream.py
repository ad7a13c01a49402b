"""What clients of the control socket can watch, and that nothing is kept without one."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tenex.app import watch_stream as module
from tenex.app.watch_stream import WatchStream
from tenex.core.errors import UsageError
from tenex.core.ids import Slug
from tenex.core.work.records import TurnOpened
from tenex.output_states import OutputProgress
from tenex.runtime.clock import SystemClock
from tenex.service import control
from tenex.service.client import ask
from tenex.service.control import control_socket
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import step_until
from tests.fakes.workflows import started


def progress(text: str, kind: Literal["piece", "closed", "refused"] = "piece") -> OutputProgress:
    return OutputProgress(
        conversation="c",
        agent=Slug("executor"),
        state="thinking",
        readable_name="thinking",
        emoji="🧠",
        color="dim cyan",
        kind=kind,
        text=text,
    )


def texts(answer: dict[str, Any]) -> list[str]:
    return [entry["text"] for entry in answer["entries"]]


@pytest.fixture
def stream() -> WatchStream:
    return WatchStream(SystemClock())


async def test_a_client_gets_what_is_written_from_its_first_request_on(stream: WatchStream, tmp_path: Path) -> None:
    stream.on_output(progress("before the first request"))
    async with control_socket(tmp_path / "s", {"watch": stream.watch}):
        begun = await ask(tmp_path / "s", "watch")
        assert begun["entries"] == []
        stream.on_output(progress("one"))
        first = await ask(tmp_path / "s", "watch", after=begun["after"])
        waiting = asyncio.create_task(ask(tmp_path / "s", "watch", after=first["after"]))
        while not stream.is_awaited:
            await asyncio.sleep(0)
        stream.on_output(progress("x" * 9_000, "closed"))
        second = await waiting
    assert texts(first) == ["one"]
    assert first["entries"][0]["emoji"] == "🧠"
    assert [len(text) for text in texts(second)] == [module.SEGMENT_LENGTH]
    assert texts(await stream.watch({"after": begun["after"]})) == texts(first) + texts(second), "for a second client"


async def test_nothing_is_kept_once_no_client_watches(stream: WatchStream, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tenex.app.watch_stream.time.monotonic", lambda: now[0])
    after = (await stream.watch({}))["after"]
    stream.on_output(progress("kept"))
    now[0] += module.GONE + 1
    stream.on_output(progress("not kept"))
    monkeypatch.setattr(module, "PATIENCE", 0)
    assert texts(await stream.watch({"after": after})) == []


async def test_watchers_leave_room_at_the_socket_for_orders(stream: WatchStream, tmp_path: Path) -> None:
    async def status(_: Any) -> str:
        return "running"

    async with control_socket(tmp_path / "s", {"watch": stream.watch, "status": status}):
        watching = [asyncio.create_task(ask(tmp_path / "s", "watch", after=0)) for _ in range(control.CLIENTS - 1)]
        while sum(task.done() for task in watching) < len(watching) - module.WATCHERS:
            await asyncio.sleep(0)
        assert await ask(tmp_path / "s", "status") == "running"
        stream.on_output(progress("one"))
        await asyncio.wait(watching)
    served = [task for task in watching if task.exception() is None]
    assert len(served) == module.WATCHERS
    assert all("others watch" in str(task.exception()) for task in set(watching) - {*served})
    assert all(texts(task.result()) == ["one"] for task in served)


async def test_a_number_is_required(stream: WatchStream) -> None:
    with pytest.raises(UsageError):
        await stream.watch({"after": "x"})


async def test_a_client_that_comes_late_is_shown_where_the_conversation_is(stream: WatchStream) -> None:
    """The turn of a workflow is shown as one of that workflow, though its beginning was not watched."""
    scenario = started(TransitionGraph.sequence(["writer", "editor"]))
    after = (await stream.watch({}))["after"]
    first = len(scenario.records())
    step_until(scenario, lambda it: any(isinstance(record, TurnOpened) for record in it.records()[first:]))
    (opened,) = (record for record in scenario.records()[first:] if isinstance(record, TurnOpened))
    stream.on_records(scenario.conversation, [opened])
    (entry,) = (await stream.watch({"after": after}))["entries"]
    assert [line["head"] for line in entry["lines"]] == [f"{opened.turn_id} · review"]
    assert entry["status"]["place"] == "@review"
