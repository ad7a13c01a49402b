"""A command of the settings is a tool: what a model fills in stays one argument, and no shell reads it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Replay
from tenex.core.ids import Slug
from tenex.core.phases import Access, Phase
from tenex.core.ports import ToolResult
from tenex.tools.command_template import CommandTemplate, Placeholder, command_tool, read_template, why_not_offered
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap

from .conftest import ROSTER, Bench, make_context, put

SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


def template(*run: str, access: str = "run", **more: Any) -> CommandTemplate:
    faults: list[str] = []
    read = read_template("sample", run, description="Samples.", access=access, faults=faults, **more)
    assert read is not None, faults
    return read


def bench(workspace: Workspace, command: CommandTemplate, policy: RunPolicy = RunPolicy.UNSANDBOXED) -> Bench:
    rules = ShellRules(policy=policy, timeout=30)
    tool = command_tool(command, Programs(workspace, rules))
    made = Bench([tool])
    executor = replace(ROSTER[Slug("executor")], tools=frozenset({"sample"}))
    made._find_agent = {executor.slug: executor}.get
    return made


async def arguments_of(workspace: Workspace, *run: str, **given: Any) -> list[str]:
    """What a program is given by a command with these parts."""
    done = await bench(workspace, template("python3", "-c", SHOW, *run)).do("sample", **given)
    assert done.ok, done.content
    shown: list[str] = json.loads(next(line for line in done.content.splitlines() if line.startswith("[")))
    return shown


@pytest.mark.parametrize(
    ("run", "given", "arguments"),
    [
        (["-q", "{path}"], {"path": "src/a.py"}, ["-q", "src/a.py"]),
        (["{path}"], {"path": "./src/"}, ["src"]),
        (["{path}"], {"path": "."}, ["."]),
        (["--file={path}"], {"path": "new.txt"}, ["--file=new.txt"]),
        (["{text}"], {"text": "a b; rm -rf / $(id) `id` \n'\""}, ["a b; rm -rf / $(id) `id` \n'\""]),
        (["{a:word}:{b:int}"], {"a": "x{b}", "b": 7}, ["x{b}:7"]),
        (["{word:option}"], {"word": "--version"}, ["--version"]),
        (["{flag:word:option}", "{flag:word:option}"], {"flag": "-x"}, ["-x", "-x"]),
        (["{int:option}"], {"int": -3}, ["-3"]),
        (["{{print $1}}", "{ }", "{Path}", "{}"], {}, ["{print $1}", "{ }", "{Path}", "{}"]),
    ],
)
async def test_each_value_stays_in_its_argument(
    workspace: Workspace, root: Path, run: list[str], given: dict[str, Any], arguments: list[str]
) -> None:
    put(root, {"src/a.py": ""})
    assert await arguments_of(workspace, *run, **given) == arguments


@pytest.mark.parametrize(
    ("run", "given", "fault"),
    [
        ("{path}", {"path": "../outside/secret.txt"}, "contains `..`"),
        ("{path}", {"path": "/etc/passwd"}, "outside the workspace"),
        ("{path}", {"path": "link/secret.txt"}, "leads outside the workspace"),
        ("{path}", {"path": "-rf"}, "`path` may not begin with `-`"),
        ("--x={path}", {"path": "-rf"}, "`path` may not begin with `-`"),
        ("{word}", {"word": "--config=evil"}, "`word` may not begin with `-`"),
        ("{word}", {"word": "two words"}, "arguments are invalid"),
        ("{word}", {"word": ""}, "arguments are invalid"),
        ("{text}", {"text": "a\0b"}, "holds a NUL character"),
        ("{text}", {"text": "-"}, "may not begin with `-`"),
        ("{text}", {"text": "x" * 20_001}, "arguments are invalid"),
        ("{int}", {"int": -1}, "arguments are invalid"),
        ("{int}", {"int": "1; id"}, "arguments are invalid"),
        ("{path}", {}, "`path` is missing"),
        ("{path}", {"path": ".", "more": "x"}, "`more` is not known"),
    ],
)
async def test_what_leads_elsewhere_or_could_be_an_option_is_refused_and_nothing_runs(
    workspace: Workspace, root: Path, outside: Path, run: str, given: dict[str, Any], fault: str
) -> None:
    (root / "link").symlink_to(outside)
    tools = bench(workspace, template("python3", "-c", "open('ran', 'w')", run))
    assert fault in await tools.refused("sample", **given)
    assert not (root / "ran").exists()


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (["{word}", "a"], "the program, the first of `run`, cannot be left open to the model"),
        (["a", "{commit}"], "{commit} has no type; write {commit:word}"),
        (["a", "{a:path:word}"], "{a:path:word} has no type"),
        (["a", "{a:file}"], "{a:file} has no type"),
        (["a", "{a:word}", "{a:path}"], "{a} has two types"),
        (["a", "{a:word}", "{a:word:option}"], "{a} has two types"),
        (["a", "b\0"], "NUL"),
    ],
)
def test_a_command_that_cannot_be_read_is_a_fault(run: list[str], fault: str) -> None:
    faults: list[str] = []
    assert read_template("sample", run, description="S.", access="run", faults=faults) is None
    assert fault in " ".join(faults)


def test_a_command_is_offered_with_its_access_and_where_it_can_be_confined(workspace: Workspace) -> None:
    programs = Programs(workspace, ShellRules(policy=RunPolicy.SANDBOXED, timeout=30))
    runs = command_tool(template("a", "{path}", "{n:int}", asks=True, timeout=90), programs)
    assert (runs.access, runs.replay, runs.asks) == (Access.RUN, Replay.ONCE, True)
    assert runs.time_cap is not None
    assert runs.time_cap > 90
    unconfined = Programs(workspace, ShellRules(policy=RunPolicy.UNSANDBOXED, timeout=30))
    assert [command_tool(template("a"), each).asks for each in (programs, unconfined)] == [False, True]
    assert not command_tool(template("a", asks=False), unconfined).asks
    assert runs.spec.parameters["required"] == ["path", "n"]
    reads = template("a", access="read")
    assert (command_tool(reads, programs).access, command_tool(reads, programs).replay) == (Access.READ, Replay.READ)
    assert why_not_offered(reads, RunPolicy.SANDBOXED) == ""
    assert 'access = "run"' in why_not_offered(reads, RunPolicy.UNSANDBOXED)
    assert why_not_offered(template("a"), RunPolicy.UNSANDBOXED) == ""
    assert "needs the sandbox" in why_not_offered(template("a"), RunPolicy.OFF)
    assert template("a", "{path}").placeholders == {"path": Placeholder("path", "path", may_be_option=False)}


async def outcome(workspace: Workspace, command: CommandTemplate, policy: RunPolicy, phase: Phase) -> ToolResult:
    return await bench(workspace, command, policy).do("sample", make_context(phase))


async def test_how_it_ended_is_the_result(workspace: Workspace, root: Path) -> None:
    done = await outcome(workspace, template("python3", "-c", "exit(3)"), RunPolicy.UNSANDBOXED, Phase.EXECUTE)
    assert (done.ok, done.exit_status) == (False, 3)
    missing = template("no-such-program")
    assert (
        "there is no program no-such-program here"
        in (await outcome(workspace, missing, RunPolicy.UNSANDBOXED, Phase.EXECUTE)).content
    )
    put(root, {"bin/own": "#!/bin/sh\necho of the workspace\n"})
    (root / "bin" / "own").chmod(0o755)
    own = await outcome(workspace, template("./bin/own"), RunPolicy.UNSANDBOXED, Phase.EXECUTE)
    assert "of the workspace" in own.content
    endless = template("python3", "-c", "import threading; threading.Event().wait()", timeout=1)
    assert not (await outcome(workspace, endless, RunPolicy.UNSANDBOXED, Phase.EXECUTE)).ok


@needs_bubblewrap
@pytest.mark.parametrize("access", ["read", "run"])
async def test_in_the_sandbox_one_that_reads_cannot_write_and_proves_nothing(
    workspace: Workspace, root: Path, outside: Path, access: str
) -> None:
    program = f"import pathlib; print(pathlib.Path({str(outside)!r}).exists()); pathlib.Path('made').touch()"
    done = await outcome(
        workspace, template("python3", "-c", program, access=access), RunPolicy.SANDBOXED, Phase.EXECUTE
    )
    assert "False" in done.content, "outside the workspace nothing is there"
    assert (root / "made").exists() is (access == "run")
    assert (done.exit_status, done.has_outside_effect) == (0 if access == "run" else None, False)
