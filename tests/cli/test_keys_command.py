"""`tenex keys`: keys leave and enter the keys folder under a password, and no key is lost."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import nostr_sdk as sdk
import pytest

from tenex.cli import keys as module
from tenex.nostr.keys import KeyRing, SecretKey
from tests.kits.commands import Tenex, command
from tests.kits.terminal import Terminal
from tests.programs import needs_tmux

PASSWORD = "correct horse battery staple"
OTHER = SecretKey(bytes([21]) * 32)


@pytest.fixture
def ring(tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyRing:
    """The keys of a folder that `init` has made; scripts give the password by the variable."""
    tenex("init")
    monkeypatch.setenv(module.VARIABLE, PASSWORD)
    return KeyRing(tmp_path / "data" / "keys")


@pytest.mark.parametrize("name", ["project", "owner", "executor"])
def test_a_key_is_exported_and_comes_back_in_another_folder(
    tenex: Tenex, ring: KeyRing, tmp_path: Path, name: str
) -> None:
    key = ring.get(name)
    out, err = tenex(f"keys export {name}")
    text = out.strip()
    assert text.startswith("ncryptsec1")
    assert key.nsec not in out + err
    assert sdk.EncryptedSecretKey.from_bech32(text).decrypt(PASSWORD).to_bech32() == key.nsec
    (tmp_path / "key").write_text(text)
    other = tmp_path / "other"
    tenex(f"init --dir {other}")
    assert "Add --replace" in tenex(f"keys import {name} {tmp_path / 'key'} --data {other}", code=2).err
    before = KeyRing(other / "keys").get(name)
    assert before != key
    printed = json.loads(tenex(f"keys import {name} {tmp_path / 'key'} --replace --data {other} --json").out)
    assert (printed["npub"], printed["changed"]) == (key.npub, True)
    assert KeyRing(other / "keys").get(name) == key
    assert Path(printed["kept"]).read_text() == f"{before.nsec}\n"
    assert "already" in tenex(f"keys import {name} {tmp_path / 'key'} --data {other}").err


def test_a_key_of_another_program_is_imported_and_what_is_next_is_said(
    tenex: Tenex, ring: KeyRing, tmp_path: Path
) -> None:
    text = sdk.SecretKey.parse(OTHER.nsec).encrypt(PASSWORD).to_bech32()
    (tmp_path / "key").write_text(f"{text}\r\n")
    err = tenex(f"keys import owner {tmp_path / 'key'} --replace").err
    assert f"tenex owner add {OTHER.npub}" in err
    assert ring.get("owner") == OTHER
    tenex(f"owner add {OTHER.npub}")
    assert "tenex stop" in tenex(f"keys import project {tmp_path / 'key'} --replace").err


def test_an_export_goes_into_a_new_private_file(tenex: Tenex, ring: KeyRing, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    out, err = tenex(f"keys export owner --out {file}")
    assert (out, str(file) in err) == ("", True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert SecretKey.from_ncryptsec(file.read_text(), PASSWORD) == ring.get("owner")
    assert "cannot be written" in tenex(f"keys export owner --out {file}", code=3).err


def test_a_password_comes_from_a_descriptor(
    tenex: Tenex, ring: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(module.VARIABLE)
    reading, writing = os.pipe()
    try:
        os.write(writing, f"{PASSWORD}\n".encode())
        os.close(writing)
        text = tenex(f"keys export owner --password-fd {reading}").out
    finally:
        os.close(reading)
    assert SecretKey.from_ncryptsec(text, PASSWORD) == ring.get("owner")
    assert "--password-fd 99: cannot be read" in tenex("keys export owner --password-fd 99", code=2).err


def test_without_a_password_nothing_is_done(tenex: Tenex, ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, "")
    assert "The password is empty" in tenex("keys export owner", code=2).err
    monkeypatch.delenv(module.VARIABLE)
    assert "A password is needed: set $TENEX_KEY_PASSWORD" in tenex("keys export owner", code=2).err


@pytest.mark.parametrize(
    ("line", "message", "code"),
    [
        ("keys export ghost", "there is no key for ghost", 3),
        ("keys import ghost {}", "'ghost' has no key here. Choose from project, owner, ", 2),
        ("keys import owner {}x", "cannot be read", 2),
        ("keys import owner", "Name the file", 2),
        ("keys import owner {} --replace", "the password is wrong", 2),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    tenex: Tenex, ring: KeyRing, tmp_path: Path, line: str, message: str, code: int
) -> None:
    (tmp_path / "key").write_text(OTHER.encrypted("another password"))
    before = {name: ring.get(name) for name in ring.names()}
    out, err = tenex(line.format(tmp_path / "key"), code=code)
    assert message in err
    assert PASSWORD not in out + err
    assert {name: ring.get(name) for name in ring.names()} == before


def test_a_key_of_a_credential_is_listed_and_exported_and_not_replaced(
    tenex: Tenex, ring: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = tmp_path / "credentials" / "project.nsec"
    credential.parent.mkdir()
    key = ring.get("project")
    (ring.folder / "project.nsec").rename(credential)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credential.parent))
    assert f"project         {key.npub}  in the credential {credential}\n" in tenex("keys list").out
    rows = {row["name"]: row for row in json.loads(tenex("keys list --json").out)}
    assert (rows["project"]["file"], rows["project"]["credential"]) == (str(credential), True)
    assert rows["owner"]["credential"] is False
    assert SecretKey.from_ncryptsec(tenex("keys export project").out.strip(), PASSWORD) == key
    assert tenex("address").out.startswith(key.npub)
    tenex("init")
    assert not (ring.folder / "project.nsec").exists()
    (tmp_path / "key").write_text(OTHER.encrypted(PASSWORD))
    (tmp_path / "address").write_text(f"bunker://{OTHER.public}?relay=ws://127.0.0.1:1")
    for line in (f"keys import project {tmp_path / 'key'} --replace", f"keys connect project {tmp_path / 'address'}"):
        assert f"{credential}: the key of project comes from there" in tenex(line, code=3).err


def test_an_nsec_is_refused_and_not_repeated(tenex: Tenex, ring: KeyRing, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(OTHER.nsec)
    out, err = tenex(f"keys import owner {tmp_path / 'key'} --replace", code=2)
    assert "this is an nsec, not an ncryptsec" in err
    assert OTHER.nsec not in out + err


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without anything in it."""
    it = Terminal(tmp_path)
    try:
        yield it
    finally:
        it.close()


@needs_tmux
async def test_a_person_types_the_password_twice_and_it_is_not_shown(
    tenex: Tenex, tmp_path: Path, terminal: Terminal
) -> None:
    tenex("init")
    export = [*command(), "keys", "export", "owner", "--data", str(tmp_path / "data")]
    terminal.start(*export, "; echo again;", *export)
    await terminal.shows("Its password (not shown):")
    terminal.type(PASSWORD)
    await terminal.shows("Again:")
    terminal.type("something else")
    await terminal.until(lambda screen: "The two passwords differ" in screen and screen.count("Its password") == 2)
    terminal.type(PASSWORD)
    await terminal.until(lambda screen: screen.count("Again:") == 2)
    terminal.type(PASSWORD)
    screen = await terminal.shows("ncryptsec1", "ended 0")
    assert PASSWORD not in screen
    text = "".join(screen[screen.index("ncryptsec1") :].split("ended")[0].split())
    assert SecretKey.from_ncryptsec(text, PASSWORD) == KeyRing(tmp_path / "data" / "keys").get("owner")
