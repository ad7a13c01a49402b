"""What commands for keys are given: a name, and a secret text from a file or a person."""

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Final

import typer

from tenex.core.errors import UsageError
from tenex.core.text.foreign import decode
from tenex.nostr.keys import Key, KeyRing, npub, parse_public_key
from tenex.settings import Settings, resolve_paths

from . import output
from .agent_files import keyed_agents, load_agents
from .own_keys import OWNER, PROJECT

LONGEST: Final = 10_000
"""Characters of a password, of an address or of an encrypted key that are read."""

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="project, owner, or the slug of an agent.", show_default=False)
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace another key of that name, whose file is kept.")]


def next_step(name: str, key: Key, settings: Settings) -> str:
    """What an operator has to do so that the new key is used."""
    if name != OWNER:
        return "A running daemon goes on with its old key: `tenex stop`, then `tenex run`."
    if key.public in {parse_public_key(text) for text in settings.people.owners}:
        return ""
    return f"It is no owner yet: `tenex owner add {npub(key.public)}`."


def ring_of(settings: Settings) -> KeyRing:
    """The keys of a data folder."""
    return KeyRing(*resolve_paths(settings).key_folders)


def check_name(name: str, settings: Settings) -> None:
    """See that something here has a key of that name.

    Raises:
        UsageError: nothing has.
    """
    names = [PROJECT, OWNER, *keyed_agents(load_agents(settings))]
    if name not in names:
        raise UsageError(f"{output.shorten(name)!r} has no key here. Choose from {', '.join(names)}.")


def read_text(file: Path | None, what: str) -> str:
    """What a file or a person gives, neither of which is shown.

    Raises:
        UsageError: there is none.
    """
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError(f"Name the file that holds the {what}; - reads it from stdin.")
        return getpass(f"The {what} (not shown): ", stream=sys.stderr)
    try:
        raw = sys.stdin.read(LONGEST) if str(file) == "-" else decode(file.read_bytes()[:LONGEST])
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise UsageError(f"{file}: holds no {what}.") from None
    return raw.strip()
