"""`tenex conversations import`, where the disk or the file is not as it should be."""

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from tenex.cli.main import main
from tenex.core.ids import Millis
from tenex.store import view
from tenex.store.archive import packed
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases


@pytest.fixture
def file(tmp_path: Path) -> Path:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("I want something nice")
    scenario.settle()
    file = tmp_path / "carried.jsonl"
    file.write_bytes(packed(ID, [record for decision in scenario.journal for record in decision], Millis(1)))
    return file


def test_a_disk_that_takes_the_records_and_not_the_view_has_the_conversation(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(view.Views, "show", full)
    assert main(["conversations", "import", str(file), "--data", str(tmp_path / "data")]) == 0
    out, said = capsys.readouterr()
    assert "imported." in out
    assert "conversation.json could not be written: No space left on device." in said
    monkeypatch.undo()
    assert main(["conversations", "import", str(file), "--data", str(tmp_path / "data")]) == 0
    assert "already here, unchanged." in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "no JSON", "[]", '{"id": 5}', '{"id": "../../etc"}'])
def test_a_file_that_is_no_conversation_is_named_and_nothing_is_made(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are those of an import: nothing here can be rebuilt from a relay."""
    (tmp_path / "odd.json").write_text(content)
    assert main(["conversations", "import", str(tmp_path / "odd.json"), "--data", str(tmp_path / "data")]) in (2, 4)
    said = capsys.readouterr().err
    assert said.startswith("tenex: ")
    assert "--from relay" not in said
    assert not [path for path in (tmp_path / "data" / "conversations").iterdir() if path.name != ".lock"]


def test_a_file_of_a_newer_program_is_called_that(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not a broken file of an older one, which nobody could mend."""
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2', 1))
    assert main(["conversations", "import", str(file), "--data", str(tmp_path / "data")]) == 4
    assert "it was exported by a newer tenex" in capsys.readouterr().err
