"""`tenex acp` where it cannot be an agent."""

from importlib import metadata

import pytest

from tests.kits.commands import Tenex


def test_without_the_package_the_command_that_installs_it_is_named(
    tenex: Tenex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert "-m pip install 'tenexd[acp]'" in tenex("acp", code=2).err


def test_a_folder_without_keys_is_refused(tenex: Tenex) -> None:
    printed = tenex("acp", code=3)
    assert "`tenex init` makes one" in printed.err
    assert printed.out == ""
