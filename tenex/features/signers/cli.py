"""`tenex keys connect`: has a remote signer hold a key (NIP-46)."""

from pathlib import Path
from typing import Annotated

import typer

from tenex.cli.shared.key_arguments import NameArgument, ReplaceOption, check_name, next_step, read_text, ring_of
from tenex.cli.shared.options import Globals
from tenex.cli.shared.own_keys import OWNER
from tenex.cli.stop_reload import reload_running
from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import PublicKey
from tenex.nostr.keys import KeyRing
from tenex.settings import resolve_paths


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
    from .connect import connect_signer  # the relay client

    settings = given.settings()
    ring = ring_of(settings)
    check_name(name, settings)
    if name == OWNER:
        raise UsageError("The owner's key signs what you write here, and has to be here. Choose project or an agent.")
    ring.check_replaceable(name)  # before the address is used, most of which work once
    if name in ring.names() and not replace:
        old = ring.file(name)
        raise UsageError(f"{name} has a key, in {old}. Add --replace to use the signer's; the old file is kept.")
    key = connect_signer(read_text(file, "bunker:// address"))
    before = _public(ring, name)
    kept = ring.replace(name, key)
    reloaded = reload_running(resolve_paths(settings)) if key.public == before else ""
    facts = {"name": name, "npub": key.npub, "relays": list(key.relays), "kept": kept and str(kept), "reload": reloaded}
    lines = [
        f"{name} has the key {key.npub} now, which a remote signer holds.",
        f"The old file: {kept}" if kept else "",
        reloaded if key.public == before else next_step(name, key, settings),
    ]
    given.show(facts, "", *lines)


def _public(ring: KeyRing, name: str) -> PublicKey | None:
    """The public key of that name, as far as its file can be read."""
    try:
        return ring.read(name).public
    except ConfigurationError:
        return None
