"""`tenex conversations`: the same story as on disk, beside a running daemon and after it."""

import re
from pathlib import Path

import pytest

from .conftest import Finished
from .kit import FULL_CYCLE, phases, tenex_here


async def test_show_prints_the_phases_and_messages_of_the_file(finished: Finished) -> None:
    view = finished.folder.view(finished.name)
    code, out, err = await tenex_here("conversations", "show", finished.name[:8], "--data", finished.folder.data)
    assert (code, err) == (0, "")
    assert re.findall(r"^== \S+ (\w+) → (\w+)", out, re.MULTILINE) == [
        (transition["from"], transition["to"]) for transition in view["phaseTransitions"]
    ]
    assert re.findall(r"(turn-\d+) · (\w+)", out) == [
        (turn["turnId"], turn["phase"]) for turn in view["orchestratorTurns"]
    ]
    for message in view["messages"]:
        assert message["text"].splitlines()[0] in out
    for transition in view["phaseTransitions"]:
        assert transition["reason"] in out
    assert out.startswith(f"{view['title']}\n{finished.name}\n")
    assert "END" in out


async def test_show_json_is_the_file(finished: Finished) -> None:
    shown = await finished.folder.facts("conversations", "show")
    assert shown == finished.folder.view(finished.name)
    assert phases(shown) == FULL_CYCLE


@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["show"], ["show", "c"], ["search", "x"], ["verify"], ["stats"], ["replay"], ["path", "c"]),
        *(["export", "c"], ["rollback", "c", "--to", "1", "--yes"], ["fork", "c", "--at", "1"]),
    ],
    ids=" ".join,
)
async def test_each_command_reports_conversations_that_cannot_be_read(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "conversations").write_text("")
    code, out, err = await tenex_here("conversations", *words, "--data", tmp_path)
    assert (code, out) == (4, "")
    assert f"{tmp_path}/conversations cannot be read: Not a directory. Look who owns it" in err
