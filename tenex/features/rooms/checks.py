"""What the doctor looks at for rooms without a daemon: whether costs can be reported to an owner."""

from collections.abc import Iterator

from tenex.configuration.attestations import read_attestations
from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import KeyRing, RemoteKey, parse_public_key
from tenex.operations.doctor.findings import Case, Finding, ok, warning

from .attest import OWNER


def costs(case: Case) -> Iterator[Finding]:
    """Name the keys of which no cost is reported although `rooms.costs` asks for it."""
    settings = case.settings
    if not settings.rooms.costs:
        return
    ring = KeyRing(*case.paths.key_folders)
    owners = settings.peer_group(parse_public_key).owners
    attested = {key for key, tag in read_attestations(case.paths).items() if tag[1] in owners}
    left_out: list[str] = []
    for name in ring.names():
        if name == OWNER:
            continue
        try:
            key = ring.read(name)
        except ConfigurationError:  # the check `keys` reports it
            continue
        if isinstance(key, RemoteKey):
            yield ok(f"no costs of {name} are reported, because a remote signer holds its key", "rooms.costs")
        elif key.public not in attested:
            left_out.append(name)
    if left_out:
        names = ", ".join(left_out)
        message = f"no costs of {names} are reported: no owner has attested them"
        yield warning(message, "rooms.costs", "run `tenex rooms attest`")
    else:
        yield ok("the costs of all attested keys are reported to their owners", "rooms.costs")
