"""The examples of AGENT-K's page on its state machine: a mission's state, its dependencies, a node, the graph.

The page shows one node; the others do what its list of state updates says.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tenex.workflows.missions import BaseNode, Dependency, End, Graph, GraphRunContext


class Competition(BaseModel):
    id: str


class MissionResult(BaseModel):
    success: bool
    mission_id: str


class MissionState(BaseModel):
    """Mission state snapshot."""

    mission_id: str
    competition_id: str | None = None

    current_phase: str = "discovery"
    phases_completed: list[str] = []

    discovered_competitions: list[Competition] = []
    selected_competition: Competition | None = None
    research_findings: str | None = None
    prototype_code: str | None = None
    prototype_score: float | None = None
    evolution_state: int | None = None

    final_submission_id: str | None = None
    final_score: float | None = None
    final_rank: int | None = None


@dataclass
class GraphContext:
    """Dependencies available to all nodes."""

    lobbyist_agent: Any = None
    platform_adapter: Any = None


@dataclass
class DiscoveryNode(BaseNode[MissionState, GraphContext, MissionResult]):
    """Discovery phase node."""

    lobbyist_agent: Dependency[Any]

    async def run(self, ctx: GraphRunContext[MissionState, GraphContext]) -> "ResearchNode | End[MissionResult]":
        state = ctx.state
        result = await ctx.step("search", self.lobbyist_agent.run, state.mission_id, deps=None)
        if not result:
            return End(MissionResult(success=False, mission_id=state.mission_id))
        state.selected_competition = Competition(id=result[0])
        return ResearchNode()


@dataclass
class ResearchNode(BaseNode[MissionState, GraphContext, MissionResult]):
    async def run(self, ctx: GraphRunContext[MissionState, GraphContext]) -> "PrototypeNode | End[MissionResult]":
        ctx.state.research_findings = "it can be won"
        return PrototypeNode()


@dataclass
class PrototypeNode(BaseNode[MissionState, GraphContext, MissionResult]):
    async def run(self, ctx: GraphRunContext[MissionState, GraphContext]) -> "EvolutionNode | End[MissionResult]":
        ctx.state.prototype_code, ctx.state.prototype_score = "x", 0.5
        return EvolutionNode()


@dataclass
class EvolutionNode(BaseNode[MissionState, GraphContext, MissionResult]):
    async def run(self, ctx: GraphRunContext[MissionState, GraphContext]) -> "SubmissionNode | End[MissionResult]":
        ctx.state.evolution_state = 3
        return SubmissionNode()


@dataclass
class SubmissionNode(BaseNode[MissionState, GraphContext, MissionResult]):
    async def run(self, ctx: GraphRunContext[MissionState, GraphContext]) -> End[MissionResult]:
        ctx.state.final_submission_id, ctx.state.final_score, ctx.state.final_rank = "s-1", 0.4, 1
        return End(MissionResult(success=True, mission_id=ctx.state.mission_id))


graph = Graph(
    nodes=(DiscoveryNode, ResearchNode, PrototypeNode, EvolutionNode, SubmissionNode), state_type=MissionState
)
