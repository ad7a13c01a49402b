"""What features offer is there, and is gone without them."""

from importlib import import_module

import pytest

from tenex.cli.main import run
from tenex.feature import Feature
from tenex.main import FEATURES

COMMANDS = [(feature, command) for feature in FEATURES for command in feature.commands]


def without(feature: Feature) -> list[Feature]:
    return [one for one in FEATURES if one is not feature]


def test_a_feature_has_the_name_of_its_folder_and_no_name_is_there_twice() -> None:
    names = [feature.name for feature in FEATURES]
    assert len(set(names)) == len(names)
    assert all(import_module(f"tenex.features.{name}.feature") for name in names)


@pytest.mark.parametrize(("feature", "command"), COMMANDS, ids=lambda one: one.name)
def test_a_command_of_a_feature_is_in_the_help_and_without_the_feature_there_is_none(
    feature: Feature, command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    words = str(getattr(command, "name", "")).split()
    for features, is_there in ((FEATURES, True), (without(feature), False)):
        assert run([*words[:-1], "--help"], features) == 0
        listed = [line.split()[0] for line in capsys.readouterr().out.split("Commands:\n")[1].splitlines() if line]
        assert (words[-1] in listed) is is_there
        assert run([*words, "--help"], features) == (0 if is_there else 2)
        assert ("No such command" in capsys.readouterr().err) is not is_there
