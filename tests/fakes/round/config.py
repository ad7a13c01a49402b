"""What is configured of rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenex.core.config import Beginner, Policy
from tenex.core.ids import PublicKey, Slug

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
    def begun_by_mention(self) -> Mapping[Slug, Beginner]:
        return {slug: Beginner(pubkey=PublicKey(""), name=slug, noun="round") for slug in self.rounds}


def rounds_of(policy: Policy) -> Mapping[Slug, Round]:
    rules = policy.kinds.get(NAME)
    return rules.rounds if isinstance(rules, RoundRules) else {}
