"""The options that every command takes, and how they select the data folder and its settings."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.feature import Feature, tools_of

from . import output

if TYPE_CHECKING:
    from tenex.core.phases import Phase
    from tenex.settings import ProjectPaths, Settings, Trust

LONGEST_PATH: Final = 200
"""Characters of a path that are shown, where it may be any text."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The data folder; may be given before or after the command.",
        readable=False,  # the commands report better what is wrong with it
    ),
]


@dataclass(slots=True)
class Globals:
    """The options that every command takes, before or after its name."""

    data: Path | None = None
    config: Path | None = None
    debug: bool = False
    as_json: bool = False
    features: Sequence[Feature] = ()
    """What the program has beside its own commands."""
    faults: tuple[str, ...] = ()
    """Why the settings are invalid, where `readable_settings` has found them so."""

    def folder(self) -> Path:
        """The data folder; the commands that messages name from now on will name it too."""
        from tenex.settings import find_data, required_trust

        cwd = current_folder()
        folder = find_data(self.data, os.environ, cwd)
        check_folder(folder)
        trust = required_trust(self.data, os.environ, cwd)
        if trust is not None:
            trust.contents()
        try:
            is_found = find_data(None, os.environ, cwd) == folder
            trust = required_trust(None, os.environ, cwd)
            if trust is not None:
                trust.contents()
        except ConfigurationError:  # the current folder is inside a workspace, or not trusted
            is_found = False
        output.set_command_options(None if is_found else folder, self.config)
        return folder

    def trust(self) -> "Trust | None":
        """The trust that the data folder needs; None where it is used as it is."""
        from tenex.settings import required_trust

        return required_trust(self.data, os.environ, current_folder())

    def settings(self, overrides: Mapping[str, Any] | None = None) -> "Settings":
        """Read and check the settings, and register the kinds of conversation of the packages that they allow.

        Raises:
            ConfigurationError: with all faults.
        """
        from tenex.nostr.keys import parse_public_key
        from tenex.settings import load

        folder = self.folder()
        settings = load(
            self.config,
            folder,
            overrides=overrides,
            parse_key=parse_public_key,
            trust=self.trust(),
            features=tools_of(self.features),
        )
        if settings.plugins.allow:
            from tenex.plugins.kinds import register_kinds

            register_kinds(settings.plugins.allow)  # a daemon, `config check` and `doctor` name what is wrong
        return settings

    def paths(self) -> "ProjectPaths":
        """The project's paths; the default ones where the settings are invalid."""
        from tenex.settings import resolve_paths

        return resolve_paths(self.readable_settings())

    def readable_settings(self) -> "Settings":
        """The settings; the defaults, with a message, where they are invalid: a running daemon keeps its own."""
        from tenex.settings import Settings, UntrustedFolder

        folder = self.folder()
        try:
            return self.settings()
        except UntrustedFolder:
            raise
        except ConfigurationError as error:
            self.faults = error.faults
            output.message(f"{output.explain(error)}\ntenex: using the default folders")
            bare = Settings()
            bare._data = folder
            return bare

    def show(self, value: Any, text: str, *notes: str) -> None:
        """Print the result of the command as JSON where that is asked for; else the text, and notes on stderr."""
        if self.as_json:
            output.result_json(value)
            return
        if text:
            output.result(text)
        for note in filter(None, notes):
            output.message(note)


def check_folder(folder: Path) -> None:
    """Refuse a data folder that is none and cannot be made; whether it may be read is reported by its readers.

    Raises:
        UsageError: it is a file.
        ConfigurationError: there can be no folder of that name.
    """
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise UsageError(f"{folder} is not a folder; name another one with --data.")
    except FileNotFoundError as error:
        if folder.is_symlink():
            fault = f"{folder}: cannot be a data folder: the link leads nowhere. Name another with --data."
            raise ConfigurationError([fault]) from error
    except PermissionError:
        pass
    except OSError as error:
        shown = output.shorten(str(folder), LONGEST_PATH)
        fault = f"{shown}: cannot be a data folder ({error.strerror}). Name another with --data."
        raise ConfigurationError([fault]) from error


def current_folder() -> Path | None:
    """The current folder; None where it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def parse_phase(word: str) -> "Phase | None":
    """The phase of that name; None for an empty one.

    Raises:
        UsageError: there is none.
    """
    from tenex.core.phases import Phase

    phase = Phase.parse(word)
    if word and phase is None:
        raise UsageError(f"{word[:40]!r} is not a phase. Choose from {', '.join(Phase)}.")
    return phase
