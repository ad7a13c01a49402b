"""Has a running daemon change lessons, since its journal has one writer."""

from collections.abc import Mapping
from typing import Any

from tenex.app import Application
from tenex.app.extension import Extension

from .changes import edit_lesson, remove_lesson


def extend(app: Application) -> Extension:
    """Answer the requests to change and to remove a lesson."""
    book = app.daemon_journal

    async def remove(asked: Mapping[str, Any]) -> dict[str, Any]:
        """`remove_lesson`: `number`."""
        return await remove_lesson(book, asked.get("number"))

    async def edit(asked: Mapping[str, Any]) -> dict[str, Any]:
        """`edit_lesson`: `number`, and `title` or `text` or both."""
        return await edit_lesson(book, asked.get("number"), asked.get("title"), asked.get("text"))

    return Extension(orders={"remove_lesson": remove, "edit_lesson": edit})
