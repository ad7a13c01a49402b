"""What every actor of a process needs, filled in by the composition root.

Never: state of a conversation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenex.core.ids import ConversationId
from tenex.core.ports import Clock, Journals, Notices, Observer, Prompter, Sealer
from tenex.core.roster import Rules

from .reconciler import Spawn
from .stages import Stages

IDLE = 30.0
"""Seconds without work after which a settled conversation leaves memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every actor needs; one object for all."""

    journals: Journals
    stages: Stages
    sealer: Sealer
    notices: Notices
    prompter: Prompter
    clock: Clock
    rules: Callable[[], Rules]
    observers: Sequence[Observer]
    spawn: Spawn
    idle: float = IDLE
    views_due: set[ConversationId] = field(default_factory=set)
    """Conversations whose readable view waits for its time."""
