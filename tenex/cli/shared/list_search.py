"""What `tenex conversations list` and `search` find, as rows, JSON and text."""

from collections.abc import Iterator
from typing import Any, Final, get_args

from tenex.core.cycle.state import Status
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId
from tenex.core.port_values import Passage
from tenex.core.projection import partner
from tenex.store.index_reader import Catalogue, open_catalogue
from tenex.store.index_row import Row
from tenex.store.journal_reader import VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter, Found
from tenex.store.search_words import CLOSE, OPEN, match_of
from tenex.store.view_json import iso
from tenex.store.view_reader import read_view

from . import output
from .times import local_time

QUARANTINED: Final = "quarantined"
UNREAD: Final = "unread"
STATUSES: Final = (*get_args(Status), QUARANTINED, UNREAD)

MARKS: Final = ("«", "»")
"""Around what matched, in text."""


async def rows(folder: ConversationFolder, wanted: Filter, limit: int = -1) -> list[dict[str, Any]]:
    """The conversations that match a filter, last updated first.

    Those that cannot be read are among them where nothing but their status is asked for.
    """
    marks = await folder.quarantined()
    wants_unreadable = wanted.status in (QUARANTINED, UNREAD)
    async with open_catalogue(folder, output.progress) as catalogue:
        found = [] if wants_unreadable else await catalogue.rows(wanted)
        _report_index_fault(catalogue)
        faults = {name: (UNREAD, why) for name, why in catalogue.unread.items()}
    faults |= {name: (QUARANTINED, why) for name, why in marks.items()}
    listed = [_row(row) for row in found if row.id not in faults]
    skipped = 0
    for name, (status, why) in faults.items():
        if wanted in (Filter(), Filter(status=status)):
            listed.append(_unreadable_row(folder, name, status, why))
        elif wanted.status == status or not wants_unreadable:
            skipped += 1
    if skipped:
        output.message(f"tenex: skipped {skipped} unreadable conversations; `tenex conversations list` shows them")
    if faults:
        listed.sort(key=lambda row: str(row["updated"]), reverse=True)
    return listed if limit < 0 else listed[:limit]


def _row(row: Row) -> dict[str, Any]:
    name = partner(row.place)
    return {
        "id": row.id,
        "status": row.status,
        "phase": None if name else row.place,
        **({"with": name} if name else {}),
        "cycle": row.cycle,
        "title": row.title,
        **({"imported": True} if row.imported else {}),
        "created": iso(row.started, "milliseconds") if row.seq else "",  # no record was written yet
        "updated": iso(row.updated, "milliseconds") if row.seq else "",
    }


def _unreadable_row(folder: ConversationFolder, name: ConversationId, status: str, why: str) -> dict[str, Any]:
    """A conversation by its newest view, where that is not damaged too."""
    try:
        view = read_view(folder.path(name) / VIEW)
    except StoreDamaged:
        view = {}
    workflow = view.get("workflow")
    partner = view.get("agent") or (workflow.get("name") if isinstance(workflow, dict) else None)
    return {
        "id": name,
        "status": status,
        "phase": None if partner else view.get("phase"),
        **({"with": partner} if partner else {}),
        "cycle": view.get("cycle"),
        "title": view.get("title"),
        **({"imported": True} if view.get("imported") else {}),
        "updated": str(view.get("updatedAt", "")),
        "fault": why,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The conversations as a table."""
    head = ("id", "status", "phase", "cycle", "updated", "title")
    return output.table(head, [[_cell(row, name) for name in head] for row in rows])


def _title(title: str, *, is_import: bool) -> str:
    """A title on a line, with the mark of an import."""
    return f"{output.shorten(title)}{' (imported)' if is_import else ''}"


def _cell(row: dict[str, Any], name: str) -> str:
    value = str(row.get(name) or "")
    if name == "phase" and "with" in row:
        return f"@{row['with']}"
    if name == "id":
        return value[:12]
    if name == "title":
        return _title(value, is_import="imported" in row)
    return value[:19].replace("T", " ") if name == "updated" else output.shorten(value)


async def search(folder: ConversationFolder, query: str, wanted: Filter, limit: int) -> list[Found]:
    """The conversations that match a query, the best first.

    Raises:
        UsageError: the query is empty or too long.
    """
    match = match_of(query)
    async with open_catalogue(folder, output.progress) as catalogue:
        found = await catalogue.search(match, wanted, limit)
        _report_index_fault(catalogue)
        for name, why in sorted(catalogue.unread.items()):
            output.message(f"tenex: skipped {name[:12]}: {why}")
    return found


def _report_index_fault(catalogue: Catalogue) -> None:
    if catalogue.fault:
        output.message(
            f"tenex: {catalogue.fault}; the journals are read instead. The daemon rebuilds the index when it starts."
        )


def as_json(found: list[Found]) -> list[dict[str, Any]]:
    """The matches as JSON."""
    return [
        {
            **_row(one.row),
            "matches": one.matches,
            "messages": [
                {"seq": each.seq, "time": iso(each.at, "milliseconds"), "from": each.name, "excerpt": _excerpt(each)}
                for each in one.excerpts
            ],
        }
        for one in found
    ]


def as_text(found: list[Found]) -> str:
    """The matches as text: each conversation, and below it the messages that match."""
    return "\n\n".join("\n".join(map(output.one_line, _lines(one))) for one in found)


def _lines(found: Found) -> Iterator[str]:
    row = found.row
    where = f"{'with' if partner(row.place) else 'in'} {row.place}"
    title = _title(row.title, is_import=bool(row.imported))
    yield f"{row.id[:12]}  {row.status} {where}  {local_time(row.updated)}  {title}"
    for each in found.excerpts:
        sender = each.name or "title"
        yield f"    {local_time(each.at)}  {sender}: {' '.join(_excerpt(each, *MARKS).split())}"
    more = found.matches - len(found.excerpts)
    if more:
        yield f"    and {more} more"


def _excerpt(excerpt: Passage, before: str = "", after: str = "") -> str:
    return excerpt.text.replace(OPEN, before).replace(CLOSE, after)
