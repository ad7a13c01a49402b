"""`tenex conversations`: the same story as on disk, beside a running daemon and after it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from . import person
from .conftest import Finished
from .kit import FULL_CYCLE, TENEX, Folder, daemon, ordered, phases, running, tenex_here


async def test_show_prints_the_phases_and_messages_of_the_file(finished: Finished) -> None:
    """What `show` draws from the journal equals `conversation.json`."""
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
    code, out, _ = await tenex_here("conversations", "show", "--json", "--data", finished.folder.data)
    assert code == 0
    shown = json.loads(out)
    assert shown == finished.folder.view(finished.name)
    assert phases(shown) == FULL_CYCLE


async def test_list_shows_the_newest_first_and_paths_lead_there(folder: Folder) -> None:
    async with daemon(folder) as process:
        one, two = [await folder.write(f"Create {name}.py that prints {name}") for name in ("one", "two")]
        await folder.until(one, "ended")
        await folder.until(two, "ended")
        await folder.write("Create three.py that prints three", to=one)
        await folder.until(one, "ended", cycle=2)
        assert await process.stop() == 0
    code, out, _ = await tenex_here("conversations", "list", "--json", "--data", folder.data)
    rows = json.loads(out)
    assert code == 0
    assert [(row["id"], row["status"], row["phase"], row["cycle"]) for row in rows] == [
        (one, "ended", "reflection", 2),
        (two, "ended", "reflection", 1),
    ]
    _, table, _ = await tenex_here("conversations", "list", "--data", folder.data)
    assert [line.split()[0] for line in table.splitlines()] == ["ID", one[:12], two[:12]]
    _, path, _ = await tenex_here("conversations", "path", two[:10].upper(), "--data", folder.data)
    assert path == f"{folder.conversation(two)}\n"
    _, path, _ = await tenex_here("conversations", "path", "--data", folder.data)
    assert path == f"{folder.data / 'conversations'}\n"


async def test_it_looks_while_the_daemon_works(folder: Folder) -> None:
    """Reading takes no lock and disturbs no writer."""
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await folder.write("Create hello.py that prints hello")
        await person.until((folder.marks / "held").exists)
        code, out, err = await tenex_here("conversations", "show", name, "--data", folder.data)
        assert (code, err) == (0, "")
        assert "chat → execute" in out
        assert "active in execute" in out
        code, out, _ = await tenex_here("conversations", "list", "--data", folder.data)
        assert (code, name[:12] in out) == (0, True)
        (folder.marks / "go").touch()
        await folder.until(name, "ended")
        assert await process.stop() == 0


async def test_a_quarantined_conversation_is_listed_with_its_fault(finished: Finished, tmp_path: Path) -> None:
    """`list` reports it and goes on; `show` names the line; nothing is changed."""
    data = tmp_path / "data"
    shutil.copytree(finished.folder.data, data)
    (data / "conversations" / "index.sqlite").unlink()
    journal = data / "conversations" / finished.name / "journal.jsonl"
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(damaged)
    async with running([*TENEX, "run", "--data", str(data)]) as process:
        await process.until("conversation.quarantined")
        assert await process.stop() == 0
    code, out, _ = await tenex_here("conversations", "list", "--json", "--data", data)
    (row,) = json.loads(out)
    assert (code, row["id"], row["status"]) == (0, finished.name, "quarantined")
    assert str(journal) in row["fault"]
    code, _, err = await tenex_here("conversations", "show", finished.name, "--data", data)
    assert code == 4
    assert f"{journal}: line " in err
    assert "Traceback" not in err
    assert journal.read_bytes() == damaged


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "abc"], "2 conversations begin with abc; give more of it: abc"),
        (["show", "ffff"], "No conversation begins with ffff."),
        (["path", "../.."], "No conversation begins with ../.."),
    ],
)
async def test_an_invalid_id_is_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    for end in "12":
        (tmp_path / "conversations" / ("abc" + end * 61)).mkdir(parents=True)
        (tmp_path / "conversations" / ("abc" + end * 61) / "journal.jsonl").touch()
    code, out, err = await tenex_here("conversations", *words, "--data", tmp_path)
    assert (code, out) == (2, "")
    assert sentence in err


async def test_an_empty_folder_lists_no_conversations(tmp_path: Path) -> None:
    code, out, err = await tenex_here("conversations", "list", "--data", tmp_path)
    assert (code, out) == (0, "")
    assert "no conversations" in err
    assert await tenex_here("conversations", "list", "--json", "--data", tmp_path) == (0, "[]\n", "")
    code, _, err = await tenex_here("conversations", "show", "--data", tmp_path)
    assert code == 2
    assert "no conversations" in err


@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["show"], ["show", "c"], ["search", "x"], ["verify"], ["stats"], ["replay"], ["path", "c"]),
        *(["export", "c"], ["rollback", "c", "--to", "1", "--yes"], ["fork", "c", "--at", "1"]),
    ],
    ids=" ".join,
)
async def test_each_command_reports_conversations_that_cannot_be_read(tmp_path: Path, words: list[str]) -> None:
    """As for another user, or where something else has the folder's name."""
    (tmp_path / "conversations").write_text("")
    code, out, err = await tenex_here("conversations", *words, "--data", tmp_path)
    assert (code, out) == (4, "")
    assert f"{tmp_path}/conversations cannot be read: Not a directory. Look who owns it" in err
