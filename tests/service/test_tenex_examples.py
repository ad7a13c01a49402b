"""The declarations of TENEX's document on phases, held against a conversation over a relay."""

from typing import Any, ClassVar, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from tenex.core import records as r
from tenex.core.phases import PHASE_TRANSITIONS, Phase

from .conftest import Finished
from .kit import of_kind


class Declared:
    """What the document declares, in our words."""

    transitions: ClassVar = {
        Phase.CHAT: ["execute", "plan", "brainstorm"],
        Phase.BRAINSTORM: ["chat", "plan", "execute"],
        Phase.PLAN: ["execute"],
        Phase.EXECUTE: ["verification", "chat"],
        Phase.VERIFICATION: ["chores", "execute", "chat"],
        Phase.CHORES: ["reflection"],
        Phase.REFLECTION: ["chat"],
    }

    PhaseTransition = TypedDict(
        "PhaseTransition",
        {
            "from": Phase,
            "to": Phase,
            "message": str,
            "timestamp": int,
            "agentPubkey": str,
            "agentName": str,
            "reason": NotRequired[str],
            "summary": NotRequired[str],
        },
    )

    class RoutingDecision(TypedDict):
        agents: list[str]
        phase: NotRequired[Phase]
        reason: str

    class Conversation(TypedDict):
        phase: Phase
        phaseStartedAt: NotRequired[int]
        phaseTransitions: list[dict[str, Any]]
        orchestratorTurns: list[dict[str, Any]]


def test_the_table_is_the_one_that_conversations_go_by() -> None:
    assert {phase: list(PHASE_TRANSITIONS.permitted(phase)) for phase in Phase} == Declared.transitions


def test_the_file_of_a_conversation_reads_as_declared(finished: Finished) -> None:
    view = finished.folder.view(finished.name)
    TypeAdapter(Declared.Conversation).validate_python(view)
    moves = TypeAdapter(list[Declared.PhaseTransition]).validate_python(view["phaseTransitions"])
    way = [Phase.CHAT, *(Phase(move["to"]) for move in moves)]
    assert all(move["to"] in Declared.transitions[Phase(move["from"])] for move in moves)
    assert way[-1] is Phase(view["phase"])
    assert [Phase(move["from"]) for move in moves] == way[:-1]


def phase_of(routed: r.Routed) -> dict[str, Phase]:
    return {} if routed.phase is None else {"phase": routed.phase}


def test_what_the_router_decided_reads_as_declared(finished: Finished) -> None:
    routed = of_kind(finished.folder.records(finished.name), r.Routed)
    given = [{"agents": list(one.agents), "reason": one.reason} | phase_of(one) for one in routed]
    assert len(TypeAdapter(list[Declared.RoutingDecision]).validate_python(given)) >= 4
