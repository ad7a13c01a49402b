"""The port of the kinds of conversation: their order and their registry."""

from pathlib import Path

import pytest

from tenex import workflows
from tenex.core import kind as port
from tenex.core.errors import InternalError
from tenex.core.kind import all_kinds, kind_of_conversation
from tenex.workflows.phases.kind import PhasesKind
from tests.fakes.scenario import Router, Scenario, plain_model


def test_without_a_registered_kind_the_error_shows_what_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_KINDS", [])
    with pytest.raises(InternalError, match=r"import tenex\.workflows"):
        all_kinds()


def test_every_kind_of_conversation_is_registered_and_the_phases_own_what_no_other_owns() -> None:
    assert isinstance(all_kinds()[-1], PhasesKind), "PhasesKind owns all the rest, so it is registered last"
    assert isinstance(kind_of_conversation(Scenario(Router({}), plain_model).conversation), PhasesKind)
    folders = {path.parent.name for path in Path(workflows.__file__).parent.glob("*/kind.py")}
    assert {type(kind).__module__.split(".")[-2] for kind in all_kinds()} == folders
