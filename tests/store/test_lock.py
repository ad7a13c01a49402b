"""One daemon per folder, whatever happens to the one that had it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenex.core.errors import StoreError, StoreLocked
from tenex.store.lock import FolderLock, find_holder

from .kit import kind_of_conversation

HOLDER = """
import subprocess, sys
from pathlib import Path
from tenex.store.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.acquire()
print(subprocess.Popen(["sleep", "60"], close_fds=False).pid, flush=True)
sys.stdin.read()
"""


def test_the_holder_is_named_and_the_lock_ends_with_it_though_it_was_stopped_and_a_child_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            with pytest.raises(StoreLocked, match=rf"in use by process {process.pid}\. Stop that one"):
                FolderLock(tmp_path).acquire()
            process.kill()
            process.wait(10)
            os.kill(child, 0)
            FolderLock(tmp_path).acquire()
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


def test_a_second_lock_of_one_process_is_refused_also_without_a_pid_until_it_is_released(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    lock, other = FolderLock(folder), FolderLock(folder)
    for _ in range(2):
        lock.acquire()
    assert kind_of_conversation(folder) == 0o700
    lock.path.write_text("")
    with pytest.raises(StoreLocked, match="in use by another process"):
        other.acquire()
    for _ in range(2):
        lock.release()
    with other:
        assert other.path.read_text() == f"{os.getpid()}\n"
        assert find_holder(folder) == os.getpid()
    assert other.path.read_text() == "", "no process is named that has let go"
    assert find_holder(folder) is None


def test_a_folder_that_cannot_be_locked_is_not_called_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        FolderLock(tmp_path / "file" / "below").acquire()
    assert not isinstance(caught.value, StoreLocked)
