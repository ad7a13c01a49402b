"""`tenex completion`: scripts of shells and the man page, installed once, and what they are answered."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenex.cli.root_command import command_table
from tenex.main import FEATURES
from tests.fakes.forkserver import run
from tests.kits.commands import Tenex
from tests.programs import needs_mandoc
from tests.service.kit import ROOT, TENEX, environment

HOME_FILES = {
    "bash": {".bashrc", ".local/share/bash-completion/completions/tenex", ".local/share/man/man1/tenex.1"},
    "zsh": {".zshrc", ".local/share/zsh/site-functions/_tenex", ".local/share/man/man1/tenex.1"},
    "fish": {".config/fish/completions/tenex.fish", ".local/share/man/man1/tenex.1"},
}


@pytest.fixture
def home(tmp_path: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the user; `tenex` sets one that is not there."""
    home = tmp_path / "home of a user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    return home


def contents(home: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(home)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in home.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("shell", list(HOME_FILES))
def test_a_second_run_changes_nothing(shell: str, home: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    mine = b"alias ll='ls -l'  # without a line feed at its end"
    start = next((home / name for name in HOME_FILES[shell] if name.endswith("shrc")), None)
    if start is not None:
        start.write_bytes(mine)
    assert "written: " in tenex("completion").err
    made = contents(home)
    assert made.keys() == HOME_FILES[shell]
    if start is not None:
        first, *added = start.read_bytes().splitlines()
        assert (first, len(added)) == (mine, 1)
    assert "written: " not in tenex("completion").err
    assert json.loads(tenex(f"completion {shell} --json").out)["changed"] == []
    assert contents(home) == made


def test_an_old_script_is_replaced_and_a_file_of_somebody_else_is_not(home: Path, tenex: Tenex) -> None:
    tenex("completion fish")
    file = home / ".config/fish/completions/tenex.fish"
    whole = file.read_text()
    file.write_text("# of an older version, for _TENEX_COMPLETE\n")
    assert f"written: {file}" in tenex("completion fish").err
    assert file.read_text() == whole
    file.write_text("complete --command tenex --no-files\n")
    before = contents(home)
    assert f"{file}: exists and is not from this command" in tenex("completion fish", code=3).err
    assert contents(home) == before


def test_what_has_no_completion_is_a_sentence(home: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert "tcsh has no completion here. Name bash, zsh or fish." in tenex("completion", code=2).err
    monkeypatch.delenv("SHELL")
    assert "$SHELL is not set" in tenex("completion", code=2).err
    (home / ".bashrc").mkdir()
    assert re.search(r"\.bashrc: cannot be changed .* add this line: if \[ -r", tenex("completion bash", code=3).err)


@pytest.mark.parametrize("shell", list(HOME_FILES))
def test_a_script_is_printed_and_nothing_is_written(shell: str, home: Path, tenex: Tenex) -> None:
    out, err = tenex(f"completion {shell} --print")
    assert ("_TENEX_COMPLETE" in out, err) == (True, "")
    assert not contents(home)


def test_the_man_page_has_every_command_and_option_of_the_help(home: Path, tenex: Tenex) -> None:
    page = tenex("completion man --print").out
    assert page.startswith('.TH TENEX 1 "" "tenex ')
    assert tenex("completion man").err.startswith(f"written: {home}/.local/share/man/man1/tenex.1")
    assert (home / ".local/share/man/man1/tenex.1").read_text() == page
    plain = re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\(dq", '"').replace("\\e", "\\")
    words = set(plain.split())
    for name in [name for name, one in command_table(FEATURES).items() if not one.is_hidden]:
        assert f'.SH "TENEX {name.upper()}"' in plain
        assert set(tenex(f"{name} --help").out.replace("Usage:", "").split()) <= words
    assert '.SS "tenex conversations rollback"' in plain
    assert "5 forced stop" in plain.partition(".SH EXIT STATUS")[2]
    assert not [
        line
        for line in page.splitlines()
        if line.startswith((".", "'")) and not re.match(r"\.(TH|SH|SS|PP|TP)\b", line)
    ]


@needs_mandoc
def test_mandoc_finds_no_fault_in_the_man_page(home: Path, tenex: Tenex) -> None:
    """But for its date: the page is that of a version, and is made when it is installed."""
    page = tenex("completion man --print").out.encode()
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, capture_output=True, check=False)
    assert [line for line in done.stdout.decode().splitlines() if "missing date" not in line] == []


def asked(shell: str, line: str) -> list[str]:
    """What the program answers to the script of a shell."""
    words = line.split(" ")
    env = environment(
        _TENEX_COMPLETE=f"complete_{shell}",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
        _TYPER_COMPLETE_ARGS=line,
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    done = run([TENEX[-1]], env, ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_script_is_answered_with_commands_and_options() -> None:
    assert asked("bash", "tenex conv") == ["conversations"]
    assert set(asked("bash", "tenex conversations re")) == {"replay", "rebuild"}
    assert asked("bash", "tenex agents add --ki") == ["--kind"]
    assert asked("fish", "tenex conversations reb")[0].startswith("rebuild\tWrite a new journal")
    assert "rebuild" in "".join(asked("zsh", "tenex conversations reb"))


def test_bash_completes_what_is_typed(home: Path, tenex: Tenex) -> None:
    tenex("completion bash")
    program = home / "bin" / "tenex"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tenex "$@"\n')
    program.chmod(0o755)
    line = 'COMP_WORDS=(tenex workfl); COMP_CWORD=1; _tenex_completion tenex; echo "${COMPREPLY[@]}"'
    env = environment(HOME=str(home), PATH=f"{program.parent}:{os.environ['PATH']}")
    script = f". {str(home / '.bashrc')!r}; complete -p tenex; {line}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["complete -o default -F _tenex_completion tenex", "workflows"], done.stderr
