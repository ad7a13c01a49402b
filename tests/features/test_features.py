"""What features offer is there, and is gone without them."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import tenex
from tenex.cli.main import run
from tenex.feature import Command, Feature
from tenex.features.published_agents.feature import PUBLISHED_AGENTS
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
    feature: Feature, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    *group, word = command.name.split()
    for features, is_there in ((FEATURES, True), (without(feature), False)):
        assert run([*group, "--help"], features) == 0
        listed = re.findall(r"^  ([a-z]\S*)", capsys.readouterr().out.split("Commands:\n")[1], re.MULTILINE)
        assert (word in listed) is (is_there or command.is_variant)
        assert run([*group, word, "--help"], features) == (0 if word in listed else 2)
        assert ("No such command" in capsys.readouterr().err) is (word not in listed)


def test_a_variant_adds_its_options_and_takes_its_calls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--data", str(tmp_path), "agents", "add", f"naddr1{'q' * 40}", "--relay", "wss://relay.example"]
    assert run(words, FEATURES) == 2
    assert "This cannot be looked up" in capsys.readouterr().err
    assert run(words, without(PUBLISHED_AGENTS)) == 2
    assert "No such option: --relay" in capsys.readouterr().err
    assert run(words[:-2], without(PUBLISHED_AGENTS)) == 2
    assert "SLUG is the name of an agent, and this looks like a key" in capsys.readouterr().err


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: one.name)
def test_the_readme_of_a_feature_names_what_it_offers(feature: Feature) -> None:
    """No more: a command, check, part or section of settings that it names is the feature's."""
    text = (Path(inspect.getfile(tenex)).parent / "features" / feature.name / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    assert text.startswith(f"# {feature.name}\n")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(sections)[:3] == ["Offers", "Settings", "Limits"]
    offers = sections["Offers"]
    assert re.findall(r"command `tenex (.+?)`", offers) == [command.name for command in feature.commands]
    assert re.findall(r"check `(.+?)`", offers) == [check.name for check in feature.checks()]
    assert re.findall(r"part `(.+?)`", offers) == [part.name for part in feature.status()]
    assert re.findall(r"page `(.+?)`", offers) == [part.page for part in feature.pages()]
    assert re.findall(r"tool `(.+?)`", offers) == list(feature.tools)
    assert re.findall(r"`\[(.+?)\]`", sections["Settings"]) == list(feature.settings)
