"""`tenex config`: what is set and where from, what is wrong, where the file is."""

import json
import tomllib
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import Settings, load

OWNER = SecretKey.generate().npub


@pytest.fixture(autouse=True)
def _no_settings_of_the_tester(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TENEX_DATA", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def write(folder: Path, text: str = "") -> Path:
    file = folder / "tenex.toml"
    file.write_text(f"[people]\nowners = ['{OWNER}']\n{text}", encoding="utf-8")
    return file


def test_show_prints_toml_that_means_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path,
        "[models.agents.'odd name']\nmodel = 'a\"b'\n[project]\nname='Ünï'\n"
        "[limits.expectations.plan]\nwarn_after = 2.5\n",
    )
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    again = load(None, Path("/nowhere"), env={}, overrides=tomllib.loads(shown))
    assert again.model_dump() == load(None, tmp_path, env={}).model_dump()


def test_show_names_the_source_of_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path)
    monkeypatch.setenv("TENEX_LIMITS__SAME_ROUTE", "6")
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f'owners = ["{OWNER}"]  # from {file}' in lines
    assert "same_route = 6  # from TENEX_LIMITS__SAME_ROUTE" in lines
    assert "steps_per_run = 50" in lines


def test_show_json_holds_all_settings_and_origins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["config", "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["origins"] == {"people.owners": str(file)}
    defaults = Settings().model_dump()
    assert found["settings"] == {**defaults, "people": {**defaults["people"], "owners": [OWNER]}}


def test_show_hides_keys_in_the_addresses_of_relays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "[relays]\nurls = ['wss://paid.example/?token=hush']\n")
    for more in ([], ["--json"]):
        assert main(["config", "show", *more]) == 0
        shown = capsys.readouterr().out
        assert "hush" not in shown
        assert "wss://paid.example/?..." in shown


def test_check_is_content_with_a_good_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    KeyRing(tmp_path / "keys").get_or_create("project")
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == f"ok: {file}\n"


def test_check_names_faults_of_people_folders_agents_and_keys_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tenex.toml").write_text("[paths]\nworkspace = 'keys/w'\n")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "mine.md").write_text("no front matter")
    KeyRing(tmp_path / "keys").get_or_create("project")
    (tmp_path / "keys" / "project.nsec").chmod(0o644)
    assert main(["config", "check"]) == 3
    out, stderr = capsys.readouterr()
    assert out == ""
    for part in ("no one may talk here", "is in the keys folder", "mine.md", "others may read this key"):
        assert part in stderr


def test_check_names_models_that_a_daemon_would_refuse_beside_workflows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that `config check && kill -HUP` asks for nothing that is then refused."""
    KeyRing(tmp_path / "keys").get_or_create("project")
    write(tmp_path, "[models]\ndefault = 'gpt-5'\nrouter = 'opnai:gpt-5'\n")
    (tmp_path / "config" / "workflows").mkdir(parents=True)
    (tmp_path / "config" / "workflows" / "rounds.toml").write_text("")
    assert main(["config", "check"]) == 3
    out, stderr = capsys.readouterr()
    assert out == ""
    for part in (
        'models.default: "gpt-5" names no model',
        'models.router: models.providers.opnai: "opnai"',
        "rounds.toml",
    ):
        assert part in stderr


def test_check_names_the_agents_of_the_settings_that_do_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    KeyRing(tmp_path / "keys").get_or_create("project")
    file = write(tmp_path, "[models.agents.executer]\nmodel = 'offline'\n")
    assert main(["config", "check"]) == 0
    out, stderr = capsys.readouterr()
    assert out == f"ok: {file}\n"
    assert "models.agents.executer: there is no such agent, so this does nothing; did you mean `executor`?" in stderr


def test_check_refuses_an_agent_with_a_name_that_keys_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "owner.md").write_text("---\nname: O\nrole: r\nkind: worker\nuse_when: u\n---\nBe.\n")
    assert main(["config", "check"]) == 3
    assert "owner cannot be an agent's slug" in capsys.readouterr().err


def test_path_prints_the_file_in_use_or_where_one_would_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    assert main(["config", "path", "--data", str(empty)]) == 0
    out, stderr = capsys.readouterr()
    assert out == f"{empty / 'tenex.toml'}\n"
    assert " init` writes it" in stderr
    file = write(tmp_path)
    assert main(["config", "path"]) == 0
    assert capsys.readouterr() == (f"{file}\n", "")


def test_path_json_names_every_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["config", "path", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"] == str(file)
    assert found["workspace"] == str(tmp_path / "workspace")
    assert Path(found["example"]).is_file()


def test_an_explicit_configuration_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    file = write(other)
    assert main(["--config", str(file), "--data", str(tmp_path / "d"), "config", "path"]) == 0
    assert capsys.readouterr().out == f"{file}\n"
