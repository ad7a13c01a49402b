"""What each record does to the router's question."""

from typing import Final

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.run import Retry

from .state import LESSONS, Question, Router

ROUTER: Final = Reducers[Router]("router")


@ROUTER.on(r.RouteRequested)
def _requested(router: Router, record: r.RouteRequested, _: State) -> Router:
    rejections = router.question.rejections if router.question and record.attempt > 1 else ()
    question = Question(seq=record.seq, attempt=record.attempt, rejections=rejections, warn_at=record.warn_at)
    return replace(router, question=question, asked=record.seq)


@ROUTER.on(r.Routed, r.Waiting, r.Ended, r.Stopped, r.TurnOpened)
def not_asked(router: Router, _record: r.Record, _: State) -> Router:
    """It is asked nothing now."""
    return replace(router, question=None) if router.question is not None else router


@ROUTER.on(r.MessageRecorded)
def _wrote(router: Router, _record: r.MessageRecorded, _: State) -> Router:
    return replace(router, delay_reported=False) if router.delay_reported else router


@ROUTER.on(r.RouteDelayed)
def _delayed(router: Router, _record: r.RouteDelayed, _: State) -> Router:
    question = router.question and replace(router.question, warn_at=Millis(0))
    return replace(router, question=question, delay_reported=True)


@ROUTER.on(r.RouteRejected)
def _rejected(router: Router, record: r.RouteRejected, _: State) -> Router:
    question = router.question
    if question is None or not record.counted:
        return router
    return replace(router, question=replace(question, rejections=(*question.rejections, record.sentence)))


@ROUTER.on(r.RouterCorrected)
def _corrected(router: Router, record: r.RouterCorrected, _: State) -> Router:
    return replace(router, lessons=(*router.lessons, record.lesson)[-LESSONS:])


@ROUTER.on(r.RetryScheduled)
def _retry_scheduled(router: Router, record: r.RetryScheduled, _: State) -> Router:
    question = router.question
    if record.run is not None or question is None:
        return router
    reported = question.outage_reported or (record.on_hold and not record.limit)
    question = replace(question, retry=Retry.of(record), tries=record.attempt, outage_reported=reported)
    return replace(router, question=question)


@ROUTER.on(r.RetryDue)
def _retry_due(router: Router, record: r.RetryDue, _: State) -> Router:
    question = router.question
    if record.run is not None or question is None:
        return router
    retry = question.retry
    question = replace(question, seq=record.seq, retry=None)
    if retry is not None and retry.on_hold:
        question = question.moved(record.at - retry.since)
    if record.by:  # they learn of it if it fails again
        question = replace(question, urgent=record.seq, outage_reported=False, warn_at=record.warn_at)
    return replace(router, question=question)


@ROUTER.on(r.ClockAdjusted)
def _clock_set(router: Router, record: r.ClockAdjusted, _: State) -> Router:
    question = router.question
    if question is None:
        return router
    retry = question.retry and question.retry.shifted(record.by)
    return replace(router, question=replace(question.moved(record.by), retry=retry))


@ROUTER.on(r.ProcessRestarted)
def _restarted(router: Router, record: r.ProcessRestarted, _: State) -> Router:
    return replace(router, question=router.question and router.question.moved(record.away))
