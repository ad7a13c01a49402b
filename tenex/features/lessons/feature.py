"""What the keeping of lessons offers."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.web.site import PagePart


def _extend(app: "Application") -> "Extension":
    from .daemon import extend

    return extend(app)


def _pages() -> "list[PagePart]":
    from .pages import LESSONS

    return [LESSONS]


LESSONS: Final = Feature(
    name="lessons",
    commands=[Command("agents lessons", "tenex.features.lessons.cli:lessons")],
    extend=_extend,
    pages=_pages,
)
