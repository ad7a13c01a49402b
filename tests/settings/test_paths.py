"""The data folder and the folders in it: which one is chosen, and which may not lie where."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.settings import check_paths, find_data, load, resolve_paths
from tenex.settings.sections import Paths

HOME = {"HOME": "/home/x"}
STATE = Path("/home/x/.local/state/tenex")


@pytest.mark.parametrize(
    ("explicit", "env", "expected"),
    [
        ("/given", {"TENEX_DATA": "rel"}, Path("/given")),
        ("below", {"TENEX_DATA": "rel"}, "below"),
        (None, {"TENEX_DATA": "rel", "STATE_DIRECTORY": "/systemd"}, "rel"),
        (None, {"STATE_DIRECTORY": "/var/lib/tenex:/var/lib/other", "XDG_STATE_HOME": "/s"}, Path("/var/lib/tenex")),
        (None, {"XDG_STATE_HOME": "/s", **HOME}, Path("/s/tenex")),
        (None, {"XDG_STATE_HOME": "relative", **HOME}, STATE),
        (None, {"TENEX_DATA": "", **HOME}, STATE),
    ],
)
def test_the_folder_is_the_given_one_then_the_variable_s_then_the_state_folder(
    tmp_path: Path, explicit: str | None, env: dict[str, str], expected: Path | str
) -> None:
    assert find_data(None if explicit is None else Path(explicit), env, tmp_path) == tmp_path / expected


@pytest.mark.parametrize("name", ["tenex.toml", "config/tenex.toml"])
def test_the_current_folder_counts_where_it_holds_a_configuration(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert find_data(None, {"STATE_DIRECTORY": "/systemd", **HOME}, tmp_path) == tmp_path
    assert find_data(None, {"TENEX_DATA": "rel", **HOME}, tmp_path) == tmp_path / "rel"


def test_a_user_without_a_home_may_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert find_data(tmp_path, {}, tmp_path) == tmp_path


def test_a_folder_that_cannot_be_looked_into_is_not_meant_and_where_it_is_meant_it_is_a_fault() -> None:
    """As `sudo -u tenex tenex status` in /root; root may look everywhere, so here it is a name the kernel refuses."""
    odd = Path("/", "x" * 300)
    assert find_data(None, {"STATE_DIRECTORY": "/systemd"}, odd) == Path("/systemd")
    with pytest.raises(ConfigurationError, match=r"tenex\.toml: cannot be read"):
        load(None, odd, env={})


def test_relative_folders_lie_in_the_data_folder_and_absolute_ones_elsewhere(tmp_path: Path) -> None:
    given = {"paths": {"workspace": "/elsewhere", "keys": "a/../k"}}
    here = resolve_paths(load(None, tmp_path, env={}, overrides=given))
    assert (here.workspace, here.agents, here.config) == (Path("/elsewhere"), tmp_path / "agents", None)


def refused(data: Path, **paths: str) -> tuple[str, ...]:
    given: dict[str, Any] = {"paths": paths}
    with pytest.raises(ConfigurationError) as caught:
        check_paths(load(None, data, env={}, overrides=given))
    return caught.value.faults


def test_a_workspace_that_holds_our_folders_is_refused_for_each_of_them(tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").touch()
    check_paths(load(None, tmp_path, env={}))
    found = refused(tmp_path, workspace=".")
    folders = set(Paths.model_fields) - {"workspace", "socket"}
    contained = {f"contains the {folder} folder" for folder in folders} | {"contains the configuration"}
    expected = contained | {"tenex.sock is in the workspace"}
    assert len(found) == len(expected)
    assert [part for part in expected if not any(part in line for line in found)] == []


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        *(({"workspace": f"{name}/below"}, f"is in the {name} folder") for name in ("conversations", "keys", "agents")),
        ({"workspace": "linked"}, "is the keys folder too"),
        ({"workspace": "linked/below"}, "is in the keys folder"),
        ({"keys": "agents"}, "paths.keys and paths.agents are the same folder {data}/agents; give each its own"),
        ({"agents": "file"}, "paths.agents: {data}/file is a file; it must be a folder"),
    ],
)
def test_folders_that_collide_are_refused(tmp_path: Path, paths: dict[str, str], sentence: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "keys")
    (tmp_path / "file").touch()
    (fault,) = refused(tmp_path, **paths)
    assert sentence.format(data=tmp_path) in fault


def test_the_home_folder_and_what_holds_it_are_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    data = tmp_path / "data"
    data.mkdir()
    for root in (home, home.parent, Path("/")):
        assert any("home folder" in line for line in refused(data, workspace=str(root)))
    check_paths(load(None, data, env={}, overrides={"paths": {"workspace": str(home / "project")}}))
