"""What the project's file promises to those who install: `make release-check` installs it, and takes minutes."""

import re
import tomllib
from pathlib import Path
from typing import Any

from tests.packaging.__main__ import VERSIONS

PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"))
OF_DEVELOPERS = {"all", "dev", "mutation", "release", "site"}


def test_the_extra_all_has_every_extra_of_users() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (requirement,) = extras["all"]
    names = re.fullmatch(r"tenexd\[(.+)\]", requirement)
    assert names is not None
    assert set(names[1].split(",")) == set(extras) - OF_DEVELOPERS


def test_the_command_has_the_name_of_the_distribution_too() -> None:
    """`uvx NAME` and `pipx run NAME` start the command that is called as the distribution is."""
    scripts = PROJECT["project"]["scripts"]
    assert scripts[PROJECT["project"]["name"]] == scripts["tenex"]


def test_each_python_that_is_named_is_one_that_the_release_is_installed_with() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.MULTILINE)
    assert tuple(named) == VERSIONS
