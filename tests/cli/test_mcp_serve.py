"""`tenex mcp serve` where it cannot serve."""

import socket
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tests.kits.commands import Tenex


@pytest.mark.parametrize("version", ["", "1.30.0"], ids=["missing", "old"])
def test_without_the_package_or_with_an_old_one_the_command_that_installs_it_is_named(
    tenex: Tenex, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    real = metadata.version

    def installed(name: str) -> str:
        if name != "mcp":
            return real(name)
        if not version:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    said = tenex("mcp serve", code=2).err
    assert "-m pip install 'tenexd[mcp]'" in said
    assert version in said


def test_a_folder_without_keys_is_refused(tenex: Tenex) -> None:
    printed = tenex("mcp serve", code=3)
    assert "`tenex init` makes one" in printed.err
    assert printed.out == ""


def test_a_port_that_is_taken_is_named(tenex: Tenex, data: Path) -> None:
    prepare(data, None, ["ws://127.0.0.1:1"])
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert f"Port {port} on 127.0.0.1 cannot be used" in tenex(f"mcp serve --http {port}", code=2).err
