"""Starts programs of ours by forking one process that has loaded their modules: a daemon in 30 ms, not in a second.

What is started is a process of its own with its own number, streams, environment and signals; it is killed, waited for
and ends as any other. Only the loading of modules is not seen: who tests that starts the interpreter itself.

The process that forks is the fork server of `multiprocessing`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
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
        "tests.fakes.frozen",  # the last
    ]
)
"""What most programs need and what takes long; a fork loads what else it needs by itself."""
_LOCK = threading.Lock()
"""Who starts a process also looks which others have ended, and each end can be read once."""


class _Stream:
    """A descriptor that a child inherits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (DupFd(self._descriptor),)


def _detached(inherited: Any) -> int:
    return int(inherited.detach())


def _main(words: Sequence[str], environment: Mapping[str, str], folder: str, streams: Sequence[int]) -> None:
    """Become the program."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.argv = list(words)
    sys.exit(import_module(words[0]).main())


class Child:
    """A program that was started: `main()` of the module `words[0]`, with streams that the caller closes."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, streams: Sequence[int]
    ) -> None:
        inherited: Any = [_Stream(stream) for stream in streams]
        self._process: ForkServerProcess = _CONTEXT.Process(
            target=_main, args=(list(words), dict(environment), str(folder), inherited)
        )
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.returncode: int | None = None
        """How it ended, negative for a signal; None as long as no one has waited for it."""

    def wait(self, seconds: float | None = None) -> int:
        """Wait until it has ended; its exit code.

        Raises:
            TimeoutError: it goes on.
        """
        if self.returncode is None:
            if not wait([self._process.sentinel], seconds):
                raise TimeoutError
            with _LOCK:
                self._process.join()
            assert self._process.exitcode is not None
            self.returncode = self._process.exitcode
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once; nothing if it is gone."""
        with suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)


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
        child = Child(words, environment, folder, [put.fileno(), out.fileno(), message.fileno()])
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
        return Child(words, environment, folder, [nothing.fileno(), nothing.fileno(), message.fileno()]), reading
