"""`tenex config`: what is set and where from, what is wrong, where the file is."""

import json
import tomllib
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import Settings, load
from tests.kits.commands import Tenex

OWNER = SecretKey.generate().npub


def write(data: Path, text: str = "") -> Path:
    file = data / "tenex.toml"
    file.write_text(f"[people]\nowners = ['{OWNER}']\n{text}", encoding="utf-8")
    return file


def test_show_prints_toml_that_means_the_same(tenex: Tenex, data: Path) -> None:
    odd = "[models.agents.'odd name']\nmodel = 'a\"b'\n[project]\nname='Ünï'\n"
    write(data, f"{odd}[limits.expectations.plan]\nwarn_after = 2.5\n")
    again = load(None, Path("/nowhere"), env={}, overrides=tomllib.loads(tenex("config show").out))
    assert again.model_dump() == load(None, data, env={}).model_dump()


def test_show_names_the_source_of_each_value(tenex: Tenex, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(data)
    found = json.loads(tenex("config show --json").out)
    assert found["origins"] == {"people.owners": str(file)}
    defaults = Settings().model_dump()
    assert found["settings"] == {**defaults, "people": {**defaults["people"], "owners": [OWNER]}}
    monkeypatch.setenv("TENEX_LIMITS__SAME_ROUTE", "6")
    lines = tenex("config show").out.splitlines()
    assert f'owners = ["{OWNER}"]  # from {file}' in lines
    assert "same_route = 6  # from TENEX_LIMITS__SAME_ROUTE" in lines
    assert "steps_per_run = 50" in lines


def test_show_hides_keys_in_the_addresses_of_relays(tenex: Tenex, data: Path) -> None:
    write(data, "[relays]\nurls = ['wss://paid.example/?token=hush']\n")
    for option in ("", "--json"):
        shown = tenex(f"config show {option}").out
        assert "hush" not in shown
        assert "wss://paid.example/?..." in shown


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("postgresql://me:hush@db.example/tenex", "postgresql://me:...@db.example/tenex"),
        ("postgresql://me:x/hush@y@db.example/tenex", "postgresql://me:...@db.example/tenex"),
        ("postgres://me@/tenex?host=/run&password=hush&port=1", "postgres://me@/tenex?host=/run&password=...&port=1"),
    ],
)
def test_show_hides_the_password_of_a_database(tenex: Tenex, data: Path, store: str, shown: str) -> None:
    file = write(data)
    file.write_text(f"store = '{store}'\n{file.read_text()}")
    for option in ("", "--json"):
        out = tenex(f"config show {option}").out
        assert "hush" not in out
        assert shown in out


def test_check_accepts_a_good_folder_and_remarks_on_settings_without_effect(tenex: Tenex, data: Path) -> None:
    file = write(data)
    KeyRing(data / "keys").get_or_create("project")
    assert tenex("config check") == (f"ok: {file}\n", "")
    write(data, "[models.agents.executer]\nmodel = 'offline'\n")
    out, err = tenex("config check")
    assert out == f"ok: {file}\n"
    assert "models.agents.executer: there is no such agent, so this does nothing; did you mean `executor`?" in err


COMMAND = "[tools.commands.deploy]\nrun = ['no-such-program-here', '{path}']\ndescription = 'd'\naccess = 'run'\n"


def test_a_fault_hides_no_remark_and_a_command_without_its_program_is_one(tenex: Tenex, data: Path) -> None:
    write(data, f"{COMMAND}[tools]\nadd = ['deploy', 'nonsense']\n")
    KeyRing(data / "keys").get_or_create("project")
    missing = "tools.commands.deploy: there is no no-such-program-here for it here; install it, or correct `run`"
    _, err = tenex("config check", code=3)
    assert "there is no tool 'nonsense'" in err
    assert missing in err
    checked = json.loads(tenex("config check --json", code=3).out)
    assert missing in checked["remarks"]
    assert len(checked["faults"]) == 1


MODELS = "[models]\ndefault = 'gpt-5'\nrouter = 'opnai:gpt-5'\n"
REFUSED_MODELS = ('models.default: "gpt-5" names no model', "models.providers.opnai")


@pytest.mark.parametrize(
    ("settings", "file", "faults"),
    [
        ("[paths]\nworkspace = 'keys/w'\n", "agents/mine.md", ("no one may talk here", "is in the keys folder")),
        (f"[people]\nopen = true\n{MODELS}", "config/workflows/rounds.toml", REFUSED_MODELS),
    ],
)
def test_check_names_every_fault_that_a_daemon_would_refuse(
    tenex: Tenex, data: Path, settings: str, file: str, faults: tuple[str, ...]
) -> None:
    KeyRing(data / "keys").get_or_create("project")
    (data / "keys" / "project.nsec").chmod(0o644)
    (data / "tenex.toml").write_text(settings)
    (data / file).parent.mkdir(parents=True)
    (data / file).touch()
    err = tenex("config check", code=3).err
    for fault in (*faults, Path(file).name, "others may read this key"):
        assert fault in err


def test_path_prints_the_file_in_use_or_where_one_would_be_read(tenex: Tenex, data: Path, tmp_path: Path) -> None:
    out, err = tenex("config path")
    assert out == f"{data / 'tenex.toml'}\n"
    assert " init` writes it" in err
    file = write(data)
    assert tenex("config path") == (f"{file}\n", "")
    found = json.loads(tenex("config path --json").out)
    assert [found[name] for name in ("data", "config", "workspace")] == [str(data), str(file), str(data / "workspace")]
    assert Path(found["example"]).is_file()
    assert tenex(f"--config {file} --data {tmp_path / 'other'} config path").out == f"{file}\n"
    assert tenex(f"--data {tmp_path} config path --data {data}").out == f"{file}\n"
    assert tenex(f"--data {tmp_path} config path").out == f"{tmp_path / 'tenex.toml'}\n"


def test_the_address_of_a_project_that_is_none_is_a_fault(tenex: Tenex, data: Path) -> None:
    key = SecretKey(bytes([7]) * 32)
    tenex("init --owner", key.npub)
    file = data / "tenex.toml"
    text = file.read_text()
    for event, says in ((f"31933:{key.public}:demo", ""), (key.npub, "project.event: the address of an event is")):
        file.write_text(f'{text}[project]\nevent = "{event}"\n')
        assert says in tenex("config check", code=3 if says else 0).err
