"""The shadow repository is repaired, or begun again, whatever was done to it or planted in its way."""

import shutil
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools.workspace import Workspace

from .conftest import git, make_context, needs_git
from .test_serialized_calls import registry_of, shell

pytestmark = needs_git

CONVERSATION = "c" * 64


@pytest.mark.parametrize("damage", ["commit", "tree", "empty ref", "ref", "HEAD", "objects", "config"])
async def test_an_unreadable_repository_is_replaced(workspace: Workspace, folder: Path, damage: str) -> None:
    """As a machine without power leaves it. The work goes on, and what was kept is not thrown away."""
    (workspace.root / "a").write_text("1")
    await shell(registry_of(workspace, folder), "echo 2 > a")
    ref = folder / "refs/tenex" / CONVERSATION
    match damage:
        case "commit" | "tree":
            name = git(folder, "rev-parse", ref.read_text().strip() + ("^{tree}" if damage == "tree" else "")).strip()
            place = folder / "objects" / name[:2] / name[2:]
            place.chmod(0o600)
            place.write_text("")
        case "empty ref" | "ref":
            ref.write_text("" if damage == "empty ref" else "x" * 40)
        case "objects":
            shutil.rmtree(folder / "objects")
        case name:
            (folder / name).write_text("")
    result = await shell(registry_of(workspace, folder), "echo 3 > a", make_context(Phase.VERIFICATION))
    assert result.reverted == ("a",)
    assert (workspace.root / "a").read_text() == "2\n"
    aside = [path for path in folder.parent.iterdir() if path.name.startswith("checkpoints.broken-")]
    assert len(aside) == (damage != "config")  # that one is written at every start


async def test_unreadable_content_is_reported_and_the_rest_put_back(workspace: Workspace, folder: Path) -> None:
    for name in "abc":
        (workspace.root / name).write_text(name)
    tools = registry_of(workspace, folder)
    await shell(tools, "true")
    blob = git(folder, "rev-parse", f"refs/tenex/{CONVERSATION}:b").strip()
    place = folder / "objects" / blob[:2] / blob[2:]
    place.chmod(0o600)
    place.write_text("")
    result = await shell(tools, "echo x | tee a b c", make_context(Phase.VERIFICATION))
    assert result.reverted == ("a", "c")
    assert "Could not be put back: b; name this in your summary." in result.content
    assert [(workspace.root / name).read_text() for name in "ac"] == ["a", "c"]


@pytest.mark.parametrize("name", ["index.lock", "packed-refs.lock", f"refs/tenex/{CONVERSATION}.lock"])
async def test_locks_of_a_killed_git_do_not_block_a_start(workspace: Workspace, folder: Path, name: str) -> None:
    (workspace.root / "a").write_text("1")
    await shell(registry_of(workspace, folder), "echo 2 > a")
    (folder / name).write_text("")
    result = await shell(registry_of(workspace, folder), "echo 3 > a", make_context(Phase.VERIFICATION))
    assert result.reverted == ("a",)
    assert not (folder / name).exists()


async def test_no_ignore_file_brings_in_what_is_never_kept(workspace: Workspace, folder: Path) -> None:
    (workspace.root / "node_modules").mkdir()
    (workspace.root / ".gitignore").write_text("!node_modules\n")
    result = await shell(registry_of(workspace, folder), "echo 1 > node_modules/x; echo 2 > y")
    assert result.touched == ("y",)


async def test_deeply_nested_repositories_do_not_block_a_snapshot(workspace: Workspace, folder: Path) -> None:
    nested = "d=.; for i in 1 2 3 4 5 6 7 8 9 10 11; do d=$d/n; git init -q $d; echo 1 > $d/f; done; echo 1 > a"
    result = await shell(registry_of(workspace, folder), nested)
    assert {"a", "n/f", "n/n/n/n/n/n/n/f"} <= set(result.touched)


async def test_a_pipe_in_a_repository_does_not_block(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sandbox, repositories stay; git opens what leads to their commits."""
    monkeypatch.setattr("tenex.tools.checkpoints.PATIENCE", 1.0)
    planted = "mkdir -p s/.git/objects s/.git/refs; mkfifo s/.git/HEAD; echo 1 > a"
    result = await shell(registry_of(workspace, folder), planted)
    assert result.touched == ("a",)
