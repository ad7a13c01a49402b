"""What every actor of a process needs, filled in by the composition root."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenex.core.config import Policy
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock, Journals, Notices, Observer, Prompter, Sealer

from .executors import Executors
from .reconciler import Spawn

IDLE = 30.0
"""Seconds without work after which a settled conversation leaves memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorDependencies:
    """What every actor needs; one object for all."""

    journals: Journals
    stages: Executors
    sealer: Sealer
    notices: Notices
    prompter: Prompter
    clock: Clock
    rules: Callable[[], Policy]
    observers: Sequence[Observer]
    spawn: Spawn
    idle: float = IDLE
    views_due: set[ConversationId] = field(default_factory=set)
    """Conversations whose readable view waits for its time."""
