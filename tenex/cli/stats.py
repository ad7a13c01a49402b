"""`tenex conversations stats`: the figures of one conversation, or the totals of all."""

from collections.abc import Iterator

from tenex import __version__
from tenex.core.errors import StoreDamaged, UsageError
from tenex.core.ids import ConversationId
from tenex.core.kind import all_kinds
from tenex.core.phases import Phase
from tenex.core.text.amounts import count, duration
from tenex.store.conversations import Conversations
from tenex.store.record_log import Head
from tenex.store.stats import Spending, Stats, as_json, dearest_first, total
from tenex.store.stats_cache import StatsCache

from .shared import output
from .shared.lookup import AllIdArgument, find
from .shared.options import Globals


async def stats(given: Globals, folder: Conversations, id: AllIdArgument = "") -> None:  # noqa: A002
    """Add up time, turns, tokens and costs of one conversation or of all, by phase, model and agent."""
    one = await find(folder, id) if id else None
    cache = StatsCache(folder, __version__)
    await cache.load()
    heads = await folder.heads()
    if one is not None:
        figures, missing = await cache.stats(one, heads.get(one, Head(0, 0)))
        if missing:
            output.message(f"tenex: incomplete: {missing}")
        await cache.save(heads)
        given.show({"id": one, **as_json(figures)}, f"{one}\n{as_text(figures)}")
        return
    each: dict[ConversationId, Stats] = {}
    unreadable = await folder.quarantined()
    incomplete = dict[ConversationId, str]()
    for name in output.progress(sorted(heads)):
        if name not in unreadable:
            try:
                each[name], missing = await cache.stats(name, heads[name])
                incomplete.update({name: missing} if missing else {})
            except (StoreDamaged, UsageError) as error:
                unreadable[name] = str(error)
    await cache.save(heads)
    for name, why in sorted(unreadable.items()):
        output.message(f"tenex: skipped {name[:12]}: {why}")
    for name, why in sorted(incomplete.items()):
        output.message(f"tenex: {name[:12]} is incomplete: {why}")
    sums = total(each.values())
    rows = [{"id": name, **as_json(figures)} for name, figures in each.items()]
    found = {
        "total": as_json(sums),
        "conversations": [{key: row[key] for key in ("id", "cycles", "turns", "workingMs", "usage")} for row in rows],
        "leftOut": [{"id": name, "fault": why} for name, why in sorted(unreadable.items())],
        "inPart": [{"id": name, "fault": why} for name, why in sorted(incomplete.items())],
    }
    none = f"There are no {'readable ' if unreadable else ''}conversations in {folder.place}."
    given.show(found, as_text(sums) if each else "", "" if each else none)


def as_text(stats: Stats) -> str:
    """Figures as tables."""
    order = list(map(str, Phase))
    names = sorted(stats.places, key=lambda name: (order.index(name) if name in order else len(order), name))
    places = [(name, stats.places[name]) for name in names]
    phases = [
        (name, str(p.visits), str(p.turns), _duration(p.working), _duration(p.duration), *_figures(p.spending))
        for name, p in places
    ]
    spent = ("calls", "in", "cached", "out", "cost")
    tables = [output.table(("phase", "visits", "turns", "at work", "in all", *spent), phases)] if phases else []
    for head, spendings in (("model", stats.models), ("agent", stats.agents)):
        if spendings:
            rows = [(name, *_figures(spending)) for name, spending in dearest_first(spendings)]
            tables.append(output.table((head, *spent), rows))
    return "\n\n".join(["\n".join(_totals(stats)), *tables])


def _totals(stats: Stats) -> Iterator[str]:
    usage = stats.usage
    cycles = f"{count(stats.cycles, 'cycle')} ({stats.ended} ended)"
    turns = f"{count(stats.turns, 'turn')}, {count(stats.messages, 'message')}"
    yield f"{count(stats.conversations, 'conversation')}, {cycles}, {turns}"
    yield f"{_duration(stats.working)} at work in {_duration(stats.duration)}"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    yield f"{count(usage.calls, 'model call')}, {tokens}, {_cost(stats.spending)}"
    if usage.estimated:
        yield f"  of them {count(usage.estimated, 'token')} estimated, because the server did not report them"
    if usage.cache_read_tokens or usage.cache_write_tokens:
        yield f"  prompt cache: {usage.cache_read_tokens:,} of the tokens in read, {usage.cache_write_tokens:,} written"
    refused = f"{count(stats.rejections, 'routing answer')} refused, {count(stats.useless, 'useless answer')}"
    yield f"  of them {refused}; {count(stats.failures, 'failed try', 'failed tries')}"
    yield f"{count(stats.tool_calls, 'tool call')}, {stats.tool_failures} failed, {stats.tool_refusals} refused"
    for kind in all_kinds():
        if kind.name in stats.kinds:
            yield kind.counts_in_words(stats.kinds[kind.name])
    if stats.restarts:
        yield f"{count(stats.restarts, 'restart')} in the middle of work"


def _figures(spending: Spending) -> tuple[str, ...]:
    usage = spending.usage
    tokens = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    return (f"{usage.calls:,}", *(f"{number:,}" for number in tokens), _cost(spending))


def _cost(spending: Spending) -> str:
    cost = spending.usage.cost_usd
    if cost is None:
        return "price unknown" if spending.unpriced else "-"
    text = f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"
    return f"{text} + {spending.unpriced} unpriced" if spending.unpriced else text


def _duration(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms / 1000)
