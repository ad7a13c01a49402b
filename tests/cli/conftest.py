"""Runs the real program as a process, the way an operator does; mostly one that need not load it first."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.forkserver import run

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).with_name("tenex")
Done = subprocess.CompletedProcess[str]


def command() -> list[str]:
    """The installed console script, or the same function where the package is only checked out."""
    return [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "tenex.cli.main"]


def environment(**more: str) -> dict[str, str]:
    """Only what a program needs, and nothing of the tester's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "OLLAMA_HOST": "127.0.0.1:1", **more}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """An empty folder to run the program in."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    return cwd


@pytest.fixture
def installed(cwd: Path) -> Callable[..., Done]:
    """`installed("config", "show", TENEX_X="1")` starts the program; gives the exit code and both streams."""

    def start(*arguments: str | Path, **env: str) -> Done:
        words = [*command(), *map(str, arguments)]
        return subprocess.run(
            words, env=environment(**env), cwd=cwd, capture_output=True, text=True, timeout=60, check=False
        )

    return start


@pytest.fixture
def tenex(cwd: Path) -> Callable[..., Done]:
    """The same in a fork of a process that has loaded it."""

    def fork(*arguments: str | Path, **env: str) -> Done:
        return run(["tenex.cli.main", *map(str, arguments)], environment(**env), cwd)

    return fork
