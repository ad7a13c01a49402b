"""What the operator's side of approvals offers."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.operations.doctor.runner import Check


def _extend(app: "Application") -> "Extension":
    from .daemon import extend

    return extend(app)


def _checks() -> "list[Check]":
    from tenex.operations.doctor.runner import Check

    from .checks import approvals

    return [Check("approvals", approvals, 60)]


APPROVALS: Final = Feature(
    name="approvals",
    commands=[
        Command(
            "approvals",
            "tenex.features.approvals.cli:approvals",
            "List and answer the calls that wait for a person.",
        )
    ],
    extend=_extend,
    checks=_checks,
)
"""Calls that wait for a person, listed and answered at the machine, and rules that would save the questions."""
