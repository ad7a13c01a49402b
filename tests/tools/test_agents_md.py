"""`AGENTS.md` is a text file of the workspace, or a sentence that gives the reason it is not read."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.tools.agents_md import LARGEST, NAME, read_notes


def pipe_with_a_writer(place: Path) -> int:
    os.mkfifo(place)
    return os.open(place, os.O_RDWR | os.O_NONBLOCK)


def listening(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))


def device(place: Path) -> None:
    try:
        os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (Path.mkdir, "it is a folder"),
    "pipe": (os.mkfifo, "it is a pipe, socket or device"),
    "pipe with a writer": (pipe_with_a_writer, "it is a pipe, socket or device"),
    "socket": (listening, "No such device or address"),
    "device": (device, "it is a pipe, socket or device"),
    "link": (lambda place: place.symlink_to("/etc/passwd"), "it is a symbolic link"),
    "link to itself": (lambda place: place.symlink_to(NAME), "it is a symbolic link"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_is_reported_and_closed(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    make, why = ODD[kind]
    writer = make(tmp_path / NAME)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    for _ in range(3):
        assert read_notes(tmp_path) == f"AGENTS.md was not read: {why}. Make it a plain text file."
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
    assert f"reason='{why}'" in capsys.readouterr().out
    if isinstance(writer, int):
        os.close(writer)


def test_a_file_is_read_up_to_a_size_and_none_is_none(tmp_path: Path) -> None:
    assert read_notes(tmp_path) is None
    (tmp_path / NAME).write_bytes(b"Use tabs.\xff" + b"x" * LARGEST)
    read = read_notes(tmp_path)
    assert read is not None
    assert read.startswith("Use tabs.\ufffdx")
    assert len(read) == LARGEST


def test_the_prompt_reports_notes_that_are_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workspace" / NAME).mkdir(parents=True)
    assert main(["--data", str(tmp_path), "agents", "show", "executor", "--prompt"]) == 0
    assert "AGENTS.md was not read: it is a folder. Make it a plain text file." in capsys.readouterr().out
