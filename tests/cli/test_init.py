"""`tenex init`: a folder to start in, made once, never overwritten."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import load

from .conftest import Done

Tenex = Callable[..., Done]
NAMES = {"project", "executor", "planner", "project-manager", "security-expert", "owner"}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted([folder, *folder.rglob("*")])
    }


def test_a_first_run_makes_everything_private_and_prints_the_address(installed: Tenex, tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    done = installed("init", "--dir", data)
    assert done.returncode == 0
    ring = KeyRing(data / "keys")
    assert done.stdout == f"{ring.get('project').npub}\n"
    assert set(ring.names()) == NAMES
    for path in [data, *data.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in data.iterdir()} == {"tenex.toml", "keys", "conversations", "workspace", "agents"}
    settings = load(None, data, env={})
    assert settings.people.owners == [ring.get("owner").npub]
    assert set(settings.origins) == {"people.owners"}


def test_no_secret_is_ever_printed_and_the_way_to_a_phone_is(tenex: Tenex, tmp_path: Path) -> None:
    done = tenex("init", "--dir", tmp_path / "d")
    assert not re.search(r"nsec1[a-z0-9]", done.stdout + done.stderr)
    assert str(tmp_path / "d" / "keys" / "owner.nsec") in done.stderr
    assert "phone" in done.stderr


def test_a_second_run_changes_nothing_and_reports_it(tenex: Tenex, tmp_path: Path) -> None:
    first = tenex("init", "--dir", tmp_path / "d")
    before = snapshot(tmp_path / "d")
    second = tenex("init", "--dir", tmp_path / "d")
    assert second.returncode == 0
    assert second.stdout == first.stdout
    assert "nothing was changed" in second.stderr
    assert snapshot(tmp_path / "d") == before


def test_an_owner_of_ones_own_and_relays_are_written(tenex: Tenex, tmp_path: Path) -> None:
    owner = SecretKey.generate()
    done = tenex(
        "init",
        "--dir",
        tmp_path / "d",
        "--owner",
        owner.public,
        "--relay",
        "wss://a.example",
        "--relay",
        "wss://b.example",
        "--json",
    )
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["owners"] == [owner.npub]
    assert found["owner_key_file"] is None
    assert found["relays"] == ["wss://a.example", "wss://b.example"]
    assert set(found["agents"]) == NAMES - {"project", "owner"}
    assert found["npub"] == KeyRing(tmp_path / "d" / "keys").get("project").npub
    assert not (tmp_path / "d" / "keys" / "owner.nsec").exists()
    assert found["created"]
    again = json.loads(tenex("init", "--dir", tmp_path / "d", "--json").stdout)
    assert again == {**found, "created": []}


def test_the_written_file_holds_only_what_differs_and_names_the_whole_truth(tmp_path: Path) -> None:
    assert main(["init", "--dir", str(tmp_path / "d")]) == 0
    text = (tmp_path / "d" / "tenex.toml").read_text()
    assert {name: value for name, value in tomllib.loads(text).items() if value} == {
        "people": tomllib.loads(text)["people"]
    }
    example = re.search(r"\S+tenex\.example\.toml", text)
    assert example is not None
    assert Path(example.group()).is_file()


@pytest.mark.parametrize(
    ("arguments", "stderr"),
    [
        (["--owner", "npub1wrong"], "people.owners[0]: this npub is mistyped"),
        (["--relay", "http://x"], "relays.urls[0]: must be the address of a relay"),
        (["--data", "/elsewhere"], "name different folders"),
    ],
)
def test_wrong_options_are_usage_errors_and_make_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], stderr: str
) -> None:
    assert main(["init", "--dir", str(tmp_path / "d"), *arguments]) == 2
    assert stderr in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_a_secret_key_given_as_the_owner_is_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = SecretKey.generate().nsec
    assert main(["init", "--dir", str(tmp_path / "d"), "--owner", secret]) == 2
    stderr = capsys.readouterr().err
    assert "secret key" in stderr
    assert secret not in stderr


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d").write_text("mine")
    assert main(["init", "--dir", str(tmp_path / "d")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert (tmp_path / "d").read_text() == "mine"


@pytest.mark.parametrize("wish", ["--owner", "--relay"])
def test_an_option_that_contradicts_the_file_is_refused_not_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wish: str
) -> None:
    assert main(["init", "--dir", str(tmp_path / "d")]) == 0
    before = snapshot(tmp_path / "d")
    value = SecretKey.generate().npub if wish == "--owner" else "wss://new.example"
    assert main(["init", "--dir", str(tmp_path / "d"), wish, value]) == 2
    assert "was not changed" in capsys.readouterr().err
    assert snapshot(tmp_path / "d") == before


def test_a_broken_configuration_is_reported_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tenex.toml").write_text("[people\n")
    assert main(["init", "--dir", str(tmp_path)]) == 3
    assert "not valid TOML: line 1" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tenex.toml"]


def test_a_new_agents_key_is_made_by_a_later_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "d"
    assert main(["init", "--dir", str(data)]) == 0
    mine = "---\nname: Critic\nrole: r\nkind: expert\nuse_when: u\n---\nObject.\n"
    (data / "agents" / "critic.md").write_text(mine)
    capsys.readouterr()
    assert main(["init", "--dir", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["created"] == [str(data / "keys" / "critic.nsec")]


def test_a_run_that_broke_off_is_finished_by_the_next_with_the_same_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file comes last, so whatever is there before it is taken up again."""
    data = tmp_path / "d"

    real_link = os.link

    def disk_fills_up(source: str, target: Path) -> None:
        if target.name == "tenex.toml":
            raise OSError(28, "No space left on device")
        real_link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.link", disk_fills_up)
        assert main(["init", "--dir", str(data)]) == 3
    assert "tenex.toml: cannot be written (No space left on device)" in capsys.readouterr().err
    assert not (data / "tenex.toml").exists()
    before = {name: KeyRing(data / "keys").get(name) for name in NAMES}
    assert main(["init", "--dir", str(data)]) == 0
    assert {name: KeyRing(data / "keys").get(name) for name in NAMES} == before
    assert not [path for path in data.rglob(".*") if path.is_file()]


@pytest.mark.parametrize("where", ["/proc/tenex-cannot-be", "/dev/null/tenex"])
def test_a_folder_that_cannot_be_made_is_a_clear_error(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--dir", where]) == 3
    out, stderr = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"tenex: {where}\S*: cannot be .*(No such file|Not a) .*\n", stderr)


def test_the_next_steps_can_be_typed_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "a b"
    assert main(["init", "--dir", str(data)]) == 0
    assert f"tenex --data '{data}' run" in capsys.readouterr().err
    other = tmp_path / "c"
    other.mkdir()
    (other / "tenex.toml").write_text("[people]\nopen = true\n")
    monkeypatch.chdir(other)
    assert main(["init"]) == 0
    assert "  tenex run " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("relay", "port"), [("ws://127.0.0.1:7447", 7447), ("ws://localhost:9000", 9000), ("wss://relay.example", None)]
)
def test_the_relay_of_the_next_steps_is_the_one_of_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, relay: str, port: int | None
) -> None:
    """Its line, run as it is printed, listens where the daemon looks."""
    data = tmp_path / "d"
    assert main(["init", "--dir", str(data), "--relay", relay]) == 0
    (line,) = [*(line for line in capsys.readouterr().err.splitlines() if " relay " in line), None][:1]
    assert (line is not None and "a terminal of its own" in line) == (port is not None)
    listening: list[int] = []

    async def serve(port: int, events: Path | None) -> None:
        listening.append(port)

    monkeypatch.setattr("tenex.cli.relay._serve", serve)
    assert main(["relay", "--data", str(data)]) == 0
    assert main(["relay", "--data", str(data), "--port", "9001"]) == 0
    assert listening == [port or 7447, 9001]
