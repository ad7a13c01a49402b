"""`tenex completion`: installs the completion of a shell and the man page, or prints them."""

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.feature import Feature

from .root_command import EXIT_CODES, load_command, make_root
from .shared import output
from .shared.files import make_folder, replace
from .shared.options import Globals

Shell = Literal["bash", "zsh", "fish"]

VARIABLE: Final = "_TENEX_COMPLETE"
"""Set by the scripts of shells, which ask the program what may follow."""
_ZSH: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
"""Completion of zsh is off where no other line of ~/.zshrc has begun it."""


def completion(
    given: Globals,
    what: Annotated[
        Literal["bash", "zsh", "fish", "man"] | None,
        typer.Argument(metavar="SHELL", help="bash, zsh, fish, or man for the page alone; default: your shell."),
    ] = None,
    *,
    as_text: Annotated[bool, typer.Option("--print", help="Print the script or the page, and write nothing.")] = False,
) -> None:
    """Install completion for your shell, and the man page.

    Writes both below your home folder. Of bash and zsh the last line of ~/.bashrc or ~/.zshrc then loads the script. A
    second run changes nothing, and one after an upgrade replaces what is old.
    """
    what = what or _own_shell()
    if as_text:
        text = page(given.features) if what == "man" else script(what)
        given.show({"text": text}, text.rstrip("\n"))
        return
    home = _home()
    wanted = [(_manual(home), page(given.features)), *([] if what == "man" else [(_file(what, home), script(what))])]
    for file, _ in wanted:
        _refuse_others(file)
    changed = [file for file, text in wanted if replace(file, text)]
    start = _start_file(what, home)
    if start is not None and _add_line(start, _loading(_file(what, home))):
        changed.append(start)
    files = [file for file, _ in wanted] + ([start] if start is not None else [])
    if given.as_json:
        output.result_json({"files": [str(file) for file in files], "changed": [str(file) for file in changed]})
        return
    for file in files:
        output.message(f"{'written' if file in changed else 'unchanged'}: {file}")
    shown = "tenex" if _is_found_by_man(files[0]) else shlex.quote(str(files[0]))
    output.message(f"Read the page with `man {shown}`." if what == "man" else _next_steps(what, shown))


def script(shell: Shell) -> str:
    """The script of a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    text = get_completion_script(prog_name="tenex", complete_var=VARIABLE, shell=shell)
    if shell == "zsh":
        head, _, rest = text.partition("\n")
        text = f"{head}\n{_ZSH}\n{rest}"
    return f"{text}\n"


def page(features: Sequence[Feature]) -> str:
    """The man page."""
    from .shared.manual import manual

    return manual(make_root(features), partial(load_command, features=features), EXIT_CODES)


def _own_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in get_args(Shell):
        raise UsageError(f"Your shell {name or '($SHELL is not set)'} has no completion here. Name bash, zsh or fish.")
    return name  # type: ignore[return-value]


def _home() -> Path:
    from tenex.settings.trust import home_folder

    home = home_folder(os.environ)
    if home is None:
        raise ConfigurationError(["this user has no home folder. `tenex completion bash --print` prints the script."])
    return Path(home)


def _folder(variable: str, default: Path) -> Path:
    named = os.environ.get(variable, "")
    return Path(named) if named.startswith("/") else default  # the XDG specification: a relative one is to be ignored


def _file(shell: str, home: Path) -> Path:
    data = _folder("XDG_DATA_HOME", home / ".local" / "share")
    match shell:
        case "bash":
            return data / "bash-completion" / "completions" / "tenex"
        case "zsh":
            return data / "zsh" / "site-functions" / "_tenex"
        case _:
            return _folder("XDG_CONFIG_HOME", home / ".config") / "fish" / "completions" / "tenex.fish"


def _start_file(what: str, home: Path) -> Path | None:
    """The file that a shell reads at its start and that has to load the script."""
    if what == "bash":
        return home / ".bashrc"
    return _folder("ZDOTDIR", home) / ".zshrc" if what == "zsh" else None


def _manual(home: Path) -> Path:
    return _folder("XDG_DATA_HOME", home / ".local" / "share") / "man" / "man1" / "tenex.1"


def _is_found_by_man(page: Path) -> bool:
    """Whether `man` looks there: beside each folder of programs in PATH (manpath(5))."""
    folder = page.parents[1]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    return any(folder in (path.parent / "man", path.parent / "share" / "man") for path in folders)


def _loading(file: Path) -> str:
    name = shlex.quote(str(file))
    return f"if [ -r {name} ]; then . {name}; fi"


def _refuse_others(file: Path) -> None:
    """Refuse to write over a file that this command has not written.

    Raises:
        ConfigurationError: there is one, or it cannot be read.
    """
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be read ({error.strerror})"]) from error
    if VARIABLE.encode() not in text and b".TH TENEX 1" not in text:
        raise ConfigurationError([f"{file}: exists and is not from this command. Move it away, or use --print."])


def _add_line(file: Path, line: str) -> bool:
    """Add a line to a file, unless it has it; returns whether it was added. A link is followed, the rest is kept."""
    try:
        text = file.read_bytes() if file.exists() else b""
        if line.encode() in text.splitlines():
            return False
        make_folder(file.parent)
        with file.open("ab") as out:
            out.write((b"\n" if text and not text.endswith(b"\n") else b"") + line.encode() + b"\n")
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be changed ({error.strerror}); add this line: {line}"]) from error
    return True


def _next_steps(shell: str, shown: str) -> str:
    return f"Completion works in the next {shell} that you start. Read the page with `man {shown}`."


def complete(instruction: str, features: Sequence[Feature]) -> int:
    """Answer the script of a shell; returns the exit code. A fault is silent: it would be printed into a prompt."""
    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    completion_init()
    return int(shell_complete(make_root(features), {}, "tenex", VARIABLE, instruction))
