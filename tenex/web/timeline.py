"""Where the shapes of a conversation's timeline lie: phases as bands, agents as lanes, runs and calls as bars.

Everything is computed from `core.projection.Projection`, which holds the newest 100 to 199 turns. Time is drawn to
scale while something works; a wait, however long, is a gap of one width.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.ids import Millis
from tenex.core.messages import NO_USAGE
from tenex.core.projection import Projection
from tenex.core.text.amounts import dollars, duration
from tenex.core.text.state_words import state_word
from tenex.core.totals.costs import run_agent

LEAST_WIDTH: Final = 900
MOST_WIDTH: Final = 6_000
LEFT: Final = 110
"""Where the lanes begin, after the names."""
RIGHT: Final = 10
BAND: Final = 18
"""Height of the band of phases."""
LANE: Final = 20
"""Height of an agent's lane."""
COST: Final = 44
"""Height of the line of the cost."""
GAP: Final = 14
"""Width of a wait."""
LEAST_WAIT: Final = 20_000
"""ms without work that are drawn as a wait at least; in longer stories a twentieth of the work."""
LEAST_BAR: Final = 2.0
MOST_LANES: Final = 14
OTHERS: Final = "others"
NAME_CHARACTERS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle: what it is drawn as, where it leads, and its words."""

    kind: str
    """The class of its style: phase-chat, run, run-failed, call, call-failed, call-refused, refusal."""
    x: float
    y: float
    width: float
    height: float
    title: str
    seq: int = 0
    """The entry of the story that it leads to; 0 for none."""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A gap, where nothing worked."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The name of a lane, and where it is written."""

    name: str
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The shapes, in the order in which they are drawn."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    waits: tuple[Wait, ...]
    bars: tuple[Bar, ...]
    cost: str
    """The points of the line of the cost; empty where nothing has a price."""
    cost_label: str
    left_out: int
    """Turns before those that are drawn."""


class _Scale:
    """Time to width: work to scale, each wait as wide as any other."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        merged: list[list[int]] = []
        ordered = sorted((min(span), max(span)) for span in spans)
        work = sum(end - begin for begin, end in ordered)
        least = max(LEAST_WAIT, work // 20)
        for begin, end in ordered:
            if merged and begin - merged[-1][1] < least:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self.parts = [(begin, end) for begin, end in merged]
        total = max(1, sum(end - begin for begin, end in self.parts))
        gaps = GAP * max(0, len(self.parts) - 1)
        wanted = LEAST_WIDTH + gaps + 6 * len(ordered)
        width = min(MOST_WIDTH, max(LEAST_WIDTH, wanted))
        self._room = max(LEAST_WIDTH / 2, width - LEFT - RIGHT - gaps) / total
        self.width = LEFT + RIGHT + gaps + self._room * total
        self._starts: list[float] = []
        at: float = LEFT
        for begin, end in self.parts:
            self._starts.append(at)
            at += (end - begin) * self._room + GAP

    def x(self, at: int) -> float:
        """Where a time is; one within a wait is at its beginning."""
        place = bisect_right(self.parts, (at, 2**63)) - 1
        if place < 0:
            return float(LEFT)
        begin, end = self.parts[place]
        return round(self._starts[place] + (min(at, end) - begin) * self._room, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A run, open or over."""

    run: str
    agent: str
    begin: int
    end: int
    kind: str
    words: str
    working: int
    """ms of work: the rest waited for a user, a sub-agent or a busy provider."""

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The times that are drawn to scale: where it waited for long, its work, and its end."""
        if self.end - self.begin - self.working < LEAST_WAIT:
            return ((self.begin, self.end),)
        return ((self.begin, self.begin + self.working), (self.end, self.end))


def timeline_of(projection: Projection) -> Timeline | None:
    """The timeline of a conversation; None where no agent has worked."""
    works = list(_works(projection))
    if not works:
        return None
    history = projection.history
    calls = [(max(0, call.at - (call.duration or 0)), int(call.at)) for call in history.calls]
    scale = _Scale([*(span for work in works for span in work.spans), *calls])
    lanes = _lanes([work.agent for work in works])
    bottom = max(lanes.values()) + LANE
    cost, label = _cost(projection, scale, bottom)
    bars = (*_bands(projection, scale), *_runs(projection, works, scale, lanes), *_calls(projection, scale, lanes))
    return Timeline(
        width=round(scale.width, 1),
        height=bottom + (COST if cost else 6),
        lanes=tuple(Lane(name=_short(name), y=y + LANE * 0.7) for name, y in _shown(lanes)),
        waits=tuple(_waits(scale)),
        bars=bars,
        cost=cost,
        cost_label=label,
        left_out=history.turns_before,
    )


def _works(projection: Projection) -> Iterable[_Work]:
    for run in projection.history.runs:
        is_good = run.outcome == "finished"
        ended = "" if is_good else f", {run.outcome.replace('_', ' ')}"
        yield _Work(
            run=run.run,
            agent=run.agent,
            begin=run.started or run.ended,
            end=run.ended,
            kind="run" if is_good else "run-failed",
            words=f"{run.agent}, {duration(run.working / 1000)} at work{ended}",
            working=run.working,
        )
    for open_run in projection.activity.runs:
        end = max(open_run.began, projection.glance.updated_at)
        words = f"{open_run.agent}, now: {state_word(open_run.state)}"
        is_waiting = open_run.state in ("parked", "calling", "held", "limited")
        yield _Work(
            run=open_run.id,
            agent=open_run.agent,
            begin=open_run.began,
            end=end,
            kind="run-open",
            words=words,
            working=(open_run.since if is_waiting else end) - open_run.began,
        )


def _lanes(agents: Iterable[str]) -> dict[str, float]:
    """The top of each agent's lane, in the order in which they began."""
    lanes: dict[str, float] = {}
    for agent in agents:
        if agent not in lanes:
            lanes[agent] = BAND + 6 + LANE * min(len(lanes), MOST_LANES)
    return lanes


def _shown(lanes: dict[str, float]) -> Iterable[tuple[str, float]]:
    """One name for each lane."""
    names: dict[float, str] = {}
    for name, y in lanes.items():
        names[y] = OTHERS if y in names else name
    return ((name, y) for y, name in names.items())


def _bands(projection: Projection, scale: _Scale) -> Iterable[Bar]:
    """The phases; none in a conversation without them."""
    if projection.phases.phase is None:
        return
    begin = scale.parts[0][0]
    end = scale.parts[-1][1]
    moves = projection.history.transitions
    first = moves[0].from_ if moves else projection.phases.phase
    stays: list[tuple[int, str, str, int]] = [(begin, first, "", 0)]
    stays.extend((max(begin, int(move.at)), move.to, move.reason, move.seq) for move in moves)
    for place, (since, phase, reason, seq) in enumerate(stays):
        until = stays[place + 1][0] if place + 1 < len(stays) else end
        x = scale.x(since)
        width = scale.x(until) - x
        if width <= 0:
            continue
        yield Bar(
            kind=f"phase-{phase}",
            x=x,
            y=0,
            width=round(width, 1),
            height=BAND,
            title=f"{phase}: {reason}" if reason else str(phase),
            seq=seq,
            label=str(phase) if width > 9 * len(phase) else "",
        )


def _runs(projection: Projection, works: Sequence[_Work], scale: _Scale, lanes: dict[str, float]) -> Iterable[Bar]:
    turns = {str(turn.turn_id): turn for turn in projection.history.turns}
    if projection.open_turn is not None:
        turns[str(projection.open_turn.turn_id)] = projection.open_turn
    for work in works:
        turn = turns.get(work.run.partition(".")[0].partition("/")[0])
        x = scale.x(work.begin)
        spent = dollars(sum(turn.models.values(), NO_USAGE).cost_usd) if turn is not None else ""
        why = f"{turn.turn_id}: {turn.reason}" if turn is not None else ""
        title = "; ".join(filter(None, (work.words, why, spent)))
        yield Bar(
            kind=work.kind,
            x=x,
            y=lanes[work.agent] + 2,
            width=round(max(LEAST_BAR, scale.x(work.end) - x), 1),
            height=LANE - 4,
            title=title,
            seq=turn.seq if turn is not None else 0,
        )


def _calls(projection: Projection, scale: _Scale, lanes: dict[str, float]) -> Iterable[Bar]:
    kinds = {"ok": "call", "failed": "call-failed", "refused": "call-refused"}
    for call in projection.history.calls:
        y = lanes.get(run_agent(call.run))
        if y is None:
            continue
        x = scale.x(call.at - (call.duration or 0))
        yield Bar(
            kind=kinds[call.outcome],
            x=x,
            y=y + 6,
            width=round(max(LEAST_BAR, scale.x(call.at) - x), 1),
            height=LANE - 12,
            title=f"{call.tool}, {call.outcome}: {call.result}"[:200],
            seq=call.seq,
        )


def _waits(scale: _Scale) -> Iterable[Wait]:
    for (_, before), (after, _) in zip(scale.parts, scale.parts[1:], strict=False):
        yield Wait(x=scale.x(before), width=GAP, title=f"a wait of {duration((after - before) / 1000)}")


def _cost(projection: Projection, scale: _Scale, top: float) -> tuple[str, str]:
    """The points of the sum of the turns' costs, and the last sum in words."""
    sums: list[tuple[Millis, float]] = []
    spent = 0.0
    for turn in projection.history.turns:
        spent += sum(turn.models.values(), NO_USAGE).cost_usd or 0.0
        at = max((done.at for done in turn.completions), default=turn.timestamp)
        sums.append((at, spent))
    if not spent:
        return "", ""
    height = COST - 14
    points = [(float(LEFT), top + height)]
    for at, cost in sums:
        points.append((scale.x(at), points[-1][1]))
        points.append((scale.x(at), round(top + height - height * 0.9 * cost / spent, 1)))
    return " ".join(f"{x:g},{y:g}" for x, y in points), dollars(spent)


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"
