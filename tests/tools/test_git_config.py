"""No agent plants what a person's git then runs, in whatever form the person's settings name it."""

import os
import subprocess
from pathlib import Path

import pytest

from tenex.tools.git_config import read_by_git
from tenex.tools.sandbox import RunPolicy
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from .conftest import Bench, every_tool, git, put

pytestmark = needs_git

SCRIPT = "#!/bin/sh\ntouch $TENEX_ALARM\n"

SETTINGS = {
    "alias: glued to a semicolon": ("alias.st", "!sh tools/x.sh; true", "tools/x.sh", "st"),
    "alias: glued to an operator": ("alias.st", "!sh tools/x.sh&&true", "tools/x.sh", "st"),
    "alias: a line within a line": ("alias.st", "!sh -c 'sh tools/x.sh'", "tools/x.sh", "st"),
    "alias: a function": ("alias.st", "!f() { tools/x.sh; }; f", "tools/x.sh", "st"),
    "alias: in another folder": ("alias.st", "!cd tools && sh ./x.sh", "tools/x.sh", "st"),
    "alias: after a computed folder": ("alias.st", "!$(git rev-parse --show-toplevel)/tools/x.sh", "tools/x.sh", "st"),
    "alias: below the home folder": ("alias.st", "!sh $HOME/workspace/x", "x", "st"),
    "alias: below ~": ("alias.st", "!sh ~/workspace/x", "x", "st"),
    "alias: a word without a slash or dot": ("alias.st", "!sh -e build", "build", "st"),
    "alias: a name with a space": ("alias.st", "!sh 'tools/x y'", "tools/x y", "st"),
    "alias: a pattern": ("alias.st", "!for f in tools/*.sh; do sh $f; done", "tools/x.sh", "st"),
    "alias: an option of git": ("alias.st", "-c core.fsmonitor=tools/x.sh status", "tools/x.sh", "st"),
    "alias: an option of a command": ("alias.st", "difftool -y --extcmd=tools/x.sh", "tools/x.sh", "st"),
    "alias: below the current folder": ("alias.st", '!sh "$PWD/build"', "build", "st"),
    "alias: after a variable": ("alias.st", "!sh ${GIT_PREFIX:-.}/tools/x.sh", "tools/x.sh", "st"),
    "alias: in a folder after options": ("alias.st", "!cd -P -- tools && ./x", "tools/x", "st"),
    "alias: after an option with a word of its own": ("alias.st", "!bash -e -o pipefail build", "build", "st"),
    "alias: a name with a space in a line within a line": (
        "alias.st",
        """!sh -c "sh 'tools/x y'" """,
        "tools/x y",
        "st",
    ),
    "alias: hooks without a slash or dot": (
        "alias.st",
        "-c core.hooksPath=githooks add .",
        "githooks/post-index-change",
        "st",
    ),
    "alias: a folder of programs": ("alias.st", "!PATH=tools:$PATH x", "tools/x", "st"),
    "alias: a folder of git's programs": ("alias.st", "!git --exec-path=tools x", "tools/git-x", "st"),
    "a name with separators": ("core.fsmonitor", "f,m/r:un", "f,m/r:un", "status"),
    "hooks in a folder without a slash or dot": ("core.hooksPath", "hooks", "hooks/post-index-change", "add ."),
    "a helper of a remote": ("remote.o.url", "ext::sh tools/x.sh", "tools/x.sh", "fetch o"),
    "an address that is replaced": ("url.ext::sh tools/X.sh .insteadOf", "o:", "tools/X.sh", "fetch o:"),
    "the program at the other end": ("remote.b.uploadpack", "sh tools/x.sh;", "tools/x.sh", "fetch b"),
    "an editor": ("core.editor", "sh tools/x.sh", "tools/x.sh", "commit --allow-empty"),
    "a key of a signature": (
        "gpg.ssh.defaultKeyCommand",
        "sh tools/x.sh",
        "tools/x.sh",
        "commit -S --allow-empty -m x",
    ),
}
"""By what is special: a setting of a person, its value, the file it leads to, and a command that runs that."""


def alarm(root: Path, command: str) -> bool:
    """Use git as a person would; whether that ran what an agent has written."""
    marker = root.parent / "alarm"
    marker.unlink(missing_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file:ext",
        "TENEX_ALARM": str(marker),
    }
    who = ["-c", "user.name=someone", "-c", "user.email=someone@example.com", "-c", "gpg.format=ssh"]
    subprocess.run(
        ["git", *who, *command.split()], cwd=root, env=env, input=b"q\n", capture_output=True, timeout=20, check=False
    )
    return marker.exists()


def plant(root: Path, path: str, content: str = SCRIPT) -> None:
    """As a person may write it."""
    put(root, {path: content})
    (root / path).chmod(0o755)


@pytest.fixture(autouse=True)
def home(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the person, whose git the daemon's user shares."""
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return root.parent


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q", "-b", "main")
    put(root, {"a": "1\n"})
    git(root, "add", "a")
    git(root, "commit", "-q", "-m", "first")
    put(root, {"a": "2\n"})
    git(root, "remote", "add", "b", ".")
    return root


async def check_planting(tools: Bench, root: Path, path: str, command: str) -> None:
    """A file that a person's git runs can neither be made nor replaced by an agent; that a person can is the proof."""
    plant(root, path)
    assert alarm(root, command), "the attack works"
    plant(root, path, "true\n")
    await check_one(tools, root, path, command)
    (root / path).unlink()
    await check_one(tools, root, path, command)


async def check_one(tools: Bench, root: Path, path: str, command: str) -> None:
    for call in (("write_file", {"path": path, "content": SCRIPT}), ("move_file", {"path": "a", "to": path})):
        assert "is run or read by git" in await tools.refused(call[0], **call[1])
    plant(root, "new")
    await tools.run(f"mkdir -p '{Path(path).parent}'; cp -p new '{path}'")
    assert not alarm(root, command)


@needs_bubblewrap
@pytest.mark.parametrize("form", SETTINGS)
async def test_a_file_that_a_setting_names_cannot_be_planted(workspace: Workspace, repository: Path, form: str) -> None:
    name, value, path, command = SETTINGS[form]
    git(repository, "config", name, value)
    tools = every_tool(workspace, policy=RunPolicy.SANDBOXED)
    await check_planting(tools, repository, path, command)


INCLUDES = {
    "a folder": '[includeIf "gitdir:~/"]\n path = {more}\n',
    "a folder in any case": '[includeIf "gitdir/i:~/WORKSPACE/"]\n path = {more}\n',
    "a branch": '[includeIf "onbranch:main"]\n path = {more}\n',
    "a remote": '[includeIf "hasconfig:remote.*.url:."]\n path = {more}\n',
    "below the home folder": "[include]\n path = ~/more\n",
    "relative": "[include]\n path = more\n",
    "in capitals, with a mark at the start and line ends of Windows": "\ufeff[INCLUDE]\r\n\tPath = ~/mo\\\r\nre\r\n",
    "of an include": "[include]\n path = between\n",
}


@needs_bubblewrap
@pytest.mark.parametrize("form", INCLUDES)
async def test_what_an_included_file_names_cannot_be_planted(
    home: Path, workspace: Workspace, repository: Path, form: str
) -> None:
    put(home, {".gitconfig": INCLUDES[form].format(more=home / "more"), "more": "[core]\n fsmonitor = tools/x.sh\n"})
    put(home, {"between": '[includeIf "gitdir:workspace/"]\n path = more\n[include]\n path = more\n'})
    await check_planting(every_tool(workspace, policy=RunPolicy.SANDBOXED), repository, "tools/x.sh", "status")


@needs_bubblewrap
async def test_an_included_file_in_the_workspace_cannot_be_planted(
    home: Path, workspace: Workspace, repository: Path
) -> None:
    put(home, {".gitconfig": f'[includeIf "gitdir:{repository}/"]\n path = ~/workspace/settings\n'})
    tools = every_tool(workspace, policy=RunPolicy.SANDBOXED)
    await tools.refused("write_file", path="settings", content="x")
    await tools.run("printf '[alias]\\n st = !touch $TENEX_ALARM\\n' > settings")
    assert not alarm(repository, "st")


@needs_bubblewrap
async def test_hooks_that_are_links_into_the_workspace_cannot_be_planted(
    workspace: Workspace, repository: Path
) -> None:
    """A usual way to keep hooks under version control."""
    hook = "scripts/changed.sh"
    (repository / ".git/hooks/post-index-change").symlink_to(f"../../{hook}")
    await check_planting(every_tool(workspace, policy=RunPolicy.SANDBOXED), repository, hook, "add .")


@needs_bubblewrap
async def test_what_links_among_the_named_hooks_lead_to_cannot_be_planted(
    workspace: Workspace, repository: Path
) -> None:
    git(repository, "config", "core.hooksPath", ".githooks")
    (repository / ".githooks").mkdir()
    (repository / ".githooks/post-index-change").symlink_to("../scripts/changed.sh")
    await check_planting(every_tool(workspace, policy=RunPolicy.SANDBOXED), repository, "scripts/changed.sh", "add .")


@needs_bubblewrap
@pytest.mark.parametrize("place", ["around", "beside", "bare"])
async def test_a_repository_around_beside_or_bare_counts_as_the_workspaces_own(
    home: Path, workspace: Workspace, root: Path, place: str
) -> None:
    top, value = {
        "around": (home, "workspace/tools/x.sh"),
        "beside": (root / "beside", "../tools/x.sh"),
        "bare": (root / "store.git", "../tools/x.sh"),
    }[place]
    git(home, "init", "-q", *(["--bare"] if place == "bare" else []), str(top))
    git(top, "config", "alias.st", f"!sh {value}; true")
    plant(root, "tools/x.sh")
    put(root, {"a": "1\n"})
    assert alarm(top, "st"), "the attack works"
    plant(root, "tools/x.sh", "true\n")
    await check_one(every_tool(workspace, policy=RunPolicy.SANDBOXED), root, "tools/x.sh", f"-C {top} st")


RUN = (
    "alias.st.command browser.x.cmd core.alternateRefsCommand core.askPass core.fsmonitor core.gitProxy core.pager "
    "core.sshCommand credential.https://example.com.helper credential.helper diff.external diff.x.command "
    "diff.x.textconv difftool.x.cmd filter.x.clean filter.x.process filter.x.smudge gc.recentObjectsHook gpg.program "
    "gpg.ssh.defaultKeyCommand gpg.ssh.program gpg.x509.program guitool.x.cmd hook.x.command imap.tunnel "
    "interactive.diffFilter lfs.extension.x.clean man.x.cmd merge.x.driver mergetool.x.cmd pager.log "
    "receive.procReceiveRefs remote.x.receivepack remote.x.uploadpack remote.x.vcs sendemail.toCmd sequence.editor "
    "submodule.x.update tar.x.command trailer.x.cmd trailer.x.command uploadpack.packObjectsHook web.browser "
    "some.extension.of.tomorrow"
)
PATHS = "core.attributesFile core.hooksPath difftool.x.path gpg.ssh.allowedSignersFile init.templateDir man.x.path"
DATA = "core.excludesFile blame.ignoreRevsFile commit.template branch.x.merge remote.x.fetch user.email"


@pytest.mark.parametrize(
    "value", ["tools/x.sh", "!sh tools/x.sh --all; true", "x --y=tools/x.sh", "sh './tools//x.sh'"]
)
def test_each_setting_counts_unless_it_holds_data_only(repository: Path, value: str) -> None:
    for name in (*RUN.split(), *DATA.split()):
        git(repository, "config", name, value)
        counts = repository / "tools/x.sh" in read_by_git(repository, [repository])
        assert counts == (name in RUN.split()), name
        git(repository, "config", "--unset-all", name)


def test_a_setting_that_changes_folders_often_costs_no_more_than_a_few_hundred_paths(repository: Path) -> None:
    git(repository, "config", "alias.st", "!" + "cd a; " * 30 + "sh x")
    assert repository / "a/x" in (found := read_by_git(repository, [repository]))
    assert len(found) < 1_000


def test_a_module_that_a_setting_names_counts(repository: Path) -> None:
    git(repository, "config", "alias.st", "!python3 -m tools.x")
    assert {repository / "tools/x.py", repository / "tools/x"} <= read_by_git(repository, [repository])


def test_a_setting_that_is_a_path_needs_no_slash_and_words_that_are_none_do_not_count(repository: Path) -> None:
    others = read_by_git(repository, [repository])  # of this machine's own settings
    for name in PATHS.split():
        git(repository, "config", name, "x")
        assert read_by_git(repository, [repository]) - others == {repository / "x"}, name
        git(repository, "config", "--unset", name)
    for name, value in {
        "alias.lg": "log --all",
        "alias.new": "!git checkout -b",
        "alias.todo": "!cd src && grep -rn TODO .",
        "alias.up": "!git stash keep && git push origin",
        "core.pager": "less -R",
        "core.hooksPath": "",
        "credential.helper": "store.sh",
        "filter.lfs.process": "git-lfs filter-process",
        "gitflow.prefix.feature": "feature/",
        "init.defaultBranch": "main",
        "lfs.fetchInclude": "assets/**",
        "safe.directory": f"{repository}/projects/*",
        "submodule.active": "libs/*",
        "remote.o.url": "https://example.com/src/app.git",
        "submodule.libs/x.url": "https://example.com/libs/x.git",
        "url.ssh://git@example.com/.insteadOf": "https://example.com/",
    }.items():
        git(repository, "config", name, value)
    assert read_by_git(repository, [repository]) == others


def test_a_work_tree_that_a_setting_names_does_not_count_as_a_whole(repository: Path) -> None:
    """Else no file in it could be changed."""
    inner = repository / "libs/x"
    (inner / ".git").mkdir(parents=True)
    (repository / "libs/y").mkdir()
    others = read_by_git(repository, [repository])
    for path, counts in ((inner, False), (repository / "libs/y", True)):
        git(repository, "config", "core.hooksPath", str(path.relative_to(repository)))
        assert (path in read_by_git(repository, [repository]) - others) == counts
