"""Damage and recovery: verify, rebuild, export, import and older files, with the real daemon before and after."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.nostr.keys import SecretKey

from . import person
from .kit import FULL_CYCLE, Folder, daemon, of_kind, ordered, phases, tenex_here


def damage(folder: Folder, name: str) -> bytes:
    """Flip a bit in the middle of a journal; returns what is there now."""
    journal = folder.conversation(name) / "journal.jsonl"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    return bytes(data)


async def finished_once(folder: Folder) -> tuple[str, list[person.Wire]]:
    """A finished conversation, and its messages; the daemon has stopped."""
    async with daemon(folder):
        name = await folder.write("Create zebra.py that prints xylophone")
        await folder.until(name, "ended")
    return name, await sent(folder)


async def sent(folder: Folder) -> list[person.Wire]:
    """Every message of the daemon that the relay keeps."""
    return await person.stored(folder.url, kinds=[1], authors=sorted(folder.public_keys))


async def goes_on(folder: Folder, name: str, before: list[person.Wire], *, cycle: int) -> None:
    """The daemon is silent until the user writes, then works to the end; nothing is sent twice."""
    async with daemon(folder) as process:
        assert "conversation.quarantined" not in process.events()
        other = await folder.write("Create other.py that prints other")  # by then the backlog has been read too
        await folder.until(other, "ended")
        mine = [event for event in await sent(folder) if ["e", other] not in [tag[:2] for tag in event["tags"]]]
        assert [event["id"] for event in mine] == [event["id"] for event in before]
        await folder.write("Create yak.py that prints gong", to=name)
        await folder.until(name, "ended", cycle=cycle)
    assert (folder.workspace / "yak.py").exists()
    contents = Counter(event["content"] for event in await sent(folder))
    for content, count in Counter(event["content"] for event in before).items():
        assert contents[content] == count, content


async def verified(folder: Folder, code: int = 0) -> Any:
    return await folder.facts("conversations", "verify", code=code)


async def test_a_conversation_is_rebuilt_from_its_readable_file_and_goes_on(folder: Folder) -> None:
    name, before = await finished_once(folder)
    (verdict,) = await verified(folder)
    assert (verdict["id"], verdict["ok"], verdict["faults"]) == (name, True, [])
    view, damaged = folder.view(name), damage(folder, name)
    (verdict,) = await verified(folder, code=4)
    assert not verdict["ok"]
    assert f"{folder.conversation(name) / 'journal.jsonl'}: line " in str(verdict["faults"])
    assert "(byte " in str(verdict["faults"])

    words = ("conversations", "rebuild", name[:12], "--from", "conversation.json")
    made = await folder.facts(*words)
    assert made["lost"]
    assert (Path(made["aside"]) / "journal.jsonl").read_bytes() == damaged
    assert json.loads((Path(made["aside"]) / "conversation.json").read_text()) == view
    assert [verdict["faults"] for verdict in await verified(folder)] == [[]]
    now = folder.view(name)
    assert 0 < len(phases(now)) < len(FULL_CYCLE), "those of the good records"
    for part in ("status", "phase", "cycle", "openGates", "title"):
        assert now[part] == view[part], part
    assert [message["text"] for message in now["messages"]] == [message["text"] for message in view["messages"]]
    code, _, errors = await tenex_here(*words, "--data", folder.data)
    assert (code, "is whole" in errors) == (2, True)
    (folder.data / "conversations" / "index.sqlite").unlink()  # the journal alone knows what was received
    await goes_on(folder, name, before, cycle=2)


async def test_reading_commands_work_beside_a_daemon(folder: Folder) -> None:
    async with ordered(folder, "model", 2, hold=True):
        name = await folder.write("Create hello.py that prints hello")
        await person.until((folder.marks / "held").exists)
        await verified(folder)
        code, out, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
        assert (code, "chat → execute" in out, "active in execute" in out) == (0, True, True)
        state = await folder.facts("conversations", "replay", name)
        assert (state["status"], state["runs"][0]["state"]) == ("active", "model")
        file = folder.data / "carried.jsonl"
        assert (await tenex_here("conversations", "export", name, "--out", file, "--data", folder.data))[0] == 0
        (folder.marks / "go").touch()
        await folder.until(name, "ended")


async def test_a_file_of_an_older_program_is_imported_by_a_command(folder: Folder) -> None:
    root = person.note(folder.owner, "Please add a login page", ["title", "Login"], kind=11)
    await person.publish(folder.url, root)
    answer = person.note(
        SecretKey.generate(), "What kind?", ["E", root["id"]], ["K", "11"], ["phase", "CHAT"], kind=1111
    )
    old = {
        "id": root["id"],
        "title": "Login",
        "phase": "CHAT",
        "history": [
            json.dumps([0, *(event[name] for name in ("pubkey", "created_at", "kind", "tags", "content", "sig", "id"))])
            for event in (root, answer)
        ],
        "agentStates": {},
        "phaseStartedAt": 1_755_000_000_000,
        "metadata": {"readFiles": ["src/a.ts"]},
        "phaseTransitions": [
            {"from": "CHAT", "to": "EXECUTE", "message": "m", "timestamp": 1_755_000_000_000, "agentName": "o"},
            {"from": "EXECUTE", "to": "CHAT", "message": "m", "timestamp": 1_755_000_001_000, "agentName": "o"},
        ],
        "orchestratorTurns": [],
    }
    file = folder.data / "conversations" / f"{root['id']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(old))
    code, _, errors = await tenex_here("conversations", "import", str(file), "--data", folder.data)
    assert code == 0, errors
    _, shown, _ = await tenex_here("conversations", "show", root["id"][:8], "--data", folder.data)
    assert "Please add a login page" in shown
    async with daemon(folder):
        await person.publish(
            folder.url,
            person.note(
                folder.owner,
                "Create yak.py that prints gong",
                *(["E", root["id"], folder.url], ["K", "11"], ["e", root["id"], folder.url], ["k", "11"]),
                ["p", folder.project.public],
                kind=1111,
            ),
        )
        await folder.until(root["id"], "ended")
    records = folder.records(root["id"])
    assert [record.text for record in of_kind(records, r.MessageRecorded)] == [
        "Please add a login page",
        "Create yak.py that prints gong",
    ]
    assert [record.source for record in of_kind(records, r.JournalRebuilt)] == [file.name]
    assert not file.exists()
    assert json.loads((folder.conversation(root["id"]) / file.name).read_text()) == old
    answers = await person.stored(folder.url, kinds=[1111], authors=sorted(folder.public_keys))
    assert answers
    assert all(["E", root["id"]] in [tag[:2] for tag in event["tags"]] for event in answers)
    await verified(folder)
