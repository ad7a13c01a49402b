"""The port of the kinds of conversation: their order and their registry."""

from pathlib import Path

import pytest

from tenex import workflows
from tenex.core import mode as port
from tenex.core.errors import InternalError
from tenex.core.mode import all_modes, mode_of
from tenex.workflows.missions.mode import MissionsMode
from tenex.workflows.phases.mode import PhasesMode
from tenex.workflows.single.mode import SingleMode
from tenex.workflows.speakers.mode import SpeakersMode
from tests.fakes.scenario import Router, Scenario, plain_model


def test_without_a_registered_kind_the_error_shows_what_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_MODES", [])
    with pytest.raises(InternalError, match=r"import tenex\.workflows"):
        all_modes()


def test_every_kind_of_conversation_is_registered_and_the_phases_own_what_no_other_owns() -> None:
    assert [type(mode) for mode in all_modes()] == [SpeakersMode, MissionsMode, SingleMode, PhasesMode]
    assert isinstance(mode_of(Scenario(Router({}), plain_model).conversation), PhasesMode)
    folders = {path.parent.name for path in Path(workflows.__file__).parent.glob("*/mode.py")}
    assert {type(mode).__module__.split(".")[-2] for mode in all_modes()} == folders
