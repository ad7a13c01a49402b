"""The real daemon on damaged files: what is whole goes on, users of the rest are notified, and no byte is changed."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tenex.core import records as r
from tests.kits.damage import flip, sums
from tests.kits.full_disk import complaints, notices, until_notified, whole

from . import person
from .kit import Folder, daemon, of_kind, tenex, tenex_here

Spoil = Callable[[Path], object]


def as_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)


def as_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no folder")


def left_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        descriptor = os.open(path, os.O_RDONLY)
        left.bind(f"/proc/self/fd/{descriptor}/tenex.sock")
        os.close(descriptor)


def spoilt_index(path: Path) -> None:
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (path / name).write_bytes(b"\xff" * 9_000)


PASSABLE: dict[str, Spoil] = {
    "lessons": lambda data: flip(data / "conversations/_daemon/journal.jsonl"),
    "a folder for the index": lambda data: as_folder(data / "conversations/index.sqlite"),
    "an index of noise": lambda data: spoilt_index(data / "conversations"),
    "no head of the checkpoints": lambda data: (data / "checkpoints/HEAD").write_bytes(b"\x00"),
    "an emptied lock": lambda data: (data / "conversations/.lock").write_bytes(b""),
    "a socket without a listener": left_socket,
    "an empty folder of a conversation": lambda data: (data / "conversations" / ("e" * 64)).mkdir(),
    "a folder for a journal": lambda data: as_folder(data / "conversations" / ("ab" * 32) / "journal.jsonl"),
    "a pipe for a conversation": lambda data: os.mkfifo(data / "conversations" / ("ef" * 32)),
    "a stray file": lambda data: (data / "conversations/notes.txt").write_text("mine"),
}
"""What must not keep a daemon from starting, nor a new conversation from its end."""

REFUSED: dict[str, tuple[Spoil, int, str]] = {
    "a folder for the lock": (lambda data: as_folder(data / "conversations/.lock"), 4, "cannot be opened"),
    "a file for the socket": (lambda data: (data / "tenex.sock").write_text("x"), 3, "no socket"),
    "a file for the conversations": (lambda data: as_file(data / "conversations"), 3, "conversations"),
    "a file for the checkpoints": (lambda data: as_file(data / "checkpoints"), 3, "it must be a folder"),
    "an empty key": (lambda data: (data / "keys/project.nsec").write_bytes(b""), 3, "keys/project.nsec"),
}
"""Without these there is nothing to serve: one sentence, and nothing is changed."""


async def goes_on(folder: Folder, spoils: list[Spoil]) -> None:
    """A daemon on damaged files holds a new conversation to its end, and stops well."""
    for spoil in spoils:
        spoil(folder.data)
    async with daemon(folder) as process:
        new = await folder.write("Create three.py that prints three")
        await folder.until(new, "ended")
        assert (await folder.facts("status"))["conversations"]["suspended"] == []
    assert "Traceback" not in process.stderr
    await whole(folder, new, 1)


async def test_1_3_a_whatever_is_damaged_beside_conversations_a_new_one_comes_to_its_end(worked_in: Folder) -> None:
    conversations = worked_in.data / "conversations"
    await goes_on(worked_in, [PASSABLE[name] for name in PASSABLE if name != "an index of noise"])
    assert (conversations / "_daemon" / "QUARANTINED").exists()
    assert (conversations / ("ab" * 32) / "journal.jsonl").is_dir()
    assert (conversations / "notes.txt").read_text() == "mine"
    found = await complaints(worked_in)
    assert all(place in found for place in ("_daemon/journal.jsonl", "index.sqlite"))


@pytest.mark.soak
@pytest.mark.parametrize("name", PASSABLE)
async def test_each_damage_beside_conversations_stops_no_conversation(worked_in: Folder, name: str) -> None:
    await goes_on(worked_in, [PASSABLE[name]])


@pytest.mark.parametrize(
    "name", [*REFUSED][:1] + [pytest.param(name, marks=pytest.mark.soak) for name in [*REFUSED][1:]]
)
async def test_what_a_daemon_cannot_do_without_is_refused_in_a_sentence(worked_in: Folder, name: str) -> None:
    spoil, expected, words = REFUSED[name]
    spoil(worked_in.data)
    before = sums(worked_in.data)
    code, _, err = await tenex("run", "--data", worked_in.data)
    assert (code, words in err, "Traceback" in err) == (expected, True, False), err
    after = sums(worked_in.data)
    assert {path: after.get(path) for path in before} == before


async def test_a_torn_end_is_kept_beside_the_journal_and_an_edited_view_is_only_a_view(worked_in: Folder) -> None:
    (name,) = worked_in.names
    journal = worked_in.conversation(name) / "journal.jsonl"
    before = journal.read_bytes()
    cut = before[: before.rindex(b"\n", 0, -1) + 40]
    journal.write_bytes(cut)
    (worked_in.conversation(name) / "conversation.json").write_text('{"phase": "plan", "status": "ended"')
    async with daemon(worked_in) as process:
        log = await process.until("journal.torn")
        await worked_in.write("Create two.py that prints two", to=name)
        await worked_in.until(name, "ended", cycle=2)
    kept = worked_in.conversation(name) / Path(log["kept"]).name
    assert str(kept) == log["kept"]
    assert cut.endswith(kept.read_bytes())
    assert worked_in.view(name)["phase"] == "reflection"


async def test_a_message_to_a_damaged_conversation_is_refused_once_and_taken_after_the_repair(folder: Folder) -> None:
    async with daemon(folder) as process:
        name = await folder.write("Create one.py that prints one")
        await folder.until(name, "ended")
    path = folder.conversation(name) / "journal.jsonl"
    good = path.read_bytes()
    damaged = flip(path)
    async with daemon(folder) as process:
        refused = await folder.write("Create two.py that prints two", to=name)
        await until_notified(folder, refused)
        log = await process.until("conversation.quarantined")
        assert (log["level"], log["conversation"], f"{path}: line " in log["reason"]) == ("error", name, True)
        again = await folder.write("Are you there?", to=name)
        other = await folder.write("Create three.py that prints three")
        await folder.until(other, "ended")
        assert "quarantined" in await complaints(folder)
        reports = [await folder.facts("status")]
    reports.append(await folder.facts("status", code=1))
    for report in reports:
        (marked,) = report["conversations"]["quarantined"]
        assert (marked["id"], "line " in marked["why"]) == (name, True)
        assert report["conversations"]["counts"] == {"ended": 1, "quarantined": 1}
    row = next(row for row in await folder.facts("conversations", "list") if row["id"] == name)
    assert (row["status"], str(path) in row["fault"]) == ("quarantined", True)
    code, _, err = await tenex_here("conversations", "show", name, "--data", folder.data)
    assert (code, f"{path}: line " in err, "Traceback" in err) == (4, True, False)
    assert path.read_bytes() == damaged
    assert str(path) in (path.parent / "QUARANTINED").read_text()
    (word,) = await notices(folder)
    assert ["e", refused] in [tag[:2] for tag in word["tags"]]
    assert word["content"].startswith("The files of this conversation are damaged.")
    assert f"rebuild {name[:12]}" in word["content"]
    async with daemon(folder) as process:
        await process.until("user.notified")
    assert await notices(folder) == [word], "relays drop the second copy"
    path.write_bytes(good)

    def are_answered() -> bool:
        wrote = {record.event_id for record in of_kind(folder.records(name), r.MessageRecorded)}
        state = folder.state(name)
        is_over = state.cycle.status in ("ended", "waiting") and state.work.turn is None and not state.delivery.outbox
        return is_over and wrote >= {refused, again}

    async with daemon(folder):
        await person.until(are_answered)


async def test_a_conversation_of_a_newer_version_is_not_called_damaged_and_goes_on_after_the_upgrade(
    worked_in: Folder,
) -> None:
    (name,) = worked_in.names
    path = worked_in.conversation(name) / "journal.jsonl"
    good = path.read_bytes()
    seq = len(worked_in.records(name)) + 1
    body = b'{"v":1,"seq":%d,"remaining":0,"at":1900000000000,"type":"MoodNoted","data":{}' % seq
    newer = good + body + b',"crc":"%08x"}\n' % crc32(body)
    path.write_bytes(newer)
    async with daemon(worked_in) as process:
        refused = await worked_in.write("Create two.py that prints two", to=name)
        await until_notified(worked_in, refused)
        log = await process.until("conversation.quarantined")
        assert "was written by another version of tenex" in log["reason"]
        other = await worked_in.write("Create three.py that prints three")
        await worked_in.until(other, "ended")
    (word,) = await notices(worked_in)
    assert word["content"].startswith("Another version of tenex wrote this conversation.")
    assert "Upgrade tenex" in (path.parent / "QUARANTINED").read_text()
    assert "damaged" not in (path.parent / "QUARANTINED").read_text() + word["content"] + await complaints(worked_in)
    assert path.read_bytes() == newer
    path.write_bytes(good)  # a version that knows the record would read it here
    async with daemon(worked_in):
        await worked_in.until(name, "ended", cycle=2)
    assert not (path.parent / "QUARANTINED").exists()


async def test_the_advice_for_a_damaged_conversation_works_as_it_is_printed(worked_in: Folder) -> None:
    (name,) = worked_in.names
    flip(worked_in.conversation(name) / "journal.jsonl")
    async with daemon(worked_in):
        await until_notified(worked_in, await worked_in.write("Are you there?", to=name))
        (word,) = await notices(worked_in)
    data = str(worked_in.data)
    advice = [word["content"]]
    for words in (["doctor"], ["status"], ["conversations", "verify"]):
        _, out, err = await tenex_here(*words, TENEX_DATA=data)
        advice.append(" ".join((out + err).split()))
    commands = [re.findall(r"`tenex (conversations rebuild [^`]*)`", text)[0] for text in advice]
    for command in dict.fromkeys(commands):
        copy = shutil.copytree(worked_in.data, worked_in.data.with_name(f"copy-{commands.index(command)}"))
        code, _, err = await tenex_here(*command.split(), TENEX_DATA=str(copy))
        assert code == 0, err
        code, _, err = await tenex_here("conversations", "verify", TENEX_DATA=str(copy))
        assert code == 0, err
