"""`tenex conversations import` and `rebuild`, and what else is done to conversations, where they are in a database."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.nostr.keys import KeyRing
from tenex.store.contents import Contents
from tenex.store.disk import Disk
from tenex.store.lock import FolderLock
from tenex.store.postgres.conversations import PostgresConversations
from tests.fakes import postgres
from tests.kits.commands import Tenex
from tests.store.kit import StillClock

from .journals import ONE, TWO, worked, write_conversations


@pytest.fixture
def store() -> Iterator[str]:
    with postgres.schema() as url:
        yield url


@pytest.fixture
def data(tmp_path: Path, store: str, tenex: Tenex) -> Path:
    """A data folder whose store is an empty database; two conversations are in files of another one."""
    write_conversations(tmp_path / "files", {ONE: worked(ONE), TWO: worked(TWO, 1)})
    (tmp_path / "files" / "tenex.toml").write_text("[people]\nopen = true\n")
    data = tmp_path / "data"
    tenex("init")
    settings = data / "tenex.toml"
    settings.write_text(f"store = {json.dumps(store)}\n{settings.read_text()}")
    return data


@asynccontextmanager
async def another(url: str, place: Path) -> Any:
    """Another worker of the database."""
    disk = Disk()
    try:
        async with PostgresConversations.connected(url, place, disk, StillClock(), worker="another") as worker:
            yield worker
    finally:
        disk.close()


def stored(url: str, place: Path, name: ConversationId) -> Contents:
    async def read() -> Contents:
        async with another(url, place) as worker:
            contents: Contents = await worker.contents(name)
            return contents

    return asyncio.run(read())


def held_elsewhere(url: str, place: Path, tenex: Tenex, line: str) -> str:
    """What a command prints while another worker has the lease of the first conversation."""

    async def hold() -> str:
        async with another(url, place) as worker:
            lease, _ = await worker._leases.take(ONE)  # one whose journal is damaged cannot be opened
            err = await asyncio.to_thread(lambda: tenex(line, code=1).err)
            await worker._leases.give_back(lease)
            return err

    return asyncio.run(hold())


def exported(place: Path, tenex: Tenex, name: ConversationId = ONE) -> Path:
    """A conversation of the folder with files, in one file."""
    file = place / f"{name[:4]}.jsonl"
    tenex(f"conversations export {name} --out {file} --data {place / 'files'}")
    return file


def test_a_conversation_is_imported_into_a_database_as_into_files(
    data: Path, store: str, tmp_path: Path, tenex: Tenex
) -> None:
    file = exported(tmp_path, tenex)
    line = f"conversations import {file}"
    with FolderLock(data / "conversations"):
        assert "is in use by process" in tenex(line, code=4).err
    assert "writes the conversation 111111111111 now" in held_elsewhere(store, tmp_path / "w", tenex, line)
    assert stored(store, tmp_path / "w", ONE) == []
    out, err = tenex(line)
    assert out.split(", ")[1] == "imported.\n"
    assert "nothing runs and nothing is sent until someone writes" in err
    (content,) = before = stored(store, tmp_path / "w", ONE)
    assert content.splitlines()[-1].count(b'"ConversationImported"') == 1
    assert "already here, unchanged." in tenex(line).out
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2', 1))
    assert "it was exported by a newer tenex" in tenex(line, code=4).err
    other = tmp_path / "files" / "conversations" / ONE / "journal.jsonl"
    other.write_bytes(b"".join(other.read_bytes().splitlines(keepends=True)[:5]))
    file.unlink()
    exported(tmp_path, tenex)
    assert "and one continues where the other ends. Nothing was changed." in tenex(line, code=4).err
    assert stored(store, tmp_path / "w", ONE) == before
    (row,) = json.loads(tenex("conversations list --json").out)
    assert (row["id"], row["imported"]) == (ONE, True)
    for command in ("show 1111", "replay 1111 --to 5", "list", "search nice"):
        assert " (imported)" in tenex(f"conversations {command}").out, command
    old = tmp_path / f"{'d' * 64}.json"  # of an older program
    old.write_text(json.dumps({"title": "Login", "phase": "EXECUTE", "history": []}))
    assert json.loads(tenex(f"conversations import {old} --json").out)["result"] == "imported"
    assert tenex(f"conversations import {old}", code=4).err
    assert tenex("conversations verify").out.startswith("2 of 2 conversations intact")
    assert sorted(path.name for path in (data / "conversations" / ONE).iterdir()) == ["conversation.json"]


def test_a_database_of_another_project_gets_nothing(data: Path, store: str, tmp_path: Path, tenex: Tenex) -> None:
    async def claim() -> None:
        async with another(store, tmp_path / "w") as worker:
            await worker.claim("a" * 64)

    asyncio.run(claim())
    for line in (f"import {exported(tmp_path, tenex)}", f"rebuild {ONE} --from conversation.json"):
        assert "holds the conversations of another project" in tenex(f"conversations {line}", code=3).err
    assert stored(store, tmp_path / "w", ONE) == []
    assert KeyRing(data / "keys").read("project").public != "a" * 64


def test_a_damaged_conversation_of_a_database_is_rebuilt_and_the_old_lines_are_kept(
    data: Path, store: str, tmp_path: Path, tenex: Tenex
) -> None:
    """A journal that grew here, as a daemon has written it, with its view."""
    decisions = worked(ONE)
    whole = [record for decision in decisions for record in decision]
    write_conversations(data, {ONE: decisions})
    tenex(f"conversations copy --to {store}")
    journal = data / "conversations" / ONE / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.unlink()
    line = f"conversations rebuild {ONE} --from conversation.json"
    assert f"is whole ({len(whole)} records)" in tenex(line, code=2).err
    assert "No conversation begins with 2222" in tenex("conversations rebuild 2222", code=2).err
    assert f"no conversation {TWO} in the database" in tenex(f"conversations rebuild {TWO}", code=2).err
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute("update tenex_records set line = replace(line, '\"v\":1', '\"v\": 1') where seq = 30")
    lines[29] = lines[29].replace(b'"v":1', b'"v": 1')
    out, _ = tenex("conversations verify", code=4)
    assert "line 30 cannot be right" in out
    assert f"conversations rebuild {ONE[:12]} --from conversation.json" in out
    err = held_elsewhere(store, tmp_path / "w", tenex, line)
    assert "writes the conversation 111111111111 now" in err
    assert not list((data / "conversations" / ONE).glob("journal*")), "nothing is left of what was refused"
    with FolderLock(data / "conversations"):
        assert "is in use by process" in tenex(line, code=4).err
    done = json.loads(tenex(f"{line} --json").out)
    aside = Path(done["aside"])
    assert aside.parent == data / "conversations" / ONE
    assert (aside / "journal.jsonl").read_bytes() == b"".join(lines)
    assert (aside / "conversation.json").is_file()
    assert done["lost"]
    assert "line 30" in done["lost"][0]
    assert tenex("conversations verify").out.startswith("1 of 1 conversations intact")
    view = json.loads((data / "conversations" / ONE / "conversation.json").read_text())
    shown = json.loads(tenex("conversations show 1111 --json").out)
    assert view == shown
    messages = [message["text"] for message in shown["messages"]]
    assert messages
    assert [text for text in messages if text not in fold_texts(whole)] == []
    assert "recovered from conversation.json" in tenex("conversations show 1111").out
    assert "is whole" in tenex(line, code=2).err
    again = json.loads(tenex(f"{line} --force --json").out)
    assert Path(again["aside"]) != aside
    with psycopg.connect(store, autocommit=True) as connection:
        holders = connection.execute("select holder, quarantined from tenex_conversations").fetchall()
    assert holders == [(None, None)]


def fold_texts(records: Any) -> set[str]:
    return {message.text for message in fold(ONE, records).memory.recent}


def test_every_command_on_conversations_works_on_a_database(
    data: Path, store: str, tmp_path: Path, tenex: Tenex
) -> None:
    """With the answers that files give."""
    for name in (ONE, TWO):
        tenex(f"conversations import {exported(tmp_path, tenex, name)}")
    files = tmp_path / "back"
    (files / "conversations").mkdir(parents=True)
    (files / "tenex.toml").write_text("[people]\nopen = true\n")
    tenex(f"conversations copy --to {files / 'conversations'}")
    for command in (
        "list",
        "list --json",
        "search nice",
        "search nice --json",
        "show 1111 --json",
        "stats",
        "stats --json",
        "stats 1111 --json",
        "replay 1111 --to 9 --each --json",
    ):
        ours, theirs = tenex(f"conversations {command}"), tenex(f"conversations {command} --data {files}")
        assert ours.out.replace(str(data), str(files)) == theirs.out, command
        assert ours.out.strip()
    page = tenex("conversations export 2222 --html").out
    assert page == tenex(f"conversations export 2222 --html --data {files}").out
    last = json.loads(tenex("conversations replay 1111 --json").out)["lastSeq"]
    made = json.loads(tenex(f"conversations fork 1111 --at {last} --json").out)
    assert made["forkedFrom"] == {"id": ONE, "seq": last}
    assert len(json.loads(tenex("conversations list --json").out)) == 3
    assert tenex("conversations verify").out.startswith("3 of 3 conversations intact")
    assert tenex(f"conversations path {made['id']}").out.strip() == str(data / "conversations" / made["id"])
    done = json.loads(tenex("conversations rollback 1111 --to 9 --yes --json").out)
    assert done["id"] == ONE
