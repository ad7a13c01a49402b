"""Nothing a model writes as a path leaves the workspace, and files are put back as they were, never through a link."""

import errno
import os
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.tools import restore
from tenex.tools.restore import LINK, Copy
from tenex.tools.tool import Refusal
from tenex.tools.workspace import LONGEST_PATH, Workspace, is_documentation

from .conftest import Bench, fails, make_deep, names_in, put

KIB = 1024


def test_paths_inside_are_taken_from_the_root_and_their_links_followed(tmp_path: Path, workspace: Workspace) -> None:
    put(workspace.root, {"real/x": ""})
    (workspace.root / "link").symlink_to("real")
    (tmp_path / "alias").symlink_to(workspace.root)
    alias = Workspace(tmp_path / "alias")
    for path, name in (
        ("src/app.py", "src/app.py"),
        ("./a//b", "a/b"),
        (".", "."),
        (f"{workspace.root}/a.txt", "a.txt"),
        ("link/a", "real/a"),
    ):
        assert workspace.resolve(path) == alias.resolve(path) == workspace.root / name
    assert alias.resolve(f"{tmp_path}/alias/a") == workspace.root / "a"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "control character"),
        ("\ud800", "control character"),
        ("../outside/secret.txt", "`..`"),
        ("a/../b", "`..`"),
        ("/etc/passwd", "outside the workspace"),
        ("ROOT-2/a", "outside the workspace"),
        ("x" * (LONGEST_PATH + 1), "longer than"),
        ("n" * 300, "too long"),
        (".git/config", "belongs to git"),
        ("sub/.GIT/hooks/post-commit", "belongs to git"),
        ("out", "leads outside"),
        ("out/secret.txt", "leads outside"),
        ("file", "leads outside"),
        ("chain", "leads outside"),
        ("null", "leads outside"),
        ("new", "leads outside"),
        ("self", "leads nowhere"),
        ("self/below", "leads nowhere"),
        ("gone", "leads nowhere"),
        ("pipe", "neither a file nor a folder"),
    ],
)
def test_what_is_no_path_in_here_is_refused_with_a_reason(
    tmp_path: Path, workspace: Workspace, path: str, message: str
) -> None:
    put(tmp_path, {"workspace-2/a": "", "workspace/deep/x": ""})
    for name, target in {
        "out": "../outside",
        "file": "../outside/secret.txt",
        "chain": "file",
        "null": "/dev/null",
        "new": "../outside/new.txt",
        "self": "self",
        "gone": "nowhere",
    }.items():
        (workspace.root / name).symlink_to(target)
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(Refusal, match=message):
        workspace.update(workspace.resolve(path.replace("ROOT", str(workspace.root))), lambda _: b"", KIB)


NOTATIONS = [
    "~",
    "~/notes/a.txt",
    "./~/a.txt",
    "src/~/a.txt",
    "~someone/a.txt",
    "$HOME/a.txt",
    "${HOME}/a.txt",
    "src/$PWD/a.txt",
    "$(pwd)/a.txt",
    "`pwd`/a.txt",
    "%USERPROFILE%/a.txt",
    r"%USERPROFILE%\a.txt",
    r"C:\notes\a.txt",
    "C:/notes/a.txt",
    r"\\server\a.txt",
    r"src\a.txt",
    "file:///tmp/a.txt",
    "file:/tmp/a.txt",
    "FILE://localhost/a.txt",
    "https://example.com/a.txt",
    "vscode-remote://x/a.txt",
    "my%20notes.txt",
    "src%2fa.txt",
    '"a.txt"',
    "'a.txt'",
    "`a.txt`",
    "<a.txt>",
    "a.txt ",
    " a.txt",
    "src /a.txt",
    "a.txt\u00a0",
    "ROOT/~/a.txt",
]


@pytest.mark.parametrize("path", NOTATIONS)
async def test_a_path_in_another_notation_is_refused_by_every_tool_with_the_workspaces_root(
    tools: Bench, root: Path, path: str
) -> None:
    put(root, {"mine": "mine"})
    path = path.replace("ROOT", str(root))
    calls: dict[str, dict[str, Any]] = {
        "write_file": {"path": path, "content": "x"},
        "edit_file": {"path": path, "edits": [{"old": "x", "new": "y"}]},
        "read_file": {"path": path},
        "list_files": {"path": path},
        "search_files": {"path": path, "pattern": "x"},
        "delete_file": {"path": path},
        "check": {"path": path},
        "shell": {"command": "true", "cwd": path},
    }
    for tool, arguments in calls.items():
        refusal = await tools.refused(tool, **arguments)
        assert "nothing is expanded or decoded here" in refusal, tool
        assert refusal.endswith(f"the workspace's folder, {root}."), tool
    await tools.refused("move_file", path="mine", to=path)
    await tools.refused("move_file", path=path, to="yours")
    assert names_in(root) == ["mine"]


@pytest.mark.parametrize(
    "char", ["\0", "\n", "\r", "\t", "\x7f", "\x85", "\u200b", "\u202e", "\u2028", "\ufeff", "\ud800"]
)
async def test_a_path_with_a_character_that_is_not_seen_is_refused(tools: Bench, root: Path, char: str) -> None:
    for path in (f"a{char}", f"{char}a", f"src{char}/a"):
        assert "control character" in await tools.refused("write_file", path=path, content="x")
    assert names_in(root) == []


PLAIN = [
    "routes/$user.tsx",
    "routes/[id]/(group)/page.tsx",
    "@types/x.d.ts",
    "a b/c d.txt",
    "notes~",
    "100%.txt",
    "src/${{name}}/x",
    "kids'.txt",
    "a:b.txt",
    "C#/x",
    "\u0645\u06cc\u200c\u062e",
]


@pytest.mark.parametrize("path", PLAIN)
async def test_unusual_names_that_mean_nothing_else_are_names(tools: Bench, root: Path, path: str) -> None:
    assert (await tools.do("write_file", path=path, content="x")).ok
    assert (root / path).read_text() == "x"


async def test_what_is_there_can_be_used_whatever_it_is_called(tools: Bench, root: Path) -> None:
    """So what another program has made by mistake can be read, moved and deleted."""
    put(root, {"~/notes/a.txt": "x", "my%20notes.txt": "x", "~$open.docx": "x"})
    assert (await tools.do("read_file", path="~/notes/a.txt")).ok
    assert (await tools.do("move_file", path="~/notes/a.txt", to="a.txt")).ok
    assert (await tools.do("move_file", path="my%20notes.txt", to="my notes.txt")).ok
    assert (await tools.do("delete_file", path="~/notes")).ok
    assert (await tools.do("delete_file", path="~")).ok
    assert names_in(root) == ["a.txt", "my notes.txt", "~$open.docx"]


_SEGMENTS = st.sampled_from(
    ["a", "b", "..", ".", "", "out", "in", "loop", "gone", "file", "ROOT", "/", "~", "\0", "é", " ", "outside", ".git"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(segments=st.lists(_SEGMENTS | st.text(max_size=5), max_size=7), absolute=st.booleans())
def test_no_path_resolves_outside(workspace: Workspace, segments: list[str], absolute: bool) -> None:
    """Holds for every mix of names, dots, links and roots; what is not inside is refused, never an error."""
    (workspace.root / "a").mkdir(exist_ok=True)
    for name, target in (("out", "../outside"), ("in", "a"), ("loop", "loop"), ("gone", "nowhere")):
        with suppress(FileExistsError):
            (workspace.root / name).symlink_to(target)
    path = ("/" if absolute else "") + "/".join(segments).replace("ROOT", str(workspace.root))
    try:
        real = workspace.resolve(path)
    except Refusal:
        return
    assert Path(os.path.realpath(real)) == real
    assert real == workspace.root or workspace.root in real.parents


def test_a_link_or_pipe_put_in_after_the_check_is_not_followed(workspace: Workspace, outside: Path) -> None:
    """Between `resolve` and the opening, a file and a folder become links to outside: both are refused."""
    put(workspace.root, {"dir/secret.txt": "mine", "file": "mine", "pipe": "mine"})
    in_folder, file, pipe = (workspace.resolve(path) for path in ("dir/secret.txt", "file", "pipe"))
    (workspace.root / "dir").rename(workspace.root / "moved")
    (workspace.root / "dir").symlink_to(outside)
    file.unlink()
    file.symlink_to(outside / "secret.txt")
    pipe.unlink()
    os.mkfifo(pipe)
    for real in (in_folder, file):
        with pytest.raises(Refusal, match="link"):
            workspace.read(real, KIB)
        with pytest.raises(Refusal, match="link"):
            workspace.update(real, lambda _: b"overwritten", KIB)
    with pytest.raises(Refusal, match="neither a file nor a folder"):
        workspace.read(pipe, KIB)
    assert (outside / "secret.txt").read_text() == "the secret\n"


def test_an_update_makes_folders_keeps_permissions_and_leaves_nothing_beside(workspace: Workspace) -> None:
    real = workspace.resolve("a/b/run.sh")
    workspace.update(real, lambda current: b"1" if current is None else b"?", KIB)
    real.chmod(0o4750)
    workspace.update(real, lambda current: (current or b"") + b"2", KIB)
    assert real.read_bytes() == b"12"
    assert real.stat().st_mode & 0o7777 == 0o750  # and no setuid
    assert names_in(real.parent) == ["run.sh"]


def test_updates_of_one_file_wait_for_one_another(workspace: Workspace) -> None:
    real = workspace.resolve("log")
    with ThreadPoolExecutor(8) as threads:
        for _ in range(160):
            threads.submit(workspace.update, real, lambda current: (current or b"") + b"x\n", 64 * KIB)
    assert real.read_bytes() == b"x\n" * 160


def test_a_refused_update_changes_nothing(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes | None) -> bytes:
        raise Refusal("No")

    put(root, {"a": "before"})
    messages = {errno.ENOSPC: "disk is full", errno.EACCES: "does not permit", errno.EIO: "Input/output error"}
    for code, message in messages.items():
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails(code))
            with pytest.raises(Refusal, match=f"a cannot be used: .*{message}"):
                workspace.update(workspace.resolve("a"), lambda _: b"after", KIB)
    with pytest.raises(Refusal, match="No"):
        workspace.update(workspace.resolve("b/c"), refuse, KIB)
    assert (root / "a").read_text() == "before"
    assert names_in(root) == ["a"]


def test_walking_leaves_out_what_programs_made_and_follows_no_link(workspace: Workspace, outside: Path) -> None:
    made = (".git/config", "node_modules/m/i.js", "src/__pycache__/b.pyc", ".venv/x", ".tenex-1")
    put(workspace.root, dict.fromkeys(("a.py", "src/b.py", ".env", *made), "x"))
    (workspace.root / "out").symlink_to(outside)
    (workspace.root / "again").symlink_to(".")
    (workspace.root / "shut").mkdir(mode=0)
    left_out: list[str] = []
    assert sorted(workspace.walk(workspace.root, (), left_out)) == [".env", "a.py", "src/b.py"]
    assert sorted(left_out) == [".venv/", "node_modules/", "src/__pycache__/"]
    assert list(workspace.walk(workspace.resolve("src"), (), [])) == ["src/b.py"]
    assert list(workspace.walk(workspace.resolve(".venv"), (), [])) == [".venv/x"]
    with pytest.raises(Refusal, match="no folder none"):
        list(workspace.walk(workspace.resolve("none"), (), []))


def test_walking_goes_as_deep_as_a_path_may_be_and_needs_few_handles(workspace: Workspace) -> None:
    """A program can make a folder that is deeper than our stack, and than the files we may have open."""

    def files(number: int, here: int) -> None:
        if number in (2, 2_990):
            os.close(os.open("f", os.O_CREAT, dir_fd=here))

    make_deep(workspace.root, 3_000, at=files)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        assert list(workspace.walk(workspace.root, (), [])) == ["d/d/d/f"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        restore.clear_away(workspace.root / "d")  # pytest cannot


def test_documentation_is_known_by_name_or_folder() -> None:
    known = "README README.md readme.txt CHANGELOG.rst docs/conf.py docs/a/b.png LICENSE-MIT pkg/README.txt a.md"
    others = "src/app.py requirements.txt readme.py docs.py src/docs/a.py licensing data.txt .gitignore"
    assert [path for path in f"{known} {others}".split() if is_documentation(path)] == known.split()


def test_our_python_can_only_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written there runs as the daemon at its next start, outside every sandbox."""
    put(root, {".venv/lib/site.py": "ours"})
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    ours = Workspace(root)
    real = ours.resolve(".venv/lib/site.py")
    assert ours.read(real, 100) == b"ours"
    for change in (
        lambda: ours.update(real, lambda _: b"theirs", 100),
        lambda: ours.update(ours.resolve(".venv/lib/x.pth"), lambda _: b"theirs", 100),
        lambda: ours.remove(real, lambda _: None, 100),
        lambda: ours.move(real, ours.entry("x")),
        lambda: ours.remove_folder(ours.entry(".venv/lib")),
    ):
        with pytest.raises(Refusal, match="belongs to the Python"):
            change()
    assert real.read_text() == "ours"


@pytest.fixture
def secret(root: Path, outside: Path) -> Path:
    """A file outside, to which the link `x` leads as if it were a folder of the workspace."""
    (root / "x").symlink_to(outside)
    return outside / "secret.txt"


def test_a_link_in_the_place_of_a_folder_is_not_followed(root: Path, secret: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's choice
        restore.permit(root, b"x/secret.txt", 0o600)
    restore.remove(root, b"x/secret.txt", Copy(0o644, b"the secret\n"))
    with pytest.raises(OSError):  # noqa: PT011
        restore.replace(root, b"x/secret.txt", Copy(0o644, b"ours"), None)
    assert secret.read_text() == "the secret\n"
    restore.remove(root, b"x", Copy(LINK, os.fsencode(secret.parent)))
    restore.replace(root, b"x/secret.txt", Copy(0o644, b"ours"), None)
    assert secret.read_text() == "the secret\n"
    assert not (root / "x").is_symlink()
    assert (root / "x/secret.txt").read_text() == "ours"


def test_folders_that_become_empty_go_and_no_others(root: Path) -> None:
    put(root, {"x/b": ""})
    for path in ("x/y/z", "x/was/empty", "x/c"):
        (root / path).mkdir(parents=True)
    for folder in (b"x/y/z", b"x/was/empty", b"x/gone", b"x/c"):
        restore.remove_empty_folders(root, folder, {b"x/was"})
    assert names_in(root / "x") == ["b", "was"]
    assert names_in(root / "x/was") == []


def test_permissions_are_given_to_files_and_not_through_links(root: Path, secret: Path) -> None:
    put(root, {"a": ""})
    (root / "a").chmod(0)
    restore.permit(root, b"a", 0o6755)
    assert (root / "a").stat().st_mode & 0o7777 == 0o755
    (root / "l").symlink_to(secret)
    mode = secret.stat().st_mode
    restore.permit(root, b"l", 0o777)
    assert secret.stat().st_mode == mode


def test_a_folder_deeper_than_our_stack_is_cleared_away(root: Path, secret: Path) -> None:
    """A program can make one in a second, with links that lead out and folders that are shut."""

    def awkward(number: int, here: int) -> None:
        if number % 500 == 0:
            os.symlink(secret.parent, "out", dir_fd=here)
            os.mkdir("shut", 0, dir_fd=here)

    (root / "a").mkdir()
    make_deep(root / "a", 3_000, at=awkward)
    with pytest.raises(OSError, match="not empty"):
        restore.replace(root, b"a", Copy(0o644, b"was"), None)
    restore.clear_away(root / "a")
    assert names_in(root) == ["x"]
    assert secret.read_text() == "the secret\n"
