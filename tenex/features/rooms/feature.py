"""What the list of rooms offers."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature, StatusPart

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.operations.doctor.runner import Check


def _extend(app: "Application") -> "Extension":
    from .daemon import extend

    return extend(app)


def _checks() -> "list[Check]":
    from tenex.operations.doctor.runner import Check

    from .checks import costs

    return [Check("rooms", costs, 10)]


def _status() -> list[StatusPart]:
    from .status import lines, problems

    return [StatusPart(name="rooms", lines=lines, problems=problems)]


ROOMS: Final = Feature(
    name="rooms",
    commands=[Command("rooms", "tenex.features.rooms.cli:rooms", "List, join and leave rooms of relays.")],
    extend=_extend,
    checks=_checks,
    status=_status,
)
