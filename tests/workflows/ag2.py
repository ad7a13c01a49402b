"""AG2 itself, in a virtual environment of its own: installed once, run as a process that plays sessions."""

import fcntl
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDER = HERE / ".ag2"
VERSION = "ag2==1.2.1"
"""What was measured; another version may be right where this one is wrong."""
INSTALLING = 300
"""Seconds pip may take; with a filled cache it takes seven."""

Played = dict[str, Any]


def install() -> Path:
    """Make the environment, once; skips the test where that cannot be done. Returns its interpreter.

    Two processes at a time are one after the other.
    """
    python = FOLDER / "bin" / "python"
    stamp, wanted = FOLDER / ".installed", f"{VERSION} {sys.version}"
    with (HERE / "ag2_driver.py").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.is_file() and stamp.read_text() == wanted and python.exists()):
            venv.EnvBuilder(clear=True, symlinks=True).create(FOLDER)  # our own pip installs into it
            words = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", VERSION]
            done = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, timeout=INSTALLING, check=False
            )
            if done.returncode:
                pytest.skip(f"{VERSION} cannot be installed: {' '.join(done.stderr.split())[-300:]}")
            stamp.write_text(wanted)
    return python


class AG2:
    """The process; a session in, what AG2 made of it out."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [python, "-I", HERE / "ag2_driver.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def play(self, case: dict[str, Any]) -> Played:
        """Play a session (see `ag2_driver`)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the driver has ended; what it sent is on stderr"
        played: Played = json.loads(line)
        return played

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        finally:
            self._process.kill()
            self._process.stdout.close()
