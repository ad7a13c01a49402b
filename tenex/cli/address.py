"""`tenex address`: the project's address, as text and as a QR code."""

import sys

from .shared import output
from .shared.options import Globals
from .shared.own_keys import PROJECT


def address(given: Globals) -> None:
    """Show the project's address; a terminal also shows a QR code, which a phone scans.

    Prints the npub, and the nprofile that names relays too.
    """
    from tenex.nostr.keys import KeyRing
    from tenex.settings import resolve_paths

    from .shared.qr_code import project_uri, reachable_relays, show_code

    settings = given.settings()
    key = KeyRing(resolve_paths(settings).keys).get(PROJECT)
    relays = reachable_relays(settings.relays.urls)
    uri = project_uri(key.public, relays)
    given.show({"npub": key.npub, "uri": uri, "relays": relays}, f"{key.npub}\n{uri}")
    if given.as_json:
        return
    sys.stdout.flush()
    show_code(uri)
    if not relays:
        first = settings.relays.urls[0]
        output.message(f"A phone cannot reach {first}: name a relay that both can reach under relays.urls.")
