"""`tenex doctor`: problems of a data folder, and how to fix them."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import output
from .options import DataOption, JsonOption, code_refusal, data_folder, global_options

if TYPE_CHECKING:
    from tenex.operations.doctor.findings import Case, Finding
    from tenex.operations.doctor.runner import Report

_MARKS = {"ok": "ok", "warning": "warning", "fault": "FAULT"}


def doctor(
    ctx: typer.Context,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="Fix what is safe to fix: permissions, missing folders, leftover files.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask each model one small question; costs almost nothing.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check settings, keys, folders, journals, relays, models and the machine.

    Each problem is printed with its location and its fix. It takes a few seconds and does not disturb a daemon.

    Exit codes: 0 no fault, perhaps warnings; 1 a relay or a model does not answer, or an internal error; 3 settings,
    keys, agents or the machine are wrong; 4 the store is damaged or not writable. With several faults the highest
    counts.
    """
    from tenex.operations.doctor.findings import Case
    from tenex.operations.doctor.runner import run_doctor

    case = Case(
        data=data_folder(ctx, data),
        config=global_options(ctx).config,
        env=dict(os.environ),
        probe=probe,
        code_refusal=code_refusal(ctx, data),
    )
    with output.without_logs():
        report = asyncio.run(run_doctor(case, fix=fix))
    if as_json:
        output.result_json(_as_json(case, report))
    else:
        _print(case, report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _as_json(case: "Case", report: "Report") -> dict[str, Any]:
    from tenex import __version__

    return {
        "data": str(case.data),
        "version": __version__,
        "exit_code": report.exit_code,
        "faults": _count(report, "fault"),
        "warnings": _count(report, "warning"),
        "findings": [
            {
                "check": finding.check,
                "level": str(finding.level),
                "message": finding.message,
                "location": finding.location,
                "fix": finding.fix,
                "fixable": finding.repair is not None,
            }
            for finding in report.findings
        ],
        "fixed": [
            {"message": fixed.message, "location": fixed.location, "done": fixed.done, "success": fixed.success}
            for fixed in report.fixed
        ],
    }


def _print(case: "Case", report: "Report") -> None:
    output.result(f"{case.data}\n")
    for fixed in report.fixed:
        output.result(f"{'fixed' if fixed.success else 'not fixed'}: {fixed.location}: {fixed.done}")
    if report.fixed:
        output.result("")
    for finding in report.findings:
        for line in _lines(finding):
            output.result(line)
    counted = [(_count(report, level), level) for level in ("fault", "warning")]
    output.result("\n" + ", ".join(output.count(found, level) if found else f"no {level}s" for found, level in counted))
    if any(finding.repair is not None for finding in report.findings) and not report.fixed:
        output.message("`tenex doctor --fix` fixes what is marked with *.")


def _lines(finding: "Finding") -> list[str]:
    star = "*" if finding.repair is not None else " "
    head = f"{_MARKS[finding.level]:<7}{star} {finding.check:<13} "
    where = f"{finding.location}: " if finding.location else ""
    lines = [f"{head}{where}{finding.message}"]
    if finding.fix:
        lines.append(f"{' ' * len(head)}-> {output.with_options(finding.fix)}")
    return lines


def _count(report: "Report", level: str) -> int:
    return sum(finding.level == level for finding in report.findings)
