"""`tenex status`: the state of the daemon on one page.

It asks the daemon over its socket; without an answer it reports why, and what is unfinished by the files. The exit code
is 0 where a daemon answers, else 1, so it serves as a health check: a daemon whose relays are away is healthy, because
a restart would not help.

    running stopping   a daemon answers                     stopped   no daemon runs
    unresponsive       one runs, and does not answer        unknown   we may not ask
    starting           one has locked the folder a moment ago
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError
from tenex.core.text.amounts import count, duration
from tenex.core.text.state_words import by_state_word, state_word, waits_for
from tenex.feature import StatusPart

from .shared import output
from .shared.options import Globals
from .shared.status_lines import ago, mark

if TYPE_CHECKING:
    from tenex.settings import Settings

NO_ANSWER: Final = 1
"""The exit code where no daemon answers."""
VALUES: Final = 15
"""The column where values begin."""
_HEADS: Final = {
    "starting": "STARTING",
    "stopped": "NOT RUNNING",
    "unresponsive": "NOT ANSWERING",
    "unknown": "NOT KNOWN",
}


def status(
    given: Globals,
    patience: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds to wait for an answer.")] = 10.0,
) -> None:
    """Show the state of the daemon: relays, models, conversations, disk.

    The exit code is 0 where a daemon answers; otherwise it is 1, and the report is made from the files.

    "state" in the JSON is running, stopping, starting, stopped (no daemon), unresponsive (it does not answer) or
    unknown (we may not ask). A daemon that is starting is waited for, some seconds.
    """
    settings = given.readable_settings()
    report = asyncio.run(_report(settings, patience))
    if given.faults:
        report["configuration"]["invalid"] = list(given.faults)
    parts = [part for feature in given.features for part in feature.status()]
    shown = lines(report, parts)
    text = "\n".join(output.fit(line, sys.stdout, 4 if line.startswith(" ") else VALUES) for line in shown)
    given.show(report, text)
    if report["state"] in _HEADS:
        raise typer.Exit(NO_ANSWER)


async def _report(settings: "Settings", patience: float) -> dict[str, Any]:
    from tenex.operations.daemon_start import WAIT, ask_when_started, is_starting, why_silent
    from tenex.settings import resolve_paths

    where = resolve_paths(settings)
    state = "unresponsive"
    fault = ""
    try:
        report: dict[str, Any] = await ask_when_started(
            where.socket, where.conversations, "status", patience=patience, wait=min(patience, WAIT)
        )
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        from tenex.operations.doctor.daemon import lock_holder

        state = "stopped"
        with suppress(OSError):  # the report from the files says what cannot be read
            if holder := lock_holder(where.conversations):
                state = "starting" if is_starting(where.conversations) else "unresponsive"
                fault = f"it does not listen at {where.socket}; {why_silent(where.conversations, holder)}"
    except TimeoutError:
        fault = f"no answer from {where.socket} within {patience:g} s"
    except PermissionError:
        state = "unknown"
        fault = f"{where.socket} belongs to another user. Run this as the daemon's user, or as root"
    except OSError as error:
        fault = str(error)
    else:
        return report
    return {**await _from_files(settings), "state": state, "fault": fault}


async def _from_files(settings: "Settings") -> dict[str, Any]:
    from tenex.operations.status import report_from_files
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.disk import Disk
    from tenex.store.opening import open_conversations

    where = resolve_paths(settings)
    clock = SystemClock()
    disk = Disk()
    try:
        async with open_conversations(settings.store, where.conversations, disk, clock) as folder:
            report = await report_from_files(where, folder, clock.now())
    except PermissionError as fault:
        raise ConfigurationError(
            [f"{fault.filename or where.conversations}: cannot be read. Run this as the daemon's user, or as root"]
        ) from fault
    finally:
        disk.close()
    if not where.data.is_dir():
        report["disk"] = {"fault": f"no such folder; make it: {output.command('init')}, or name another with --data"}
    elif not where.conversations.exists():
        report["disk"] = {"fault": f"{where.conversations} is missing; make it: {output.command('init')}"}
    return report


# ---- text ---------------------------------------------------------------------------------------------------


def lines(report: dict[str, Any], parts: Sequence[StatusPart]) -> Iterator[str]:
    """Format a report with its parts of features; control characters in foreign texts are removed."""
    for line in _lines(report, parts):
        yield output.one_line(line).rstrip()


def _lines(report: dict[str, Any], parts: Sequence[StatusPart]) -> Iterator[str]:
    now = datetime.fromisoformat(report["at"])
    yield from _held(report)
    yield from _head(report)
    if ahead := report.get("clock", {}).get("aheadSeconds"):
        way = "ahead of" if ahead > 0 else "behind"
        yield f"clock          WRONG: {duration(abs(ahead))} {way} the relays' clocks. Set it: timedatectl set-ntp true"
    yield from _relays(report, now)
    if "models" in report:
        yield from _models(report["models"], now)
    if report.get("mcp"):
        yield from _mcp(report["mcp"])
    if report.get("web"):
        yield _pages(report["web"])
    if "tokens" in report.get("today", {}):
        yield from _today(report["today"])
    if report.get("background"):
        yield from _background(report["background"])
    if report.get("workers"):
        yield from _workers(report["workers"])
    for part in parts:
        yield from part.lines(report.get(part.name), now)
    yield from _conversations(report["conversations"], now)


def _relays(report: dict[str, Any], now: datetime) -> Iterator[str]:
    if "relays" in report:
        relays = report["relays"]
        up = sum(relay["state"] == "connected" for relay in relays)
        yield f"relays         {up} of {len(relays)} connected"
        for relay in relays:
            yield f"  {mark(relay['state'])}{relay['url']}  {_relay(relay, now)}"
        for last in report.get("refusals", ()):
            when = f"last {ago(last['at'], now)} in {last['conversation'][:8]}"
            yield f"  REFUSED     {last['relay']}  {count(last['count'], 'event')}, {when}: {last['reason']}"
    elif report.get("undelivered"):
        yield f"undelivered    {', '.join(f'{number} for {url}' for url, number in report['undelivered'].items())}"


def _held(report: dict[str, Any]) -> Iterator[str]:
    """What nothing but an operator sets going again, before all else."""
    held = report["conversations"]["counts"].get("held")
    if held:
        last = report.get("models", {}).get("lastFailure")
        why = f": {last['why']}" if last else ""
        yield f"HELD           {count(held, 'conversation')}{why}"


def _head(report: dict[str, Any]) -> Iterator[str]:
    here = report["configuration"]
    head = _HEADS.get(report["state"])
    if head is not None:
        yield f"tenex          {head}: {report.get('fault') or 'no daemon runs on ' + here['data']}"
    else:
        process = report["process"]
        running = f"{report['state']} for {duration(process['seconds'])}, pid {process['pid']}"
        yield f"tenex          {process['version']}, {running}"
        if process["address"]:
            yield f"address        {process['address']}"
    yield f"data           {here['data']} ({_disk(report['disk'])})"
    invalid = here.get("invalid", ())
    used = here["file"] or ("the default folders" if invalid else "no tenex.toml: the defaults")
    yield f"settings       {f'INVALID: {invalid[0]}' if invalid else used}"
    yield from (f"  - {sentence}" for sentence in invalid[1:])
    if invalid:
        yield f"  used now: {used}"
    if here.get("readAgainAt"):
        yield f"  reloaded at {here['readAgainAt']}{': REJECTED, the old ones stay' if here['refused'] else ''}"
        yield from (f"  - {sentence}" for sentence in (*here["refused"], *here["needsRestart"]))
    for what in ("agent", "workflow"):
        for slug, faults in here.get(f"disabled{what.title()}s", {}).items():
            yield f"  the {what} {slug} is disabled"
            yield from (f"  - {sentence}" for sentence in faults)
    for one in here.get("ownTools", ()):
        yield f"  {one['source']}: {', '.join(one['tools']) or 'left out'}"
        yield from (f"  - {sentence}" for sentence in one["faults"])


def _disk(disk: dict[str, Any]) -> str:
    if "fault" in disk:
        return str(disk["fault"])
    return f"{'LOW: ' if disk['isLow'] else ''}{disk['freeBytes'] / 1e9:.1f} of {disk['totalBytes'] / 1e9:.0f} GB free"


def _relay(relay: dict[str, Any], now: datetime) -> str:
    parts = []
    if relay["state"] == "unresponsive":
        parts.append(f"connected, but without an answer since {ago(relay['unresponsiveSince'], now)}")
    elif relay["state"] == "away":
        parts.append(relay["fault"] or "not connected yet")
    parts.append(f"last message {ago(relay['lastReceived'], now)}")
    parts += [f"refuses {refusal}" for refusal in relay["refused"]]
    if relay["undelivered"]:
        parts.append(f"{relay['undelivered']} undelivered")
    if relay["strikes"]:
        parts.append(f"{relay['strikes']} forged or malformed messages")
    return ", ".join(parts)


def _models(models: dict[str, Any], now: datetime) -> Iterator[str]:
    yield f"models         {count(models['held'], 'conversation') if models['held'] else 'no conversation'} held"
    for provider in models["providers"]:
        paused = f", paused for {duration(provider['paused'])} at its request" if provider["paused"] else ""
        yield f"  {provider['name']:12}{provider['active']} calls, {provider['waiting']} queued{paused}"
    last = models.get("lastFailure")
    if last:
        agent = f"{last['who']} in {last['conversation'][:8]}"
        yield f"  last failure {ago(last['at'], now)}, {agent}: {last['why']}"


def _mcp(servers: list[dict[str, Any]]) -> Iterator[str]:
    ready = sum(server["state"] == "ready" for server in servers)
    yield f"MCP servers    {ready} of {len(servers)} ready"
    for server in servers:
        if server["state"] == "ready":
            restarts = max(0, server["starts"] - 1)
            again = f", started again {count(restarts, 'time')}" if restarts else ""
            yield f"  {mark('ready')}{server['name']}  {count(server['tools'], 'tool')}{again}"
            if server.get("remark"):
                yield f"  - {server['name']}: {server['remark']}"
            for left in server.get("leftOut", ()):
                yield f"  - {server['name']}: its tool {left['tool']} is left out: {left['why']}"
        else:
            why = f": {server['why']}" if server.get("why") else ""
            yield f"  {mark(server['state'])}{server['name']}{why}"


def _pages(pages: dict[str, Any]) -> str:
    if pages["state"] == "running":
        return f"pages          at {pages['address']}; a link to log in: `tenex web --link`"
    why = f": {pages['why']}" if pages["why"] else ""
    return f"pages          NOT SERVED ({pages['state']}){why}"


def _workers(workers: list[dict[str, Any]]) -> Iterator[str]:
    running = sum(worker["state"] != "silent" for worker in workers)
    yield f"workers        {running} of {len(workers)} running"
    for worker in workers:
        parts = [count(worker["conversations"], "conversation")]
        if worker["state"] == "silent":
            parts.append(f"last seen {duration(worker['unseen'])} ago")
        if worker["hasWorkspace"]:
            parts.append("has the workspace")
        if worker["isOwn"]:
            parts.append("of this data folder")
        yield f"  {mark(worker['state'])}{worker['name']}  {', '.join(parts)}"


def _today(today: dict[str, Any]) -> Iterator[str]:
    yield f"today          {_used(today)}, until {today['endsAt']}"
    for one in today["people"]:
        yield f"  {mark(one['state'])}{one['who']} {one.get('npub', '')}".rstrip() + f"  {_used(one)}"


def _used(use: dict[str, Any]) -> str:
    limits = {"cost" if name.startswith("cost") else "tokens": most for name, most in use["limits"].items()}
    of_tokens = f" of {limits['tokens']:,}" if "tokens" in limits else ""
    of_cost = f" of ${limits['cost']:.2f}" if "cost" in limits else ""
    cost = f", ${use['costUsd'] or 0:.2f}{of_cost}" if of_cost or use["costUsd"] is not None else ""
    return f"{use['tokens']:,}{of_tokens} tokens{cost}"


def _background(commands: list[dict[str, Any]]) -> Iterator[str]:
    yield f"background     {count(len(commands), 'command')}"
    for command in commands:
        where = f"{command['agent']} in {command['conversation'][:8]}"
        yield f"  {command['id']:12}{where}, for {duration(command['seconds'])}: {output.shorten(command['command'])}"


def _conversations(found: dict[str, Any], now: datetime) -> Iterator[str]:
    counts = ", ".join(f"{number} {state}" for state, number in by_state_word(found["counts"]).items())
    yield f"conversations  {counts or 'none'}"
    for one in found["quarantined"]:
        yield f"  {mark('quarantined')}{one['id'][:8]}  {one['why']}"
    for one in found["suspended"]:
        yield f"  {mark('suspended')}{one['id'][:8]}  since {ago(one['since'], now)}: {one['why']}"
    for one in found["open"]:
        turn = f", turn open for {duration(one['turn']['seconds'])}" if "turn" in one else ""
        yield f"  {mark(state_word(one['kind']))}{one['id'][:8]}  {_place(one)}{turn}  {_title(one)}"
        yield from (f"      {part}" for part in _parts(one, now))
    for one in found["waiting"]:
        whom = waits_for(one.get("waitingFor", ""))
        yield f"  {mark('waiting')}{one['id'][:8]}  {whom}, since {ago(one['updatedAt'], now)}  {_title(one)}"


def _title(one: dict[str, Any]) -> str:
    return f"{one['title']}{' (imported)' if one.get('imported') else ''}"


def _place(one: dict[str, Any]) -> str:
    """Where it is in the words of its kind, or the current phase or the only agent."""
    return str(one.get("where") or one.get("place") or one["phase"])


def _parts(one: dict[str, Any], now: datetime) -> Iterator[str]:
    """The agents at work in a conversation, or why none is."""
    if does := one.get("does"):
        yield str(does)
    for name, part in [
        *([("orchestrator", one["router"])] if "router" in one else []),
        *((run["agent"], run) for run in one.get("runs", ())),
    ]:
        match part["state"]:
            case "parked":
                yield from (f"{name} has asked {ago(part['since'], now)}: {text}" for text in part["questions"])
            case "limited":
                yield f"{name} is limited: {part['why']}"
            case "held" if "nextTry" not in part:
                yield f"{name} is held, until `/continue`: {part['why']}"
            case "held" | "retrying":
                due = (datetime.fromisoformat(part["nextTry"]) - now).total_seconds()
                yield f"{name} {part['state']}, next try in {duration(max(0, due))}: {part['why']}"
            case "tools":
                yield f"{name} uses {', '.join(part['tools'])}"
            case _:
                yield f"{name} waits for its model"
    if one["undelivered"]:
        yield f"{count(one['undelivered'], 'event')} undelivered"
