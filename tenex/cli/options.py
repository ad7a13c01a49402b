"""The options several commands share, and what they lead to: the data folder and its settings."""

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
        help="The data folder; before or after the command, it means the same.",
        readable=False,  # the commands say better what is wrong with it, and `doctor` is there for that
    ),
]


@dataclass(slots=True)
class Globals:
    """What was said before the command."""

    data: Path | None = None
    config: Path | None = None
    debug: bool = False


def group(about: str) -> typer.Typer:
    """A command with commands below it, in our plain style."""
    return typer.Typer(
        help=about, add_completion=False, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False
    )


def said(ctx: typer.Context) -> Globals:
    """The options that stood before the command."""
    found = ctx.find_root().obj
    return found if isinstance(found, Globals) else Globals()


def data_folder(ctx: typer.Context, data: Path | None = None) -> Path:
    """The data folder of this command."""
    from tenex.settings import find_data

    return find_data(data or said(ctx).data, os.environ, Path.cwd())


def code_refusal(ctx: typer.Context, data: Path | None = None) -> str:
    """Why code of this command's data folder may not be run; empty where it may."""
    from tenex.settings import refuse_code

    return refuse_code(data or said(ctx).data, os.environ, Path.cwd())


def open_settings(
    ctx: typer.Context, data: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> "Settings":
    """Read the settings a command goes by, the people's keys checked.

    Raises:
        ConfigurationError: with all faults.
    """
    from tenex.nostr.keys import parse_public_key
    from tenex.settings import load

    return load(
        said(ctx).config,
        data_folder(ctx, data),
        overrides=overrides,
        parse_key=parse_public_key,
        code_refusal=code_refusal(ctx, data),
    )


def open_places(ctx: typer.Context, data: Path | None = None) -> "ProjectPaths":
    """Where things lie; where the settings are broken, the default places: a daemon that runs has those from before."""
    from tenex.core.errors import ConfigurationError
    from tenex.settings import Settings, resolve_paths

    from . import output

    try:
        return resolve_paths(open_settings(ctx, data))
    except ConfigurationError as fault:
        output.say(f"{output.explain(fault)}\ntenex: looking in the default places")
        bare = Settings()
        bare._data = data_folder(ctx, data)
        return resolve_paths(bare)
