"""How the report of a daemon shows its remote signers: in a terminal, and what the doctor says of them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tenex.cli.shared.status_lines import ago, mark
from tenex.core.errors import RelayUnavailable
from tenex.core.text.amounts import count
from tenex.operations.doctor.findings import Finding, count_text, fault, warning


def lines(signers: Sequence[Mapping[str, Any]] | None, now: datetime) -> Iterator[str]:
    """The lines of `tenex status`; none where no daemon has answered."""
    signers = signers or ()
    if signers:
        ready = sum(signer["state"] == "ready" for signer in signers)
        yield f"signers        {ready} of {count(len(signers), 'remote signer')} ready"
    for signer in signers:
        why = f": {'a person is to allow it at ' if signer['state'] == 'asks' else ''}{signer['why']}"
        silent = f", noticed {ago(signer['silentSince'], now)}" if signer.get("silentSince") else ""
        waiting = ""
        if signer["waiting"]:
            since = f", the first {ago(signer['waitingSince'], now)}" if signer.get("waitingSince") else ""
            waiting = f", {count(signer['waiting'], 'event')} to sign{since}"
        yield f"  {mark(signer['state'])}{signer['name']}{silent}{waiting}{why if signer['why'] else ''}"


def problems(signers: Sequence[Mapping[str, Any]] | None) -> Iterator[Finding]:
    """What keeps remote signers from signing."""
    for signer in signers or ():
        yield from _problems_of(signer)


def _problems_of(signer: Mapping[str, Any]) -> Iterator[Finding]:
    """What keeps the remote signer of a key from signing."""
    place = f"the key {signer['name']}"
    waiting = f"; {count_text(signer['waiting'], 'event')} to sign" if signer["waiting"] else ""
    match signer["state"]:
        case "asks":
            fix = f"open {signer['why']}" if signer["why"] else "look at it"
            yield warning(f"its remote signer asks a person to allow a request{waiting}", place, fix)
        case "silent":
            fix = "start it, or see what the check `signers` reports; what it is to sign waits"
            yield fault(f"its remote signer is silent: {signer['why']}{waiting}", place, fix, RelayUnavailable)
        case "refused":
            fix = "allow it there; the daemon keeps asking"
            yield fault(f"its remote signer refuses: {signer['why']}{waiting}", place, fix, RelayUnavailable)
        case "late":
            yield warning(f"its remote signer has not signed yet{waiting}", place, "see whether it asks you")
