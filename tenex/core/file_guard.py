"""Asks whether the bytes that were read of a file may be used; `settings.trust` answers.

Files of the operator are read in several packages, none of which knows where trust is kept.
"""

from collections.abc import Callable

Guard = Callable[[str, bytes], None]
"""Is called with the path and the bytes of a file; raises ConfigurationError where they may not be used."""

_guards: dict[str, Guard] = {}


def guard(data_folder: str, check: Guard | None) -> None:
    """Set the guard of a data folder; None removes it."""
    if check is None:
        _guards.pop(data_folder, None)
    else:
        _guards[data_folder] = check


def guarded(path: object, data: bytes) -> bytes:
    """The bytes of a file, if they may be used.

    Raises:
        ConfigurationError: they are not what the user has trusted.
    """
    for check in _guards.values():
        check(str(path), data)
    return data
