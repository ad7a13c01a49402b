"""The graph of a conversation: what is drawn is what the table permits and the journal holds."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tenex.core.graph import END
from tenex.core.ids import ConversationId
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.records import PhaseTransition
from tenex.core.text.amounts import count
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tenex.web import maps
from tenex.web.maps import Map, map_of
from tenex.web.story import Story
from tenex.workflows.missions import records as m
from tenex.workflows.speakers import records as w
from tests.cli.journals import ONE
from tests.histories.record import ROOT
from tests.kits.lived import lived

from .kit import Served

HISTORIES = sorted(path.parent for path in ROOT.glob("*/journal.jsonl"))


def drawn_of(records: Any, name: Any = ONE) -> tuple[Map | None, Story]:
    story = Story(name)
    for record in records:
        story.take(record)
    return map_of(story.state, story.ways), story


def check(drawn: Map) -> None:
    """Everything is within the drawing, and no two names lie on one another."""
    for node in drawn.nodes:
        assert drawn.node_height / 2 <= node.y <= drawn.height - drawn.node_height / 2
    assert drawn.left + drawn.node_width <= drawn.width
    for before, after in itertools.pairwise(drawn.nodes):
        assert after.y - before.y >= drawn.node_height
    for way in drawn.ways:
        assert 0 <= way.x <= drawn.width
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", way.arc)]
        side, reach = numbers[0], numbers[2]
        assert 0 <= side + 0.75 * (reach - side) <= drawn.width, "the apex of the arc"


def test_the_phases_are_drawn_with_the_ways_that_were_taken() -> None:
    records = lived(0).records()
    drawn, story = drawn_of(records, lived(0).conversation.id)
    assert drawn is not None
    check(drawn)
    assert [node.name for node in drawn.nodes] == list(Phase)
    moves = [(str(record.from_), str(record.to)) for record in records if isinstance(record, PhaseTransition)]
    titles = {way.title: way.times for way in drawn.ways}
    for source, target in set(moves):
        assert titles[f"{source} → {target}, taken {count(moves.count((source, target)), 'time')}"]
    assert len(drawn.ways) == sum(len(PHASE_TRANSITIONS.permitted(phase)) for phase in Phase)
    assert [node.name for node in drawn.nodes if node.state == "here"] == [str(story.state.cycle.phase)]
    assert drawn.width <= 366, "it fits on a phone"


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
def test_every_recorded_history_can_be_drawn(history: Path) -> None:
    records = peek(history / "journal.jsonl", CONVERSATION)
    name = ConversationId(getattr(records[0], "id", history.name))
    drawn, story = drawn_of(records, name)
    if drawn is None:
        assert not story.state.has_phases
        return
    check(drawn)
    assert len([node for node in drawn.nodes if node.state == "here"]) == 1
    rounds = [record for record in records if isinstance(record, w.RoundClosed)]
    nodes = [record for record in records if isinstance(record, m.NodeCompleted)]
    if drawn.title != "The phases" and (rounds or nodes):
        assert END in [node.name for node in drawn.nodes]
        assert sum(way.times for way in drawn.ways) == len(rounds) + len(nodes)


def test_histories_hold_every_kind_of_graph() -> None:
    titles = set()
    for history in HISTORIES:
        records = peek(history / "journal.jsonl", CONVERSATION)
        drawn, _ = drawn_of(records, ConversationId(getattr(records[0], "id", history.name)))
        titles.add(drawn.title.split()[1] if drawn is not None else "")
    assert titles >= {"phases", "workflow", "mission"}


def test_what_has_too_many_nodes_is_not_drawn() -> None:
    assert maps._drawn("Many", [str(number) for number in range(maps.MOST_NODES + 1)], [], {}, "") is None
    assert maps._drawn("One", ["a"], [], {}, "a") is None


async def test_the_page_has_the_graph_and_the_same_in_words(pages: Served) -> None:
    page = await pages.get(f"/c/{ONE}/time")
    (drawing,) = page.of_class("map")
    assert "execute" in drawing.text
    (place,) = page.all("div", id="map")
    assert "Now:" in place.text
    assert "→" in place.text
