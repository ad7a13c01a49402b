"""A claim on what users send: what it reads, when it wants a message, what it does with it, and what it asks a user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from tenex.core.inbox.command import Command
from tenex.core.records import MessageRecorded
from tenex.core.signals import MessageDeleted, MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction

Form = Literal["text", "reaction", "record", "deletion"]
"""The form in which a claim reads what came in: a `Reading` for the first two, a `Recorded`, a `MessageDeleted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A message before it is recorded, with its commands apart from the request that it holds."""

    signal: MessageReceived
    """The request, without `commands`; the whole message where it is nothing but commands, and for a reaction."""
    whole: MessageReceived
    """All of the message."""
    commands: tuple[Command, ...] = ()
    """The commands that it begins with, in order."""
    is_command: bool = False
    """Whether it is nothing but these commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request that its kind of conversation has recorded."""

    signal: MessageReceived
    wrote: MessageRecorded


M = TypeVar("M", Reading, Recorded, MessageDeleted)


def _asks_nothing(state: State) -> int:
    del state
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[M]):
    """One of those that a message may be for."""

    name: str
    reads: frozenset[Form]
    wants: Callable[[State, M], bool]
    """Whether `take` is called: a pure and cheap look at the state and the message."""
    take: Callable[[Transaction, M], bool]
    """Records what follows from the message; False leaves it to the claims below."""
    asks: Callable[[State], int] = _asks_nothing
    """How many questions of this claim a user could mean by a “yes” that names none."""
