"""File systems without hard links, permissions or sockets that flush no folder, such as exFAT and SMB."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.shared.files import write_new
from tenex.core.conversation import fold
from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.operations.doctor.files import permissions
from tenex.service.control import control_socket, why_no_socket
from tenex.store import atomic
from tenex.store.disk import Disk
from tenex.store.journal_reader import VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.operations.doctor_kit import case_of
from tests.store.kit import CONVERSATION_ID, StillClock, decisions_of


@pytest.fixture(autouse=True)
def poor_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = os.fsync

    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(descriptor)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "fsync", fsync)


def test_a_data_folder_and_its_keys_are_made_and_no_key_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path / "data", None, [])
    ring = KeyRing(tmp_path / "data" / "keys")
    owner = ring.get("owner").public
    assert ring.get_or_create("owner").public == owner
    assert not [path for path in (tmp_path / "data" / "keys").iterdir() if path.name.startswith(".")]
    file = tmp_path / "new.toml"
    write_new(file, "a = 1\n")
    with pytest.raises(ConfigurationError, match="File exists"):
        write_new(file, "b = 2\n")
    assert file.read_text() == "a = 1\n"


async def test_a_journal_is_made_and_replaced_and_what_was_there_is_kept(tmp_path: Path) -> None:
    disk = Disk()
    folder = ConversationFolder(tmp_path / "conversations", disk, StillClock())
    decisions = decisions_of(3)
    await folder.create(CONVERSATION_ID, decisions)
    await Views(folder, disk).show(fold(CONVERSATION_ID, [record for decision in decisions for record in decision]))
    before = (folder.path(CONVERSATION_ID) / VIEW).read_bytes()
    aside = await folder.renew(CONVERSATION_ID, await folder.remains(CONVERSATION_ID), decisions_of(2))
    assert (aside / VIEW).read_bytes() == before
    journal, records = await folder.open(CONVERSATION_ID)
    assert len(records) == 2
    await journal.close()
    disk.close()


def test_a_second_name_is_never_one_that_is_taken(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    with pytest.raises(FileExistsError):
        atomic.give_second_name(one, two)
    atomic.give_second_name(one, tmp_path / "three")
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["1", "1", "2"]


@pytest.fixture
def no_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is made may be read by others, and `chmod` changes nothing."""
    look = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        about = look(descriptor)
        return os.stat_result((about.st_mode | 0o055, *about[1:]))

    def chmod(*_: Any, **__: Any) -> None:
        pass

    monkeypatch.setattr(os, "fstat", fstat)
    monkeypatch.setattr(os, "chmod", chmod)
    monkeypatch.setattr(os, "fchmod", chmod)


@pytest.mark.usefixtures("no_permissions")
def test_a_key_that_others_could_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"keeps no permissions.*; move the data folder to another disk, or"):
        KeyRing(tmp_path / "keys").get_or_create("owner")
    assert list((tmp_path / "keys").iterdir()) == []


def test_no_chmod_is_advised_where_it_changes_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    ring = KeyRing(tmp_path / "keys")
    ring.add("owner", SecretKey.generate())
    ring.file("owner").chmod(0o755)
    with pytest.raises(ConfigurationError, match="run `chmod 600"):
        ring.read("owner")
    case = case_of(tmp_path)
    assert [bool(finding.repair) for finding in permissions(case) if "read this key" in finding.message] == [True]

    request.getfixturevalue("no_permissions")
    with pytest.raises(ConfigurationError, match=r"\(mode 0755\); move the data folder to another disk, or mount this"):
        ring.read("owner")
    found = [finding for finding in permissions(case) if "read this key" in finding.message]
    assert [(finding.repair, finding.fix[:32]) for finding in found] == [(None, "move the data folder to another ")]


async def test_a_path_for_the_control_socket_is_named_where_none_can_be_made(tmp_path: Path) -> None:
    """`/sys` is a file system that takes no sockets on each machine."""
    path = Path("/sys/tenex.sock")
    with pytest.raises(ConfigurationError, match=r"no socket can be made there \(.*\); set it to a path on another"):
        async with control_socket(path, {}):
            pass
    assert why_no_socket(path)
    assert why_no_socket(tmp_path / "tenex.sock") == ""
    assert list(tmp_path.iterdir()) == []
