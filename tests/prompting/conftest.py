"""The built-in library, and a copy of its folder that a test may spoil."""

import shutil
from pathlib import Path

import pytest

from tenex.prompting import PromptLibrary, builtin_prompts

READS = frozenset({"read_file", "list_files", "search_files", "git_status", "git_diff"})
TOOLS = READS | {"write_file", "edit_file", "move_file", "delete_file", "check", "shell"}


@pytest.fixture(scope="session")
def library() -> PromptLibrary:
    return PromptLibrary.load(builtin_prompts(), tools=TOOLS)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the built-in prompts."""
    return Path(shutil.copytree(builtin_prompts(), tmp_path / "prompts"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An operator's folder of agents, empty."""
    folder = tmp_path / "own"
    folder.mkdir()
    return folder
