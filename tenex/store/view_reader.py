"""Reads `conversation.json`, and the `<id>.json` of an older program, as JSON that may have been edited."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from tenex.core.errors import StoreDamaged

from .view_json import LISTS

T = TypeVar("T")

_SEGMENT: Final = re.compile(rf"({'|'.join(LISTS)})-\d+\.json")


def read_view(path: Path) -> dict[str, Any]:
    """The JSON object in a file, with the older turns and transitions of the segments beside it inserted.

    Segments that cannot be read, and values of the wrong type in the place of a list, are named under `unread`.

    Raises:
        StoreDamaged: there is no such file, or no JSON object in it.
    """
    try:
        view = _json(path)
    except (OSError, ValueError, RecursionError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not JSON"
        raise StoreDamaged(f"{path} cannot be read: {why}.") from fault
    if not isinstance(view, dict):
        raise StoreDamaged(f"{path} holds no JSON object.")
    unread: list[str] = []
    for name in LISTS:
        if not isinstance(view.get(name) or [], list):
            unread.append(name)
        listed = [str(segment) for segment in entries(view, f"earlier{name[0].upper()}{name[1:]}")]
        there = [segment.name for segment in path.parent.glob(f"{name}-*.json")]  # the view does not list the oldest
        earlier = [entry for segment in sorted({*listed, *there}) for entry in _segment(path.parent, segment, unread)]
        view[name] = [*earlier, *entries(view, name)]
    view["unread"] = unread
    return view


def entries(view: dict[str, Any], name: str) -> list[Any]:
    """A list of a view; empty where it is missing or is not a list."""
    found = view.get(name)
    return found if isinstance(found, list) else []


def read_entry(model: TypeAdapter[T], entry: Any, unknown: Mapping[str, Any] = MappingProxyType({})) -> T:
    """An entry of a view, by its model; what is null in it is as if it was missing.

    Args:
        model: reads what `store.view_model` describes.
        entry: as it is in the file.
        unknown: what an older file may lack.

    Raises:
        ValueError: it is no such entry.
    """
    if isinstance(entry, dict):
        entry = {**unknown, **{name: value for name, value in entry.items() if value is not None}}
    return model.validate_python(entry)


def _json(path: Path) -> Any:
    """The value in a file, with null for NaN and `?` for half a character: both are not JSON, but Python reads them."""
    value = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    text = json.dumps(value, ensure_ascii=False)
    return value if text.isascii() else json.loads(text.encode("utf-8", "replace"))


def _segment(folder: Path, name: str, unread: list[str]) -> list[Any]:
    if not _SEGMENT.fullmatch(name):  # a path that leads elsewhere is not followed
        unread.append("a file with a name that tenex does not use")
        return []
    try:
        found = _json(folder / name)
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        unread.append(name)
        return []
    return found
