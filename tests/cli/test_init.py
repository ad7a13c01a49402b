"""`tenex init`: a folder to start in, made once, never overwritten."""

import json
import os
import re
import socket
import stat
import threading
import tomllib
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load
from tenex.tools.project_files import holds_documents
from tests.kits.commands import Tenex
from tests.service.kit import ROOT

SHIPPED = {path.stem for path in (ROOT / "prompts" / "agents").glob("*.md")}
NAMES = {"project", "owner", *SHIPPED} - {"orchestrator"}  # the orchestrator signs with the key of the project


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "data"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted([folder, *folder.rglob("*")])
    }


def test_a_first_run_makes_everything_private_and_a_second_changes_nothing(tenex: Tenex, tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    npub, shown = tenex(f"init --dir {data}")
    ring = KeyRing(data / "keys")
    assert npub == f"{ring.get('project').npub}\n"
    assert not re.search(r"nsec1[a-z0-9]", shown)
    assert f"with a new key in {data / 'keys' / 'owner.nsec'}" in shown
    assert "phone" in shown
    assert "at $20 a cycle, $100 a conversation and $300 a day: [limits] in it." in shown
    assert set(ring.names()) == NAMES
    for path in [data, *data.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in data.iterdir()} == {"tenex.toml", "keys", "conversations", "workspace", "agents"}
    settings = load(None, data, env={})
    assert settings.people.owners == [ring.get("owner").npub]
    assert set(settings.origins) == {"people.owners"}
    text = (data / "tenex.toml").read_text()
    assert [name for name, value in tomllib.loads(text).items() if value] == ["people"]
    example = re.search(r"\S+tenex\.example\.toml", text)
    assert example is not None
    assert Path(example.group()).is_file()
    before = snapshot(data)
    out, err = tenex(f"init --dir {data}")
    assert (out, "nothing was changed" in err) == (npub, True)
    assert snapshot(data) == before


def test_an_owner_of_ones_own_and_relays_are_written(tenex: Tenex, data: Path) -> None:
    owner = SecretKey.generate()
    relays = ["wss://a.example", "wss://b.example"]
    out, err = tenex(f"init --no-check --owner {owner.public} --relay {relays[0]} --relay {relays[1]} --json")
    found = json.loads(out)
    assert err == ""
    assert (found["owners"], found["owner_key_file"], found["relays"]) == ([owner.npub], None, relays)
    assert set(found["agents"]) == NAMES - {"project", "owner"}
    assert found["npub"] == KeyRing(data / "keys").get("project").npub
    assert not (data / "keys" / "owner.nsec").exists()
    assert found["created"]
    assert json.loads(tenex("init --json").out) == {**found, "created": []}
    (data / "agents" / "critic.md").write_text("---\nname: C\nrole: r\nkind: expert\nuse_when: u\n---\nObject.\n")
    assert json.loads(tenex("init --json").out)["created"] == [str(data / "keys" / "critic.nsec")]


def test_relays_of_options_have_a_verdict_without_a_terminal(tenex: Tenex, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        threading.Thread(target=lambda: silent.accept()[0].close(), daemon=True).start()
        err = tenex(f"init --relay localhost:9 --relay 127.0.0.1:{port}").err
    assert "ws://localhost:9: no relay listens there yet; start it: `tenex" in err
    assert "relay --port 9`" in err
    (dead,) = [line for line in err.splitlines() if line.startswith(f"  ws://127.0.0.1:{port}: ")]
    assert "name another relay" in dead
    assert "Until that is fixed no message comes in" in err
    assert load(None, data, env={}).relays.urls == ["ws://localhost:9", f"ws://127.0.0.1:{port}"]
    assert "Asking" not in tenex("init --relay localhost:9").err, "it was made already"


def test_relays_are_not_asked_where_the_checks_are_off(tenex: Tenex, data: Path) -> None:
    assert "Asking" not in tenex("init --no-check --relay relay.example.com").err
    assert load(None, data, env={}).relays.urls == ["wss://relay.example.com"]


@pytest.mark.parametrize("address", ["ftp://relay.example", "[", "a b", ""])
def test_what_is_no_address_of_a_relay_is_refused(tenex: Tenex, data: Path, address: str) -> None:
    assert "relays.urls[0]: " in tenex("init", "--relay", address, code=2).err
    assert not data.exists()


def test_a_database_is_asked_before_anything_is_made(tenex: Tenex, data: Path) -> None:
    away = "postgresql:///x?host=/nonexistent&connect_timeout=1"
    _, err = tenex("init --dir", data, "--store", away, code=1)
    assert "Nothing was made." in err
    assert "cannot be used now" in err
    assert "must be empty, for files, or the address" in tenex("init --dir", data, "--store", "files", code=2).err
    assert not data.exists()
    tenex("init --no-check --dir", data, "--store", away)
    assert load(None, data, env={}).store == away
    _, err = tenex("init --no-check --dir", data, "--store", "postgresql:///y", code=2)
    assert "exists and was not changed; set store in it" in err


@pytest.mark.parametrize(
    "wish", [f"--owner {SecretKey(bytes([8]) * 32).npub}", "--relay wss://new.example", "--model openai:gpt-5-mini"]
)
def test_an_option_that_contradicts_the_file_is_refused_not_dropped(tenex: Tenex, data: Path, wish: str) -> None:
    tenex("init")
    before = snapshot(data)
    assert "was not changed" in tenex(f"init {wish}", code=2).err
    assert snapshot(data) == before


def test_a_run_that_broke_off_is_finished_by_the_next_with_the_same_keys(
    tenex: Tenex, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_link = os.link

    def disk_fills_up(source: str, target: Path) -> None:
        if target.name == "tenex.toml":
            raise OSError(28, "No space left on device")
        real_link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.link", disk_fills_up)
        assert "tenex.toml: cannot be written (No space left on device)" in tenex("init", code=3).err
    assert not (data / "tenex.toml").exists()
    before = {name: KeyRing(data / "keys").get(name) for name in NAMES}
    assert f"with the key in {data / 'keys' / 'owner.nsec'}" in tenex("init").err
    assert {name: KeyRing(data / "keys").get(name) for name in NAMES} == before
    assert not [path for path in data.rglob(".*") if path.is_file()]


def test_a_new_owner_is_made_only_when_it_is_asked_for_and_chat_names_the_command(tenex: Tenex, data: Path) -> None:
    tenex("init")
    file, key = data / "tenex.toml", data / "keys" / "owner.nsec"
    before, old = file.read_text(), KeyRing(data / "keys").get("owner")
    key.unlink()
    assert "nothing was changed" in tenex("init").err
    assert not key.exists()
    assert "`tenex init --new-owner` makes another" in tenex("chat", code=3).err
    npub, shown = tenex("init --new-owner")
    new = KeyRing(data / "keys").get("owner")
    assert (npub, new != old, file.read_text()) == (f"{new.npub}\n", True, before)
    line = f'owners = ["{old.npub}", "{new.npub}"]'
    assert line in shown
    assert json.loads(tenex("init --new-owner --json").out)["new_owner"] == new.npub, "a second run makes no other"
    file.write_text(re.sub("^owners = .*", line, before, flags=re.MULTILINE))
    assert "nothing was changed" in tenex("init --new-owner").err
    assert KeyRing(data / "keys").get("owner") == new
    assert "give one of them" in tenex(f"init --new-owner --owner {new.npub}", code=2).err


@pytest.mark.parametrize("where", ["/proc/tenex-cannot-be", "/dev/null/tenex"])
def test_a_folder_that_cannot_be_made_or_read_is_a_clear_error(where: str, tenex: Tenex, data: Path) -> None:
    data.write_text("mine")
    assert "is not a folder" in tenex("init", code=2).err
    data.unlink()
    data.mkdir()
    (data / "tenex.toml").write_text("[people\n")
    assert "not valid TOML: line 1" in tenex("init", code=3).err
    assert [path.name for path in data.iterdir()] == ["tenex.toml"]
    out, err = tenex(f"init --dir {where}", code=3)
    assert out == ""
    assert re.fullmatch(rf"tenex: {where}\S*: cannot be .*(No such file|Not a) .*\n", err)


def test_the_next_steps_can_be_typed_as_printed(tenex: Tenex, tmp_path: Path, cwd: Path) -> None:
    assert f"tenex --data '{tmp_path / 'a b'}' run" in tenex("init --dir", tmp_path / "a b").err
    assert "  tenex run " in tenex("init").err


@pytest.mark.parametrize(("relay", "port"), [("ws://localhost:9000", 9000), ("wss://relay.example", None)])
def test_the_relay_of_the_next_steps_is_the_one_of_the_settings(
    tenex: Tenex, monkeypatch: pytest.MonkeyPatch, relay: str, port: int | None
) -> None:
    """Its line, run as it is printed, listens where the daemon looks."""
    assert ("a terminal of its own" in tenex(f"init --relay {relay}").err) == (port is not None)
    listening: list[int] = []

    async def serve(port: int, events: Path | None) -> None:
        listening.append(port)

    monkeypatch.setattr("tenex.cli.relay._serve", serve)
    tenex("relay")
    tenex("relay --port 9001")
    assert listening == [port or 7447, 9001]


def test_a_missing_workspace_elsewhere_is_made_as_mkdir_makes_it(tenex: Tenex, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        tenex(f"init --dir {tmp_path / 'data'} --workspace {tmp_path / 'project'}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "project").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_what_the_folder_holds_is_an_option_and_nothing_is_guessed_without_a_terminal(
    tenex: Tenex, tmp_path: Path, data: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "minutes.md").write_text("# November\n")
    tenex(f"init --dir {tmp_path / 'plain'} --workspace {folder}")
    assert load(None, tmp_path / "plain", env={}).conversations.agent == ""
    out, err = tenex(f"init --workspace {folder} --documents --json")
    assert (json.loads(out)["only_agent"], err) == ("executor", "")
    assert load(None, data, env={}).conversations.agent == "executor"
    assert "[workspace]" not in (data / "tenex.toml").read_text()
    tenex("config check")
    tenex("init --documents")
    assert "set conversations.agent in it" in tenex("init --software", code=2).err


@pytest.mark.parametrize(
    ("names", "are_documents"),
    [
        ([], False),
        ([".git"], False),
        (["minutes.md", "receipts", ".hidden.py"], True),
        (["letter.docx", "table.csv"], True),
        (["notes.md", "pyproject.toml"], False),
        (["notes.md", "main.c"], False),
        (["App.sln"], False),
    ],
)
def test_a_folder_of_documents_has_files_and_no_software(names: list[str], are_documents: bool, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert holds_documents(tmp_path) is are_documents
    assert not holds_documents(tmp_path / "absent")
