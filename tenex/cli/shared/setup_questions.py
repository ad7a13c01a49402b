"""What `tenex init` asks in a terminal about the owner and the relays, and how the answers are checked."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenex.core.errors import ConfigurationError, UsageError
from tenex.nostr.keys import KeyRing, npub, parse_public_key
from tenex.nostr.urls import is_loopback
from tenex.settings import Commits, Settings, load

from . import output
from .own_keys import OWNER
from .provider import Chosen, has_price
from .public_keys import read_public_key
from .questions import prompt

if TYPE_CHECKING:
    from tenex.operations.doctor.findings import Finding

MOST_DOLLARS: Final = 1_000_000
"""More is a mistake in typing."""


def validated(
    data: Path, owner: str | None, relays: Sequence[str], chosen: Chosen | None = None, store: str | None = None
) -> dict[str, Any]:
    """The options as settings.

    Raises:
        UsageError: one is invalid, or the folder is a file.
    """
    if data.exists() and not data.is_dir():
        raise UsageError(f"{data} is not a folder; name another one with --dir")
    wanted: dict[str, Any] = {}
    if owner is not None:
        wanted["people"] = {"owners": [owner]}
    if relays:
        wanted["relays"] = {"urls": list(dict.fromkeys(relays))}
    if chosen is not None:
        wanted["models"] = chosen.settings()
    if store is not None:
        wanted["store"] = store
    try:
        load(None, Path(os.devnull), env={}, overrides=wanted, parse_key=parse_public_key)
    except ConfigurationError as error:
        raise UsageError("; ".join(error.faults)) from error
    return wanted


def given_owner(text: str) -> str:
    """The owner that an option names, as settings hold it.

    Raises:
        UsageError: it is no public key, or the name cannot be looked up.
    """
    try:
        return npub(read_public_key(text))
    except ValueError as error:
        raise UsageError(f"--owner: {error}.") from error


def ask_owner(data: Path) -> str | None:
    """The public key of the user; None where they have none, or a key was made for them before."""
    default = "the key made before" if OWNER in KeyRing(data / "keys").names() else "a new key"
    output.message(
        "Who may give orders? Paste your npub, as your Nostr client shows it, or your name there, such as "
        "alice@example.com. Without one, press Enter."
    )
    return _ask_key("Your npub", default)


def ask_another_owner() -> str | None:
    """The public key of one more owner; None for no one."""
    return _ask_key("The npub or the name of another owner", "none")


def _ask_key(question: str, default: str) -> str | None:
    while True:
        answer = prompt(question, shown=default, instead="Paste the npub, which is public.")
        if not answer:
            return None
        try:
            return npub(read_public_key(answer))
        except ValueError as error:
            output.message(f"That did not work: {error}.")


def ask_relays(data: Path, known: Sequence[str] = ()) -> list[str]:
    """Addresses of relays that answer, or that the user wants anyway."""
    default = list(known or Settings().relays.urls)
    output.message("Which relays? The agents and your client meet there. Separate several by spaces.")
    while True:
        answer = _ask_addresses(data, default)
        if are_wanted(answer):
            return answer


def _ask_addresses(data: Path, default: list[str]) -> list[str]:
    while True:
        typed = prompt("Relays", shown=" ".join(default), instead="Type addresses of relays.").replace(",", " ").split()
        answer = with_schemes(typed) or default
        try:
            validated(data, None, answer)
        except UsageError as error:
            output.message(f"That does not work: {error}")
        else:
            return list(dict.fromkeys(answer))


def with_schemes(addresses: Sequence[str]) -> list[str]:
    """Addresses of relays; before one that is only a host, ws:// for this machine and wss:// for others."""
    return [_whole(address) for address in addresses]


def _whole(address: str) -> str:
    if not address or "://" in address:
        return address
    try:
        is_on_this_machine = is_loopback(f"ws://{address}")
    except ValueError:
        return address  # the check of the settings says what is wrong with it
    return f"{'ws' if is_on_this_machine else 'wss'}://{address}"


def are_wanted(relays: Sequence[str]) -> bool:
    """Whether these relays are to be used: each answers, or the user keeps them as they are."""
    if report_relays(relays):
        return True
    wish = ""
    while wish not in ("c", "k"):
        wish = prompt("(c)hange the relays, or (k)eep them as they are", "c")[:1].lower()
    return wish == "k"


def ask_commits(known: Commits = "ask") -> Commits:
    """Whether agents commit in the project's repository."""
    output.message(
        "May agents commit in the project's git repository? never; ask: you allow each commit, also from your phone; "
        "auto: they do it by themselves."
    )
    while True:
        match prompt("Commits", known, instead="Type never, ask or auto.").lower():
            case "never" | "ask" | "auto" as answer:
                return answer
        output.message("Type never, ask or auto.")


DOCUMENTS: Final = "executor"
"""The agent that works alone in a folder of documents."""


def ask_content(*, has_documents: bool) -> bool:
    """Whether the folder holds documents; what is there is the default."""
    output.message(
        "What is in the folder? software: agents plan, build, test and review. documents, such as notes, tables and "
        "letters: one agent works alone, which is faster and cheaper."
    )
    while True:
        shown = "documents" if has_documents else "software"
        match prompt("Folder", shown, instead="Type software or documents.").lower():
            case "documents":
                return True
            case "software":
                return False
        output.message("Type software or documents.")


LIMITS: Final = {
    "cost_per_cycle_usd": "a cycle",
    "cost_per_conversation_usd": "a conversation",
    "cost_per_day_usd": "a day",
}
"""The limits of cost that everybody should know, by their settings."""


def limits_text(settings: Settings) -> str:
    """What models may cost before work stops."""
    amounts = {what: getattr(settings.limits, name) for name, what in LIMITS.items()}
    parts = [f"${amount:g} {what}" if amount else f"no limit {what}" for what, amount in amounts.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def ask_first_limits(chosen: Chosen | None) -> dict[str, float]:
    """Those of `LIMITS` that are to differ from the defaults, in dollars; nothing is asked where no cost is counted."""
    if chosen is None or not has_price(chosen):
        return {}

    defaults = Settings()
    question = f"Limits: {limits_text(defaults)}; (c)hange them, or (k)eep them"
    while True:
        match prompt(question, "k", instead="Type c or k.")[:1].lower():
            case "c":
                return ask_limits(defaults)
            case "k":
                return {}


def ask_limits(settings: Settings) -> dict[str, float]:
    """Those of `LIMITS` that the user changes, in dollars."""
    output.message("What may models cost, in dollars? Work stops at a limit, and you are asked.")
    changes: dict[str, float] = {}
    for name, what in LIMITS.items():
        known = getattr(settings.limits, name)
        amount = _ask_dollars(what, known)
        if amount != known:
            changes[name] = amount
    return changes


def _ask_dollars(what: str, known: float) -> float:
    while True:
        typed = prompt(f"Dollars {what}", f"{known:g}", instead="Type a number.").removeprefix("$")
        try:
            amount = float(typed)
        except ValueError:
            amount = -1.0
        if 0 <= amount <= MOST_DOLLARS:
            return amount
        output.message("Type a number, such as 20 or 2.5; 0 is no limit.")


def report_relays(relays: Sequence[str]) -> bool:
    """Ask relays as `tenex doctor` does, and print a verdict on each; whether all can be used, now or once started."""
    from tenex.operations.doctor.relays import examine_relay

    async def examine_all() -> "list[list[Finding]]":
        return await asyncio.gather(*(examine_relay(url, None) for url in relays))

    output.message(f"Asking {', '.join(relays)} ...")
    with output.without_logs():
        results = asyncio.run(examine_all())
    verdicts = [_verdict(url, findings) for url, findings in zip(relays, results, strict=True)]
    for sentence, _ in verdicts:
        output.message(f"  {sentence}")
    return all(is_usable for _, is_usable in verdicts)


def _verdict(url: str, findings: "Sequence[Finding]") -> tuple[str, bool]:
    """What to say of a relay by what was found, and whether it can be used."""
    from tenex.operations.doctor.findings import Level
    from tenex.operations.doctor.relays import NEEDS_KEY, REFUSED

    faults = [finding for finding in findings if finding.level is Level.FAULT and finding.message != NEEDS_KEY]
    if not faults:
        return f"{url} answers.", True
    if url.startswith("ws://") and is_loopback(url) and faults[0].message == REFUSED:
        return f"{url}: no relay listens there yet; {faults[0].fix}.", True
    return "; ".join(f"{finding.location}: {finding.message}; {finding.fix}" for finding in faults), False
