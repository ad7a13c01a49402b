"""Bad input of every kind: the error names what is wrong, where, and what to do; and nothing else suffers."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tenex.core import records as r
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


async def test_every_fault_of_a_broken_configuration_is_reported_at_once(tmp_path: Path) -> None:
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


async def test_all_faults_of_keys_are_reported_together_without_a_secret(folder: Folder) -> None:
    keys = folder.data / "keys"
    open_key, broken = keys / "project.nsec", keys / "executor.nsec"
    secret = open_key.read_text().strip()
    open_key.chmod(0o644)
    broken.write_text("nsec1nonsense\n")
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    assert f"{open_key}: others may read this key (mode 0644); run `chmod 600 {open_key}`" in err
    assert f"{broken}: holds no nsec1 key" in err
    assert secret not in err
    assert "nonsense" not in err
    for key in keys.iterdir():
        key.unlink()
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3
    assert f"{open_key}: there is no key for project; `tenex --data {folder.data} init` makes one" in err
    assert not list(keys.iterdir())


async def test_other_faults_of_the_operators_files_are_reported_with_their_place(folder: Folder) -> None:
    settings, mine = folder.file.read_text(), folder.data / "agents" / "mine.md"
    agent = "---\nname: Mine\nkind: expert\nrole: builds\nuse_when: always\ntools: [teleport]\n---\nBe.\n"
    faults = [
        (folder.file, "[relays]\nurls = [\n", ["not valid TOML"]),
        (folder.file, f'{settings}\n[paths]\nworkspace = "."\n', ["contains the keys folder"]),
        (mine, agent, [str(mine), "teleport"]),
    ]
    for file, text, sentences in faults:
        folder.file.write_text(settings)
        file.write_text(text)
        code, _, err = await tenex("run", "--data", folder.data)
        assert (code, "Traceback" in err) == (3, False)
        assert all(sentence in err for sentence in sentences), err


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


async def test_a_megabyte_of_content_does_not_stop_the_subscription(tmp_path: Path) -> None:
    text = f'Write notes.txt with "{"lorem ipsum " * 4_000}"'
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        stored, live = (person.note(folder.owner, x * 1024 * 1024, ["p", folder.project.public]) for x in "xy")
        relay.stored.append(stored)
        async with daemon(folder) as process:
            await relay.until(lambda: len(relay.live()) >= 2)
            await relay.spread(live)
            name = await folder.write(text)
            state = await folder.until(name, "waiting")
            assert not [one for one in (stored, live) if folder.conversation(str(one["id"])).exists()]
            assert await process.stop() == 0
            assert not [line for line in process.lines if "xxxx" in line or "yyyy" in line]
            strikes = [log for log in process.logs if log["event"] == "relay.invalid_event"]
            assert "larger than" in strikes[0]["why"]
            assert process.events().count("relay.connected") == 1
    assert [record.text for record in of_kind(folder.records(name), r.MessageRecorded)] == [text]
    assert "longer than what I am shown" in state.recent[-1].text
