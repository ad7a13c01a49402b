"""Runs the real program as a process, the way an operator does."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).with_name("tenex")
Done = subprocess.CompletedProcess[str]


def command() -> list[str]:
    """The installed console script, or the same function where the package is only checked out."""
    return [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "tenex.cli.main"]


def environment(**more: str) -> dict[str, str]:
    """Only what a program needs, and nothing of the tester's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", **more}


@pytest.fixture
def tenex(tmp_path: Path) -> Callable[..., Done]:
    """`tenex("config", "show", TENEX_X="1")` in an empty folder; gives the exit code and both streams."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()

    def run(*arguments: str | Path, cwd: Path = cwd, stdout: int = subprocess.PIPE, **env: str) -> Done:
        words: Sequence[str] = [*command(), *map(str, arguments)]
        return subprocess.run(
            words,
            env=environment(**env),
            cwd=cwd,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    return run
