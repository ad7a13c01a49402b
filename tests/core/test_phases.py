"""The seven phases: the table of the design, typed out once more, and what each phase lets tools do."""

from itertools import pairwise

import pytest

from tenex.core.graph import END
from tenex.core.phases import PHASE_ACCESS, PHASE_TRANSITIONS, QUALITY_PHASES, Access, Phase, way
from tenex.operations.transcript import ICONS
from tenex.workflows.phases.waivers import RISK

TABLE = {
    "chat": {"execute", "plan", "brainstorm"},
    "brainstorm": {"chat", "plan", "execute"},
    "plan": {"execute"},
    "execute": {"verification", "chat"},
    "verification": {"chores", "execute", "chat"},
    "chores": {"reflection"},
    "reflection": {"chat"},
}


def test_every_phase_has_its_icon_and_every_gate_its_risk() -> None:
    assert set(ICONS) == set(Phase)
    assert set(RISK) == set(QUALITY_PHASES)


def test_the_phases_are_the_seven() -> None:
    assert {str(phase) for phase in Phase} == set(TABLE)
    assert set(PHASE_TRANSITIONS.nodes) == set(Phase)
    assert PHASE_TRANSITIONS.initial is Phase.CHAT


@pytest.mark.parametrize("source", TABLE)
@pytest.mark.parametrize("target", TABLE)
def test_the_table_permits_exactly_its_edges(source: str, target: str) -> None:
    assert PHASE_TRANSITIONS.permits(source, target) is (target in TABLE[source])


@pytest.mark.parametrize("source", TABLE)
def test_permitted_lists_the_row(source: str) -> None:
    assert set(PHASE_TRANSITIONS.permitted(source)) == TABLE[source]
    assert PHASE_TRANSITIONS.permits(source, END), "the gates, not the table, decide about END"


@pytest.mark.parametrize("source", Phase)
@pytest.mark.parametrize("target", Phase)
def test_there_is_a_permitted_way_from_each_phase_to_each(source: Phase, target: Phase) -> None:
    found = way(source, target)
    assert all(there in TABLE[here] for here, there in pairwise((source, *found)))
    assert (found[-1:] or (source,)) == (target,)
    assert len({source, *found}) == 1 + len(found), "no phase twice"


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        ("chat", "chat", 0),
        ("chat", "plan", 1),
        ("plan", "verification", 2),
        ("plan", "brainstorm", 3),
        ("chores", "plan", 3),
    ],
)
def test_the_way_is_a_shortest_one(source: str, target: str, steps: int) -> None:
    assert len(way(Phase(source), Phase(target))) == steps


def test_the_table_has_no_faults() -> None:
    assert PHASE_TRANSITIONS.faults() == ()


def test_a_refused_transition_names_what_is_permitted() -> None:
    sentence = PHASE_TRANSITIONS.check(Phase.PLAN, Phase.CHAT)
    assert sentence is not None
    assert "plan cannot be followed by chat" in sentence
    assert "execute" in sentence
    assert PHASE_TRANSITIONS.check(Phase.PLAN, Phase.EXECUTE) is None


@pytest.mark.parametrize("word", ["EXECUTE", " execute ", "Execute", "execute"])
def test_a_phase_is_read_in_any_case(word: str) -> None:
    assert Phase.parse(word) is Phase.EXECUTE


@pytest.mark.parametrize("word", ["", "executed", "END", "chat,plan", "０", "\0", "\ud800"])
def test_no_phase_is_none(word: str) -> None:
    assert Phase.parse(word) is None


@pytest.mark.parametrize(
    ("phase", "allowed"),
    [
        (Phase.CHAT, {"speak"}),
        (Phase.BRAINSTORM, {"speak", "read"}),
        (Phase.PLAN, {"speak", "read"}),
        (Phase.EXECUTE, {"speak", "read", "change", "run"}),
        (Phase.VERIFICATION, {"speak", "read", "run"}),
        (Phase.CHORES, {"speak", "read", "change", "run"}),
        (Phase.REFLECTION, {"speak", "learn"}),
    ],
)
def test_each_phase_permits_these_kinds_of_tools(phase: Phase, allowed: set[str]) -> None:
    assert PHASE_ACCESS[phase] == {Access(word) for word in allowed}


def test_the_gates_follow_one_another_in_the_table() -> None:
    way = [Phase.EXECUTE, *QUALITY_PHASES]
    assert all(PHASE_TRANSITIONS.permits(one, next_) for one, next_ in pairwise(way))


def test_the_table_is_read_like_the_mapping_it_is() -> None:
    """`PHASE_TRANSITIONS[phase]` is what may follow; all seven are there, and no other."""
    assert PHASE_TRANSITIONS[Phase.CHAT] == (Phase.EXECUTE, Phase.PLAN, Phase.BRAINSTORM)
    assert PHASE_TRANSITIONS["chores"] == (Phase.REFLECTION,)
    assert dict(PHASE_TRANSITIONS) == {phase: PHASE_TRANSITIONS.permitted(phase) for phase in Phase}
    with pytest.raises(KeyError, match="shipping"):
        PHASE_TRANSITIONS["shipping"]
