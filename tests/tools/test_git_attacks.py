"""A person who uses git in the workspace, or below it, never runs what an agent has configured there."""

import os
import subprocess
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import shell_tool
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, git, make_context, needs_bubblewrap, needs_git
from .test_shell import SANDBOXED, registry_of, run

pytestmark = needs_git

ALARM = "touch $TENEX_ALARM"
CONFIG = f"""
[core]
    repositoryformatversion = 0
    bare = false
    worktree = .
    fsmonitor = "{ALARM}; false"
    hooksPath = /nonexistent
    pager = "{ALARM}"
"""


def make_bare(folder: str) -> str:
    """Commands that make a folder a repository for git, with a configuration that runs a command."""
    return (
        f"mkdir -p {folder}/objects {folder}/refs && cat > {folder}/config <<'E'\n{CONFIG}\nE\n"
        f"echo 'ref: refs/heads/main' > {folder}/HEAD\n"
    )


def alarms(root: Path, tmp_path: Path) -> list[str]:
    """Use git in every folder of the workspace as a person would; name those in which that ran an agent's command."""
    alarm = tmp_path / "alarm"
    env = {"PATH": os.environ["PATH"], "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1", "TENEX_ALARM": str(alarm)}
    found = []
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        for command in (["git", "add", "."], ["git", "st"], ["git", "status"], ["git", "log"], ["git", "diff"]):
            subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=20, check=False)
        if alarm.exists():
            alarm.unlink()
            found.append(str(folder.relative_to(root)))
    return found


INIT = f"git init -q . && git config core.fsmonitor '{ALARM}; false'"
WAYS = {
    "bare at the root": make_bare("."),
    "bare below": make_bare("a/b/c"),
    "bare within a bare one": make_bare("a") + make_bare("a/objects/b"),
    "bare in a folder with files of a person": make_bare("src"),
    "HEAD is a link": make_bare("a") + "ln -sf refs/heads/x a/HEAD",
    "parts are files": make_bare("a") + "rmdir a/objects a/refs && touch a/objects a/refs && chmod +x a/objects a/refs",
    "parts are links": make_bare("a") + "rmdir a/objects && ln -s /usr a/objects",
    "in node_modules": f"mkdir -p node_modules/x/y && cd node_modules/x/y && {INIT}",
    "in .venv": f"mkdir -p .venv/lib/x && cd .venv/lib/x && {INIT}",
    "in __pycache__": f"mkdir -p __pycache__/x && cd __pycache__/x && {INIT}",
    "bare in node_modules": make_bare("node_modules/x"),
    "a file that names a folder": make_bare("a") + "echo 'gitdir: ../a' > src/.git",
    "a folder that is shut": make_bare("a") + "chmod 311 a",
}


@needs_bubblewrap
@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION])
@pytest.mark.parametrize("way", WAYS)
async def test_a_command_leaves_no_repository(workspace: Workspace, tmp_path: Path, way: str, phase: Phase) -> None:
    (workspace.root / "src").mkdir()
    (workspace.root / "src/mine").write_text("mine")
    registry = ToolRegistry([shell_tool(workspace, SANDBOXED, may_write=lambda _: True)], ROSTER.get)
    result = await run(registry, WAYS[way], phase)
    assert result.ok, result.content
    assert alarms(workspace.root, tmp_path) == []
    assert "Taken away: " in result.content
    assert (workspace.root / "src/mine").read_text() == "mine"


@needs_bubblewrap
@pytest.mark.parametrize("name", ["HEAD", "refs", "objects", "commondir"])
async def test_only_what_makes_a_repository_is_taken_away(workspace: Workspace, tmp_path: Path, name: str) -> None:
    """A person's own files by these names stay."""
    registry = registry_of(workspace, SANDBOXED)
    (workspace.root / "a").mkdir()
    (workspace.root / "a" / name).write_text("mine")
    others = {"HEAD", "commondir"} if name in ("HEAD", "commondir") else {"HEAD", "objects", "refs"}
    made = " ".join(f"a/{other}" for other in others - {name})
    assert "Taken away: a." in (await run(registry, f"touch {made}")).content
    assert (workspace.root / "a" / name).read_text() == "mine"
    assert alarms(workspace.root, tmp_path) == []


@pytest.fixture
def bystander(workspace: Workspace) -> Path:
    """Repositories of a person where other tools do not look, and one whose parts lie elsewhere."""
    root = workspace.root
    for name in ("node_modules/x/y", ".venv/src/x", "__pycache__/x"):
        git(root, "init", "-q", name)
    git(root, "init", "-q", "--bare", "store.git")
    (root / "tree").mkdir()
    (root / "tree/HEAD").write_text("ref: refs/heads/main\n")
    (root / "tree/commondir").write_text("../store.git\n")
    return root


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@needs_bubblewrap
@pytest.mark.parametrize(
    "folder", ["node_modules/x/y/.git", ".venv/src/x/.git", "__pycache__/x/.git", "store.git", "tree"]
)
async def test_a_command_cannot_write_to_any_repository(workspace: Workspace, bystander: Path, folder: str) -> None:
    registry = registry_of(workspace, SANDBOXED)
    before = contents(bystander)
    for way in ("echo x >> {}/config", "echo x > {}/config.worktree", "mv {} old", "rm -rf {}", "echo x > {}/HEAD"):
        result = await run(registry, way.format(folder))
        assert not result.ok, way
    assert contents(bystander) == before


@pytest.mark.parametrize("last", ["HEAD", "refs/x", "objects/x", "commondir"])
@pytest.mark.parametrize("folder", ["", "a/", "node_modules/x/"])
async def test_no_file_can_be_written_or_moved_that_makes_its_folder_a_repository(
    registry: ToolRegistry, workspace: Workspace, tmp_path: Path, folder: str, last: str
) -> None:
    parts = ["HEAD", "commondir"] if last == "commondir" else ["HEAD", "refs/x", "objects/x"]
    for name in ("config", *(part for part in parts if part != last)):
        content = {"config": CONFIG, "HEAD": "ref: refs/heads/main\n"}.get(name, "x")
        written = await registry.call("write_file", {"path": folder + name, "content": content}, make_context())
        assert written.ok, written.content
    calls = {
        "write_file": {"path": folder + last, "content": "ref: refs/heads/main\n"},
        "move_file": {"path": folder + "config", "to": folder + last},
    }
    for tool, arguments in calls.items():
        result = await registry.call(tool, arguments, make_context())
        assert "would make its folder a repository of git's" in result.content
    assert alarms(workspace.root, tmp_path) == []


async def test_a_workspace_that_is_a_repository_is_left_alone(registry: ToolRegistry, workspace: Workspace) -> None:
    git(workspace.root, "init", "-q", "--bare", ".")
    for name in ("config", "hooks/post-checkout", "config.worktree"):
        result = await registry.call("write_file", {"path": name, "content": "x"}, make_context())
        assert not result.ok
        assert "leave it alone" in result.content


@needs_bubblewrap
async def test_a_workspace_that_is_a_repository_itself_is_read_only_to_a_command(workspace: Workspace) -> None:
    git(workspace.root, "init", "-q", "--bare", ".")
    registry = registry_of(workspace, SANDBOXED)
    for way in ("echo x >> config", "echo x > config.worktree", "echo x > commondir", "rm HEAD"):
        assert not (await run(registry, way)).ok, way


CONFIGURED = {
    "core.hooksPath": (".githooks", ".githooks/post-index-change", f"#!/bin/sh\n{ALARM}\n"),
    "core.fsmonitor": ("scripts/monitor.sh", "scripts/monitor.sh", f"#!/bin/sh\n{ALARM}\n"),
    "include.path": ("../.gitconfig", ".gitconfig", CONFIG),
    "filter.x.clean": ("sh 'tools/clean.sh' %f", "tools/clean.sh", f"{ALARM}; cat\n"),
    "alias.st": ("!sh tools/status.sh", "tools/status.sh", f"{ALARM}\n"),
}


@pytest.fixture(params=CONFIGURED)
def configured(request: pytest.FixtureRequest, workspace: Workspace) -> tuple[str, str]:
    """A person's repository whose configuration runs or reads a file of the workspace: that file, and an attack."""
    value, path, attack = CONFIGURED[request.param]
    root = workspace.root
    git(root, "init", "-q")
    git(root, "config", request.param, value)
    (root / "a").write_text("1\n")
    (root / ".gitattributes").write_text("* filter=x\n")
    return path, attack


@needs_bubblewrap
@pytest.mark.parametrize("is_there", [True, False])
async def test_what_a_persons_configuration_runs_cannot_be_changed_by_a_command(
    workspace: Workspace, tmp_path: Path, configured: tuple[str, str], is_there: bool
) -> None:
    path, attack = configured
    place = workspace.root / path
    if is_there:
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
        place.chmod(0o755)
    top = path.partition("/")[0]
    (workspace.root / "new").write_text(attack)
    (workspace.root / "new").chmod(0o755)
    plant = f"mkdir -p $(dirname {path}); cp -p new {path}"
    for way in (plant, f"mv {top} old; {plant}", f"mv {top} old; mkdir e; (cd e; {plant}); ln -s e/{top} {top}"):
        await run(registry_of(workspace, SANDBOXED), way)
        assert not place.exists() or place.read_text() != attack, way
    assert alarms(workspace.root, tmp_path) == []


@needs_bubblewrap
@pytest.mark.parametrize("link", ["hooks", "elsewhere/hooks", "{root}/elsewhere/hooks"])
async def test_hooks_behind_a_link_cannot_be_changed_either(workspace: Workspace, tmp_path: Path, link: str) -> None:
    root = workspace.root
    git(root, "init", "-q")
    git(root, "config", "core.hooksPath", ".githooks/mine")
    target = root / link.format(root=root)
    (target / "mine").mkdir(parents=True)
    (root / ".githooks").symlink_to(link.format(root=root))
    attack = f"echo '{ALARM}' > {{0}}/post-index-change; chmod +x {{0}}/post-index-change"
    for way in (
        attack.format(".githooks/mine"),
        attack.format(target / "mine"),
        f"rm .githooks; mkdir -p .githooks/mine; {attack.format('.githooks/mine')}",
        f"mkdir -p e/mine; ln -sfn e .githooks; {attack.format('e/mine')}",
        f"mv {target} old; mkdir -p {target}/mine; {attack.format(target / 'mine')}",
    ):
        result = await run(registry_of(workspace, SANDBOXED), way)
        assert "bwrap" not in result.content
        assert alarms(root, tmp_path) == [], way
    (root / "a").touch()
    assert (await run(registry_of(workspace, SANDBOXED), "echo x > a")).ok


async def test_no_tool_changes_what_git_runs(
    registry: ToolRegistry, workspace: Workspace, configured: tuple[str, str]
) -> None:
    path, attack = configured
    result = await registry.call("write_file", {"path": path, "content": attack}, make_context())
    assert "is run or read by git, as it is configured here" in result.content
    moved = await registry.call("move_file", {"path": "a", "to": path}, make_context())
    assert "is run or read by git, as it is configured here" in moved.content
    assert not (workspace.root / path).exists()
    assert (await registry.call("write_file", {"path": "scripts/other.sh", "content": "x"}, make_context())).ok


async def test_configured_words_that_are_no_paths_name_no_files(registry: ToolRegistry, workspace: Workspace) -> None:
    git(workspace.root, "init", "-q")
    for name, value in {"alias.lg": "log --all", "credential.helper": "store", "core.pager": "less -R"}.items():
        git(workspace.root, "config", name, value)
    for path in ("log", "store/a", "less", "checkout"):
        assert (await registry.call("write_file", {"path": path, "content": "x"}, make_context())).ok
