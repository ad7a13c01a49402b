"""Who made a decision: recorded with it, so that the readable file can name them without knowing the rules."""

from dataclasses import dataclass
from typing import Final, Literal

from tenex.core.ids import PublicKey

DeciderKind = Literal["router", "rule", "hand-over", "person"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """The router's model, a rule of the program, an agent that handed its work over, or a person."""

    kind: DeciderKind
    name: str = ""
    pubkey: PublicKey = PublicKey("")
    """Of the agent or the person; of the project where the router or a rule decided."""
    model: str = ""
    """The model that answered, where a model was asked."""


BY_RULE: Final = Decider(kind="rule")
"""A rule of a kind of conversation that has no router."""


def person(name: str, pubkey: PublicKey = PublicKey("")) -> Decider:  # noqa: B008 - it is a string
    """A user."""
    return Decider(kind="person", name=name, pubkey=pubkey)
