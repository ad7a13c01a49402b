"""`tenex trust`: has commands use the current folder, after showing what it would get."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import ConfigurationError, UsageError

from .shared import output
from .shared.options import Globals, check_folder, current_folder

if TYPE_CHECKING:
    from tenex.settings import Settings


def trust(
    given: Globals,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The data folder; default: the current one.", show_default=False),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no longer.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
) -> None:
    """Have commands use the current folder, although you neither made it by `tenex init` nor named it.

    Shows who would give orders, which servers, variables and files it uses, and what code it holds; a terminal asks.
    When one of these files changes, the folder has to be trusted again. A folder that is named by --data or TENEX_DATA
    needs no trust.
    """
    from tenex.settings import find_data, read_trusted, trust_file, write_trusted

    file = trust_file(os.environ)
    if show_list:
        folders = sorted(read_trusted(file))
        given.show({"file": file and str(file), "folders": folders}, "\n".join(folders))
        return
    here = find_data(folder or given.data or Path(), os.environ, current_folder())
    check_folder(here)
    if remove:
        write_trusted(file, here, None)
        given.show({"folder": str(here), "trusted": False}, "", f"{here} is not trusted.")
        return
    contents = trusted_files(here)
    if not contents:
        raise UsageError(f"{here} holds no tenex.toml and no agents: there is nothing to trust.")
    grants = _grants(_settings(here))
    if not given.as_json:
        output.message("\n".join(_lines(here, grants)))
        if sys.stdin.isatty() and sys.stderr.isatty() and not typer.confirm("Trust it?", err=True):
            raise UsageError("Nothing was changed.")
    if trusted_files(here) != contents:
        raise ConfigurationError([f"{here} has changed meanwhile. Look at it again."])
    write_trusted(file, here, contents)
    given.show({"folder": str(here), "trusted": True, "grants": grants}, "", f"{here} is trusted, as it is now.")


def trusted_files(folder: Path) -> dict[str, str]:
    """What a data folder is trusted with; nothing where it has no settings, agents, workflows or places outside.

    Raises:
        ConfigurationError: the settings have faults, or a file cannot be read.
    """
    from tenex.settings import OUTSIDE, code_paths, contents_of, find_config, places_outside, resolve_paths

    file = find_config(None, folder)
    settings = _settings(folder)
    here = resolve_paths(settings)
    places = {f"{OUTSIDE}{name}": str(place) for name, place in places_outside(settings, here).items()}
    roots = code_paths(settings, here)
    return {**contents_of(folder, [*([file] if file is not None else []), *roots]), **places}


def keys_in(folder: Path) -> frozenset[str]:
    """The names of the keys that are in a folder: who made them may write as its owner and its agents."""
    from tenex.nostr.keys import KeyRing
    from tenex.settings import resolve_paths

    return frozenset(KeyRing(resolve_paths(_settings(folder)).keys).names())


def trust_folder(folder: Path) -> None:
    """Trust a folder that the user has just made."""
    from tenex.settings import trust_file, write_trusted

    file = trust_file(os.environ)
    if file is None or file.is_relative_to(folder):  # the home of a service's user, who names it
        return
    with suppress(ConfigurationError):  # then it is named, or trusted by a command
        write_trusted(file, folder, trusted_files(folder))


def report_grants(folder: Path) -> None:
    """Print what the settings of a folder give, where the user has not trusted them."""
    from tenex.settings import read_trusted, trust_file

    if read_trusted(trust_file(os.environ)).get(os.path.realpath(folder)) != trusted_files(folder):
        output.message("\n".join(_lines(folder, _grants(_settings(folder)))))


def _settings(folder: Path) -> "Settings":
    from tenex.nostr.keys import parse_public_key
    from tenex.settings import load

    return load(None, folder, parse_key=parse_public_key)


def _grants(settings: "Settings") -> dict[str, Any]:
    from tenex.operations.grants import grants_of

    return grants_of(settings)


def _lines(folder: Path, grants: dict[str, Any]) -> Iterator[str]:
    yield f"What {folder} decides, with you as the user who runs it:"
    width = max(map(len, grants))
    for name, values in grants.items():
        for number, value in enumerate(values):
            yield f"  {name if not number else '':{width}}  {output.one_line(value)}"
