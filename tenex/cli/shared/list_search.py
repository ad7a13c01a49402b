"""What `tenex conversations list` and `search` find, as rows, JSON and text."""

from collections.abc import Iterator
from typing import Any, Final

from tenex.core.port_values import Passage
from tenex.core.projection import partner
from tenex.operations.listing import STATUSES, list_rows, row_json, search_conversations
from tenex.store.conversations import Conversations
from tenex.store.search import Filter, Found
from tenex.store.search_words import CLOSE, OPEN
from tenex.store.view_json import iso

from . import output
from .times import local_time

__all__ = ["MARKS", "STATUSES", "as_json", "as_text", "rows", "search", "table"]

MARKS: Final = ("«", "»")
"""Around what matched, in text."""


async def rows(folder: Conversations, wanted: Filter, limit: int = -1) -> list[dict[str, Any]]:
    """The conversations that match a filter, as `list_rows` gives them; a terminal is shown how far it is."""
    return await list_rows(folder, wanted, limit, notice=_notice, shown=output.progress)


async def search(folder: Conversations, query: str, wanted: Filter, limit: int) -> list[Found]:
    """The conversations that match a query, as `search_conversations` gives them, likewise."""
    return await search_conversations(folder, query, wanted, limit, notice=_notice, shown=output.progress)


def _notice(sentence: str) -> None:
    output.message(f"tenex: {sentence}")


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


def as_json(found: list[Found]) -> list[dict[str, Any]]:
    """The matches as JSON."""
    return [
        {
            **row_json(one.row),
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
