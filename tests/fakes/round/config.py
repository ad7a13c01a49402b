"""What is configured of rounds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tenex.core.config import Policy
from tenex.core.ids import Slug

NAME = "round"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Who speaks, in this order, and how often."""

    agents: tuple[Slug, ...]
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRules:
    """The rounds that are configured, by the name that begins them."""

    rounds: Mapping[Slug, Round] = field(default_factory=dict)

    @property
    def begun_by_mention(self) -> Collection[str]:
        return self.rounds.keys()


def rounds_of(policy: Policy) -> Mapping[Slug, Round]:
    rules = policy.kinds.get(NAME)
    return rules.rounds if isinstance(rules, RoundRules) else {}
