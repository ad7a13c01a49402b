"""Making journals anew: from relays that answer or do not, and from files of older programs."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.errors import RelayUnavailable, StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.phases import Phase
from tenex.core.state.snapshot import StateSnapshot
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.operations import recovery as module
from tenex.operations.recovery import Recovery, legacy_file
from tenex.settings import load, resolve_paths
from tenex.store.disk import Disk
from tenex.store.journal_reader import JOURNAL
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.service import person
from tests.store.kit import StillClock, going_on, started

NOBODY = "ws://127.0.0.1:9"
"""The discard port: nothing of ours listens there."""
OLD = ConversationId("d" * 64)


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


class Home:
    """A data folder with keys, and what regains its conversations."""

    def __init__(self, data: Path, *relays: str) -> None:
        prepare(data, None, list(relays))
        settings = load(None, data, parse_key=parse_public_key)
        self.ring = KeyRing(data / "keys")
        self.root = resolve_paths(settings).conversations
        self.disk = Disk()
        self.folder = ConversationFolder(self.root, self.disk, StillClock())
        self.recovery = Recovery(settings, resolve_paths(settings), self.folder, self.disk, StillClock())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "data", NOBODY)


async def test_a_long_thread_is_read_to_its_beginning(tmp_path: Path, relay: str) -> None:
    """Relays give their newest few hundred to a page, and do not say that there was more."""
    home = Home(tmp_path / "data", relay)
    owner, project = home.ring.get("owner"), home.ring.get("project")
    began = 1_700_000_000
    root = person.note(owner, "begin", ["p", project.public], at=began)
    said = [person.note(owner, f"and {n}", ["e", root["id"], relay, "root"], at=began + n // 3) for n in range(1, 1201)]
    await person.publish(relay, root, *said)
    made = await home.recovery.rebuild(ConversationId(root["id"]), "relay")
    assert made.messages == 1201
    records = await home.folder.read(made.id)
    assert {record.event_id for record in records if isinstance(record, r.MessageRecorded)} == {
        e["id"] for e in (root, *said)
    }


async def test_a_relay_that_is_away_is_named_among_what_is_lost(
    tmp_path: Path, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    home = Home(tmp_path / "data", relay, NOBODY)
    root = person.note(home.ring.get("owner"), "begin", ["p", home.ring.get("project").public])
    await person.publish(relay, root)
    made = await home.recovery.rebuild(ConversationId(root["id"]), "relay")
    assert f"what only {NOBODY} keeps: it did not answer" in made.lost
    assert not any("ids of older messages" in sentence for sentence in made.lost), "relays have just told them"
    with pytest.raises(UsageError, match="is whole"):
        await home.recovery.rebuild(made.id, "relay")
    again = await home.recovery.rebuild(made.id, "relay", force=True)
    assert again.aside is not None
    assert (again.aside / JOURNAL).exists()


async def test_a_relay_that_breaks_off_is_named_among_what_is_lost(tmp_path: Path) -> None:
    """What it had given until then is regained."""
    async with FaultRelay(clamp=4) as relay:
        home = Home(tmp_path / "data", relay.url)
        owner, project = home.ring.get("owner"), home.ring.get("project")
        root = person.note(owner, "begin", ["p", project.public], at=1_700_000_000)
        said = [person.note(owner, f"and {n}", ["e", root["id"], "", "root"], at=1_700_000_000 + n) for n in range(12)]
        relay.stored += [root, *said]

        async def breaks_off(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            if any("until" in wanted for wanted in filters):
                peer.drop()
            else:
                await relay.serve_stored(peer, sub_id, filters)

        relay.on_req = breaks_off
        made = await home.recovery.rebuild(ConversationId(root["id"]), "relay")
        assert made.messages == 5
        assert [sentence for sentence in made.lost if f"what else {relay.url} keeps" in sentence]


async def test_a_relay_that_lets_nobody_read_has_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may well keep the thread."""
    monkeypatch.setattr(module, "PATIENCE", 2.0)

    async def refuses(peer: Peer, sub_id: str, _: list[dict[str, Any]]) -> None:
        await peer.send("CLOSED", sub_id, "restricted: members only")

    async with FaultRelay() as relay:
        relay.on_req = refuses
        with pytest.raises(RelayUnavailable, match=relay.url):
            await Home(tmp_path / "data", relay.url).recovery.rebuild(OLD, "relay")


async def test_where_no_relay_answers_nothing_is_changed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    path = home.folder.path(OLD)
    path.mkdir(parents=True)
    (path / JOURNAL).write_bytes(b"damaged\n{}\n")
    with pytest.raises(RelayUnavailable, match=NOBODY):
        await home.recovery.rebuild(OLD, "relay")
    assert [entry.name for entry in path.iterdir()] == [JOURNAL]


@pytest.mark.parametrize("harm", ["gone", "damaged"])
async def test_a_conversation_that_can_go_on_is_not_rebuilt_for_its_past(home: Home, harm: str) -> None:
    """Its newest file holds the whole state, with more than any source tells."""
    records = list(going_on(1, 4, OLD))
    journal, _ = await home.folder.open(OLD)
    await journal.append([[record] for record in records])
    assert await journal.rotate(StateSnapshot.of(fold(OLD, records)))
    await Views(home.folder, home.disk).show(fold(OLD, records))
    await home.folder.close()
    first = home.folder.path(OLD) / JOURNAL
    first.unlink() if harm == "gone" else first.write_bytes(b"x" + first.read_bytes())
    before = sorted(home.folder.path(OLD).iterdir())
    with pytest.raises(UsageError, match=r"journal\.jsonl.*goes on from the newest file.*--force"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert sorted(home.folder.path(OLD).iterdir()) == before
    made = await home.recovery.rebuild(OLD, "conversation.json", force=True)
    assert (made.id, made.lost != [], made.aside is not None) == (OLD, True, True)


async def test_where_no_file_tells_what_was_heard_that_is_named_among_what_is_lost(home: Home) -> None:
    home.folder.path(OLD).mkdir(parents=True)
    await Views(home.folder, home.disk).show(fold(OLD, going_on(1, 4, OLD)))
    made = await home.recovery.rebuild(OLD, "conversation.json")
    assert "the ids of older messages: relays may bring some of them again" in made.lost


async def test_without_a_readable_file_nothing_is_changed(home: Home) -> None:
    path = home.folder.path(OLD)
    path.mkdir(parents=True)
    (path / JOURNAL).mkdir()
    with pytest.raises(StoreDamaged, match=r"conversation\.json cannot be read.*--from relay"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert [entry.name for entry in path.iterdir()] == [JOURNAL]


async def test_one_that_is_not_here_is_no_damage(home: Home) -> None:
    """Most of the time the id is wrong; where nothing is left, it says what can still tell of it."""
    with pytest.raises(UsageError, match=rf"no conversation {OLD} in .*`--from relay` recovers"):
        await home.recovery.rebuild(OLD, "conversation.json")
    assert not home.folder.path(OLD).exists()


async def test_a_readable_file_without_an_address_answers_in_the_thread_it_is_called_after(home: Home) -> None:
    """Else nothing could be said in it any more."""
    path = home.folder.path(OLD)
    path.mkdir(parents=True)
    (path / "conversation.json").write_text(json.dumps({"id": OLD, "title": "Login"}))
    await home.recovery.rebuild(OLD, "conversation.json")
    assert fold(OLD, await home.folder.read(OLD)).address["root"] == OLD


def put(home: Home, content: Any) -> Path:
    file = home.root / f"{OLD}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


async def test_a_file_that_is_imported_moves_into_its_folder(home: Home) -> None:
    file = put(home, {"id": OLD, "title": "Login", "phase": "PLAN"})
    assert legacy_file(home.folder.path(OLD)) == file
    await home.recovery.import_file(file, OLD)
    assert legacy_file(home.folder.path(OLD)) is None
    assert json.loads((home.folder.path(OLD) / file.name).read_text())["phase"] == "PLAN"
    state = fold(OLD, await home.folder.read(OLD))
    assert (state.phase.value, state.status, state.title) == ("plan", "waiting", "Login")
    assert state.address["root"] == OLD  # answers go to the thread it is known by


async def test_a_file_of_a_conversation_that_exists_is_not_imported(home: Home) -> None:
    file = put(home, {"id": OLD, "phase": "PLAN"})
    journal, _ = await home.folder.open(OLD)
    await journal.append([[started(OLD)]])
    await home.folder.close()
    with pytest.raises(StoreError, match="cannot be made"):
        await home.recovery.import_file(file, OLD)
    assert len(await home.folder.read(OLD)) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"id": "e" * 64})])
async def test_an_old_file_that_cannot_be_read_stays_and_is_named(home: Home, content: str) -> None:
    file = put(home, content)
    with pytest.raises(StoreDamaged, match=file.name[:20]):
        await home.recovery.import_file(file, OLD)
    assert file.read_text() == content
    assert not home.folder.path(OLD).exists()


@pytest.mark.parametrize("name", ["history", "phaseTransitions", "orchestratorTurns"])
async def test_a_list_that_is_none_is_named_and_the_rest_is_taken_in(home: Home, name: str) -> None:
    taken = await home.recovery.import_file(put(home, json.dumps({"id": OLD, "phase": "PLAN", name: 5})), OLD)
    assert [sentence for sentence in taken.lost if sentence.startswith(f"{name}, ")]
    assert fold(OLD, await home.folder.read(OLD)).phase is Phase.PLAN


async def test_a_relay_that_only_a_file_names_is_not_taken_over(home: Home) -> None:
    """Our readable file of a conversation held elsewhere is such a file too."""
    address = {"form": "notes", "root": OLD, "root_kind": 1, "root_author": "", "root_relay": "", "relays": ["ws://x"]}
    await home.recovery.import_file(put(home, {"id": OLD, "metadata": {"address": address}}), OLD)
    assert fold(OLD, await home.folder.read(OLD)).address == {**address, "relays": []}
