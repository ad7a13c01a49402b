"""Folders that are not there, are none, or have odd names: every command works or prints one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenex.cli.main import main
from tests.kits.commands import Tenex
from tests.service.kit import environment

COMMANDS = "agents list, config check, config show, conversations list, doctor, init, run, status, trust"
DELETED = "the current folder cannot be used: it was deleted. Run `cd`, or give full paths, also with --data."


@pytest.fixture
def gone(tenex: Tenex, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, after it was deleted."""
    tenex("init --model offline --data", data)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    return gone


@pytest.mark.parametrize("command", ["agents list", "config check", "conversations list", "init", "workflows show"])
@pytest.mark.parametrize("how", ["--data", "TENEX_DATA"])
def test_a_command_in_a_deleted_folder_works_on_a_folder_named_by_its_full_path(
    tenex: Tenex, gone: Path, data: Path, monkeypatch: pytest.MonkeyPatch, how: str, command: str
) -> None:
    if how == "--data":
        monkeypatch.setenv("TENEX_DATA", "relative")
        tenex(f"{command} --data {data}")
    else:
        tenex(command)


@pytest.mark.parametrize("command", [*COMMANDS.split(", "), "init --dir made", "status --data ."])
@pytest.mark.parametrize("variable", ["", "relative"])
def test_a_command_in_a_deleted_folder_that_names_none_gets_a_sentence(
    tenex: Tenex, gone: Path, monkeypatch: pytest.MonkeyPatch, variable: str, command: str
) -> None:
    monkeypatch.setenv("TENEX_DATA", variable)
    assert tenex(command, code=3).err == f"tenex: {DELETED}\n"


def test_any_relative_path_in_a_deleted_folder_gets_a_sentence(tenex: Tenex, gone: Path) -> None:
    for command in ("conversations export 00 --to file", "workflows check ./x.py", "eval --keep runs chat"):
        ended = main(command.split())
        assert ended in (1, 2, 3), command
    assert "internal error" not in tenex("init --dir a --data b", code=3).err


def test_help_and_version_need_no_current_folder(data: Path, tmp_path: Path) -> None:
    """Also as `python -m tenex`, which looks at the current folder before anything else."""
    gone = tmp_path / "gone"
    for command in ("--version", "--help", f"config path --data {data}"):
        gone.mkdir()
        line = f'rmdir "$PWD" && exec {sys.executable} -m tenex {command}'
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env=environment(),
            cwd=gone,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


@pytest.mark.parametrize("command", COMMANDS.split(", "))
@pytest.mark.parametrize("kind", ["file", "below a file", "link to nothing", "link to itself", "too long", "too deep"])
def test_a_data_folder_that_can_be_none_gets_one_sentence(
    tenex: Tenex, tmp_path: Path, kind: str, command: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nothing").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    folder = tmp_path / {
        "file": "file",
        "below a file": "file/data",
        "link to nothing": "nothing",
        "link to itself": "loop",
        "too long": "x" * 300,
        "too deep": "x/" * 3000,
    }.get(kind, "")
    out, err = tenex(command, "--data", folder, code=2 if kind == "file" else 3)
    assert (out, err.count("\n"), len(err.split()) < 25) == ("", 1, True)
    assert "ame another" in err
    assert "one with --data" in err or "another with --data" in err


@pytest.mark.parametrize("command", ["init --model offline", "config check", "agents list", "conversations list"])
def test_a_data_folder_whose_name_is_no_text_works(tenex: Tenex, tmp_path: Path, command: str) -> None:
    odd = tmp_path / os.fsdecode(b"\xff \xfe")
    tenex("init --model offline --data", odd)
    tenex(command, "--data", odd)


@pytest.mark.parametrize("home", ["", "relative", "missing"])
def test_a_home_that_is_not_there_is_not_needed_where_a_folder_is_named(
    tenex: Tenex, tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "missing") if home == "missing" else home)
    tenex("init --model offline")
    tenex("config check")
    assert [*cwd.iterdir()] == []
    assert not (tmp_path / "missing").exists()


def test_a_user_without_a_home_is_asked_to_name_a_folder(tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("TENEX_DATA")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a container's user that has only a number
    assert tenex("status", code=3).err == (
        "tenex: this user has no home folder. Name the data folder: --data DIR, or TENEX_DATA.\n"
    )


def test_under_another_locale_names_of_files_are_utf_8(tmp_path: Path) -> None:
    data = tmp_path / "dätä"
    env = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    for words in (["init"], ["config", "check"]):
        command = [sys.executable, "-m", "tenex", *words, "--data", str(data)]
        done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "dätä".encode() in done.stdout + done.stderr
