"""What records state that something cost, which model was paid, and for whom."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.costs import ROUTER, cost_of, model_of, spender_of
from tenex.core.ids import Millis, RunId
from tenex.core.messages import NO_USAGE, ModelStep, Usage
from tenex.core.phases import Phase

PAID = Usage(input_tokens=7, output_tokens=3, cost_usd=0.5)
AT = Millis(1)
RUN = RunId("turn-2.security-expert")
FILLED = {
    "run": RUN,
    "text": "",
    "outcome": "failed",
    "attempt": 1,
    "due": AT,
    "message": "",
    "answer": "",
    "sentence": "",
    "agents": (),
    "phase": Phase.CHAT,
    "reason": "",
    "by": "",
}
"""Values for the fields that records with a cost must have."""


def paid(kind: type[r.Record]) -> r.Record:
    """A record of that kind that cost something."""
    names = {field.name for field in dataclasses.fields(kind)}
    given = {name: value for name, value in FILLED.items() if name in names}
    return kind(seq=1, at=AT, usage=PAID, model="big", **given)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [r.ModelReprompted, r.RetryScheduled, r.RunEnded, r.RouteRejected, r.Routed])
def test_every_record_of_a_cost_states_how_much_which_model_and_for_whom(kind: type[r.Record]) -> None:
    record = paid(kind)
    assert (cost_of(record), model_of(record)) == (PAID, "big")
    assert spender_of(record) == ("security-expert" if hasattr(record, "run") else ROUTER)


def test_no_kind_of_record_has_a_cost_without_a_model() -> None:
    """What was spent must be found with the model that was paid for it."""
    fields = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in r.RECORDS.items()}
    assert [name for name, have in fields.items() if "usage" in have and "model" not in have] == []


def test_a_step_holds_its_cost_and_other_records_none() -> None:
    step = r.ModelResponded(seq=1, at=AT, run=RUN, step=ModelStep(model="small", usage=PAID))
    assert (cost_of(step), model_of(step), spender_of(step)) == (PAID, "small", "security-expert")
    due = r.RetryDue(seq=1, at=AT, run=None)
    assert (cost_of(due), model_of(due), spender_of(due)) == (NO_USAGE, "", ROUTER)
