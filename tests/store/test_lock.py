"""One daemon per folder, whatever happens to the one that had it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenex.core.errors import StoreError, StoreLocked
from tenex.store.lock import FolderLock

HOLDER = """
import subprocess, sys
from pathlib import Path
from tenex.store.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.acquire()
child = subprocess.Popen(["sleep", "60"], close_fds=False) if "child" in sys.argv else None
print(child.pid if child else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, *words: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that holds the folder, and the pid of its child, if it was to have one."""
    command = [sys.executable, "-c", HOLDER, str(folder), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child = 0
        try:
            assert process.stdout is not None
            child = int(process.stdout.readline())
            yield process, child
        finally:
            process.kill()
            if child:
                os.kill(child, signal.SIGKILL)


def test_a_second_process_is_refused_and_the_holder_named(tmp_path: Path) -> None:
    with (
        holder(tmp_path) as (process, _),
        pytest.raises(StoreLocked, match=f"in use by process {process.pid}") as caught,
    ):
        FolderLock(tmp_path).acquire()
    assert "Stop that one" in str(caught.value)


def test_a_holder_that_is_only_stopped_keeps_it(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(StoreLocked):
            FolderLock(tmp_path).acquire()


def test_the_lock_dies_with_its_holder_though_a_child_lives(tmp_path: Path) -> None:
    with holder(tmp_path, "child") as (process, child):
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        os.kill(child, 0)
        FolderLock(tmp_path).acquire()


def test_released_it_can_be_taken_again_and_the_folder_is_made(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "new" / "folder")
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    assert not lock.is_held
    with FolderLock(tmp_path / "new" / "folder"):
        assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


def test_a_second_lock_of_one_process_is_refused_also_without_a_pid(tmp_path: Path) -> None:
    with FolderLock(tmp_path) as lock:
        with pytest.raises(StoreLocked, match="in use by process"):
            FolderLock(tmp_path).acquire()
        lock.path.write_text("")
        with pytest.raises(StoreLocked, match="in use by another process"):
            FolderLock(tmp_path).acquire()


def test_a_folder_that_cannot_be_locked_is_not_called_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        FolderLock(tmp_path / "file" / "below").acquire()
    assert not isinstance(caught.value, StoreLocked)
