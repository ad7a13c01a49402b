"""A conversation as a person follows it: messages, and between two of them the work, folded into one line and a tree.

Entries come one after the other, so the same rules hold for a whole page and for what a stream adds to it:

    a message or a mark       stands alone, and ends the work before it
    an entry with a `node`    brings up to date what that entry shows, in any place
    any other                 belongs to the work that is open, below the nearest entry of its `under` in it

The script of the page does the same with the entries of a stream (`static/talk.js`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import Final, Literal, get_args

from tenex.core.conversation import Conversation
from tenex.core.text.amounts import count, dollars, duration
from tenex.workflows.phases.checks import outcome_of
from tenex.workflows.phases.state import phases_of

from .story import Entry

Show = Literal["all", "messages", "failures", "files"]
SHOWS: Final[tuple[Show, ...]] = get_args(Show)
"""What a reader can have a conversation filtered by."""
NAMED: Final = 3
"""Agents that a line of folded work names."""
BAR: Final = 48
"""Width of a duration of `LONGEST_BAR` or more."""
LONGEST_BAR: Final = 600_000
"""ms. Bars are logarithmic from 0.1 s on: a model takes a hundred times as long as a tool, and both are to be seen."""
TAIL: Final = 800
"""Characters of a failed call's result that are shown at once: what went wrong is at its end."""


@dataclass(slots=True, kw_only=True)
class Node:
    """An entry of the work, with what belongs to it."""

    first: Entry
    """The entry that it began with."""
    entry: Entry
    """The newest that is known of it."""
    parts: list["Node"] = field(default_factory=list)

    @property
    def has_lanes(self) -> bool:
        """Whether several agents worked in it."""
        return self.entry.role == "turn" and sum(part.entry.role == "run" for part in self.parts) > 1

    @property
    def is_update(self) -> bool:
        """Whether it shows an entry that came later than its first."""
        return self.entry.seq != self.first.seq


@dataclass(slots=True, kw_only=True)
class Work:
    """What was done between two messages."""

    nodes: list[Node] = field(default_factory=list)
    """Those that belong to no other."""
    entries: list[Entry] = field(default_factory=list)
    is_whole: bool = True
    """Whether it is folded; a filter shows what it has found."""

    @property
    def is_open(self) -> bool:
        """Whether a failure opens it."""
        return not self.is_whole or any(entry.result == "failed" for entry in self.entries)

    @property
    def summary(self) -> "Summary":
        """Its line."""
        return summary_of(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The line of folded work."""

    who: str
    """The agents; without one what was done."""
    amounts: tuple[str, ...]
    failed: int
    """Calls and runs; how checks ended is among the amounts."""


Item = Entry | Work


def items_of(entries: Iterable[Entry], *, is_whole: bool = True) -> list[Item]:
    """Entries as messages, and the work between them; unless `is_whole` nothing is folded, as some are left out."""
    items: list[Item] = []
    places: dict[int, tuple[Work, Node]] = {}
    for entry in entries:
        if not entry.is_work:
            items.append(entry)
            continue

        last = items[-1] if items else None
        if entry.node in places:
            work, node = places[entry.node]
            node.entry = entry
            if work is last or entry.result:
                work.entries.append(entry)
            continue

        if not isinstance(last, Work):
            last = Work(is_whole=is_whole)
            items.append(last)
        node = Node(first=entry, entry=entry)
        parents = (places[seq] for seq in entry.under if seq in places)
        parent = next((known for work, known in parents if work is last), None)
        (parent.parts if parent is not None else last.nodes).append(node)
        last.entries.append(entry)
        places.setdefault(entry.seq, (last, node))
    return items


def newest_work(entries: Sequence[Entry]) -> list[Entry]:
    """The entries since the last message, without those that bring earlier ones up to date."""
    since = len(entries)
    while since and entries[since - 1].is_work:
        since -= 1
    newest = entries[since:]
    return [entry for entry in newest if not entry.node or entry.node >= newest[0].seq]


def summary_of(entries: Sequence[Entry]) -> Summary:
    """The line of folded work, in words."""
    agents = list(dict.fromkeys(entry.who for entry in entries if entry.who))
    calls = sum(entry.role == "call" for entry in entries)
    files = {path for entry in entries for path in entry.changed}
    checks = [entry.check for entry in entries if entry.check]
    took = (entries[-1].at - entries[0].at) / 1000 if entries else 0
    paid = sum(entry.paid for entry in entries)
    amounts = (
        count(calls, "call") if calls else "",
        count(len(files), "file") if files else "",
        *dict.fromkeys(checks[-2:]),
        duration(took) if took >= 1 else "",
        dollars(paid) if paid else "",
    )
    return Summary(
        who=_names(agents) or _what(entries),
        amounts=tuple(filter(None, amounts)),
        failed=sum(entry.result == "failed" and entry.role != "check" for entry in entries),
    )


def _what(entries: Sequence[Entry]) -> str:
    """What was done without an agent."""
    if any(entry.role == "model" for entry in entries):
        return "Orchestrator"
    return entries[0].head if entries else ""


def chosen(entries: Iterable[Entry], show: Show, words: str) -> list[Entry]:
    """The entries that a reader wants to see."""
    wanted = words.lower()
    return [entry for entry in entries if _is_shown(entry, show) and (not wanted or entry.has(wanted))]


def _is_shown(entry: Entry, show: Show) -> bool:
    match show:
        case "all":
            return True
        case "messages":
            return not entry.is_work
        case "failures":
            return entry.is_failure
        case "files":
            return bool(entry.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How a check of the project ended in this cycle, on the present files and before the work."""

    now: str
    before: str
    is_failure: bool


def checks_of(state: Conversation) -> list[Check]:
    """What the daemon has seen of the project's checks in this cycle."""
    phases = phases_of(state)
    base = phases.inspection.base if phases.inspection is not None else ""
    now = {result.name: result for result in phases.check_results if result.tree != base}
    before = {result.name: outcome_of(result) for result in phases.check_results if result.tree == base}
    return [
        Check(
            now=outcome_of(result),
            before=before.get(name, "").removeprefix(f"{name}: "),
            is_failure=result.has_run and not result.is_success,
        )
        for name, result in now.items()
    ]


def bar_of(took: int | None) -> float:
    """The width of the bar of a duration; 0 for one that is not known, or shorter than 0.1 s."""
    if took is None or took <= 100:
        return 0.0
    return round(BAR * min(1.0, log10(took / 100) / log10(LONGEST_BAR / 100)), 1)


def end_of_result(entry: Entry) -> str:
    """The end of what a failed call gave, or a failed check printed; "" for what has not failed."""
    if entry.result != "failed":
        return ""
    text = next((part.text for part in entry.parts if part.title in ("Result", "Failed", "Output")), "")
    return text if len(text) <= TAIL else f"… {text[-TAIL:]}"


def _names(agents: Sequence[str]) -> str:
    if len(agents) > NAMED:
        return f"{', '.join(agents[:NAMED])} and {count(len(agents) - NAMED, 'other')}"
    return " and ".join(filter(None, (", ".join(agents[:-1]), agents[-1]))) if agents else ""
