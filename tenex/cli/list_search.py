"""What `tenex conversations list` and `search` find and how they tell it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, get_args

from tenex.core.errors import StoreDamaged, UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.state.conversation import Status

from . import dates, output
from .progress import shown

if TYPE_CHECKING:
    from tenex.store.index_reader import Catalogue
    from tenex.store.index_row import Row
    from tenex.store.repository import ConversationFolder
    from tenex.store.search import Excerpt, Filter, Found

QUARANTINED: Final = "quarantined"
UNREAD: Final = "unread"
STATUSES: Final = (*get_args(Status), QUARANTINED, UNREAD)

MARKS: Final = ("«", "»")
"""Around what matched, for a person."""


def filter_of(
    *, status: str = "", phase: str = "", was_in: str = "", agent: str = "", since: str = "", until: str = ""
) -> "Filter":
    """What somebody typed, as the index takes it.

    Raises:
        UsageError: there is no such status or phase, or that is no time or key.
    """
    from tenex.store.search import Filter

    now = datetime.now().astimezone()
    if status and status.lower() not in STATUSES:
        raise UsageError(f"{status[:40]!r} is no status; there are {', '.join(STATUSES)}.")
    return Filter(
        status=status.lower(),
        phase=_phase(phase),
        was_in=_phase(was_in),
        agent=_agent(agent),
        since=dates.since(since, now) if since else None,
        until=dates.until(until, now) if until else None,
    )


def _phase(word: str) -> str:
    phase = Phase.parse(word) if word else None
    if word and phase is None:
        raise UsageError(f"{word[:40]!r} is no phase; there are {', '.join(Phase)}.")
    return phase.value if phase else ""


def _agent(word: str) -> str:
    """A slug as it is, a key in any of its forms as hex."""
    from tenex.nostr.keys import parse_public_key

    name = word.strip().removeprefix("@")
    if not name.lower().startswith(("npub1", "nprofile1", "nsec1", "nostr:")) and len(name) != 64:
        return name.lower()
    try:
        return parse_public_key(name)
    except ValueError as fault:
        raise UsageError(f"That is neither an agent's slug nor its key: {fault}.") from fault


async def rows(folder: "ConversationFolder", wanted: "Filter", limit: int = -1) -> list[dict[str, Any]]:
    """The conversations a filter lets through, last updated first; what cannot be read is among them."""
    from tenex.store.index_reader import open_catalogue
    from tenex.store.search import Filter

    marks = await folder.quarantined()
    by_fault = wanted.status in (QUARANTINED, UNREAD)
    async with open_catalogue(folder, shown) as catalogue:
        found = [] if by_fault else await catalogue.rows(wanted)
        _tell_fault(catalogue)
        faults = {name: (UNREAD, why) for name, why in catalogue.unread.items()}
    faults |= {name: (QUARANTINED, why) for name, why in marks.items()}
    told = [_row(row) for row in found if row.id not in faults]
    left_out = 0
    for name, (status, why) in faults.items():
        view = _view_of(folder, name)
        if wanted.status not in ("", status):
            left_out += not by_fault
        elif replace(wanted, status="") == Filter() or _fits(view, wanted):
            told.append(_faulty(name, view, status, why))
        else:
            left_out += not _tells(view, wanted)
    if left_out:
        output.say(f"tenex: left out {left_out} that cannot be read; `tenex conversations list` shows them")
    if faults:
        told.sort(key=lambda row: str(row["updated"]), reverse=True)
    return told if limit < 0 else told[:limit]


def _row(row: "Row") -> dict[str, Any]:
    return {
        "id": row.id,
        "status": row.status,
        "phase": row.phase,
        "cycle": row.cycle,
        "title": row.title,
        "created": _time(row.started),
        "updated": _time(row.updated),
    }


def _view_of(folder: "ConversationFolder", name: ConversationId) -> dict[str, Any]:
    """What its readable files still tell of one whose journal cannot be read."""
    from tenex.store.journal_reader import VIEW
    from tenex.store.view_reader import read_view

    try:
        return read_view(folder.path(name) / VIEW)
    except StoreDamaged:
        return {}


def _tells(view: dict[str, Any], wanted: "Filter") -> bool:
    """Whether a view would tell it if a filter let it through; keys of agents are in the newest messages only."""
    return bool(view) and not view["unread"] and len(wanted.agent) != 64


def _faulty(name: ConversationId, view: dict[str, Any], status: str, why: str) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "phase": view.get("phase"),
        "cycle": view.get("cycle"),
        "title": view.get("title"),
        "updated": str(view.get("updatedAt", "")),
        "fault": why,
    }


def _fits(view: dict[str, Any], wanted: "Filter") -> bool:
    """Whether a filter lets through what a view tells of; what it does not tell is not so."""

    def each(name: str) -> list[dict[str, Any]]:
        entries = view.get(name)
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    phases = [
        Phase.CHAT.value,
        view.get("phase"),
        *(move.get(end) for move in each("phaseTransitions") for end in ("from", "to")),
    ]
    agents = [message.get("author") for message in each("messages")]
    for turn in each("orchestratorTurns"):
        told = turn.get("agents")
        agents += told if isinstance(told, list) else []
    updated, created = str(view.get("updatedAt", "")), str(view.get("createdAt", ""))
    return (
        wanted.phase in ("", view.get("phase"))
        and (not wanted.was_in or wanted.was_in in phases)
        and (not wanted.agent or wanted.agent in agents)
        and (wanted.since is None or updated >= _time(wanted.since))
        and (wanted.until is None or "" < created < _time(wanted.until))
    )


async def search(folder: "ConversationFolder", query: str, wanted: "Filter", limit: int) -> list["Found"]:
    """The conversations in which a person's query is found, the best first.

    Raises:
        UsageError: the query holds no word, or too much.
    """
    from tenex.store.index_reader import open_catalogue
    from tenex.store.search_words import match_of

    match = match_of(query)
    async with open_catalogue(folder, shown) as catalogue:
        found = await catalogue.search(match, wanted, limit)
        _tell_fault(catalogue)
        for name, why in sorted(catalogue.unread.items()):
            output.say(f"tenex: left out {name[:12]}: {why}")
    return found


def _tell_fault(catalogue: "Catalogue") -> None:
    if catalogue.fault:
        output.say(f"tenex: {catalogue.fault}; the journals were read instead. The daemon's next start makes it anew.")


def as_json(found: list["Found"]) -> list[dict[str, Any]]:
    """What was found, for programs."""
    return [
        {
            **_row(one.row),
            "matches": one.matches,
            "messages": [
                {"seq": each.seq, "time": _time(each.at), "from": each.name, "excerpt": _excerpt(each)}
                for each in one.excerpts
            ],
        }
        for one in found
    ]


def as_text(found: list["Found"]) -> str:
    """What was found, for a person: each conversation, and below it the lines that match."""
    return "\n\n".join("\n".join(map(output.one_line, _lines(one))) for one in found)


def _lines(found: "Found") -> Iterator[str]:
    row = found.row
    yield f"{row.id[:12]}  {row.status} in {row.phase}  {local_time(row.updated)}  {short(row.title)}"
    for each in found.excerpts:
        who = each.name or "title"
        yield f"    {local_time(each.at)}  {who}: {' '.join(_excerpt(each, *MARKS).split())}"
    more = found.matches - len(found.excerpts)
    if more:
        yield f"    and {more} more"


def _excerpt(excerpt: "Excerpt", before: str = "", after: str = "") -> str:
    from tenex.store.search_words import CLOSE, OPEN

    return excerpt.text.replace(OPEN, before).replace(CLOSE, after)


def short(text: str, most: int = 60) -> str:
    """A text cut to fit into a column."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def local_time(at: Millis) -> str:
    """A time as a person here reads it; a clock that was set to nonsense gives the number."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return str(at)


def _time(at: Millis) -> str:
    """As `conversation.json` writes it."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(at)
