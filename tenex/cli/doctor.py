"""`tenex doctor`: problems of a data folder, and how to fix them."""

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.text.amounts import count

from .shared import output
from .shared.options import Globals

if TYPE_CHECKING:
    from tenex.operations.doctor.findings import Case
    from tenex.operations.doctor.runner import Report


def doctor(
    given: Globals,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="Fix what is safe to fix: permissions, missing folders, leftover files.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask each model one small question; costs almost nothing.")
    ] = False,
) -> None:
    """Check settings, keys, folders, journals, relays, models and the machine.

    Each problem is printed with its location and its fix. It takes a few seconds and does not disturb a daemon.

    Exit codes: 0 no fault, perhaps warnings; 1 a relay or a model does not answer, or an internal error; 3 settings,
    keys, agents or the machine are wrong; 4 the store is damaged or not writable. With several faults the highest
    counts.
    """
    from tenex.feature import checks_of, problems_of, tools_of
    from tenex.operations.doctor.findings import Case
    from tenex.operations.doctor.runner import run_doctor

    case = Case(
        data=given.folder(),
        config=given.config,
        env=dict(os.environ),
        probe=probe,
        trust=given.trust(),
        features=tools_of(given.features),
        problems=problems_of(given.features),
    )
    with output.without_logs():
        report = asyncio.run(run_doctor(case, checks_of(given.features), fix=fix))
    stars = any(finding.repair is not None for finding in report.findings) and not report.fixed
    hint = "`tenex doctor --fix` fixes what is marked with *." if stars else ""
    given.show(_as_json(case, report), "\n".join(_as_text(case, report)), hint)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _as_json(case: "Case", report: "Report") -> dict[str, Any]:
    from tenex import __version__

    shown = ("check", "level", "message", "location", "fix")
    return {
        "data": str(case.data),
        "version": __version__,
        "exit_code": report.exit_code,
        "faults": report.count("fault"),
        "warnings": report.count("warning"),
        "findings": [
            {name: getattr(finding, name) for name in shown} | {"fixable": finding.repair is not None}
            for finding in report.findings
        ],
        "fixed": [asdict(fixed) for fixed in report.fixed],
    }


def _as_text(case: "Case", report: "Report") -> Iterator[str]:
    yield f"{case.data}\n"
    for fixed in report.fixed:
        yield f"{'fixed' if fixed.success else 'not fixed'}: {fixed.location}: {fixed.done}"
    if report.fixed:
        yield ""
    for finding in report.findings:
        mark = "FAULT" if finding.level == "fault" else finding.level
        head = f"{mark:<7}{'*' if finding.repair is not None else ' '} {finding.check:<13} "
        line = f"{head}{finding.location}{': ' if finding.location else ''}{finding.message}"
        yield output.fit(line, sys.stdout, len(head))
        if finding.fix:
            yield output.fit(f"{' ' * len(head)}-> {output.with_options(finding.fix)}", sys.stdout, 3)
    counted = [(report.count(level), level) for level in ("fault", "warning")]
    yield "\n" + ", ".join(count(found, level) if found else f"no {level}s" for found, level in counted)
