"""`config/tenex.example.toml` holds each setting with the default of the code."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from tenex.settings import Settings, example_config, load

TEXT = example_config().read_text(encoding="utf-8")
GIVEN = tomllib.loads(TEXT)
NOWHERE = example_config().parent / "nowhere"


def leaves(values: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{at}{name}.")
        else:
            yield f"{at}{name}", value


def commented() -> set[str]:
    """The settings shown as `# name = value` or `# [table]`, with their table."""
    found, table = set(), ""
    for line in TEXT.splitlines():
        if header := re.fullmatch(r"(?:# )?\[([a-z_.]+?)(?:\.\"[^\"]+\")?\]", line):
            table = header.group(1)
            found.add(table)
        elif value := re.fullmatch(r"# ([a-z_]+) = .+", line):
            found.add(f"{table}.{value.group(1)}")
    return found


def test_every_setting_is_in_the_example_with_its_default() -> None:
    defaults, given = dict(leaves(Settings().model_dump())), dict(leaves(GIVEN))
    assert given == {name: value for name, value in defaults.items() if name in given}
    assert defaults.keys() - given.keys() - commented() <= {"models.agents"}
    assert {"models.agents.executor.model", "models.agents.executor.phases"} <= commented()
    assert load(example_config(), example_config().parent, env={}).model_dump() == Settings().model_dump()


def test_the_example_still_holds_with_every_optional_line_switched_on() -> None:
    shown = re.sub(r"(?m)^# (?=(?:\[[a-z_.]+(?:\.\"[^\"]+\")?\]|[a-z_]+ = .+)$)", "", TEXT)
    settings = load(None, NOWHERE, env={}, overrides=tomllib.loads(shown))
    assert settings.models.agents["executor"].phases.verification == "offline"
    assert settings.limits.expectations.execute is not None
    assert settings.models.providers["local"].base_url == "http://127.0.0.1:8080/v1"
    assert settings.models.prices["local:qwen3"].cached_input == 0.01


def test_every_section_of_the_code_is_closed_to_unknown_names() -> None:
    schema = Settings.model_json_schema()
    assert all(section["additionalProperties"] is False for section in (schema, *schema["$defs"].values()))


def test_the_variables_of_the_environment_example_are_settings() -> None:
    text = (example_config().parent / "tenex.env.example").read_text(encoding="utf-8")
    shown = dict(re.findall(r"(?m)^#(TENEX_[A-Z_]+)=(.*)$", text))
    assert len(shown) >= 5
    assert len(load(None, NOWHERE, env=shown).origins) == len(shown) - 1  # TENEX_DATA is none
