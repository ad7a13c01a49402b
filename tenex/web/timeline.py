"""Where the shapes of a conversation's timeline lie: phases as bands, agents as lanes, runs and calls as bars.

Everything is computed from `core.projection.Projection`, which holds the newest 100 to 199 turns; some of them can be
drawn alone. Time is drawn to scale while something works; a wait, however long, is a gap of one width. The axis below
has the times of the zone that this machine is in.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tenex.core.history.state import CallSummary
from tenex.core.ids import Millis
from tenex.core.messages import NO_USAGE
from tenex.core.projection import Projection
from tenex.core.text.amounts import dollars, duration
from tenex.core.text.state_words import state_word
from tenex.core.totals.costs import run_agent
from tenex.core.work.turn import OrchestratorTurn

LEAST_WIDTH: Final = 800
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
AXIS: Final = 20
"""Height of the axis."""
TICK: Final = 70
"""Least space from one time on the axis to the next."""
LABEL: Final = 52
"""Width of a time on the axis."""
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
"""Seconds between two times on the axis."""


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
class Tick:
    """A time on the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The shapes, in the order in which they are drawn."""

    width: float
    height: float
    axis: float
    """Where the axis is, from above."""
    ticks: tuple[Tick, ...]
    zone: str
    """In which the axis is."""
    lanes: tuple[Lane, ...]
    waits: tuple[Wait, ...]
    bars: tuple[Bar, ...]
    cost: str
    """The points of the line of the cost; empty where nothing has a price."""
    cost_label: str
    kinds: tuple[str, ...]
    """Of the bars of agents, for the legend."""
    left_out: int
    """Turns that are not drawn."""


class _Scale:
    """Time to width: work to scale, each wait as wide as any other."""

    def __init__(self, spans: Iterable[tuple[int, int]], room: int) -> None:
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
        wanted = LEFT + RIGHT + gaps + 6 * len(ordered) if room >= LEAST_WIDTH else room
        width = min(MOST_WIDTH, max(room, wanted))
        self._room = max(room / 3, width - LEFT - RIGHT - gaps) / total
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

    def ticks(self) -> Iterable[Tick]:
        """Times at even distances, and the beginning of what follows a wait."""
        step = next((step for step in STEPS if step * 1000 * self._room >= TICK), STEPS[-1]) * 1000
        form = "%H:%M:%S" if step < 60_000 else "%H:%M"
        free = 0.0
        day = ""
        for begin, end in self.parts:
            for at in (begin, *range(begin - begin % step + step, end, step)):
                x = self.x(at)
                if x < free or x + LABEL > self.width:
                    continue
                moment = _local(at)
                today = moment.strftime("%d %b ") if moment is not None else ""
                label = moment.strftime(form) if moment is not None else str(at)
                yield Tick(x=x, label=label if today == day or not day else f"{today}{label}")
                free = x + TICK + (30 if today != day and day else 0)
                day = today


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


def timeline_of(
    projection: Projection, *, turns: Collection[str] | None = None, width: int = LEAST_WIDTH
) -> Timeline | None:
    """The timeline of a conversation, or of some of its turns; None where no agent has worked in them.

    Below `LEAST_WIDTH` it keeps the width; else it is as wide as it needs to be.
    """
    works = [work for work in _works(projection) if turns is None or _turn_of(work.run) in turns]
    if not works:
        return None
    history = projection.history
    calls = [call for call in history.calls if turns is None or _turn_of(call.run) in turns]
    call_spans = [(max(0, call.at - (call.duration or 0)), int(call.at)) for call in calls]
    scale = _Scale([*(span for work in works for span in work.spans), *call_spans], width)
    lanes = _lanes([work.agent for work in works])
    bottom = max(lanes.values()) + LANE
    all_turns = [*history.turns, *filter(None, (projection.open_turn,))]
    drawn = [turn for turn in all_turns if turns is None or turn.turn_id in turns]
    cost, label = _cost(drawn, scale, bottom)
    bars = (*_bands(projection, scale), *_runs(projection, works, scale, lanes), *_calls(calls, scale, lanes))
    axis = bottom + (COST if cost else 6)
    return Timeline(
        width=round(scale.width, 1),
        height=axis + AXIS,
        axis=axis,
        ticks=tuple(scale.ticks()),
        zone=_zone(works[-1].end),
        lanes=tuple(Lane(name=_short(name), y=y + LANE * 0.7) for name, y in _shown(lanes)),
        waits=tuple(_waits(scale)),
        bars=bars,
        cost=cost,
        cost_label=label,
        kinds=tuple(dict.fromkeys(bar.kind for bar in bars if not bar.kind.startswith("phase"))),
        left_out=history.turns_before + len(all_turns) - len(drawn),
    )


def _turn_of(run: str) -> str:
    """The turn that a run belongs to: its id is `<turn id>.<slug>`, or `<turn id>/<seq>.<slug>`."""
    return run.partition(".")[0].partition("/")[0]


def _local(at: int) -> datetime | None:
    """A time in the zone of this machine; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def _zone(at: int) -> str:
    """The zone of this machine at a time, such as `CET, UTC+01:00`."""
    moment = _local(at)
    if moment is None:
        return ""
    name = moment.strftime("%Z")
    ahead = moment.strftime("%z")
    return name if name == "UTC" else f"{name}, UTC{ahead[:3]}:{ahead[3:5]}"


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
        turn = turns.get(_turn_of(work.run))
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


def _calls(calls: Iterable[CallSummary], scale: _Scale, lanes: dict[str, float]) -> Iterable[Bar]:
    kinds = {"ok": "call", "failed": "call-failed", "refused": "call-refused"}
    for call in calls:
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
            title=f"{run_agent(call.run)} · {call.tool}, {_span(call.duration)}{call.outcome}: {call.result}"[:200],
            seq=call.seq,
        )


def _span(took: int | None) -> str:
    return f"{duration(took / 1000)}, " if took is not None and took >= 1000 else ""


def _waits(scale: _Scale) -> Iterable[Wait]:
    for (_, before), (after, _) in zip(scale.parts, scale.parts[1:], strict=False):
        yield Wait(x=scale.x(before), width=GAP, title=f"a wait of {duration((after - before) / 1000)}")


def _cost(turns: Iterable[OrchestratorTurn], scale: _Scale, top: float) -> tuple[str, str]:
    """The points of the sum of the turns' costs, and the last sum in words."""
    sums: list[tuple[Millis, float]] = []
    spent = 0.0
    for turn in turns:
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
