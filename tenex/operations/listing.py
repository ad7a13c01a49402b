"""The conversations that match a filter or a query, those that cannot be read among them, as rows for programs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId
from tenex.core.projection import partner
from tenex.core.text.state_words import STATES
from tenex.store.conversations import Conversations
from tenex.store.index import Shown
from tenex.store.index_reader import Catalogue, open_catalogue
from tenex.store.index_row import Row
from tenex.store.journal_reader import VIEW
from tenex.store.search import Choices, Filter, Found
from tenex.store.search_words import match_of
from tenex.store.view_json import iso
from tenex.store.view_reader import read_view

QUARANTINED: Final = "quarantined"
UNREAD: Final = "unread"
STATUSES: Final = tuple(name for name in STATES if name != "suspended")
"""What a list can be asked for: only a running daemon knows which conversations are suspended."""

Notice = Callable[[str], None]
"""Takes a sentence about what was left out or read otherwise."""


async def list_rows(
    folder: Conversations, wanted: Filter, limit: int, *, notice: Notice, shown: Shown = iter
) -> list[dict[str, Any]]:
    """The conversations that match a filter, last updated first; all of them if `limit` is negative.

    Those that cannot be read are among them where nothing but their status is asked for.
    """
    marks = await folder.quarantined()
    needs_past = bool(wanted.agent or wanted.was_in or wanted.person)
    async with open_catalogue(folder, shown, needs_past=needs_past) as catalogue:
        listed = await _rows_of(folder, catalogue, marks, wanted, notice)
    return listed if limit < 0 else listed[:limit]


async def list_with_choices(
    folder: Conversations, wanted: Filter, *, notice: Notice
) -> tuple[list[dict[str, Any]], Choices]:
    """All conversations that match a filter, last updated first, and what they can be filtered by."""
    marks = await folder.quarantined()
    async with open_catalogue(folder, needs_past=bool(wanted.agent or wanted.person)) as catalogue:
        listed = await _rows_of(folder, catalogue, marks, wanted, notice)
        return listed, await _choices_of(catalogue, marks)


async def _rows_of(
    folder: Conversations, catalogue: Catalogue, marks: Mapping[ConversationId, str], wanted: Filter, notice: Notice
) -> list[dict[str, Any]]:
    wants_unreadable = wanted.status in (QUARANTINED, UNREAD)
    found = [] if wants_unreadable else await catalogue.rows(wanted)
    _report_index_fault(catalogue, notice)
    faults = {name: (UNREAD, why) for name, why in catalogue.unread.items()}
    faults |= {name: (QUARANTINED, why) for name, why in marks.items()}
    listed = [row_json(row) for row in found if row.id not in faults]
    skipped = 0
    for name, (status, why) in faults.items():
        if wanted in (Filter(), Filter(status=status)):
            listed.append(_unreadable_row(folder, name, status, why))
        elif wanted.status == status or not wants_unreadable:
            skipped += 1
    if skipped:
        notice(f"skipped {skipped} unreadable conversations; `tenex conversations verify` names them")
    if faults:
        listed.sort(key=lambda row: str(row["updated"]), reverse=True)
    return listed


async def _choices_of(catalogue: Catalogue, marks: Mapping[ConversationId, str]) -> Choices:
    """What the conversations can be filtered by; those that cannot be read count by their states."""
    found = await catalogue.choices()
    unread = len(catalogue.unread.keys() - marks.keys())
    more = {name: number for name, number in ((QUARANTINED, len(marks)), (UNREAD, unread)) if number}
    return replace(found, statuses={**found.statuses, **more})


async def search_conversations(
    folder: Conversations, query: str, wanted: Filter, limit: int, *, notice: Notice, shown: Shown = iter
) -> list[Found]:
    """The conversations that match a query, the best first.

    Raises:
        UsageError: the query is empty or too long.
    """
    match = match_of(query)
    async with open_catalogue(folder, shown) as catalogue:
        return await _found_by(catalogue, match, wanted, limit, notice)


async def search_with_choices(
    folder: Conversations, query: str, wanted: Filter, limit: int, *, notice: Notice
) -> tuple[list[Found], Choices]:
    """The conversations that match a query, the best first, and what all can be filtered by.

    Raises:
        UsageError: the query is empty or too long.
    """
    match = match_of(query)
    marks = await folder.quarantined()
    async with open_catalogue(folder) as catalogue:
        return await _found_by(catalogue, match, wanted, limit, notice), await _choices_of(catalogue, marks)


async def _found_by(catalogue: Catalogue, match: str, wanted: Filter, limit: int, notice: Notice) -> list[Found]:
    found = await catalogue.search(match, wanted, limit)
    _report_index_fault(catalogue, notice)
    for name, why in sorted(catalogue.unread.items()):
        notice(f"skipped {name[:12]}: {why}")
    return found


def row_json(row: Row) -> dict[str, Any]:
    """A conversation of the index as a row."""
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


def _unreadable_row(folder: Conversations, name: ConversationId, status: str, why: str) -> dict[str, Any]:
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


def _report_index_fault(catalogue: Catalogue, notice: Notice) -> None:
    if catalogue.fault:
        notice(f"{catalogue.fault}; the journals are read instead. The daemon rebuilds the index when it starts.")
