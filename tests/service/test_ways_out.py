"""From a message to an answer: an agent asks for the network or a commit for one command, and a person allows it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete
from tests.fakes.registries import NAME, PackageRegistry, package_registry
from tests.kits.daemon_approvals import answers, ended, react, request
from tests.programs import needs_bubblewrap, needs_git
from tests.tools.conftest import git

from . import person
from .kit import Folder, of_kind
from .loopback import at_work

pytestmark = [needs_bubblewrap]

COMMIT = "git add -A && git commit -qm 'Add the answer'"
WHY = "The program needs tiny-thing."


@pytest.fixture
def registry() -> Iterator[PackageRegistry]:
    with package_registry() as registry:
        yield registry


def network(registry: PackageRegistry, more: str = "") -> str:
    """Settings by which commands with the network find the registry."""
    variables = "".join(f'{name} = "{value}"\n' for name, value in registry.environment.items())
    return f"\n[tools.shell.network_environment]\n{variables}{more}"


def commits(choice: str) -> str:
    return f'\n[workspace]\ncommit = "{choice}"\n'


def works(*steps: tuple[dict[str, Any], ...]) -> Callable[[Asked], Reply]:
    """An executor that makes these calls of `shell`, those of a step at once, and reports the last result."""

    def worker(asked: Asked) -> Reply:
        if asked.phase != "execute":
            return brisk(asked)
        if asked.steps < len(steps):
            return calls(*(("shell", arguments) for arguments in steps[asked.steps]))
        return complete(response=asked.results["shell"][-1][:600], summary="done")

    return worker


def plain(command: str) -> dict[str, Any]:
    return {"command": command}


def with_network(command: str) -> dict[str, Any]:
    return {"command": command, "network": True, "why": WHY}


def with_git(command: str = COMMIT) -> dict[str, Any]:
    return {"command": command, "write_git": True, "why": "You asked for a commit."}


def results(folder: Folder, name: str) -> list[str]:
    records = folder.records(name)
    refused = [record.sentence for record in of_kind(records, r.ToolCallRejected)]
    return refused + [record.content for record in of_kind(records, r.ToolCallCompleted)]


def repository(folder: Folder) -> Path:
    """Make the workspace a repository, of a person who is known to it."""
    folder.workspace.mkdir(exist_ok=True)
    git(folder.workspace, "init", "-q", "-b", "main")
    git(folder.workspace, "config", "user.name", "Ana")
    git(folder.workspace, "config", "user.email", "ana@example.org")
    git(folder.workspace, "commit", "-q", "--allow-empty", "-m", "first")
    (folder.workspace / "answer.txt").write_text("42\n")
    return folder.workspace


async def begun(folder: Folder, text: str = "Do it") -> tuple[str, person.Wire]:
    name = await folder.write(text)
    return name, await request(folder, name)


async def test_an_install_is_one_question_and_nothing_else_gets_the_network(
    tmp_path: Path, relay: str, registry: PackageRegistry
) -> None:
    beside = f"curl -sS --max-time 5 {registry.url}/simple/beside/ || true"
    team = Team(
        worker=works(
            (plain(f"python3 -m pip install --target lib {NAME}"),),
            (with_network(registry.install), plain(beside)),
            (plain(beside),),
        )
    )
    async with at_work(tmp_path, relay, team, network(registry)) as (folder, _):
        name, wanted = await begun(folder)
        lines = wanted["content"].splitlines()
        assert lines[0].startswith("Allow python3 -m pip install -q")
        assert WHY in wanted["content"]
        assert "network" in wanted["content"]
        assert not registry.asked
        await react(folder, wanted, "👍")
        assert await ended(folder, name) == "finished"
        assert "with `network: true` and `why`" in results(folder, name)[0]
        assert (folder.workspace / "lib/tiny_thing.py").is_file()
        assert f"/simple/{NAME}/" in registry.asked
        assert "/simple/beside/" not in registry.asked
        assert len(answers(folder, name)) == 1


async def test_a_call_that_names_a_file_and_needs_the_network_is_one_question(
    tmp_path: Path, relay: str, registry: PackageRegistry
) -> None:
    team = Team(worker=works((with_network("cat notes.txt"),)))
    async with at_work(tmp_path, relay, team, network(registry)) as (folder, _):
        folder.workspace.mkdir(exist_ok=True)
        (folder.workspace / "notes.txt").write_text("as it was\n")
        name, wanted = await begun(folder)
        assert "If `notes.txt` changes before it runs, you are asked again." in wanted["content"]
        await react(folder, wanted, "👍")
        assert await ended(folder, name) == "finished"
        assert "as it was" in results(folder, name)[0]
        assert len(of_kind(folder.records(name), r.ApprovalRequested)) == 1
        assert not of_kind(folder.records(name), r.CallOutdated)


@pytest.mark.skipif(shutil.which("npm", path="/usr/bin:/bin") is None, reason="npm is not one of the system's programs")
async def test_a_rule_allows_exactly_what_it_names(tmp_path: Path, relay: str, registry: PackageRegistry) -> None:
    rule = '\n[[approve]]\ntool = "shell"\nneeds = "network"\nmatch = ["npm", "ci"]\ndecision = "allow"\n'
    team = Team(worker=works((with_network("npm ci"),), (with_network("npm --version && npm ci"),)))
    async with at_work(tmp_path, relay, team, network(registry, rule)) as (folder, _):
        folder.workspace.mkdir(exist_ok=True)
        registry.npm_project(folder.workspace)
        name, wanted = await begun(folder)
        assert (folder.workspace / "node_modules" / NAME).is_dir(), "the first was not asked about"
        assert "npm --version" in wanted["content"]
        await react(folder, wanted, "👎")
        assert await ended(folder, name) == "finished"


async def test_always_is_for_the_same_need(tmp_path: Path, relay: str, registry: PackageRegistry) -> None:
    team = Team(worker=works((with_network("curl --version"),), (with_network("curl --version"),)))
    settings = network(registry, '\n[[approve]]\ntool = "shell"\nmatch = ["curl", "--version"]\ndecision = "allow"\n')
    async with at_work(tmp_path, relay, team, settings) as (folder, _):
        name, wanted = await begun(folder)
        await react(folder, wanted, "👍")
        await person.until(lambda: len(of_kind(folder.records(name), r.ApprovalRequested)) == 2)
        again = await request(folder, name)
        await react(folder, again, "👎")
        assert await ended(folder, name) == "finished"
        assert [answer.outcome for answer in answers(folder, name)] == ["yes", "no"]


async def test_unattended_it_is_refused_with_the_reason(tmp_path: Path, relay: str, registry: PackageRegistry) -> None:
    unattended = "\n[approvals]\nunattended = true\n"
    team = Team(worker=works((with_network(registry.install), {"command": registry.install, "network": True})))
    async with at_work(tmp_path, relay, team, network(registry, unattended)) as (folder, _):
        name = await folder.write("Install it")
        assert await ended(folder, name) == "finished"
        said = results(folder, name)
        assert any("no one is there to be asked" in sentence for sentence in said)
        assert any("needs `why`" in sentence for sentence in said)
        assert not registry.asked


@needs_git
async def test_commit_it_is_one_question(tmp_path: Path, relay: str) -> None:
    team = Team(worker=works((with_git(),)))
    async with at_work(tmp_path, relay, team, commits("ask")) as (folder, _):
        place = repository(folder)
        name, wanted = await begun(folder, "Commit it")
        assert "git commit" in wanted["content"].splitlines()[0]
        assert git(place, "log", "--format=%s").splitlines() == ["first"]
        await react(folder, wanted, "👍")
        assert await ended(folder, name) == "finished"
        assert git(place, "log", "--format=%an: %s").splitlines() == ["Ana: Add the answer", "someone: first"]


@needs_git
@pytest.mark.parametrize("choice", ["never", "auto"])
async def test_commit_it_runs_or_is_a_clear_no(tmp_path: Path, relay: str, choice: str) -> None:
    team = Team(worker=works((with_git(),)))
    async with at_work(tmp_path, relay, team, commits(choice)) as (folder, _):
        place = repository(folder)
        name = await folder.write("Commit it")
        assert await ended(folder, name) == "finished"
        assert not of_kind(folder.records(name), r.ApprovalRequested)
        subjects = git(place, "log", "--format=%s").splitlines()
        assert subjects == (["Add the answer", "first"] if choice == "auto" else ["first"])
        assert ("Agents do not commit here" in results(folder, name)[0]) is (choice == "never")


@needs_git
async def test_what_rewrites_history_is_asked_about_where_agents_commit(tmp_path: Path, relay: str) -> None:
    team = Team(worker=works((with_git("git reset -q --hard"),)))
    async with at_work(tmp_path, relay, team, commits("auto")) as (folder, _):
        repository(folder)
        name, wanted = await begun(folder)
        assert "git reset" in wanted["content"]
        await react(folder, wanted, "👎")
        assert await ended(folder, name) == "finished"
        assert (folder.workspace / "answer.txt").is_file()
