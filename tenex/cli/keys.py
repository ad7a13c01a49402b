"""`tenex keys`: secret keys in files that a password protects, for moving them and for backups (NIP-49)."""

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Final

import typer

from tenex.core.errors import UsageError
from tenex.core.text import decode
from tenex.nostr.keys import KeyRing, SecretKey, npub, parse_public_key
from tenex.settings import Settings, resolve_paths

from .shared import output
from .shared.agent_files import keyed_agents, load_agents
from .shared.files import write_new
from .shared.options import Globals
from .shared.own_keys import OWNER, PROJECT
from .shared.register import group, register

keys = group("Export and import secret keys, encrypted with a password.")

VARIABLE: Final = "TENEX_KEY_PASSWORD"
"""The variable for scripts; a password on the command line would be seen by every user of the machine."""
_LONGEST: Final = 10_000
"""Characters of a password or of an encrypted key that are read."""

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="project, owner, or the slug of an agent.", show_default=False)
]
PasswordOption = Annotated[
    int | None,
    typer.Option(
        "--password-fd",
        metavar="N",
        min=0,
        help=f"Read the password from this file descriptor; default: ${VARIABLE}, or a question in a terminal.",
    ),
]


@register(keys, "export")
def export_(
    given: Globals,
    name: NameArgument,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it into a new file instead of printing it.")
    ] = None,
    password_fd: PasswordOption = None,
) -> None:
    """Print a key as ncryptsec1 text, which opens with a password.

    Other Nostr programs read it too (NIP-49). Anybody who has the text can try passwords: choose a long one.
    """
    key = _ring(given.settings()).get(name)
    encrypted = key.encrypted(_new_password(password_fd))
    facts = {"name": name, "npub": key.npub, "ncryptsec": encrypted, "file": out and str(out)}
    if out is None:
        given.show(facts, encrypted)
        return
    write_new(out, f"{encrypted}\n")
    given.show(facts, "", f"The key of {name}, {key.npub}, is in {out}.")


@register(keys, "import")
def import_(
    given: Globals,
    name: NameArgument,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Holds the ncryptsec1 text; - reads stdin; default: a question.", show_default=False
        ),
    ] = None,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another key of that name, whose file is kept.")
    ] = False,
    password_fd: PasswordOption = None,
) -> None:
    """Store a key that was exported as ncryptsec1 text, here or in another Nostr program (NIP-49)."""
    settings = given.settings()
    ring = _ring(settings)
    _check_name(name, settings)
    text = _encrypted(file)
    try:
        key = SecretKey.from_ncryptsec(text, _password(password_fd))
    except ValueError as error:
        raise UsageError(f"The key was not read: {error}.") from error
    is_there = name in ring.names()
    if is_there and ring.get(name) == key:
        given.show({"name": name, "npub": key.npub, "changed": False}, "", f"{name} has this key, {key.npub}, already.")
        return
    if is_there and not replace:
        old = ring.get(name)
        raise UsageError(f"{name} has another key, {old.npub}. Add --replace to use {key.npub}; the old file is kept.")
    kept = ring.replace(name, key)
    facts = {"name": name, "npub": key.npub, "changed": True, "kept": kept and str(kept)}
    lines = [f"{name} has the key {key.npub} now.", f"The old file: {kept}" if kept else "", _next(name, key, settings)]
    given.show(facts, "", *lines)


def _next(name: str, key: SecretKey, settings: Settings) -> str:
    """What an operator has to do so that the new key is used."""
    if name != OWNER:
        return "A running daemon goes on with its old key: `tenex stop`, then `tenex run`."
    if key.public in {parse_public_key(text) for text in settings.people.owners}:
        return ""
    return f"It is no owner yet: `tenex owner add {npub(key.public)}`."


def _ring(settings: Settings) -> KeyRing:
    return KeyRing(resolve_paths(settings).keys)


def _check_name(name: str, settings: Settings) -> None:
    names = [PROJECT, OWNER, *keyed_agents(load_agents(settings))]
    if name not in names:
        raise UsageError(f"{output.shorten(name)!r} has no key here. Choose from {', '.join(names)}.")


def _encrypted(file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("Name the file that holds the ncryptsec1 text; - reads it from stdin.")
        return getpass("The ncryptsec1 text (not shown): ", stream=sys.stderr)
    try:
        raw = sys.stdin.read(_LONGEST) if str(file) == "-" else decode(file.read_bytes()[:_LONGEST])
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise UsageError(f"{file}: holds no ncryptsec1 text.") from None
    return raw.strip()


def _password(descriptor: int | None) -> str:
    """The password, from where scripts give it, or typed.

    Raises:
        UsageError: there is none.
    """
    if descriptor is not None:
        try:
            with os.fdopen(os.dup(descriptor), encoding="utf-8") as opened:
                password = opened.read(_LONGEST).rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise UsageError(f"--password-fd {descriptor}: cannot be read.") from error
    elif VARIABLE in os.environ:
        password = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        password = getpass("Its password (not shown): ", stream=sys.stderr)
    else:
        raise UsageError(f"A password is needed: set ${VARIABLE}, or name a descriptor, as --password-fd 3 3<FILE.")
    if not password:
        raise UsageError("The password is empty.")
    return password


def _new_password(descriptor: int | None) -> str:
    """The same; one that is typed is asked for twice."""
    is_typed = descriptor is None and VARIABLE not in os.environ
    password = _password(descriptor)
    if is_typed and getpass("Again: ", stream=sys.stderr) != password:
        raise UsageError("The two passwords differ; nothing was exported.")
    return password
