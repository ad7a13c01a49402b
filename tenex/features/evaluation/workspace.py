"""The workspace of a scenario at its beginning: a copy of its repository, its files, and an environment of its own."""

import os
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError

from .scenario import Scenario

_AUTHOR: Final = ("-c", "user.name=author", "-c", "user.email=author@localhost", "-c", "commit.gpgsign=false")
_QUIET: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def prepare_workspace(scenario: Scenario, root: Path) -> None:
    """Write what the scenario begins with to an empty folder, or one that does not exist.

    Raises:
        ConfigurationError: a file cannot be copied, or git or the environment cannot be set up.
    """
    try:
        _prepare(scenario, root)
    except (OSError, subprocess.SubprocessError) as error:
        why = f"{scenario.name}: the workspace cannot be prepared: {error}"
        raise ConfigurationError([why]) from error


def _prepare(scenario: Scenario, root: Path) -> None:
    if scenario.source is not None:
        shutil.copytree(
            scenario.source, root, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file, text in scenario.files.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if scenario.source is not None and not (root / ".git").exists():
        _commit_all(root)
    if scenario.venv:
        venv.create(root / ".venv", symlinks=True, with_pip=False)


def _commit_all(root: Path) -> None:
    """Make a git repository with one commit, where git is installed."""
    git = shutil.which("git")
    if git is None:
        return
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # another repository's
    environment = {**own, **_QUIET}
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        (*_AUTHOR, "commit", "--quiet", "--allow-empty", "-m", "Begin"),
    ):
        subprocess.run([git, *arguments], cwd=root, env=environment, check=True, timeout=60)
