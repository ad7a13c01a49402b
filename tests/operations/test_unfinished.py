"""A start reads the conversations that are unfinished and no other: counted by the files that are opened."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tenex.app import open_application
from tenex.cli.init import prepare
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.settings import load
from tests.benchmarks.start import NOWHERE, Lives
from tests.service import person

_noting: list[list[Path]] = []
"""Lists that receive every opened path; an audit hook cannot be removed, so there is one."""


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | Path):
        for noted in _noting:
            noted.append(Path(arguments[0]))


class Silent:
    """A model that never answers, so that unfinished work stays unfinished."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Think for ever."""
        await asyncio.Event().wait()
        raise AssertionError


async def start(data: Path, unfinished: set[str]) -> set[str]:
    """One life of a daemon, until it works on what is unfinished; the names of all it opened and of their folders."""
    settings = load(None, data, env={}, overrides={"shutdown": {"deadline": 0.01}})
    _noting.append([])
    async with open_application(settings, model=Silent()) as app, asyncio.TaskGroup() as group:
        group.create_task(app.serve())
        known = app.runtime.coordinator.conversation
        await person.until(lambda: all(known(ConversationId(name)) for name in unfinished))
        app.runtime.stop()
    return {part for file in _noting.pop() for part in file.parts}


async def test_a_start_opens_no_file_of_a_conversation_in_which_nothing_is_open(tmp_path: Path) -> None:
    """But for the first, which has no index to ask."""
    sys.addaudithook(note)
    data, lives = tmp_path / "data", Lives()
    root = data / "conversations"
    prepare(data, None, [NOWHERE])
    lives.make(root, count=2, unfinished=2)
    unfinished = {entry.name for entry in root.iterdir()}
    lives.make(root, count=10, unfinished=0)
    all_of_them = {entry.name for entry in root.iterdir()}
    assert len(all_of_them) == 12
    assert await start(data, unfinished) & all_of_them == all_of_them
    assert await start(data, unfinished) & all_of_them == unfinished
