"""A workflow as it is configured: who takes part, the rules as a dict, and what is expected of whom by when."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tenex.core.config import Beginner, Policy
from tenex.core.errors import ConfigurationError
from tenex.core.graph import TransitionGraph
from tenex.core.ids import PublicKey, Slug

NAME: Final = "speakers"
"""Of the kind."""

PERSON: Final = Slug("person")
"""Reserved: the part of the user who opens a workflow, where its participants name it."""

View = Literal["full", "windowed", "summary"]
"""What a speaker is shown of what was written: all that fits; the newest messages, twice as many as take part, and
a line on each round before; the request, the newest message, and a line on each round."""

Compile = Callable[[Mapping[str, Any], tuple[str, ...]], TransitionGraph]
"""A graph's dict and who takes part, to the graph; raises ConfigurationError where a part of it is not known here."""

TURN_WITHIN, ACKS_WITHIN, REPLY_WITHIN = "turn_within", "acks_within", "reply_within"
MAX_SILENCE, TTL = "max_silence", "ttl"
EXPECTATIONS: Final = (TURN_WITHIN, ACKS_WITHIN, REPLY_WITHIN, MAX_SILENCE, TTL)
"""A round is closed; everyone has acknowledged; a user answers; someone sends a message; the workflow has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """After how many ms users are informed, and after how many the workflow closes; 0 is never."""

    warn: int = 0
    close: int = 0


DEFAULTS: Final[Mapping[str, Within]] = {
    TURN_WITHIN: Within(warn=120_000, close=600_000),  # AG2's
    TTL: Within(close=2 * 3_600_000),  # AG2's `channel_ttl_default`
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow of speakers; `participants` are agents' slugs, and `PERSON` where the user takes part."""

    slug: Slug
    name: str
    pubkey: PublicKey
    participants: tuple[Slug, ...]
    graph_data: Mapping[str, Any]
    about: str = ""
    context_vars: Mapping[str, Any] = field(default_factory=dict)
    expectations: Mapping[str, Within] = field(default_factory=lambda: dict(DEFAULTS))
    view: View = "windowed"
    has_calls: bool = True
    """Whether its speakers may make calls about it: hand over, end it, change its variables."""


def no_graphs(data: Mapping[str, Any], participants: tuple[str, ...]) -> TransitionGraph:
    """Refuse every graph: for rules without workflows."""
    del data, participants
    raise ConfigurationError(["No workflows are configured here."])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRules:
    """The workflows of speakers that are configured, by name."""

    workflows: Mapping[Slug, Workflow] = field(default_factory=dict)
    compile_graph: Compile = no_graphs
    """Of a workflow that is open, whose graph its journal holds: the configured one may have changed since."""

    @property
    def begun_by_mention(self) -> Mapping[Slug, Beginner]:
        """All of them."""
        return {
            slug: Beginner(pubkey=workflow.pubkey, name=workflow.name, noun="workflow", about=workflow.about)
            for slug, workflow in self.workflows.items()
        }


def rules_of(policy: Policy) -> WorkflowRules:
    """The workflows that are configured."""
    rules = policy.kinds.get(NAME)
    return rules if isinstance(rules, WorkflowRules) else WorkflowRules()


def with_workflows(policy: Policy, workflows: Mapping[Slug, Workflow], compile_graph: Compile | None = None) -> Policy:
    """The policy with these workflows; without `compile_graph` it compiles as before."""
    compiles = compile_graph or rules_of(policy).compile_graph
    return replace(policy, kinds={**policy.kinds, NAME: WorkflowRules(workflows=workflows, compile_graph=compiles)})
