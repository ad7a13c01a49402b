"""What of the phases a transcript and the readable file show."""

from collections.abc import Iterator
from typing import Any

from tenex.core import records as r
from tenex.core.cycle.checks import CheckResult
from tenex.core.kind_format import KindShare
from tenex.core.record import Record
from tenex.core.state import State
from tenex.core.text.amounts import count
from tenex.core.text.lines import Row

from . import checks
from . import records as p
from .state import Phases, phases_of


def rows_of(record: Record) -> Iterator[Row]:
    """The lines of what users decided, of which messages nothing is left to be done, and what the daemon has seen."""
    match record:
        case r.Routed(settled=settled) if settled:
            for settlement in settled:
                kind = settlement.kind.replace("_", " ")
                where = f"{kind} in {settlement.turn}" if settlement.turn is not None else kind
                yield Row("dim", where, f"“{settlement.words}”")
        case p.Waived():
            yield Row("notice", "waived", f"{', '.join(record.phases)} by {record.name}: “{record.quote}”")
        case p.PlanApproved():
            yield Row("notice", "approved", f"the plan of {record.turn_id} by {record.name}")
        case p.WorkInspected(inspection=inspection):
            number = len(inspection.changed)
            seen = count(number, "file differs", "files differ") if number else "nothing differs"
            yield Row("notice", "inspected", inspection.fault or f"{seen} from the beginning of the cycle")
        case p.CheckEnded(result=result):
            where = " on the files of the cycle's beginning" if record.is_earlier else ""
            yield Row("notice", "checked", f"{checks.outcome_of(result)}{where}")


def share_of(state: State) -> KindShare | None:
    """What the daemon has seen of the open cycle's work; None where it has not looked."""
    part = phases_of(state)
    doing = checks.doing(state)
    if part.inspection is None and not part.check_results and not doing:
        return None
    view: dict[str, Any] = {"results": [_result(result, part) for result in part.check_results]}
    if (inspection := part.inspection) is not None:
        changed = [
            {"path": file.path, "kind": file.kind, "added": file.added, "removed": file.removed}
            for file in inspection.changed
        ]
        view = {"tree": inspection.tree, "base": inspection.base, "changed": changed, **view}
        if inspection.fault:
            view["fault"] = inspection.fault
    status = {"runs": doing} if doing else None
    return KindShare(name="checks", view=view, status=status, does=f"runs {doing}" if doing else "")


def _result(result: CheckResult, part: Phases) -> dict[str, Any]:
    base = part.inspection.base if part.inspection is not None else ""
    shown = {
        "name": result.name,
        "command": result.command,
        "tree": result.tree,
        "isOfPresentFiles": result.tree == part.tree,
        "isOfBeginning": result.tree == base,
        "outcome": result.outcome,
        "exitStatus": result.status,
        "seconds": round(result.seconds, 1),
        "tests": result.tests,
        "failures": result.failures,
        "failed": list(result.failed),
        "lastLines": result.last_lines,
        "output": result.output,
        "reason": result.reason,
    }
    return {name: value for name, value in shown.items() if value not in (None, "", [])}
