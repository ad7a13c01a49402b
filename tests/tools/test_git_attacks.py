"""A person who uses git in the workspace, or below it, never runs what an agent has configured there."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools import workspace_scan
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_scan import Settled, settle, take
from tests.programs import needs_bubblewrap, needs_git

from .conftest import SANDBOXED, Bench, contents, every_tool, git, make_deep, names_in, put, until

pytestmark = needs_git

LARGE = b"x" * 11_000_000
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


def alarms(root: Path) -> list[str]:
    """Use git in every folder of the workspace as a person would; name those in which that ran an agent's command."""
    alarm = root.parent / "alarm"
    env = {"PATH": os.environ["PATH"], "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1", "TENEX_ALARM": str(alarm)}
    found = []
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts)):
        for command in ("add .", "st", "status", "log", "diff"):
            subprocess.run(["git", *command.split()], cwd=folder, env=env, capture_output=True, timeout=20, check=False)
        if alarm.exists():
            alarm.unlink()
            found.append(str(folder.relative_to(root)))
    return found


INIT = f"git init -q . && git config core.fsmonitor '{ALARM}; false'"
WAYS = {
    "at the root": INIT,
    "bare at the root": make_bare("."),
    "bare within a bare one": make_bare("a") + make_bare("a/objects/b"),
    "bare in a folder with files of a person": make_bare("src"),
    "HEAD is a link": make_bare("a") + "ln -sf refs/heads/x a/HEAD",
    "parts are files": make_bare("a") + "rmdir a/objects a/refs && touch a/objects a/refs && chmod +x a/objects a/refs",
    "parts are links": make_bare("a") + "rmdir a/objects && ln -s /usr a/objects",
    "in node_modules": f"mkdir -p node_modules/x/y && cd node_modules/x/y && {INIT}",
    "bare in .venv": make_bare(".venv/x"),
    "a file that names a folder": make_bare("a") + "echo 'gitdir: ../a' > src/.git",
    "a folder that is shut": make_bare("a") + "chmod 311 a",
    "a pipe in one": "mkdir -p s/.git/objects s/.git/refs; mkfifo s/.git/HEAD",
    "in a repository": make_bare("a/.git") + make_bare("a/.git/b/.git") + make_bare("a/.git/c"),
    "in one that is shut": make_bare("a/.git/b") + make_bare("a/.git/c/.git") + "chmod 311 a/.git/c a/.git",
    "a link": "ln -s /tmp .git",
    "in capitals": "mkdir .GIT; echo x > .GIT/config",
}


@needs_bubblewrap
@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES])
@pytest.mark.parametrize("way", WAYS)
async def test_a_command_leaves_no_repository(workspace: Workspace, root: Path, way: str, phase: Phase) -> None:
    put(root, {"src/mine": "mine"})
    result = await every_tool(workspace, policy=RunPolicy.SANDBOXED).run(WAYS[way], phase)
    assert result.ok, result.content
    assert alarms(root) == []
    assert ("Taken away: " in result.content) == (phase is Phase.EXECUTE)
    assert [path for path in root.rglob("*") if path.name.lower() == ".git"] == []
    assert (root / "src/mine").read_text() == "mine"


@needs_bubblewrap
@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION])
@pytest.mark.parametrize(
    "way",
    [
        "mkdir -p n/.git; mv mine n/.git/",
        "mkdir -p a/objects a/refs; mv mine a/HEAD",
        "mv mine .githooks",
        "mkdir -p a/objects a/refs a/HEAD; mv mine a/HEAD/",
    ],
)
async def test_what_is_taken_away_with_a_repository_is_not_lost(
    workspace: Workspace, root: Path, folder: Path, way: str, phase: Phase
) -> None:
    """A command may have moved a person's file into it, of which no checkpoint has a copy."""
    git(root, "init", "-q")
    git(root, "config", "core.hooksPath", ".githooks")
    put(root, {"mine": LARGE})
    result = await every_tool(workspace, folder, RunPolicy.SANDBOXED).run(way, phase)
    assert ("Taken away: " in result.content) == (phase is Phase.EXECUTE)
    assert [path for path in root.rglob("*") if path.is_file() and path.stat().st_size == len(LARGE)]
    assert alarms(root) == []


@needs_bubblewrap
async def test_a_repository_that_a_person_makes_during_a_command_is_renamed_with_its_commits(
    workspace: Workspace, root: Path
) -> None:
    tools = Bench([shell_tool(Programs(workspace, SANDBOXED))])
    command = asyncio.create_task(tools.run("touch started; while [ ! -e made ]; do sleep 0.02; done"))
    await until((root / "started").exists, "the command runs")
    git(root, "init", "-q", "project")
    put(root, {"project/a": "mine"})
    git(root / "project", "add", "a")
    git(root / "project", "commit", "-q", "-m", "a night of work")
    put(root, {"made": ""})
    assert "Taken away: project/.git. It is renamed, with `.replaced-` and digits" in (await command).content
    (renamed,) = (root / "project").glob(".git.replaced-*")
    (head,) = renamed.glob("HEAD.replaced-*")
    renamed.rename(root / "project/.git")
    (root / "project/.git" / head.name).rename(root / "project/.git/HEAD")
    assert git(root / "project", "log", "--format=%s") == "a night of work\n"


@needs_bubblewrap
@pytest.mark.parametrize("name", ["HEAD", "refs", "objects", "commondir"])
async def test_only_what_makes_a_repository_is_taken_away(sandboxed: Bench, root: Path, name: str) -> None:
    """A person's own files by these names stay."""
    put(root, {f"a/{name}": "mine"})
    others = {"HEAD", "commondir"} if name in ("HEAD", "commondir") else {"HEAD", "objects", "refs"}
    made = " ".join(f"a/{other}" for other in others - {name})
    assert "Taken away: a." in (await sandboxed.run(f"touch {made}")).content
    assert (root / "a" / name).read_text() == "mine"
    assert alarms(root) == []


REPOSITORIES = [".git", "inner/clone/.git", "node_modules/x/y/.git", "store.git", "tree"]
"""Of a person: of the workspace, a clone, where other tools do not look, a bare one, and one whose parts lie there."""


@needs_bubblewrap
@pytest.mark.parametrize("folder", REPOSITORIES)
async def test_a_command_reads_any_repository_and_cannot_write_to_it(sandboxed: Bench, root: Path, folder: str) -> None:
    """What is written there would be run when a person next uses git, outside."""
    for name in (".", "inner/clone", "node_modules/x/y"):
        git(root, "init", "-q", name)
    git(root, "init", "-q", "--bare", "store.git")
    put(root, {"tree/HEAD": "ref: refs/heads/main\n", "tree/commondir": "../store.git\n"})
    put(root, {"module/.git": "gitdir: ../store.git\n"})
    before, tools = contents(root), sandboxed
    assert (await tools.run("git status")).ok
    for way in (
        "echo x >> {}/config",
        "echo x > {}/config.worktree",
        "echo x > {}/hooks/post-checkout",
        "git -C {} config core.fsmonitor ./evil",
        "mv {} old",
        "rm -rf {}",
        "echo x > {}/HEAD",
        "echo elsewhere > {}/commondir",
        "chmod 777 {}",
        "mount --bind . {}",
        "rm module/.git",
        "echo 'gitdir: /tmp' > module/.git",
    ):
        assert not (await tools.run(way.format(folder))).ok, way
    assert contents(root) == before


@pytest.mark.parametrize("last", ["HEAD", "refs/x", "objects/x", "commondir"])
@pytest.mark.parametrize("folder", ["", "node_modules/x/"])
async def test_no_file_can_be_written_or_moved_that_makes_its_folder_a_repository(
    tools: Bench, root: Path, folder: str, last: str
) -> None:
    parts = ["HEAD", "commondir"] if last == "commondir" else ["HEAD", "refs/x", "objects/x"]
    for name in ("config", *(part for part in parts if part != last)):
        content = {"config": CONFIG, "HEAD": "ref: refs/heads/main\n"}.get(name, "x")
        assert (await tools.do("write_file", path=folder + name, content=content)).ok
    for found in (
        await tools.refused("write_file", path=folder + last, content="ref: refs/heads/main\n"),
        await tools.refused("move_file", path=folder + "config", to=folder + last),
    ):
        assert "would make its folder a repository of git's" in found
    assert alarms(root) == []


@needs_bubblewrap
async def test_a_workspace_that_is_a_repository_is_left_alone(sandboxed: Bench, root: Path, tools: Bench) -> None:
    git(root, "init", "-q", "--bare", ".")
    for name in ("config", "hooks/post-checkout", "config.worktree"):
        assert "leave it alone" in await tools.refused("write_file", path=name, content="x")
    for way in ("echo x >> config", "echo x > config.worktree", "echo x > commondir", "rm HEAD"):
        assert not (await sandboxed.run(way)).ok, way


CONFIGURED = {
    "core.hooksPath": (".githooks", ".githooks/post-index-change", f"#!/bin/sh\n{ALARM}\n"),
    "core.fsmonitor": ("scripts/monitor.sh", "scripts/monitor.sh", f"#!/bin/sh\n{ALARM}\n"),
    "include.path": ("../.gitconfig", ".gitconfig", CONFIG),
    "filter.x.clean": ("sh 'tools/clean.sh' %f", "tools/clean.sh", f"{ALARM}; cat\n"),
    "alias.st": ("!sh tools/status.sh", "tools/status.sh", f"{ALARM}\n"),
}


@pytest.fixture(params=CONFIGURED)
def configured(request: pytest.FixtureRequest, root: Path) -> tuple[str, str]:
    """A person's repository whose configuration runs or reads a file of the workspace: that file, and an attack."""
    value, path, attack = CONFIGURED[request.param]
    git(root, "init", "-q")
    git(root, "config", request.param, value)
    put(root, {"a": "1\n", ".gitattributes": "* filter=x\n"})
    return path, attack


@needs_bubblewrap
@pytest.mark.parametrize("is_there", [True, False])
async def test_what_a_persons_configuration_runs_cannot_be_changed_by_a_command(
    sandboxed: Bench, root: Path, configured: tuple[str, str], is_there: bool
) -> None:
    path, attack = configured
    put(root, {"new": attack} | ({path: ""} if is_there else {}))
    for file in (root / "new", root / path):
        if file.exists():
            file.chmod(0o755)
    top = path.partition("/")[0]
    plant = f"mkdir -p $(dirname {path}); cp -p new {path}"
    for way in (plant, f"mv {top} old; {plant}", f"mv {top} old; mkdir e; (cd e; {plant}); ln -s e/{top} {top}"):
        await sandboxed.run(way)
        assert not (root / path).exists() or (root / path).read_text() != attack, way
    assert alarms(root) == []


@needs_bubblewrap
@pytest.mark.parametrize("link", ["hooks", "elsewhere/hooks", "{root}/elsewhere/hooks"])
async def test_hooks_behind_a_link_cannot_be_changed_either(sandboxed: Bench, root: Path, link: str) -> None:
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
        assert "bwrap" not in (await sandboxed.run(way)).content
        assert alarms(root) == [], way
    assert (await sandboxed.run("echo x > a")).ok


async def test_no_tool_changes_what_git_runs(tools: Bench, root: Path, configured: tuple[str, str]) -> None:
    path, attack = configured
    for found in (
        await tools.refused("write_file", path=path, content=attack),
        await tools.refused("move_file", path="a", to=path),
    ):
        assert "is run or read by git, as it is configured here" in found
    assert not (root / path).exists()
    for name, value in {"alias.lg": "log --all", "credential.helper": "store", "core.pager": "less -R"}.items():
        git(root, "config", name, value)
    for other in ("scripts/other.sh", "log", "store/a", "less"):
        assert (await tools.do("write_file", path=other, content="x")).ok, "a word that is no path"


# ---- what git does not report ----------------------------------------------------------------------------------------


HEAD = "ref: refs/heads/main\n"


def test_repositories_of_every_kind_are_seen_and_stay(root: Path) -> None:
    folders = ("", "a/b/", "node_modules/", "node_modules/below/")
    put(root, {f"{folder}.git/HEAD": HEAD for folder in folders})
    put(root, {"c/.git": "gitdir: ../elsewhere", "bare/HEAD": "x", "bare/objects/x": "", "bare/refs/x": "", "d/x": ""})
    (root / "d/.git").symlink_to("../a/b/.git")
    os.mkfifo(root / "pipe")
    below = [b"node_modules/.git", b"node_modules/below/.git"]
    seen = take(root)
    assert set(seen.repositories) == {b".git", b"a/b/.git", b"c/.git", b"d/.git", *below}
    assert seen.protected() == [b".git", b"a/b/.git", b"bare", b"c/.git", *below]
    assert settle(root, seen) == Settled()
    assert take(root) == seen


def test_a_folder_that_was_moved_takes_its_repository_along(root: Path) -> None:
    put(root, {"a/.git/HEAD": HEAD})
    before = take(root)
    (root / "a").rename(root / "b")
    put(root, {"a/.git/HEAD": "another"})
    assert settle(root, before) == Settled(removed=[b"a/.git"])
    assert [path.name[:14] for path in (root / "a").glob(".git.*")] == [".git.replaced-"]
    assert (root / "b/.git/HEAD").read_text() == HEAD
    assert not (root / "a/.git").exists()


def test_a_link_to_a_repository_comes_back_and_one_that_is_gone_is_reported(root: Path) -> None:
    (root / ".git").symlink_to("../elsewhere")
    put(root, {"a/.git/HEAD": HEAD})
    before = take(root)
    (root / ".git").unlink()
    put(root, {".git/HEAD": HEAD})  # before the other goes, whose inode it could get
    (root / "a/.git/HEAD").unlink()
    (root / "a/.git").rmdir()
    assert settle(root, before) == Settled(removed=[b".git"], lost=[b"a/.git"])
    assert (root / ".git").readlink() == Path("../elsewhere")


def test_a_pipe_that_git_would_read_goes_and_a_folder_that_it_cannot_read_is_opened(root: Path) -> None:
    (root / "shut before").mkdir(mode=0o300)
    before = take(root)
    assert before.shut == {b"shut before"}
    put(root, {"shut/f": "hidden", "closed/f": "hidden"})
    for name in ("pipe", ".gitignore"):
        os.mkfifo(root / name)
    (root / "shut").chmod(0o300)
    (root / "closed").chmod(0o500)
    settle(root, before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in root.iterdir() if path.is_dir()}
    assert modes == {"shut": 0o700, "shut before": 0o300, "closed": 0o500}
    assert names_in(root) == ["closed", "pipe", "shut", "shut before"]


def test_pipes_that_git_would_wait_for_are_found_wherever_they_are(root: Path) -> None:
    put(root, {"a/.git/x": HEAD})
    for name in ("a/.git/HEAD", "a/.git/odd", "HEAD", "a/.gitattributes", "mine"):
        os.mkfifo(root / name)
    assert workspace_scan.remove_pipes(root) == 4
    assert names_in(root) == ["a", "mine"]
    assert names_in(root / "a/.git") == ["x"]


def test_a_path_that_is_too_long_ends_the_look_and_breaks_nothing(root: Path) -> None:
    make_deep(root, 30, "d" * 200)
    assert settle(root, take(root)) == Settled()
