"""The daemon at work: what it writes, what it logs, what it takes in, one daemon to a folder."""

import json
import re
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


async def test_show_prints_the_phases_and_messages_of_the_file_or_the_file(finished: Finished) -> None:
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
    assert await finished.folder.facts("conversations", "show") == view


async def test_two_conversations_and_a_second_cycle_keep_apart_and_are_listed(folder: Folder) -> None:
    async with daemon(folder):
        one = await folder.write("Create one.py that prints one")
        two = await folder.write("Create two.py that prints two")
        await folder.until(one, "ended")
        await folder.until(two, "ended")
        await folder.write("Create three.py that prints three", to=one)
        await folder.until(one, "ended", cycle=2)
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


def test_no_other_user_may_read_what_is_on_disk(finished: Finished) -> None:
    data = finished.folder.data
    ours = [path for path in data.rglob("*") if (data / "workspace") not in path.parents]
    assert data / "workspace" in ours, (
        "what is in it has the umask of the start, here 0, but no other user can enter it"
    )
    assert len(ours) > 10
    assert [str(path) for path in ours if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_strangers_are_not_answered_owners_also_without_a_tag_and_the_log_cuts_words(
    folder: Folder,
) -> None:
    stranger = SecretKey.generate()
    word = person.note(folder.owner, f"nostr:{folder.project.npub} create hello.py that prints hello")
    other, name = person.note(folder.owner, "Good morning, everybody"), str(word["id"])
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        await process.until("relay.connected")
        theirs = await folder.write("Create evil.py that prints evil", by=stranger)
        await person.publish(folder.url, other, word)
        await folder.until(name, "ended")
        await folder.write("Create worse.py that prints worse", by=stranger, to=name)
        long = await folder.write("Create zebra.txt with " + "xylophone " * 60)
        await folder.until(long, "ended")
        assert await process.stop() == 0
        verdicts = {log["verdict"] for log in process.logs if log["event"] == "message.received"}
        assert verdicts == {"admitted", "elsewhere"}, "a stranger is dropped before"
        assert any(log["level"] == "debug" for log in process.logs)
        assert not [words for words in ("evil", "xylophone " * 21, "nsec1") if words in process.stderr]
    view = folder.view(name)
    assert (view["title"], view["messages"][0]["text"]) == ("create hello.py that prints hello",) * 2
    assert not [one for one in (theirs, str(other["id"])) if folder.conversation(one).exists()]
    assert sorted(path.name for path in folder.workspace.iterdir()) == ["hello.py", "zebra.txt"]
    assert await folder.sent(_e=[theirs]) == []
    assert of_kind(folder.records(name), r.MessageRecorded, lambda record: record.author == stranger.public) == []


@pytest.mark.parametrize("command", ["run", "demo"])
async def test_a_data_folder_that_is_a_file_is_a_sentence(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code, _, err = await tenex(command, "--data", file)
    assert code == 2
    assert f"{file} is not a folder; name another one with --data." in err
    assert "unexpected" not in err


@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["show"], ["show", "c"], ["search", "x"], ["verify"], ["stats"], ["replay"], ["path", "c"]),
        *(["export", "c"], ["rollback", "c", "--to", "1", "--yes"], ["fork", "c", "--to", "1"]),
    ],
    ids=" ".join,
)
async def test_each_command_reports_conversations_that_cannot_be_read(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "conversations").write_text("")
    code, out, err = await tenex_here("conversations", *words, "--data", tmp_path)
    assert (code, out) == (4, "")
    assert f"{tmp_path}/conversations cannot be read: Not a directory. Look who owns it" in err
