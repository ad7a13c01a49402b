"""Bad input of every kind: the error names what is wrong, where, and what to do; and nothing else suffers."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.nostr.events import event_id
from tenex.nostr.keys import SecretKey
from tests.fakes.faultrelay import FaultRelay

from . import person
from .kit import Folder, daemon, of_kind, tenex

REQUEST = "Create hello.py that prints hello"

FAULTS = """
colour = "red"
[relays]
urls = ["http://x", 5]
[people]
owners = ["npub1nonsense"]
open = "yes"
[limits]
turns_per_message = 0
same_rout = 3
[log]
level = "loud"
[shutdown]
deadline = "soon"
[models.phases]
cooking = "offline"
"""
NAMES = (
    "colour",
    "relays.urls[0]",
    "relays.urls[1]",
    "people.owners[0]",
    "people.open",
    "limits.turns_per_message",
    "limits.same_rout",
    "log.level",
    "shutdown.deadline",
    "models.phases.cooking",
)


# ---- what the operator got wrong --------------------------------------------------------------------------------


async def test_every_fault_of_a_broken_configuration_is_reported_at_once(tmp_path: Path) -> None:
    """Ten faults, ten lines, each with the file and the setting; exit code 3, and nothing was made."""
    file = tmp_path / "tenex.toml"
    file.write_text(FAULTS)
    code, out, err = await tenex("run", "--data", tmp_path)
    assert (code, out) == (3, "")
    lines = [line for line in err.splitlines() if line.startswith("  - ")]
    assert len(lines) == len(NAMES)
    for name in NAMES:
        assert any(line.startswith(f"  - {file}: {name}: ") for line in lines), name
    assert not (tmp_path / "conversations").exists()
    assert not (tmp_path / "keys").exists()


async def test_invalid_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").write_text("[relays]\nurls = [\n")
    code, _, err = await tenex("run", "--data", tmp_path)
    assert code == 3
    assert "line 3" in err or "end of document" in err
    assert "Traceback" not in err


async def test_a_missing_project_key_is_not_made_in_passing(folder: Folder) -> None:
    """The daemon does not start, and the error names the command that makes one."""
    for key in (folder.data / "keys").iterdir():
        key.unlink()
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    advice = f"`tenex --data {folder.data} init` makes one"
    assert f"{folder.data / 'keys' / 'project.nsec'}: there is no key for project; {advice}" in err
    assert not list((folder.data / "keys").iterdir())


async def test_all_faults_of_keys_are_reported_together_without_a_secret(folder: Folder) -> None:
    """One that others may read, one that holds something else."""
    open_key, broken = (folder.data / "keys" / f"{name}.nsec" for name in ("project", "executor"))
    secret = open_key.read_text().strip()
    open_key.chmod(0o644)
    broken.write_text("nsec1nonsense\n")
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    assert f"{open_key}: others may read this key (mode 0644); run `chmod 600 {open_key}`" in err
    assert f"{broken}: holds no nsec1 key" in err
    assert secret not in err
    assert "nonsense" not in err


async def test_a_broken_agent_is_reported_with_its_file(folder: Folder) -> None:
    (folder.data / "agents" / "mine.md").write_text(
        "---\nname: Mine\nkind: expert\nrole: builds\nuse_when: always\ntools: [teleport]\n---\nBe.\n"
    )
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    assert str(folder.data / "agents" / "mine.md") in err
    assert "teleport" in err


async def test_a_workspace_that_holds_the_keys_is_refused(folder: Folder) -> None:
    folder.file.write_text(f'{folder.file.read_text()}\n[paths]\nworkspace = "."\n')
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    assert "contains the keys folder" in err


# ---- files on disk -----------------------------------------------------------------------------------------------


async def test_a_damaged_journal_is_left_alone_and_the_others_run(folder: Folder) -> None:
    """A flipped byte in the middle: quarantined with a sentence, not a byte changed, and everybody else served."""
    async with daemon(folder) as process:
        bad, good = await folder.write("Create bad.py that prints bad"), await folder.write(REQUEST)
        await folder.until(bad, "ended")
        await folder.until(good, "ended")
        assert await process.stop() == 0
    journal = folder.conversation(bad) / "journal.jsonl"
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(damaged)
    (folder.data / "conversations" / "index.sqlite").unlink()
    async with daemon(folder) as process:
        log = await process.until("conversation.quarantined")
        assert (log["level"], log["conversation"]) == ("error", bad)
        assert str(journal) in log["reason"]
        assert "line " in log["reason"]
        await folder.write("Create more.py that prints more", to=bad)
        await folder.write("Create two.py that prints two", to=good)
        await folder.until(good, "ended", cycle=2)
        assert await process.stop() == 0
    assert journal.read_bytes() == damaged
    assert not (folder.workspace / "more.py").exists()
    assert str(journal) in (folder.conversation(bad) / "QUARANTINED").read_text()


async def test_a_folder_where_a_journal_should_be_stops_no_other_conversation(folder: Folder) -> None:
    name = "ab" * 32
    (folder.conversation(name) / "journal.jsonl").mkdir(parents=True)
    async with daemon(folder) as process:
        log = await process.until("conversation.quarantined")
        assert log["conversation"] == name
        good = await folder.write(REQUEST)
        await folder.until(good, "ended")
        assert await process.stop() == 0
    assert (folder.conversation(name) / "journal.jsonl").is_dir()


async def test_a_torn_end_is_set_aside_and_the_conversation_goes_on(folder: Folder) -> None:
    """What a power cut left of a decision is kept beside the journal; what is whole counts."""
    async with daemon(folder) as process:
        name = await folder.write(REQUEST)
        await folder.until(name, "ended")
        assert await process.stop() == 0
    journal = folder.conversation(name) / "journal.jsonl"
    whole = journal.read_bytes()
    cut = whole[: whole.rindex(b"\n", 0, -1) + 40]
    journal.write_bytes(cut)
    async with daemon(folder) as process:
        log = await process.until("journal.torn")
        await folder.until(name, "ended")
        assert await process.stop() == 0
    aside = folder.conversation(name) / Path(log["kept"]).name
    assert str(aside) == log["kept"]
    assert cut.endswith(aside.read_bytes())
    assert folder.state(name).outbox == {}


async def test_files_that_are_not_ours_are_left_alone(folder: Folder) -> None:
    """A stray file, a pipe and an empty folder among the conversations."""
    conversations = folder.data / "conversations"
    (conversations / "notes.txt").write_text("mine")
    (conversations / ("cd" * 32)).mkdir()
    os.mkfifo(conversations / ("ef" * 32))
    async with daemon(folder) as process:
        name = await folder.write(REQUEST)
        await folder.until(name, "ended")
        assert await process.stop() == 0
    assert (conversations / "notes.txt").read_text() == "mine"


async def test_a_view_that_was_edited_is_only_a_view(folder: Folder) -> None:
    async with daemon(folder) as process:
        name = await folder.write(REQUEST)
        await folder.until(name, "ended")
        assert await process.stop() == 0
    (folder.conversation(name) / "conversation.json").write_text('{"phase": "plan", "status": "ended"')
    async with daemon(folder) as process:
        await folder.write("Create two.py that prints two", to=name)
        await folder.until(name, "ended", cycle=2)
        assert await process.stop() == 0
    assert folder.view(name)["phase"] == "reflection"


# ---- what relays bring ------------------------------------------------------------------------------------------


def hostile(folder: Folder) -> dict[str, Any]:
    """Events no honest client writes, by what is wrong with them; each asks for a file `evil.py`."""
    to = ["p", folder.project.public]
    good = person.note(folder.owner, "Create evil.py that prints evil", to)
    mallory = SecretKey.generate()

    def hashed(**changes: Any) -> dict[str, Any]:
        """An event whose id is right for its odd content, as far as NIP-01 can write it."""
        event = {**good, **changes}
        body = [0, *(event[field] for field in ("pubkey", "created_at", "kind", "tags", "content"))]
        event["id"] = sha256(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
        return event

    by_mallory = person.note(mallory, "Create evil.py that prints evil things", to)
    return {
        "signature of another": {**good, "sig": by_mallory["sig"]},
        "signature of zeros": hashed(content="Create evil.py that prints evils", sig="0" * 128),
        "author swapped": {**by_mallory, "pubkey": folder.owner.public},
        "id of another": {**by_mallory, "id": good["id"], "pubkey": folder.owner.public, "sig": good["sig"]},
        "float time": hashed(created_at=good["created_at"] + 0.5),
        "null in a tag": hashed(tags=[to, ["e", None]]),
        "number in a tag": hashed(tags=[to, ["e", 7]]),
        "tags that are none": hashed(tags="p"),
        "content that is none": hashed(content=None),
        "kind as text": hashed(kind="1"),
        "a time after all times": hashed(created_at=2**63),
        "negative time": hashed(created_at=-1),
        "a lone surrogate": {**good, "content": "\ud800"},
        "an empty object": {},
        "no object": 7,
    }


async def test_forgeries_and_odd_shapes_are_dropped_and_valid_messages_answered(tmp_path: Path) -> None:
    """Live and stored alike: none starts a conversation, none ends the daemon, and the owner is answered."""
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        bad = hostile(folder)

        async def serve(peer: Any, sub_id: str, filters: list[dict[str, Any]]) -> None:
            for event in bad.values():
                await peer.send("EVENT", sub_id, event)
            await peer.send_text("{not json")
            await peer.send_text("[]")
            await peer.send_text('["EVENT"]')
            await peer.send_text("[" * 100_000)
            await peer.send("EVENT", sub_id)
            await peer.send("OK", 7, "yes")
            await relay.serve_stored(peer, sub_id, filters)

        relay.on_req = serve
        async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
            name = await folder.write(REQUEST)
            await folder.until(name, "ended")
            for peer in relay.peers:
                for sub_id in list(peer.subscriptions):
                    for event in bad.values():
                        await peer.send("EVENT", sub_id, event)
            second = await folder.write("Create bye.py that prints bye")
            await folder.until(second, "ended")
            assert await process.stop() == 0
            assert "evil" not in process.stderr
            assert not [log for log in process.logs if log["level"] in ("error", "critical")]
            assert [log["verdict"] for log in process.logs if log["event"] == "message.received"] == ["admitted"] * 2
    conversations = {path.name for path in (folder.data / "conversations").iterdir() if len(path.name) == 64}
    assert conversations == {name, second}
    assert sorted(path.name for path in folder.workspace.iterdir()) == ["bye.py", "hello.py"]


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "live"])
async def test_a_megabyte_of_content_does_not_stop_the_subscription(tmp_path: Path, stored: bool) -> None:
    """Genuine, from the owner, and far beyond every limit: refused with a reason; the next message is answered."""
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        huge = person.note(folder.owner, "x" * 1024 * 1024, ["p", folder.project.public])
        if stored:
            relay.stored.append(huge)
        async with daemon(folder) as process:
            await relay.until(lambda: len(relay.live()) >= 2)
            if not stored:
                await relay.spread(huge)
            name = await folder.write(REQUEST)
            await folder.until(name, "ended")
            assert not folder.conversation(str(huge["id"])).exists()
            assert await process.stop() == 0
            assert not [line for line in process.lines if "xxxx" in line]
            strikes = [log for log in process.logs if log["event"] == "relay.invalid_event"]
            assert "larger than" in strikes[0]["why"]
            assert process.events().count("relay.connected") == 1


async def test_a_long_message_below_the_limit_is_taken_whole(folder: Folder) -> None:
    """48 KB of words, about as long as relays carry: kept as they came, and answered."""
    text = f'Write notes.txt with "{"lorem ipsum " * 4_000}"'
    async with daemon(folder) as process:
        name = await folder.write(text)
        state = await folder.until(name, "waiting")
        assert await process.stop() == 0
    assert [record.text for record in of_kind(folder.records(name), r.MessageRecorded)] == [text]
    assert "longer than what I am shown" in state.recent[-1].text


async def test_ids_in_these_tests_are_right() -> None:
    """The forgeries above fail for what they are meant to fail for, not for a wrong hash."""
    key = SecretKey.generate()
    event = person.note(key, "hello", ["p", key.public])
    assert event["id"] == event_id(key.public, event["created_at"], 1, [["p", key.public]], "hello")
