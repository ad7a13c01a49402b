"""Private words reach whoever looks on at the socket, and are kept for nobody else."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tenex.app import thought_stream as module
from tenex.app.thought_stream import Thoughts
from tenex.core.errors import UsageError
from tenex.core.ids import Slug
from tenex.output_states import OutputProgress
from tenex.service import control
from tenex.service.client import ask
from tenex.service.control import control_socket


def told(text: str, kind: Literal["piece", "closed", "refused"] = "piece") -> OutputProgress:
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
    return [one["text"] for one in answer["told"]]


async def test_who_looks_on_hears_what_is_written_from_then_on(tmp_path: Path) -> None:
    thoughts = Thoughts()
    thoughts.hear(told("before anybody looked"))
    async with control_socket(tmp_path / "s", {"watch": thoughts.watch}):
        begun = await ask(tmp_path / "s", "watch")
        assert begun["told"] == []
        thoughts.hear(told("one"))
        first = await ask(tmp_path / "s", "watch", after=begun["after"])
        waiting = asyncio.create_task(ask(tmp_path / "s", "watch", after=first["after"]))
        while not thoughts.is_awaited:
            await asyncio.sleep(0)
        thoughts.hear(told("x" * 9_000, "closed"))
        second = await waiting
    assert texts(first) == ["one"]
    assert first["told"][0]["emoji"] == "🧠"
    assert [len(text) for text in texts(second)] == [module.LONGEST]
    assert texts(await thoughts.watch({"after": begun["after"]})) == texts(first) + texts(second), "another asks too"


async def test_nothing_is_kept_once_nobody_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tenex.app.thought_stream.time.monotonic", lambda: now[0])
    thoughts = Thoughts()
    after = (await thoughts.watch({}))["after"]
    thoughts.hear(told("heard"))
    now[0] += module.GONE + 1
    thoughts.hear(told("nobody is there"))
    monkeypatch.setattr(module, "PATIENCE", 0)
    assert texts(await thoughts.watch({"after": after})) == []


async def test_who_looks_on_leaves_room_at_the_socket_for_orders(tmp_path: Path) -> None:
    thoughts = Thoughts()

    async def status(_: Any) -> str:
        return "well"

    async with control_socket(tmp_path / "s", {"watch": thoughts.watch, "status": status}):
        looking = [asyncio.create_task(ask(tmp_path / "s", "watch", after=0)) for _ in range(control.CLIENTS - 1)]
        while sum(task.done() for task in looking) < len(looking) - module.LOOKING:
            await asyncio.sleep(0)
        assert await ask(tmp_path / "s", "status") == "well"
        thoughts.hear(told("one"))
        await asyncio.wait(looking)
    heard = [task for task in looking if task.exception() is None]
    assert len(heard) == module.LOOKING
    assert all("others watch" in str(task.exception()) for task in set(looking) - {*heard})
    assert all(texts(task.result()) == ["one"] for task in heard)


async def test_no_more_is_kept_of_a_segment_than_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    thoughts = Thoughts()
    await thoughts.watch({})
    thoughts.hear(told("x" * 200_000, "closed"))
    ((_, kept),) = thoughts._kept
    assert len(kept["text"]) == module.LONGEST


async def test_a_strange_question_is_refused() -> None:
    with pytest.raises(UsageError):
        await Thoughts().watch({"after": "x"})
