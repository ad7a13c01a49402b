"""What the records of functions of operators do to the work under way."""

from typing import Final

from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.state import Work

from .undecided import EvaluationRequested, FunctionsEvaluated, Undecided

FUNCTIONS: Final = Reducers[Work]("work")


@FUNCTIONS.on(EvaluationRequested)
def _deferred(work: Work, record: EvaluationRequested, _: State) -> Work:
    return replace(work, undecided=(*work.undecided, Undecided(seq=record.seq, signal=record.signal)))


@FUNCTIONS.on(FunctionsEvaluated)
def _evaluated(work: Work, record: FunctionsEvaluated, _: State) -> Work:
    undecided = tuple(
        replace(waiting, seq=record.seq) if waiting.seq == record.request else waiting
        for waiting in work.undecided
        if waiting.seq != record.request or not record.is_decided
    )
    answered = {(verdict.owner, verdict.function) for verdict in record.verdicts}
    open_runs = {run.state_key for run in work.runs.values()}
    kept = {
        key: verdict
        for key, verdict in work.verdicts.items()
        if verdict.owner in open_runs and (verdict.owner, verdict.function) not in answered
    }
    return replace(work, undecided=undecided, verdicts=kept | {verdict.key: verdict for verdict in record.verdicts})
