"""Layers: which package may import which, as pyproject.toml has it and import-linter checks it."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from .tree import ROOT, named

LINTER = Path(sys.executable).with_name("lint-imports")


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def _layers() -> list[list[str]]:
    """The modules of each layer, the highest first; a module in parentheses may be missing."""
    layers = next(contract["layers"] for contract in _contracts() if contract["type"] == "layers")
    return [[word.strip() for word in layer.split("|")] for layer in layers]


def test_the_contracts_are_kept() -> None:
    """import-linter finds every contract kept in the package as it is."""
    words = [str(LINTER), "--no-cache", "--no-logo"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(_contracts())} kept, 0 broken." in done.stdout


def test_every_module_is_in_a_layer() -> None:
    """A module outside the layers could import anything; only `tenex/__init__.py` may be there."""
    known = {word.strip("() ") for layer in _layers() for word in layer}
    found = {_top(path) for path in named(".py", "tenex")} - {"tenex"}
    assert found, "the package was not found"
    assert found <= known, f"in no layer: {sorted(found - known)}"


def _top(path: Path) -> str:
    """`tenex/core/ids.py` belongs to `tenex.core`, `tenex/telemetry.py` is `tenex.telemetry`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "tenex" if parts[1:] == ("__init__",) else f"tenex.{parts[1]}"


def test_no_module_is_in_two_layers() -> None:
    """A module named twice would be where one reads first."""
    words = [word.strip("() ") for layer in _layers() for word in layer]
    assert len(words) == len(set(words))
