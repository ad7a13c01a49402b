"""Signals whose decision waits for functions of operators, and the records of the request and of its verdicts."""

from dataclasses import dataclass

from tenex.core.record import Record
from tenex.core.signals import (
    ApprovalDecided,
    ClockJumped,
    ConversationLeft,
    MessageDeleted,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    RouteAnswered,
    TimerFired,
    ToolReturned,
)

from .verdicts import Verdict

DeferrableSignal = (
    Opened
    | ClockJumped
    | MessageReceived
    | MessageDeleted
    | ConversationLeft
    | RouteAnswered
    | ModelAnswered
    | ModelFailed
    | ToolReturned
    | TimerFired
    | ApprovalDecided
)
"""The signals whose consequences may depend on a function of an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A signal that came in and is decided when the functions have answered; `seq` is the record that asks them."""

    seq: int
    signal: DeferrableSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequested(Record):
    """A signal came in whose decision depends on functions of operators."""

    signal: DeferrableSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsEvaluated(Record):
    """The functions that the request `request` asked have answered; what follows from its signal is in this append.

    `is_decided` is false where the state had changed meanwhile, so that other answers are needed first.
    """

    request: int
    verdicts: tuple[Verdict, ...] = ()
    is_decided: bool = True
