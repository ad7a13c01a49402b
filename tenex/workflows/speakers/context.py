"""Variables of a workflow, changed by the code of a tool that a speaker's model calls.

@tool("Say what the ticket is about")
def classify(self, domain: str) -> str:
    set_context(domain=domain)
    return "Noted."
"""

from collections.abc import Generator
from contextvars import ContextVar
from typing import Any, Final

from tenex.core.errors import UsageError
from tenex.core.text.json_values import faults_of_value, plain

CHANGES: ContextVar["ContextChanges | None"] = ContextVar("tenex_context_changes", default=None)
"""Of the call that runs."""


class ContextChanges:
    """The variables that one call of a tool sets and removes; they count when the call returns."""

    def __init__(self) -> None:
        self.set_: dict[str, Any] = {}
        self.removed: dict[str, None] = {}


class _Done:
    """Lets code that AG2's users wrote await what is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return iter(())  # type: ignore[return-value]


_DONE: Final = _Done()


def set_context(*pair: Any, **variables: Any) -> _Done:
    """Set variables: `set_context("route", "security")` or `set_context(route="security")`; `await` is optional.

    Raises:
        UsageError: no tool runs that a model has called, or something is no variable.
    """
    changes = _changes("set_context")
    if len(pair) not in (0, 2) or (pair and not isinstance(pair[0], str)):
        raise UsageError("set_context takes a name and a value, or name=value; there is no channel to hand in.")
    given = {**({pair[0]: pair[1]} if pair else {}), **variables}
    if faults := [*faults_of_value(given, "set_context")]:
        raise UsageError(" ".join(faults))
    changes.set_.update(plain(given))
    for name in given:
        changes.removed.pop(name, None)
    return _DONE


def delete_context(*names: str) -> _Done:
    """Delete variables; one that is not set is passed over. `await` is optional.

    Raises:
        UsageError: no tool runs that a model has called, or a name is no text.
    """
    changes = _changes("delete_context")
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError("delete_context takes names of variables; there is no channel to hand in.")
    for name in names:
        changes.set_.pop(name, None)
        changes.removed[name] = None
    return _DONE


def _changes(function: str) -> ContextChanges:
    changes = CHANGES.get()
    if changes is None:
        raise UsageError(f"{function} works only in a tool while a model's call of it runs.")
    return changes
