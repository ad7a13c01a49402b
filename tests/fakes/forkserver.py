"""Starts programs of ours by forking one process that has loaded their modules: a daemon in 30 ms, not in a second.

What is started is a process of its own with its own number, streams, environment and signals; it is killed, waited for
and ends as any other. Only the loading of modules is not seen: who tests that starts the interpreter itself.

    child = nursery().start(["tenex.cli.main", "run"], environment, folder, [stdin, out, err])
    child.wait()
"""

import atexit
import functools
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import Any, Final

LOADED: Final = (
    "tenex.app",
    "tenex.operations.doctor",
    "tenex.operations.mission_folder",
    "tenex.operations.prompt_preview",
    "tenex.cli.agents",
    "tenex.cli.conversations",
    "tenex.cli.doctor",
    "tenex.cli.workflows",
    "tenex.cli.init",
    "tenex.cli.verify",
    "tenex.cli.run",
    "tenex.cli.stats",
    "tenex.cli.status",
    "tenex.cli.rollback",
    "tenex.llm.provider_model",
    "tenex.service.notify",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai_compatible",
)
"""What most programs need and what takes long; a fork loads what else it needs by itself."""
_ROOT: Final = Path(__file__).parents[2]
_MESSAGE: Final = 2**17
"""Bytes of words and environment; orders of a test are some hundreds."""
_FORKED: Final = 180.0
"""Seconds for the modules to be loaded and the first child to be there: two, or minutes on a busy machine."""


class Child:
    """A program that was started."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        line.settimeout(_FORKED)
        self.pid = int(line.recv(32))
        """Its number."""
        line.setblocking(False)
        self.returncode: int | None = None
        """How it ended, negative for a signal; None as long as no one has waited for it."""

    def fileno(self) -> int:
        return self._line.fileno()

    def wait(self, seconds: float | None = None) -> int:
        """Wait until it has ended; its exit code.

        Raises:
            TimeoutError: it goes on.
        """
        if self.returncode is None:
            self._line.settimeout(seconds)
            self.returncode = int(self._line.recv(32))
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once; nothing if it is gone."""
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            return


class Nursery:
    """The process that forks, and the line to it."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                env={**kept, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, streams: Sequence[int]
    ) -> Child:
        """Start `main()` of a module.

        Args:
            words: the module and its arguments.
            environment: all of the child's.
            folder: where it is to be.
            streams: descriptors for stdin, stdout, stderr; the caller closes its own.
        """
        order = json.dumps([list(words), dict(environment), str(folder)]).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [order], [theirs.fileno(), *streams])
        return Child(ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End it; what it has started goes on."""
        self._line.close()
        self._process.wait()


def run(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, *, given: bytes = b"", seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, `given` on its stdin; kills it after so many seconds.

    Raises:
        TimeoutError: it had to be killed.
    """
    with TemporaryFile() as put, TemporaryFile() as out, TemporaryFile() as message:
        put.write(given)
        put.seek(0)
        child = forkserver().start(words, environment, folder, [put.fileno(), out.fileno(), message.fileno()])
        try:
            code = child.wait(seconds)
        except TimeoutError:
            child.kill()
            child.wait()
            raise
        streams = []
        for stream in (out, message):
            stream.seek(0)
            streams.append(stream.read().decode())
    return subprocess.CompletedProcess(list(words), code, *streams)


def begin(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[Child, int]:
    """Start a program and give the descriptor its stderr is read from; stdin is empty, and stdout goes nowhere."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", 0) as message, Path(os.devnull).open("r+b", 0) as nothing:
        return forkserver().start(
            words, environment, folder, [nothing.fileno(), nothing.fileno(), message.fileno()]
        ), reading


@functools.cache
def forkserver() -> Nursery:
    """The one of this process, begun when it is first asked for."""
    begun = Nursery()
    atexit.register(begun.close)
    return begun


# ---- in the process that forks ------------------------------------------------------------------------------------


class _Forker:
    """Takes orders and reports how children ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._children: dict[int, socket.socket] = {}
        """Whom to show, by number."""
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker
        self._before = signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(waker.fileno())

    def serve(self) -> list[str] | None:
        """Serve until no one is there any more (None); in a child: the words to run by."""
        with selectors.DefaultSelector() as both:
            both.register(self._orders, selectors.EVENT_READ)
            both.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in both.select()}
                if self._woken in ready:
                    self._bury()
                if self._orders in ready:
                    order, descriptors, _, _ = socket.recv_fds(self._orders, _MESSAGE, 4)
                    if not order:
                        return None
                    if words := self._fork(order, descriptors):
                        return words

    def _fork(self, order: bytes, descriptors: list[int]) -> list[str]:
        assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread would be missing in a child"
        line, *streams = descriptors
        if (pid := os.fork()) == 0:
            words, environment, folder = json.loads(order)
            self._become(streams, environment, folder)
            os.close(line)
            return list(words)
        for stream in streams:
            os.close(stream)
        self._children[pid] = socket.socket(fileno=line)
        self._children[pid].send(str(pid).encode())
        return []

    def _become(self, streams: list[int], environment: dict[str, str], folder: str) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._before)
        for end in (self._orders, self._woken, self._waker, *self._children.values()):
            end.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder)

    def _bury(self) -> None:
        self._woken.recv(_MESSAGE)
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._children.pop(pid) as line:
                try:
                    line.send(str(os.waitstatus_to_exitcode(status)).encode())
                except BrokenPipeError:
                    continue  # no one waits for it


def _nothing(number: int, frame: FrameType | None) -> None:
    """Have the system call interrupted."""


def main() -> Any:
    """Fork until the line is closed; in a child: what its program's `main` returns."""
    for name in LOADED:
        import_module(name)
    gc.collect()
    gc.freeze()  # children do not look through it again
    words = _Forker(socket.socket(fileno=int(sys.argv[1]))).serve()
    if words is None:
        return 0
    sys.argv = words
    return import_module(words[0]).main()


if __name__ == "__main__":
    sys.exit(main())
