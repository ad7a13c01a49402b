"""The runner of checks: what it says of a project is what the project's own programs say, on exactly the tree named."""

import asyncio
import os
import py_compile
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenex.core.cycle.checks import ChangedFile, CheckResult, Inspection
from tenex.core.effects import Check, Inspect, Key, Work
from tenex.core.ids import ConversationId
from tenex.tools import turn_views
from tenex.tools.check_runner import ATTEMPTS, CheckRunner
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.project_checks import ProjectCheck
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_view import Way
from tests.programs import needs_bubblewrap, needs_git, needs_make, needs_node

from .conftest import names_in, put, until

pytestmark = [needs_bubblewrap, needs_git]

CONVERSATION = ConversationId("c" * 64)

PYTEST = ProjectCheck(name="tests", run="PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest", has_tests=True)

PROJECT = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": (
        "import pytest\n"
        "from calc import add\n"
        "def test_add():\n    assert add(1, 2) == 3\n"
        "@pytest.mark.parametrize('n', ['a b', 'c'])\ndef test_old(n):\n    assert n == 'c'\n"
        "class TestMore:\n    def test_zero(self):\n        assert add(0, 0) == 0\n"
        "@pytest.mark.skip\ndef test_left():\n    pass\n"
        "@pytest.mark.xfail\ndef test_known():\n    assert 0\n"
    ),
}


PACKAGES = Path(pytest.__file__).parents[1]


def make_environment(root: Path) -> None:
    """A virtual environment in the workspace, which git ignores, with the packages of the tests."""
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    put(root, {".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\n", ".venv/pyvenv.cfg": f"home = {base.parent}\n"})
    put(root, {f".venv/lib/python3.{sys.version_info.minor}/site-packages/more.pth": f"{PACKAGES}\n"})
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python").symlink_to(base)


class Desk:
    """A workspace with a runner of checks, and a person who works in it."""

    def __init__(self, workspace: Workspace, policy: RunPolicy = RunPolicy.SANDBOXED) -> None:
        self.root = workspace.root
        self.store = workspace.root.with_name("views")
        self.logs = workspace.root.with_name("conversation") / "checks"
        self.checkpoints = Checkpoints(workspace.root.with_name("checkpoints"), workspace.root)
        self.checks: list[ProjectCheck] = []
        self.earlier_checks: list[ProjectCheck] = []
        views = TurnViews(self.store, workspace)
        rules = ShellRules(policy=policy, folders=(PACKAGES,))
        self.runner = CheckRunner(
            Programs(workspace, rules, views),
            self.checkpoints,
            views,
            lambda earlier: self.earlier_checks if earlier else self.checks,
            lambda _: self.logs,
        )

    def write(self, files: Mapping[str, str]) -> str:
        """Write files; returns the tree that the workspace is then, which is kept."""
        put(self.root, files)
        return self.keep("after")

    def keep(self, moment: str, cycle: int = 1) -> str:
        snapshot = self.checkpoints.take()
        self.checkpoints.keep(snapshot, CONVERSATION, f"{moment} call\n\ncycle: {cycle}\n")
        return snapshot.tree

    async def run(self, check: ProjectCheck | str, tree: str = "", *, is_earlier: bool = False) -> CheckResult:
        if isinstance(check, str):
            check = ProjectCheck(name="check", run=check)
        self.checks = [check]
        tree = tree or self.keep("after")
        key = Key(Work.CHECK, 1)
        return await self.runner.run(
            Check(key=key, conversation=CONVERSATION, name=check.name, tree=tree, is_earlier=is_earlier)
        )

    async def inspect(self, cycle: int = 1) -> Inspection:
        key = Key(Work.INSPECT, 1)
        return await self.runner.inspect(Inspect(key=key, conversation=CONVERSATION, cycle=cycle))


@pytest.fixture
def desk(workspace: Workspace) -> Desk:
    return Desk(workspace)


def seen(root: Path) -> dict[str, tuple[object, ...]]:
    """What would show that a program has written to a workspace."""
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        about = path.lstat()
        found[path.relative_to(root).as_posix()] = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return found


def give_time(path: Path, *, seconds: int) -> None:
    """Let a file look newer than anything that is written soon, as where two things happen in one second."""
    moment = int(time.time()) + seconds
    os.utime(path, (moment, moment))


@pytest.mark.parametrize("way", [Way.OVERLAY, Way.COPY])
@pytest.mark.parametrize("folder", ["", "package/"])
async def test_what_was_compiled_in_the_second_of_a_change_fools_no_check(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, folder: str, way: Way
) -> None:
    """The compiled file is that of the passing version; length and second are those of the failing one."""
    monkeypatch.setattr(TurnViews, "way", lambda *_, **__: (way, ()))
    make_environment(desk.root)
    name = f"{folder}value.py"
    put(desk.root, {name: "RIGHT = 1\n", f"{folder}other.py": "RIGHT = 1\n"})
    source = desk.root / name
    source.with_name("other.py").touch()
    moment = source.stat().st_mtime_ns
    for file in (source, source.with_name("other.py")):
        py_compile.compile(str(file), doraise=True)
    other = Path(py_compile.compile(str(source.with_name("other.py"))) or "")
    put(desk.root, {name: "RIGHT = 0\n"})
    os.utime(source, ns=(moment, moment))
    module = name.removesuffix(".py").replace("/", ".")
    line = f"python -c 'import {module} as module; assert module.RIGHT'"
    before = seen(desk.root)
    result = await desk.run(line)
    assert result.outcome == "failed", result.last_lines
    assert seen(desk.root) == before, "the workspace has what was compiled"
    shown = await desk.run(f"test -s {other.relative_to(desk.root)}")
    assert shown.outcome == "passed", "what is newer than its source is used"


async def test_an_old_red_test_has_the_same_name_on_both_trees(desk: Desk) -> None:
    make_environment(desk.root)
    before = desk.write(PROJECT)
    tree = desk.write({"calc.py": "def add(a, b):\n    return abs(a + b) + 1\n"})
    untouched = seen(desk.root)

    now = await desk.run(PYTEST, tree)
    assert (now.outcome, now.status, now.tree, now.tests, now.failures) == ("failed", 1, tree, 4, 3)
    assert now.failed == ("test_calc.py::TestMore::test_zero", "test_calc.py::test_add", "test_calc.py::test_old[a b]")
    assert "3 failed, 1 passed, 1 skipped, 1 xfailed" in now.last_lines
    output = Path(now.output)
    assert output == desk.logs / "1-tests.log"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert "def test_add():" in output.read_text()

    then = await desk.run(PYTEST, before, is_earlier=True)
    assert (then.outcome, then.tree, then.tests, then.failed) == ("failed", before, 4, ("test_calc.py::test_old[a b]",))
    assert seen(desk.root) == untouched
    assert names_in(desk.store) == []
    assert names_in(desk.logs) == ["1-tests.log", "2-tests.log"]


async def test_each_run_of_a_line_is_counted_and_those_within_tests_are_not(desk: Desk) -> None:
    make_environment(desk.root)
    inner = "import subprocess\ndef test_outer():\n    subprocess.run(['sh', '-c', 'python -m pytest -q bad.py'])\n"
    desk.write(
        {"test_a.py": inner, "test_b.py": "def test_b():\n    pass\n", "bad.py": "def test_bad():\n    assert 0\n"}
    )
    line = f"{PYTEST.run} test_a.py && {PYTEST.run} test_b.py"
    result = await desk.run(ProjectCheck(name="tests", run=line, has_tests=True))
    assert (result.outcome, result.tests, result.failures, result.failed) == ("passed", 2, 0, ())


async def test_a_line_that_hides_its_status_is_red_by_its_report(desk: Desk) -> None:
    make_environment(desk.root)
    desk.write(PROJECT)
    result = await desk.run(f"{PYTEST.run} || true")
    assert (result.outcome, result.status, result.failures) == ("failed", 0, 1)
    result = await desk.run("false | true")
    assert (result.outcome, result.status) == ("failed", 1)


async def test_python_without_tests_or_modules(desk: Desk) -> None:
    make_environment(desk.root)
    desk.write(
        {"test_none.py": "import unittest\n", "skipped.py": "import pytest\npytest.skip(allow_module_level=True)\n"}
    )
    for line in ("python -m unittest", PYTEST.run, f"{PYTEST.run} skipped.py"):
        result = await desk.run(ProjectCheck(name="tests", run=line, has_tests=True))
        assert (result.outcome, result.tests) == ("nothing", 0), line
    result = await desk.run("python -m unittest")
    assert result.outcome == "passed" if result.status == 0 else "failed"
    result = await desk.run("python -m no_such_module --all")
    assert (result.outcome, result.status, result.reason) == (
        "missing",
        1,
        "the module no_such_module is not installed",
    )
    result = await desk.run("python -m calendar no")
    assert result.outcome == "failed"


async def test_unittest(desk: Desk) -> None:
    make_environment(desk.root)
    body = "    def test_a(self): pass\n    def test_b(self): self.assertEqual(1, 2)\n"
    body += "    @unittest.expectedFailure\n    def test_c(self): self.fail()\n"
    body += "    @unittest.skip('x')\n    def test_d(self): pass\n"
    desk.write({"test_u.py": f"import unittest\nclass T(unittest.TestCase):\n{body}"})
    result = await desk.run("python -m unittest")
    assert (result.outcome, result.tests, result.failures) == ("failed", 3, 1)
    assert result.failed == ("test_b (test_u.T.test_b)",) or result.failed == ("test_b (test_u.T)",)


@needs_node
async def test_node(desk: Desk) -> None:
    desk.write(
        {
            "a.test.js": (
                "const {test, describe, it} = require('node:test');\n"
                "test('adds', () => {});\ntest('old red', () => { throw new Error('no'); });\n"
                "describe('suite', () => {\n"
                "  it('inner', () => {}); it('bad', () => { throw 1; }); it.skip('x', () => {});\n});\n"
            ),
            "package.json": '{"scripts": {"test": "node --test", "dots": "node --test --test-reporter=dot"}}',
        }
    )
    result = await desk.run(ProjectCheck(name="tests", run="node --test", has_tests=True))
    assert (result.outcome, result.status, result.tests, result.failures) == ("failed", 1, 4, 2)
    assert result.failed == ("old red", "suite > bad")
    assert "not ok 2 - old red" in Path(result.output).read_text()
    refused = await desk.run("node --test --test-reporter=dot")
    assert (refused.outcome, refused.status, refused.failed) == ("failed", 1, ())
    assert "--test-reporter" not in refused.last_lines
    worker = "new (require('worker_threads').Worker)('1', {eval: true, env: {...process.env}})"
    assert (await desk.run(f'node -e "{worker}"')).outcome == "passed"


@needs_make
async def test_object_code_of_today_is_not_run_on_the_earlier_tree(desk: Desk) -> None:
    desk.write({".gitignore": "*.o\nprogram\n"})
    make = "test: main.o\n\t$(CC) -o program main.o && ./program\nmain.o: main.c value.h\n"
    main = '#include "value.h"\nint main(void) { return VALUE; }\n'
    before = desk.write({"Makefile": make, "main.c": main, "value.h": "#define VALUE 3\n"})
    desk.write({"value.h": "#define VALUE 0\n"})
    subprocess.run(["make", "-s", "-C", str(desk.root), "main.o"], check=True)  # noqa: ASYNC221
    give_time(desk.root / "value.h", seconds=100)
    give_time(desk.root / "main.o", seconds=101)
    tree = desk.keep("after")
    assert (await desk.run("make test", tree)).outcome == "passed"
    then = await desk.run("make test", before, is_earlier=True)
    assert (then.outcome, then.status) == ("failed", 2)
    assert "Error 3" in then.last_lines


async def test_bytecode_of_today_is_not_run_on_the_earlier_tree(desk: Desk) -> None:
    make_environment(desk.root)
    before = desk.write({"value.py": "x = 1\n", "prog.py": "import value, sys\nsys.exit(value.x)\n"})
    desk.write({"value.py": "x = 0\n"})
    give_time(desk.root / "value.py", seconds=100)
    py_compile.compile(str(desk.root / "value.py"), doraise=True)
    assert (await desk.run("python prog.py")).outcome == "passed"
    assert (await desk.run("python prog.py", before, is_earlier=True)).status == 1


@pytest.mark.parametrize("way", [Way.OVERLAY, Way.COPY])
async def test_the_earlier_tree_is_shown_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    if way is Way.COPY:
        monkeypatch.setattr(turn_views, "unmapped", lambda root: root)
    (desk.root / "kept").mkdir()
    old = {
        ".gitignore": "build/\n",
        "a": "1",
        "gone/in": "2",
        "kept/x": "3",
        "file": "4",
        "folder/f": "5",
        "run.sh": "6",
    }
    before = desk.write(old)
    (desk.root / "run.sh").chmod(0o755)
    (desk.root / "link").symlink_to("a")
    before = desk.keep("after")
    for name in ("gone/in", "file", "folder/f", "link"):
        (desk.root / name).unlink()
    (desk.root / "folder").rmdir()
    (desk.root / "run.sh").chmod(0o644)
    desk.write(
        {"a": "11", "file/now": "x", "folder": "y", "fresh/deep/z": "z", "kept/y": "y", "build/out": "o", "link": "l"}
    )
    (desk.root / "gone").rmdir()
    untouched = seen(desk.root)
    result = await desk.run(
        "find . -mindepth 1 | sort; cat a file folder/f link gone/in; test -x run.sh", before, is_earlier=True
    )
    shown = ".gitignore a build build/out file folder folder/f gone gone/in kept kept/x link run.sh"
    assert result.outcome == "passed", result
    assert result.last_lines.splitlines() == [*(f"./{path}" for path in shown.split()), "14512"]
    assert seen(desk.root) == untouched


async def test_an_earlier_tree_with_a_file_that_was_not_kept_is_not_shown(desk: Desk) -> None:
    before = desk.write({"large.bin": "x" * (11 * 1024 * 1024)})
    desk.write({"large.bin": "y"})
    result = await desk.run("true", before, is_earlier=True)
    assert (result.outcome, result.reason) == ("missing", "large.bin as it was then is not in the checkpoints")


async def test_what_runs_too_long_or_is_not_there(desk: Desk) -> None:
    desk.write({"a": "1"})
    result = await desk.run(ProjectCheck(name="slow", run="echo begun; sleep 60", timeout=2))
    assert (result.outcome, result.status, result.reason) == ("timeout", None, "it was still running after 2 s")
    assert result.last_lines == "begun"
    assert result.has_run
    assert not result.is_success
    result = await desk.run("A=1 no-such-program --all")
    assert (result.outcome, result.status, result.reason) == ("missing", 127, "no-such-program is not installed")
    assert (await desk.run("cd . && no-such-program")).outcome == "failed"
    assert (await desk.run("exit 127")).outcome == "failed"
    assert (await desk.run("./a")).outcome == "missing"
    assert (await desk.run("cat 'never closed")).outcome == "failed"
    desk.checks = []
    result = await desk.runner.run(Check(key=Key(Work.CHECK, 1), conversation=CONVERSATION, name="x", tree="t"))
    assert (result.outcome, result.reason) == ("missing", "the project has no such check any more")


async def test_the_end_of_what_is_printed_is_whole_lines(desk: Desk) -> None:
    result = await desk.run('for n in 1 2 3 4 5 6; do printf "$n%.0s" $(seq 500); echo; done')
    assert result.last_lines.splitlines() == [str(number) * 500 for number in (4, 5, 6)]


async def test_a_check_runs_again_where_somebody_edits_meanwhile(desk: Desk) -> None:
    first = desk.write({"a": "1"})
    check = asyncio.create_task(desk.run("touch /tmp/seen; until grep -q 2 a; do sleep 0.01; done; cat a; ls", first))
    await until(lambda: list(desk.store.glob("*/tmp/seen")), "the check runs")
    put(desk.root, {"new": "n", "a": "2"})
    result = await check
    assert (result.outcome, result.last_lines) == ("passed", "2a\nnew")
    assert result.tree == desk.keep("after") != first


async def test_a_change_that_was_taken_back_counts_too(desk: Desk) -> None:
    first = desk.write({".gitignore": "build/\n", "a": "1", "build/signal": "0"})
    line = "touch /tmp/seen; until grep -q '[12]' build/signal; do sleep 0.01; done; grep -q 2 build/signal"
    check = asyncio.create_task(desk.run(line, first))
    await until(lambda: list(desk.store.glob("*/tmp/seen")), "the check runs")
    run = next(iter(desk.store.glob("*/tmp/seen"))).parent
    for content in ("2", "1"):
        (desk.root / "a").write_text(content)
    (desk.root / "build/signal").write_text("1")
    await until(lambda: not run.exists(), "the first run has ended")
    (desk.root / "build/signal").write_text("2")
    assert (await check).outcome == "passed"


async def test_a_workspace_that_never_rests_is_named_so(desk: Desk) -> None:
    tree = desk.write({"a": "1"})
    line = "n=$(cat a); touch /tmp/seen; until [ $(cat a) != $n ]; do sleep 0.01; done"
    check = asyncio.create_task(desk.run(line, tree))
    known: set[Path] = set()

    def runs() -> set[Path]:
        return set(desk.store.glob("*/tmp/seen")) - known

    for number in range(ATTEMPTS):
        await until(runs, "the next run")
        known |= runs()
        (desk.root / "a").write_text(f"1{number}")
    result = await check
    assert (result.outcome, result.status, result.tree) == ("changed", None, tree)
    assert not result.has_run


async def test_a_cancelled_check_leaves_nothing(desk: Desk) -> None:
    tree = desk.write({"a": "1"})
    check = asyncio.create_task(desk.run("touch /tmp/seen; sleep 600", tree))
    await until(lambda: list(desk.store.glob("*/tmp/seen")), "the check runs")
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    assert names_in(desk.store) == []
    assert (await desk.run("true")).outcome == "passed"


async def test_checks_run_one_after_another(desk: Desk) -> None:
    tree = desk.write({"a": "1"})
    line = "touch /tmp/seen; sleep 0.2"
    checks = [asyncio.create_task(desk.run(line, tree)) for _ in range(2)]
    most = 0
    while not all(check.done() for check in checks):
        most = max(most, len(list(desk.store.glob("*/tmp/seen"))))
        await asyncio.sleep(0.01)
    assert most == 1


async def test_where_nothing_can_be_kept_apart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_views, "unmapped", lambda root: root)
    monkeypatch.setattr(turn_views, "LARGEST_COPY", -1)
    before = desk.write({"a": "1"})
    desk.write({"a": "2"})
    assert (await desk.run("cat a")).outcome == "passed"
    for result in (await desk.run("echo > b"), await desk.run("cat a", before, is_earlier=True)):
        assert (result.outcome, result.reason) == ("uncontained", turn_views.TOO_LARGE)
    off = Desk(Workspace(desk.root), RunPolicy.OFF)
    assert (await off.run("cat a", before)).outcome == "uncontained"


async def test_without_a_sandbox(workspace: Workspace) -> None:
    desk = Desk(workspace, RunPolicy.UNSANDBOXED)
    make_environment(desk.root)
    desk.write(PROJECT)
    untouched = seen(desk.root)
    result = await desk.run(PYTEST)
    assert (result.outcome, result.failed) == ("failed", ("test_calc.py::test_old[a b]",))
    assert seen(desk.root) == untouched


async def test_lock_files_tell_whether_runs_can_be_compared(desk: Desk) -> None:
    bare = await desk.run("true", desk.write({"a": "1"}))
    before = desk.write({"web/package-lock.json": "{}"})
    first = await desk.run("true", before)
    second = await desk.run("true", desk.write({"a": "2"}))
    third = await desk.run("true", desk.write({"web/package-lock.json": "{ }"}))
    assert bare.environment == ""
    assert first.environment == second.environment != third.environment
    assert (await desk.run("true", before, is_earlier=True)).environment == first.environment


async def test_an_inspection_names_what_differs_in_the_end(desk: Desk) -> None:
    put(desk.root, {".gitignore": "*.log\n", "a.py": "1\n2\n", "gone.py": "1\n", "same.py": "1\n", "doc.md": "x\n"})
    base = desk.keep("before")
    put(desk.root, {"a.py": "1\n3\n4\n", "same.py": "2\n", "scratch": "s", "x.log": "l"})
    desk.keep("after")
    put(desk.root, {"same.py": "1\n", "sub/new.py": "n\n", "large.bin": b"x" * (11 * 1024 * 1024)})
    for name in ("scratch", "gone.py"):
        (desk.root / name).unlink()
    desk.checks = [
        ProjectCheck(name="always", run="true"),
        ProjectCheck(name="python", run="true", when=("*.py",)),
        ProjectCheck(name="deep", run="true", when=("docs/**", "sub/**/*.py")),
        ProjectCheck(name="docs", run="true", when=("*.md",)),
    ]
    found = await desk.inspect()
    assert found.changed == (
        ChangedFile(path="a.py", added=2, removed=1),
        ChangedFile(path="gone.py", removed=1, kind="deleted"),
        ChangedFile(path="large.bin", kind="new"),
        ChangedFile(path="sub/new.py", added=1, kind="new"),
    )
    assert (found.base, found.checks, found.fault) == (base, ("always", "python", "deep"), "")
    assert found.tree == desk.checkpoints.commits(CONVERSATION)[-1].tree

    (desk.root / "large.bin").unlink()
    put(desk.root, {"a.py": "1\n2\n", "gone.py": "1\n"})
    (desk.root / "sub/new.py").unlink()
    found = await desk.inspect()
    assert (found.changed, found.checks, found.fault) == ((), (), "")


async def test_an_inspection_names_a_check_that_the_work_has_removed(desk: Desk) -> None:
    """It cannot be run any more, and says so; one that is there in another form is run in that form."""
    put(desk.root, {"tests/test_a.py": "1\n"})
    desk.keep("before")
    (desk.root / "tests/test_a.py").unlink()
    desk.checks = [ProjectCheck(name="lint", run="true")]
    desk.earlier_checks = [ProjectCheck(name="test", run="false"), ProjectCheck(name="lint", run="false")]
    found = await desk.inspect()
    assert found.checks == ("lint", "test")
    gone = Check(key=Key(Work.CHECK, 1, "test"), conversation=CONVERSATION, name="test", tree=found.tree)
    result = await desk.runner.run(gone)
    assert (result.outcome, result.reason) == ("missing", "the project has no such check any more")


async def test_an_inspection_says_what_it_cannot_see(desk: Desk) -> None:
    put(desk.root, {"a": "1"})
    assert (await desk.inspect()).fault == "there is no checkpoint of the beginning of this cycle"
    put(desk.root, {"a": "2"})
    desk.keep("before", cycle=1)
    put(desk.root, {"a": "3"})
    assert (await desk.inspect(cycle=2)).fault == "there is no checkpoint of the beginning of this cycle"
    assert [file.path for file in (await desk.inspect(cycle=1)).changed] == ["a"]
