"""The built-in library, and a copy of its folder that a test may spoil."""

import shutil
from pathlib import Path

import pytest

from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.tools.standard import TOOL_NAMES

WORKER = "---\nname: R\nrole: r\nkind: worker\nuse_when: asked\n{}---\nYou work.\n"
"""What is put in is in the sixth line."""


def library_with(folder: Path, slug: str, front: str, body: str = "You work.") -> PromptLibrary:
    """The built-in one with one more agent."""
    (folder / f"{slug}.md").write_text(WORKER.format(front).replace("You work.", body))
    return PromptLibrary.load(builtin_prompts(), folder, tools=TOOL_NAMES)


@pytest.fixture(scope="session")
def library() -> PromptLibrary:
    return PromptLibrary.load(builtin_prompts(), tools=TOOL_NAMES)


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
