"""`tenex owner`: who gives orders, as `people.owners` of the settings."""

from typing import Annotated

import typer

from tenex.core.errors import UsageError
from tenex.core.ids import PublicKey
from tenex.nostr.keys import KeyRing, npub, parse_public_key
from tenex.settings import Settings, resolve_paths

from .shared.options import Globals
from .shared.own_keys import OWNER
from .shared.register import group, register
from .stop_reload import reload_running

owner = group("List, add and remove owners, who may do everything.")

WhoArgument = Annotated[
    str, typer.Argument(metavar="WHO", help="An npub, an nprofile, 64 hex digits, or a name: alice@example.com.")
]


@register(owner, "list")
def list_(given: Globals) -> None:
    """List the owners."""
    settings = given.settings()
    own = _own_key(settings)
    keys = _keys(settings)
    rows = [{"npub": npub(key), "hex": key, "key_is_here": key == own} for key in keys]
    lines = [f"{row['npub']}{'  its key is keys/owner.nsec here' if row['key_is_here'] else ''}" for row in rows]
    note = "" if rows else "There is no owner. `tenex owner add NPUB` adds you."
    given.show(rows, "\n".join(lines), note)


@register(owner)
def add(given: Globals, who: WhoArgument) -> None:
    """Let somebody give orders; a running daemon knows at once.

    The domain of a name is asked for the key (NIP-05). tenex.toml keeps its comments.
    """
    settings = given.settings()
    key = _read(who)
    owners = settings.people.owners
    if key in _keys(settings):
        facts = {"npub": npub(key), "changed": False}
        given.show(facts, "", f"{npub(key)} is an owner already; nothing was changed.")
        return
    _change(given, settings, key, [*owners, npub(key)], "is an owner now")


@register(owner)
def remove(given: Globals, who: WhoArgument) -> None:
    """Let somebody give orders no longer; the last owner cannot be removed."""
    settings = given.settings()
    key = _read(who)
    owners = settings.people.owners
    left = [text for text in owners if parse_public_key(text) != key]
    if len(left) == len(owners):
        raise UsageError(f"{npub(key)} is no owner. `tenex owner list` shows them.")
    if not left:
        raise UsageError(f"{npub(key)} is the only owner, and somebody has to be one. Add another first.")
    is_own = key == _own_key(settings)
    note = "`tenex chat` here signs with that key, so its messages are those of a stranger from now on."
    _change(given, settings, key, left, "is no owner any more", note if is_own else "")


def _change(given: Globals, settings: Settings, key: PublicKey, owners: list[str], what: str, note: str = "") -> None:
    from .shared.settings_file import change_settings

    file = change_settings(given, settings, {"people": {"owners": owners}})
    reloaded = reload_running(resolve_paths(settings))
    facts = {"npub": npub(key), "changed": True, "file": str(file), "reload": reloaded}
    given.show(facts, "", f"{npub(key)} {what}, in {file}.", reloaded, note)


def _read(who: str) -> PublicKey:
    from .shared.public_keys import read_public_key

    try:
        return read_public_key(who)
    except ValueError as error:
        raise UsageError(f"This is no owner's key: {error}.") from error


def _keys(settings: Settings) -> list[PublicKey]:
    return [parse_public_key(text) for text in settings.people.owners]


def _own_key(settings: Settings) -> PublicKey | None:
    ring = KeyRing(*resolve_paths(settings).key_folders)
    return ring.read(OWNER).public if OWNER in ring.names() else None
