"""Slash commands as values: one that a user has given, and a row of the table of those that there are."""

from collections.abc import Callable
from dataclasses import dataclass

from tenex.core import records as r
from tenex.core.people.permissions import Decision
from tenex.core.signals import MessageReceived
from tenex.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Command:
    """A word and what follows it."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A slash command: what it is called, what may follow it, who may give it, and what carries it out."""

    name: str
    help: str
    """What it does, for `/help`, the chat and docs/protocol.md."""
    usage: str = ""
    """What follows it, for the same."""
    takes_argument: bool = False
    """Whether words may follow it."""
    needs: Decision | None = Decision.COMMAND
    """What its author must be permitted to decide; None for everyone who may write."""
    carry_out: Callable[[Transaction, Command, MessageReceived], None] | None = None
    """None for one of a kind of conversation, which carries it out in `Kind.command`."""
    elsewhere: str = ""
    """The answer in conversations of other kinds."""
    needless: Callable[[Transaction], str] | None = None
    """The answer to any user where nothing is to be done; "" where something is."""
    counts_as_last_line: bool = False
    """Whether it counts at the end of a message too: what other commands refer to there is unclear."""
    counts_in_opening: bool = False
    """Whether its kind reads it itself in the message that begins a conversation."""
    split: Callable[[str], tuple[str, str]] | None = None
    """What of the words after it is its argument, and the request beside it; None where all of them are its own."""


def record_command(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Record that a user has given a command; a reaction has no origin to be answered in."""
    message = signal.message
    transaction.add(
        r.CommandGiven,
        event_id=message.event_id,
        author=message.author,
        name=signal.name,
        role=signal.role,
        command=command.name,
        argument=command.argument,
        created_at=message.created_at,
        origin={} if message.is_reaction else message.origin,
    )
