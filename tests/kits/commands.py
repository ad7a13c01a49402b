"""Commands of tenex in this process, with a folder to work in and a data folder."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from tenex.cli.main import main
from tests.service.kit import environment

SCRIPT = Path(sys.executable).with_name("tenex")
Done = subprocess.CompletedProcess[str]


class Printed(NamedTuple):
    out: str
    err: str


class Tenex(Protocol):
    def __call__(self, line: str, *words: object, code: int | None = 0) -> Printed:
        """Run a command: words separated by spaces, then words as they are. Checks the exit code, unless it is None."""


def command() -> list[str]:
    """The installed console script, or the same function where the package is only checked out."""
    return [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "tenex.cli.main"]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    return cwd


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder; a module may fill it."""
    data = tmp_path / "data"
    data.mkdir()
    return data


@pytest.fixture
def tenex(tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tenex:
    """The program in an empty folder; the data folder is `data`."""
    for name in [name for name in os.environ if name.startswith("TENEX_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    for name, value in environment(TENEX_DATA=str(tmp_path / "data")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.chdir(cwd)

    def call(line: str, *words: object, code: int | None = 0) -> Printed:
        capsys.readouterr()
        ended = main([*line.split(), *map(str, words)])
        printed = Printed(*capsys.readouterr())
        assert code in (None, ended), printed
        assert "Traceback" not in printed.err
        return printed

    return call
