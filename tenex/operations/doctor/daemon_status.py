"""What a running daemon's own status says is wrong: frozen, held and refused things that no file shows."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenex.core.errors import ModelUnavailable, RelayUnavailable, StoreError

from .findings import Finding, fault, warning
from .format import shown


def complaints(status: Any) -> Iterator[Finding]:
    """What to do something about (`app.report` has the shape)."""
    told = _table(status)
    yield from _configuration(_table(told.get("configuration")))
    yield from _relays(told.get("relays"))
    conversations = _table(told.get("conversations"))
    for frozen in _tables(conversations.get("suspended")):
        yield fault(
            f"frozen{_since(frozen.get('since'))}: {frozen.get('why', 'its journal could not be written')}",
            f"conversation {frozen.get('id', '')}",
            "make room or mend the disk; the daemon tries again by itself",
            StoreError,
        )
    for marked in _tables(conversations.get("quarantined")):
        yield fault(
            f"in quarantine: {marked.get('why', 'its journal is damaged')}",
            f"conversation {marked.get('id', '')}",
            "see what `conversations` says of its journal",
            StoreError,
        )
    held = [open_ for open_ in _tables(conversations.get("open")) if open_.get("kind") == "held"]
    failure = _table(_table(told.get("models")).get("lastFailure"))
    for one in held:
        yield fault(
            f"held, because a model cannot be reached{_why(failure)}",
            f"conversation {one.get('id', '')}",
            "mend what `models` says with --probe; the daemon tries again by itself",
            ModelUnavailable,
        )


def _configuration(configuration: Mapping[str, Any]) -> Iterator[Finding]:
    refused = configuration.get("refused")
    if isinstance(refused, list) and refused:
        yield warning(
            f"the configuration was refused when it was last read anew ({len(refused)} faults); the one before holds",
            configuration.get("file") or "the settings",
            "mend the faults that `settings` names, then send SIGHUP or restart",
        )
    needs = configuration.get("needsRestart")
    if isinstance(needs, list) and needs:
        yield warning(
            f"some of what was changed waits for a restart: {', '.join(map(str, needs))}",
            configuration.get("file") or "the settings",
            "restart the daemon",
        )


def _relays(relays: Any) -> Iterator[Finding]:
    for relay in _tables(relays):
        if relay.get("state", "connected") == "connected":
            continue
        if relay.get("state") == "unresponsive":
            refused = relay.get("refused")
            why = f"it refuses {'; '.join(map(str, refused))}" if refused else "it does not answer"
            what = f"the daemon is connected, but not served{_since(relay.get('unresponsiveSince'))}: {why}"
        else:
            what = f"the daemon is not connected: {relay.get('fault') or 'no reason is known'}"
        yield fault(
            what,
            shown(str(relay.get("url", ""))),
            "see what `relays` says; the daemon tries again by itself",
            RelayUnavailable,
        )


def _since(at: Any) -> str:
    return f" since {at}" if at else ""


def _why(failure: Mapping[str, Any]) -> str:
    return f"; the last failure: {failure['why']}" if failure.get("why") else ""


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
