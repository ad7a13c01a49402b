"""What of the phases a transcript shows."""

from collections.abc import Iterator

from tenex.core.lines import Row
from tenex.core.record import Record

from . import records as p


def rows_of(record: Record) -> Iterator[Row]:
    """The lines of what a user decided about gates and plans."""
    match record:
        case p.Waived():
            yield Row("notice", "waived", f"{', '.join(record.phases)} by {record.name}: “{record.quote}”")
        case p.PlanApproved():
            yield Row("notice", "approved", f"the plan of {record.turn_id} by {record.name}")
