"""`tenex keys`: what holds each key, secret keys under a password (NIP-49), and keys at remote signers (NIP-46)."""

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.text import decode
from tenex.nostr.keys import Key, KeyRing, RemoteKey, SecretKey, npub, parse_public_key
from tenex.settings import Settings, resolve_paths

from .shared import output
from .shared.agent_files import keyed_agents, load_agents
from .shared.files import write_new
from .shared.options import Globals
from .shared.own_keys import OWNER, PROJECT
from .shared.register import group, register
from .stop_reload import reload_running

keys = group("List keys, export and import secret ones, connect remote signers.")

VARIABLE: Final = "TENEX_KEY_PASSWORD"
"""The variable for scripts; a password on the command line would be seen by every user of the machine."""
_LONGEST: Final = 10_000
"""Characters of a password or of an encrypted key that are read."""

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="project, owner, or the slug of an agent.", show_default=False)
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace another key of that name, whose file is kept.")]
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
    ring = _ring(given.settings())
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


@register(keys)
def connect(
    given: Globals,
    name: NameArgument,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Holds the bunker:// address; - reads stdin; default: a question.", show_default=False
        ),
    ] = None,
    *,
    replace: ReplaceOption = False,
) -> None:
    """Have a remote signer sign for the project or an agent: its secret key is then not on this machine (NIP-46).

    The signer shows an address that begins with bunker://. It is asked for the public key, and may ask you to allow
    that. Direct messages to such a key are not read. Where the key stays the same, a running daemon uses the new
    address at once.
    """
    from .shared.remote_signer import connect_signer

    settings = given.settings()
    ring = _ring(settings)
    _check_name(name, settings)
    if name == OWNER:
        raise UsageError("The owner's key signs what you write here, and has to be here. Choose project or an agent.")
    ring.check_replaceable(name)  # before the address is used, most of which work once
    if name in ring.names() and not replace:
        old = ring.file(name)
        raise UsageError(f"{name} has a key, in {old}. Add --replace to use the signer's; the old file is kept.")
    key = connect_signer(_text(file, "bunker:// address"))
    before = _public(ring, name)
    kept = ring.replace(name, key)
    reloaded = reload_running(resolve_paths(settings)) if key.public == before else ""
    facts = {"name": name, "npub": key.npub, "relays": list(key.relays), "kept": kept and str(kept), "reload": reloaded}
    lines = [
        f"{name} has the key {key.npub} now, which a remote signer holds.",
        f"The old file: {kept}" if kept else "",
        reloaded if key.public == before else _next(name, key, settings),
    ]
    given.show(facts, "", *lines)


def _public(ring: KeyRing, name: str) -> PublicKey | None:
    """The public key of that name, as far as its file can be read."""
    try:
        return ring.read(name).public
    except ConfigurationError:
        return None


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
    replace: ReplaceOption = False,
    password_fd: PasswordOption = None,
) -> None:
    """Store a key that was exported as ncryptsec1 text, here or in another Nostr program (NIP-49)."""
    settings = given.settings()
    ring = _ring(settings)
    _check_name(name, settings)
    text = _text(file, "ncryptsec1 text")
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
    lines = [f"{name} has the key {key.npub} now.", f"The old file: {kept}" if kept else "", _next(name, key, settings)]
    given.show(facts, "", *lines)


def _next(name: str, key: Key, settings: Settings) -> str:
    """What an operator has to do so that the new key is used."""
    if name != OWNER:
        return "A running daemon goes on with its old key: `tenex stop`, then `tenex run`."
    if key.public in {parse_public_key(text) for text in settings.people.owners}:
        return ""
    return f"It is no owner yet: `tenex owner add {npub(key.public)}`."


def _ring(settings: Settings) -> KeyRing:
    return KeyRing(*resolve_paths(settings).key_folders)


def _check_name(name: str, settings: Settings) -> None:
    names = [PROJECT, OWNER, *keyed_agents(load_agents(settings))]
    if name not in names:
        raise UsageError(f"{output.shorten(name)!r} has no key here. Choose from {', '.join(names)}.")


def _text(file: Path | None, what: str) -> str:
    """What a file or a person gives, neither of which is shown.

    Raises:
        UsageError: there is none.
    """
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError(f"Name the file that holds the {what}; - reads it from stdin.")
        return getpass(f"The {what} (not shown): ", stream=sys.stderr)
    try:
        raw = sys.stdin.read(_LONGEST) if str(file) == "-" else decode(file.read_bytes()[:_LONGEST])
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise UsageError(f"{file}: holds no {what}.") from None
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
