"""`tenex address`: the project's address, as text and as a QR code."""

import sys

from .shared import output
from .shared.options import Globals
from .shared.own_keys import PROJECT


def address(given: Globals) -> None:
    """Show the project's address; a terminal also shows a QR code, which a phone scans.

    Prints the npub, and the nprofile that names relays too.
    """
    from tenex.nostr.keys import KeyRing, RemoteKey
    from tenex.settings import resolve_paths

    from .shared.qr_code import project_uri, reachable_relays, show_code

    settings = given.settings()
    key = KeyRing(*resolve_paths(settings).key_folders).read(PROJECT)
    signer = list(key.relays) if isinstance(key, RemoteKey) else None
    relays = reachable_relays(settings.relays.urls)
    uri = project_uri(key.public, relays)
    facts = {"npub": key.npub, "uri": uri, "relays": relays, **({"signer": signer} if signer else {})}
    note = f"A remote signer holds this key, reached at {', '.join(signer)}." if signer else ""
    given.show(facts, f"{key.npub}\n{uri}", note)
    if given.as_json:
        return
    sys.stdout.flush()
    show_code(uri)
    if not relays:
        first = settings.relays.urls[0]
        output.message(f"A phone cannot reach {first}: name a relay that both can reach under relays.urls.")
