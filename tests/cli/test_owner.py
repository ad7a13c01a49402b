"""`tenex owner`: owners are added and removed in tenex.toml, whose other lines and comments stay."""

import json
import tomllib
from pathlib import Path

import pytest

from tenex.cli.shared import public_keys
from tenex.core.ids import PublicKey
from tenex.nostr.keys import KeyRing, SecretKey, nprofile
from tests.kits.commands import Tenex

FIRST, SECOND, THIRD = (SecretKey(bytes([number]) * 32) for number in (11, 12, 13))

COMMENTED = f"""\
# The team's daemon.
workflows = []   # none yet

[people]
# Owners may do everything.
owners = [
    "{FIRST.npub}",  # Ada, from the office
    "{SECOND.public}",  # Grace
]   # two of us
open = false  # for now

[relays]
urls = ["ws://127.0.0.1:7447"]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with settings that somebody has written by hand."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "tenex.toml").write_text(COMMENTED)
    (data / "tenex.toml").chmod(0o640)
    return data


def owners(data: Path) -> list[str]:
    listed: list[str] = tomllib.loads((data / "tenex.toml").read_text())["people"]["owners"]
    return listed


def test_an_owner_is_added_and_every_other_line_stays(tenex: Tenex, data: Path) -> None:
    assert f"{THIRD.npub} is an owner now" in tenex(f"owner add {THIRD.npub}").err
    text = (data / "tenex.toml").read_text()
    assert owners(data) == [FIRST.npub, SECOND.public, THIRD.npub]
    added = [line for line in text.splitlines() if line not in COMMENTED.splitlines()]
    assert [line.strip().rstrip(",") for line in added] == [f'"{THIRD.npub}"']
    assert [line for line in COMMENTED.splitlines() if line not in text.splitlines()] == []
    assert (data / "tenex.toml").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in data.iterdir()] == ["tenex.toml"]
    assert tenex("owner list").out.split() == [FIRST.npub, SECOND.npub, THIRD.npub]
    assert "already" in tenex(f"owner add {nprofile(THIRD.public, ['wss://a.example'])}").err
    assert (data / "tenex.toml").read_text() == text


@pytest.mark.parametrize("who", [SECOND.npub, SECOND.public, f"nostr:{SECOND.npub}"])
def test_an_owner_is_removed_however_the_key_was_written(tenex: Tenex, data: Path, who: str) -> None:
    tenex(f"owner remove {who}")
    text = (data / "tenex.toml").read_text()
    assert owners(data) == [FIRST.npub]
    for comment in ("# The team's daemon.", "# none yet", "# Ada, from the office", "# two of us", "# for now"):
        assert comment in text
    assert SECOND.public not in text


def test_the_last_owner_and_a_stranger_cannot_be_removed(tenex: Tenex, data: Path) -> None:
    tenex(f"owner remove {FIRST.npub}")
    before = (data / "tenex.toml").read_text()
    assert "is the only owner" in tenex(f"owner remove {SECOND.npub}", code=2).err
    assert "is no owner" in tenex(f"owner remove {THIRD.npub}", code=2).err
    assert (data / "tenex.toml").read_text() == before


def test_the_settings_of_init_are_changed_and_a_missing_table_is_made(tenex: Tenex, data: Path) -> None:
    (data / "tenex.toml").unlink()
    tenex("init")
    own = KeyRing(data / "keys").get("owner")
    tenex(f"owner add {THIRD.npub}")
    assert owners(data) == [own.npub, THIRD.npub]
    rows = json.loads(tenex("owner list --json").out)
    assert [(row["npub"], row["key_is_here"]) for row in rows] == [(own.npub, True), (THIRD.npub, False)]
    assert "those of a stranger" in tenex(f"owner remove {own.npub}").err
    (data / "tenex.toml").write_text("[log]\nlevel = 'info' # loud\n")
    tenex(f"owner add {THIRD.npub}")
    assert (data / "tenex.toml").read_text().startswith("[log]\nlevel = 'info' # loud\n")
    assert owners(data) == [THIRD.npub]


def test_a_name_is_looked_up_and_its_key_is_written(tenex: Tenex, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(text: str) -> PublicKey:
        if text != "alice@example.com":
            raise ValueError("example.com does not know the name bob")
        return THIRD.public

    monkeypatch.setattr(public_keys, "look_up", look_up)
    err = tenex("owner add alice@example.com").err
    assert f"alice@example.com is {THIRD.npub}" in err
    assert owners(data)[-1] == THIRD.npub
    assert "does not know the name bob" in tenex("owner add bob@example.com", code=2).err


@pytest.mark.parametrize("who", ["npub1mistyped", "alice", SecretKey(bytes([7]) * 32).nsec, ""])
def test_what_is_no_key_changes_nothing_and_a_secret_is_not_repeated(tenex: Tenex, data: Path, who: str) -> None:
    out, err = tenex("owner add", who, code=2)
    assert "This is no owner's key" in err
    assert not who.startswith("nsec") or who not in out + err
    assert (data / "tenex.toml").read_text() == COMMENTED


def test_owners_of_a_variable_are_changed_there(tenex: Tenex, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENEX_PEOPLE__OWNERS", json.dumps([FIRST.npub]))
    assert "people.owners is set by TENEX_PEOPLE__OWNERS" in tenex(f"owner add {THIRD.npub}", code=3).err
    assert (data / "tenex.toml").read_text() == COMMENTED


def test_a_link_stays_one_and_a_full_disk_leaves_the_old_file(
    tenex: Tenex, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = data.parent / "dotfiles.toml"
    (data / "tenex.toml").rename(real)
    (data / "tenex.toml").symlink_to(real)
    tenex(f"owner add {THIRD.npub}")
    assert (data / "tenex.toml").is_symlink()
    assert THIRD.npub in real.read_text()
    before = real.read_text()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    assert "cannot be written (No space left on device)" in tenex(f"owner remove {THIRD.npub}", code=3).err
    assert real.read_text() == before
    assert not [path for path in data.parent.iterdir() if path.name.startswith(".dotfiles")]
