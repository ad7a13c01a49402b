"""How the program starts and ends: help, exit codes, errors, pipes, and what it does not import."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tenex import __version__
from tenex.cli import main as main_module
from tenex.cli.main import ALIASES, COMMANDS, load_command, main
from tenex.core.errors import ConfigurationError, RelayUnavailable, StoreLocked, TenexError, UsageError

from .conftest import Done, command, environment

Tenex = Callable[..., Done]


def test_help_lists_every_command_with_its_line(installed: Tenex) -> None:
    done = installed("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    listed = dict(line.strip().split(maxsplit=1) for line in done.stdout.split("Commands:\n")[1].splitlines())
    assert listed == {name: line for name, (_, line) in COMMANDS.items() if name not in ALIASES}


def test_help_imports_neither_commands_nor_heavy_libraries() -> None:
    """The reason why it is fast, which a test can hold without a clock."""
    code = (
        "import sys; from tenex.cli.main import main; main(['--help']); "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "{'pydantic_settings', 'structlog', 'rich', 'coincurve', 'pynostr', 'websockets', 'jinja2', 'cryptography'} "
        "or m.startswith(('tenex.cli.', 'tenex.')) and m not in "
        "{'tenex.cli', 'tenex.cli.main', 'tenex.cli.options', 'tenex.cli.output', 'tenex.core', 'tenex.core.errors', "
        "'tenex.core.ids', 'tenex.core.messages', 'tenex.core.text'}), "
        "file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_in_the_table_exists_and_has_a_help(name: str) -> None:
    loaded = load_command(name)
    assert loaded.name == name
    assert loaded.help


@pytest.mark.parametrize(
    ("words", "meant"),
    [("statu", "status"), ("conversations lst", "list"), ("agents shw", "show"), ("graph chekc", "check")],
)
def test_a_command_that_is_misspelt_is_answered_with_the_nearest(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_version_on_stdout(installed: Tenex) -> None:
    assert installed("--version").stdout == f"tenex {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "stderr"),
    [
        (["--nonsense"], "No such option"),
        (["init", "--relay"], "requires an argument"),
        (["agents", "show"], "Missing argument"),
        ([], "Usage: tenex"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_message_on_stderr(installed: Tenex, arguments: list[str], stderr: str) -> None:
    done = installed(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert stderr in done.stderr
    assert "Traceback" not in done.stderr


def test_faults_of_the_configuration_end_with_3_and_are_listed(installed: Tenex, tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").write_text("[limits]\nsame_route = 0\nhold_for = 'x'\n")
    done = installed("--data", tmp_path, "config", "show")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tenex: 2 faults in the configuration:\n  - ")
    assert "limits.same_route" in done.stderr
    assert "limits.hold_for" in done.stderr


def raising(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    def command() -> None:
        """Fail."""
        raise fault

    single = typer.Typer()
    single.command("graph")(command)
    monkeypatch.setattr(main_module, "load_command", lambda _: typer.main.get_command(single))


@pytest.mark.parametrize(
    ("fault", "code", "stderr"),
    [
        (UsageError("use it so"), 2, "tenex: use it so\n"),
        (ConfigurationError(["a: b"]), 3, "tenex: a: b\n"),
        (StoreLocked("held by 7"), 4, "tenex: held by 7\n"),
        (TenexError("hm"), 1, "tenex: hm\n"),
        (KeyboardInterrupt(), 130, "tenex: interrupted\n"),
        (typer.Exit(6), 6, ""),
        (typer.Abort(), 130, "tenex: interrupted\n"),
    ],
)
def test_every_error_is_one_message_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: BaseException, code: int, stderr: str
) -> None:
    raising(monkeypatch, fault)
    assert main(["graph"]) == code
    assert capsys.readouterr() == ("", stderr)


def test_an_unexpected_error_is_one_line_without_secrets_and_with_the_way_to_the_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, RuntimeError("lost nsec1vl029mgpspedva04g90vltkh6fvh240zq \x1b[31m\nsecond line"))
    assert main(["graph"]) == 1
    stderr = capsys.readouterr().err
    assert stderr == (
        "tenex: unexpected RuntimeError: lost [redacted] \\x1b[31m\n"
        "tenex: this is an internal error; `tenex --debug ...` shows where it happened\n"
    )


def test_debug_shows_the_trace_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, RuntimeError("lost nsec1vl029mgpspedva04g90vltkh6fvh240zq"))
    assert main(["--debug", "graph"]) == 1
    stderr = capsys.readouterr().err
    assert "Traceback" in stderr
    assert "nsec1vl" not in stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_goes_away_is_no_error(unbuffered: str) -> None:
    """Neither where Python buffers what is printed, nor where it does not, as images for containers like to have it."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*command(), "graph", "show"],
        env=environment(PYTHONUNBUFFERED=unbuffered),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_stdout_is_one_line(unbuffered: str) -> None:
    """Whether it is met when the buffer is flushed at the end, or in the middle of a long result."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*command(), "graph", "show"],
            env=environment(PYTHONUNBUFFERED=unbuffered),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"tenex: the output could not be written: No space left on device\n"


def test_a_closed_stdout_is_no_error() -> None:
    """Some supervisors start their daemons so."""
    line = " ".join([*command(), "graph", "show", ">&-"])
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_broken_pipe_elsewhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A socket's broken pipe is not the reader of stdout going away."""
    raising(monkeypatch, BrokenPipeError(32, "Broken pipe"))
    assert main(["graph"]) == 1
    assert "unexpected BrokenPipeError" in capsys.readouterr().err


def test_a_poor_terminal_gets_escapes_instead_of_a_trace(installed: Tenex, tmp_path: Path) -> None:
    (tmp_path / "tenex.toml").write_text("[project]\nname = 'Ünï 项目'\n", encoding="utf-8")
    done = installed("--data", tmp_path, "config", "show", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\u9879" in done.stdout


def test_the_data_folder_may_be_named_before_or_after_the_command(installed: Tenex, tmp_path: Path) -> None:
    before = installed("--data", tmp_path, "config", "path", "--json")
    after = installed("config", "path", "--json", "--data", tmp_path)
    by_variable = installed("config", "path", "--json", TENEX_DATA=str(tmp_path))
    assert json.loads(before.stdout)["data"] == str(tmp_path)
    assert before.stdout == after.stdout == by_variable.stdout


def test_an_error_of_several_tasks_is_reported_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def together(name: str) -> object:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [RelayUnavailable("the relay is away")])])

    monkeypatch.setattr("tenex.cli.main.load_command", together)
    assert main(["chat"]) == 1
    assert capsys.readouterr().err == "tenex: the relay is away\n"


def test_python_runs_the_package_as_the_script_does() -> None:
    ran = subprocess.run([sys.executable, "-m", "tenex", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"tenex {__version__}\n"
