"""One daemon per folder, whatever happens to the one that had it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tenex.core.errors import StoreError, StoreLocked
from tenex.store.lock import CHILD_ENDS, FolderLock, find_holder

from .kit import kind_of_conversation


class FakeTime:
    """A clock that moves when somebody sleeps."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.now = 0.0
        self.sleep = sleep

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


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


FORKING = """
import os, signal, sys
from pathlib import Path
from tenex.store.lock import FolderLock
FolderLock(Path(sys.argv[1])).acquire()
child = os.fork()
if child:
    print(child, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("child_ends", [True, False])
def test_the_lock_of_a_killed_holder_is_waited_for_while_its_child_is_no_other_program_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child_ends: bool
) -> None:
    tries = count(1)
    with subprocess.Popen([sys.executable, "-c", FORKING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())

        def pause(seconds: float) -> None:
            if child_ends and next(tries) == 3:
                os.kill(child, signal.SIGKILL)
            time.advance(seconds)

        time = FakeTime(pause)
        monkeypatch.setattr("tenex.store.lock.time", time)
        try:
            holder.kill()  # it is not waited for: it may still be ending
            if child_ends:
                FolderLock(tmp_path).acquire()
            else:
                with pytest.raises(StoreLocked, match=rf"process {holder.pid}, which locked it, cannot be seen"):
                    FolderLock(tmp_path).acquire()
                assert time.now >= CHILD_ENDS
        finally:
            with suppress(ProcessLookupError):
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
