"""What `tenex conversations stats` prints: the figures of one conversation, or of all of them together."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenex.core.errors import StoreDamaged, UsageError
from tenex.core.ids import ConversationId
from tenex.core.phases import Phase

from . import output
from .progress import shown

if TYPE_CHECKING:
    from tenex.store.repository import ConversationFolder
    from tenex.store.stats import Spending, Stats


@dataclass(slots=True)
class Found:
    """What was read: each conversation's figures in the order of their ids, and what could not be read."""

    each: "dict[ConversationId, Stats]" = field(default_factory=dict)
    left_out: dict[ConversationId, str] = field(default_factory=dict)
    """Id -> why."""
    in_part: dict[ConversationId, str] = field(default_factory=dict)
    """Id -> what is missing of a conversation whose figures are those of the rest."""


async def gather(folder: "ConversationFolder") -> Found:
    """Read every journal; beside a running daemon each is read as it stands at that moment."""
    from tenex.store.stats import Stats

    found = Found(left_out=await folder.quarantined())
    for name in shown(sorted(await folder.lengths())):
        if name in found.left_out:
            continue
        try:
            records, gone = await folder.read_left(name)
            found.each[name] = Stats.of(name, records)
            if gone:
                found.in_part[name] = gone
        except (StoreDamaged, UsageError) as fault:
            found.left_out[name] = str(fault)
    return found


def all_as_json(found: Found) -> dict[str, Any]:
    """The sums, the short of each conversation, and what was left out."""
    from tenex.store.stats import as_json, total

    each = []
    for name, stats in found.each.items():
        told = as_json(stats)
        each.append({"id": name, **{key: told[key] for key in ("cycles", "turns", "workingMs", "usage")}})
    left_out = [{"id": name, "fault": fault} for name, fault in sorted(found.left_out.items())]
    in_part = [{"id": name, "fault": fault} for name, fault in sorted(found.in_part.items())]
    sums = as_json(total(found.each.values()))
    return {"total": sums, "conversations": each, "leftOut": left_out, "inPart": in_part}


def as_text(stats: "Stats") -> str:
    """Figures for a person."""
    from tenex.store.stats import dearest_first

    phases = [
        (phase, str(p.visits), str(p.turns), _span(p.working), _span(p.duration), *_figures(p.spending))
        for phase in Phase
        if (p := stats.phases.get(phase)) is not None
    ]
    spent = ("calls", "in", "out", "cost")
    tables = [output.table(("phase", "visits", "turns", "at work", "in all", *spent), phases)] if phases else []
    for head, spendings in (("model", stats.models), ("agent", stats.agents)):
        if spendings:
            rows = [(name, *_figures(spending)) for name, spending in dearest_first(spendings)]
            tables.append(output.table((head, *spent), rows))
    return "\n\n".join(["\n".join(_short(stats)), *tables])


def _short(stats: "Stats") -> Iterator[str]:
    """The sums, a line for each kind."""
    usage = stats.usage
    cycles = f"{_count(stats.cycles, 'cycle')} ({stats.ended} ended)"
    turns = f"{_count(stats.turns, 'turn')}, {_count(stats.messages, 'message')}"
    yield f"{_count(stats.conversations, 'conversation')}, {cycles}, {turns}"
    yield f"{_span(stats.working)} at work in {_span(stats.duration)}"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    yield f"{_count(usage.calls, 'model call')}, {tokens}, {_cost(stats.spending)}"
    if usage.estimated:
        yield f"  of them {_count(usage.estimated, 'token')} estimated, because the server did not report them"
    refused = f"{_count(stats.rejections, 'routing answer')} refused, {_count(stats.useless, 'useless answer')}"
    yield f"  of them {refused}; {_count(stats.failures, 'failed try', 'failed tries')}"
    yield f"{_count(stats.tool_calls, 'tool call')}, {stats.tool_failures} failed, {stats.tool_refusals} refused"
    if stats.nodes:
        nodes, steps = _count(stats.nodes, "node"), _count(stats.steps, "step")
        yield f"{nodes} of missions entered, {steps}, {stats.step_failures} failed"
    if stats.restarts:
        yield f"{_count(stats.restarts, 'restart')} in the middle of work"


def _count(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def _figures(spending: "Spending") -> tuple[str, str, str, str]:
    usage = spending.usage
    return (f"{usage.calls:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}", _cost(spending))


def _cost(spending: "Spending") -> str:
    cost = spending.usage.cost_usd
    if cost is None:
        return "price unknown" if spending.unpriced else "-"
    told = f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"
    return f"{told} + {spending.unpriced} unpriced" if spending.unpriced else told


def _span(ms: int) -> str:
    """A duration, in the two units that say most of it."""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
