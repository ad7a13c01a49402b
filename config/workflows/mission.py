"""A mission in five phases: find a competition, study it, build a first solution, improve it, hand it in.

Every node is a function over typed state; what it returns is the next node or the end. What has an effect, or takes
long, is a durable step: a process that is killed goes on after the last one that returned.

Begin it by a mention with a topic: `@mission curve`. It runs without a network: the platform is the folder that agents
work in.

    competitions/<id>.json    {"title": ..., "metric": ..., "points": [[x, y], ...]}
    competitions/leaders.json {"<id>": [0.5, 0.2, ...]}, errors, lower is better; may be missing
    submissions/              one file for each hand-in
"""

import ast
import hashlib
import json
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel

from tenex import BaseNode, Dependency, End, Graph, GraphRunContext

ROUNDS = 40
"""Generations at most: a node holds 500 steps, and each is one."""
PATIENCE = 5
"""Generations without a better solution after which the search has converged."""
ENOUGH = 1
"""Improvements a search must have made, or what it found is not worth a hand-in."""


class Competition(BaseModel):
    """What the platform says of a competition."""

    id: str
    title: str
    points: list[tuple[float, float]] = []


class ResearchFindings(BaseModel):
    """What is known before anything is built."""

    degree: int
    summary: str


class EvolutionState(BaseModel):
    """How far the search has come."""

    generation: int = 0
    best_code: str = ""
    best_score: float = float("inf")
    improvements: int = 0
    without: int = 0
    """Generations since the last improvement."""


class MissionState(BaseModel):
    """Mission state snapshot."""

    mission_id: str
    competition_id: str | None = None
    topic: str = ""

    current_phase: str = "discovery"
    phases_completed: list[str] = []

    discovered_competitions: list[Competition] = []
    selected_competition: Competition | None = None
    research_findings: ResearchFindings | None = None
    prototype_code: str | None = None
    prototype_score: float | None = None
    evolution_state: EvolutionState | None = None

    final_submission_id: str | None = None
    final_score: float | None = None
    final_rank: int | None = None


class MissionResult(BaseModel):
    """What a mission comes to."""

    success: bool
    mission_id: str
    reason: str = ""
    rank: int | None = None


class Receipt(BaseModel):
    """What the platform answers to a hand-in."""

    id: str
    score: float
    rank: int


class Platform(Protocol):
    """Where competitions are."""

    def search(self, topic: str) -> list[Competition]: ...
    def submit(self, competition: str, code: str, *, idempotency_key: str) -> Receipt: ...


class Scientist(Protocol):
    """Studies a competition; None: nothing can be said about it."""

    async def study(self, competition: Competition) -> ResearchFindings | None: ...


class Coder(Protocol):
    """Writes solutions; "": it has none."""

    async def write(self, competition: Competition, findings: ResearchFindings) -> str: ...
    async def vary(self, code: str, seed: int) -> str: ...


@dataclass
class GraphContext:
    """Dependencies available to all nodes."""

    platform_adapter: Platform
    scientist_agent: Scientist
    evolver_agent: Coder


Context = GraphRunContext[MissionState, GraphContext]
Phase = BaseNode[MissionState, GraphContext, MissionResult]


def failed(ctx: Context, reason: str) -> End[MissionResult]:
    """End without success."""
    return End(MissionResult(success=False, mission_id=ctx.state.mission_id, reason=reason))


@dataclass
class DiscoveryNode(Phase, timeout=300):
    """Discovery phase node."""

    async def run(
        self, ctx: Context
    ) -> Annotated["ResearchNode", "competitions found"] | Annotated[End[MissionResult], "no matches"]:
        state, platform = ctx.state, ctx.deps.platform_adapter
        found = await ctx.step("search", platform.search, state.topic, replay="read", returns=list[Competition])
        wanted = [one for one in found if state.competition_id in (None, one.id)]
        if not wanted:
            return failed(ctx, f"no competition is about {state.topic!r}")
        state.discovered_competitions, state.selected_competition = found, wanted[0]
        state.competition_id = wanted[0].id
        return ResearchNode(scientist_agent=ctx.deps.scientist_agent)


@dataclass
class ResearchNode(Phase, timeout=600):
    """Research phase node."""

    scientist_agent: Dependency[Scientist]

    async def run(
        self, ctx: Context
    ) -> Annotated["PrototypeNode", "research complete"] | Annotated[End[MissionResult], "research failed"]:
        chosen = ctx.state.selected_competition
        assert chosen is not None
        study = self.scientist_agent.study
        findings = await ctx.step("study", study, chosen, replay="read", returns=ResearchFindings | None)
        if findings is None:
            return failed(ctx, f"nothing could be learned about {chosen.title}")
        ctx.state.research_findings = findings
        return PrototypeNode()


@dataclass
class PrototypeNode(Phase, timeout=900):
    """Prototype phase node."""

    async def run(
        self, ctx: Context
    ) -> Annotated["EvolutionNode", "baseline ready"] | Annotated[End[MissionResult], "prototype failed"]:
        state = ctx.state
        assert state.selected_competition is not None
        assert state.research_findings is not None
        write = ctx.deps.evolver_agent.write
        code = await ctx.step(
            "write", write, state.selected_competition, state.research_findings, replay="read", returns=str
        )
        score = error_of(code, state.selected_competition)
        if score is None:
            return failed(ctx, "the first solution does not run")
        state.prototype_code, state.prototype_score = code, score
        return EvolutionNode(rounds=ROUNDS)


@dataclass
class EvolutionNode(Phase, timeout=7_200):
    """Evolution phase node: each generation is one durable step."""

    rounds: int

    async def run(
        self, ctx: Context
    ) -> Annotated["SubmissionNode", "convergence/timeout"] | Annotated[End[MissionResult], "evolution failed"]:
        state = ctx.state
        assert state.selected_competition is not None
        assert state.prototype_score is not None
        search = EvolutionState(best_code=state.prototype_code or "", best_score=state.prototype_score)
        while search.generation < self.rounds and search.without < PATIENCE:
            vary = ctx.deps.evolver_agent.vary
            code = await ctx.step("vary", vary, search.best_code, search.generation, replay="read", returns=str)
            score = error_of(code, state.selected_competition)
            search.generation, search.without = search.generation + 1, search.without + 1
            if score is not None and score < search.best_score:
                search.best_code, search.best_score, search.without = code, score, 0
                search.improvements += 1
            state.evolution_state = search.model_copy()
        if search.improvements < ENOUGH:
            return failed(ctx, "the search found nothing better than the first solution")
        return SubmissionNode(code=search.best_code)


@dataclass
class SubmissionNode(Phase, timeout=120):
    """Submission phase node: the one effect that others see, so it has a key and is had once."""

    code: str

    async def run(self, ctx: Context) -> Annotated[End[MissionResult], "mission complete"]:
        state, platform = ctx.state, ctx.deps.platform_adapter
        receipt = await ctx.step(
            "submit", platform.submit, state.competition_id or "", self.code, replay="idempotent", returns=Receipt
        )
        state.final_submission_id, state.final_score, state.final_rank = receipt.id, receipt.score, receipt.rank
        return End(MissionResult(success=True, mission_id=state.mission_id, rank=receipt.rank))


graph = Graph(
    nodes=(DiscoveryNode, ResearchNode, PrototypeNode, EvolutionNode, SubmissionNode),
    state_type=MissionState,
    deps_type=GraphContext,
    name="mission",
)


# ---- a platform and agents that need no network ----------------------------------------------------------------------


class FilePlatform:
    """Competitions in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def search(self, topic: str) -> list[Competition]:
        """Every competition whose title holds the topic, by id."""
        paths = sorted((self._folder / "competitions").glob("*.json"))
        found = [Competition(id=path.stem, **_read(path)) for path in paths if path.stem != "leaders"]
        return [one for one in found if topic.lower() in one.title.lower()]

    def submit(self, competition: str, code: str, *, idempotency_key: str) -> Receipt:
        """Take a hand-in; with the same key again it is the same one, and its receipt is given again."""
        known = Competition(id=competition, **_read(self._folder / "competitions" / f"{competition}.json"))
        score = error_of(code, known)
        if score is None:
            raise ValueError("the solution does not run")
        board = self._folder / "competitions" / "leaders.json"
        leaders = _read(board).get(competition, []) if board.exists() else []
        name = hashlib.sha256(idempotency_key.encode()).hexdigest()[:16]
        receipt = Receipt(id=name, score=score, rank=1 + sum(leader < score for leader in leaders))
        taken = self._folder / "submissions" / f"{name}.json"
        taken.parent.mkdir(exist_ok=True)
        partial = taken.with_suffix(".part")
        partial.write_text(json.dumps({"code": code, **receipt.model_dump()}))
        partial.replace(taken)  # whole or not at all; a second time puts the same in its place
        return receipt


class OfflineScientist:
    """Looks at the points, and says what curve they may lie on. It is no intelligence."""

    async def study(self, competition: Competition) -> ResearchFindings | None:
        """The degree of a polynomial by its differences; None for fewer than three points."""
        if len(competition.points) < 3:
            return None
        bends = sum(abs(b[1] - a[1]) > 1e-9 for a, b in zip(competition.points, competition.points[1:], strict=False))
        degree = 1 if bends < 3 else 2
        return ResearchFindings(degree=degree, summary=f"{len(competition.points)} points, degree {degree}")


class OfflineCoder:
    """Writes polynomials, and changes a number of them at a time. It is no intelligence."""

    async def write(self, competition: Competition, findings: ResearchFindings) -> str:
        """Begin at the mean."""
        mean = sum(y for _, y in competition.points) / len(competition.points)
        return " + ".join([f"{mean:.6f}", *(f"0.0 * x ** {power}" for power in range(1, findings.degree + 1))])

    async def vary(self, code: str, seed: int) -> str:
        """Move one coefficient; the same seed gives the same solution."""
        dice = random.Random(seed)  # noqa: S311 - a search, and no secret
        terms = code.split(" + ")
        place = dice.randrange(len(terms))
        number, star, rest = terms[place].partition(" * ")
        terms[place] = f"{float(number) + dice.gauss(0, 1):.6f}{star}{rest}"
        return " + ".join(terms)


def error_of(code: str, competition: Competition) -> float | None:
    """The mean squared error of a solution, which is arithmetic over x; None if it is anything else."""
    try:
        tree = ast.parse(code, mode="eval").body
        total = sum((_value(tree, x) - y) ** 2 for x, y in competition.points)
    except (SyntaxError, ArithmeticError, ValueError, RecursionError):
        return None
    return total / len(competition.points) if competition.points else None


_OPERATORS: dict[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def _value(tree: ast.expr, x: float) -> float:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id="x"):
            return x
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, x)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATORS:
            result = _OPERATORS[type(kind)](_value(left, x), _value(right, x))
            if isinstance(result, float):
                return result
    raise ValueError("not arithmetic over x")


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


# ---- how it begins, and what it is given ----------------------------------------------------------------------------


def begin(message: str) -> MissionState:
    """A mission about what somebody wrote."""
    if not message:
        raise ValueError("Say what the competition shall be about, as in `@mission curve`.")
    return MissionState(mission_id="", topic=message)  # an empty id becomes that of the run


def deps(workspace: Path) -> GraphContext:
    """What its nodes work with."""
    return offline(workspace)


def offline(folder: Path) -> GraphContext:
    """All that the mission needs, on files."""
    return GraphContext(
        platform_adapter=FilePlatform(folder), scientist_agent=OfflineScientist(), evolver_agent=OfflineCoder()
    )
