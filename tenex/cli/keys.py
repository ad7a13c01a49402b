"""`tenex keys`: what holds each key, and secret keys under a password (NIP-49)."""

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.nostr.keys import RemoteKey, SecretKey

from .shared.files import write_new
from .shared.key_arguments import LONGEST, NameArgument, ReplaceOption, check_name, next_step, read_text, ring_of
from .shared.options import Globals
from .shared.register import group, register

keys = group("List keys, export and import secret ones.")

VARIABLE: Final = "TENEX_KEY_PASSWORD"
"""The variable for scripts; a password on the command line would be seen by every user of the machine."""
PasswordOption = Annotated[
    int | None,
    typer.Option(
        "--password-fd",
        metavar="N",
        min=0,
        help=f"Read the password from this file descriptor; default: ${VARIABLE}, or a question in a terminal.",
    ),
]


@register(keys, "list")
def list_(given: Globals) -> None:
    """List the keys, and where each is: in the keys folder, a credential of the service, or at a remote signer."""
    ring = ring_of(given.settings())
    rows: list[dict[str, Any]] = []
    for name in ring.names():
        try:
            key = ring.read(name)
        except ConfigurationError as error:
            rows.append({"name": name, "fault": str(error)})
            continue
        given_file = ring.given_file(name)
        file = given_file or ring.file(name)
        row = {"name": name, "npub": key.npub, "file": str(file), "credential": given_file is not None}
        rows.append({**row, "signer": list(key.relays)} if isinstance(key, RemoteKey) else row)
    given.show(rows, "\n".join(map(_line, rows)), "" if rows else "There is no key. `tenex init` makes them.")


def _line(row: dict[str, Any]) -> str:
    where = f"  at a remote signer, {', '.join(row['signer'])}" if "signer" in row else ""
    if row.get("credential"):
        where += f"  in the credential {row['file']}"
    return f"{row['name']:16}{row.get('npub') or row['fault']}{where}"


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
    key = ring_of(given.settings()).get(name)
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
    replace: ReplaceOption = False,
    password_fd: PasswordOption = None,
) -> None:
    """Store a key that was exported as ncryptsec1 text, here or in another Nostr program (NIP-49)."""
    settings = given.settings()
    ring = ring_of(settings)
    check_name(name, settings)
    text = read_text(file, "ncryptsec1 text")
    try:
        key = SecretKey.from_ncryptsec(text, _password(password_fd))
    except ValueError as error:
        raise UsageError(f"The key was not read: {error}.") from error
    is_there = name in ring.names()
    if is_there and ring.read(name) == key:
        given.show({"name": name, "npub": key.npub, "changed": False}, "", f"{name} has this key, {key.npub}, already.")
        return
    if is_there and not replace:
        old = ring.read(name)
        raise UsageError(f"{name} has another key, {old.npub}. Add --replace to use {key.npub}; the old file is kept.")
    kept = ring.replace(name, key)
    facts = {"name": name, "npub": key.npub, "changed": True, "kept": kept and str(kept)}
    lines = [
        f"{name} has the key {key.npub} now.",
        f"The old file: {kept}" if kept else "",
        next_step(name, key, settings),
    ]
    given.show(facts, "", *lines)


def _password(descriptor: int | None) -> str:
    """The password, from where scripts give it, or typed.

    Raises:
        UsageError: there is none.
    """
    if descriptor is not None:
        try:
            with os.fdopen(os.dup(descriptor), encoding="utf-8") as opened:
                password = opened.read(LONGEST).rstrip("\r\n")
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
