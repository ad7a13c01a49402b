"""The daemon at work: what it writes, what it logs, what it takes in, one daemon to a folder."""

import json
import stat
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.nostr.keys import KeyRing, SecretKey

from . import person
from .conftest import WORDS, Finished
from .kit import FULL_CYCLE, Folder, daemon, of_kind, phases, tenex, tenex_here


def test_a_conversation_runs_to_its_end_and_a_stranger_can_follow_it(finished: Finished) -> None:
    view = finished.folder.view(finished.name)
    assert (view["status"], phases(view)) == ("ended", FULL_CYCLE)
    moves, turns = view["phaseTransitions"], view["orchestratorTurns"]
    assert [move["from"] for move in moves] == ["chat", *FULL_CYCLE[:-1]]
    assert {move["agentPubkey"] for move in moves} == {finished.folder.project.public}
    assert all(WORDS in move["message"] for move in moves)
    assert all(move["summary"] for move in moves[1:])
    assert [turn["phase"] for turn in turns] == FULL_CYCLE
    assert all(done["outcome"] == "finished" and done["text"] for turn in turns for done in turn["completions"])
    assert turns[1]["completions"][0]["verdict"] == "verified"
    assert (view["openTurn"], view["running"], view["undelivered"]) == (None, [], 0)
    assert view["seq"] == len(finished.folder.records(finished.name))


async def test_two_conversations_and_a_second_cycle_keep_apart_and_are_listed(folder: Folder) -> None:
    async with daemon(folder):
        one = await folder.write("Create one.py that prints one")
        two = await folder.write("Create two.py that prints two")
        await folder.until(one, "ended")
        await folder.until(two, "ended")
        await folder.write("Create three.py that prints three", to=one)
        await folder.until(one, "ended", cycle=2)
        code, out, err = await tenex("run", "--data", folder.data)
        assert (code, out, "is in use by process" in err) == (4, "", True), "a second daemon"
    assert phases(folder.view(one)) == [*FULL_CYCLE, "chat", *FULL_CYCLE]
    assert folder.view(two)["cycle"] == 1
    assert {path.name for path in folder.workspace.glob("*.py")} == {"one.py", "two.py", "three.py"}
    rows = await folder.facts("conversations", "list")
    assert [tuple(row[part] for part in ("id", "status", "phase", "cycle")) for row in rows] == [
        (one, "ended", "reflection", 2),
        (two, "ended", "reflection", 1),
    ]
    _, table, _ = await tenex_here("conversations", "list", "--data", folder.data)
    assert [line.split()[0] for line in table.splitlines()] == ["ID", one[:12], two[:12]]
    for words, path in (([two[:10].upper()], folder.conversation(two)), ([], folder.data / "conversations")):
        assert await tenex_here("conversations", "path", *words, "--data", folder.data) == (0, f"{path}\n", "")


def test_logs_are_json_without_words_or_keys(finished: Finished) -> None:
    for line in finished.log:
        assert {"timestamp", "level", "event", "logger"} <= set(json.loads(line)), line
    output = "\n".join(finished.log)
    ring = KeyRing(finished.folder.data / "keys")
    for secret in ["xylophone", "nsec1", *(ring.get(key).nsec for key in ring.names())]:
        assert secret not in output
    assert {"runtime.ready", "relay.connected", "tool.returned", "runtime.stopped"} <= finished.events


async def test_words_are_cut_at_debug_and_keys_are_never_logged(folder: Folder) -> None:
    long = "Create zebra.txt with " + "xylophone " * 60
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        name = await folder.write(long)
        await folder.until(name, "ended")
        assert await process.stop() == 0
        assert any(log["level"] == "debug" for log in process.logs)
        assert "xylophone " * 21 not in process.stderr
        assert "nsec1" not in process.stderr


def test_no_other_user_may_read_what_is_on_disk(finished: Finished) -> None:
    data = finished.folder.data
    ours = [*(data / "conversations").rglob("*"), *(data / "keys").rglob("*"), finished.folder.file]
    ours += (data / "workspace").rglob("*")
    assert len(ours) > 10
    assert [str(path) for path in ours if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_a_stranger_is_never_answered_and_an_owner_also_without_a_tag(folder: Folder) -> None:
    stranger = SecretKey.generate()
    word = person.note(folder.owner, f"nostr:{folder.project.npub} create hello.py that prints hello")
    other, name = person.note(folder.owner, "Good morning, everybody"), str(word["id"])
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        await process.until("relay.connected")
        theirs = await folder.write("Create evil.py that prints evil", by=stranger)
        await person.publish(folder.url, other, word)
        await folder.until(name, "ended")
        await folder.write("Create worse.py that prints worse", by=stranger, to=name)
        after = await folder.write("Create bye.py that prints bye")
        await folder.until(after, "ended")
        assert await process.stop() == 0
        verdicts = {log["verdict"] for log in process.logs if log["event"] == "message.received"}
        assert verdicts == {"admitted", "elsewhere"}, "a stranger is dropped before"
        assert "evil" not in process.stderr
    view = folder.view(name)
    assert (view["title"], view["messages"][0]["text"]) == ("create hello.py that prints hello",) * 2
    assert not [one for one in (theirs, str(other["id"])) if folder.conversation(one).exists()]
    assert sorted(path.name for path in folder.workspace.iterdir()) == ["bye.py", "hello.py"]
    assert await person.stored(folder.url, kinds=[1], authors=sorted(folder.public_keys), _e=[theirs]) == []
    assert of_kind(folder.records(name), r.MessageRecorded, lambda record: record.author == stranger.public) == []


@pytest.mark.parametrize("command", ["run", "demo"])
async def test_a_data_folder_that_cannot_be_made_is_a_sentence(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code, _, err = await tenex(command, "--data", file)
    assert code == 3
    assert f"{file}" in err
    assert "cannot be made" in err
    assert "unexpected" not in err
