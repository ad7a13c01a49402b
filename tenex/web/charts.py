"""Bars beside the figures of a table: what phases, models and agents have taken."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.text.amounts import dollars, duration

WIDTH: Final = 160
"""Of the longest bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A row of a table: a name, its figures, and the width of its bar."""

    name: str
    cells: tuple[str, ...]
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of what was taken, by something."""

    by: str
    heads: tuple[str, ...]
    rows: tuple[Figures, ...]
    measure: str
    """What the bars measure."""


def tables_of(stats: Mapping[str, Any]) -> list[Table]:
    """Tables by phase, model and agent, of `store.stats.as_json`."""
    tables = (_table(by, stats[name]) for by, name in (("phase", "phases"), ("model", "models"), ("agent", "agents")))
    return [table for table in tables if table.rows]


def _table(by: str, parts: Mapping[str, Mapping[str, Any]]) -> Table:
    usages = {name: part.get("usage", part) for name, part in parts.items()}
    has_cost = any(usage["costUsd"] for usage in usages.values())
    weights = {name: (usage["costUsd"] or 0.0) if has_cost else _tokens(usage) for name, usage in usages.items()}
    most = max(weights.values(), default=0) or 1
    timed = by == "phase"
    rows = (
        Figures(
            name=name,
            cells=(*(_times(parts[name]) if timed else ()), *_cells(usage)),
            width=round(WIDTH * weights[name] / most, 1),
        )
        for name, usage in usages.items()
    )
    times = ("visits", "turns", "at work") if timed else ()
    heads = (*times, "calls", "tokens in", "cached", "out", "cost")
    return Table(by=by, heads=heads, rows=tuple(rows), measure="cost" if has_cost else "tokens")


def _times(part: Mapping[str, Any]) -> Iterable[str]:
    return (f"{part['visits']:,}", f"{part['turns']:,}", duration(part["workingMs"] / 1000))


def _tokens(usage: Mapping[str, Any]) -> int:
    return int(usage["inputTokens"] + usage["outputTokens"])


def _cells(usage: Mapping[str, Any]) -> Iterable[str]:
    numbers = (usage["calls"], usage["inputTokens"], usage.get("cacheReadTokens", 0), usage["outputTokens"])
    return (*(f"{number:,}" for number in numbers), dollars(usage["costUsd"]) or "-")
