"""What the core knows of a mission's graph: its edges, and how long and how often each node may try."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tenex.core.config import Beginner, Policy
from tenex.core.graph import TransitionGraph
from tenex.core.ids import PublicKey, Slug

NAME = "missions"
"""Of the kind."""

CURRENT_PHASE = "current_phase"
PHASES_COMPLETED = "phases_completed"
MISSION_ID = "mission_id"
TRACKED = frozenset({CURRENT_PHASE, PHASES_COMPLETED, MISSION_ID})
"""Fields of a mission's state that are kept for it, where its type has them (AGENT-K's names)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRule:
    """One node: what its visit is called, and what its failure leads to."""

    phase: str
    timeout: int | None = None
    """ms for a visit, waits for another try and pauses not counted; None: no bound."""
    retries: int = 3
    """Tries after the first that failed for a reason that may pass."""
    on_error: str | None = None
    """The node that follows a failure for good; None: the mission ends."""
    takes_error: bool = False
    """Whether this node has a field `error` for the failure that led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where a mission begins, with the node's fields and the state as JSON."""

    node: str
    data: Mapping[str, Any]
    state: Mapping[str, Any]


Begin = Callable[[str], Beginning]
"""What someone wrote, to where a mission begins; raises `UsageError` with a sentence for who wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionRule:
    """A mission's graph as configured now; with a key and `begin`, users begin it by a mention."""

    graph: TransitionGraph
    nodes: Mapping[str, NodeRule]
    tracked: frozenset[str] = field(default=frozenset())
    """Those of `TRACKED` that the state has."""
    pubkey: PublicKey = PublicKey("")
    about: str = ""
    begin: Begin | None = None
    """None: only a program begins it."""

    def label(self, source: str, target: str) -> str:
        """An edge of the graph between two nodes."""
        return next((edge.label for edge in self.graph.outgoing(source) if edge.target == target), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionRules:
    """The missions that are configured, by name."""

    missions: Mapping[str, MissionRule] = field(default_factory=dict)

    @property
    def begun_by_mention(self) -> Mapping[Slug, Beginner]:
        """All of them; those that only a program begins refuse it."""
        return {
            Slug(name): Beginner(pubkey=mission.pubkey, name=name, noun="mission", about=mission.about)
            for name, mission in self.missions.items()
        }


def missions_of(policy: Policy) -> Mapping[str, MissionRule]:
    """The missions that are configured, by name."""
    rules = policy.kinds.get(NAME)
    return rules.missions if isinstance(rules, MissionRules) else {}


def with_missions(policy: Policy, missions: Mapping[str, MissionRule]) -> Policy:
    """The policy with these missions."""
    return replace(policy, kinds={**policy.kinds, NAME: MissionRules(missions=missions)})
