"""A router that wishes to skip a check, over real HTTP: the person is asked once, and their answer counts."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.phases import Phase
from tests.fakes.modelprotocol import Json
from tests.fakes.modelscripts import Team, straight, swift
from tests.fakes.modelserver import model_server

from .kit import of_kind
from .loopback import folder_with_model, serving, settled


@pytest.mark.parametrize(("answer", "waived"), [("Yes, please.", True), ("ok wait", False)])
async def test_only_a_clear_yes_to_the_question_skips_a_check(
    tmp_path: Path, relay: str, answer: str, waived: bool
) -> None:
    def router(question: Json) -> Any:
        wish = {"waive": ["verification"]} if len(question["messages"]) == 1 and not question["waived"] else {}
        return {**straight(question), **wish}

    async with model_server(Team(router, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-09.txt, a parser that can skip blank lines.")
            await settled(folder, name, "waiting")
            await folder.write(answer, to=name)
            await settled(folder, name, messages=2)
            assert await process.stop() == 0
    records = folder.records(name)
    assert len(of_kind(records, r.WaiverRequested)) == 1
    assert bool(of_kind(records, r.Waived)) is waived
    assert (Phase.VERIFICATION in [turn.phase for turn in of_kind(records, r.TurnOpened)]) is not waived
