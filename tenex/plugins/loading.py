"""Runs the code by which a plugin is loaded: in a thread, for a bounded time, and whatever it does is a fault of it."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, TypeVar

from tenex.core.errors import ConfigurationError, words_of
from tenex.runtime.functions import interrupt

from .output import captured

SECONDS: Final = 10.0
"""A plugin may take to load: a large library takes two or three."""

T = TypeVar("T")


def load_within(load: Callable[[], T]) -> tuple[T, str]:
    """What loading gives, and the beginning of what was printed meanwhile; blocks for `SECONDS` at most.

    Raises:
        ConfigurationError: it raised anything, or took too long; then it is interrupted and abandoned.
    """
    loaded: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            loaded.append(load())
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    with captured() as printed:
        context = copy_context()
        thread = threading.Thread(target=lambda: context.run(body), name="tenex-plugin-load", daemon=True)
        thread.start()
        thread.join(SECONDS)
    if loaded:
        return loaded[0], "".join(printed)
    if not errors:
        interrupt(thread)
        raise ConfigurationError([f"it was not loaded within {SECONDS:g} s and was given up; load what is slow later."])
    if isinstance(errors[0], ConfigurationError):
        raise errors[0]
    text = words_of(errors[0])
    what = f"{type(errors[0]).__name__}{f': {text}' if text else ''}"
    raise ConfigurationError([f"it failed while it was loaded: {what.removesuffix('.')}. Fix it."]) from errors[0]
