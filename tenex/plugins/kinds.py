"""Kinds of conversation that the packages which the operator allows bring, by their entry points.

A kind decides what happens in a conversation, so it is built of the core (`tenex.core.kind`), which changes with every
version: a package with one names the versions of tenex that it works with. Its journals can be read only where it is
registered, so it is registered before any is read, once for the life of the process. A faulty one is named and left
out.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from importlib import metadata
from typing import Any, Final

import tenex.workflows  # noqa: F401 - registers the kinds that are built in, of which the last owns all the rest
from tenex.core.conversation import new_conversation
from tenex.core.errors import ConfigurationError
from tenex.core.ids import ConversationId
from tenex.core.kind import Kind, register
from tenex.core.kind_format import FORMATS
from tenex.core.record import Record
from tenex.core.reducers import Reducers
from tenex.core.state import KindState
from tenex.workflows.kit.loading import load_object

from .api import check_version
from .loading import load_within
from .packages import KINDS, entries_of

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")

_tried: Final[dict[tuple[str, str, str], tuple[str, ...]]] = {}
"""What is wrong with each entry point that was loaded, by package, name and value; Python loads a module once."""


def register_kinds(allowed: Iterable[str]) -> list[str]:
    """Register the kinds of the allowed packages; gives a sentence for each that is left out. May be repeated."""
    entries = [*entries_of(allowed, KINDS)]
    counts = Counter(entry.name for _, entry in entries)
    faults: list[str] = []
    for package, entry in entries:
        key = (package, entry.name, entry.value)
        if counts[entry.name] > 1 and key not in _tried:
            faults.append(f"{package}: two packages have the kind of conversation {entry.name}. Remove one of them.")
            continue
        if key not in _tried:
            _tried[key] = _register(package, entry)
        faults += _tried[key]
    return faults


def _register(package: str, entry: metadata.EntryPoint) -> tuple[str, ...]:
    """Register a kind; or what is wrong with it."""
    try:
        kind, _ = load_within(partial(_load, entry))
    except ConfigurationError as error:
        return tuple(f"{package}: the kind of conversation {entry.name}: {fault}" for fault in error.faults)
    register(kind)
    return ()


def _load(entry: metadata.EntryPoint) -> Kind:
    """The kind of an entry point.

    Raises:
        ConfigurationError: it is none that can be registered.
    """
    if entry.name in FORMATS:
        raise ConfigurationError(["there is a kind of this name. Call it by another."])
    if not _NAME.fullmatch(entry.name):
        raise ConfigurationError(["it cannot be called so: use small letters, digits and `_`, 32 at most."])
    cls = load_object(entry.value, lambda value: isinstance(value, type), "class")
    check_version(sys.modules.get(entry.module))
    if not isinstance(cls, type) or not issubclass(cls, Kind):
        raise ConfigurationError([f"{entry.value} is no subclass of tenex.core.kind.Kind."])
    fault = _fault_of(cls, entry.name)
    if fault:
        raise ConfigurationError([f"{entry.value}: {fault}"])
    kind: Kind = cls()
    if kind.owns(new_conversation(ConversationId("0" * 64))):
        raise ConfigurationError([f"{entry.value}: it owns conversations that have not begun, and so all of them."])
    return kind


def _fault_of(cls: type[Kind], name: str) -> str:
    """What is wrong with the declarations of a kind; "" for nothing."""
    if cls.name != name:
        return f"its name is {cls.name!r}, and that of its entry point {name!r}. Give both the same."
    if not _is_class(cls.state, KindState):
        return "its `state` is no subclass of tenex.core.state.KindState."
    if not all(_is_class(record, Record) for record in cls.records):
        return "one of its `records` is no subclass of tenex.core.record.Record."
    if not isinstance(cls.reducers, Reducers) or cls.reducers.part != name:
        return f"its `reducers` are not those of the part {name!r}."
    return ""


def _is_class(value: Any, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)
