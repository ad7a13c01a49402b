"""How the report of a daemon shows which keys relays do not let in: what the doctor says of them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tenex.operations.doctor.findings import Finding, count_text, warning


def lines(refused: Sequence[Mapping[str, Any]] | None, _now: datetime) -> Iterator[str]:
    """The lines of `tenex status`; none where no daemon has answered."""
    for each in refused or ():
        yield f"rooms          {each['relay']} does not let in {', '.join(each['names'])}: {each['why']}"


def problems(refused: Sequence[Mapping[str, Any]] | None) -> Iterator[Finding]:
    """The keys that a relay refuses at AUTH."""
    for each in refused or ():
        keys = count_text(len(each["names"]), "key")
        message = f"it does not let in {keys} of the project, {', '.join(each['names'])}: {each['why']}"
        if each["unattested"]:
            fix = "if it lets in who is attested by a member: `tenex rooms attest`; else have them added there"
        else:
            fix = "have somebody in charge of the relay add them"
        yield warning(message, each["relay"], fix)
