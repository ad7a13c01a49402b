"""What of a daemon's report does not work and only a person can fix, as sentences; each says where and why."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenex.core.text.amounts import count, duration


def failures_of(report: Mapping[str, Any]) -> list[str]:
    """The sentences for the report of a running daemon, as `tenex status` prints it; none where all works."""
    return [*_of_daemon(report), *_of_relays(report), *_of_configuration(report), *_of_servers(report)]


def _of_daemon(report: Mapping[str, Any]) -> Iterator[str]:
    ahead = report.get("clock", {}).get("aheadSeconds")
    if ahead:
        way = "ahead of" if ahead > 0 else "behind"
        yield f"This machine's clock is {duration(abs(ahead))} {way} the relays' clocks."
    disk = report["disk"]
    if "fault" in disk:
        yield f"The disk: {disk['fault']}."
    elif disk.get("isLow"):
        yield f"The disk is nearly full: {disk['freeBytes'] / 1e9:.1f} GB are free."


def _of_relays(report: Mapping[str, Any]) -> Iterator[str]:
    for relay in report.get("relays", ()):
        if relay["state"] == "unresponsive":
            yield f"The relay {relay['url']} is connected and does not answer."
        elif relay["state"] == "away" and relay["fault"]:
            yield f"The relay {relay['url']} is away: {relay['fault']}."
        for refusal in relay["refused"]:
            yield f"The relay {relay['url']} refuses {refusal}."
    for last in report.get("refusals", ()):
        yield f"The relay {last['relay']} has refused {count(last['count'], 'event')} for good: {last['reason']}."


def _of_configuration(report: Mapping[str, Any]) -> Iterator[str]:
    here = report["configuration"]
    for sentence in (*here.get("invalid", ()), *here.get("refused", ())):
        yield f"The settings are not in force: {sentence}"
    for what in ("agent", "workflow"):
        for slug, sentences in here.get(f"disabled{what.title()}s", {}).items():
            yield f"The {what} {slug} is disabled: {' '.join(sentences)}"
    for tools in here.get("ownTools", ()):
        yield from (f"{tools['source']}: {sentence}" for sentence in tools["faults"])


def _of_servers(report: Mapping[str, Any]) -> Iterator[str]:
    for server in report.get("mcp", ()):
        if server["state"] in ("refused", "waiting"):
            yield f"The MCP server {server['name']} cannot be used: {server['why']}"
