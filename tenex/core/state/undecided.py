"""Signals whose decision waits for functions of operators, and the records of the request and of its verdicts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tenex.core.records.base import Record
from tenex.core.signals import (
    ClockJumped,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    RouteAnswered,
    TimerFired,
    ToolReturned,
)
from tenex.core.verdicts import Verdict

DeferrableSignal = (
    Opened | ClockJumped | MessageReceived | RouteAnswered | ModelAnswered | ModelFailed | ToolReturned | TimerFired
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


def with_request(undecided: tuple[Undecided, ...], record: EvaluationRequested) -> tuple[Undecided, ...]:
    """The undecided signals with one more."""
    return (*undecided, Undecided(seq=record.seq, signal=record.signal))


def without_request(undecided: tuple[Undecided, ...], record: FunctionsEvaluated) -> tuple[Undecided, ...]:
    """The undecided signals without the one that was answered; with it, under another seq, if it is still undecided."""
    rest = tuple(one for one in undecided if one.seq != record.request)
    first = () if record.is_decided else tuple(one for one in undecided if one.seq == record.request)
    return (*(replace(one, seq=record.seq) for one in first), *rest)


def with_verdicts(
    known: Mapping[str, Verdict], owners: Iterable[str], record: FunctionsEvaluated
) -> dict[str, Verdict]:
    """The verdicts with those of the record; of earlier ones only what these owners, whose runs are open, may need."""
    answered = {(verdict.owner, verdict.function) for verdict in record.verdicts}
    still_open = frozenset(owners)
    kept = {
        key: verdict
        for key, verdict in known.items()
        if verdict.owner in still_open and (verdict.owner, verdict.function) not in answered
    }
    return kept | {verdict.key: verdict for verdict in record.verdicts}
