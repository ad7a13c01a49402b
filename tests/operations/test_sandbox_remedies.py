"""Each way in which bubblewrap fails has its own remedy, and its own words are shown."""

from pathlib import Path

import pytest

from tenex.operations.doctor.machine import sandbox
from tenex.operations.doctor.sandbox_remedies import INSTALL, NEWER, UNKNOWN, remedy_of

from .doctor_kit import bad, case_of, text_of

DENIED = "bwrap: No permissions to create new namespace"
FORBIDDEN = {
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
}


@pytest.fixture
def bwrap(tmp_path: Path) -> Path:
    path = tmp_path / "bwrap"
    path.write_text(f"#!/bin/sh\necho '{DENIED}' >&2\nexit 1\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine that forbids nothing."""
    for name, (forbids, _) in FORBIDDEN.items():
        setting = tmp_path / "root" / "proc" / "sys" / name
        setting.parent.mkdir(parents=True, exist_ok=True)
        setting.write_text("1\n" if forbids == "0" else "0\n")
    return tmp_path / "root"


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_setting_that_forbids_namespaces_is_the_one_that_is_named(bwrap: Path, machine: Path, name: str) -> None:
    forbids, permits = FORBIDDEN[name]
    (machine / "proc" / "sys" / name).write_text(f"{forbids}\n")
    assert remedy_of(DENIED, str(bwrap), machine) == f"permit user namespaces: `sysctl -w {permits}`, as root"


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_a_container_is_named_and_what_its_host_forbids(bwrap: Path, machine: Path, mark: str) -> None:
    (machine / mark).parent.mkdir(exist_ok=True)
    (machine / mark).touch()
    assert "of config/compose.yaml" in remedy_of(DENIED, str(bwrap), machine)
    (machine / "proc" / "sys" / "user" / "max_user_namespaces").write_text("0")
    both = remedy_of(DENIED, str(bwrap), machine)
    assert "on the host: `sysctl -w user.max_user_namespaces=15000`" in both
    assert "of config/compose.yaml" in both


def test_an_old_a_setuid_and_a_missing_one_and_one_of_which_nothing_is_known(bwrap: Path, machine: Path) -> None:
    assert remedy_of("bwrap: Unknown option --clearenv", str(bwrap), machine) == NEWER
    assert remedy_of(DENIED, str(bwrap), machine) == UNKNOWN
    assert remedy_of("", None, machine) == INSTALL
    bwrap.chmod(0o4755)
    assert f"chmod u-s {bwrap}" in remedy_of(DENIED, str(bwrap), machine)


def test_the_doctor_shows_its_own_words(data: Path, bwrap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{bwrap.parent}:/usr/bin:/bin")
    found = bad(sandbox, case_of(data))
    assert f"bubblewrap does not work here ({DENIED})" in text_of(found)
