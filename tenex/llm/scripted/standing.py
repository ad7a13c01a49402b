"""An agent with state of its own fills it in, once in a run.

So that a person without a model sees such an agent go through its phases: a text of its state becomes the request, and
a list gets three items that say they are no findings.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenex.core.messages import ModelRequest
from tenex.core.state.agent_tools import APPEND, SET

from .moves import Move, act
from .tasks import short
from .transcript import Transcript

_FIELD = re.compile(r"`(?P<name>\w+)` \((?P<kind>\w+)")
"""A field as the description of the tool tells it."""
ITEMS = 3


def move_on(seen: Transcript, request: ModelRequest) -> Move | None:
    """The next changes an agent makes of its own state; None where there is none to make."""
    calls = [*_changes(seen, request)]
    return act(*calls) if calls else None


def _changes(seen: Transcript, request: ModelRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Texts in one answer, lists in the next: there may be a phase between them."""
    told = {tool.name: tool.description for tool in request.tools}
    wanted = short(" ".join(seen.newest), 200) or "(no words)"
    if SET in told and not seen.calls(SET):
        texts = [found["name"] for found in _FIELD.finditer(told[SET]) if found["kind"] == "text"]
        yield from ((SET, {"field": name, "value": wanted}) for name in texts)
        if texts:
            return
    if APPEND in told and not seen.calls(APPEND):
        for found in _FIELD.finditer(told[APPEND]):
            for number in range(1, ITEMS + 1):
                item = f"{number}: the offline model has looked nothing up about “{short(wanted, 80)}”"
                yield APPEND, {"field": found["name"], "value": item}
