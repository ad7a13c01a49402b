"""The options that several commands share, and how they select the data folder and its settings."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tenex.settings import ProjectPaths, Settings

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
    """The options given before the command."""

    data: Path | None = None
    config: Path | None = None
    debug: bool = False


def group(about: str) -> typer.Typer:
    """A command with subcommands."""
    return typer.Typer(
        help=about, add_completion=False, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False
    )


def global_options(ctx: typer.Context) -> Globals:
    """The options given before the command."""
    found = ctx.find_root().obj
    return found if isinstance(found, Globals) else Globals()


def data_folder(ctx: typer.Context, data: Path | None = None) -> Path:
    """The data folder of this command; the commands that messages name from now on will name it too."""
    from tenex.core.errors import ConfigurationError
    from tenex.settings import find_data

    from . import output

    folder = find_data(data or global_options(ctx).data, os.environ, Path.cwd())
    try:
        is_found = find_data(None, os.environ, Path.cwd()) == folder
    except ConfigurationError:  # the current folder is inside a workspace
        is_found = False
    output.set_command_options(None if is_found else folder, global_options(ctx).config)
    return folder


def code_refusal(ctx: typer.Context, data: Path | None = None) -> str:
    """Why code of this command's data folder may not be run; empty where it may."""
    from tenex.settings import refuse_code

    return refuse_code(data or global_options(ctx).data, os.environ, Path.cwd())


def open_settings(
    ctx: typer.Context, data: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> "Settings":
    """Read and check the settings of a command.

    Raises:
        ConfigurationError: with all faults.
    """
    from tenex.nostr.keys import parse_public_key
    from tenex.settings import load

    return load(
        global_options(ctx).config,
        data_folder(ctx, data),
        overrides=overrides,
        parse_key=parse_public_key,
        code_refusal=code_refusal(ctx, data),
    )


def project_paths(ctx: typer.Context, data: Path | None = None) -> "ProjectPaths":
    """The project's paths; the default ones where the settings are invalid, because a running daemon keeps its own."""
    from tenex.core.errors import ConfigurationError
    from tenex.settings import Settings, resolve_paths

    from . import output

    try:
        return resolve_paths(open_settings(ctx, data))
    except ConfigurationError as error:
        output.message(f"{output.explain(error)}\ntenex: using the default folders")
        bare = Settings()
        bare._data = data_folder(ctx, data)
        return resolve_paths(bare)
