"""The dependencies that all conversation actors of a process share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenex.core.config import Policy
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock, Journals, Notices, Observer, Prompter, Sealer

from .executors import Executors
from .reconciler import Spawn

IDLE = 30.0
"""Seconds without work after which an idle conversation leaves memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorDependencies:
    """Ports and configuration of the actors; the composition root builds it once."""

    journals: Journals
    executors: Executors
    sealer: Sealer
    notices: Notices
    prompter: Prompter
    clock: Clock
    rules: Callable[[], Policy]
    observers: Sequence[Observer]
    spawn: Spawn
    idle: float | None = IDLE
    """None: an actor never ends by itself."""
    views_due: set[ConversationId] = field(default_factory=set)
    """Conversations whose readable view is scheduled."""
