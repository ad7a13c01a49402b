"""The graph of a conversation's kind as shapes: its nodes in a column, and the ways between them as arcs beside it.

Ways forward are on the right, ways back on the left; the longer a way, the wider its arc. So any graph is drawn in the
width of a phone. The graph is that of the phases, or of the speakers' rules as they were recorded; a mission's is in
its code, which a page does not run, so of a mission only what was taken is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError
from tenex.core.graph import END
from tenex.core.history.state import History
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.text.amounts import count
from tenex.workflows.missions.state import Mission, mission_of
from tenex.workflows.speakers.rules import SpeakerRules
from tenex.workflows.speakers.state import WorkflowSession, session_of

Ways = Mapping[tuple[str, str], int]
"""How often it was gone from one node to another."""

ROW: Final = 46
"""Height of a node with the space below it."""
NODE_WIDTH: Final = 136
NODE_HEIGHT: Final = 28
NARROWEST: Final = 26
"""How far the arc to the next node goes to the side."""
PER_ROW: Final = 17
"""How much further for each node that it passes."""
WIDEST: Final = 150
PORT: Final = 6
"""Above and below the middle of a node arcs arrive and leave."""
EDGE: Final = 14
"""Free at the sides, for the numbers."""
MOST_NODES: Final = 40
NAME_CHARACTERS: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, as a rectangle with its name."""

    name: str
    label: str
    y: float
    """Of its middle."""
    state: str
    """The class of its style: here, been, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way from one node to another, as an arc with its tip."""

    arc: str
    tip: str
    times: int
    x: float
    y: float
    """Where the number is written."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """The shapes, and the same in words."""

    title: str
    width: float
    height: float
    left: float
    """Where the nodes begin."""
    node_width: int = NODE_WIDTH
    node_height: int = NODE_HEIGHT
    nodes: tuple[Node, ...]
    ways: tuple[Way, ...]
    here: str
    taken: tuple[str, ...]
    """The ways that were taken, in words."""


def map_of(state: Conversation, ways: Ways) -> Map | None:
    """The graph of a conversation's kind; None for a kind that has none, or one with too many nodes.

    `ways` are those that a mission or a workflow has taken; those between phases are in the state.
    """
    session = session_of(state)
    mission = mission_of(state)
    if session is not None:
        return _of_speakers(session, ways)
    if mission is not None and (mission.is_open or mission.is_alone):
        return _of_mission(mission, ways)
    return _of_phases(state) if state.has_phases else None


def _of_phases(state: Conversation) -> Map | None:
    taken: dict[tuple[str, str], int] = {}
    for move in (state.history or History()).transitions:
        way = (str(move.from_), str(move.to))
        taken[way] = taken.get(way, 0) + 1
    nodes = list(map(str, Phase))
    possible = [(node, str(target)) for node in nodes for target in PHASE_TRANSITIONS.permitted(node)]
    return _drawn("The phases", nodes, possible, taken, str(state.cycle.phase))


def _of_speakers(session: WorkflowSession, ways: Ways) -> Map | None:
    nodes = [*session.speakers.participant_order, END]
    possible: list[tuple[str, str]] = []
    with suppress(ConfigurationError, TypeError, ValueError, LookupError):  # conditions of the operator's own code
        graph = SpeakerRules.from_dict(session.speakers.graph_data).compile(session.speakers.participant_order)
        possible = [
            (node, edge.target)
            for node in graph.nodes
            for edge in graph.outgoing(node)
            if isinstance(edge.target, str) and edge.source is not None
        ]
    here = END if session.is_closed else str(session.expected or session.speakers.last_speaker_id or "")
    return _drawn(f"The workflow {session.name}", nodes, possible, ways, here)


def _of_mission(mission: Mission, ways: Ways) -> Map | None:
    entered = [node for way in ways for node in way if node != END]
    nodes = list(dict.fromkeys([*entered, mission.node]))
    here = mission.node if mission.is_open else END
    return _drawn(f"The mission {mission.workflow}", [*nodes, END], [], ways, here)


def _drawn(title: str, nodes: Sequence[str], possible: Iterable[tuple[str, str]], taken: Ways, here: str) -> Map | None:
    places = {node: place for place, node in enumerate(nodes)}
    if not 1 < len(places) <= MOST_NODES:
        return None
    pairs = [way for way in dict.fromkeys([*possible, *taken]) if way[0] in places and way[1] in places]
    rights = [_bow(places[target] - places[source]) for source, target in pairs if places[target] >= places[source]]
    lefts = [_bow(places[source] - places[target]) for source, target in pairs if places[target] < places[source]]
    left = EDGE + 0.75 * max(lefts, default=0.0)
    right = EDGE + 0.75 * max(rights, default=0.0)
    visited = {node for way in taken for node in way}
    return Map(
        title=title,
        width=round(left + NODE_WIDTH + right, 1),
        height=ROW * len(places),
        left=round(left, 1),
        nodes=tuple(
            Node(
                name=node,
                label=node if len(node) <= NAME_CHARACTERS else f"{node[: NAME_CHARACTERS - 1]}…",
                y=_middle(place),
                state="here" if node == here else "been" if node in visited else "never",
            )
            for node, place in places.items()
        ),
        # what was taken is drawn above what was not
        ways=tuple(
            _way(source, target, places, left, taken.get((source, target), 0))
            for source, target in sorted(pairs, key=lambda way: taken.get(way, 0))
        ),
        here=here,
        taken=tuple(f"{source} → {target} {count(taken[source, target], 'time')}" for source, target in taken),
    )


def _way(source: str, target: str, places: Mapping[str, int], left: float, times: int) -> Way:
    is_back = places[target] < places[source]
    side = left if is_back else left + NODE_WIDTH
    sign = -1 if is_back else 1
    begin = _middle(places[source]) + sign * PORT
    end = _middle(places[target]) - sign * PORT
    reach = side + sign * _bow(abs(places[target] - places[source]))
    return Way(
        arc=f"M{side:g} {begin:g}C{reach:g} {begin:g} {reach:g} {end:g} {side:g} {end:g}",
        tip=f"M{side:g} {end:g}l{sign * 7} -4v8z",
        times=times,
        x=round(side + sign * (0.75 * (abs(reach - side)) + 2), 1),
        y=round((begin + end) / 2 + 4, 1),
        title=f"{source} → {target}, {'taken ' + count(times, 'time') if times else 'not taken'}",
    )


def _middle(place: int) -> float:
    return ROW * place + ROW / 2


def _bow(rows: int) -> float:
    return min(WIDEST, NARROWEST + PER_ROW * max(0, rows - 1))
