"""Commands on conversations, beside a daemon and without: search, verify, rebuild, export, import, older files."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.ids import ConversationId, EventId, Millis
from tenex.core.pending import pending
from tenex.core.phases import QUALITY_PHASES
from tenex.core.snapshot import StateSnapshot
from tenex.nostr.keys import SecretKey
from tenex.store.archive import packed
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.kits.damage import flip

from . import person
from .kit import FULL_CYCLE, Folder, daemon, of_kind, ordered, phases, tenex_here


async def verified(folder: Folder, code: int = 0) -> Any:
    return await folder.facts("conversations", "verify", code=code)


async def search(folder: Folder, *words: str) -> list[dict[str, Any]]:
    """What a search finds; its stderr must be empty."""
    code, out, err = await tenex_here("conversations", "search", *words, "--json", "--data", folder.data)
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    return found


async def found(folder: Folder, word: str, *options: str) -> list[str]:
    """The conversations in which a search finds a word."""
    return [one["id"] for one in await search(folder, word, *options)]


async def exported(folder: Folder, name: str, file: Path) -> Path:
    assert (await tenex_here("conversations", "export", name, "--out", file, "--data", folder.data))[0] == 0
    return file


def index_files(folder: Folder) -> list[Path]:
    return sorted((folder.data / "conversations").glob("index.*"))


async def test_commands_that_read_work_beside_a_daemon_and_leave_nothing_behind(folder: Folder) -> None:
    async with ordered(folder, "model", 2, hold=True):
        name = await folder.write("Create zebra.py that prints xylophone")
        await folder.held()
        (one,) = await search(folder, "xylophone", "--status", "active", "--phase", "execute")
        assert (one["id"], one["status"], "xylophone" in one["messages"][0]["excerpt"]) == (name, "active", True)
        assert await found(folder, "xylophone", "--agent", "planner") == []
        await verified(folder)
        code, out, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
        assert (code, "chat → execute" in out, "active in execute" in out) == (0, True, True)
        state = await folder.facts("conversations", "replay", name)
        assert (state["status"], state["runs"][0]["state"]) == ("active", "model")
        await exported(folder, name, folder.data / "carried.jsonl")
        folder.let_go()
        await folder.until(name, "ended")
        (one,) = await search(folder, "verified", "--was-in", "verification", "--agent", "executor")
        assert "executor" in {message["from"].lower() for message in one["messages"]}
    assert await found(folder, "xylophone", "--since", "1 hour ago") == [name]
    assert await found(folder, "xylophone", "--until", "1 hour ago") == []
    assert [path.name for path in index_files(folder)] == ["index.sqlite"]


async def test_an_index_deleted_beside_a_running_daemon_comes_back_with_everything_in_it(folder: Folder) -> None:
    async with daemon(folder) as process:
        old = await folder.write("Create zebra.py that prints xylophone")
        await folder.until(old, "ended")
        for file in index_files(folder):
            file.unlink()
        assert await found(folder, "xylophone") == [old], "without one the journals are read"
        new = await folder.write("Write okapi.txt with glockenspiel")
        await folder.until(new, "ended")
        await process.until("index.caught_up")
        assert (await found(folder, "xylophone"), await found(folder, "glockenspiel")) == ([old], [new])
        await folder.write("Create gnu.py that prints vuvuzela", to=old)
        await folder.until(old, "ended", cycle=2)
    assert (folder.data / "conversations" / "index.sqlite").stat().st_mode & 0o777 == 0o600
    assert await found(folder, "vuvuzela") == [old]
    async with daemon(folder) as process:
        assert await process.stop() == 0
        assert "index.caught_up" not in process.events(), "it lacked nothing"


async def test_a_conversation_is_rebuilt_from_its_readable_file_and_goes_on(worked_in: Folder) -> None:
    (name,) = worked_in.names
    journal = worked_in.conversation(name) / "journal.jsonl"
    before = {event.id for record in of_kind(worked_in.records(name), r.MessageSent) for event in record.events}
    view, damaged = worked_in.view(name), flip(journal)
    (verdict,) = await verified(worked_in, code=4)
    assert not verdict["ok"]
    assert all(words in str(verdict["faults"]) for words in (f"{journal}: line ", "(byte "))

    words = ("conversations", "rebuild", name[:12], "--from", "conversation.json")
    made = await worked_in.facts(*words)
    assert made["lost"]
    assert (Path(made["aside"]) / "journal.jsonl").read_bytes() == damaged
    assert json.loads((Path(made["aside"]) / "conversation.json").read_text()) == view
    assert [verdict["faults"] for verdict in await verified(worked_in)] == [[]]
    now = worked_in.view(name)
    assert phases(now) == phases(view) == FULL_CYCLE
    from_file = [one["source"] for one in now["phaseTransitions"] if "source" in one]
    assert from_file, "the good records do not have them all"
    assert {*from_file} == {"conversation.json"}
    assert [turn["turnId"] for turn in now["orchestratorTurns"]] == [
        turn["turnId"] for turn in view["orchestratorTurns"]
    ]
    for part in ("status", "phase", "cycle", "openGates", "title"):
        assert now[part] == view[part], part
    assert [message["text"] for message in now["messages"]] == [message["text"] for message in view["messages"]]
    code, _, errors = await tenex_here(*words, "--data", worked_in.data)
    assert (code, "is whole" in errors) == (2, True)
    index_files(worked_in)[0].unlink()  # the journal alone knows what was received
    async with daemon(worked_in) as process:
        other = await worked_in.write("Create other.py that prints other")  # by then the backlog has been read too
        await worked_in.until(other, "ended")
        assert await worked_in.sent(_e=[name]) == [], "it is silent until its user writes"
        await worked_in.write("Create yak.py that prints gong", to=name)
        await worked_in.until(name, "ended", cycle=2)
        assert "conversation.quarantined" not in process.events()
    assert (worked_in.workspace / "yak.py").exists()
    assert not before & {event["id"] for event in await worked_in.sent()}, "nothing is sent twice"


async def test_a_file_of_an_older_program_is_imported_by_a_command(folder: Folder) -> None:
    root = person.note(folder.owner, "Please add a login page", ["title", "Login"], kind=11)
    name = str(root["id"])
    await person.publish(folder.url, root)
    answer = person.note(SecretKey.generate(), "What kind?", ["E", name], ["K", "11"], ["phase", "CHAT"], kind=1111)
    fields = ("pubkey", "created_at", "kind", "tags", "content", "sig", "id")
    moved = {"message": "m", "timestamp": 1_755_000_000_000, "agentName": "o"}
    old = {
        "id": name,
        "title": "Login",
        "phase": "CHAT",
        "history": [json.dumps([0, *(event[field] for field in fields)]) for event in (root, answer)],
        "agentStates": {},
        "phaseStartedAt": 1_755_000_000_000,
        "metadata": {"readFiles": ["src/a.ts"]},
        "phaseTransitions": [{"from": "CHAT", "to": "EXECUTE", **moved}, {"from": "EXECUTE", "to": "CHAT", **moved}],
        "orchestratorTurns": [],
    }
    file = folder.data / "conversations" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(old))
    code, _, errors = await tenex_here("conversations", "import", str(file), "--data", folder.data)
    assert code == 0, errors
    thread = (["E", name, folder.url], ["K", "11"], ["e", name, folder.url], ["k", "11"], ["p", folder.project.public])
    asked = person.note(folder.owner, "Create yak.py that prints gong", *thread, kind=1111)
    async with daemon(folder):
        await person.publish(folder.url, asked)
        await folder.until(name, "ended")
    records = folder.records(name)
    texts = [record.text for record in of_kind(records, r.MessageRecorded)]
    assert texts == ["Please add a login page", "Create yak.py that prints gong"]
    assert [record.source for record in of_kind(records, r.JournalRebuilt)] == [file.name]
    assert not file.exists()
    assert json.loads((folder.conversation(name) / file.name).read_text()) == old
    answers = await folder.sent(kinds=[1111])
    assert answers
    assert all(["E", name] in [tag[:2] for tag in event["tags"]] for event in answers)
    await verified(folder)


@pytest.mark.parametrize("is_lost", [False, True], ids=["grown index", "index built from the journals"])
async def test_an_import_takes_no_message_of_another_conversation_and_waives_no_gate(
    worked_in: Folder, tmp_path: Path, *, is_lost: bool
) -> None:
    """Its file names the messages of a thread here as its own, as if it were older, and the owner's waiver."""
    (name,) = worked_in.names
    forged = ConversationId("0" * 64)
    records = [
        replace(record, id=forged, at=Millis(1)) if isinstance(record, r.ConversationStarted) else record
        for record in worked_in.records(name)
        if not isinstance(record, StateSnapshot)
    ]
    waiver = p.Waived(
        seq=records[-1].seq + 1,
        at=records[-1].at,
        phases=QUALITY_PHASES,
        author=worked_in.owner.public,
        name="owner",
        quote="yes",
        message_id=EventId("e" * 64),
    )
    file = tmp_path / "forged.jsonl"
    file.write_bytes(packed(forged, [*records, waiver], Millis(2)))
    code, _, err = await tenex_here("conversations", "import", file, "--data", worked_in.data)
    assert code == 0, err
    if is_lost:
        for index in index_files(worked_in):
            index.unlink()

    async with daemon(worked_in) as process:
        await worked_in.write("Create other.py that prints other", to=name)
        await worked_in.until(name, "ended", cycle=2)
        assert "events.claimed_twice" in process.events()
    assert len(worked_in.records(forged)) == len(records) + 2, "nothing was written there"
    view = worked_in.view(name)
    assert tuple(phases(view)[-len(FULL_CYCLE) :]) == tuple(FULL_CYCLE), "no gate was left out"
    assert phases_of(worked_in.state(forged)).waivers == ()
    rows = await worked_in.facts("conversations", "list")
    assert [row["id"] for row in rows if row.get("imported")] == [forged]
    found = await worked_in.facts("doctor")
    (claim,) = [one for one in found["findings"] if one["check"] == "claims"]
    assert claim["location"].endswith(forged)
    assert name in claim["message"]


async def cut_off(folder: Folder, relay: FaultRelay) -> str:
    """A conversation with an agent at work and words that its relay has not answered; its daemon is killed."""

    async def silent(peer: Peer, event: dict[str, Any]) -> None:
        if event["pubkey"] == folder.owner.public or event["kind"] != 1:
            await relay.accept(peer, event)

    relay.on_event = silent
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await folder.write("Create hello.py that prints hello")
        await folder.held()
        await person.until(lambda: folder.state(name).work.runs)
        await process.die()
    relay.on_event = relay.accept
    return name


@pytest.mark.parametrize("way", ["copied", "imported where it was"])
async def test_a_conversation_of_another_folder_is_inert_until_somebody_writes(tmp_path: Path, way: str) -> None:
    async with FaultRelay() as named, FaultRelay() as relay:
        there = Folder(tmp_path / "there", named.url)
        name = await cut_off(there, named)
        assert pending(there.state(name))
        if way == "copied":
            here, relay_here = Folder(tmp_path / "here", relay.url), relay
            shutil.copytree(there.conversation(name), here.conversation(name))
        else:
            here, relay_here = there, named
            file = await exported(there, name, tmp_path / "carried.jsonl")
            shutil.rmtree(there.conversation(name))
            code, _, err = await tenex_here("conversations", "import", file, "--data", here.data)
            assert (code, "nothing runs" in err) == (0, True), err

        def spoken() -> list[str]:
            """The messages that the folder's keys sent in the thread, each copy."""
            events = [one for one in relay_here.events() if one["pubkey"] in here.public_keys]
            return [one["id"] for one in events if name in str(one["tags"])]

        before, sent = len(named.events()), spoken()
        async with daemon(here):
            await here.until(await here.write("Hello"), "waiting")
            await asyncio.sleep(0.5)  # time to do what it must not: as long as another answer takes, and a bit more
            assert spoken() == sent
            assert of_kind(here.records(name), r.ProcessRestarted) == []
            wrote = await here.write("Are you there?", to=name)
            await person.until(
                lambda: wrote in here.state(name).identity.seen and here.state(name).cycle.status != "active"
            )
            await here.delivered(name)
        assert len(spoken()) > len(sent)
        if relay_here is not named:
            assert len(named.events()) == before, "no event goes to a relay that only the journal names"
