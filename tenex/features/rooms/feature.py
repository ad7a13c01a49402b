"""What the list of rooms offers."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension


def _extend(app: "Application") -> "Extension":
    from .daemon import extend

    return extend(app)


ROOMS: Final = Feature(
    name="rooms",
    commands=[Command("rooms", "tenex.features.rooms.cli:rooms", "List, join and leave rooms of relays.")],
    extend=_extend,
)
