"""What readers read of records: each has its facts or is known to have none, and each cost is in exactly one fact."""

import pytest

from tenex.core.history.facts import add_facts, facts_of
from tenex.core.records import RECORDS, Record
from tenex.core.totals.costs import COSTS, cost_of, model_of, spender_of
from tenex.store.journal_reader import JOURNAL
from tests.histories.record import ROOT, whole

SILENT = frozenset(
    {
        "AgentStateInitialized",
        "AgentStateSet",
        "PromptRerendered",
        "AnswerCorrected",
        "AnswerUncounted",
        "CallOutdated",
        "QuestionAsked",
        "RetryDue",
        "RunWarned",
        "ToolCallQueued",
        "ButtonsClosed",
        "CostReported",
        "Delivered",
        "OutboxExpired",
        "QuietHoursEnded",
        "QuietHoursInterrupted",
        "QuietHoursPostponed",
        "VerbositySet",
        "MessageWithdrawn",
        "PicturesUnseen",
        "RouteDelayed",
        "RouterCorrected",
        "RouteRequested",
        "FileRequested",
        "FileShown",
        "FilesUndone",
        "UndoRequested",
        "HandedOff",
    }
)
"""Records that no reader shows by themselves: a new one is added here, or has a function in `core/history/facts.py`."""


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_record_has_facts_unless_no_reader_shows_it(name: str) -> None:
    if name in SILENT:
        return
    with pytest.raises(ValueError, match=f"the facts of {name} are known already"):
        add_facts(RECORDS[name], lambda _: ())


def test_a_record_that_costs_something_has_facts() -> None:
    for kind in COSTS:
        with pytest.raises(ValueError, match="are known already"):
            add_facts(kind, lambda _: ())


def recorded() -> list[Record]:
    """All records of all recorded histories."""
    return [record for path in ROOT.glob(f"*/{JOURNAL}") for record in whole(path.parent)[1]]


def test_each_cost_is_in_one_fact_with_its_model_and_whom_it_was_for() -> None:
    costly = 0
    for record in recorded():
        paid = [fact for fact in facts_of(record) if fact.usage.calls]
        if not cost_of(record).calls:
            assert not paid
            continue
        costly += 1
        (fact,) = paid
        assert (fact.usage, fact.model, fact.spender) == (cost_of(record), model_of(record), spender_of(record))
        assert fact.kind in ("model", "route")
    assert costly > 100
