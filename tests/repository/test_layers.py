"""Layers: which package may import which, as pyproject.toml has it and import-linter checks it."""

import subprocess
import sys
import tomllib
from pathlib import Path

from .tree import ROOT

LINTER = Path(sys.executable).with_name("lint-imports")


def test_the_contracts_are_kept() -> None:
    """import-linter finds every contract kept in the package as it is, and every module in a layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    words = [str(LINTER), "--no-cache", "--no-logo"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(contracts)} kept, 0 broken." in done.stdout
