"""`tenex doctor` and the machine: folders, permissions, keys, Python, limits, disks, sandbox and git."""

import os
import re
import resource
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tenex.cli.init import prepare
from tenex.core.errors import ConfigurationError, StoreError
from tenex.nostr.keys import KeyRing
from tenex.operations.doctor import machine
from tenex.operations.doctor.configuration import settings
from tenex.operations.doctor.files import folders, keys, permissions
from tenex.operations.doctor.findings import Case, Level
from tenex.operations.doctor.machine import disk, file_system, git, sandbox
from tenex.operations.doctor.runner import repair_all

from .doctor_kit import bad, case_of, change, text_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `tenex init` leaves it."""
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data


# ---- folders, permissions, keys -----------------------------------------------------------------------------------


def test_a_missing_or_foreign_folder_is_reported(tmp_path: Path) -> None:
    assert "there is no such folder" in text_of(bad(folders, case_of(tmp_path / "nowhere")))
    (tmp_path / "something").write_text("of another program")
    assert "holds nothing of tenex" in text_of(bad(folders, case_of(tmp_path)))


async def test_missing_folders_are_created_by_fix(data: Path) -> None:
    (data / "agents").rmdir()
    (data / "workspace").rmdir()
    found = bad(folders, case_of(data))
    assert {Path(f.location).name for f in found} == {"agents", "workspace"}
    assert all(m.success for m in await repair_all(data / "conversations", found))
    assert not bad(folders, case_of(data))
    assert stat.S_IMODE((data / "workspace").stat().st_mode) == 0o700


async def test_what_others_may_read_is_reported_and_fixed(data: Path) -> None:
    (data / "keys" / "openai.api-key").write_text("sk-x\n")
    modes = {"keys/project.nsec": 0o644, "keys/openai.api-key": 0o640, "keys": 0o755, "tenex.toml": 0o666, ".": 0o755}
    for name, mode in modes.items():
        (data / name).chmod(mode)
    found = bad(permissions, case_of(data))
    assert {f.location for f in found} == {str(data / name) for name in modes}
    levels = {str(Path(f.location).relative_to(data)): f.level for f in found}
    assert levels["keys/project.nsec"] == levels["keys/openai.api-key"] == levels["tenex.toml"] == Level.FAULT
    assert levels["keys"] == levels["."] == Level.WARNING
    assert all("chmod" in f.fix for f in found)
    assert all(m.success for m in await repair_all(data / "conversations", found))
    assert not bad(permissions, case_of(data))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_another_user_are_reported(data: Path) -> None:
    os.chown(data / "keys" / "project.nsec", 12_345, -1)
    (data / "conversations" / ("a" * 64)).mkdir()
    os.chown(data / "conversations" / ("a" * 64), 12_345, -1)
    found = bad(permissions, case_of(data))
    assert {f.error for f in found} == {ConfigurationError, StoreError}
    assert all("chown" in f.fix for f in found)


PLACES = {
    "agents": "agents",
    "an agent": "agents/spy.md",
    "Python beside it": "agents/deep/helper.py",
    "workflows": "config/workflows",
    "a workflow": "config/workflows/flow.toml",
    "the folder around them": "config",
    "settings that were named": "named.toml",
}


def with_code(data: Path) -> Case:
    """The folder with agents, workflows and a configuration elsewhere, that no other user may change."""
    for name in ("agents/deep", "config/workflows"):
        (data / name).mkdir(parents=True, exist_ok=True)
    (data / "named.toml").write_text((data / "tenex.toml").read_text())
    for name in ("agents/spy.md", "agents/deep/helper.py", "config/workflows/flow.toml"):
        (data / name).touch()
    for name in ("agents", "agents/deep", "config", "config/workflows"):
        (data / name).chmod(0o755)
    for path in data.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o022)
    case = Case(data=data, config=data / "named.toml", env={})
    list(settings(case))
    return case


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A data folder that others may look into."""
    with TemporaryDirectory() as folder:
        data = prepare(Path(folder) / "data", None, ["ws://127.0.0.1:1"]).data
        for path in (data.parent, data):
            path.chmod(0o755)
        yield data


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("place", PLACES)
async def test_code_and_settings_that_others_may_change_are_a_fault_and_fixed(
    reachable: Path, place: str, mode: int
) -> None:
    case, path = with_code(reachable), reachable / PLACES[place]
    assert not [f for f in bad(permissions, case) if f.level is Level.FAULT]
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(before | mode)
    (found,) = [f for f in bad(permissions, case) if f.level is Level.FAULT]
    assert (found.location, found.fix) == (str(path), f"run `chmod go-w {path}`")
    assert f"others may change this (mode {before | mode:04o})" in found.message
    assert all(m.success for m in await repair_all(reachable / "conversations", [found]))
    assert stat.S_IMODE(path.stat().st_mode) == before


def test_in_a_folder_closed_to_others_it_is_a_warning(data: Path) -> None:
    case = with_code(data)
    assert not bad(permissions, case)
    (data / "agents/spy.md").chmod(0o664)
    (found,) = bad(permissions, case)
    assert (found.level, found.location) == (Level.WARNING, str(data / "agents/spy.md"))


def test_the_target_of_a_link_counts_and_a_broken_link_does_not(reachable: Path) -> None:
    case = with_code(reachable)
    other = reachable.parent / "other.py"
    other.touch()
    other.chmod(0o666)
    (reachable / "agents/linked.py").symlink_to(other)
    (reachable / "agents/nowhere.py").symlink_to("nowhere")
    (found,) = [f for f in bad(permissions, case) if f.level is Level.FAULT]
    assert (found.location, found.fix) == (str(reachable / "agents/linked.py"), f"run `chmod go-w {other}`")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("place", PLACES)
def test_code_and_settings_of_another_user_are_a_fault(reachable: Path, place: str) -> None:
    case = with_code(reachable)
    os.chown(reachable, 4_321, -1)
    for path in reachable.rglob("*"):
        os.chown(path, 4_321, -1)
    assert not [f for f in bad(permissions, case) if f.level is Level.FAULT]
    os.chown(reachable / PLACES[place], 12_345, -1)
    (found,) = [f for f in bad(permissions, case) if f.level is Level.FAULT]
    assert found.location == str(reachable / PLACES[place])
    assert found.fix == f"run `chown 4321 {reachable / PLACES[place]}` as root"


def test_a_link_is_not_followed_when_permissions_are_fixed(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    other.chmod(0o644)
    (data / "keys" / "x.nsec").symlink_to(other)
    assert not [f for f in bad(permissions, case_of(data)) if "x.nsec" in f.location]
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def test_keys_that_are_missing_broken_or_doubled(data: Path) -> None:
    ring = data / "keys"
    (ring / "planner.nsec").write_bytes((ring / "executor.nsec").read_bytes())
    (ring / "project.nsec").unlink()
    (ring / "project-manager.nsec").unlink()
    (ring / "old.nsec").write_bytes(b"\xff nonsense")
    (ring / "old.nsec").chmod(0o600)
    (ring / "a b.nsec").write_text("x")
    (ring / ".executor.nsec.k3k3").write_text("x")
    found = {Path(f.location).name: f for f in bad(keys, case_of(data))}
    assert found["planner.nsec"].message.startswith("this is the same key as executor.nsec")
    assert "project's key is missing" in found["project.nsec"].message
    assert "tenex init" in found["project.nsec"].fix
    assert found["project-manager.nsec"].level is Level.WARNING
    assert "holds no nsec1 key" in found["old.nsec"].message
    assert "not the name of a key" in found["a b.nsec"].message
    assert "interrupted" in found[".executor.nsec.k3k3"].message
    assert not re.search(r"nsec1[a-z0-9]{6}", text_of(list(found.values())))


@pytest.mark.parametrize("name", ["project", "owner"])
def test_a_key_that_cannot_be_replaced_is_never_called_the_copy(data: Path, name: str) -> None:
    """Without it, `tenex init` creates another address, or the user is not an owner any more."""
    (data / "keys" / "executor.nsec").write_bytes((data / "keys" / f"{name}.nsec").read_bytes())
    (found,) = [f for f in bad(keys, case_of(data)) if "the same key" in f.message]
    assert found.location == str(data / "keys" / "executor.nsec")
    assert f"as {name}.nsec" in found.message


def test_an_owner_who_has_the_key_of_an_agent_is_never_answered(data: Path) -> None:
    npub = KeyRing(data / "keys").get("executor").npub
    (data / "tenex.toml").write_text(f'[people]\nowners = ["{npub}"]\n')
    (found,) = bad(keys, case_of(data))
    assert found.location == "people.owners[0]"
    assert "key of executor" in found.message


# ---- the machine --------------------------------------------------------------------------------------------------


def test_this_machine_has_what_the_program_needs(data: Path) -> None:
    assert not bad(machine.program, case_of(data))


def test_a_package_that_is_missing_or_of_another_version_is_reported() -> None:
    needed = [
        "coincurve<22,>=21",
        "nothing-of-that-name>=1",
        "pynostr==0.0.1",
        "nothing-else; extra == 'dev'",
        "nothing-at-all; python_version < '3'",
        "rich<1,>=0.5; extra == 'relay'",
    ]
    assert [name for name, _ in machine.unmet_requirements(needed)] == [
        "nothing-of-that-name>=1",
        "pynostr==0.0.1",
        "rich<1,>=0.5",
    ]


def test_few_open_files_and_a_port_in_use_are_reported(data: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        change(data, f"[metrics]\nport = {taken.getsockname()[1]}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        try:
            found = bad(machine.service, case_of(data))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "only 200 files" in text_of(found)
    (port,) = [f for f in found if f.location == "metrics.port"]
    assert port.message.endswith("of 127.0.0.1 cannot be used (Address already in use)")


def test_traces_without_their_package_are_a_fault(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(data, '[traces]\nendpoint = "http://127.0.0.1:9/v1/traces?key=1"')
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (found,) = bad(machine.service, case_of(data))
    assert (found.level, found.location) == (Level.FAULT, "traces.endpoint")
    assert "otel" in found.fix


def test_the_kind_of_disk_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nx /srv tmpfs rw 0 0\ny /srv/my\\040data nfs4 rw 0 0\n")
    assert file_system(Path("/srv/my data/x"), mounts) == "nfs4"
    assert file_system(Path("/srv/other"), mounts) == "tmpfs"
    assert file_system(Path("/home"), mounts) == "ext4"
    assert file_system(Path("/"), tmp_path / "none") == ""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no tmpfs here")
def test_a_data_folder_in_memory_is_a_warning() -> None:
    data = Path("/dev/shm") / f"tenex-doctor-{os.getpid()}"
    data.mkdir()
    try:
        case = case_of(data)
        assert "everything is lost when the machine stops" in text_of(bad(disk, case))
        assert not list(data.iterdir())
    finally:
        data.rmdir()


def test_a_disk_that_takes_nothing_is_a_fault_of_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    (found,) = bad(disk, case_of(data))
    assert found.error is StoreError
    assert "No space left" in found.message
    assert not [path for path in (data / "conversations").iterdir() if path.name != ".lock"]


def test_without_bubblewrap_the_tools_that_are_off_are_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    change(data, '[models.phases]\nchat = "openai:gpt-5"')
    found = bad(sandbox, case_of(data))
    assert "bubblewrap is not installed" in text_of(found)
    assert {f.location for f in found} == {"tools", "tools.shell.sandbox", "tools.check"}
    assert "git is not installed" in text_of(bad(git, case_of(data)))


def test_a_checkpoint_folder_that_is_no_repository_is_a_fault(data: Path) -> None:
    (data / "checkpoints").mkdir()
    assert not bad(git, case_of(data))
    (data / "checkpoints" / "HEAD").write_text("nonsense")
    (found,) = bad(git, case_of(data))
    assert found.location == str(data / "checkpoints")
