"""One command gets the network or the repository where that was allowed, and nothing else does."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools.background import BackgroundCommands
from tenex.tools.background_shell import shell_read_tool, shell_start_tool
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tests.fakes.registries import NAME, PackageRegistry, package_registry
from tests.programs import needs_bubblewrap, needs_git

from .conftest import SANDBOXED, Bench, git, make_context, names_in, processes_in, put, shell_only

pytestmark = [needs_bubblewrap]

RULES = replace(SANDBOXED, commits=True, timeout=60)
ASK_FOR_NETWORK = "`network: true` and `why`"
ASK_FOR_COMMIT = "`write_git: true` and `why`"
WHY = "the tests need it"


@pytest.fixture(scope="module")
def registry() -> Iterator[PackageRegistry]:
    with package_registry() as registry:
        yield registry


@pytest.fixture
def rules(registry: PackageRegistry, tmp_path: Path) -> ShellRules:
    return replace(RULES, network_environment=registry.environment, packages=tmp_path / "packages")


@pytest.fixture
def shell(workspace: Workspace, rules: ShellRules) -> Bench:
    return shell_only(workspace, rules)


def reach(registry: PackageRegistry) -> str:
    """A command that opens a connection to a server of this machine."""
    port = registry.url.rpartition(":")[2]
    return f'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 5); print("reached")\''


# ---- the network ----


async def test_one_command_gets_the_network_and_those_beside_it_do_not(shell: Bench, registry: PackageRegistry) -> None:
    command = f"{reach(registry)}; sleep 0.3; {reach(registry)}"
    opened, closed, later = await asyncio.gather(
        shell.run(command, network=True, why=WHY), shell.run(command), shell.run(command, network=False, why=WHY)
    )
    assert opened.ok
    assert opened.content.count("reached") == 2
    assert opened.has_outside_effect
    for other in (closed, later, await shell.run(command)):
        assert not other.ok
        assert "reached" not in other.content
        assert not other.has_outside_effect


async def test_what_a_command_with_the_network_leaves_running_ends_with_it(
    shell: Bench, root: Path, registry: PackageRegistry
) -> None:
    background = f"(while {reach(registry)}; do touch begun; done) & setsid sleep 300 &"
    begun = "while [ ! -e begun ]; do sleep 0.01; done"
    assert (await shell.run(f"{background} {begun}", network=True, why=WHY)).ok
    assert processes_in(root) == []


async def test_variables_of_the_network_are_for_commands_that_have_it(workspace: Workspace) -> None:
    shell = shell_only(workspace, replace(RULES, network_environment={"HTTPS_PROXY": "http://proxy.example"}))
    assert "proxy.example" not in (await shell.run("env")).content
    assert "proxy.example" in (await shell.run("env", network=True, why=WHY)).content


@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES])
async def test_a_way_out_needs_a_reason(shell: Bench, root: Path, phase: Phase) -> None:
    for why in ({}, {"why": ""}, {"why": " \n"}):
        sentence = await shell.refused("shell", make_context(phase), command="touch ran", network=True, **why)
        assert "needs `why`" in sentence
    assert names_in(root) == []


async def test_only_true_is_true(shell: Bench, registry: PackageRegistry) -> None:
    for value in ("true", 1, "yes"):
        assert "reached" not in (await shell.run(reach(registry), network=value, why=WHY)).content


async def test_a_view_may_have_the_network_and_no_repository(
    workspace: Workspace, rules: ShellRules, registry: PackageRegistry, tmp_path: Path
) -> None:
    views = TurnViews(tmp_path / "views", workspace)
    shell = Bench([shell_tool(Programs(workspace, rules, views))])
    context = make_context(Phase.VERIFICATION)
    assert (await shell.run(f"{reach(registry)} > here", context, network=True, why=WHY)).ok
    assert (await shell.run("cat here", context)).content.endswith("reached")
    assert names_in(workspace.root) == []
    await views.close()
    for phase in (Phase.VERIFICATION, Phase.CHORES):
        at = make_context(phase)
        sentence = await shell.refused("shell", at, command="git commit", write_git=True, why=WHY)
        assert f"in {phase} no command may write to the git repository" in sentence


async def test_where_all_commands_have_the_network_none_asks(workspace: Workspace, rules: ShellRules) -> None:
    tool = shell_tool(Programs(workspace, replace(rules, network=True)))
    assert tool.asks
    assert [need.name for need in tool.needs] == ["write_git"]
    assert "network" not in tool.parameters["properties"]


async def test_without_a_sandbox_there_is_nothing_to_ask_for(workspace: Workspace) -> None:
    tool = shell_tool(Programs(workspace, replace(RULES, policy=RunPolicy.UNSANDBOXED)))
    assert tool.asks
    assert not tool.needs
    assert tool.parameters["properties"].keys() == {"command", "timeout", "cwd"}


async def test_a_background_command_may_have_the_network(
    workspace: Workspace, rules: ShellRules, registry: PackageRegistry
) -> None:
    background = BackgroundCommands()
    programs = Programs(workspace, rules)
    bench = Bench([shell_start_tool(programs, background, None), shell_read_tool(background)])
    context = make_context(run="r1")
    assert "needs `why`" in await bench.refused("shell_start", context, command="true", network=True)
    for arguments in ({"network": True, "why": WHY}, {}):
        command = f"{reach(registry)}; read -t 0.6 _ < <(:); true"
        shown = await bench.do("shell_start", context, command=command, **arguments)
        name = shown.content.split()[0]
        while "is running" in shown.content:
            shown = await bench.do("shell_read", context, id=name, wait=30)
        assert ("\nreached" in shown.content) is bool(arguments)
    await background.close()


# ---- what failed for want of it ----

TRIES = [
    "getent hosts example.org",
    "python3 -c 'import socket; socket.create_connection((\"192.0.2.7\", 80), 5)'",
    "python3 -c 'import socket; socket.create_connection((\"2001:db8::7\", 80), 5)'",
    'python3 -c \'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.7", 9))\'',
    "git clone https://example.org/x /tmp/x",
    "timeout 30 pip download tiny-thing",
    "getent hosts example.org 2>/dev/null | cat",
]


@pytest.mark.parametrize("command", TRIES)
@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION])
async def test_a_command_that_failed_for_want_of_the_network_says_how_to_ask(
    shell: Bench, command: str, phase: Phase
) -> None:
    if shutil.which(command.replace("timeout 30 ", "").split()[0]) is None:
        pytest.skip("there is no such program")
    result = await shell.run(command, phase)
    assert not result.ok
    assert ASK_FOR_NETWORK in result.content


async def test_one_that_does_not_end_says_it_too(shell: Bench) -> None:
    result = await shell.run(f"{TRIES[0]}; sleep 600", timeout=3)
    assert "still running after 3 s" in result.content
    assert ASK_FOR_NETWORK in result.content


@pytest.mark.parametrize(
    "command",
    [
        "false",
        "echo getaddrinfo EAI_AGAIN example.org; echo 'Temporary failure in name resolution'; false",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9), 5)'",
        "getent hosts localhost; false",
        f"{TRIES[0]} || true",
    ],
)
async def test_no_other_command_says_it(shell: Bench, command: str) -> None:
    assert ASK_FOR_NETWORK not in (await shell.run(command)).content


async def test_one_that_has_the_network_does_not_say_it(shell: Bench) -> None:
    assert ASK_FOR_NETWORK not in (await shell.run(f"{TRIES[0]}; false", network=True, why=WHY)).content


# ---- package managers ----


async def test_pip_installs_with_the_network_and_fails_fast_without(
    shell: Bench, root: Path, registry: PackageRegistry
) -> None:
    if "No module named pip" in (await shell.run("python3 -m pip --version")).content:
        pytest.skip("the system's Python has no pip")
    without = await shell.run(f"python3 -m pip install -q --target lib {NAME}")
    assert ASK_FOR_NETWORK in without.content
    assert "Retrying" not in without.content
    assert (await shell.run(registry.install, network=True, why=WHY)).ok
    assert (root / "lib/tiny_thing.py").is_file()
    assert f"/simple/{NAME}/" in registry.asked


@pytest.mark.skipif(shutil.which("npm", path="/usr/bin:/bin") is None, reason="npm is not one of the system's programs")
async def test_npm_installs_with_the_network_and_fails_fast_without(
    shell: Bench, root: Path, registry: PackageRegistry
) -> None:
    without = await shell.run(f"npm install {NAME}", timeout=40)
    assert ASK_FOR_NETWORK in without.content
    assert "still running" not in without.content
    registry.npm_project(root)
    done = await shell.run("npm ci", network=True, why=WHY)
    assert done.ok, done.content
    assert (root / "node_modules" / NAME / "index.js").is_file()


def _toolchain() -> Path | None:
    """The folder of the real Cargo: that of rustup only finds it by files in a home folder."""
    found = shutil.which("cargo")
    places = [*Path.home().glob(".rustup/toolchains/stable*/bin"), *([Path(found).resolve().parent] if found else [])]
    return next((place for place in places if (place / "rustc").is_file()), None)


@pytest.mark.parametrize("variable", ["GOMODCACHE", "NUGET_PACKAGES", "YARN_GLOBAL_FOLDER"])
async def test_what_is_fetched_outside_of_the_project_is_there_for_later_commands(shell: Bench, variable: str) -> None:
    """Yarn 4 keeps packages in the home folder, which is a new one for each command, and its setup was lost."""
    fetched = await shell.run(f"echo fetched > ${variable}/package", network=True, why=WHY)
    assert fetched.ok, fetched.content
    later = await shell.run(f"cat ${variable}/package && touch ${variable}/x")
    assert "fetched" in later.content
    assert not later.ok, "only commands with the network write there"


@pytest.mark.skipif(_toolchain() is None, reason="cargo is not installed on this machine")
async def test_what_cargo_fetches_with_the_network_builds_without(
    workspace: Workspace, rules: ShellRules, registry: PackageRegistry
) -> None:
    folder = _toolchain()
    assert folder is not None
    shell = shell_only(workspace, replace(rules, path=(folder,)))
    registry.cargo_project(workspace.root)
    without = await shell.run("cargo fetch")
    assert not without.ok
    assert "spurious" not in without.content, "it does not try again"
    fetched = await shell.run("cargo fetch", network=True, why=WHY)
    assert fetched.ok, fetched.content
    built = await shell.run("cargo tree --offline && touch $CARGO_HOME/x")
    assert NAME in built.content
    assert "Read-only file system" in built.content


# ---- the repository ----


@pytest.fixture
def repository(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put(tmp_path, {"home/.gitconfig": '[user]\n\tname = Ana \\"the\\" Person\n\temail = ana@example.org\n'})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    put(root, {"a.py": "1\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    put(root, {"a.py": "2\n"})
    return root


@needs_git
async def test_a_commit_is_made_by_the_person_who_is_known_to_git(shell: Bench, repository: Path) -> None:
    refused = await shell.run("git commit -am second")
    assert ASK_FOR_COMMIT in refused.content
    done = await shell.run("git add -A && git commit -qm second && git tag v1", write_git=True, why=WHY)
    assert done.ok, done.content
    assert not done.has_outside_effect
    shown = git(repository, "log", "-1", "--format=%an <%ae>|%cn|%s", "v1").strip()
    assert shown == 'Ana "the" Person <ana@example.org>|Ana "the" Person|second'
    assert git(repository, "status", "--short") == ""
    assert ASK_FOR_COMMIT in (await shell.run("git commit --amend -m third")).content, "the next has it no more"
    assert git(repository, "fsck", "--strict") == ""


@needs_git
async def test_without_a_name_it_says_what_to_do(
    shell: Bench, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"empty/x": ""})
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    result = await shell.run("git commit -am second", write_git=True, why=WHY)
    assert not result.ok
    assert "git knows no name and address" in result.content
    given = "git -c user.name=Bo -c user.email=bo@example.org commit -qam second"
    assert (await shell.run(given, write_git=True, why=WHY)).ok
    assert git(repository, "log", "-1", "--format=%an").strip() == "Bo"


@needs_git
async def test_a_commit_that_is_stopped_leaves_no_lock(shell: Bench, repository: Path) -> None:
    result = await shell.run("GIT_EDITOR='sleep 600; true' git commit -a", write_git=True, why=WHY, timeout=3)
    assert "still running after 3 s" in result.content
    git(repository, "commit", "-qam", "by a person")


@needs_git
async def test_without_a_repository_there_is_nothing_to_ask_for(shell: Bench) -> None:
    for command in ("touch x; false", "git init -q . && git commit --allow-empty -qm x; false", "git add -A"):
        assert ASK_FOR_COMMIT not in (await shell.run(command)).content


@needs_git
async def test_reading_a_repository_asks_for_nothing(shell: Bench, repository: Path) -> None:
    for command in ("git status", "git diff", "git log", "git diff --stat HEAD~5"):
        assert ASK_FOR_COMMIT not in (await shell.run(f"{command}; false")).content


ATTACKS = {
    "hook": "echo 'touch ran' > .git/hooks/pre-commit",
    "hook by a new folder": "mv .git/hooks .git/x || rm -rf .git/hooks || ln -s ../evil .git/hooks",
    "setting": "git config core.fsmonitor 'touch ran'",
    "setting by a file": "printf '[core]\\n fsmonitor = touch ran\\n' > .git/config",
    "setting of the work tree": "echo > .git/config.worktree",
    "attributes": "echo '* filter=x' > .git/info/attributes",
    "another repository": "mkdir evil && git init -q --bare evil/r; echo ../evil/r > .git/commondir",
    "commands of a rebase": "mkdir .git/rebase-merge && echo 'exec touch ran' > .git/rebase-merge/git-rebase-todo",
    "a remote": "mkdir -p .git/remotes && echo 'URL: ext::sh -c touch% ran' > .git/remotes/origin",
    "a link of a log": "rm .git/logs/HEAD && ln -s ../../../outside/secret.txt .git/logs/HEAD",
    "a link of a message": "ln -sf ../../outside/secret.txt .git/COMMIT_EDITMSG",
    "a link among references": "ln -s /etc/passwd .git/refs/heads/evil",
    "a pipe": "rm -f .git/COMMIT_EDITMSG && mkfifo .git/COMMIT_EDITMSG",
    "a link of the folder": "mv .git .moved && ln -s .moved .git",
    "a submodule": "mkdir -p .git/modules/x/hooks && echo 'touch ran' > .git/modules/x/hooks/post-checkout",
}


@needs_git
@pytest.mark.parametrize("name", ATTACKS)
async def test_nothing_that_git_runs_or_writes_through_is_left(
    shell: Bench, repository: Path, outside: Path, name: str
) -> None:
    settings = (repository / ".git/config").read_bytes()
    hooks = names_in(repository / ".git/hooks")
    await shell.run(f"git commit -qam second; {ATTACKS[name]}; true", write_git=True, why=WHY)
    put(repository, {"b.py": "3\n"})
    git(repository, "add", "b.py")
    git(repository, "status")
    git(repository, "commit", "--allow-empty", "-qm", "by a person")
    git(repository, "checkout", "-q", "-b", "other")
    assert not list(repository.rglob("ran"))
    assert (outside / "secret.txt").read_text() == "the secret\n"
    assert (repository / ".git/config").read_bytes() == settings
    assert names_in(repository / ".git/hooks") == hooks
    known = {"COMMIT_EDITMSG", "HEAD", "branches", "config", "description", "hooks", "index", "info", "logs", "objects"}
    left = {entry for entry in names_in(repository / ".git") if ".replaced-" not in entry}
    assert left <= known | {"refs", "ORIG_HEAD"}


@needs_git
async def test_a_merge_that_waits_for_a_person_stays(shell: Bench, repository: Path) -> None:
    git(repository, "commit", "-qam", "ours")
    git(repository, "checkout", "-q", "-b", "theirs", "HEAD~1")
    put(repository, {"a.py": "3\n"})
    git(repository, "commit", "-qam", "theirs")
    result = await shell.run("git merge main", write_git=True, why=WHY)
    assert "CONFLICT" in result.content
    assert "Taken out" not in result.content
    assert git(repository, "status", "--short") == "UU a.py\n"
    assert (await shell.run("git merge --abort", write_git=True, why=WHY)).ok


@needs_git
async def test_the_repository_is_that_of_the_folder(shell: Bench, repository: Path) -> None:
    put(repository, {"inner/b.py": "1\n", "plain/x": ""})
    git(repository / "inner", "init", "-q", "-b", "main")
    command = "git add -A && git commit -qm inner"
    assert (await shell.run(command, cwd="inner", write_git=True, why=WHY)).ok
    assert git(repository / "inner", "log", "--format=%s").strip() == "inner"
    outer = await shell.run(f"cd inner && {command} --allow-empty", write_git=True, why=WHY)
    assert "Read-only file system" in outer.content
    assert ASK_FOR_COMMIT in (await shell.run(f"cd inner && {command} --allow-empty")).content
    assert (
        await shell.run("touch new && git add new && git commit -qm plain", cwd="plain", write_git=True, why=WHY)
    ).ok


@needs_git
async def test_a_work_tree_and_a_submodule_commit_too(repository: Path, tmp_path: Path, rules: ShellRules) -> None:
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "sub")
    git(repository, "commit", "-qam", "with a submodule")
    git(repository, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    for place in (repository / "sub", tmp_path / "linked"):
        put(place, {"new.py": "1\n"})
        shell = shell_only(Workspace(place), rules)
        assert ASK_FOR_COMMIT in (await shell.run("git add -A")).content
        attack = "echo x > $(git rev-parse --git-common-dir)/config; git config a.b c; true"
        await shell.run(attack, write_git=True, why=WHY)
        done = await shell.run("git add -A && git commit -qm here", write_git=True, why=WHY)
        assert done.ok, done.content
        assert git(place, "log", "-1", "--format=%s").strip() == "here"
        assert git(place, "status", "--short") == ""
    within = shell_only(Workspace(repository), rules)
    put(repository / "sub", {"more.py": "1\n"})
    assert (await within.run("git add -A && git commit -qm more", cwd="sub", write_git=True, why=WHY)).ok
    assert git(repository / "sub", "log", "-1", "--format=%s").strip() == "more"


@needs_git
async def test_a_repository_that_cannot_be_protected_is_not_opened(
    shell: Bench, repository: Path, outside: Path, root: Path
) -> None:
    hooks = repository / ".git/hooks"
    shutil.move(hooks, root / "hooks")
    hooks.symlink_to("../hooks")
    assert "is a link" in await shell.refused("shell", command="git commit -am x", write_git=True, why=WHY)
    shutil.move(repository / ".git", outside / "real")
    (repository / ".git").symlink_to(outside / "real")
    assert "outside the workspace" in await shell.refused("shell", command="true", write_git=True, why=WHY)
    (repository / ".git").unlink()
    assert "no git repository" in await shell.refused("shell", command="true", write_git=True, why=WHY)


@needs_git
async def test_where_agents_do_not_commit_that_is_said(workspace: Workspace, repository: Path) -> None:
    tool = shell_tool(Programs(workspace, replace(RULES, commits=False)))
    assert "write_git" not in tool.parameters["properties"]
    assert "Agents do not commit here" in tool.description
    shell = Bench([tool])
    sentence = await shell.refused("shell", command="git commit -am x", write_git=True, why=WHY)
    assert '`workspace.commit` is "never"' in sentence
    tried = await shell.run("git commit -am x")
    assert "Agents do not commit here" in tried.content
    assert ASK_FOR_COMMIT not in tried.content


@needs_git
async def test_hooks_of_a_person_run_in_the_sandbox(shell: Bench, repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\necho here >> {tmp_path}/out\necho ran >> ran.txt\nls {tmp_path}/outside\nexit 0\n")
    hook.chmod(0o755)
    assert (await shell.run("git commit -qam second", write_git=True, why=WHY)).ok
    assert (repository / "ran.txt").read_text() == "ran\n"
    assert not (tmp_path / "out").exists()
